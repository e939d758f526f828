"""Tables of worlds with types, categories, links and relations: one long table, or one for each type.

Columns are those of `spare.data.tables`, and `type`; what a type does not have may be missing, or empty for it.
Categories are names, Booleans true or false, links ids of objects (empty: nobody). `present` and `next_present` say
whether an object is in the state and in the next one (empty: it is). Facts of the world are a row of type `world`, or
columns that repeat them on each row of a transition.

Tables for each type are a dictionary, `{"block": frame, "robot": frame, "action": frame}`: the last one has a row for
each transition with what belongs to it as a whole. Relations are tables of `transition`, `source` and `target`; for a
static one `transition` may be left out, and its pairs hold in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spare.data.cells import numbers
from spare.data.ragged import Ragged, positions_within
from spare.data.tables import INFO, array_of, column_names, first_rows, numbered, shared
from spare.errors import CellError, DataError, one_of
from spare.language.discrete import NONE, Boolean, Link
from spare.language.domain import Domain
from spare.language.kinds import Kind
from spare.language.types import TYPE, WORLD

ACTION = "action"
"""The name of the table of transitions, where there is one for each type."""
Table = dict[str, np.ndarray]
_BOOLEAN = Boolean()


def read_typed(domain: Domain, table: Any, relations: Any, next_relations: Any) -> dict[str, Any]:
    """Tables as arguments of `Experience.from_arrays`; transitions in the order of their first row."""
    return _Reading(domain, _long(domain, table)).arguments(relations, next_relations)


def _is_table(one: Any) -> bool:
    return isinstance(one, Mapping) or hasattr(one, "column_names") or hasattr(one, "columns")


def _long(domain: Domain, table: Any) -> Table:
    """One table with a row for each transition and object, of object arrays; None where a cell is missing."""
    if not (isinstance(table, Mapping) and table and all(_is_table(one) for one in table.values())):
        return _columns(table, _known(domain), "table")
    for name in table:
        if name not in (*domain.types, ACTION):
            raise DataError(f"tables: {one_of('type', name, (*domain.types, ACTION))}")
    whole = _columns(table[ACTION], _known(domain), f"table {ACTION!r}") if ACTION in table else None
    parts = []
    for name in (one for one in domain.types if one in table):
        part = _columns(table[name], _known(domain), f"table {name!r}")
        rows = len(part["transition"]) if "transition" in part else 0
        if not rows:
            raise DataError(f"table {name!r}: it has no rows; leave the type out, or give its objects")
        part.setdefault(TYPE, np.full(rows, name, object))
        if name == WORLD:
            part.setdefault("object", np.full(rows, WORLD, object))
        parts.append(part)
    if not parts:
        raise DataError(f"tables: give one for each type that occurs, by its name ({', '.join(domain.types)})")
    names = list(dict.fromkeys(name for part in parts for name in part))
    empty = [np.full(len(part["transition"]), None, object) for part in parts]
    long = {n: np.concatenate([p.get(n, e) for p, e in zip(parts, empty, strict=True)]) for n in names}
    return long if whole is None else _joined(long, whole)


def _joined(long: Table, whole: Table) -> Table:
    """The long table with the columns of the table of transitions, in its order of transitions."""
    if "transition" not in whole:
        raise DataError(f"table {ACTION!r}: column 'transition' is missing")
    place = {one: row for row, one in enumerate(whole["transition"].tolist())}
    if len(place) != len(whole["transition"]):
        raise DataError(f"table {ACTION!r}: it has two rows for one transition")
    rows = np.array([place.get(one, -1) for one in long["transition"].tolist()], int)
    if (rows < 0).any():
        missing = long["transition"][int(np.argmax(rows < 0))]
        raise DataError(f"table {ACTION!r}: it has no row for transition {missing!r}")
    order = np.argsort(rows, kind="stable")
    found = {name: column[order] for name, column in long.items()}
    return {**found, **{name: column[rows[order]] for name, column in whole.items() if name != "transition"}}


def _known(domain: Domain) -> list[str]:
    """The columns that are read, where they are there."""
    names = ["transition", "object", *domain.property_names, *(f"next_{name}" for name in domain.dynamic_names)]
    for action in domain.actions:
        names += [*action.objects, *action.parameters]
    return list(dict.fromkeys([*names, "present", "next_present", ACTION, "weight", *INFO]))


def _columns(table: Any, known: list[str], what: str) -> Table:
    """The known columns of a table, as object arrays of one length."""
    present = column_names(table)
    for name in known:
        if present.count(name) > 1:
            raise DataError(f"{what}: {present.count(name)} columns are called {name!r}; rename or drop all but one")
    found = {name: array_of(table, name) for name in known if name in present}
    rows = {len(column) if column.ndim == 1 else -1 for column in found.values()}
    if len(rows) > 1 or -1 in rows:
        raise DataError(f"{what}: its columns are not lists of one length")
    return {name: _cells(column) for name, column in found.items()}


def _cells(column: np.ndarray) -> np.ndarray:
    """Python objects, None for what is missing."""
    if column.dtype.kind in "mM":
        return column.astype(object) if column.dtype.kind == "O" else np.array([*column], object)
    cells = column.astype(object)
    if column.dtype.kind in "fO":
        cells[np.array([isinstance(one, float) and one != one for one in cells.tolist()], bool)] = None
    return cells


class _Reading:
    """The rows of a long table, sorted: by transition, arrivals last, and the world itself last of a state."""

    def __init__(self, domain: Domain, table: Table) -> None:
        self.domain = domain
        for name in ("transition", "object", *((TYPE,) if len(domain.types) > 1 else ())):
            if name not in table:
                raise DataError(f"table: columns missing: {name}; it has {', '.join(table)}")
        if not len(table["transition"]):
            raise DataError("table: it has no rows")
        owner = numbered(table["transition"])
        self.types = self._types(table)
        table, owner, self.types = self._with_world(table, owner)
        before, after = (self._flag(table, name) for name in ("present", "next_present"))
        lost = ~before & ~after
        if lost.any():
            row = int(np.argmax(lost))
            raise DataError(
                f"table: row {row}, object {table['object'][row]!r}: it is neither in the state nor in the next one"
            )
        world = np.array([kind == WORLD for kind in domain.types] or [False])[self.types] & domain.has_world
        order = np.lexsort((np.arange(len(owner)), world, ~before, owner))
        self.table = {name: column[order] for name, column in table.items()}
        self.owner, self.types, self.after = owner[order], self.types[order], after[order]
        self.old = before[order]
        self.count = int(self.owner.max()) + 1
        sizes = np.bincount(self.owner, minlength=self.count)
        self.local = positions_within(sizes)
        self.places = {
            (int(i), one): int(k)
            for i, one, k in zip(self.owner, self.table["object"].tolist(), self.local, strict=True)
        }
        self.has = domain.has[self.types] if domain.types else np.ones((len(self.owner), len(domain.properties)), bool)

    def _types(self, table: Table) -> np.ndarray:
        rows = len(table["transition"])
        if TYPE not in table or not self.domain.types:
            return np.zeros(rows, int)
        codes = {name: code for code, name in enumerate(self.domain.types)}
        for row, one in enumerate(table[TYPE].tolist()):
            if one not in codes:
                who = table["object"][row]
                raise DataError(f"table: row {row}, object {who!r}: {one_of('type', one, self.domain.types)}")
        return np.array([codes[one] for one in table[TYPE].tolist()], int)

    def _with_world(self, table: Table, owner: np.ndarray) -> tuple[Table, np.ndarray, np.ndarray]:
        """The table with a row for the world of each transition, of columns that repeat its facts, if it has none."""
        code = len(self.domain.types) - 1
        if not self.domain.has_world or (self.types == code).any():
            return table, owner, self.types
        firsts = first_rows(owner)
        facts = [p.name for k, p in enumerate(self.domain.properties) if self.domain.has[code, k] and p.name != TYPE]
        names = [name for name in (*facts, *(f"next_{one}" for one in facts)) if name in table]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner))])
        order = np.argsort(owner, kind="stable")
        sorted_table = {name: column[order] for name, column in table.items()}
        told = {name: shared(sorted_table, name, offsets) for name in names}
        whole = (
            "transition",
            ACTION,
            "weight",
            *INFO,
            *(n for a in self.domain.actions for n in (*a.objects, *a.parameters)),
        )
        extra = {}
        for name, column in table.items():
            if name in told:
                extra[name] = np.concatenate([np.full(len(column), None, object), told[name]])
            else:
                kept = column[firsts] if name in whole else np.full(len(firsts), WORLD if name == "object" else None)
                extra[name] = np.concatenate([column, kept.astype(object)])
        types = np.concatenate([self.types, np.full(len(firsts), code)])
        extra[TYPE] = np.array(self.domain.types, object)[types]
        return extra, np.concatenate([owner, owner[firsts]]), types

    def _flag(self, table: Table, name: str) -> np.ndarray:
        if name not in table:
            return np.ones(len(table["transition"]), bool)
        cells = self._read(_BOOLEAN, table[name], np.arange(len(table[name])), table, name)
        return np.where(np.isnan(cells), 1.0, cells) > 0.5

    def _read(self, kind: Kind, cells: np.ndarray, rows: np.ndarray, table: Table, name: str) -> np.ndarray:
        """Stored numbers of the cells at these rows, NaN where they are empty."""
        given = cells[rows]
        if all(isinstance(one, int | float | None) and not isinstance(one, bool) for one in given.tolist()):
            return np.array([np.nan if one is None else one for one in given.tolist()], np.float64)
        try:
            found = kind.read(given)
        except CellError as error:
            row = rows[error.row]
            place = f"transition {table['transition'][row]!r}, object {table['object'][row]!r}"
            raise DataError(f"table: {place}, column {name!r}: {error.reason}") from error
        return numbers(given, f"table: column {name!r}")[0].astype(np.float64) if found is None else found

    def _values(self, *, after: bool) -> np.ndarray:
        """Stored numbers (rows, P) of all rows, before or after."""
        result = np.zeros((len(self.owner), len(self.domain.properties)))
        there = self.after if after else self.old
        for column, prop in enumerate(self.domain.properties):
            name = f"next_{prop.name}" if after and not prop.static else prop.name
            if prop.name == TYPE and self.domain.types:
                result[:, column] = self.types
                continue
            rows = np.flatnonzero(self.has[:, column] & there)
            if name not in self.table:
                if len(rows) and not isinstance(prop.kind, Link):
                    raise DataError(f"table: columns missing: {name}; it has {', '.join(self.table)}")
                result[rows, column] = NONE if isinstance(prop.kind, Link) else 0.0
                continue
            self._refuse_others(name, column)
            cells = self.table[name]
            if isinstance(prop.kind, Link):
                result[rows, column] = [self._row(int(r), cells[r], name) for r in rows]
            else:
                result[rows, column] = self._read(prop.kind, cells, rows, self.table, name)
        return result

    def _refuse_others(self, name: str, column: int) -> None:
        filled = ~self.has[:, column] & np.array([one is not None and one != "" for one in self.table[name].tolist()])
        if filled.any():
            row = int(np.argmax(filled))
            kind, prop = self.domain.types[self.types[row]], name.removeprefix("next_")
            raise DataError(
                f"table: transition {self.table['transition'][row]!r}, object {self.table['object'][row]!r}: it is of "
                f"type {kind!r}, which has no property {prop!r}, but {self.table[name][row]!r} is there; leave it empty"
            )

    def _row(self, row: int, one: Any, name: str) -> float:
        """Where the object stands to which a link leads."""
        if one is None or one == "":
            return float(NONE)
        found = self.places.get((int(self.owner[row]), one))
        if found is None:
            raise DataError(
                f"table: transition {self.table['transition'][row]!r}, object {self.table['object'][row]!r}, link "
                f"{name!r}: there is no object {one!r} in this transition"
            )
        return float(found)

    def arguments(self, relations: Any, next_relations: Any) -> dict[str, Any]:
        """All that `Experience.from_arrays` takes."""
        domain, old = self.domain, self.old
        values, after = self._values(after=False), self._values(after=True)
        pairs = self._pairs(relations, values, after=False)
        next_pairs = self._pairs(next_relations, after, after=True)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(self.owner[old], minlength=self.count))])
        starts = {name: column[old] for name, column in self.table.items()}
        action, templates = self._actions(starts, offsets)
        new = Ragged.of(self.owner[~old], {"ids": self.table["object"][~old], "values": after[~old]}, self.count)
        info = {name: shared(starts, name, offsets) for name in INFO if name in starts and name not in self._taken()}
        return {
            "values": values[old],
            "next_values": after[old],
            "offsets": offsets,
            "ids": starts["object"],
            "action": action,
            "objects": self._objects(starts, templates, offsets),
            "parameters": self._parameters(starts, templates, offsets),
            "weights": np.array(shared(starts, "weight", offsets), float) if "weight" in starts else None,
            "info": {name: np.array(column.tolist()) for name, column in info.items()},
            "vanished": ~self.after[old] if domain.types else None,
            "arrivals": new if new.total else None,
            "pairs": pairs,
            "next_pairs": next_pairs,
        }

    def _taken(self) -> set[str]:
        """Names that a property or a parameter has."""
        return {*self.domain.property_names, *(name for action in self.domain.actions for name in action.parameters)}

    def _actions(self, starts: Table, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(names, template indices, -1 for unknown ones) of the actions."""
        names = [action.name for action in self.domain.actions]
        if ACTION not in starts:
            if len(names) > 1:
                raise DataError(f"table: columns missing: {ACTION}; it has {', '.join(starts)}")
            return np.full(self.count, names[0], object), np.zeros(self.count, int)
        found = shared(starts, ACTION, offsets)
        return found, np.array([names.index(one) if one in names else -1 for one in found.tolist()])

    def _objects(self, starts: Table, templates: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        result = np.zeros((self.count, self.domain.roles), np.int64)
        for index, template in enumerate(self.domain.actions):
            for k, role in enumerate(template.objects):
                rows = np.flatnonzero(templates == index)
                if len(rows) and role not in starts:
                    raise DataError(f"table: columns missing: {role}; it has {', '.join(starts)}")
                told = shared(starts, role, offsets) if len(rows) else ()
                for i in rows:
                    place = self.places.get((int(i), told[i]), -1)
                    if not 0 <= place < offsets[i + 1] - offsets[i]:
                        raise DataError(
                            f"transition {i}, action {template.name!r}: its {role} {told[i]!r} is not in the state"
                        )
                    result[i, k] = place
        return result

    def _parameters(self, starts: Table, templates: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        result = np.zeros((self.count, self.domain.parameters))
        for index, template in enumerate(self.domain.actions):
            rows = np.flatnonzero(templates == index)
            for k, (name, kind) in enumerate(zip(template.parameters, template.kinds, strict=True)):
                if len(rows) and name not in starts:
                    raise DataError(f"table: columns missing: {name}; it has {', '.join(starts)}")
                if len(rows):
                    cells = shared(starts, name, offsets)
                    heads = {key: column[offsets[:-1]] for key, column in starts.items()}
                    result[rows, k] = self._read(kind, cells, rows, heads, name)
        return result

    def _pairs(self, relations: Any, values: np.ndarray, *, after: bool) -> dict[str, Ragged] | None:
        """Stored relations of the next states or the states; links that were given as pairs go into the values."""
        given = {} if relations is None else relations
        if not isinstance(given, Mapping):
            raise DataError("relations: expected a dictionary of tables by name")
        for name in given:
            if name not in self.domain.stored:
                raise DataError(one_of("relation", name, self.domain.stored))
        found = {}
        for name in given:
            owner, source, target = self._pair_rows(name, given[name])
            if name in self.domain.property_names:
                self._set_links(name, (owner, source, target), values)
            else:
                found[name] = Ragged.of(owner, {"source": source, "target": target}, self.count)
        return found or None

    def _pair_rows(self, name: str, table: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(transition, source, target) of all pairs, as numbers."""
        what = f"relation {name!r}"
        columns = _columns(table, ["transition", "source", "target"], what)
        if not {"source", "target"} <= {*columns}:
            raise DataError(f"{what}: its table has columns transition, source and target; it has {', '.join(columns)}")
        source, target = columns["source"].tolist(), columns["target"].tolist()
        if "transition" not in columns:
            return self._everywhere(what, source, target)
        firsts = self.table["transition"][first_rows(self.owner)].tolist()
        place = {one: i for i, one in enumerate(firsts)}
        rows = []
        for row, (which, *ends) in enumerate(zip(columns["transition"].tolist(), source, target, strict=True)):
            if which not in place:
                raise DataError(f"{what}, row {row}: there is no transition {which!r}")
            for one in ends:
                if (place[which], one) not in self.places:
                    raise DataError(f"{what}, row {row}: there is no object {one!r} in transition {which!r}")
            rows.append((place[which], *(self.places[place[which], one] for one in ends)))
        found = np.array(rows, np.int64).reshape(-1, 3)
        return found[:, 0], found[:, 1], found[:, 2]

    def _everywhere(self, what: str, source: list[Any], target: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs that hold in every transition."""
        parts = []
        for i in range(self.count):
            try:
                ends = [[self.places[i, one] for one in side] for side in (source, target)]
            except KeyError as error:
                raise DataError(f"{what}: there is no object {error.args[0][1]!r} in transition {i}") from error
            parts.append(np.array([np.full(len(source), i), *ends], np.int64))
        found = np.concatenate(parts, axis=1)
        return found[0], found[1], found[2]

    def _set_links(self, name: str, pairs: tuple[np.ndarray, ...], values: np.ndarray) -> None:
        column = self.domain.property_names.index(name)
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.owner, minlength=self.count))])
        for i, one, other in zip(*(part.tolist() for part in pairs), strict=True):
            row = starts[i] + one
            if values[row, column] not in (NONE, other):
                ids = self.table["object"]
                first, second = ids[starts[i] + int(values[row, column])], ids[starts[i] + other]
                raise DataError(
                    f"transition {self.table['transition'][row]!r}, object {ids[row]!r}, link {name!r}: it leads to "
                    f"{first!r} and to {second!r}; a link has one value: declare it in relations=[spare.Edges(...)] if "
                    "there can be several"
                )
            values[row, column] = other
