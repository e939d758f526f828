"""What a planner may do: templates, choices of objects, and bounds of parameters.

1. An `Actions` is one template with bounds for its parameters and, for each role, who may take it. Parameters may be
   computed from other numbers and the objects (`to`): a push that starts 8 cm behind its target, wherever that is.
2. `resolve` lists, for one state, every admissible choice of template and objects: the **options**, as padded arrays.
3. A candidate plan is, for each step, the number of an option and numbers z from 0 to 1, one for each parameter: so
   templates and objects mix inside one compiled call.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from spare.arguments import described, is_finite, is_real
from spare.data.scene import SLOTS, object_slots
from spare.data.state import ObjectId, State
from spare.errors import DataError, DefinitionError, UsageError, one_of
from spare.language.domain import Domain
from spare.language.relations import Objects, Parameters
from spare.language.traces import trace
from spare.model.rollout import Calls

MOST_OPTIONS = SLOTS[-1]
"""More choices of template and objects than a planner can tell apart."""


@dataclasses.dataclass(frozen=True)
class Found:
    """Whoever a reference of the domain finds from objects: `Found("above*", "a")`."""

    reference: str
    arguments: tuple[ObjectId, ...]

    def __init__(self, reference: str, *arguments: ObjectId) -> None:
        object.__setattr__(self, "reference", reference)
        object.__setattr__(self, "arguments", arguments)


Bounds = tuple[float | int, float | int] | float | int
"""(low, high) of a parameter, or its one value."""
Who = ObjectId | Sequence[ObjectId] | Found | Callable[[Objects], Any] | None
"""Who may take a role: one id, several, whom a reference finds, whoever passes a test, or anybody (None)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Actions:
    """One template: `Actions("push", {"d": (0.05, 0.2), "angle": (-pi, pi)}, objects={"target": "a"})`.

    `bounds`   (low, high) of each parameter, or one number that is fixed
    `objects`  who may take each role; anybody in roles that are left out
    `to`       (objects of the roles, u) -> the template's parameters by name, with u.name as in `bounds`; without it
               `bounds` names the template's own parameters
    """

    action: str
    bounds: Mapping[str, Bounds] = dataclasses.field(default_factory=dict)
    objects: Mapping[str, Who] = dataclasses.field(default_factory=dict)
    to: Callable[..., Mapping[str, Any]] | None = None

    def limits(self) -> np.ndarray:
        """(free parameters, 2): low and high."""
        found = np.zeros((len(self.bounds), 2))
        for row, (name, pair) in zip(found, self.bounds.items(), strict=True):
            row[:] = _limits(f"actions {self.action!r}, parameter {name!r}", pair)
        return found

    def checked(self, domain: Domain) -> str:
        """A digest of what it computes, if it fits the domain."""
        if self.action not in [one.name for one in domain.actions]:
            raise DefinitionError(f"actions: {one_of('action', self.action, (one.name for one in domain.actions))}")
        template = domain.action(self.action)
        for role in self.objects:
            if role not in template.objects:
                raise DefinitionError(f"actions {self.action!r}: {one_of('role', role, template.objects)}")
        self.limits()
        if self.to is None:
            if {*self.bounds} != {*template.parameters}:
                needed, got = ", ".join(template.parameters) or "nothing", ", ".join(self.bounds) or "none"
                raise DefinitionError(f"actions {self.action!r}: bounds are needed for {needed}, got {got}")
            return "plain"
        shape = np.zeros((len(template.objects), len(domain.properties)), np.float32)
        try:
            return trace(
                lambda rows, u: self.parameters(domain, rows, u), shape, np.zeros(len(self.bounds), np.float32)
            )[0]
        except DefinitionError:
            raise
        except Exception as error:  # the user's code
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise DefinitionError(f"actions {self.action!r}, to: it cannot be traced with JAX: {reason}") from error

    def parameters(self, domain: Domain, rows: Any, u: Any) -> Any:
        """The template's parameters (d,), from the objects' properties (roles, P) and the free numbers."""
        template = domain.action(self.action)
        free = Parameters(dict(zip(self.bounds, u, strict=False)))
        free.known = ()
        if self.to is None:
            found: Mapping[str, Any] = free
        else:
            found = self.to(*(Objects(domain.property_names, row) for row in rows), _Named(free))
            if not isinstance(found, Mapping) or {*found} != {*template.parameters}:
                got = ", ".join(found) if isinstance(found, Mapping) else described(found)
                raise DefinitionError(
                    f"actions {self.action!r}, to: it must give {', '.join(template.parameters)} by name, got {got}"
                )
        parts = [jnp.asarray(found[name], rows.dtype).reshape(()) for name in template.parameters]
        return jnp.stack(parts) if parts else jnp.zeros(0, rows.dtype)


class _Named:
    """Free parameters by attribute."""

    def __init__(self, given: Parameters) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        if name not in self._given:
            raise DefinitionError(one_of("parameter", name, self._given))
        return self._given[name]


def _number(value: Any) -> bool:
    return is_real(value) and is_finite(value)


