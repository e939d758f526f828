"""Experience files that are broken, or made to do harm. One test per fault."""

from __future__ import annotations

import io
import json
import os
import pathlib
import random
import re
import resource
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spare
from spare.commands.inspect import inspect
from spare.data import parquet
from spare.io import footer, thrift
from spare.io.thrift import read_struct
from spare.lab.worlds import queue as toy
from tests.faults.helpers import one_sentence, refuses, run
from tests.fuzz import samples


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "good.parquet"
    samples.experience().save(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "bad.parquet"


def refused(path: pathlib.Path, content: bytes, message: str | None, domain: spare.Domain | None = None) -> str:
    path.write_bytes(content)
    text = refuses(lambda: spare.Experience.load(path, domain), message)
    assert str(path) in text
    assert message is None or re.search(message, text.replace(str(path), "")), text  # not just in the test's own name
    return text


def written(table: pa.Table, **options: Any) -> bytes:
    memory = io.BytesIO()
    pq.write_table(table, memory, **options)
    return memory.getvalue()


def test_parquet_truncated_at_any_byte(good: bytes, path: pathlib.Path) -> None:
    """Refused as truncated, wherever it is cut."""
    for length in range(0, len(good), 151):
        refused(path, good[:length], "truncated")


def test_parquet_with_any_bit_flipped(good: bytes, path: pathlib.Path) -> None:
    """Refused, or read as the unbroken file; Arrow alone ends the process on some of these."""
    whole, rng = samples.experience(), random.Random(0)
    for _ in range(25):
        broken = bytearray(good)
        broken[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        try:
            again = spare.Experience.load(path)
        except spare.SpareError:
            continue
        assert again.fingerprint == whole.fingerprint


def test_parquet_with_a_damaged_footer(good: bytes, path: pathlib.Path) -> None:
    """Refused before Arrow sees it."""
    size = int.from_bytes(good[-8:-4], "little")
    rng = random.Random(1)
    for _ in range(15):
        broken = bytearray(good)
        broken[len(good) - 8 - rng.randrange(1, size)] = rng.randrange(256)
        path.write_bytes(broken)
        try:
            spare.Experience.load(path)
        except spare.SpareError as error:
            assert str(path) in str(error)  # noqa: PT017 - some damage is harmless
    refused(path, good[:-8] + (2**31).to_bytes(4, "little") + b"PAR1", "truncated")
    refused(path, good[:-4] + b"PARE", "truncated")


def test_parquet_whose_footer_repeats_itself() -> None:
    """Refused: lists and texts longer than the bytes that are left, structs in structs without end."""
    for data in (
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x18\xff\xff\xff\xff\x0f",
        b"\x1c" * 100,
        b"\x15" + b"\xff" * 20,
        b"",
    ):
        refuses(lambda data=data: read_struct(data), "cut off|nested|too long")


def test_parquet_that_would_fill_memory(path: pathlib.Path) -> None:
    """A small file that unfolds to gigabytes is refused before it is unfolded."""
    table = pq.read_table(io.BytesIO(_experience_bytes(path)))
    many = pa.concat_tables([table] * 60_000)
    content = written(many.combine_chunks(), compression="zstd", row_group_size=10**9)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(content) < 5_000_000
    refused(path, content, r"MB on disk would become \d+ MB in memory")
    refuses(lambda: next(iter(spare.Experience.stream(path))), "MB in memory")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def _experience_bytes(path: pathlib.Path) -> bytes:
    toy.generate(1, seed=0).save(path)
    return path.read_bytes()


def test_parquet_that_repeats_a_long_text(path: pathlib.Path) -> None:
    """A dictionary that turns one long text into gigabytes is refused."""
    toy.generate(1, seed=0).save(path)
    table = pa.concat_tables([pq.read_table(path)] * 300).combine_chunks()
    table = table.append_column("info.note", pa.array(["x" * 400_000] * 300).dictionary_encode().cast(pa.string()))
    content = written(table, compression="zstd")
    assert len(content) < 500_000
    refused(path, content, "MB in memory|long texts")


def _thrift(*fields: tuple[int, Any]) -> bytes:
    """A struct in Thrift's compact protocol: whole numbers, texts, structs (as tuples) and lists of these."""
    found, last = b"", 0
    for number, value in fields:
        found += bytes([(number - last) << 4 | _kind(value)]) + _coded(value)
        last = number
    return found + b"\0"


def _kind(value: Any) -> int:
    return {int: 6, bytes: 8, list: 9, tuple: 12}[type(value)]


def _coded(value: Any) -> bytes:
    if isinstance(value, tuple):
        return _thrift(*value)
    if isinstance(value, int):
        return _whole(2 * value)
    if isinstance(value, bytes):
        return _whole(len(value)) + value
    return bytes([0xF0 | _kind(value[0])]) + _whole(len(value)) + b"".join(map(_coded, value))


def _whole(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _whole(number >> 7)


def _texts(pages: bytes, values: int) -> bytes:
    """A Parquet file of one column of texts, with these pages."""
    facts = ((1, 6), (2, [0]), (3, [b"a"]), (4, 6), (5, values), (6, len(pages)), (7, len(pages)), (9, 4))
    group = ((1, [((2, 4), (3, facts))]), (2, len(pages)), (3, values))
    described = _thrift((1, 1), (2, [((4, b"root"), (5, 1)), ((1, 6), (3, 0), (4, b"a"))]), (3, values), (4, [group]))
    return b"PAR1" + pages + described + len(described).to_bytes(4, "little") + b"PAR1"


def test_parquet_that_takes_hours(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dictionaries of millions of empty texts in a few bytes, footers of millions of nothings: refused at once."""
    size = 1 << 24
    folded = pa.compress(bytes(size), codec="zstd", asbytes=True)
    counted = [_thrift((1, 2), (2, size), (3, len(folded)), (7, ((1, n), (2, 0)))) + folded for n in (1, size // 4)]
    data = _thrift((1, 0), (2, 2), (3, 2), (5, ((1, 1), (2, 8), (3, 3), (4, 3)))) + b"xx"
    begin = time.process_time()
    refused(path, _texts(counted[1] + data, 1), "more in them, than it has use for")
    refused(path, _texts(counted[0] + data, 1), "16384 kB in 531 bytes|keep long texts elsewhere")
    few = pa.compress(bytes(4), codec="zstd", asbytes=True)
    small = _thrift((1, 2), (2, 4), (3, len(few)), (7, ((1, 1), (2, 0)))) + few
    refused(path, _texts(2 * small + data, 1), "more dictionaries")
    monkeypatch.setattr(thrift, "MOST", 10_000)
    nothings = b"\x59\xfc" + _whole(3_000_000) + bytes(3_000_001)
    refused(path, b"PAR1" + nothings + len(nothings).to_bytes(4, "little") + b"PAR1", "more than 10000 values")
    assert time.process_time() - begin < 10


def test_parquet_with_two_columns_of_one_name(good: bytes, path: pathlib.Path) -> None:
    """Refused, by `spare inspect` as well."""
    table = pq.read_table(io.BytesIO(good))
    for name in ("state", "info.a"):
        both = table.append_column(name, table.column("weight")).append_column(name, table.column("weight"))
        refused(path, written(both), "two of its columns have the same name")
        refuses(lambda: inspect(path), "two of its columns have the same name")


def test_parquet_with_columns_in_another_file(good: bytes, path: pathlib.Path) -> None:
    """Refused: a column can be said to be in another file, and is not looked for there."""
    fields, _ = read_struct(good, len(good) - 8 - int.from_bytes(good[-8:-4], "little"))
    chunk = fields[4][0][1][0]
    path.write_bytes(good)
    leaves = footer._leaves(fields[2])
    group = {**fields[4][0], 1: [{**chunk, 1: b"/etc/passwd"}, *fields[4][0][1][1:]]}
    with path.open("rb") as source:
        refuses(lambda: footer._check_group(source, group, leaves, len(good), []), "in another file")


def test_parquet_with_overlapping_columns() -> None:
    """Refused: two columns may not share bytes."""
    refuses(lambda: footer._check_overlap([(4, 90), (80, 100)]), "share bytes")


def test_parquet_that_is_a_pipe_or_an_address(tmp_path: pathlib.Path) -> None:
    """Refused at once: pipes are not waited for, and no address of another machine is ever asked."""
    os.mkfifo(tmp_path / "pipe.parquet")
    begin = time.monotonic()
    refuses(lambda: spare.Experience.load(tmp_path / "pipe.parquet"), "a pipe")
    for address in ("s3://bucket/file.parquet", "hdfs://host/file", "gs://bucket/x", "file:///etc/passwd"):
        refuses(lambda address=address: spare.Experience.load(address), "no such file")
    assert time.monotonic() - begin < 1


def test_parquet_of_a_newer_format(good: bytes, path: pathlib.Path) -> None:
    """Refused with a sentence that says what to do."""
    table = pq.read_table(io.BytesIO(good))
    header = {**json.loads(table.schema.metadata[b"spare"]), "format": 9}
    refused(path, written(table.replace_schema_metadata({b"spare": json.dumps(header).encode()})), "newer SPARE")


def test_parquet_of_another_domain_says_what_differs(good: bytes, path: pathlib.Path) -> None:
    """It names the domain, and the properties and actions that are missing or different."""
    fewer = spare.Domain(
        "queue", properties=toy.domain.properties[:2], references=[], actions=[spare.Action("go", objects=("who",))]
    )
    text = refused(path, good, "property 'mass' is missing from the domain", fewer)
    assert "action 'usher' is missing from the domain (it has go)" in text


def test_parquet_header_with_hostile_names(good: bytes, path: pathlib.Path) -> None:
    """Refused: names that a domain could not have are not shown."""
    table = pq.read_table(io.BytesIO(good))
    for name in ("\x1b]0;owned\x07", "<b>x</b>", "=1+1", "../x", "х"):  # the last one is Cyrillic
        header = json.loads(table.schema.metadata[b"spare"])
        header.pop("check")
        header["domain"]["properties"][0]["name"] = name
        header["check"] = parquet._digest(header)
        content = written(table.replace_schema_metadata({b"spare": json.dumps(header).encode()}))
        refused(path, content, "damaged: property name")


def test_parquet_given_as_a_model_and_back(good: bytes, tmp_path: pathlib.Path) -> None:
    """Each command says that the file is of the other kind."""
    (tmp_path / "data.parquet").write_bytes(good)
    assert "not a model file" in one_sentence(run("show", "data.parquet", folder=tmp_path))


def test_large_states_stay_readable(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What we write, we read: row groups are cut so that none unfolds to more than the limit."""
    monkeypatch.setattr(parquet, "UNFOLDED", 20_000)
    data = toy.generate(60, seed=0)
    data.save(tmp_path / "a.parquet")
    parts = list(spare.Experience.stream(tmp_path / "a.parquet"))
    assert len(parts) > 3
    assert spare.concatenate(parts).fingerprint == data.fingerprint
    assert np.array_equal(spare.Experience.load(tmp_path / "a.parquet").values, data.values)
