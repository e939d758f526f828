"""The domain D = (properties, references, actions) of section 3.1 of the paper."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spare.errors import DefinitionError, SpareError, one_of
from spare.language.references import Reference, Shell
from spare.language.relations import Objects
from spare.names import check_identifier, check_label, check_unique


@dataclasses.dataclass(frozen=True)
class Property:
    """P: object -> R. `resolution` is the smallest difference that matters; a static property never changes.

    Every variance in the system is sigma² + resolution². Without a resolution one is taken from the data (a
    thousandth of its spread). Static properties are inputs only and earn no likelihood.

    A property with a `period` comes round again: an angle has 2 pi (or 360, in degrees), an hour of the day 24. Values
    that differ by whole periods are the same; see `spare.language.periodic`.
    """

    name: str
    unit: str = ""
    resolution: float | None = None
    static: bool = False
    period: float | None = None

    def __post_init__(self) -> None:
        check_identifier("property", self.name)
        if not isinstance(self.unit, str) or not self.unit.isprintable() or len(self.unit) > 16:
            raise DefinitionError(f"property {self.name!r}: unit {self.unit!r} must be short printable text")
        for what in ("resolution", "period"):
            value = getattr(self, what)
            real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
            if value is not None and not (real and math.isfinite(value) and value > 0):
                raise DefinitionError(f"property {self.name!r}: {what} must be a positive number, got {value!r}")


@dataclasses.dataclass(frozen=True)
class Frame:
    """(origin, heading) of an action: the coordinates in which its effect looks the same everywhere.

    `origin` and `heading` take one object per role and then the action's parameters (as attributes), and return
    a tuple of coordinates and an angle. `vectors` lists the groups of properties, and `points` the groups of
    parameters, that are positions: the first two of a group turn with the heading, a third only shifts. `mirror`
    says that the world is the same after y -> -y in the frame. `extents` names pairs of properties that are sizes along
    the world's x and y axes, and says that the world is the same after a quarter turn in which the two swap. `angles`
    names properties that are directions in the world's plane, in radians: the heading is subtracted from them.
    """

    origin: Callable[..., tuple[Any, ...]]
    heading: Callable[..., Any]
    vectors: tuple[tuple[str, ...], ...]
    points: tuple[tuple[str, ...], ...] = ()
    mirror: bool = False
    extents: tuple[tuple[str, str], ...] = ()
    angles: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """What turns with the heading: positions, and each angle as a group of one."""
        return (*self.vectors, *((name,) for name in self.angles))

    def __post_init__(self) -> None:
        for pair in self.extents:
            if len(pair) != 2:
                raise DefinitionError(f"frame: extents are pairs, the sizes along x and along y, got {pair}")
        for group in (*self.vectors, *self.points):
            if len(group) not in (2, 3):
                raise DefinitionError(f"frame: a position has 2 or 3 coordinates, got {group}")
        if not self.vectors:
            raise DefinitionError("frame: name at least one group of properties that is a position")


@dataclasses.dataclass(frozen=True)
class Action:
    """A(alpha, o): an action template with named object roles and continuous parameters."""

    name: str
    objects: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    frame: Frame | None = None

    def __post_init__(self) -> None:
        check_label("action", self.name)
        object.__setattr__(self, "objects", check_unique("object role", self.objects, f"action {self.name!r}"))
        object.__setattr__(self, "parameters", check_unique("parameter", self.parameters, f"action {self.name!r}"))
        for role in self.objects:
            check_identifier("object role", role)
        for parameter in self.parameters:
            check_identifier("parameter", parameter)
        if not self.objects:
            raise DefinitionError(f"action {self.name!r}: name at least one object that it operates on")


class Domain:
    """D = (properties P, references F, actions A), checked as a whole at construction.

    Each formula is traced once over the domain's properties, so an unknown property, a wrong arity or a result
    that is not a Boolean per object is found here and not in the middle of learning.
    """

    def __init__(
        self,
        name: str,
        *,
        properties: Sequence[Property],
        references: Sequence[Reference],
        actions: Sequence[Action],
    ) -> None:
        self.name = check_label("domain", name)
        self.properties = tuple(properties)
        self.references = tuple(references)
        self.actions = tuple(actions)
        for kind, things in (("property", properties), ("reference", references), ("action", actions)):
            check_unique(kind, (thing.name for thing in things), f"domain {name!r}")
        if not self.properties or not self.actions:
            raise DefinitionError(f"domain {name!r}: give at least one property and one action")
        if all(p.static for p in self.properties):
            raise DefinitionError(f"domain {name!r}: every property is static, so there is nothing to predict")
        for reference in self.references:
            self._check_reference(reference)
        for action in self.actions:
            self._check_frame(action)
        self._key = (self.name, self.properties, self.references, self.actions)
        self._hash = hash(self._key)

    def _check_reference(self, reference: Reference) -> None:
        shape = jax.ShapeDtypeStruct((3, len(self.properties)), jnp.float32)
        mask = jax.ShapeDtypeStruct((3,), jnp.bool_)

        def trace(values: Any, valid: Any) -> Any:
            arguments = tuple(jnp.asarray(k % 3) for k in range(reference.arity))
            return reference.relation.pick(Objects(self.property_names, values), valid, arguments)

        try:
            result = jax.eval_shape(trace, shape, mask)
        except SpareError as error:
            raise DefinitionError(f"reference {reference.name!r}: {error}") from error
        except Exception as error:
            raise DefinitionError(
                f"reference {reference.name!r}: its formula fails on objects with properties "
                f"{', '.join(self.property_names)}: {error}. A formula broadcasts and returns a Boolean per object"
            ) from error
        if result.shape != (3,) or result.dtype != jnp.bool_:
            raise DefinitionError(
                f"reference {reference.name!r}: the formula must give one Boolean per object, "
                f"it gives {result.dtype}{list(result.shape)}; compare with < or >, or use Reference.closest"
            )

    def _check_frame(self, action: Action) -> None:
        if action.frame is None:
            return
        for group in action.frame.vectors:
            for name in group:
                if self.property(name).static:
                    raise DefinitionError(f"action {action.name!r}: frame property {name!r} is static")
        for name in (name for pair in action.frame.extents for name in pair):
            self.property(name)
        for name in action.frame.angles:
            period = self.property(name).period
            if period is None or not math.isclose(period, 2 * math.pi, rel_tol=1e-6):
                raise DefinitionError(f"action {action.name!r}: frame angle {name!r} needs a period of 2 pi (radians)")
        for name in (name for group in action.frame.points for name in group):
            if name not in action.parameters:
                raise DefinitionError(f"action {action.name!r}: {one_of('parameter', name, action.parameters)}")

    @functools.cached_property
    def property_names(self) -> tuple[str, ...]:
        """Names of all properties, in order: the columns of a state."""
        return tuple(p.name for p in self.properties)

    @functools.cached_property
    def dynamic(self) -> tuple[int, ...]:
        """Columns of the properties that can change: the outputs of rules."""
        return tuple(i for i, p in enumerate(self.properties) if not p.static)

    @functools.cached_property
    def dynamic_names(self) -> tuple[str, ...]:
        """Names of the properties that can change."""
        return tuple(self.properties[i].name for i in self.dynamic)

    @functools.cached_property
    def roles(self) -> int:
        """The largest number of objects that an action operates on."""
        return max(len(action.objects) for action in self.actions)

    @functools.cached_property
    def parameters(self) -> int:
        """The largest number of parameters of an action."""
        return max(len(action.parameters) for action in self.actions)

    @functools.cached_property
    def periodic(self) -> np.ndarray:
        """Which of the properties that can change come round again, (Q,)."""
        return np.array([self.properties[i].period is not None for i in self.dynamic], bool)

    def property(self, name: str) -> Property:
        """The property of that name."""
        return self._named("property", self.properties, name)

    def reference(self, name: str) -> Reference:
        """The reference of that name."""
        return self._named("reference", self.references, name)

    def action(self, name: str) -> Action:
        """The action template of that name."""
        return self._named("action", self.actions, name)

    def action_index(self, name: str) -> int:
        """The position of an action template."""
        return self.actions.index(self.action(name))

    def _named(self, kind: str, things: Sequence[Any], name: str) -> Any:
        for thing in things:
            if thing.name == name:
                return thing
        raise DefinitionError(f"domain {self.name!r}: {one_of(kind, name, (t.name for t in things))}")

    def check_shell(self, shell: Shell, action: str) -> Shell:
        """The shell, if it fits the action's objects and the references' arities."""
        roles = len(self.action(action).objects)
        if shell.roles != roles:
            raise DefinitionError(f"action {action!r} has {roles} objects, the shell was made for {shell.roles}")
        for pointer in shell:
            arity = self.reference(pointer.reference).arity
            if len(pointer.arguments) != arity:
                raise DefinitionError(
                    f"reference {pointer.reference!r} takes {arity} argument(s), the pointer gives {pointer.arguments}"
                )
        return shell

    @functools.cached_property
    def resolved(self) -> bool:
        """Whether every property that can change has a resolution."""
        return all(self.properties[i].resolution is not None for i in self.dynamic)

    @functools.cached_property
    def resolutions(self) -> np.ndarray:
        """The resolution of each property that can change, float64 (Q,)."""
        missing = [p.name for p in self.properties if not p.static and p.resolution is None]
        if missing:
            raise DefinitionError(
                f"domain {self.name!r}: no resolution for {', '.join(missing)}; "
                "give one, or take it from data with experience.resolved()"
            )
        return np.array([self.properties[i].resolution for i in self.dynamic], np.float64)

    def with_resolutions(self, resolutions: Mapping[str, float]) -> Domain:
        """The same domain with these resolutions filled in."""
        for name in resolutions:
            self.property(name)
        properties = [
            dataclasses.replace(p, resolution=float(resolutions[p.name])) if p.name in resolutions else p
            for p in self.properties
        ]
        return Domain(self.name, properties=properties, references=self.references, actions=self.actions)

    def schema(self) -> dict[str, Any]:
        """What a file needs to know of the domain: names, order, arities; no code, no resolutions."""
        return {
            "name": self.name,
            "properties": [
                {"name": p.name, "unit": p.unit, "static": p.static}
                | ({} if p.period is None else {"period": float(p.period)})
                for p in self.properties
            ],
            "references": [
                {
                    "name": r.name,
                    "arity": r.arity,
                    "relation": r.relation.describe(),
                    "aggregators": [*r.aggregators],
                }
                for r in self.references
            ],
            "actions": [{"name": a.name, "objects": [*a.objects], "parameters": [*a.parameters]} for a in self.actions],
        }

    @functools.cached_property
    def fingerprint(self) -> str:
        """16 hex digits of a SHA-256 over what data depends on: the domain's name, properties and actions.

        References and resolutions are left out: they are modelling choices, and data stays valid when they change.
        """
        schema = {key: value for key, value in self.schema().items() if key != "references"}
        text = json.dumps(schema, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self is other or (self._hash == other._hash and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return (
            f"Domain({self.name!r}: properties {', '.join(self.property_names)}; "
            f"references {', '.join(r.name for r in self.references) or '-'}; "
            f"actions {', '.join(a.name for a in self.actions)})"
        )
