"""Relations that a state stores: links, pairs of a list, and types. Each costs time linear in objects and pairs.

on       whom x is on                     on-      who is on x
on*      all that is reached from x       on-*     all from which x is reached
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from spare.language.relations import Indices, Mask, Relation, SceneView


def _at(index: Int[Array, ""], scene: SceneView) -> Mask:
    return jnp.arange(scene.valid.shape[0]) == index


def _marked(rows: Int[Array, " K"], chosen: Bool[Array, " K"], count: int) -> Mask:
    """Which of `count` rows are among the chosen ones."""
    return jnp.zeros(count + 1, bool).at[jnp.where(chosen, rows, count)].set(True)[:count]


class _Stored(Relation):
    """A relation of arity 1 that answers for a whole set at once."""

    @property
    def arity(self) -> int:
        """1."""
        return 1

    def pick(self, scene: SceneView, arguments: Indices) -> Mask:
        """From one object."""
        return self.select(scene, (_at(arguments[0], scene),))


@dataclasses.dataclass(frozen=True)
class Linked(_Stored):
    """{o | p links to o}, or, backwards, {o | o links to p}: a property of kind `Link`."""

    prop: str
    backwards: bool = False

    def select(self, scene: SceneView, arguments: tuple[Mask, ...]) -> Mask:
        """One gather or one scatter over all objects."""
        given, column = arguments[0] & scene.valid, scene.objects[self.prop]
        leads = scene.valid & (column >= 0)  # NaN where a type has no such link
        rows = jnp.where(leads, column, 0).astype(jnp.int32)
        found = leads & given[rows] if self.backwards else _marked(rows, leads & given, len(given))
        return found & scene.valid & ~arguments[0]

    def inverted(self) -> Relation:
        """The other way."""
        return dataclasses.replace(self, backwards=not self.backwards)

    def describe(self) -> str:
        """`link(on)`."""
        return f"link({self.prop})" + ("⁻¹" if self.backwards else "")


@dataclasses.dataclass(frozen=True)
class Paired(_Stored):
    """{o | (p, o) is stored}, or, backwards, {o | (o, p) is stored}: a relation declared as `Edges`."""

    name: str
    backwards: bool = False

    def select(self, scene: SceneView, arguments: tuple[Mask, ...]) -> Mask:
        """One pass over the pairs."""
        given, pairs = arguments[0] & scene.valid, scene.pairs[self.name]
        source, target = (pairs[:, k] for k in ((1, 0) if self.backwards else (0, 1)))
        chosen = (source >= 0) & given[jnp.maximum(source, 0)]
        return _marked(target, chosen, len(given)) & scene.valid & ~arguments[0]

    def inverted(self) -> Relation:
        """The other way."""
        return dataclasses.replace(self, backwards=not self.backwards)

    def describe(self) -> str:
        """`pairs(road)`."""
        return f"pairs({self.name})" + ("⁻¹" if self.backwards else "")


@dataclasses.dataclass(frozen=True)
class OfType(Relation):
    """{o | o is of this type}, without arguments."""

    name: str

    @property
    def arity(self) -> int:
        """0."""
        return 0

    def pick(self, scene: SceneView, arguments: Indices) -> Mask:
        """By the column that says the type."""
        return scene.objects.isa(self.name) & scene.valid

    def describe(self) -> str:
        """`type(block)`."""
        return f"type({self.name})"
