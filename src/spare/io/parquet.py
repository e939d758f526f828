"""Parquet files with a sealed JSON header: written whole or not at all, read a row group at a time within bounds.

    format       1; a newer one is refused
    check        16 hex digits of a SHA-256 over the rest of the header; Parquet's own check sums cover its pages alone
    domain       the domain's schema
    fingerprint  of the domain
    metadata     whatever the writer adds, as JSON

This module does not need JAX, so that a file can be inspected at once. `spare.data.files` knows the columns.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from spare.errors import DataError, FileError
from spare.io import strictjson
from spare.io.atomic import open_regular, replacing
from spare.io.guess import HEAD, looks_like
from spare.io.pages import Group, check_pages
from spare.io.schemas import check_format, check_schema, damaged
from spare.names import shown

FORMAT = 1
LARGEST_FOOTER = 1 << 24
UNFOLDED = 32 << 20
"""Bytes that a row group may take in memory, however small it is on disk."""
FOLDING = 100
"""How many times larger than its file the data may be, beyond that."""
_KEY = b"spare"
_MOST_ENTRIES = 100_000
"""Entries of one list in a footer; Arrow takes a gigabyte for a million columns."""


def sealed(table: pa.Table, header: dict[str, Any]) -> pa.Table:
    """The table with a header that says what it holds."""
    header = {"format": FORMAT, **header}
    text = strictjson.write({**header, "check": digest(header)}, "the metadata")
    return table.replace_schema_metadata({_KEY: text.encode()})


def digest(header: dict[str, Any]) -> str:
    """The check sum of a header: 16 hex digits."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:16]


def write(path: str | os.PathLike[str], tables: Callable[[], Iterable[pa.Table]]) -> None:
    """Write tables of one schema as the row groups of a file, which appears under its name when it is whole.

    What can be packed so well that a reader would take it for a trap is written as it is.
    """
    with replacing(path) as target:
        if not _write(target, tables(), pack=True):
            raise FileError(f"{path}: there are no transitions to write")
        try:
            _read_back(target)
        except FileError:
            _write(target, tables(), pack=False)
            try:
                _read_back(target)
            except FileError as error:
                reason = str(error).removeprefix(f"{target}: ")
                raise FileError(f"{path}: not written, since it could not be read again: {reason}") from error


def _write(target: pathlib.Path, tables: Iterable[pa.Table], *, pack: bool) -> bool:
    """Whether there was anything to write."""
    writer: pq.ParquetWriter | None = None
    codec = "zstd" if pack else "none"
    try:
        for table in tables:
            if writer is None:
                writer = pq.ParquetWriter(
                    target, table.schema, compression=codec, use_dictionary=pack, write_page_checksum=True
                )
            writer.write_table(table)
    except BaseException:
        if writer is not None:
            with contextlib.suppress(OSError):  # the first error is the one to report
                writer.close()
        raise
    if writer is not None:
        writer.close()
    return writer is not None


def _read_back(path: pathlib.Path) -> None:
    """Refuse a file whose pages `opened` or `Reader.check_size` would refuse."""
    with opened(path) as reader, errors_of(path):
        reader.check_size(reader.groups)


class Reader:
    """An open file: `header`, `schema`, `groups`, and each group's table; see `opened`."""

    def __init__(self, file: pq.ParquetFile, size: int, groups: list[Group]) -> None:
        self._file, self._size = file, size
        self.groups = groups
        self.schema: pa.Schema = file.schema_arrow
        self.header = _header(self.schema)

    def check_size(self, groups: Sequence[Group]) -> None:
        """Refuse row groups that would take far more memory than their file has bytes, before any is read."""
        total = sum(group.unfolded for group in groups)
        if total > UNFOLDED + FOLDING * self._size:
            raise FileError(
                f"{self._size / 1e6:.3g} MB on disk would become {total / 1e6:.0f} MB in memory: a damaged file, or "
                "one made to exhaust memory; read it in parts with Experience.stream if you trust it"
            )

    def read(self, k: int) -> pa.Table:
        """The rows of group k."""
        self.check_size([self.groups[k]])
        return self._file.read_row_group(k, use_threads=False)


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Reader]:
    """The file at `path`, checked as far as it can be without reading rows.

    It is opened here because Arrow would also take addresses of other machines.
    """
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(open_regular(path))
        with errors_of(path):
            size = source.seek(0, 2)
            source.seek(max(0, size - 8))
            tail = source.read(8)
            if size < 12 or tail[4:] != b"PAR1" or not 0 < int.from_bytes(tail[:4], "little") <= LARGEST_FOOTER:
                raise FileError(f"not a readable experience file: not Parquet, or truncated{_instead(source)}")
            file = pq.ParquetFile(
                source,
                pre_buffer=False,  # no threads
                page_checksum_verification=True,
                thrift_string_size_limit=4 * strictjson.LARGEST_TEXT,
                thrift_container_size_limit=_MOST_ENTRIES,
            )
            reader = Reader(file, size, check_pages(source, file))
        yield reader


def _instead(source: BinaryIO) -> str:
    """What a file that is not Parquet looks like, and what reads it."""
    source.seek(0)
    kind = looks_like(source.read(HEAD))
    if kind == "a Parquet file":
        return ""
    return f"; it looks like {kind}" + (", as models are: spare.load reads those" if "safetensors" in kind else "")


@contextlib.contextmanager
def errors_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever a broken file makes a reader raise into an error of ours that names the file."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except FileError as error:
        raise FileError(f"{path}: {error}") from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        reason = shown(str(error).splitlines()[0][:200] if str(error) else type(error).__name__)
        raise FileError(f"{path}: not a readable experience file (truncated or damaged?): {reason}") from error


def describe(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[Group], pa.Schema]:
    """(header, row groups, columns) of a file, without its domain and without its data."""
    with opened(path) as reader:
        return reader.header, reader.groups, reader.schema


def _header(schema: pa.Schema) -> dict[str, Any]:
    if len(set(schema.names)) != len(schema.names):
        raise FileError("damaged: two of its columns have the same name")
    raw = (schema.metadata or {}).get(_KEY)
    if raw is None:
        raise FileError("a Parquet file, but not one of SPARE's; read it as a table and use Experience.from_table")
    header = strictjson.parse(raw, "its SPARE header")
    if not isinstance(header, dict):
        raise damaged("it is not an object")
    check_format(header, FORMAT)
    if header.pop("check", None) != digest(header):
        raise damaged("its SPARE header does not agree with its check sum")
    if not isinstance(header.get("metadata"), dict) or not isinstance(header.get("fingerprint"), str):
        raise damaged("metadata or fingerprint are missing")
    check_schema(header.get("domain"))
    return header
