"""Relations between objects (section 3.1 of the paper), as masked array code.

A relation is a predicate f(o, o1, ..., om). Evaluated *from* its arguments it gives a Boolean mask over the
objects of a state, so the cost is linear in their number and no object-by-object table is ever built:

1. `pick` answers for one tuple of arguments: {o | f(o, o1, ..., om)} without o1, ..., om themselves;
2. `select` lifts it to sets of arguments: the union over all tuples, without the arguments themselves.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from spare.errors import DefinitionError, one_of
from spare.language.checks import asked, check_key, check_mask


class Objects:
    """Property columns by attribute: `o.x` or `o["x"]`, of shape (N,) for all objects and () for one.

    A property that an object's type does not have is NaN, so that comparisons with it are false. `o.isa("block")` asks
    for a type, `o.isa("colour=red")` for a category; `values_of` says what the values of categories are called.
    """

    __slots__ = ("_names", "_values", "_values_of")

    def __init__(
        self,
        names: tuple[str, ...],
        values: Float[Array, "*n P"],
        values_of: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._names = names
        self._values = values
        self._values_of = values_of or {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # only properties are public, so that copying and debugging tools fall through
            raise AttributeError(name)
        if name == "isa" and name not in self._names:
            return functools.partial(_isa, self)
        return self[name]

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise DefinitionError(one_of("property", name, self._names))
        return self._values[..., self._names.index(name)]

    def __eq__(self, other: object) -> bool:
        raise DefinitionError("compare properties, such as o.x == p.x; an argument itself is never among those found")

    __hash__ = None  # type: ignore[assignment]


def _single(objects: Objects, index: Int[Array, ""]) -> Objects:
    """The object at `index`; a function, so that every public attribute of `Objects` is a property's name."""
    return Objects(objects._names, objects._values[index], objects._values_of)


def _isa(objects: Objects, what: str) -> Array:
    """Which objects are of a type, or have a category: `block`, `colour=red`."""
    column, _, value = ("type", "", what) if "=" not in what else what.partition("=")
    if column not in objects._values_of:
        known = [f"{name}={values[0]}" for name, values in objects._values_of.items() if name != "type"]
        raise DefinitionError(one_of("type or category", what, (*objects._values_of.get("type", ()), *known)))
    if value not in objects._values_of[column]:
        raise DefinitionError(one_of(f"value of {column!r}", value, objects._values_of[column]))
    return objects[column] == objects._values_of[column].index(value)


FormulaFunction = Callable[..., Array]
Mask = Bool[Array, " N"]
Indices = tuple[Int[Array, ""], ...]


class Parameters(dict[str, Any]):
    """The action's parameters by name; NaN for those of other actions of the domain, an error for unknown ones."""

    def __init__(self, given: Mapping[str, Any], known: Iterable[str] = ()) -> None:
        super().__init__(given)
        self.known = tuple(known)

    def __missing__(self, name: str) -> float:
        if name not in self.known:
            raise DefinitionError(one_of("parameter", name, self.known))
        return math.nan


class SceneView(NamedTuple):
    """What a relation sees: all objects of a scene, which rows are objects (`valid`), the action's parameters by name.

    A parameter that other actions have and this one has not is NaN, so that comparisons with it are false. `pairs` has
    the stored relations by name, (E, 2) rows each, -1 where there is none.
    """

    objects: Objects
    valid: Mask
    parameters: Parameters
    pairs: Mapping[str, Any] = {}


class Relation(abc.ABC):
    """f(o, o1, ..., om): which objects stand in this relation to given ones."""

    @property
    @abc.abstractmethod
    def arity(self) -> int:
        """m, the number of arguments."""

    @abc.abstractmethod
    def pick(self, scene: SceneView, arguments: Indices) -> Mask:
        """{o | f(o, o1, ..., om)} without the arguments, for one tuple of object indices."""

    @abc.abstractmethod
    def describe(self) -> str:
        """How the relation is built, in one line."""

    def inverted(self) -> Relation:
        """f⁻¹(o, o1) = f(o1, o)."""
        return Inverse(self)

    def select(self, scene: SceneView, arguments: tuple[Mask, ...]) -> Mask:
        """The union of `pick` over all tuples drawn from sets of arguments, without the arguments themselves."""
        found = _union(self, scene, arguments, ())
        for argument in arguments:
            found = found & ~argument
        return found & scene.valid


