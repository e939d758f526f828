"""Long tables: one row per transition and object, as pandas, polars, pyarrow or a dictionary of columns.

Columns: `transition`, `object`, one per property, `next_<property>` for each property that can change, `action`,
one per role (holding the id of that object), one per action parameter, and optionally `weight`, `episode` and `time`,
which are kept as information. What belongs to the whole transition (action, roles, parameters, weight, episode, time)
is repeated on each of its rows. Missing cells and dates are read as `spare.data.cells` says.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spare.arguments import described
from spare.data.cells import as_array, none_missing, numbers
from spare.data.columns import Columns
from spare.data.intake import check_date, match_rows
from spare.errors import DataError, UsageError, one_of
from spare.language.domain import Domain, expect_domain
from spare.language.properties import Property

INFO = ("episode", "time")
"""Columns that are kept as information of a transition."""


def read_table(domain: Domain, table: Any) -> dict[str, Any]:
    """A table as arguments of `Experience.from_arrays`; transitions in the order of their first row.

    `action` may be left out when the domain has one template. To match next states by id from rows in another
    order, give the next ids in a column `next_object`.
    """
    columns, times = _with_numbers(domain, _columns(expect_domain(domain), table))
    owner = numbered(columns["transition"])
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner))])
    columns = {name: column[order] for name, column in columns.items()}
    starts = offsets[:-1]
    taken = {*domain.property_names, *(name for one in domain.actions for name in (*one.objects, *one.parameters))}
    action = shared(columns, "action", offsets) if "action" in columns else np.zeros(len(starts), np.int64)
    names = [a.name for a in domain.actions]
    templates = (
        [names.index(one) if one in names else -1 for one in action.tolist()] if action.dtype.kind in "OTU" else action
    )
    return {
        "values": np.stack([columns[name] for name in domain.property_names], 1),
        "next_values": _next_values(domain, columns, offsets),
        "offsets": offsets,
        "ids": columns["object"],
        "action": action,
        "objects": _objects(domain, columns, np.asarray(templates), offsets),
        "parameters": _parameters(domain, columns, np.asarray(templates), offsets),
        "weights": shared(columns, "weight", offsets) if "weight" in columns else None,
        "info": {name: shared(columns, name, offsets) for name in INFO if name in columns and name not in taken},
        "metadata": {"times": times} if times else {},
    }


def numbered(transition: np.ndarray) -> np.ndarray:
    """The number of each row's transition, in the order of their first rows."""
    try:
        _, first, owner = np.unique(transition, return_index=True, return_inverse=True)
    except TypeError as error:
        raise DataError(f"table: column 'transition' mixes numbers, texts or empty cells: {error}") from error
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[owner]


def first_rows(owner: np.ndarray) -> np.ndarray:
    """The first row of each transition, by its number."""
    return np.unique(owner, return_index=True)[1]


