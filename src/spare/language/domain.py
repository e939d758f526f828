"""The domain D = (properties, references, actions) of section 3.1 of the paper."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from spare.arguments import check_kind, check_sequence, described, is_finite, is_real
from spare.arrays import array_module
from spare.errors import DefinitionError, SpareError, UsageError, one_of
from spare.language import pickling
from spare.language.actions import Action
from spare.language.checks import FormulaError, in_words
from spare.language.discrete import Categorical, Link
from spare.language.frames import Frame, FramePose
from spare.language.kinds import Kind, Leaf, Periodic, kind_program
from spare.language.properties import REAL, Property, encode
from spare.language.references import EVERYONE, Reference, Shell
from spare.language.relations import Objects, Parameters, Relation, SceneView, sees_objects_alone
from spare.language.stored import Linked, OfType, Paired
from spare.language.traces import digest_of, trace, versions
from spare.language.types import WORLD, Edges, Type, check_types, columns_of
from spare.names import check_label, check_unique
from spare.programs import PROGRAMS

_Thing = TypeVar("_Thing", Property, Reference, Action, Type, Edges)
TRACED = 7
"""How many objects formulas are tried with: so many that no constant of a formula has the same length by accident."""


def _things(what: str, given: Any, kind: type[_Thing], example: str) -> tuple[_Thing, ...]:
    """The parts of a domain as a tuple, if all are of one kind."""
    things = check_sequence(what, given, f"[spare.{example}]")
    return tuple(check_kind(what, one, kind, f"write spare.{example}", DefinitionError) for one in things)


def _real(number: Any) -> Any:
    """A resolution as a float; what is no number is left for `Property` to refuse."""
    return float(number) if is_real(number) and is_finite(number) else number


def expect_domain(given: Any, what: str = "domain") -> Domain:
    """What was given, if it is a domain; otherwise a sentence that says what it is instead."""
    if isinstance(given, Domain):
        return given
    advice = "make one with spare.Domain(name, properties=..., references=..., actions=...)"
    if isinstance(given, str | os.PathLike):
        advice = "give the domain itself, not its name; or are two arguments in the wrong order?"
    held = getattr(given, "domain", None)
    if isinstance(held, Domain):
        advice = "is its `.domain` meant, or are two arguments in the wrong order?"
    raise UsageError(f"{what}: expected a spare.Domain, got {described(given)}; {advice}")


@dataclasses.dataclass(frozen=True)
class Programs:
    """What the code in a domain computes, 16 hex digits each (`traces.trace`).

    By name: the formulas of references, the frames of actions (those that have one), and the kinds of properties that
    are not SPARE's own.
    """

    references: Mapping[str, str]
    frames: Mapping[str, str]
    kinds: Mapping[str, str]


def _everyone(o: Objects) -> Any:
    """True of every object."""
    return True


def _every_thing(o: Objects) -> Any:
    """True of every object but the world itself."""
    return ~o.isa(WORLD)


_EVERYONE, _EVERY_THING = Reference(EVERYONE, _everyone), Reference(EVERYONE, _every_thing)


class Domain:
    """D = (properties P, references F, actions A), checked as a whole at construction, and not changed after that.

    Each formula is traced once over the domain's properties, so an unknown property, a wrong arity or a result
    that is not a Boolean per object is found here and not in the middle of learning. Domains are equal if they are
    made of the same names and numbers and their formulas trace to the same programs (`digest`), whoever wrote these
    and in whatever process; formulas must be functions, which give the same program whenever they are traced.
    """

    def __init__(  # noqa: PLR0913 - the parts of a world, each by its name
        self,
        name: str,
        *,
        properties: Sequence[Property] = (),
        types: Sequence[Type] = (),
        world: Sequence[Property] = (),
        relations: Sequence[Edges] = (),
        references: Sequence[Reference] = (),
        actions: Sequence[Action],
    ) -> None:
        self.name = check_label("domain", name)
        owner = f"domain {name!r}"
        given = _things(f"{owner}, properties", properties, Property, "Property('x', unit='m')")
        kinds = _things(f"{owner}, types", types, Type, "Type('block', [spare.Property('x')])")
        facts = _things(f"{owner}, world", world, Property, "Property('raining', kind=spare.Boolean())")
        if given and kinds:
            raise DefinitionError(f"{owner}: give properties or types, not both; a type has its own properties")
        if facts and not kinds:
            kinds = (Type("object", given),)
        self.types: tuple[str, ...] = ()
        self.properties, self.has = given, np.ones((1, len(given)), bool)
        if kinds:
            self.properties, self.has, self.types = columns_of(owner, kinds, facts)
        self.relations = _things(f"{owner}, relations", relations, Edges, "Edges('road', 'city', 'city')")
        own = _things(f"{owner}, references", references, Reference, "Reference('on', formula)")
        self.actions = _things(f"{owner}, actions", actions, Action, "Action('push', objects=('target',))")
        self._parts: dict[str, Any] = {"properties": () if kinds else given, "types": kinds, "world": facts}
        self._parts |= {"relations": self.relations, "references": own, "actions": self.actions}
        self._check_names(own)
        self._check_types()
        taken = [one.name for one in own]
        self.references = (*own, *(one for one in self._stored() if one.name not in taken))
        self.programs = self._traced()
        self._origin: Domain | None = None
        self._place: str | None = None
        _living.setdefault(self.digest, self)

    def _check_names(self, references: Sequence[Reference]) -> None:
        owner = f"domain {self.name!r}"
        for kind, names in (
            ("property", [one.name for one in self.properties]),
            ("reference", [one.name for one in references]),
            ("action", [one.name for one in self.actions]),
        ):
            check_unique(kind, names, owner)
        if not self.properties or not self.actions:
            raise DefinitionError(f"{owner}: give at least one property and one action")
        if all(p.static for p in self.properties) and all(one.static for one in self.relations):
            raise DefinitionError(f"{owner}: every property is static, so there is nothing to predict")
        for prop in self.properties:
            for entry in prop.kind.names(prop.name):
                if not entry.isprintable() or len(entry) > 100:
                    raise DefinitionError(f"property {prop.name!r}: its kind names an input {entry[:100]!r}")
        check_unique("relation or property", [*self.property_names, *(one.name for one in self.relations)], owner)
        for name in (EVERYONE, *((WORLD,) if self.has_world else ())):
            if any(reference.name == name for reference in references):
                raise DefinitionError(f"reference {name!r}: every domain has one of this name; choose another")

    def _check_types(self) -> None:
        """Refuse types that nobody declared, and frames whose axes a type has in part."""
        owner = f"domain {self.name!r}"
        for prop in self.properties:
            if isinstance(prop.kind, Link):
                check_types(owner, f"link {prop.name!r}", prop.kind.to, self.types)
        for one in self.relations:
            check_types(owner, f"relation {one.name!r}", (*one.source, *one.target), self.types)
        for action in self.actions:
            for role, names in zip(action.objects, action.role_types, strict=True):
                check_types(owner, f"action {action.name!r}, role {role!r}", names, self.types)
            groups = () if action.frame is None else (*action.frame.positions, *action.frame.directions)
            for group in (group for group in groups if {*group} <= {*self.property_names}):
                mine = self.has[:, [self.property_names.index(name) for name in group]]
                for k in np.flatnonzero(mine.any(axis=1) & ~mine.all(axis=1)):
                    raise DefinitionError(
                        f"action {action.name!r}: its frame moves {', '.join(group)} together, and type "
                        f"{self.types[k]!r} has only some of them"
                    )

    def _stored(self) -> Iterator[Reference]:
        """References that come with what a state stores: each link and relation, its inverse, and their closures."""
        if self.has_world:
            yield Reference(WORLD, OfType(WORLD))
        for name, (source, target) in self.stored.items():
            one = Reference(name, Linked(name) if name in self.property_names else Paired(name))
            yield from (one, one.inverse())
            if {*source} & {*target}:  # otherwise one step is all
                yield from (one.closure(), one.inverse().closure())

    @functools.cached_property
    def stored(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """Types from which, and to which, each link and each stored relation leads; of one type: the text ""."""
        every = self.types or ("",)
        found: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        for column, prop in enumerate(self.properties):
            if isinstance(prop.kind, Link):
                mine = tuple(name for k, name in enumerate(every) if self.has[k, column])
                found[prop.name] = (mine, (*prop.kind.to,) or every)
        return found | {one.name: ((*one.source,) or every, (*one.target,) or every) for one in self.relations}

    @functools.cached_property
    def plain(self) -> bool:
        """Whether there is nothing but numbers of one type: no kind, type or relation that data are checked for."""
        free = all(p.kind == REAL or type(p.kind).faults is Kind.faults for p in self.properties)
        actions = all(kind == REAL for action in self.actions for kind in action.kinds)
        return free and actions and not self.types and not self.relations

    @property
    def has_world(self) -> bool:
        """Whether every state has an object for the world itself."""
        return self.types[-1:] == (WORLD,)

    def types_of(self, values: Any) -> Any:
        """The type of every object, as a number: values (..., P); all 0 in a domain without types."""
        if not self.types:
            return array_module(values).zeros(values.shape[:-1], np.int32)
        return array_module(values).clip(values[..., -1], 0, len(self.types) - 1).astype(np.int32)

    def held(self, values: Any) -> Any:
        """Which properties each object has, (..., P) bool: all of them in a domain without types."""
        xp = array_module(values)
        return xp.asarray(self.has)[self.types_of(values)] if self.types else xp.ones(values.shape, bool)

    def held_dynamic(self, values: Any) -> Any:
        """Which of the properties that can change each object has, (..., Q) bool; None if all types have all."""
        columns = np.array(self.dynamic, int)
        return None if self.has[:, columns].all() else self.held(values)[..., columns]

    def encode(self, properties: Sequence[Property], values: Any) -> Any:
        """What networks see of these properties of objects with values (..., P), 0 for what an object does not have."""
        columns = [self.property_names.index(p.name) for p in properties]
        found = encode(properties, columns, values)
        if not self.types or self.has[:, columns].all():
            return found
        sizes = [len(p.kind.names(p.name)) for p in properties]
        return found * self.held(values)[..., np.repeat(np.array(columns, int), sizes)]

    def _traced(self) -> Programs:
        """Every formula checked and traced."""
        return Programs(
            {one.name: self._reference_program(one) for one in self.references},
            {one.name: self._frame_program(one, one.frame) for one in self.actions if one.frame is not None},
            {one.name: found for one in self.properties if (found := kind_program(one.kind))},
        )

    def check_unchanged(self) -> None:
        """Refuse a domain whose formulas no longer compute what they did when it was made: they read what changed."""
        now = self._traced()
        for what in ("references", "frames", "kinds"):
            before, after = getattr(self.programs, what), getattr(now, what)
            for name in before:
                if before[name] != after[name]:
                    one = {"references": "reference", "frames": "the frame of action", "kinds": "the kind of"}[what]
                    raise DefinitionError(
                        f"{one} {name!r}: its formula computes something else than when the domain {self.name!r} was "
                        "made, because something that it reads has changed since; make the domain again"
                    )

    def reads_parameters(self, reference: Reference) -> bool:
        """Whether a reference may depend on the action's parameters: if a relation of the user's own is part of it."""
        return not sees_objects_alone(reference.relation)

    def _reference_program(self, reference: Reference) -> str:
        """The program of a reference's relation, if it gives a Boolean per object."""
        scene = (
            jax.ShapeDtypeStruct((TRACED, len(self.properties)), jnp.float32),
            jax.ShapeDtypeStruct((TRACED,), jnp.bool_),
        )
        relation, index = reference.relation, jax.ShapeDtypeStruct((), jnp.int32)
        pairs = [jax.ShapeDtypeStruct((TRACED, 2), jnp.int32)] * len(self.relations)

        def pick(values: Any, valid: Any, *given: Any) -> Any:
            stored = self._pairs(given[reference.arity :])
            return relation.pick(self.view(None, values, valid, None, stored), given[: reference.arity])

        try:
            program, result = trace(pick, *scene, *[index] * reference.arity, *pairs)
            if self.reads_parameters(reference):
                program = digest_of(program, *(self._own_program(relation, one, scene) for one in self.actions))
        except FormulaError as error:
            raise DefinitionError(self._fails(reference, error.reason)) from error
        except SpareError as error:
            raise DefinitionError(f"reference {reference.name!r}: {error}") from error
        except Exception as error:  # of a relation of the user's own
            raise DefinitionError(self._fails(reference, in_words(error))) from error
        if result.shape != (TRACED,) or result.dtype != jnp.bool_:
            raise DefinitionError(
                f"reference {reference.name!r}: the formula must give one Boolean per object, "
                f"it gives {result.dtype}{list(result.shape)}; compare with < or >, or use Reference.closest"
            )
        return program

    def _fails(self, reference: Reference, reason: str) -> str:
        return (
            f"reference {reference.name!r}: its formula fails on objects with properties "
            f"{', '.join(self.property_names)}: {reason}. A formula broadcasts and returns a Boolean per object"
        )

    def _own_program(self, relation: Relation, action: Action, scene: tuple[Any, Any]) -> str:
        """What a relation of the user's own does in an action, whose parameters it may read, asked in either way."""
        index, mask = jax.ShapeDtypeStruct((), jnp.int32), scene[1]
        given = jax.ShapeDtypeStruct((len(action.parameters),), jnp.float32)

        pairs, arity = [jax.ShapeDtypeStruct((TRACED, 2), jnp.int32)] * len(self.relations), relation.arity

        def asking(how: Any) -> Any:
            def ask(values: Any, valid: Any, parameters: Any, *given: Any) -> Any:
                return how(self.view(action, values, valid, parameters, self._pairs(given[arity:])), given[:arity])

            return ask

        return digest_of(
            trace(asking(relation.pick), *scene, given, *[index] * arity, *pairs)[0],
            trace(asking(relation.select), *scene, given, *[mask] * arity, *pairs)[0],
        )

    def _pairs(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """Stored relations by name, in their order."""
        return {one.name: pairs for one, pairs in zip(self.relations, arrays, strict=True)}

    def _frame_program(self, action: Action, frame: Frame) -> str:
        """The program of a frame's pose and all that it declares, if that makes sense in this domain."""
        for name, groups in (("position", frame.positions), ("direction", frame.directions)):
            for group in groups:
                self._check_group(action, name, group)
        for name in (name for pair in frame.extents for name in pair):
            self.property(name)
        for name in frame.angles:
            if name in action.parameters:
                continue
            kind = self.property(name).kind
            if not isinstance(kind, Periodic) or not np.isclose(kind.period, 2 * np.pi, rtol=1e-6):
                raise DefinitionError(f"action {action.name!r}: frame angle {name!r} needs a period of 2 pi (radians)")
        shapes = ((len(action.objects), len(self.properties)), (len(action.parameters),))
        try:
            program, _ = trace(
                functools.partial(self.pose, action), *(jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes)
            )
        except Exception as error:  # formulas are the user's code
            reason = error.reason if isinstance(error, FormulaError) else in_words(error)
            raise DefinitionError(f"action {action.name!r}: the formulas of its frame fail: {reason}") from error
        return digest_of(program, frame.describe())

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
        given = (roles, parameters)
        found = PROGRAMS.call("poses", jax.vmap(functools.partial(self.pose, action)), given, (self, action))
        return FramePose(*(None if part is None else np.asarray(part, np.float64) for part in found))

    def view(
        self, action: Action | None, values: Any, valid: Any, parameters: Any, pairs: Mapping[str, Any] | None = None
    ) -> SceneView:
        """What relations see of one scene: NaN for what an object does not have, stored relations by name."""
        names: tuple[str, ...] = action.parameters if action is not None else ()
        given = {name: parameters[k] for k, name in enumerate(names)}
        known = dict.fromkeys(name for one in self.actions for name in one.parameters)
        if self.types and not self.has.all():
            values = jnp.where(self.held(values), values, jnp.nan)
        objects = Objects(self.property_names, values, self.values_of)
        return SceneView(objects, valid, Parameters(given, known), pairs or {})

    def scene_view(self, action: str, scene: Any) -> SceneView:
        """What relations see of a `Scene` in which this action is done."""
        return self.view(self.action(action), scene.values, scene.valid, scene.parameters, scene.pairs)

    @functools.cached_property
    def values_of(self) -> dict[str, tuple[str, ...]]:
        """What the values of every category are called, the types among them."""
        return {p.name: p.kind.values for p in self.properties if isinstance(p.kind, Categorical)}

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
        """The reference of that name; every domain has `everyone`."""
        if isinstance(name, str) and name == EVERYONE:
            return _EVERY_THING if self.has_world else _EVERYONE
        return self._named("reference", self.references, name)

    def action(self, name: str) -> Action:
        """The action template of that name."""
        return self._named("action", self.actions, name)

    def action_index(self, name: str) -> int:
        """The position of an action template."""
        return self.actions.index(self.action(name))

    def _named(self, kind: str, things: Sequence[_Thing], name: str) -> _Thing:
        for thing in things:
            if isinstance(name, str) and thing.name == name:
                return thing
        raise DefinitionError(f"domain {self.name!r}: {one_of(kind, name, (t.name for t in things))}")

    def check_shell(self, shell: Shell, action: str) -> Shell:
        """The shell, if it fits the action's objects and the references' arities."""
        check_kind("shell", shell, Shell, "make one with spare.Shell(roles, pointers)", DefinitionError)
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
        if not isinstance(resolutions, Mapping):
            raise DefinitionError(
                f"resolutions: give a dictionary such as {{'x': 0.001}}, got {described(resolutions)}"
            )
        for name in resolutions:
            self.property(name)
        properties = [
            dataclasses.replace(p, resolution=_real(resolutions[p.name])) if p.name in resolutions else p
            for p in self.properties
        ]
        other = object.__new__(Domain)
        other.name, other.properties = self.name, tuple(properties)
        for same in ("references", "actions", "programs", "types", "has", "relations", "_parts"):
            setattr(other, same, getattr(self, same))
        other._origin, other._place = self._origin or self, None
        return _living.setdefault(other.digest, other)

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
            "actions": [action.schema() for action in self.actions],
        } | self._structure()

    def _structure(self) -> dict[str, Any]:
        """Types with the names of their properties, and stored relations, where there are any."""
        names = np.array(self.property_names, object)
        kinds = [{"name": one, "properties": names[:-1][self.has[k, :-1]].tolist()} for k, one in enumerate(self.types)]
        stored = [one.schema() for one in self.relations]
        return ({"types": kinds} if kinds else {}) | ({"relations": stored} if stored else {})

    @functools.cached_property
    def fingerprint(self) -> str:
        """16 hex digits of a SHA-256 over what data depends on: the domain's name, properties and actions.

        References and resolutions are left out: they are modelling choices, and data stays valid when they change.
        """
        schema = {key: value for key, value in self.schema().items() if key != "references"}
        text = json.dumps(schema, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @functools.cached_property
    def digest(self) -> str:
        """64 hex digits of a SHA-256 over all that the domain is made of: the schema, resolutions, and `programs`."""
        numbers = [(p.name, None if p.resolution is None else float(p.resolution)) for p in self.properties]
        kinds = [f"{type(p.kind).__module__}.{type(p.kind).__qualname__}" for p in self.properties]
        parts = [self.schema(), numbers, kinds, dataclasses.asdict(self.programs)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self is other or self.digest == other.digest

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        """From the digest, so that it is the same in every process: Python salts the hashes of texts."""
        return int(self.digest[:15], 16)

    def __copy__(self) -> Domain:
        return self

    def __deepcopy__(self, memo: Any) -> Domain:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Where another process finds the domain, or what to make it of."""
        place = self._place = pickling.place_of(self, self._place)
        if place is not None and not place.startswith("__main__:"):
            return _at, (place, self.name, self.digest, versions())
        if self._origin is not None:
            given = {p.name: p.resolution for p in self.properties if p.resolution is not None}
            return Domain.with_resolutions, (self._origin, given)
        content = pickling.by_value((self.name, self._parts))
        if content is not None:
            return _made, (self.digest, content)
        if place is not None:
            return _at, (place, self.name, self.digest, versions())
        raise DefinitionError(
            f"the domain {self.name!r} cannot be sent to another process: its formulas are not found in a module; "
            "assign it to a name in a module that workers can import, or install cloudpickle"
        )

    def __repr__(self) -> str:
        return (
            f"Domain({self.name!r}: properties {', '.join(self.property_names)}; "
            f"references {', '.join(r.name for r in self.references) or '-'}; "
            f"actions {', '.join(a.name for a in self.actions)}"
            f"{'; types ' + ', '.join(self.types) if self.types else ''})"
        )


_living: weakref.WeakValueDictionary[str, Domain] = weakref.WeakValueDictionary()
"""Domains by digest: what comes back from another process is the one that is here, with its compiled programs."""


def _at(place: str, name: str, digest: str, made_with: dict[str, str]) -> Domain:
    """The domain that a module of this process holds, if it is the one that was sent."""
    if digest in _living:
        return _living[digest]
    try:
        found = pickling.load_place(place)
    except (ImportError, AttributeError) as error:
        raise DefinitionError(
            f"the domain {name!r} was sent as {place!r}, which this process cannot import ({error}); put that module "
            "where workers find it, or send it by value: cloudpickle.register_pickle_by_value(module)"
        ) from error
    if not isinstance(found, Domain) or (found.digest != digest and made_with == versions()):
        raise DefinitionError(
            f"the domain {name!r} was sent as {place!r}, and this process has something else there; "
            "let all processes run the same code"
        )
    return found


def _made(digest: str, content: bytes) -> Domain:
    """The domain that was sent by value."""
    if digest in _living:
        return _living[digest]
    name, parts = pickling.from_value(content)
    return Domain(name, **parts)