def _union(
    relation: Relation,
    scene: SceneView,
    sets: tuple[Mask, ...],
    chosen: Indices,
) -> Mask:
    """Loop over the members of the first set, recursing into the rest: one pass over N per tuple, no table."""
    if not sets:
        return check_mask(relation.pick(scene, chosen), scene.valid.shape[0])

    def more(carry: tuple[Mask, Mask]) -> Bool[Array, ""]:
        return carry[0].any()

    def body(carry: tuple[Mask, Mask]) -> tuple[Mask, Mask]:
        remaining, found = carry
        member = jnp.argmax(remaining)
        found = found | _union(relation, scene, sets[1:], (*chosen, member))
        return remaining.at[member].set(False), found

    return jax.lax.while_loop(more, body, (sets[0] & scene.valid, jnp.zeros_like(scene.valid)))[1]


def _others(valid: Mask, arguments: Indices) -> Mask:
    positions = jnp.arange(valid.shape[0])
    for argument in arguments:
        valid = valid & (positions != argument)
    return valid


@dataclasses.dataclass(frozen=True)
class Formula(Relation):
    """A relation written as a broadcasting expression over properties; without arguments it is about o alone."""

    formula: FormulaFunction
    arguments: int
    swapped: bool = False

    @property
    def arity(self) -> int:
        """m, the number of arguments."""
        return self.arguments

    def pick(self, scene: SceneView, arguments: Indices) -> Mask:
        """f(o, o1, ..., om) for every o at once."""
        ones = tuple(_single(scene.objects, index) for index in arguments)
        given = (*ones, scene.objects) if self.swapped else (scene.objects, *ones)
        holds = asked(self.formula, *given)
        return check_mask(holds, scene.valid.shape[0]) & _others(scene.valid, arguments)

    def inverted(self) -> Relation:
        """f(o1, o): the same expression with its two objects exchanged, at the same cost."""
        return dataclasses.replace(self, swapped=not self.swapped)

    def describe(self) -> str:
        """Formulas are code: only their shape can be said."""
        return f"formula/{self.arguments}" + ("⁻¹" if self.swapped else "")


@dataclasses.dataclass(frozen=True)
class Condition(Relation):
    """{o1} where a condition holds of o1, nobody where it does not: a question about an object, as a relation."""

    condition: FormulaFunction

    @property
    def arity(self) -> int:
        """1: the object that is asked about."""
        return 1

    def _holds(self, scene: SceneView) -> Mask:
        return check_mask(asked(self.condition, scene.objects), scene.valid.shape[0]) & scene.valid

    def pick(self, scene: SceneView, arguments: Indices) -> Mask:
        """The argument itself, if the condition holds of it."""
        return self._holds(scene) & (jnp.arange(scene.valid.shape[0]) == arguments[0])

    def select(self, scene: SceneView, arguments: tuple[Mask, ...]) -> Mask:
        """Those arguments of which the condition holds."""
        return self._holds(scene) & arguments[0]

    def inverted(self) -> Relation:
        """The same: an object is found from itself alone."""
        return self

    def describe(self) -> str:
        """Conditions are code, like formulas."""
        return "test"


@dataclasses.dataclass(frozen=True)
class Extreme(Relation):
    """argmin (or argmax) over o of key(o, o1, ..., om), ties all kept; a key of ±inf means `not eligible`."""

    key: FormulaFunction
    arguments: int
    largest: bool = False

    @property
    def arity(self) -> int:
        """m, the number of arguments."""
        return self.arguments

    def pick(self, scene: SceneView, arguments: Indices) -> Mask:
        """All objects whose key equals the best one among eligible others."""
        key = asked(self.key, scene.objects, *(_single(scene.objects, index) for index in arguments))
        key = check_key(key, scene.valid.shape[0]).astype(scene.objects._values.dtype)
        key = jnp.broadcast_to(key, scene.valid.shape)
        eligible = _others(scene.valid, arguments) & jnp.isfinite(key)
        cost = jnp.where(eligible, -key if self.largest else key, jnp.inf)
        return eligible & (cost == cost.min())

    def describe(self) -> str:
        """`farthest` or `closest`, and the arity of the key."""
        return f"{'farthest' if self.largest else 'closest'}/{self.arguments}"


