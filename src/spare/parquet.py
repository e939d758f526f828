"""Experience files: Parquet, one row per transition, read back bit for bit.

Columns: ids, state and next_state (list<fixed_size_list<float32, P>>), action, objects, parameters, weight, and
`info.<name>` for whatever is carried along. The file's metadata holds the format version, the domain's schema and
fingerprint, and the experience's own metadata.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spare.atomic import replacing
from spare.catalogue import builtin_domain
from spare.domain import Domain
from spare.errors import DataError, FileError
from spare.experience import Experience, concatenate

FORMAT = 1
ROW_GROUP = 4096
_KEY = b"spare"


class Writer:
    """Appends experience to a Parquet file that is being written, a row group at a time. See `writing`."""

    def __init__(self, target: pathlib.Path, domain: Domain, metadata: dict[str, Any]) -> None:
        self._target, self.domain, self._metadata = target, domain, metadata
        self._writer: pq.ParquetWriter | None = None

    def write(self, experience: Experience) -> None:
        """Append transitions of the same domain (and the same kind of ids and info as the first ones)."""
        if experience.domain.fingerprint != self.domain.fingerprint:
            raise DataError(f"the file holds {self.domain!r}, not {experience.domain!r}")
        for start in range(0, len(experience), ROW_GROUP):
            part = experience[start : start + ROW_GROUP]
            table = _to_arrow(part, {**experience.metadata, **self._metadata})
            if self._writer is None:
                self._writer = pq.ParquetWriter(
                    self._target, table.schema, compression="zstd", write_page_checksum=True
                )
            elif not table.schema.equals(self._writer.schema):
                raise DataError("experience appended to a file must have the same kind of ids and info as its start")
            self._writer.write_table(table)

    def close(self) -> bool:
        """Finish the file; whether anything was written."""
        if self._writer is not None:
            self._writer.close()
        return self._writer is not None


@contextlib.contextmanager
def writing(path: str | os.PathLike[str], domain: Domain, **metadata: Any) -> Iterator[Writer]:
    """A `Writer` whose file appears under its final name, whole, when the block ends well."""
    with replacing(path) as target:
        writer = Writer(target, domain, metadata)
        try:
            yield writer
        except BaseException:
            with contextlib.suppress(OSError):
                writer.close()
            raise
        if not writer.close():
            raise FileError(f"{path}: there are no transitions to write")


def save(experience: Experience, path: str | os.PathLike[str]) -> None:
    """Write one file, atomically."""
    with writing(path, experience.domain) as writer:
        writer.write(experience)


def load(path: str | os.PathLike[str], domain: Domain | None = None, drop_invalid: bool = False) -> Experience:
    """Read one whole file."""
    return concatenate(stream(path, domain, drop_invalid))


def stream(
    path: str | os.PathLike[str], domain: Domain | None = None, drop_invalid: bool = False
) -> Iterator[Experience]:
    """Read a file one row group at a time."""
    with _reading(path):
        file = pq.ParquetFile(path, page_checksum_verification=True)
        header = _header(path, file.schema_arrow)
        chosen = _check_domain(path, header, domain)
        _check_columns(path, file.schema_arrow, len(chosen.properties))
        if file.metadata.num_rows == 0:
            raise FileError(f"{path}: the file holds no transitions")
    for group in range(file.num_row_groups):
        with _reading(path):
            table = file.read_row_group(group)
            experience = _from_arrow(chosen, table, header["metadata"], drop_invalid)
        if len(experience) or experience.dropped:  # a group that was dropped whole still counts
            yield experience


@contextlib.contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever a broken file makes the reader raise becomes a `FileError` that names the file."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except FileError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{path}: there is no such file") from error
    except IsADirectoryError as error:
        raise FileError(f"{path}: this is a folder; give the name of a Parquet file") from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise FileError(f"{path}: not a readable experience file (truncated or damaged?): {reason}") from error


def _to_arrow(experience: Experience, metadata: dict[str, Any]) -> pa.Table:
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
    header = {
        "format": FORMAT,
        "fingerprint": experience.domain.fingerprint,
        "domain": experience.domain.schema(),
        "metadata": metadata,
    }
    header["check"] = _digest(header)
    return pa.table(columns).replace_schema_metadata({_KEY: json.dumps(header, sort_keys=True).encode()})


def _digest(header: dict[str, Any]) -> str:
    """Parquet checks its pages but not its metadata: 16 hex digits to notice a damaged header by."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:16]


def _header(path: str | os.PathLike[str], schema: pa.Schema) -> dict[str, Any]:
    raw = (schema.metadata or {}).get(_KEY)
    if raw is None:
        raise FileError(
            f"{path}: a Parquet file, but not one of SPARE's; read it as a table and use Experience.from_table"
        )
    header = json.loads(raw)
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise FileError(f"{path}: its SPARE header is damaged")
    if header["format"] > FORMAT:
        raise FileError(f"{path}: written by a newer SPARE (format {header['format']}, this one reads {FORMAT})")
    if header.pop("check", None) != _digest(header):
        raise FileError(f"{path}: its SPARE header is damaged")
    if not isinstance(header.get("metadata"), dict) or not isinstance(header.get("domain"), dict):
        raise FileError(f"{path}: its SPARE header is damaged")
    return header


def _check_domain(path: str | os.PathLike[str], header: dict[str, Any], domain: Domain | None) -> Domain:
    name = str(header["domain"].get("name"))[:64]
    chosen = domain if domain is not None else builtin_domain(name)
    if chosen is None:
        raise FileError(
            f"{path}: its domain {name!r} is not one of SPARE's own; pass domain=..., or --domain MODULE:NAME"
        )
    if header.get("fingerprint") != chosen.fingerprint:
        theirs = [str(p.get("name")) for p in header["domain"].get("properties", [])]
        raise FileError(
            f"{path}: it belongs to domain {name!r} with properties {', '.join(theirs)}, "
            f"not to {chosen.name!r} with {', '.join(chosen.property_names)} (fingerprint "
            f"{str(header.get('fingerprint'))[:16]}, expected {chosen.fingerprint})"
        )
    return chosen


def _check_columns(path: str | os.PathLike[str], schema: pa.Schema, width: int) -> None:
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
            raise FileError(f"{path}: column {name!r} is missing; it has {', '.join(schema.names)}")
    for name, kind in expected.items():
        if schema.field(name).type != kind:
            raise FileError(f"{path}: column {name!r} is {schema.field(name).type}, expected {kind}")
    if schema.field("ids").type not in (pa.list_(pa.string()), pa.list_(pa.int64())):
        raise FileError(f"{path}: column 'ids' is {schema.field('ids').type}, expected lists of text or of int64")


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


def _from_arrow(domain: Domain, table: pa.Table, metadata: dict[str, Any], drop_invalid: bool) -> Experience:
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
        info={n.removeprefix("info."): _info(table.column(n)) for n in table.column_names if n.startswith("info.")},
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


def _info(column: pa.ChunkedArray) -> np.ndarray:
    if column.null_count:
        raise FileError("an info column holds empty cells")
    kind = column.type
    return np.array(column.to_pylist(), np.str_) if pa.types.is_string(kind) else column.to_numpy()
