"""What a Parquet file says about itself, checked in Python before Arrow reads a byte of it.

Arrow's reader checks its pages, but trusts much of the rest: a footer that lies can make it ask for any amount of
memory, or end the whole process. So the footer and every page's header are read here first:

1. the file begins and ends as Parquet files do, and its footer lies within it;
2. row groups, columns and pages have the fields they need, lie within the file, and do not overlap;
3. numbers of rows and values agree with each other, from the footer down to the pages;
4. what it would unfold to in memory is summed up, long texts that a dictionary repeats included.
"""

from __future__ import annotations

from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from spare.errors import FileError
from spare.io.thrift import read_struct

LARGEST_FOOTER = 1 << 26
TEXT = 64
FOLDING = 100
"""How many times longer than in the file a dictionary of texts may be; each is unfolded and looked through here."""
_MAGIC = b"PAR1"
_WIDTHS = {0: 1, 1: 4, 2: 8, 4: 4, 5: 8}
_BYTES = 6
_CODECS = {0: None, 1: "snappy", 2: "gzip", 6: "zstd"}
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_HEADER = 1 << 16


class Group(NamedTuple):
    """A row group: its number of rows, and the bytes it would take in memory."""

    rows: int
    unfolded: int


def check_footer(source: BinaryIO) -> list[Group]:
    """The row groups of a Parquet file, if it is what it says."""
    try:
        return _check(source)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(f"truncated or damaged: its description of itself makes no sense ({error})") from error


def _check(source: BinaryIO) -> list[Group]:
    size = source.seek(0, 2)
    head, tail = _at(source, 0, 4), _at(source, max(0, size - 8), 8)
    length = int.from_bytes(tail[:4], "little")
    if size < 12 or head != _MAGIC or tail[4:] != _MAGIC or not 0 < length <= min(size - 12, LARGEST_FOOTER):
        raise FileError("not a readable experience file: not Parquet, or truncated")
    end = size - 8 - length
    fields, _ = read_struct(_at(source, end, length))
    leaves = _leaves(fields[2])
    found, spans = [], []
    for group in fields[4]:
        found.append(_check_group(source, group, leaves, end, spans))
    _check_overlap(spans)
    if sum(group.rows for group in found) != fields[3]:
        raise FileError("damaged: its row groups do not add up to its rows")
    return found


def _at(source: BinaryIO, start: int, length: int) -> bytes:
    source.seek(start)
    return source.read(length)


def _leaves(elements: list[dict[int, Any]]) -> list[tuple[tuple[str, ...], int, bool]]:
    """(path, physical type, repeated) of every column, from the tree of the schema."""
    found: list[tuple[tuple[str, ...], int, bool]] = []
    rest = iter(elements)

    def walk(path: tuple[str, ...], repeated: bool, depth: int) -> None:
        one = next(rest, None)
        if one is None or depth > 16:
            raise FileError("damaged: its schema is not a tree")
        name = one[4].decode("utf-8")
        inside = (*path, name) if depth else ()
        again = repeated or one.get(3) == 2
        children = one.get(5) or 0
        if not 0 <= children <= len(elements):
            raise FileError("damaged: its schema is not a tree")
        for _ in range(children):
            walk(inside, again, depth + 1)
        if not children:
            found.append((inside, one[1], again))

    walk((), False, 0)
    if next(rest, None) is not None:
        raise FileError("damaged: its schema is not a tree")
    return found


def _check_group(source: BinaryIO, group: dict[int, Any], leaves: list[Any], end: int, spans: list[Any]) -> Group:
    rows, total = group[3], 0
    if not 0 <= rows < 1 << 31 or len(group[1]) != len(leaves):
        raise FileError("damaged: a row group does not have the columns of the schema")
    if not rows:
        return Group(0, 0)
    for chunk, (path, kind, repeated) in zip(group[1], leaves, strict=True):
        name, facts = ".".join(path), chunk[3]
        if 1 in chunk or 8 in chunk or 9 in chunk:
            raise FileError(f"column {name!r} is said to be in another file, or encrypted")
        if tuple(part.decode("utf-8") for part in facts[3]) != path or facts[1] != kind or facts[4] not in _CODECS:
            raise FileError(f"damaged: column {name!r} is not the one that the schema describes")
        values = facts[5]
        if not rows <= values < 1 << 31 or (not repeated and values != rows):
            raise FileError(f"damaged: column {name!r} has {values} values for {rows} rows")
        start = min(facts[9], facts.get(11) or facts[9])
        stop = start + facts[7]
        if not 4 <= start < stop <= end:
            raise FileError(f"damaged: column {name!r} lies outside the file")
        spans.append((start, stop))
        total += _check_pages(source, (start, stop), name, facts)
    return Group(rows, total)


def _check_overlap(spans: list[tuple[int, int]]) -> None:
    last = 0
    for start, stop in sorted(spans):
        if start < last:
            raise FileError("damaged: two of its columns share bytes")
        last = stop


def _check_pages(source: BinaryIO, span: tuple[int, int], name: str, facts: dict[int, Any]) -> int:
    """Walk through the pages of one column; the bytes it would take in memory."""
    place, stop = span
    seen, longest, unfolded, dictionaries = 0, 0, 0, 0
    while place < stop:
        header, length = read_struct(_at(source, place, min(_HEADER, stop - place)))
        packed, plain = header[3], header[2]
        place += length + packed
        if packed < 0 or place > stop or not 0 <= plain < 1 << 31:
            raise FileError(f"damaged: a page of column {name!r} lies outside it")
        if header[1] == _DICTIONARY:
            count, dictionaries = header[7][1], dictionaries + 1
            if dictionaries > 1 or not 0 <= count <= facts[5]:
                raise FileError(f"damaged: column {name!r} has more dictionaries, or more in them, than it has use for")
            body = (source, place - packed, packed, plain)
            longest = max(longest, _check_dictionary(body, name, facts, count))
        elif header[1] in (_DATA, _DATA_2):
            inside = header[5] if header[1] == _DATA else header[8]
            if not 0 <= inside[1] <= facts[5]:
                raise FileError(f"damaged: a page of column {name!r} has {inside[1]} values")
            seen += inside[1]
        unfolded += plain
    if seen != facts[5]:
        raise FileError(f"damaged: the pages of column {name!r} hold {seen} values instead of {facts[5]}")
    return unfolded + seen * (_WIDTHS[facts[1]] if facts[1] != _BYTES else TEXT + longest)


def _check_dictionary(body: tuple[BinaryIO, int, int, int], name: str, facts: dict[int, Any], count: int) -> int:
    """Whether a dictionary can hold so many values; for texts, the length of the longest."""
    source, start, packed, plain = body
    if facts[1] != _BYTES:
        if count * _WIDTHS[facts[1]] > plain + 8:
            raise FileError(f"damaged: the dictionary of column {name!r} is too small for {count} values")
        return 0
    data, codec = _at(source, start, packed), _CODECS[facts[4]]
    if plain > min(1 << 24, 4096 + FOLDING * packed):
        raise FileError(
            f"column {name!r}: a dictionary of {plain >> 10} kB in {packed} bytes; keep long texts elsewhere"
        )
    if codec is not None:
        data = pa.decompress(data, decompressed_size=plain, codec=codec, asbytes=True)
    place = longest = 0
    for _ in range(count):
        length = int.from_bytes(data[place : place + 4], "little")
        place += 4 + length
        longest = max(longest, length)
        if place > len(data):
            raise FileError(f"damaged: the dictionary of column {name!r} ends too early")
    return longest
