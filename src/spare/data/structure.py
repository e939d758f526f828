"""Checks of what a world with types stores: types, kinds of values, links, relations, arrivals, the world itself.

Every error names the transition, the object and the property.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spare.data.cells import numbers, whole_array
from spare.data.columns import Columns
from spare.data.ragged import Ragged, owners, positions_within
from spare.data.state import ObjectId
from spare.errors import DataError, one_of
from spare.language.discrete import Link
from spare.language.domain import Domain
from spare.language.kinds import Kind, Real
from spare.language.types import WORLD

Where = tuple[np.ndarray, np.ndarray]
"""(transition, id) of every row."""


def with_types(domain: Domain, values: Any, types: Any, rows: int, what: str) -> Any:
    """Values (rows, P) with the type as their last column, from names or numbers of types given beside them."""
    if types is None:
        return values
    if not domain.types:
        raise DataError(f"types: the domain {domain.name!r} has no types; leave them out")
    given = whole_array(types, "types")
    if given.shape != (rows,):
        raise DataError(f"types: expected {rows}, one for each object row, got shape {given.shape}")
    if given.dtype.kind in "OTU":
        codes = {name: code for code, name in enumerate(domain.types)}
        for row, name in enumerate(given.tolist()):
            if name not in codes:
                raise DataError(f"types, row {row}: {one_of('type', name, domain.types)}")
        given = np.array([codes[name] for name in given.tolist()])
    array, dates = numbers(values, what)
    if dates or array.ndim != 2 or array.shape != (rows, len(domain.properties) - 1):
        expected = (rows, len(domain.properties) - 1)
        raise DataError(f"{what}: expected shape {expected} beside types, one row per object, got {array.shape}")
    return np.concatenate([array, given.astype(array.dtype)[:, None]], axis=1)


def emptied(domain: Domain, values: np.ndarray, where: Where, what: str) -> np.ndarray:
    """Values (rows, P) with 0 for what a type does not have; a number there, or an unknown type, is refused."""
    if not domain.types:
        return values
    column = values[:, -1]
    wrong = ~np.isfinite(column) | domain.properties[-1].kind.faults(np.nan_to_num(column))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{_place(where, row)}: its type {column[row]:g} is none of 0 to {len(domain.types) - 1} "
            f"({', '.join(domain.types[:12])})"
        )
    lacks = ~domain.held(values)
    filled = lacks & np.isfinite(values) & (values != 0)
    if filled.any():
        row, k = (int(one) for one in np.argwhere(filled)[0])
        raise DataError(
            f"{_place(where, row)}: it is of type {domain.types[int(column[row])]!r}, which has no property "
            f"{domain.property_names[k]!r}, but has {values[row, k]:g} there in the {what}; leave it empty"
        )
    return np.where(lacks, values.dtype.type(0), values) if lacks.any() else values


def _place(where: Where, row: Any) -> str:
    return f"transition {where[0][row]}, object {_id(where[1], row)!r}"


def _id(ids: np.ndarray, row: Any) -> ObjectId:
    """One id, as Python has it."""
    return ids[int(row) : int(row) + 1].tolist()[0]


def check_kinds(domain: Domain, values: np.ndarray, where: Where, what: str) -> None:
    """Refuse values that a property of an object cannot have, by its kind; all are finite."""
    held = domain.held(values) if domain.types else None
    for column, prop in enumerate(domain.properties):
        if type(prop.kind).faults is Kind.faults or prop.kind == Real():
            continue
        wrong = prop.kind.faults(values[:, column])
        wrong = wrong if held is None else wrong & held[:, column]
        if wrong.any():
            row = int(np.argmax(wrong))
            value = values[row, column]
            told = f"{value:g} {prop.kind.fault(float(value))} (in the {what})"
            raise DataError(f"{_place(where, row)}, property {prop.name!r}: {told}")


def check_parameter_kinds(domain: Domain, action: np.ndarray, parameters: np.ndarray) -> None:
    """Refuse parameters that an action cannot have, by their kinds."""
    for index, template in enumerate(domain.actions):
        rows = np.flatnonzero(action == index)
        for k, kind in enumerate(template.kinds):
            wrong = kind.faults(parameters[rows, k])
            if wrong.any():
                row = rows[int(np.argmax(wrong))]
                value = parameters[row, k]
                raise DataError(
                    f"transition {row}, action {template.name!r}, parameter {template.parameters[k]!r}: {value:g} "
                    f"{kind.fault(float(value))}"
                )


def check_roles(domain: Domain, action: np.ndarray, rows: np.ndarray, columns: Columns) -> None:
    """Refuse actions whose objects, at these rows (n, roles) of all, are of another type than their roles."""
    types = domain.types_of(columns.values)
    for index, template in enumerate(domain.actions):
        mine = np.flatnonzero(action == index)
        for k, allowed in enumerate(template.role_types):
            if not allowed or not len(mine):
                continue
            flat = rows[mine, k]
            wrong = ~np.isin(types[flat], [domain.types.index(name) for name in allowed])
            if wrong.any():
                i = int(np.argmax(wrong))
                raise DataError(
                    f"transition {mine[i]}, action {template.name!r}: its {template.objects[k]} "
                    f"{_id(columns.ids, flat[i])!r} is a {domain.types[types[flat[i]]]}, not a {' or '.join(allowed)}"
                )


def check_world(domain: Domain, columns: Columns) -> None:
    """Refuse states that do not end with the world itself, where the domain has facts of it."""
    if not domain.has_world:
        return
    world = domain.types_of(columns.values) == len(domain.types) - 1
    count = np.add.reduceat(world.astype(np.int64), columns.offsets[:-1]) if len(columns.action) else np.zeros(0)
    wrong = (count != 1) | ~world[columns.offsets[1:] - 1]
    if wrong.any():
        i = int(np.argmax(wrong))
        raise DataError(
            f"transition {i}: the last object of a state must be the one of type {WORLD!r}, which has the facts of the "
            f"world; this one has {int(count[i])} of them. A Builder, make_state and from_table add it"
        )
    gone = columns.vanished is not None and (columns.vanished & world).any()
    if gone or (columns.arrivals is not None and (_types(domain, columns.arrivals) == len(domain.types) - 1).any()):
        raise DataError("the world itself neither appears nor vanishes")


def _types(domain: Domain, arrivals: Ragged) -> np.ndarray:
    return domain.types_of(arrivals.columns["values"])


class After:
    """The objects of the next states: rows of a transition count on from its state's to its arrivals."""

    def __init__(self, domain: Domain, columns: Columns) -> None:
        self.columns, self.arrivals = columns, columns.arrivals
        self.counts = columns.counts
        self.types, self.gone = domain.types_of(columns.values), columns.vanished
        self.new_types = None if self.arrivals is None else _types(domain, self.arrivals)

    @property
    def sizes(self) -> np.ndarray:
        """Objects of each transition, those that vanished and those that arrived included."""
        return self.counts if self.arrivals is None else self.counts + self.arrivals.counts

    def look(self, transition: np.ndarray, local: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(type, whether it is there, id) of objects by their rows within a transition, all within its size."""
        flat = np.minimum(self.columns.offsets[transition] + local, len(self.types) - 1)
        kind, there = self.types[flat], np.ones(len(flat), bool)
        ids = self.columns.ids[flat]
        if self.gone is not None:
            there = ~self.gone[flat]
        if self.arrivals is not None and self.new_types is not None:
            new = local >= self.counts[transition]
            place = np.where(new, self.arrivals.offsets[transition] + local - self.counts[transition], 0)
            kind, there = np.where(new, self.new_types[place], kind), there | new
            ids = np.where(new, self.arrivals.columns["ids"][place], ids)
        return kind, there, ids


def check_links(domain: Domain, columns: Columns) -> None:
    """Refuse links to nobody's row, to an object that is not there, to another type, and in circles where declared."""
    for column, prop in enumerate(domain.properties):
        if isinstance(prop.kind, Link):
            after = After(domain, columns)
            here = (columns.owner, columns.ids)
            mine = domain.held(columns.values)[:, column]
            _check_link(domain, prop.name, prop.kind, columns.values[:, column], here, mine, None, columns)
            kept = mine if columns.vanished is None else mine & ~columns.vanished
            _check_link(domain, prop.name, prop.kind, columns.next_values[:, column], here, kept, after, columns)
            if columns.arrivals is not None:
                new = columns.arrivals
                place = (new.owner, new.columns["ids"])
                held = domain.held(new.columns["values"])[:, column]
                found = new.columns["values"][:, column]
                _check_link(domain, prop.name, prop.kind, found, place, held, after, columns)


def _check_link(  # noqa: PLR0913 - a column of links, whose they are, and where they may lead
    domain: Domain,
    name: str,
    kind: Link,
    links: np.ndarray,
    where: Where,
    mine: np.ndarray,
    after: After | None,
    columns: Columns,
) -> None:
    what = "state" if after is None else "next state"
    rows = np.flatnonzero(mine & (links >= 0))
    seen = After(domain, columns._replace(vanished=None, arrivals=None)) if after is None else after
    owner, local = where[0][rows], links[rows].astype(np.int64)
    beyond = local >= seen.sizes[owner]
    if beyond.any():
        row = rows[int(np.argmax(beyond))]
        raise DataError(
            f"{_place(where, row)}, link {name!r}: it leads to row {links[row]:g} of the {what}, which has "
            f"{seen.sizes[where[0][row]]} objects"
        )
    types, there, ids = seen.look(owner, local)
    if not there.all():
        k = int(np.argmax(~there))
        raise DataError(
            f"{_place(where, rows[k])}, link {name!r}: it leads to {_id(ids, k)!r}, which is not in the next state"
        )
    wrong = ~np.isin(types, [domain.types.index(one) for one in kind.to]) if kind.to else np.zeros(len(rows), bool)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DataError(
            f"{_place(where, rows[k])}, link {name!r}: it leads to {_id(ids, k)!r}, which is a "
            f"{domain.types[types[k]]}, not a {' or '.join(kind.to)} (in the {what})"
        )
    if kind.acyclic and after is None:
        pairs = np.stack([positions_within(columns.counts)[rows], local], axis=1)
        _refuse_circles(f"link {name!r}", owner, pairs, columns, what)


def _refuse_circles(what: str, owner: np.ndarray, pairs: np.ndarray, columns: Columns, when: str) -> None:
    """Refuse pairs (x, y) of rows that lead in a circle: leaves are taken off until nothing is left but circles."""
    sizes = columns.counts if columns.arrivals is None else columns.counts + columns.arrivals.counts
    starts = np.concatenate([[0], np.cumsum(sizes)])
    source, target = starts[owner] + pairs[:, 0], starts[owner] + pairs[:, 1]
    while len(source):
        leads = np.zeros(starts[-1], bool)
        leads[source] = True
        keep = leads[target]
        if keep.all():
            i = int(owner[0])
            local = int(source[0] - starts[i])
            known = local < columns.counts[i]
            who = _id(columns.ids, columns.offsets[i] + local) if known else f"arrival {local - columns.counts[i]}"
            raise DataError(
                f"transition {i}, object {who!r}: following {what} from it leads back to it in the {when}; repair "
                "it, or declare it without acyclic=True"
            )
        source, target, owner = source[keep], target[keep], owner[keep]


def check_pairs(domain: Domain, given: Mapping[str, Any] | None, columns: Columns, *, after: bool) -> dict[str, Ragged]:
    """Stored relations by name, as rows `source` and `target` within a transition: each pair once, in order.

    A static one need not be given after a transition, and is kept before it alone.
    """
    known = [one for one in domain.relations if not (after and one.static)]
    given = {} if given is None else given
    for name in given:
        if name not in [one.name for one in domain.relations]:
            raise DataError(one_of("relation", name, (one.name for one in domain.relations)))
    return {one.name: _check_pairs(domain, one, given.get(one.name), columns, after) for one in known}


def _check_pairs(domain: Domain, relation: Any, given: Any, columns: Columns, after: bool) -> Ragged:
    what, n = f"relation {relation.name!r}", len(columns.action)
    if given is None:
        place = "after each transition " if after else ""
        raise DataError(f"{what}: its pairs {place}are missing; give a list, which may be empty")
    offsets, source, target = _raw_pairs(what, given, n)
    owner = owners(offsets)
    seen = After(domain, columns) if after else After(domain, columns._replace(vanished=None, arrivals=None))
    when = "next state" if after else "state"
    for side, rows, allowed in (("source", source, relation.source), ("target", target, relation.target)):
        beyond = (rows < 0) | (rows >= seen.sizes[owner])
        if beyond.any():
            k = int(np.argmax(beyond))
            raise DataError(f"transition {owner[k]}, {what}: row {rows[k]} is not an object of the {when}")
        types, there, ids = seen.look(owner, rows)
        if not there.all():
            k = int(np.argmax(~there))
            raise DataError(f"transition {owner[k]}, {what}: {_id(ids, k)!r} is not in the next state")
        wrong = np.zeros(len(rows), bool)
        if allowed:
            wrong = ~np.isin(types, [domain.types.index(one) for one in allowed])
        if wrong.any():
            k = int(np.argmax(wrong))
            raise DataError(
                f"transition {owner[k]}, {what}: its {side} {_id(ids, k)!r} is a {domain.types[types[k]]}, not a "
                f"{' or '.join(allowed)} (in the {when})"
            )
    order = np.lexsort((target, source, owner))
    owner, source, target = owner[order], source[order], target[order]
    same = (owner[1:] == owner[:-1]) & (source[1:] == source[:-1]) & (target[1:] == target[:-1])
    first = np.concatenate([np.ones(min(1, len(owner)), bool), ~same])
    owner, source, target = owner[first], source[first], target[first]
    if relation.acyclic:
        _refuse_circles(what, owner, np.stack([source, target], axis=1), columns, when)
    return Ragged.of(owner, {"source": source.astype(np.int32), "target": target.astype(np.int32)}, n)


def _raw_pairs(what: str, given: Any, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(offsets, source, target) as whole numbers of one length."""
    if isinstance(given, Ragged):
        given = {"offsets": given.offsets, **given.columns}
    if not isinstance(given, Mapping) or {*given} != {"offsets", "source", "target"}:
        raise DataError(f"{what}: expected a dictionary of offsets, source and target")
    parts = [whole_array(given[name], f"{what}, {name}") for name in ("offsets", "source", "target")]
    for name, part in zip(("offsets", "source", "target"), parts, strict=True):
        if part.ndim != 1 or (len(part) and part.dtype.kind not in "iu"):
            raise DataError(f"{what}, {name}: expected whole numbers, got {part.dtype}{part.shape}")
    offsets, source, target = (part.astype(np.int64) for part in parts)
    steps = np.diff(offsets)
    if len(offsets) != n + 1 or offsets[0] != 0 or (steps < 0).any() or not offsets[-1] == len(source) == len(target):
        raise DataError(f"{what}: offsets are {n + 1} numbers from 0 to the number of pairs, {len(source)}")
    return offsets, source, target