def _limits(what: str, pair: Any) -> tuple[float, float]:
    if _number(pair):
        return float(pair), float(pair)
    if not (isinstance(pair, Sequence) and len(pair) == 2 and all(map(_number, pair))):
        raise DefinitionError(f"{what}: write bounds as (low, high), or one number that is fixed, got {pair!r}")
    low, high = map(float, pair)
    if low > high:
        raise DefinitionError(f"{what}: the bounds are the wrong way round: {low:g} is above {high:g}")
    return low, high


class Options(NamedTuple):
    """All choices of template and objects in one state, padded to O: which `Actions` (O,), rows of objects (O, roles).

    low and high (O, d) bound its free parameters; `valid` (O,) says which are choices.
    """

    space: Any
    objects: Any
    low: Any
    high: Any
    valid: Any


def resolve(domain: Domain, spaces: Sequence[Actions], state: State, real: Any = np.float32) -> Options:
    """The options of a state; an error if there is none."""
    found: list[tuple[int, tuple[int, ...]]] = []
    for number, space in enumerate(spaces):
        roles = domain.action(space.action).objects
        who = [_rows(domain, state, space, role) for role in roles]
        room = math.prod(len(rows) for rows in who)
        if room > 64 * MOST_OPTIONS:
            raise UsageError(f"actions {space.action!r}: {room} choices of objects are too many; narrow them down")
        found += [(number, rows) for rows in itertools.product(*who) if len({*rows}) == len(rows)]
    if not found:
        names = ", ".join(space.action for space in spaces)
        raise DataError(f"actions: no objects of this state may take the roles of {names}; there is nothing to do")
    if len(found) > MOST_OPTIONS:
        raise UsageError(
            f"actions: {len(found)} choices of template and objects; at most {MOST_OPTIONS} can be searched"
        )
    size, free = object_slots(len(found)), max(1, *(len(space.bounds) for space in spaces))
    made = Options(
        np.zeros(size, np.int32),
        np.zeros((size, domain.roles), np.int32),
        np.zeros((size, free), real),
        np.zeros((size, free), real),
        np.arange(size) < len(found),
    )
    limits = [space.limits() for space in spaces]
    for k, (number, rows) in enumerate(found):
        made.space[k], made.objects[k, : len(rows)] = number, rows
        made.low[k, : len(limits[number])], made.high[k, : len(limits[number])] = limits[number].T
    return made


def _rows(domain: Domain, state: State, space: Actions, role: str) -> list[int]:
    """The rows that may take a role."""
    who, what = space.objects.get(role), f"actions {space.action!r}, {role}"
    if who is None:
        return list(range(len(state)))
    if isinstance(who, Found):
        return _found(domain, state, who, what)
    if callable(who):
        passed = np.asarray(who(Objects(domain.property_names, jnp.asarray(state.values))))
        if passed.shape != (len(state),) or passed.dtype != bool:
            raise DefinitionError(f"{what}: the test must give a truth value for each object, got {passed.shape}")
        return np.flatnonzero(passed).tolist()
    ids = (who,) if isinstance(who, str) or not isinstance(who, Sequence) else tuple(who)
    for one in ids:
        if one not in state.ids:
            raise DataError(f"{what}: object {one!r} is not in the state ({list(state.ids)[:8]})")
    return [state.ids.index(one) for one in ids]


def _found(domain: Domain, state: State, who: Found, what: str) -> list[int]:
    reference = domain.reference(who.reference)
    if reference.arity != len(who.arguments):
        raise DefinitionError(f"{what}: {who.reference!r} takes {reference.arity} objects, got {len(who.arguments)}")
    for one in who.arguments:
        if one not in state.ids:
            raise DataError(f"{what}: object {one!r} is not in the state ({list(state.ids)[:8]})")
    view = domain.view(None, jnp.asarray(state.values), jnp.ones(len(state), bool), jnp.zeros(domain.parameters))
    rows = tuple(jnp.asarray(state.ids.index(one)) for one in who.arguments)
    return np.flatnonzero(np.asarray(reference.relation.pick(view, rows))).tolist()


def call_of(domain: Domain, spaces: Sequence[Actions], options: Options, option: Any, z: Any, values: Any) -> Calls:
    """The action that an option with numbers z (d,) from 0 to 1 is in a state with these values (N, P), jit-able."""
    space, objects = jnp.asarray(options.space)[option], jnp.asarray(options.objects)[option]
    low, high = jnp.asarray(options.low)[option], jnp.asarray(options.high)[option]
    u, parameters = low + (high - low) * z, jnp.zeros(domain.parameters, values.dtype)
    for number, one in enumerate(spaces):
        roles = len(domain.action(one.action).objects)
        found = one.parameters(domain, values[objects[:roles]], u)
        padded = jnp.zeros_like(parameters).at[: len(found)].set(found)
        parameters = jnp.where(space == number, padded, parameters)
    action = jnp.asarray([domain.action_index(one.action) for one in spaces])[space]
    return Calls(action, objects, parameters)
