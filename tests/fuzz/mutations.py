"""Broken files from good ones: case i of a seed is always the same bytes.

Half of the cases damage bytes anywhere; the others know the format: they change one thing in a manifest, a header
or a table and put a correct check sum on the result, so that the damage gets past the first line of defence.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save as to_safetensors

from spare.io import manifest as manifests
from spare.io import parquet
from tests.fuzz import thrift

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 10**9, 2**31, 2**63, -(2**63), 10**40, 0.5, -0.5, 1e-300, 1e300),
    *("", "x", "y", "mass", "behind", "line", "usher", "queue", "push", "relu", "=1+1", "../../etc/passwd"),
    *(
        "<script>alert(1)</script>",
        "\x1b[31mred\x1b[0m",
        "\u202eright to left",
        "\x00",
        "\ud800",
        "a" * 5000,
        "__import__('os')",
    ),
    *([], {}, [[]], [0], [0, 0], ["behind", [0]], [["behind", [0]]] * 70, {"name": "x"}, [[[[[[]]]]]]),
)
WORDS = (0, 1, 2, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """A few bits flipped, a piece cut, doubled, moved, zeroed or replaced, or a number made absurd."""
    broken = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not broken:
            return b""
        a = _place(len(broken), rng)
        b = min(len(broken), a + rng.choice((1, 2, 4, 8, 64, 1024)))
        kind = rng.randrange(9)
        if kind < 3:
            broken[a] ^= 1 << rng.randrange(8)
        elif kind == 3:
            del broken[a:]
        elif kind == 4:
            broken[a:b] = bytes(b - a)
        elif kind == 5:
            broken[a:a] = broken[a:b]
        elif kind == 6:
            del broken[a:b]
        elif kind == 7:
            broken[a:b] = rng.randbytes(b - a)
        else:
            word = rng.choice(WORDS).to_bytes(8, "little")[: rng.choice((1, 2, 4, 8))]
            broken[a : a + len(word)] = word
    return bytes(broken)


def _place(size: int, rng: random.Random) -> int:
    """Anywhere, but the first and last bytes, where formats keep their numbers, more often."""
    near = min(size, 512)
    return rng.choice((rng.randrange(size), rng.randrange(near), size - 1 - rng.randrange(near)))


def mutated_json(value: Any, rng: random.Random) -> Any:
    """The value with one thing in it replaced, removed, doubled or renamed."""
    copy = json.loads(json.dumps(value))
    places: list[tuple[Any, Any]] = []
    stack = [copy]
    while stack:
        one = stack.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            places.append((one, key))
            stack.append(one[key])
    if not places:
        return rng.choice(ODD)
    holder, key = rng.choice(places)
    kind = rng.randrange(6)
    if kind < 3:
        holder[key] = rng.choice(ODD)
    elif kind == 3:
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(key, holder[key] if kind == 4 else rng.choice(ODD))
    else:
        holder[str(rng.choice(ODD))[:50]] = holder[key]
    return copy


def damaged_model(data: bytes, rng: random.Random) -> bytes:
    """A model file with something wrong in it."""
    kind = rng.randrange(10)
    if kind < 4:
        return damaged_bytes(data, rng)
    length = int.from_bytes(data[:8], "little")
    if kind < 6:  # the header of the container: shapes, places, types
        header = mutated_json(json.loads(data[8 : 8 + length]), rng)
        return _joined(json.dumps(header).encode(), data[8 + length :], rng)
    manifest, arrays = manifests.decode(data)
    arrays = {name: array.copy() for name, array in arrays.items()}
    if kind < 9:
        manifest = mutated_json(manifest, rng)
    else:
        _mutate_arrays(arrays, rng)
    if isinstance(manifest, dict):
        with contextlib.suppress(ValueError, OverflowError):
            manifest["check"] = manifests.digest(manifest, arrays)
    text = json.dumps(manifest)
    if rng.random() < 0.1:
        text = text.replace('"format"', '"format": 1, "format"', 1)
    return to_safetensors(arrays, metadata={"spare": text.encode("utf-8", "replace").decode()})


def _joined(header: bytes, body: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        header = header.replace(b'"dtype"', b'"dtype": "F32", "dtype"', 1)
    if rng.random() < 0.05:
        header = b"[" * rng.choice((100, 10_000, 500_000)) + header
    return len(header).to_bytes(8, "little") + header + body


def _mutate_arrays(arrays: dict[str, np.ndarray], rng: random.Random) -> None:
    name = rng.choice(sorted(arrays))
    array, kind = arrays[name], rng.randrange(8)
    if kind < 3:
        array.flat[rng.randrange(array.size)] = rng.choice((np.nan, np.inf, -np.inf, 0.0, -1.0, 1e38, 1e-45))
    elif kind == 3:
        del arrays[name]
    elif kind == 4:
        arrays[name] = np.ascontiguousarray(array.T)
    elif kind == 5:
        arrays[name] = array[..., :0] if rng.random() < 0.5 else np.repeat(array, 2, axis=0)
    elif kind == 6:
        arrays[name] = array.astype(rng.choice((np.float64, np.int32, np.uint8, np.float16, np.bool_)))
    else:
        arrays[rng.choice(("extra", "rule.9.predictor.x_mean", "rule.0.predictor.mean.9.weight", "a" * 300))] = array


def parquet_variants(path: str) -> list[bytes]:
    """The same experience as others might write it: no check sums, other encodings, other compression."""
    table = pq.read_table(path)
    options: tuple[dict[str, Any], ...] = (
        {"compression": "none"},
        {"compression": "snappy", "use_dictionary": False},
        {"compression": "none", "data_page_version": "2.0", "use_dictionary": False},
        {"compression": "gzip", "data_page_size": 200, "row_group_size": 5, "write_page_index": True},
        {"compression": "none", "use_dictionary": False, "use_byte_stream_split": ["state.list.element.list.element"]},
    )
    variants = []
    for option in options:
        memory = io.BytesIO()
        try:
            pq.write_table(table, memory, **option)
        except (pa.ArrowException, OSError, KeyError):
            continue
        variants.append(memory.getvalue())
    return variants


def damaged_parquet(data: bytes, rng: random.Random) -> bytes:
    """An experience file with something wrong in it."""
    kind = rng.randrange(12)
    if kind < 4:
        return damaged_bytes(data, rng)
    if kind > 9:
        return _lying_footer(data, rng) if kind == 10 else _lying_page(data, rng)
    size = int.from_bytes(data[-8:-4], "little")
    if kind < 7:  # the footer alone, with its length still right
        footer = damaged_bytes(data[-8 - size : -8], rng)
        return data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    table = pq.read_table(io.BytesIO(data))
    table = _mutate_header(table, rng) if kind == 7 else _mutate_column(table, rng)
    memory = io.BytesIO()
    pq.write_table(table, memory)
    return memory.getvalue()


def footer_of(data: bytes) -> list[Any]:
    """The footer of a Parquet file, as `thrift` has it."""
    return thrift.decode(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))[0]


def with_footer(data: bytes, fields: list[Any]) -> bytes:
    """The file with another footer."""
    footer = thrift.encode(fields)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _lying_footer(data: bytes, rng: random.Random) -> bytes:
    """A footer that Thrift can read, with one or two things in it that are not so."""
    fields = footer_of(data)
    for _ in range(rng.choice((1, 1, 2))):
        thrift.mutate(fields, rng)
    return with_footer(data, fields)


def _lying_page(data: bytes, rng: random.Random) -> bytes:
    """A page whose header says something that is not so, in as many bytes as before."""
    pages = page_headers(data)
    for _ in range(100):
        start, stop = rng.choice(pages)
        fields, _ = thrift.decode(data, start)
        thrift.mutate(fields, rng)
        header = thrift.encode(fields)
        if len(header) == stop - start and header != data[start:stop]:
            return data[:start] + header + data[stop:]
    return _lying_footer(data, rng)


def page_headers(data: bytes) -> list[tuple[int, int]]:
    """Where the header of each page begins and ends."""
    found = []
    for group in thrift.field(footer_of(data), 4)[1]:
        for chunk in thrift.field(group, 1)[1]:
            facts = thrift.field(chunk, 3)
            place = min(thrift.field(facts, 9), thrift.field(facts, 11) or thrift.field(facts, 9))
            stop = place + thrift.field(facts, 7)
            while place < stop:
                header, body = thrift.decode(data, place)
                found.append((place, body))
                place = body + thrift.field(header, 3)
    return found


def _mutate_header(table: pa.Table, rng: random.Random) -> pa.Table:
    header = mutated_json(json.loads(table.schema.metadata[b"spare"]), rng)
    if isinstance(header, dict) and header.pop("check", None):
        header["check"] = parquet.digest(header)
    return table.replace_schema_metadata({b"spare": json.dumps(header).encode("utf-8", "replace")})


def _mutate_column(table: pa.Table, rng: random.Random) -> pa.Table:
    position = rng.randrange(table.num_columns)
    name, kind = table.column_names[position], table.schema.types[position]
    rows = table.column(position).to_pylist()
    how = rng.randrange(5)
    if how == 0:
        return table.drop_columns([name])
    if how == 1:
        return table.slice(0, rng.randrange(len(rows)))
    spare = rng.choice(([], None, [None], rows[0], rows[-1], float("nan"), float("inf"), -1, 2**31 - 1, "x" * 10_000))
    for _ in range(rng.choice((1, 1, len(rows)))):
        rows[rng.randrange(len(rows))] = spare
    try:
        column = pa.array(rows, kind if how < 4 else None)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return table.set_column(position, name, pa.nulls(len(rows), kind))
    return table.set_column(position, name, column)
