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
from spare.io import parquet
from spare.lab.worlds import queue as toy
from tests.faults.helpers import one_sentence, refuses, run
from tests.fuzz import samples, thrift
from tests.fuzz.mutations import footer_of, with_footer


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


def test_parquet_whose_footer_repeats_itself(path: pathlib.Path) -> None:
    """Refused: lists and texts longer than the bytes that are left, structs in structs without end."""
    for footer in (
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x18\xff\xff\xff\xff\x0f",
        b"\x1c" * 100_000,
        b"\x15" + b"\xff" * 20,
        b"\x15\x02\x0c\xc6\x01" + b"\x1c" * 1_000_000 + bytes(1_000_002),  # in a field that nobody knows
        thrift.encode(_footer([[[4, 8, b"r"], [5, 5, 1]], *([[3, 5, 0], [4, 8, b"a"], [5, 5, 1]],) * 99_000])),
    ):
        refused(path, b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1", "truncated|damaged")


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


def _footer(schema: list[Any], values: int = 0, groups: list[Any] | None = None) -> list[Any]:
    return [[1, 5, 1], [2, 9, [12, schema]], [3, 6, values], [4, 9, [12, groups or []]]]


def _texts(pages: bytes, values: int) -> bytes:
    """A Parquet file of one column of texts, with these pages."""
    facts = [[1, 5, 6], [2, 9, [5, [0]]], [3, 9, [8, [b"a"]]], [4, 5, 6], [5, 6, values]]
    facts += [[6, 6, len(pages)], [7, 6, len(pages)], [9, 6, 4]]
    group = [[1, 9, [12, [[[2, 6, 4], [3, 12, facts]]]]], [2, 6, len(pages)], [3, 6, values]]
    schema = [[[4, 8, b"root"], [5, 5, 1]], [[1, 5, 6], [3, 5, 0], [4, 8, b"a"]]]
    described = thrift.encode(_footer(schema, values, [group]))
    return b"PAR1" + pages + described + len(described).to_bytes(4, "little") + b"PAR1"


def _page(kind: int, plain: int, packed: bytes, count: int) -> bytes:
    inside = [[1, 5, count], [2, 5, 0]] if kind == 2 else [[1, 5, count], [2, 5, 8], [3, 5, 3], [4, 5, 3]]
    header = [[1, 5, kind], [2, 5, plain], [3, 5, len(packed)], [7 if kind == 2 else 5, 12, inside]]
    return thrift.encode(header) + packed


def test_parquet_that_takes_hours(path: pathlib.Path) -> None:
    """Dictionaries of millions of empty texts in a few bytes, footers of millions of nothings: refused at once."""
    size = 1 << 24
    folded, few = (pa.compress(bytes(n), codec="zstd", asbytes=True) for n in (size, 4))
    data = _page(0, 2, b"xx", 1)
    begin = time.process_time()
    refused(path, _texts(_page(2, size, folded, size // 4) + data, 1), "counts 4194304 values")
    refused(path, _texts(_page(2, size, folded, 1) + data, 1), "16384 kB in 531 bytes; keep long texts elsewhere")
    refused(path, _texts(2 * _page(2, 4, few, 1) + data, 1), "2 dictionaries")
    for nothings in (b"\x59\xfc", b"\x15\x02\x19\xfc", b"\x15\x02\x09\xc6\x01\xfc"):  # the last is in an unknown field
        footer = nothings + thrift.varint(3_000_000) + bytes(3_000_001)
        refused(path, b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1", "truncated|damaged")
    refused(path, b"PAR1" + bytes(1 << 25) + (1 << 25).to_bytes(4, "little") + b"PAR1", "not Parquet, or truncated")
    assert time.process_time() - begin < 10


def test_parquet_whose_pages_lie_about_their_size(path: pathlib.Path) -> None:
    """A page of gigabytes in a few bytes, and a run of billions of equal values: refused before they are unfolded."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    folded = pa.compress(bytes(1 << 28), codec="zstd", asbytes=True)
    refused(path, _texts(_page(0, 2**31 - 1, folded, 1), 1), r"MB in memory|not one of SPARE's")
    refused(path, _texts(_page(0, 2, b"xx", 2**31 - 1), 2**31 - 1), r"MB in memory|not one of SPARE's")
    refused(path, _texts(_page(0, 2, b"xx", 2**31 - 1), 1), "counts 2147483647 values")
    refused(path, _texts(_page(0, 2, b"xx", 1), 2), "hold 1 values instead of 2")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


def test_parquet_with_two_columns_of_one_name(good: bytes, path: pathlib.Path) -> None:
    """Refused, by `spare inspect` as well."""
    table = pq.read_table(io.BytesIO(good))
    for name in ("state", "info.a"):
        both = table.append_column(name, table.column("weight")).append_column(name, table.column("weight"))
        refused(path, written(both), "two of its columns have the same name")
        refuses(lambda: inspect(path), "two of its columns have the same name")


def test_parquet_with_columns_in_another_file(good: bytes, path: pathlib.Path) -> None:
    """Refused: a column can be said to be in another file, and is not looked for there."""
    fields = footer_of(good)
    thrift.field(thrift.field(fields, 4)[1][0], 1)[1][0].insert(0, [1, 8, b"/etc/passwd"])
    refused(path, with_footer(good, fields), "in another file")


def test_parquet_with_columns_outside_the_file(good: bytes, path: pathlib.Path) -> None:
    """Refused before anything is allocated for them."""
    for number, value in ((7, 2**62), (7, -1), (9, 2**62), (9, -5), (9, 0), (5, 2**62), (5, -1), (5, 0)):
        fields = footer_of(good)
        facts = thrift.field(thrift.field(thrift.field(fields, 4)[1][0], 1)[1][-1], 3)
        next(one for one in facts if one[0] == number)[2] = value
        refused(path, with_footer(good, fields), "outside the file|share bytes|values for|truncated|damaged")


def test_parquet_with_overlapping_columns(good: bytes, path: pathlib.Path) -> None:
    """Refused: two columns may not share bytes."""
    fields = footer_of(good)
    chunks = thrift.field(thrift.field(fields, 4)[1][0], 1)[1]
    chunks[2] = chunks[1]  # the next state is where the state is
    refused(path, with_footer(good, fields), "share bytes")


def test_parquet_whose_lists_are_of_two_kinds(good: bytes, path: pathlib.Path) -> None:
    """Refused: a list whose members Arrow would read as one thing, and another reader as another."""
    for steps in ((2,), (4,), (4, 1), (4, 1, 3, 2), (4, 1, 3, 3)):
        fields = footer_of(good)
        place = fields
        for number in steps[:-1]:
            value = thrift.field(place, number)
            place = value[1][0] if isinstance(value[0], int) else value
        held = thrift.field(place, steps[-1])
        held[0], held[1] = thrift.BYTE, [1] * 40
        refused(path, with_footer(good, fields), "of another kind|truncated|damaged")


def test_parquet_that_says_it_is_encrypted(good: bytes, path: pathlib.Path) -> None:
    """Read as what it is, or refused; Arrow cannot write such a footer again without ending the process."""
    fields = footer_of(good)
    fields.append([8, 12, [[1, 12, []]]])
    path.write_bytes(with_footer(good, fields))
    try:
        assert spare.Experience.load(path).fingerprint == samples.experience().fingerprint
    except spare.FileError as error:
        assert str(path) in str(error)  # noqa: PT017 - either will do


def test_parquet_whose_statistics_lie(good: bytes, path: pathlib.Path) -> None:
    """Read or refused: what Arrow's accessors say of these in Python would end the process."""
    fields = footer_of(good)
    for chunk in thrift.field(thrift.field(fields, 4)[1][0], 1)[1]:
        facts = thrift.field(chunk, 3)
        sizes = thrift.field(facts, 16)
        for histogram in (one for one in sizes or [] if one[1] == thrift.LIST):
            histogram[2][1].append(7)
    assert thrift.encode(fields) != thrift.encode(footer_of(good))
    refused(path, with_footer(good, fields), "histogram|truncated|damaged")


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
        header["check"] = parquet.digest(header)
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


def wide(values: np.ndarray, **info: Any) -> spare.Experience:
    """Two objects per transition, all with these values of the one property."""
    domain = spare.Domain(
        "wide",
        properties=[spare.Property("x", resolution=1.0)],
        references=[],
        actions=[spare.Action("go", objects=("who",))],
    )
    n, column = len(values) // 2, values[:, None]
    parts = {"offsets": np.arange(0, 2 * n + 1, 2), "action": np.zeros(n, int), "objects": np.zeros((n, 1), int)}
    return spare.Experience.from_arrays(domain, values=column, next_values=column, **parts, info=info)


def test_data_that_pack_too_well(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What we write, we read: data that would unfold to more than a hundred times their file are written unpacked."""
    monkeypatch.setattr(parquet, "UNFOLDED", 20_000)
    rooms = [f"{k:06d}" + "room" * 100 for k in range(20_000)]
    for data in (
        wide(np.zeros(40_000)),
        wide(np.arange(40_000.0), room=rooms),
        wide(np.zeros(24), note=["x" * 5000] * 12),
    ):
        data.save(path)
        assert spare.Experience.load(path, data.domain) == data


def test_texts_that_no_file_keeps(path: pathlib.Path) -> None:
    """Refused on the way in or by `save`, not by `load`: half characters, a NUL at the end, endless texts, no texts."""
    for one in ("a\0", "a\ud800", None, {}, 10**400):
        refuses(lambda one=one: wide(np.zeros(4), note=np.array(["a", one], object)), "info 'note', entry 1")
    wide(np.zeros(4)).save(path)
    before = path.read_bytes()
    refuses(lambda: wide(np.zeros(4), note=["x" * 20_000_000] * 2).save(path), "keep long texts elsewhere")
    assert path.read_bytes() == before
