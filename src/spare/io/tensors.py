"""Named float32 arrays and a JSON text in one safetensors file, read with every limit checked before allocating.

    8 bytes    length of the header, little endian
    header     JSON: {"__metadata__": {key: text}, name: {"dtype": "F32", "shape": [...], "data_offsets": [a, b]}}
    data       the numbers of all tensors, end to end, without gaps or overlaps

Reading copies nothing: the arrays are read-only views of the file's bytes, so a header cannot ask for memory.
"""

from __future__ import annotations

import math
import os
import pathlib
from typing import Any

import numpy as np
from safetensors.numpy import save as to_safetensors

from spare.errors import FileError
from spare.io import strictjson
from spare.io.atomic import open_regular

LARGEST_FILE = 1 << 30
MOST_TENSORS = 20_000
MOST_AXES = 4
_KINDS = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8")}
_METADATA = "__metadata__"


def encode(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """The bytes of a file; the same arrays and texts always give the same bytes."""
    return to_safetensors({name: np.require(array, requirements="C") for name, array in tensors.items()}, metadata)


def read_bytes(path: str | os.PathLike[str], largest: int = LARGEST_FILE) -> bytes:
    """The content of a regular file of bounded size."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise FileError(f"{path}: {size >> 20} MB is more than such a file can have ({largest >> 20} MB)")
        try:
            return file.read(size)
        except OSError as error:
            raise FileError(f"{path}: cannot be read: {error.strerror or error}") from error


def decode(data: bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """(metadata, tensors) of the bytes of a file."""
    if len(data) < 8:
        raise FileError(f"it is {len(data)} bytes long, too short for a model file: truncated, or not a model")
    length = int.from_bytes(data[:8], "little")
    if length > min(len(data) - 8, strictjson.LARGEST_TEXT):
        raise FileError(f"not a model file, or a truncated one: its header would be {length} bytes long")
    header = strictjson.parse(data[8 : 8 + length], "its header", strictjson.LARGEST_TEXT)
    if not isinstance(header, dict) or len(header) > MOST_TENSORS:
        raise FileError("its header does not list tensors, or too many")
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise FileError("its header is damaged: the metadata are not texts")
    return metadata, _tensors(header, memoryview(data)[8 + length :])


def _tensors(header: dict[str, Any], body: memoryview) -> dict[str, np.ndarray]:
    """Views of the body, in the order of their names; the pieces must cover it exactly."""
    entries = {name: _entry(name, facts, len(body)) for name, facts in header.items()}
    end = 0
    for name, (_, _, start, stop) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if start != end:
            raise FileError(f"tensor {name!r} overlaps another, or leaves a gap: it starts at {start}, not at {end}")
        end = stop
    if end != len(body):
        raise FileError(f"truncated, or longer than it should be: tensors end at {end} of {len(body)} bytes")
    tensors = {}
    for name, (kind, shape, start, stop) in sorted(entries.items()):
        view = np.frombuffer(body[start:stop], kind) if stop > start else np.zeros(0, kind)
        tensors[name] = view.reshape(shape)
    return tensors


def _entry(name: str, facts: Any, total: int) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """(type, shape, start, stop) of one tensor, if they fit each other and the file."""
    label = f"tensor {name[:80]!r}"
    if len(name) > 80 or not name.isascii() or not name.isprintable():
        raise FileError(f"{label}: a name is at most 80 plain characters long")
    if not isinstance(facts, dict) or set(facts) != {"dtype", "shape", "data_offsets"}:
        raise FileError(f"{label}: its type, shape and place are not told")
    kind, shape, place = (facts[key] for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(kind, str) or kind not in _KINDS:
        raise FileError(f"{label} is of type {str(kind)[:16]!r}, not made of 32-bit or 64-bit numbers")
    if not _whole(shape) or len(shape) > MOST_AXES or not _whole(place) or len(place) != 2:
        raise FileError(f"{label}: its shape or place is not made of a few whole numbers")
    if math.prod(max(1, axis) for axis in shape) > LARGEST_FILE:
        raise FileError(f"{label}: shape {shape} is absurd")
    start, stop = place
    if not start <= stop <= total or stop - start != _KINDS[kind].itemsize * math.prod(shape):
        raise FileError(
            f"truncated or damaged: {label} of shape {shape} is said to be bytes {start} to {stop} of {total}"
        )
    return _KINDS[kind], tuple(shape), start, stop


def _whole(numbers: Any) -> bool:
    """Whether this is a list of whole numbers from 0 to 2^40."""
    return isinstance(numbers, list) and all(type(one) is int and 0 <= one < 1 << 40 for one in numbers)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """(metadata, tensors) of a file."""
    data = read_bytes(path)
    try:
        return decode(data)
    except FileError as error:
        raise FileError(f"{pathlib.Path(path)}: {error}") from error
