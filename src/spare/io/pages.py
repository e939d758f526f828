"""The pages of a Parquet file, looked at before Arrow unfolds them.

Arrow checks a file's footer, and the check sums of its pages. It believes the sizes that page headers state, so a file
of a few kilobytes can make it take gigabytes, and it may return fewer values than the footer promises. What is done
about each attack:

    a page of gigabytes compressed into a few bytes      the sizes of all pages are summed up before one is unfolded
    a run of billions of equal values                    values are counted, times the bytes that each takes
    a long text in a dictionary that is repeated         every text counts as long as the longest of its dictionary
    a dictionary of millions of empty texts              a dictionary is at most `FOLDING` times as long as in the file
    pages that hold fewer values than promised           the counts of pages and footer must agree
    many columns that share their bytes                  refused
    a column that is said to be in another file          refused
"""

from __future__ import annotations

from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spare.errors import FileError
from spare.names import shown

TEXT = 64
"""Bytes that a text takes in memory beside its own."""
FOLDING = 100
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": TEXT}
_CODECS = {0: None, 1: "snappy", 2: "gzip", 6: "zstd"}
_DICTIONARY = 2
_COUNTS = {0: 5, _DICTIONARY: 7, 3: 8}
"""Kind of page (data, dictionary, data of version 2) -> the field of its header whose first field counts its values."""
_I32, _I64, _TEXT, _LIST, _STRUCT = 5, 6, 8, 9, 12


class Group(NamedTuple):
    """A row group: its number of rows, and the bytes it would take in memory."""

    rows: int
    unfolded: int


def check_pages(source: BinaryIO, file: pq.ParquetFile) -> list[Group]:
    """The row groups of a file, if its pages are what its footer says."""
    footer = _footer(file.metadata)
    groups = [(group[3, _I64], _columns(file, group)) for group in footer[4, _LIST]]
    if sum(rows for rows, _ in groups) != footer[3, _I64] or any(rows < 0 for rows, _ in groups):
        raise FileError("damaged: its row groups do not add up to its rows")
    end = 4
    for column in sorted((one for _, columns in groups for one in columns), key=lambda one: one.first):
        if column.first < end or column.stored < 1:
            raise FileError("damaged: two of its columns share bytes, or lie outside the file")
        end = column.first + column.stored
    return [Group(rows, sum(_unfolded(source, one, rows) for one in columns)) for rows, columns in groups]


def _columns(file: pq.ParquetFile, group: _Struct) -> list[_Column]:
    """The columns of a row group, as the footer describes them; none if it has no rows."""
    chunks = group[1, _LIST] if group[3, _I64] else []
    if any((1, _TEXT) in chunk for chunk in chunks):
        raise FileError("one of its columns is said to be in another file")
    return [_Column(file.schema.column(j), chunk[3, _STRUCT]) for j, chunk in enumerate(chunks)]