@dataclasses.dataclass(frozen=True)
class Closure(Relation):
    """f⁺: everything reached from the argument by one or more steps of a relation of arity 1."""

    base: Relation

    @property
    def arity(self) -> int:
        """1."""
        return 1

    def pick(self, scene: SceneView, arguments: Indices) -> Mask:
        """The objects reached from one."""
        return self.select(scene, (jnp.arange(scene.valid.shape[0]) == arguments[0],))

    def select(self, scene: SceneView, arguments: tuple[Mask, ...]) -> Mask:
        """Breadth first from the whole set: each object is expanded once."""
        start = arguments[0] & scene.valid

        def more(carry: tuple[Mask, Mask]) -> Bool[Array, ""]:
            return carry[1].any()

        def grow(carry: tuple[Mask, Mask]) -> tuple[Mask, Mask]:
            reached, frontier = carry
            fresh = self.base.select(scene, (frontier,)) & ~reached
            return reached | fresh, fresh

        reached, _ = jax.lax.while_loop(more, grow, (start, start))
        return reached & ~arguments[0]

    def depth(self, scene: SceneView, start: Mask) -> Int[Array, " N"]:
        """How many steps lead from the set to each object that it reaches; 0 for the set itself and for all others."""

        def more(carry: tuple[Mask, Mask, Any, Any]) -> Bool[Array, ""]:
            return carry[1].any()

        def grow(carry: tuple[Mask, Mask, Any, Any]) -> tuple[Mask, Mask, Any, Any]:
            reached, frontier, steps, found = carry
            fresh = self.base.select(scene, (frontier,)) & ~reached
            return reached | fresh, fresh, steps + 1, jnp.where(fresh, steps + 1, found)

        start = start & scene.valid
        blank = jnp.zeros(scene.valid.shape, jnp.int32)
        return jax.lax.while_loop(more, grow, (start, start, jnp.int32(0), blank))[3]

    def inverted(self) -> Relation:
        """The closure of the inverse is the inverse of the closure."""
        return Closure(self.base.inverted())

    def describe(self) -> str:
        """`closure(...)`."""
        return f"closure({self.base.describe()})"


@dataclasses.dataclass(frozen=True)
class Inverse(Relation):
    """{o | o1 is picked from o}, for relations that cannot be turned around: one evaluation per object."""

    base: Relation

    @property
    def arity(self) -> int:
        """1."""
        return 1

    def pick(self, scene: SceneView, arguments: Indices) -> Mask:
        """Ask every object in turn; time grows with N squared, memory does not."""

        def asks(index: Int[Array, ""]) -> Bool[Array, ""]:
            return self.base.pick(scene, (index,))[arguments[0]]

        return jax.lax.map(asks, jnp.arange(scene.valid.shape[0])) & _others(scene.valid, arguments)

    def inverted(self) -> Relation:
        """Inverting twice gives the relation back."""
        return self.base

    def describe(self) -> str:
        """`inverse(...)`."""
        return f"inverse({self.base.describe()})"


@dataclasses.dataclass(frozen=True)
class Combination(Relation):
    """Tuple by tuple: both (`&`), either (`|`), or the first but not the second (`-`)."""

    operator: str
    left: Relation
    right: Relation

    @property
    def arity(self) -> int:
        """That of both parts."""
        return self.left.arity

    def pick(self, scene: SceneView, arguments: Indices) -> Mask:
        """Combine what the parts pick from the same arguments."""
        left = self.left.pick(scene, arguments)
        right = self.right.pick(scene, arguments)
        if self.operator == "&":
            return left & right
        return left | right if self.operator == "|" else left & ~right

    def inverted(self) -> Relation:
        """Inversion distributes over all three operators."""
        return Combination(self.operator, self.left.inverted(), self.right.inverted())

    def describe(self) -> str:
        """`(a & b)`."""
        return f"({self.left.describe()} {self.operator} {self.right.describe()})"


def sees_objects_alone(relation: Relation) -> bool:
    """Whether a relation is built of SPARE's own, whose formulas see objects and never the action's parameters."""
    return type(relation).__module__.startswith("spare.language.") and all(
        sees_objects_alone(part) for part in vars(relation).values() if isinstance(part, Relation)
    )
