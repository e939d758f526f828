"""Experience files: Parquet, one row per transition, read back bit for bit.

Columns: ids, state and next_state (list<fixed_size_list<float32, P>>), action, objects, parameters (float32), weight,
and `info.<name>` for whatever is carried along; all three of float64, where that keeps digits. Where there are any:
`vanished`, and lists (`spare.data.lists`) of arrivals, pairs of relations, and calls. `spare.io.parquet` says what else
is in a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from spare.data import lists
from spare.data.columns import Columns
from spare.data.lists import flat as _flat
from spare.errors import DataError, FileError
from spare.io import parquet
from spare.io.pages import TEXT
from spare.io.schemas import differences
from spare.language.domain import Domain
from spare.language.registry import find_domain
from spare.names import shown

ROW_GROUP = 4096
LARGEST_TEXTS = 128 << 20
"""Bytes that a column of texts may take as an array, where each takes as much room as the longest."""


def write_file(path: str | os.PathLike[str], domain: Domain, columns: Columns) -> None:
    """Write one file, whole or not at all."""
    header = {"fingerprint": domain.fingerprint, "domain": domain.schema(), "metadata": dict(columns.metadata)}
    there = lists.kept(columns)
    parquet.write(
        path, lambda: (parquet.sealed(to_arrow(domain, part, there), header) for part in _row_groups(columns))
    )


def _row_groups(columns: Columns) -> Iterator[Columns]:
    """Consecutive transitions, so few at a time that each group stays small in memory."""
    per_object = 2 * columns.values.itemsize * columns.values.shape[1] + TEXT
    taken = columns.offsets + sum(lists.sizes(columns)) // per_object
    most, start, n = parquet.UNFOLDED // (2 * per_object), 0, len(columns.action)
    while start < n:
        room = int(np.searchsorted(taken, taken[start] + most, side="right")) - 1
        stop = min(max(room, start + 1), start + ROW_GROUP, n)
        yield columns.take(np.arange(start, stop))
        start = stop


def read_file(
    path: str | os.PathLike[str], domain: Domain | None, *, whole: bool
) -> Iterator[tuple[Domain, dict[str, Any]]]:
    """(domain, arguments of `Experience.from_arrays`) for each row group; `whole` if all are kept in memory."""
    with parquet.opened(path) as reader:
        with parquet.errors_of(path):
            found = _check_domain(reader.header, domain)
            _check_columns(reader.schema, len(found.properties))
            lists.check_columns(reader.schema, found)
            if not any(group.rows for group in reader.groups):
                raise FileError("the file holds no transitions")
            if whole:
                reader.check_size(reader.groups)
        for k in range(len(reader.groups)):
            with parquet.errors_of(path):
                arrays = from_arrow(found, reader.read(k))
            yield found, {**arrays, "metadata": reader.header["metadata"]}


def _check_domain(header: dict[str, Any], domain: Domain | None) -> Domain:
    """The domain that was given, or the one of that name, if the file belongs to it."""
    name = header["domain"]["name"]
    chosen = domain if domain is not None else find_domain(name)
    if chosen is None:
        raise FileError(f"its domain {name!r} is not one of SPARE's own; pass domain=..., or --domain MODULE:NAME")
    if header["fingerprint"] != chosen.fingerprint:
        theirs, own = [p["name"] for p in header["domain"]["properties"]], chosen.schema()
        found = [
            one
            for kind in ("properties", "actions", "types", "relations")
            for one in differences(header["domain"], own, kind)
        ]
        raise FileError(
            f"it belongs to domain {name!r} with properties {', '.join(theirs)}, not to {chosen.name!r} with "
            f"{', '.join(chosen.property_names)}: {'; '.join(found[:4]) or 'the names differ'}"
        )
    return chosen


def to_arrow(domain: Domain, columns: Columns, there: frozenset[str] = frozenset()) -> pa.Table:
    """One row per transition; `there`: what a file has beside what every file has (`lists.kept`)."""
    offsets = pa.array(columns.offsets, pa.int32())
    width, real = len(domain.properties), pa.from_numpy_dtype(columns.values.dtype)

    def nested(values: np.ndarray) -> pa.Array:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1), real)
        return pa.ListArray.from_arrays(offsets, pa.FixedSizeListArray.from_arrays(flat, width))

    def per_action(rows: np.ndarray, widths: np.ndarray, kind: pa.DataType) -> pa.Array:
        used = np.arange(rows.shape[1])[None, :] < widths[:, None]
        ends = pa.array(np.concatenate([[0], np.cumsum(widths)]), pa.int32())
        return pa.ListArray.from_arrays(ends, pa.array(rows[used], kind))

    actions = domain.actions
    roles = np.array([len(a.objects) for a in actions])[columns.action]
    counts = np.array([len(a.parameters) for a in actions])[columns.action]
    text = columns.ids.dtype.kind == "U"
    cells = {
        "ids": pa.ListArray.from_arrays(offsets, pa.array(columns.ids.tolist(), pa.string() if text else pa.int64())),
        "state": nested(columns.values),
        "next_state": nested(columns.next_values),
        "action": pa.array([actions[k].name for k in columns.action], pa.string()),
        "objects": per_action(columns.objects, roles, pa.int32()),
        "parameters": per_action(columns.parameters, counts, real),
        "weight": pa.array(columns.weights, pa.float64()),
    }
    for name, column in columns.info.items():
        given = column.tolist() if column.dtype.kind == "U" else column
        cells[f"info.{name}"] = pa.array(_short(f"info.{name}", given) if isinstance(given, list) else given)
    return pa.table(cells | lists.to_arrow(domain, columns, there))


def _check_columns(schema: pa.Schema, width: int) -> None:
    """Refuse tables that lack a column or have one of another type; all numbers have 32 bits, or all have 64."""
    parameters = schema.field("parameters").type if "parameters" in schema.names else None
    real = pa.float64() if parameters == pa.list_(pa.float64()) else pa.float32()
    block = pa.list_(pa.list_(real, width))
    expected = {
        "state": block,
        "next_state": block,
        "action": pa.string(),
        "objects": pa.list_(pa.int32()),
        "parameters": pa.list_(real),
        "weight": pa.float64(),
    }
    for name in ("ids", *expected):
        if name not in schema.names:
            raise FileError(f"column {name!r} is missing; it has {shown(', '.join(schema.names)[:300])}")
    for name, kind in expected.items():
        if schema.field(name).type != kind:
            raise FileError(f"column {name!r} is {_type(schema.field(name))}, expected {kind}")
    if schema.field("ids").type not in (pa.list_(pa.string()), pa.list_(pa.int64())):
        raise FileError(f"column 'ids' is {_type(schema.field('ids'))}, expected lists of text or of int64")


def _type(field: pa.Field) -> str:
    """The type of a column, safe to print: a nested one holds names."""
    return shown(str(field.type)[:200])


def from_arrow(domain: Domain, table: pa.Table) -> dict[str, Any]:
    """The rows of a table whose columns were checked, as arguments of `Experience.from_arrays`."""
    offsets, state = _flat(table, "state")
    width = len(domain.properties)
    pieces = {"state": state}
    for name in ("next_state", "ids"):
        other, pieces[name] = _flat(table, name)
        if not np.array_equal(other, offsets):
            raise DataError(f"columns 'state' and {name!r} hold different numbers of objects")
    names = table.column("action").to_pylist()
    known = [a.name for a in domain.actions]
    roles = [len(domain.action(one).objects) for one in names if one in known]
    counts = [len(domain.action(one).parameters) for one in names if one in known]
    text = pieces["ids"].type == pa.string()
    info = [name for name in table.column_names if name.startswith("info.")]
    return {
        "values": state.flatten().to_numpy().reshape(-1, width),
        "next_values": pieces["next_state"].flatten().to_numpy().reshape(-1, width),
        "offsets": offsets,
        "ids": np.array(pieces["ids"].to_pylist(), object) if text else pieces["ids"].to_numpy(),
        "action": np.array(names, object),
        "objects": _unpack(table, "objects", roles, domain.roles),
        "parameters": _unpack(table, "parameters", counts, domain.parameters),
        "weights": table.column("weight").to_numpy(),
        "precise": pieces["state"].type.value_type == pa.float64(),
        "info": {name.removeprefix("info."): _info(name, table.column(name)) for name in info},
    } | lists.from_arrow(domain, table, offsets)


def _unpack(table: pa.Table, name: str, widths: list[int], columns: int) -> np.ndarray:
    """A ragged per-action column as a matrix; rows of the wrong length are refused."""
    offsets, child = _flat(table, name)
    given = np.diff(offsets)
    if len(widths) == len(given) and not np.array_equal(given, widths):
        i = int(np.argmax(given != np.array(widths)))
        raise DataError(f"transition {i}: {given[i]} {name} given, its action takes {widths[i]}")
    if given.max(initial=0) > columns:
        raise DataError(f"transition {int(np.argmax(given))}: {given.max()} {name} given, no action takes so many")
    result = np.zeros((len(given), columns), child.to_numpy().dtype)
    result[np.arange(columns)[None, :] < given[:, None]] = child.to_numpy()
    return result


def _info(name: str, column: pa.ChunkedArray) -> np.ndarray:
    if column.null_count:
        raise FileError(f"column {name!r} holds empty cells")
    kind = column.type
    if pa.types.is_string(kind):
        return np.array(_short(name, column.to_pylist()), np.str_)
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise FileError(f"column {name!r} is {shown(str(kind)[:200])}, expected numbers or texts")
    return column.to_numpy()


def _short(name: str, texts: list[str]) -> list[str]:
    """The texts, if an array of them stays small."""
    longest = max(map(len, texts), default=0)
    if 4 * longest * len(texts) > LARGEST_TEXTS:
        raise FileError(f"column {name!r}: {len(texts)} texts of up to {longest} characters; keep long texts elsewhere")
    return texts
