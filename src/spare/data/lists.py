"""What only some worlds have, in experience files: who vanished, who arrived, pairs of relations, further calls.

vanished                     list<bool>, one for each object
arrivals.ids, .values        list<string or int64>, list<fixed_size_list<float, P>>
pairs.<name>.source, .target, next_pairs.<name>.source, .target     list<int32>
calls.action, .objects, .parameters     list<string>, list<int32> and list<float>, as many for each as any action has
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from spare.data.columns import Columns
from spare.data.ragged import Ragged
from spare.errors import DataError, FileError
from spare.language.domain import Domain
from spare.names import shown


def flat(table: pa.Table, name: str) -> tuple[np.ndarray, pa.Array]:
    """(offsets from 0, flattened child) of a list column, refusing nulls."""
    column = table.column(name).combine_chunks()
    chunk = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    chunk.validate(full=True)
    child = chunk.flatten()
    if chunk.null_count or child.null_count:
        raise FileError(f"column {name!r} holds empty cells")
    offsets = chunk.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], child


def kept(columns: Columns) -> frozenset[str]:
    """Which of all this a file of these transitions has; all of its row groups have the same columns."""
    parts = {"vanished": columns.vanished, "arrivals": columns.arrivals, "calls": columns.calls}
    return frozenset(name for name, part in parts.items() if part is not None)


def sizes(columns: Columns) -> Iterator[np.ndarray]:
    """Bytes of the lists up to each transition, (n + 1,) each."""
    yield np.zeros(len(columns.action) + 1, np.int64)
    for one in (*columns.pairs.values(), *columns.next_pairs.values(), columns.calls, columns.arrivals):
        if one is not None:
            yield one.offsets * sum(part.itemsize * max(1, part[0:1].size) for part in one.columns.values())


def _strings(ids: np.ndarray) -> pa.Array:
    return pa.array(ids.tolist(), pa.string()) if ids.dtype.kind == "U" else pa.array(ids, pa.int64())


def to_arrow(domain: Domain, columns: Columns, there: frozenset[str]) -> dict[str, pa.Array]:
    """The columns, one row per transition."""
    n, width, real = len(columns.action), len(domain.properties), pa.from_numpy_dtype(columns.values.dtype)
    found: dict[str, pa.Array] = {}

    def listed(offsets: np.ndarray, child: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), child)

    if "vanished" in there:
        gone = np.zeros(len(columns.values), bool) if columns.vanished is None else columns.vanished
        found["vanished"] = listed(columns.offsets, pa.array(gone))
    if "arrivals" in there:
        new = columns.arrivals or _nothing(n, {"ids": columns.ids[:0], "values": columns.values[:0]})
        values = pa.array(np.ascontiguousarray(new.columns["values"]).reshape(-1), real)
        found["arrivals.ids"] = listed(new.offsets, _strings(new.columns["ids"]))
        found["arrivals.values"] = listed(new.offsets, pa.FixedSizeListArray.from_arrays(values, width))
    for prefix, relations in (("pairs", columns.pairs), ("next_pairs", columns.next_pairs)):
        for name, one in relations.items():
            for side, rows in one.columns.items():
                found[f"{prefix}.{name}.{side}"] = listed(one.offsets, pa.array(rows, pa.int32()))
    if "calls" in there:
        blank = {"action": columns.action[:0], "objects": columns.objects[:0], "parameters": columns.parameters[:0]}
        calls = columns.calls or _nothing(n, blank)
        names = [domain.actions[k].name for k in calls.columns["action"]]
        found["calls.action"] = listed(calls.offsets, pa.array(names, pa.string()))
        for name, kind in (("objects", pa.int32()), ("parameters", real)):
            part = calls.columns[name]
            found[f"calls.{name}"] = listed(calls.offsets * part.shape[1], pa.array(part.reshape(-1), kind))
    return found


def _nothing(n: int, columns: dict[str, np.ndarray]) -> Ragged:
    return Ragged(np.zeros(n + 1, np.int64), columns)


def _expected(domain: Domain, real: pa.DataType) -> dict[str, tuple[pa.DataType, ...]]:
    """The types that each column may have, if it is there."""
    whole, text = pa.list_(pa.int32()), pa.list_(pa.string())
    found: dict[str, tuple[pa.DataType, ...]] = {
        "vanished": (pa.list_(pa.bool_()),),
        "arrivals.ids": (text, pa.list_(pa.int64())),
        "arrivals.values": (pa.list_(pa.list_(real, len(domain.properties))),),
        "calls.action": (text,),
        "calls.objects": (whole,),
        "calls.parameters": (pa.list_(real),),
    }
    for one in domain.relations:
        for prefix in ("pairs",) if one.static else ("pairs", "next_pairs"):
            found |= {f"{prefix}.{one.name}.{side}": (whole,) for side in ("source", "target")}
    return found


def check_columns(schema: pa.Schema, domain: Domain) -> None:
    """Refuse lists of another type than they should have, and those that come without their fellows."""
    real = pa.float64() if schema.field("parameters").type == pa.list_(pa.float64()) else pa.float32()
    expected = _expected(domain, real)
    for name, kinds in expected.items():
        group = name.rsplit(".", 1)[0]
        mine = [one for one in expected if one.rsplit(".", 1)[0] == group]
        needed = group.startswith(("pairs.", "next_pairs.")) or any(one in schema.names for one in mine)
        if needed and name not in schema.names:
            raise FileError(f"column {name!r} is missing; it has {shown(', '.join(schema.names)[:300])}")
        if name in schema.names and schema.field(name).type not in kinds:
            told = shown(str(schema.field(name).type)[:200])
            raise FileError(f"column {name!r} is {told}, expected {' or '.join(map(str, kinds))}")


def from_arrow(domain: Domain, table: pa.Table, offsets: np.ndarray) -> dict[str, Any]:
    """Arguments of `Experience.from_arrays`, from a table whose columns were checked."""
    there = {*table.column_names}
    found: dict[str, Any] = {}
    if "vanished" in there:
        ends, gone = flat(table, "vanished")
        if not np.array_equal(ends, offsets):
            raise DataError("columns 'state' and 'vanished' hold different numbers of objects")
        found["vanished"] = gone.to_numpy(zero_copy_only=False)
    if "arrivals.ids" in there:
        ends, (ids, values) = _together(table, "arrivals.ids", "arrivals.values")
        named = np.array(ids.to_pylist(), object) if ids.type == pa.string() else ids.to_numpy()
        rows = values.flatten().to_numpy().reshape(-1, len(domain.properties))
        found["arrivals"] = {"offsets": ends, "ids": named, "values": rows}
    for prefix in ("pairs", "next_pairs"):
        known = [one.name for one in domain.relations if not (one.static and prefix == "next_pairs")]
        found[prefix] = {name: _pairs(table, f"{prefix}.{name}") for name in known} or None
    if "calls.action" in there:
        found["calls"] = _calls(domain, table)
    return found


def _together(table: pa.Table, *names: str) -> tuple[np.ndarray, list[pa.Array]]:
    """(offsets, children) of list columns that must have the same lengths."""
    parts = [flat(table, name) for name in names]
    for name, (ends, _) in zip(names, parts, strict=True):
        if not np.array_equal(ends, parts[0][0]):
            raise DataError(f"columns {names[0]!r} and {name!r} are not of one length")
    return parts[0][0], [child for _, child in parts]


def _pairs(table: pa.Table, name: str) -> dict[str, np.ndarray]:
    ends, (source, target) = _together(table, f"{name}.source", f"{name}.target")
    return {"offsets": ends, "source": source.to_numpy(), "target": target.to_numpy()}


def _calls(domain: Domain, table: pa.Table) -> dict[str, Any]:
    ends, action = flat(table, "calls.action")
    found: dict[str, Any] = {"offsets": ends, "action": np.array(action.to_pylist(), object)}
    for name, width in (("objects", domain.roles), ("parameters", domain.parameters)):
        starts, part = flat(table, f"calls.{name}")
        if not np.array_equal(starts, ends * width):
            raise DataError(f"columns 'calls.action' and 'calls.{name}' do not fit together")
        found[name] = part.to_numpy().reshape(len(action), width)
    return found
