"""The domain D = (properties, references, actions) of section 3.1 of the paper."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from spare.errors import DefinitionError, SpareError, one_of
from spare.language.frames import Frame, FramePose
from spare.language.kinds import Kind, Leaf, Periodic
from spare.language.properties import REAL, Property
from spare.language.references import Reference, Shell
from spare.language.relations import Objects, Parameters, SceneView
from spare.names import check_identifier, check_label, check_unique


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
        if self.frame is not None and isinstance(self.frame.origin, str) and self.frame.origin not in self.objects:
            raise DefinitionError(
                f"action {self.name!r}: frame origin: {one_of('role', self.frame.origin, self.objects)}"
            )


_Thing = TypeVar("_Thing", Property, Reference, Action)


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
        for prop in self.properties:
            for entry in prop.kind.names(prop.name):
                if not entry.isprintable() or len(entry) > 100:
                    raise DefinitionError(f"property {prop.name!r}: its kind names an input {entry[:100]!r}")
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
            return reference.relation.pick(self.view(None, values, valid, None), arguments)

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
        for name, groups in (("position", action.frame.positions), ("direction", action.frame.directions)):
            for group in groups:
                self._check_group(action, name, group)
        for name in (name for pair in action.frame.extents for name in pair):
            self.property(name)
        for name in action.frame.angles:
            if name in action.parameters:
                continue
            kind = self.property(name).kind
            if not isinstance(kind, Periodic) or not np.isclose(kind.period, 2 * np.pi, rtol=1e-6):
                raise DefinitionError(f"action {action.name!r}: frame angle {name!r} needs a period of 2 pi (radians)")
        shapes = ((len(action.objects), len(self.properties)), (len(action.parameters),))
        try:
            jax.eval_shape(
                functools.partial(self.pose, action), *(jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes)
            )
        except Exception as error:  # formulas are the user's code
            raise DefinitionError(f"action {action.name!r}: the formulas of its frame fail: {error}") from error

    def _check_group(self, action: Action, what: str, group: tuple[str, ...]) -> None:
        """A group is made of properties that can change, or of the action's parameters."""
        both = [name for name in group if name in self.property_names and name in action.parameters]
        if both:
            raise DefinitionError(
                f"action {action.name!r}: frame {what} {both[0]!r} is a property and a parameter; rename one of them"
            )
        if any(name in action.parameters for name in group):
            for name in group:
                if name not in action.parameters:
                    raise DefinitionError(f"action {action.name!r}: {one_of('parameter', name, action.parameters)}")
            return
        for name in group:
            if self.property(name).static:
                raise DefinitionError(f"action {action.name!r}: frame property {name!r} is static")

    def pose(self, action: Action, roles: Any, parameters: Any) -> FramePose:
        """The pose of the action's frame in one scene: values (roles, P) of its objects, parameters (d,)."""
        if action.frame is None:
            raise DefinitionError(f"action {action.name!r} has no frame")
        objects = {role: roles[k] for k, role in enumerate(action.objects)}
        given = {name: parameters[k] for k, name in enumerate(action.parameters)}
        return action.frame.pose(self.property_names, objects, given)

    def poses(self, action: Action, roles: np.ndarray, parameters: np.ndarray) -> FramePose:
        """The same for n scenes at once, as float64 arrays on the host."""
        found = _poser(self, action)(roles, parameters)
        return FramePose(*(None if part is None else np.asarray(part, np.float64) for part in found))

    def view(self, action: Action | None, values: Any, valid: Any, parameters: Any) -> SceneView:
        """What relations see of one scene."""
        names = action.parameters if action is not None else ()
        given = {name: parameters[k] for k, name in enumerate(names)}
        known = dict.fromkeys(name for one in self.actions for name in one.parameters)
        return SceneView(Objects(self.property_names, values), valid, Parameters(given, known))

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
    def kinds(self) -> tuple[Kind, ...]:
        """What the values of each property that can change are."""
        return tuple(self.properties[i].kind for i in self.dynamic)

    @functools.cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The distribution of each property that can change."""
        return tuple(kind.leaf for kind in self.kinds)

    def targets(self, change: bool) -> np.ndarray:
        """Which properties are predicted as changes, (Q,): as their kind says, or `change` where it allows both."""
        return np.array([change if kind.changes is None else kind.changes for kind in self.kinds], bool)

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

    def _named(self, kind: str, things: Sequence[_Thing], name: str) -> _Thing:
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
                | ({} if p.kind == REAL else {"kind": p.kind.schema()})
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


@functools.lru_cache(maxsize=64)
def _poser(domain: Domain, action: Action) -> Callable[..., FramePose]:
    """The compiled function of one action's frame, kept so that it is compiled once."""
    return jax.jit(jax.vmap(functools.partial(domain.pose, action)))
