"""The compact protocol of Thrift, in which Parquet files describe themselves, read with limits.

A struct becomes {field number: value}; lists, numbers, Booleans and bytes become what they are. Nothing here trusts a
length: every one is compared with the bytes that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spare.errors import FileError

DEEPEST = 16
MOST = 1_000_000
"""Values in all: each takes about a hundred bytes of memory here, and may take one in the file."""
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)


def read_struct(data: bytes | memoryview, start: int = 0) -> tuple[dict[int, Any], int]:
    """(fields, position after it) of the struct that begins at `start`."""
    reader = _Reader(memoryview(data), start)
    try:
        return reader.struct(0), reader.place
    except IndexError:
        raise FileError("its description of itself is cut off") from None


class _Reader:
    """A place in some bytes; each method reads one thing and moves on."""

    def __init__(self, data: memoryview, place: int) -> None:
        self.data, self.place, self.left = data, place, MOST

    def byte(self) -> int:
        value = self.data[self.place]
        self.place += 1
        return value

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            one = self.byte()
            value |= (one & 0x7F) << shift
            if one < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise FileError("a number in its description of itself is too long")

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self, length: int) -> bytes:
        if length > len(self.data) - self.place:
            raise IndexError
        self.place += length
        return bytes(self.data[self.place - length : self.place])

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > DEEPEST:
            raise FileError("its description of itself is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self.byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            if number in fields:
                raise FileError("its description of itself tells one thing twice")
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind, depth)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise FileError(f"its description of itself holds more than {MOST} values")
        if kind in _INTEGERS:
            return self.zigzag()
        readers: dict[int, Callable[[], Any]] = {
            _BINARY: lambda: self.binary(self.varint()),
            _LIST: lambda: self.listing(depth + 1),
            _SET: lambda: self.listing(depth + 1),
            _STRUCT: lambda: self.struct(depth + 1),
            _TRUE: lambda: self.byte() == _TRUE,
            _FALSE: lambda: self.byte() == _TRUE,
            _BYTE: self.byte,
            _DOUBLE: lambda: self.binary(8),
        }
        if kind not in readers:  # maps do not occur in Parquet
            raise FileError(f"its description of itself holds something of an unknown kind ({kind})")
        return readers[kind]()

    def listing(self, depth: int) -> list[Any]:
        head = self.byte()
        size = head >> 4 if head >> 4 < 15 else self.varint()
        if size > len(self.data) - self.place:  # each member takes a byte at least
            raise IndexError
        return [self.value(head & 15, depth) for _ in range(size)]
