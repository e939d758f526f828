"""Tables of worlds with types, written as `spare.data.typed_tables` reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from spare.data.columns import Columns
from spare.data.ragged import Ragged, owners
from spare.data.tables import INFO, converted
from spare.language.discrete import Boolean, Categorical, Link
from spare.language.domain import Domain
from spare.language.kinds import Kind


class Rows:
    """All object rows, those of arrivals among them, transition by transition."""

    def __init__(self, columns: Columns) -> None:
        counts, new = columns.counts, columns.arrivals
        n, total = len(counts), len(columns.values)
        owner, before = columns.owner, np.arange(total)
        source = before if new is None else np.concatenate([before, total + np.arange(new.total)])
        whose = owner if new is None else np.concatenate([owner, new.owner])
        order = np.argsort(whose, kind="stable")
        self.owner, source = whose[order], source[order]
        self.old = source < total
        self.offsets = np.concatenate([[0], np.cumsum(np.bincount(self.owner, minlength=n))])
        ids = columns.ids if new is None else np.concatenate([columns.ids, new.columns["ids"]])
        self.ids = ids[source]
        first = columns.values if new is None else np.concatenate([columns.values, new.columns["values"]])
        second = columns.next_values if new is None else np.concatenate([columns.next_values, new.columns["values"]])
        self.values, self.next_values = first[source], second[source]
        gone = np.zeros(total, bool) if columns.vanished is None else columns.vanished
        self.after = ~(gone if new is None else np.concatenate([gone, np.zeros(new.total, bool)]))[source]

    def of(self, transition: np.ndarray, local: np.ndarray) -> np.ndarray:
        """Ids of objects by their rows within a transition."""
        return self.ids[self.offsets[transition] + local]


def write_typed(domain: Domain, columns: Columns, library: str) -> Any:
    """The long table of an experience, as `library` has it: names of categories, ids of links, empty where nothing."""
    rows = Rows(columns)
    data: dict[str, np.ndarray] = {"transition": rows.owner, "object": rows.ids}
    held = domain.held(rows.values)
    for k, prop in enumerate(domain.properties):
        data[prop.name] = _cells(prop.kind, rows.values[:, k], held[:, k] & (rows.old | prop.static), rows)
        if not prop.static:
            data[f"next_{prop.name}"] = _cells(prop.kind, rows.next_values[:, k], held[:, k] & rows.after, rows)
    if not (rows.old.all() and rows.after.all()):
        data |= {"present": rows.old, "next_present": rows.after}
    data |= _whole(domain, columns, rows)
    data["weight"] = columns.weights[rows.owner]
    for name in INFO:
        if name in columns.info and name not in data:
            data[name] = columns.info[name][rows.owner]
    return converted({name: _plain(column) for name, column in data.items()}, library)


def _whole(domain: Domain, columns: Columns, rows: Rows) -> dict[str, np.ndarray]:
    """What belongs to a transition as a whole, on each of its rows."""
    data = {"action": np.array([a.name for a in domain.actions], object)[columns.action][rows.owner]}
    for index, template in enumerate(domain.actions):
        mine = np.flatnonzero(columns.action == index)
        for k, role in enumerate(template.objects):
            found = data.setdefault(role, np.full(len(columns.action), None, object))
            found[mine] = rows.of(mine, columns.objects[mine, k])
        for k, (name, kind) in enumerate(zip(template.parameters, template.kinds, strict=True)):
            found = data.setdefault(name, np.full(len(columns.action), None, object))
            found[mine] = _cells(kind, columns.parameters[mine, k], np.ones(len(mine), bool), None)
    return {name: column if name == "action" else column[rows.owner] for name, column in data.items()}


def _cells(kind: Kind, values: np.ndarray, mine: np.ndarray, rows: Rows | None) -> np.ndarray:
    """Stored numbers in people's words, None where an object has none."""
    result = np.full(len(values), None, object)
    here = np.flatnonzero(mine)
    if isinstance(kind, Categorical):
        result[here] = np.array(kind.values, object)[values[here].astype(int)]
    elif isinstance(kind, Boolean):
        result[here] = values[here] > 0.5
    elif isinstance(kind, Link) and rows is not None:
        here = here[values[here] >= 0]
        result[here] = rows.of(rows.owner[here], values[here].astype(int))
    else:
        result[here] = values[here]
    return result


def _plain(column: np.ndarray) -> np.ndarray:
    """Numbers as such: NaN where there is none, if there are numbers alone; Booleans and texts as they are."""
    if column.dtype.kind != "O":
        return column
    cells = column.tolist()
    real = [one for one in cells if one is not None]
    if real and all(isinstance(one, float) for one in real):
        return np.array([np.nan if one is None else one for one in cells], np.float64)
    if real and len(real) == len(cells) and all(isinstance(one, bool | int) for one in real):
        return np.array(cells)
    return column


def write_pairs(lists: Ragged, columns: Columns, library: str) -> Any:
    """`transition`, `source` and `target` of a relation, by ids."""
    rows, owner = Rows(columns), owners(lists.offsets)
    data = {"transition": owner}
    data |= {side: rows.of(owner, lists.columns[side]) for side in ("source", "target")}
    return converted(data, library)
