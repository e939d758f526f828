"""Experience files: Parquet, one row per transition, read back bit for bit.

`arrow.py` says which columns there are. The file's metadata holds the format version, the domain's schema and
fingerprint, and the experience's own metadata. Pages carry check sums, and so does that header; what a file would
unfold to in memory is known before it is unfolded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spare.data.arrow import check_columns, from_arrow, to_arrow
from spare.data.experience import Experience, concatenate
from spare.errors import DataError, FileError
from spare.io import strictjson
from spare.io.atomic import open_regular, replacing
from spare.io.footer import TEXT, Group, check_footer
from spare.io.schemas import check_schema, damaged, differences
from spare.language.domain import Domain
from spare.language.registry import builtin_domain
from spare.names import shown

FORMAT = 1
ROW_GROUP = 4096
UNFOLDED = 32 << 20
"""Bytes that a row group may take in memory at most, however small it is on disk; and what one writes at once."""
FOLDING = 100
"""How many times larger than its file the data may be, beyond that."""
_KEY = b"spare"


def _with_header(table: pa.Table, domain: Domain, metadata: dict[str, Any]) -> pa.Table:
    """The table with what a reader needs to know of it."""
    header = {"format": FORMAT, "fingerprint": domain.fingerprint, "domain": domain.schema(), "metadata": metadata}
    header["check"] = _digest(header)
    return table.replace_schema_metadata({_KEY: strictjson.write(header, "the metadata").encode()})


class Writer:
    """Appends experience to a Parquet file that is being written, a row group at a time. See `writing`."""

    def __init__(self, target: pathlib.Path, domain: Domain, metadata: dict[str, Any]) -> None:
        self._target, self.domain, self._metadata = target, domain, metadata
        self._writer: pq.ParquetWriter | None = None

    def write(self, experience: Experience) -> None:
        """Append transitions of the same domain (and the same kind of ids and info as the first ones)."""
        if experience.domain.fingerprint != self.domain.fingerprint:
            raise DataError(f"the file holds {self.domain!r}, not {experience.domain!r}")
        for part in _groups(experience):
            table = _with_header(to_arrow(part), part.domain, {**experience.metadata, **self._metadata})
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


def _groups(experience: Experience) -> Iterator[Experience]:
    """Consecutive transitions, so few at a time that each group stays small in memory."""
    per_object = 8 * len(experience.domain.properties) + TEXT
    most, start = UNFOLDED // (2 * per_object), 0
    while start < len(experience):
        room = int(np.searchsorted(experience.offsets, experience.offsets[start] + most, side="right")) - 1
        stop = min(max(room, start + 1), start + ROW_GROUP, len(experience))
        yield experience[start:stop]
        start = stop


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
    with open_regular(path) as source, _reading(path):
        _check_size(source, check_footer(source))
    return concatenate(stream(path, domain, drop_invalid))


def stream(
    path: str | os.PathLike[str], domain: Domain | None = None, drop_invalid: bool = False
) -> Iterator[Experience]:
    """Read a file one row group at a time."""
    with _opened(path) as (source, file, groups):
        with _reading(path):
            header = _header(file.schema_arrow)
            chosen = _check_domain(header, domain)
            check_columns(file.schema_arrow, len(chosen.properties))
            if not any(group.rows for group in groups):
                raise FileError("the file holds no transitions")
        for k, group in enumerate(groups):
            with _reading(path):
                _check_size(source, [group])
                table = file.read_row_group(k)
                experience = from_arrow(chosen, table, header["metadata"], drop_invalid)
            if len(experience) or experience.dropped:  # a group that was dropped whole still counts
                yield experience


def describe(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[Group], pa.Schema]:
    """(header, row groups, columns) of an experience file, without its domain and without its data."""
    with _opened(path) as (_, file, groups), _reading(path):
        return _header(file.schema_arrow), groups, file.schema_arrow


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[BinaryIO, pq.ParquetFile, list[Group]]]:
    """The open file; opened here, because Parquet's own reader takes addresses of other machines as well."""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(open_regular(path))
        with _reading(path):
            groups = check_footer(source)
            file = pq.ParquetFile(
                source,
                page_checksum_verification=True,
                thrift_string_size_limit=4 * strictjson.LARGEST_TEXT,
                thrift_container_size_limit=1_000_000,
            )
        yield source, file, groups


@contextlib.contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever a broken file makes the reader raise becomes a `FileError` that names the file."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except FileError as error:
        raise FileError(f"{path}: {error}") from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        reason = shown(str(error).splitlines()[0][:200] if str(error) else type(error).__name__)
        raise FileError(f"{path}: not a readable experience file (truncated or damaged?): {reason}") from error


def _check_size(source: BinaryIO, groups: Sequence[Group]) -> None:
    """Refuse row groups that would unfold to far more memory than their file has bytes, before unfolding them."""
    total = sum(group.unfolded for group in groups)
    size = os.fstat(source.fileno()).st_size
    if total > UNFOLDED + FOLDING * size:
        raise FileError(
            f"{size / 1e6:.3g} MB on disk would become {total / 1e6:.0f} MB in memory: a damaged file, or one made to "
            "exhaust memory; read it in parts with Experience.stream if you trust it"
        )


def _digest(header: dict[str, Any]) -> str:
    """Parquet checks its pages but not its metadata: 16 hex digits to notice a damaged header by."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:16]


def _header(schema: pa.Schema) -> dict[str, Any]:
    if len(set(schema.names)) != len(schema.names):
        raise FileError("damaged: two of its columns have the same name")
    raw = (schema.metadata or {}).get(_KEY)
    if raw is None:
        raise FileError("a Parquet file, but not one of SPARE's; read it as a table and use Experience.from_table")
    header = strictjson.parse(raw, "its SPARE header")
    if not isinstance(header, dict) or type(header.get("format")) is not int:
        raise damaged("it does not say which format it has")
    if header["format"] > FORMAT:
        raise FileError(
            f"written by a newer SPARE (format {header['format']}, this one reads up to {FORMAT}); "
            "install a newer version to read it"
        )
    if header.pop("check", None) != _digest(header):
        raise damaged("its SPARE header does not agree with its check sum")
    if not isinstance(header.get("metadata"), dict) or not isinstance(header.get("fingerprint"), str):
        raise damaged("metadata or fingerprint are missing")
    check_schema(header.get("domain"))
    return header


def _check_domain(header: dict[str, Any], domain: Domain | None) -> Domain:
    name = header["domain"]["name"]
    chosen = domain if domain is not None else builtin_domain(name)
    if chosen is None:
        raise FileError(f"its domain {name!r} is not one of SPARE's own; pass domain=..., or --domain MODULE:NAME")
    if header["fingerprint"] != chosen.fingerprint:
        theirs, own = [p["name"] for p in header["domain"]["properties"]], chosen.schema()
        found = [one for kind in ("properties", "actions") for one in differences(header["domain"], own, kind)]
        raise FileError(
            f"it belongs to domain {name!r} with properties {', '.join(theirs)}, not to {chosen.name!r} with "
            f"{', '.join(chosen.property_names)}: {'; '.join(found[:4]) or 'the names differ'}"
        )
    return chosen