def _with_numbers(domain: Domain, columns: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """(the columns with those that hold numbers as such, what is counted from where): dates become seconds."""
    times: dict[str, str] = {}
    real = {"weight", *domain.property_names, *(f"next_{name}" for name in domain.dynamic_names)}
    real |= {name for action in domain.actions for name in action.parameters}
    for name in sorted(real & {*columns}):
        what, column = f"table: column {name!r}", columns[name]
        if column.dtype.kind in "UST":
            column = column.astype(object)
        columns[name], dates = numbers(column, what)
        if dates and name != "weight":
            after = name.removeprefix("next_") in domain.dynamic_names and name not in domain.property_names
            times |= dict([check_date(domain, name.removeprefix("next_") if after else name)])
    return columns, times


def _next_values(domain: Domain, columns: dict[str, np.ndarray], offsets: np.ndarray) -> np.ndarray:
    """What follows each row's object: static properties from the row, the rest from where its id stands."""
    matched = columns.get("next_object")
    rows = slice(None) if matched is None else match_rows(columns["object"], matched, offsets)

    def after(prop: Property) -> np.ndarray:
        return columns[prop.name] if prop.static else columns[f"next_{prop.name}"][rows]

    return np.stack([after(prop) for prop in domain.properties], 1)


def _check_names(domain: Domain) -> None:
    """Refuse domains whose names would have to share a column."""
    kinds = [(name, "the table itself") for name in ("transition", "object", "next_object", "action", "weight")]
    kinds += [(name, "a property") for name in domain.property_names]
    kinds += [(f"next_{name}", "a property's next value") for name in domain.dynamic_names]
    for action in domain.actions:
        kinds += [(role, "an object role") for role in action.objects]
        kinds += [(parameter, "a parameter") for parameter in action.parameters]
    taken: dict[str, str] = {}
    for name, kind in kinds:
        if taken.setdefault(name, kind) != kind:
            raise DataError(
                f"table: domain {domain.name!r} uses {name!r} for {taken[name]} and for {kind}, "
                "and a table has one column of that name; rename one of them"
            )


def _columns(domain: Domain, table: Any) -> dict[str, np.ndarray]:
    """The columns that the domain asks for, as arrays of one length; missing ones are named."""
    _check_names(domain)
    present = column_names(table)
    needed = [
        "transition",
        "object",
        *domain.property_names,
        *(f"next_{name}" for name in domain.dynamic_names),
    ]
    if len(domain.actions) > 1:
        needed.append("action")
    for action in domain.actions:
        needed += [name for name in (*action.objects, *action.parameters) if name not in needed]
    missing = [name for name in needed if name not in present]
    if missing:
        raise DataError(f"table: columns missing: {', '.join(missing)}; it has {', '.join(present)}")
    optional = ("action", "weight", "next_object", *INFO)
    optional = [name for name in optional if name in present and name not in needed]
    for name in (*needed, *optional):
        if present.count(name) > 1:
            raise DataError(f"table: {present.count(name)} columns are called {name!r}; rename or drop all but one")
    columns = {name: array_of(table, name) for name in (*needed, *optional)}
    rows = len(columns["transition"])
    for name, column in columns.items():
        if column.shape != (rows,):
            raise DataError(f"table: column {name!r} has shape {column.shape}, column 'transition' has {rows} rows")
    if not rows:
        raise DataError("table: it has no rows")
    empty = [one is None or one != one for one in columns["transition"].tolist()]
    if any(empty):
        raise DataError(f"table: row {empty.index(True)} has no transition; fill in the column 'transition'")
    return columns


def column_names(table: Any) -> list[str]:
    """The names of a table's columns."""
    if isinstance(table, pa.Table):
        return table.column_names
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        return [str(name) for name in (table if isinstance(table, Mapping) else table.columns)]
    raise DataError(
        "from_table: expected a pandas or polars frame, a pyarrow table or a dictionary of columns, "
        f"got {described(table)}; {_advice(table)}"
    )


def _advice(table: Any) -> str:
    """How to get a table from something else."""
    if isinstance(table, str | os.PathLike):
        return "read the file first, with pandas.read_csv or pandas.read_parquet; spare.Experience.load reads our own"
    if isinstance(table, Domain):
        return "the domain comes first, then the table"
    return "pandas.DataFrame(rows) makes a frame of a list of rows"


def array_of(table: Any, name: str) -> np.ndarray:
    """A column of a table as an array, None for what is missing among Python objects."""
    try:
        column = table[name]
    except (KeyError, ValueError) as error:  # two columns of one name
        raise DataError(f"table: column {name!r} is not a list of values: {error}") from error
    return none_missing(np.atleast_1d(as_array(column, f"table: column {name!r}")))


def shared(columns: dict[str, np.ndarray], name: str, offsets: np.ndarray) -> np.ndarray:
    """One value per transition from a column that repeats it; rows that disagree are refused."""
    column = columns[name]
    first = column[offsets[:-1]]
    repeated = np.repeat(first, np.diff(offsets))
    differs = (column != repeated) & ~((column != column) & (repeated != repeated))  # NaN agrees with NaN
    if np.any(differs):
        row = int(np.argmax(differs))
        i = int(np.searchsorted(offsets, row, side="right")) - 1
        raise DataError(
            f"transition {i}, object {columns['object'][row]!r}: column {name!r} is {column[row]!r} here and "
            f"{first[i]!r} on the transition's first row; it must be the same on all rows of a transition"
        )
    return first


def _objects(domain: Domain, columns: dict[str, np.ndarray], action: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Local indices of the objects that each role column names."""
    result = np.zeros((len(action), domain.roles), np.int64)
    for index, template in enumerate(domain.actions):
        rows = np.flatnonzero(action == index)
        for position, role in enumerate(template.objects):
            named = shared(columns, role, offsets)
            for i in rows:
                inside = columns["object"][offsets[i] : offsets[i + 1]]
                hits = np.flatnonzero(inside == named[i])
                if not len(hits):
                    raise DataError(
                        f"transition {i}, action {template.name!r}: its {role} {named[i]!r} is not in the state"
                    )
                result[i, position] = hits[0]
    return result


def _parameters(domain: Domain, columns: dict[str, np.ndarray], action: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    result = np.zeros((len(action), domain.parameters))
    for index, template in enumerate(domain.actions):
        rows = np.flatnonzero(action == index)
        for position, name in enumerate(template.parameters):
            result[rows, position] = shared(columns, name, offsets)[rows]
    return result


def write_table(domain: Domain, columns: Columns, library: str) -> Any:
    """The long table of an experience, as `library` (pandas, polars, pyarrow or dict) has it."""
    _check_names(domain)
    owner = columns.owner
    data: dict[str, np.ndarray] = {"transition": owner, "object": columns.ids}
    for column, prop in enumerate(domain.properties):
        data[prop.name] = columns.values[:, column]
        if not prop.static:
            data[f"next_{prop.name}"] = columns.next_values[:, column]
    data["action"] = np.array([a.name for a in domain.actions], object)[columns.action][owner]
    for index, template in enumerate(domain.actions):
        rows = columns.action == index
        for position, role in enumerate(template.objects):
            named = columns.ids[columns.offsets[:-1] + columns.objects[:, position]][owner]
            held = data.get(role, np.zeros(len(owner), columns.ids.dtype))
            data[role] = np.where(rows[owner], named, held)
        for position, name in enumerate(template.parameters):
            held = data.get(name, np.zeros(len(owner), columns.parameters.dtype))
            data[name] = np.where(rows[owner], columns.parameters[owner, position], held)
    data["weight"] = columns.weights[owner]
    for name in INFO:
        if name in columns.info and name not in data:
            data[name] = columns.info[name][owner]
    return converted(data, library)


def converted(data: dict[str, np.ndarray], library: str) -> Any:
    """Columns as a table of a library: pandas, polars, pyarrow or dict."""
    if not isinstance(library, str):
        raise UsageError(f"to_table: library is 'pandas', 'polars', 'pyarrow' or 'dict', got {described(library)}")
    if library == "dict":
        return data
    if library == "pyarrow":
        return pa.table(data)
    try:
        if library == "pandas":
            import pandas

            return pandas.DataFrame(data)
        if library == "polars":
            import polars

            return polars.DataFrame(data)
    except ImportError as error:
        raise UsageError(
            f"to_table: {library} is not installed; pip install 'spare-models[tables]' brings it, or use "
            "library='pyarrow' or 'dict'"
        ) from error
    raise UsageError(f"to_table: {one_of('library', library, ('pandas', 'polars', 'pyarrow', 'dict'))}")
