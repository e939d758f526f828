"""Thrift's compact protocol, both ways and with the types kept: to make Parquet files whose descriptions lie.

A struct is a list of [number, kind, value]; a list is [kind of its members, members]; numbers and bytes are themselves.
"""

from __future__ import annotations

import random
from typing import Any

TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
WHOLE = (4, 5, 6)
ODD = (0, 1, -1, 2, 3, 4, 7, 8, 100, 2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**31), -(2**63))


def decode(data: bytes, place: int = 0) -> tuple[list[Any], int]:
    """(struct, position after it)."""
    fields: list[Any] = []
    number = 0
    while data[place]:
        head, place = data[place], place + 1
        if head >> 4:
            number += head >> 4
        else:
            number, place = _zigzag(data, place)
        kind = head & 15
        value, place = (kind == TRUE, place) if kind in (TRUE, FALSE) else _value(data, place, kind)
        fields.append([number, kind, value])
    return fields, place + 1


def field(fields: list[Any], number: int) -> Any:
    """The value of a field, or None."""
    return next((value for one, _, value in fields if one == number), None)


def _value(data: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind in WHOLE:
        return _zigzag(data, place)
    if kind in (TRUE, FALSE, BYTE):
        return data[place], place + 1
    if kind == DOUBLE:
        return data[place : place + 8], place + 8
    if kind == BINARY:
        length, place = _varint(data, place)
        return data[place : place + length], place + length
    if kind == STRUCT:
        return decode(data, place)
    inner, size = data[place] & 15, data[place] >> 4
    place += 1
    if size == 15:
        size, place = _varint(data, place)
    members = []
    for _ in range(size):
        one, place = _value(data, place, inner)
        members.append(one)
    return [inner, members], place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while data[place] > 127:
        value |= (data[place] & 127) << shift
        place, shift = place + 1, shift + 7
    return value | data[place] << shift, place + 1


def _zigzag(data: bytes, place: int) -> tuple[int, int]:
    value, place = _varint(data, place)
    return (value >> 1) ^ -(value & 1), place


def encode(fields: list[Any]) -> bytes:
    """The bytes of a struct."""
    found, last = bytearray(), 0
    for number, kind, value in fields:
        kind = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        step = number - last
        found += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + varint(2 * number)
        found += b"" if kind in (TRUE, FALSE) else _coded(kind, value)
        last = number
    return bytes(found) + b"\0"


def _coded(kind: int, value: Any) -> bytes:
    if kind in WHOLE:
        return varint((value << 1 ^ value >> 63) & (1 << 64) - 1)
    if kind in (TRUE, FALSE, BYTE):
        return bytes([value & 255])
    if kind == DOUBLE:
        return value
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == STRUCT:
        return encode(value)
    inner, members = value
    return bytes([0xF0 | inner]) + varint(len(members)) + b"".join(_coded(inner, one) for one in members)


def varint(number: int) -> bytes:
    """A whole number that is not negative, seven bits a byte."""
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def mutate(fields: list[Any], rng: random.Random) -> None:
    """One lie, in place: a number, a text, a flag, a field or a member of a list is changed, lost or doubled."""
    places: list[tuple[list[Any], int, int]] = []
    _collect(fields, places)
    holder, index, kind = rng.choice(places)
    inside = kind in (-1, -2)
    how = rng.randrange(8)
    if inside and how < 3:
        del holder[index]
    elif inside:
        holder.insert(index, holder[rng.randrange(len(holder))])
    elif kind in WHOLE:
        value = holder[index]
        near = (value + 1, value - 1, 2 * value, value // 2, value + rng.randrange(100))
        holder[index] = min(max(rng.choice((*near, rng.choice(ODD))), -(2**63)), 2**63 - 1)
    elif kind in (TRUE, FALSE, BYTE):
        holder[index] = int(not holder[index]) if kind != BYTE else rng.randrange(256)
    elif kind == BINARY:
        text = holder[index]
        holder[index] = rng.choice((b"", text + b"\0", text[: len(text) // 2], rng.randbytes(len(text)), text * 50))
    else:
        holder[index] = rng.randbytes(8)


def _collect(fields: list[Any], places: list[tuple[list[Any], int, int]]) -> None:
    """Everything that can be changed: (holder, index, kind); -1 a field of a struct, -2 a member of a list."""
    for position, field in enumerate(fields):
        places.append((fields, position, -1))
        _collect_value(field, 2, field[1], places)


def _collect_value(holder: list[Any], index: int, kind: int, places: list[tuple[list[Any], int, int]]) -> None:
    if kind == STRUCT:
        _collect(holder[index], places)
    elif kind in (LIST, SET):
        inner, members = holder[index]
        for position in range(len(members)):
            places.append((members, position, -2))
            _collect_value(members, position, inner, places)
    else:
        places.append((holder, index, kind))
