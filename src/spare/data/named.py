"""States by name: values, links and relations in the words that people use, made into rows and numbers, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spare.arguments import described, is_real
from spare.data.checks import check_id
from spare.data.state import ActionCall, ObjectId, State
from spare.errors import CellError, DataError, one_of
from spare.language.discrete import NONE, Boolean, Categorical, Link
from spare.language.domain import Domain, expect_domain
from spare.language.kinds import Kind
from spare.language.properties import Property
from spare.language.types import TYPE, WORLD
from spare.names import shown


def make_state(
    domain: Domain,
    objects: Mapping[Any, Mapping[str, Any]],
    *,
    world: Mapping[str, Any] | None = None,
    relations: Mapping[str, Any] | None = None,
    what: str = "state",
) -> State:
    """A state from names: `{"a": {"type": "block", "x": 0.1, "colour": "red", "on": "b"}, ...}`.

    Links are given by the id of the other object, None for nobody; `relations` has pairs of ids by name, of links too:
    `{"road": [("a", "b")]}`. Facts of the world are given as `world`, or as an object of that id.
    """
    expect_domain(domain)
    if not isinstance(objects, Mapping):
        raise DataError(f"{what}: expected a dictionary of objects by their ids, got {described(objects)}")
    things = {one: dict(facts) if isinstance(facts, Mapping) else facts for one, facts in objects.items()}
    if domain.has_world:
        facts = {**things.pop(WORLD, {}), **(world or {})}
        things[WORLD] = {**facts, TYPE: WORLD}  # always the last
    elif world:
        raise DataError(f"{what}: the domain {domain.name!r} has no facts of the world itself")
    ids = tuple(check_id(one, what) for one in things)
    rows = {one: row for row, one in enumerate(ids)}
    stored = pairs_by_name(domain, relations, what)
    for name, pairs in stored.items():
        if name in domain.property_names:
            _add_links(things, name, pairs, what)
    values = np.array([_row(domain, one, facts, rows, what) for one, facts in things.items()], np.float64)
    pairs = {
        name: _as_rows(name, found, rows, what) for name, found in stored.items() if name not in domain.property_names
    }
    return State(ids, values.reshape(len(ids), len(domain.properties)), pairs)


def pairs_by_name(domain: Domain, relations: Mapping[str, Any] | None, what: str) -> dict[str, list[tuple[Any, Any]]]:
    """Pairs of ids for each stored relation of the domain, and for those of its links that were given so."""
    given = {} if relations is None else relations
    if not isinstance(given, Mapping):
        raise DataError(f"{what}: relations are a dictionary of pairs of ids, got {described(given)}")
    for name in given:
        if name not in domain.stored:
            raise DataError(f"{what}: {one_of('relation', name, domain.stored)}")
    found: dict[str, list[tuple[Any, Any]]] = {one.name: [] for one in domain.relations}
    for name, pairs in given.items():
        if isinstance(pairs, str) or not hasattr(pairs, "__iter__"):
            raise DataError(f"{what}, relation {name!r}: expected a list of pairs of ids, got {described(pairs)}")
        found[name] = [_pair(one, f"{what}, relation {name!r}") for one in pairs]
    return found


def _pair(one: Any, what: str) -> tuple[Any, Any]:
    if isinstance(one, str) or not isinstance(one, Sequence) or len(one) != 2:
        raise DataError(f"{what}: expected pairs of ids, such as ('a', 'b'), got {shown(repr(one), 60)}")
    return one[0], one[1]


def _add_links(things: dict[Any, Any], name: str, pairs: list[tuple[Any, Any]], what: str) -> None:
    """Links given as pairs, one for each object at most."""
    for source, target in pairs:
        if source not in things:
            raise DataError(f"{what}, relation {name!r}: {source!r} is not in the state ({list(things)[:8]})")
        before = things[source].get(name)
        if before is not None and before != target:
            raise DataError(
                f"{what}, object {source!r}, link {name!r}: it leads to {before!r} and to {target!r}; a link has one "
                "value: declare it in relations=[spare.Edges(...)] if there can be several"
            )
        things[source][name] = target


def _as_rows(name: str, pairs: list[tuple[Any, Any]], rows: dict[Any, int], what: str) -> np.ndarray:
    for one in (one for pair in pairs for one in pair):
        if one not in rows:
            raise DataError(f"{what}, relation {name!r}: {one!r} is not in the state ({list(rows)[:8]})")
    return np.array([[rows[a], rows[b]] for a, b in pairs], np.int32).reshape(-1, 2)


def _row(domain: Domain, one: ObjectId, facts: Any, rows: dict[Any, int], what: str) -> list[float]:
    """The stored numbers of one object."""
    where = f"{what}, object {one!r}"
    if not isinstance(facts, Mapping):
        raise DataError(
            f"{where}: expected a dictionary of its properties, got {described(facts)}; or make a state of arrays, "
            "spare.State(ids, values)"
        )
    has = domain.has[0]
    if domain.types:
        if len(domain.types) == 1:
            facts = {TYPE: domain.types[0], **facts}
        if facts.get(TYPE) not in domain.types:
            raise DataError(f"{where}: {one_of('type', facts.get(TYPE), domain.types)}")
        has = domain.has[domain.types.index(facts[TYPE])]
    for name in facts:
        if name not in domain.property_names:
            raise DataError(f"{where}: {one_of('property', name, domain.property_names)}")
        if not has[domain.property_names.index(name)] and facts[name] is not None:
            raise DataError(f"{where}: it is of type {facts[TYPE]!r}, which has no property {name!r}; leave it out")
    columns = zip(domain.properties, has, strict=True)
    return [_number(prop, facts, rows, where) if mine else 0.0 for prop, mine in columns]


def _number(prop: Property, facts: Mapping[str, Any], rows: dict[Any, int], where: str) -> float:
    value = facts.get(prop.name)
    if isinstance(prop.kind, Link):
        if value is None:
            return float(NONE)
        if value not in rows:
            raise DataError(f"{where}, link {prop.name!r}: {value!r} is not in the state ({list(rows)[:8]})")
        return float(rows[value])
    if prop.name not in facts or value is None:
        raise DataError(f"{where}: property {prop.name!r} is missing")
    return stored_value(prop.kind, value, f"{where}, property {prop.name!r}")


def stored_value(kind: Kind, value: Any, where: str) -> float:
    """The number by which a value of this kind is stored."""
    if isinstance(value, str | bool | np.bool_):
        cell = np.empty(1, object)
        cell[0] = bool(value) if isinstance(value, np.bool_) else value
        try:
            found = kind.read(cell)
        except CellError as error:
            raise DataError(f"{where}: {error.reason}") from error
        if found is None and not isinstance(value, str):
            return float(value)
        if found is not None:
            return float(found[0])
    given: Any = value
    if getattr(given, "shape", None) == () and getattr(getattr(given, "dtype", None), "kind", "") in "fiu":
        value = given.item()
    if not is_real(value):
        raise DataError(f"{where}: {shown(repr(value), 80)} is not a number")
    if np.isfinite(value) and bool(kind.faults(np.array([float(value)]))[0]):
        raise DataError(f"{where}: {float(value):g} {kind.fault(float(value))}")
    return float(value)


def named_value(kind: Kind, value: float) -> Any:
    """A stored number as people write it: the name of a category, True or False; other numbers as they are."""
    if isinstance(kind, Categorical):
        return kind.show(value)
    return value > 0.5 if isinstance(kind, Boolean) else value


def named_objects(domain: Domain, state: State) -> dict[ObjectId, dict[str, Any]]:
    """The objects of a state as `make_state` takes them: what a type does not have is left out."""
    held, found = domain.held(state.values), {}
    for row, one in enumerate(state.ids):
        facts: dict[str, Any] = {}
        for column, prop in enumerate(domain.properties):
            value = state.values[row, column].item()
            if isinstance(prop.kind, Link) and held[row, column]:
                facts[prop.name] = None if value < 0 else state.ids[int(value)]
            elif held[row, column]:
                facts[prop.name] = named_value(prop.kind, value)
        found[one] = facts
    return found


def parameters_of(domain: Domain, call: ActionCall, what: str) -> tuple[float, ...]:
    """The parameters of an action as stored numbers."""
    template = domain.action(call.action)
    parts = zip(template.parameters, template.kinds, call.parameters, strict=True)
    return tuple(stored_value(kind, value, f"{what}, parameter {name!r}") for name, kind, value in parts)


def present(domain: Domain, state: State, there: np.ndarray) -> State:
    """The state without the objects that are not there; links and pairs count the others' rows."""
    if domain.has_world:  # the world itself stays last
        world = int(np.flatnonzero(domain.types_of(state.values) == len(domain.types) - 1)[0])
        order = np.array([*(k for k in np.flatnonzero(there) if k != world), world])
    else:
        order = np.flatnonzero(there)
    place = np.full(len(there) + 1, NONE)
    place[order] = np.arange(len(order))
    values = state.values[order].copy()
    for column, prop in enumerate(domain.properties):
        if isinstance(prop.kind, Link):
            mine = domain.held(values)[:, column]
            values[mine, column] = place[values[mine, column].astype(int)]
    pairs = {name: place[one] for name, one in state.pairs.items()}
    kept = {name: one[(one >= 0).all(axis=1)] for name, one in pairs.items()}
    return State(tuple(state.ids[int(k)] for k in order), values, kept)