def _footer(metadata: pq.FileMetaData) -> _Struct:
    """What Arrow has read from a footer, written again by Arrow; its accessors in Python can end the process."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    return _Thrift(memoryview(sink.getvalue().to_pybytes()), 4).struct()[0]


class _Column:
    """A column of a row group, as the footer describes it."""

    def __init__(self, schema: pq.ColumnSchema, facts: _Struct) -> None:
        self.name = shown(schema.path[:200])
        self.kind: str = schema.physical_type
        self.repeated: bool = schema.max_repetition_level > 0
        self.codec: int = facts[4, _I32]
        self.values: int = facts[5, _I64]
        self.stored: int = facts[7, _I64]
        data = facts[9, _I64]
        self.first: int = min(data, facts.get((11, _I64)) or data)


def _unfolded(source: BinaryIO, column: _Column, rows: int) -> int:
    """The bytes that one column of a row group would take in memory."""
    name, values = column.name, column.values
    if column.kind not in _WIDTHS or column.codec not in _CODECS:
        raise FileError(f"column {name!r} is {column.kind}, or compressed in a way that is not read here")
    if not rows <= values < 1 << 31 or (not column.repeated and values != rows):
        raise FileError(f"damaged: column {name!r} has {values} values for {rows} rows")
    source.seek(column.first)
    data = memoryview(source.read(column.stored))
    if len(data) < column.stored:
        raise FileError(f"truncated or damaged: column {name!r} lies outside the file")
    place = seen = longest = unfolded = dictionaries = 0
    while place < len(data):
        header, body = _Thrift(data, place).struct()
        kind, plain, packed = (header[number, _I32] for number in (1, 2, 3))
        place = body + packed
        count = header[_COUNTS[kind], _STRUCT][1, _I32] if kind in _COUNTS else -1
        if not (0 <= plain < 1 << 31 and packed >= 0 and place <= len(data) and 0 <= count <= values):
            raise FileError(f"damaged: a page of column {name!r} lies outside it, or counts {count} values")
        if kind == _DICTIONARY:
            dictionaries += 1
            longest = _longest(data[body:place], plain, count, column)
        else:
            seen += count
        unfolded += plain
    if seen != values or dictionaries > 1:
        raise FileError(
            f"damaged: the pages of column {name!r} hold {seen} values instead of {values}, "
            f"with {dictionaries} dictionaries"
        )
    return unfolded + seen * (_WIDTHS[column.kind] + longest)


def _longest(packed: memoryview, plain: int, count: int, column: _Column) -> int:
    """The length of the longest text in a dictionary; 0 for numbers."""
    name = column.name
    if column.kind != "BYTE_ARRAY":
        return 0
    if plain > min(1 << 24, 4096 + FOLDING * len(packed)):
        raise FileError(
            f"column {name!r}: a dictionary of {plain >> 10} kB in {len(packed)} bytes; keep long texts elsewhere"
        )
    codec = _CODECS[column.codec]
    data = packed if codec is None else pa.decompress(packed, decompressed_size=plain, codec=codec, asbytes=True)
    place = longest = 0
    for _ in range(count):
        length = int.from_bytes(data[place : place + 4], "little")
        place += 4 + length
        longest = max(longest, length)
        if place > len(data):
            raise FileError(f"damaged: the dictionary of column {name!r} ends too early")
    return longest


_Struct = dict[tuple[int, int], Any]
"""{(number of the field, its kind): value}; a field of an unexpected kind is another field, as it is for Arrow."""


class _Thrift:
    """A struct in the compact protocol of Thrift; no length in it is believed."""

    def __init__(self, data: memoryview, place: int) -> None:
        self._data, self._place = data, place

    def struct(self) -> tuple[_Struct, int]:
        """(fields, the position after them); texts are skipped."""
        try:
            return self._struct(0), self._place
        except IndexError:
            raise FileError("truncated or damaged: its description of itself is cut off") from None

    def _byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def _varint(self) -> int:
        value = shift = 0
        while shift < 64:
            one = self._byte()
            value |= (one & 127) << shift
            if one < 128:
                return value
            shift += 7
        raise FileError("damaged: a number in its description of itself is too long")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _struct(self, depth: int) -> _Struct:
        found: _Struct = {}
        number = 0
        while head := self._byte():
            number, kind = number + (head >> 4) if head > 15 else self._zigzag(), head & 15
            if (number, kind) in found or depth > 12:
                raise FileError("damaged: its description of itself repeats itself, or is nested too deeply")
            found[number, kind] = self._value(kind, depth) if kind not in (1, 2) else kind == 1
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (4, _I32, _I64):
            return self._zigzag()
        if kind == _STRUCT:
            return self._struct(depth + 1)
        if kind == _LIST:
            head = self._byte()
            size = head >> 4 if head < 0xF0 else self._varint()
            return [self._value(head & 15, depth + 1) for _ in range(size)]
        if kind not in (1, 2, 3, 7, _TEXT):
            raise FileError(f"damaged: its description of itself holds something of an unknown kind ({kind})")
        length = self._varint() if kind == _TEXT else 8 if kind == 7 else 1
        self._place += length
        return None
