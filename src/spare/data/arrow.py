"""Experience as an Arrow table: one row per transition, and back bit for bit.

Columns: ids, state and next_state (list<fixed_size_list<float32, P>>), action, objects, parameters, weight, and
`info.<name>` for whatever is carried along.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spare.data.experience import Experience
from spare.errors import DataError, FileError
from spare.language.domain import Domain

LARGEST_TEXTS = 128 << 20
"""Bytes that a column of texts may take as an array, where each takes as much room as the longest."""


def to_arrow(experience: Experience) -> pa.Table:
    """One row per transition."""
    offsets = pa.array(experience.offsets, pa.int32())
    width = len(experience.domain.properties)

    def nested(values: np.ndarray) -> pa.Array:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1), pa.float32())
        return pa.ListArray.from_arrays(offsets, pa.FixedSizeListArray.from_arrays(flat, width))

    def per_action(rows: np.ndarray, widths: np.ndarray, kind: pa.DataType) -> pa.Array:
        used = np.arange(rows.shape[1])[None, :] < widths[:, None]
        ends = pa.array(np.concatenate([[0], np.cumsum(widths)]), pa.int32())
        return pa.ListArray.from_arrays(ends, pa.array(rows[used], kind))

    actions = experience.domain.actions
    roles = np.array([len(a.objects) for a in actions])[experience.action]
    counts = np.array([len(a.parameters) for a in actions])[experience.action]
    text = experience.ids.dtype.kind == "U"
    columns = {
        "ids": pa.ListArray.from_arrays(
            offsets, pa.array(experience.ids.tolist(), pa.string() if text else pa.int64())
        ),
        "state": nested(experience.values),
        "next_state": nested(experience.next_values),
        "action": pa.array([actions[k].name for k in experience.action], pa.string()),
        "objects": per_action(experience.objects, roles, pa.int32()),
        "parameters": per_action(experience.parameters, counts, pa.float32()),
        "weight": pa.array(experience.weights, pa.float64()),
    }
    for name, column in experience.info.items():
        columns[f"info.{name}"] = pa.array(column.tolist() if column.dtype.kind == "U" else column)
    return pa.table(columns)


def check_columns(schema: pa.Schema, width: int) -> None:
    """Refuse tables that lack a column or have one of another type."""
    block = pa.list_(pa.list_(pa.float32(), width))
    expected = {
        "state": block,
        "next_state": block,
        "action": pa.string(),
        "objects": pa.list_(pa.int32()),
        "parameters": pa.list_(pa.float32()),
        "weight": pa.float64(),
    }
    for name in ("ids", *expected):
        if name not in schema.names:
            raise FileError(f"column {name!r} is missing; it has {', '.join(schema.names)}")
    for name, kind in expected.items():
        if schema.field(name).type != kind:
            raise FileError(f"column {name!r} is {schema.field(name).type}, expected {kind}")
    if schema.field("ids").type not in (pa.list_(pa.string()), pa.list_(pa.int64())):
        raise FileError(f"column 'ids' is {schema.field('ids').type}, expected lists of text or of int64")


def _flat(table: pa.Table, name: str) -> tuple[np.ndarray, pa.Array]:
    """(offsets from 0, flattened child) of a list column, refusing nulls."""
    column = table.column(name).combine_chunks()
    chunk = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    chunk.validate(full=True)
    child = chunk.flatten()
    if chunk.null_count or child.null_count:
        raise FileError(f"column {name!r} holds empty cells")
    offsets = chunk.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], child


def from_arrow(domain: Domain, table: pa.Table, metadata: dict[str, Any], drop_invalid: bool) -> Experience:
    """The rows of a checked table as an experience."""
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
    return Experience.from_arrays(
        domain,
        values=state.flatten().to_numpy().reshape(-1, width),
        next_values=pieces["next_state"].flatten().to_numpy().reshape(-1, width),
        offsets=offsets,
        ids=np.array(pieces["ids"].to_pylist(), object) if text else pieces["ids"].to_numpy(),
        action=np.array(names, object),
        objects=_unpack(table, "objects", roles, domain.roles),
        parameters=_unpack(table, "parameters", counts, domain.parameters),
        weights=table.column("weight").to_numpy(),
        info={n.removeprefix("info."): _info(n, table.column(n)) for n in table.column_names if n.startswith("info.")},
        metadata=metadata,
        drop_invalid=drop_invalid,
    )


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
        return _texts(name, column.to_pylist())
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise FileError(f"column {name!r} is {kind}, expected numbers or texts")
    return column.to_numpy()


def _texts(name: str, texts: list[str]) -> np.ndarray:
    """Texts as an array, if that stays small."""
    longest = max(map(len, texts), default=0)
    if 4 * longest * len(texts) > LARGEST_TEXTS:
        raise FileError(f"column {name!r}: {len(texts)} texts of up to {longest} characters; keep long texts elsewhere")
    return np.array(texts, np.str_)
