"""Named arrays and texts in one safetensors file.

safetensors itself refuses files whose tensors overlap, leave gaps, or do not fit their shapes and the file. It takes
the last of two tensors of one name, and any kind of number; those are refused here.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
from safetensors.numpy import save

from spare.errors import FileError
from spare.io import strictjson
from spare.io.atomic import open_regular
from spare.io.guess import HEAD, looks_like
from spare.names import shown

LARGEST_FILE = 1 << 30
MOST_TENSORS = 20_000
MOST_AXES = 4
_KINDS = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}


def encode(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """The bytes of a file; the same arrays and texts always give the same bytes."""
    return save({name: np.require(array, requirements="C") for name, array in tensors.items()}, metadata)


def digest(tensors: Mapping[str, np.ndarray], prefix: bytes = b"") -> str:
    """16 hex digits of a SHA-256 over the prefix and every tensor with its name and shape."""
    total = hashlib.sha256(prefix)
    for name in sorted(tensors):
        total.update(f"{name}{tensors[name].shape}".encode())
        total.update(np.ascontiguousarray(tensors[name]).data)
    return total.hexdigest()[:16]


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
    """(metadata, tensors in the order of their names) of the bytes of a file."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, strictjson.LARGEST_TEXT):
        kind = looks_like(data[:HEAD])
        size = f"{len(data)} bytes" + (f" with a header of {length}" if kind == "a safetensors file" else "")
        advice = "; spare.Experience.load reads experience" if kind == "a Parquet file" else ""
        raise FileError(f"not a model file, or a truncated one: it looks like {kind} ({size}){advice}")
    header = strictjson.parse(data[8 : 8 + length], "its header", strictjson.LARGEST_TEXT)
    if not isinstance(header, dict) or len(header) > MOST_TENSORS:
        raise FileError("its header does not list tensors, or too many")
    try:
        found = safetensors.deserialize(data)
    except safetensors.SafetensorError as error:
        reason = str(error).removeprefix("Error while deserializing: ")[:120]
        raise FileError(f"truncated or damaged: {shown(reason)}") from error
    return header.get("__metadata__") or {}, {name: _array(name, facts) for name, facts in sorted(found)}


def _array(name: str, facts: Mapping[str, Any]) -> np.ndarray:
    kind, shape = facts["dtype"], facts["shape"]
    if len(name) > 80 or not name.isascii() or not name.isprintable():
        raise FileError(f"tensor {name[:80]!r}: a name is at most 80 plain characters long")
    if kind not in _KINDS:
        raise FileError(f"tensor {name!r} is of type {kind!r}, not made of 32-bit or 64-bit numbers")
    if len(shape) > MOST_AXES or max(shape, default=0) > LARGEST_FILE:
        raise FileError(f"tensor {name!r}: shape {shape} is absurd")
    array = np.frombuffer(facts["data"], _KINDS[kind]).reshape(shape)
    array.flags.writeable = False
    return array


def read(path: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """(metadata, tensors) of a file."""
    data = read_bytes(path)
    try:
        return decode(data)
    except FileError as error:
        raise FileError(f"{pathlib.Path(path)}: {error}") from error
