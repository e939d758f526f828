"""Types of objects, relations that are stored in a state, and the columns that they make.

The columns of a state are the union of all types' properties by name, and last the type itself: a static category.
`has` (types x columns) says which type has which of them; what an object does not have is 0 in storage.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spare.arguments import check_flag, check_kind, check_sequence, named
from spare.errors import DefinitionError, one_of
from spare.language.discrete import Categorical, Link
from spare.language.kinds import Kind
from spare.language.properties import REAL, Property
from spare.names import check_identifier, check_unique

TYPE = "type"
"""The name of the column that says of which type an object is."""
WORLD = "world"
"""The type, and the id, of the one object that has the facts of the world itself."""


@named
@dataclasses.dataclass(frozen=True)
class Type:
    """A type of objects: its name and the properties that its objects have, each a `Property`."""

    name: str
    properties: Sequence[Property] = ()

    def __post_init__(self) -> None:
        check_identifier("type", self.name)
        what = f"type {self.name!r}"
        given = check_sequence(f"{what}, properties", self.properties, "[spare.Property('x')]")
        for one in given:
            check_kind(f"{what}, properties", one, Property, "write spare.Property('x', unit='m')", DefinitionError)
        check_unique("property", [one.name for one in given], what)
        object.__setattr__(self, "properties", given)


@named
@dataclasses.dataclass(frozen=True)
class Edges:
    """A relation that is stored as pairs (x, y) of objects, any number of them, such as roads between cities.

    `source` and `target` name the types of x and y, one or several; empty: any. A static one never changes. With
    `acyclic`, data in which following it leads back to the start are refused.
    """

    name: str
    source: str | tuple[str, ...] = ()
    target: str | tuple[str, ...] = ()
    static: bool = False
    acyclic: bool = False

    def __post_init__(self) -> None:
        check_identifier("relation", self.name)
        for side in ("source", "target"):
            object.__setattr__(self, side, type_names(f"relation {self.name!r}, {side}", getattr(self, side)))
        for flag in ("static", "acyclic"):
            given = check_flag(f"relation {self.name!r}: {flag}", getattr(self, flag), DefinitionError)
            object.__setattr__(self, flag, given)

    def schema(self) -> dict[str, Any]:
        """As JSON values."""
        return {**dataclasses.asdict(self), "source": [*self.source], "target": [*self.target]}


def type_names(what: str, given: Any) -> tuple[str, ...]:
    """The name of a type, or several, as a tuple; None is none."""
    names = (given,) if isinstance(given, str) else check_sequence(what, () if given is None else given, "('block',)")
    for one in names:
        check_identifier("type", one)
    return names


@named
@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of an action that is not simply a real number: `Parameter("gear", Categorical(["low", "high"]))`."""

    name: str
    kind: Kind = REAL

    def __post_init__(self) -> None:
        check_identifier("parameter", self.name)
        if not isinstance(self.kind, Kind) or isinstance(self.kind, Link):
            raise DefinitionError(
                f"parameter {self.name!r}: its kind is a spare.Kind other than Link, such as spare.Boolean(); objects "
                "are the roles of an action"
            )


class Layout(NamedTuple):
    """The columns that types make, which type has which of them (types x columns), and the types' names."""

    properties: tuple[Property, ...]
    has: np.ndarray
    names: tuple[str, ...]


def columns_of(owner: str, types: Sequence[Type], world: Sequence[Property]) -> Layout:
    """The union of all types' properties by name, then the type itself; facts of the world make a type of their own."""
    every = [*types, *([Type(WORLD, tuple(world))] if world else [])]
    names = check_unique("type", [one.name for one in every], owner)
    found: dict[str, Property] = {}
    for one in every:
        for prop in one.properties:
            if prop.name == TYPE:
                raise DefinitionError(
                    f"type {one.name!r}: a property cannot be called {TYPE!r}, which every object has"
                )
            if found.setdefault(prop.name, prop) != prop:
                raise DefinitionError(
                    f"{owner}: property {prop.name!r} is defined in two ways, as {found[prop.name]} and, for type "
                    f"{one.name!r}, as {prop}; give both types the same definition, or rename one"
                )
    has = np.array([[name in [p.name for p in one.properties] for name in found] + [True] for one in every], bool)
    has.flags.writeable = False
    return Layout((*found.values(), Property(TYPE, static=True, kind=Categorical(names))), has, names)


def check_types(owner: str, what: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names of types that a domain does not have."""
    for name in given:
        if name not in known:
            raise DefinitionError(f"{owner}, {what}: {one_of('type', name, known)}")


def roles_and_types(owner: str, objects: Any) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Role names, and the types that each may have (empty: any), of a tuple of names or a dictionary of types."""
    names = check_unique("object role", objects, owner)
    given = objects if isinstance(objects, Mapping) else {}
    return names, tuple(type_names(f"{owner}, role {name!r}", given.get(name)) for name in names)
