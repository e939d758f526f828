"""What a cost or a goal sees of a state: objects by name, all objects together, the start, and given numbers.

A formula such as `lambda s: jnp.hypot(s["a"].x - 0.3, s["a"].y)` is traced once: which row an object stands in, how
many objects there are and what is given are inputs of the compiled program, not a part of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spare.data.scene import SLOTS
from spare.data.state import ObjectId
from spare.errors import DefinitionError, one_of
from spare.language.domain import Domain
from spare.language.relations import Objects
from spare.language.traces import trace

Condition = Callable[[Objects], Any]


class Given(dict[str, Any]):
    """Numbers that a problem is given by name; an unknown name is an error that says which there are."""

    def __missing__(self, name: str) -> Any:
        raise DefinitionError(one_of("given number", name, self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]


class StateView:
    """A state inside a formula.

    `s["a"].x`                a property of the object with the id "a"
    `s.objects.x`, `s.valid`  of all rows, (N,), and which rows are objects
    `s.sum(f)`, `s.mean(f)`, `s.max(f)`, `s.min(f)`, `s.count(test)`, `s.all(test)`, `s.any(test)`   over all objects
    `s.start`                 the same of the state in which control began
    `s.given["goal"]`         numbers that the problem was given
    """

    def __init__(
        self, names: tuple[str, ...], values: Any, valid: Any, rows: Mapping[ObjectId, Any], given: Given, start: Any
    ) -> None:
        self._names, self._rows = names, rows
        self._values, self._start = jnp.asarray(values), jnp.asarray(start)
        self.valid, self.given = valid, given

    def __getitem__(self, one: ObjectId) -> Objects:
        return Objects(self._names, self._values[self._rows[one]])

    @property
    def objects(self) -> Objects:
        """Every row's properties, (N,) each; rows that are not `valid` are padding."""
        return Objects(self._names, self._values)

    @property
    def start(self) -> StateView:
        """The state in which control began: the current one, where there is no loop."""
        return StateView(self._names, self._start, self.valid, self._rows, self.given, self._start)

    def _each(self, function: Condition, where: Condition | None) -> tuple[Any, Any]:
        among = self.valid if where is None else self.valid & where(self.objects)
        return jnp.broadcast_to(function(self.objects), self.valid.shape), among

    def sum(self, function: Condition, where: Condition | None = None) -> Any:
        """The sum of f(o) over the objects o (that satisfy `where`)."""
        found, among = self._each(function, where)
        return jnp.where(among, found, 0).sum()

    def mean(self, function: Condition, where: Condition | None = None) -> Any:
        """The mean of f(o); 0 over nobody."""
        found, among = self._each(function, where)
        return jnp.where(among, found, 0).sum() / jnp.maximum(among.sum(), 1)

    def max(self, function: Condition, where: Condition | None = None) -> Any:
        """The largest f(o); -inf over nobody."""
        found, among = self._each(function, where)
        return jnp.where(among, found, -jnp.inf).max()

    def min(self, function: Condition, where: Condition | None = None) -> Any:
        """The smallest f(o); inf over nobody."""
        found, among = self._each(function, where)
        return jnp.where(among, found, jnp.inf).min()

    def count(self, test: Condition, where: Condition | None = None) -> Any:
        """How many objects pass the test."""
        return self.sum(test, where)

    def all(self, test: Condition, where: Condition | None = None) -> Any:
        """Whether all objects pass the test; true of nobody."""
        found, among = self._each(test, where)
        return jnp.where(among, found, True).all()

    def any(self, test: Condition, where: Condition | None = None) -> Any:
        """Whether some object passes the test."""
        found, among = self._each(test, where)
        return jnp.where(among, found, False).any()


class _Noting(dict[ObjectId, int]):
    """Row numbers of ids in the order in which they are asked for first."""

    def __missing__(self, one: ObjectId) -> int:
        self[one] = len(self)
        return self[one]


@dataclasses.dataclass(frozen=True)
class Formula:
    """A traced formula of a state: what it is called, the function, the ids that it names, and its program's digest."""

    name: str
    function: Callable[[StateView], Any]
    ids: tuple[ObjectId, ...]
    digest: str

    @classmethod
    def of(cls, name: str, function: Any, domain: Domain, given: Mapping[str, np.ndarray], *, test: bool) -> Formula:
        """The function, traced for states of the domain; it gives one number, or with `test` one truth value."""
        if not callable(function):
            raise DefinitionError(
                f"{name}: expected a function of the state, such as lambda s: s['a'].x, got {function!r}"
            )
        rows, size, names = _Noting(), SLOTS[0], domain.property_names

        def traced(values: Any, valid: Any, start: Any, *numbers: Any) -> Any:
            seen = StateView(names, values, valid, rows, Given(zip(given, numbers, strict=True)), start)
            return jnp.asarray(function(seen))

        shapes = [jax.ShapeDtypeStruct((size, len(names)), jnp.float32), jax.ShapeDtypeStruct((size,), jnp.bool_)]
        shapes += [shapes[0], *(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in given.values())]
        try:
            digest, found = trace(traced, *shapes)
        except DefinitionError as error:
            raise DefinitionError(f"{name}: {error}") from error
        except Exception as error:  # the user's code
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise DefinitionError(f"{name}: it cannot be traced with JAX: {reason}; use jax.numpy inside") from error
        wanted = "one truth value, as s['a'].x > 0.3 is" if test else "one number"
        real = found.dtype == jnp.bool_ if test else jnp.issubdtype(found.dtype, jnp.number)
        if found.shape != () or not real:
            raise DefinitionError(f"{name}: it must give {wanted}, got shape {found.shape} of {found.dtype}")
        return cls(name, function, tuple(rows), digest)
