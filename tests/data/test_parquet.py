"""Experience files: bit for bit, in row groups, and hard to fool."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spare
from spare.data import files
from spare.io import parquet
from spare.lab.worlds import queue as toy

ARRAYS = ("values", "next_values", "offsets", "ids", "action", "objects", "parameters", "weights")


def assert_same_bits(one: spare.Experience, other: spare.Experience) -> None:
    for name in ARRAYS:
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype, name
        assert a.tobytes() == b.tobytes(), name
    assert list(one.info) == list(other.info)
    for name, column in one.info.items():
        assert column.dtype == other.info[name].dtype
        assert column.tobytes() == other.info[name].tobytes()
    assert one.metadata == other.metadata


def test_text_ids_info_weights_and_metadata_come_back_bit_for_bit(
    data: spare.Experience, tray: spare.Domain, tmp_path: pathlib.Path
) -> None:
    data.save(tmp_path / "a.parquet")
    assert_same_bits(spare.Experience.load(tmp_path / "a.parquet", tray), data)
    spare.Experience.load(tmp_path / "a.parquet", tray).save(tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_odd_floats_come_back_bit_for_bit(tray: spare.Domain, columns: dict, tmp_path: pathlib.Path) -> None:
    odd = np.array([-0.0, 1e-45, 3.4028235e38, -1.1754944e-38, 0.1, np.pi], np.float32)
    columns["values"][:, 0] = columns["next_values"][:, 1] = odd
    data = spare.Experience.from_arrays(tray, **columns, weights=[0.1, 1e-300, 5e-324])
    data.save(tmp_path / "odd.parquet")
    assert_same_bits(spare.Experience.load(tmp_path / "odd.parquet", tray), data)


def test_a_domain_of_ours_needs_no_domain_argument(tmp_path: pathlib.Path) -> None:
    data = toy.generate(5, 1)
    data.save(tmp_path / "queue.parquet")
    assert_same_bits(spare.Experience.load(tmp_path / "queue.parquet"), data)


def test_large_files_stream_in_row_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(files, "ROW_GROUP", 16)
    data = toy.generate(50, 2)
    data.save(tmp_path / "q.parquet")
    parts = list(spare.Experience.stream(tmp_path / "q.parquet"))
    assert [len(part) for part in parts] == [16, 16, 16, 2]
    assert_same_bits(spare.concatenate(parts), data)
    assert_same_bits(spare.Experience.load(tmp_path / "q.parquet"), data)


def test_truncated_anywhere(data: spare.Experience, tray: spare.Domain, tmp_path: pathlib.Path) -> None:
    data.save(tmp_path / "whole.parquet")
    raw = (tmp_path / "whole.parquet").read_bytes()
    cut = tmp_path / "cut.parquet"
    for length in [*range(0, 16), *range(16, len(raw) - 16, 97), *range(len(raw) - 16, len(raw))]:
        cut.write_bytes(raw[:length])
        with pytest.raises(spare.FileError, match=r"cut\.parquet: .*(truncated|damaged)"):
            spare.Experience.load(cut, tray)


@pytest.mark.slow
def test_a_flipped_bit_is_noticed_or_harmless(tmp_path: pathlib.Path) -> None:
    data = toy.generate(20, 3)
    data.save(tmp_path / "whole.parquet")
    raw = (tmp_path / "whole.parquet").read_bytes()
    rng, noticed = np.random.default_rng(0), 0
    for position in rng.integers(len(raw), size=120):
        damaged = bytearray(raw)
        damaged[position] ^= 1 << int(rng.integers(8))
        (tmp_path / "flip.parquet").write_bytes(damaged)
        try:
            assert_same_bits(spare.Experience.load(tmp_path / "flip.parquet"), data)
        except spare.FileError:
            noticed += 1
    assert noticed > 80


@pytest.mark.parametrize("content", [b"", b"hello", b"PAR1", b"PAR1" * 8, bytes(1000), b"a,b\n1,2\n"])
def test_not_parquet_at_all(content: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "junk.parquet"
    path.write_bytes(content)
    with pytest.raises(spare.FileError, match=r"junk\.parquet"):
        spare.Experience.load(path, toy.domain)


def test_missing_file_folder_and_foreign_table(tmp_path: pathlib.Path) -> None:
    with pytest.raises(spare.FileError, match="no such file"):
        spare.Experience.load(tmp_path / "none.parquet")
    with pytest.raises(spare.FileError, match="folder"):
        spare.Experience.load(tmp_path)
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "foreign.parquet")
    with pytest.raises(spare.FileError, match="from_table"):
        spare.Experience.load(tmp_path / "foreign.parquet")


def test_another_domain(data: spare.Experience, tray: spare.Domain, tmp_path: pathlib.Path) -> None:
    data.save(tmp_path / "tray.parquet")
    with pytest.raises(spare.FileError, match="'tray' with properties x, y, width, not to 'queue' with x, y, mass"):
        spare.Experience.load(tmp_path / "tray.parquet", toy.domain)
    with pytest.raises(spare.FileError, match="'tray' with properties x, y, width, not to 'tray' with "):
        spare.Experience.load(tmp_path / "tray.parquet")  # SPARE ships a world of that name
    mine = spare.Domain("mine", properties=tray.properties, references=[], actions=tray.actions)
    dataclasses.replace(data, domain=mine).save(tmp_path / "mine.parquet")
    with pytest.raises(spare.FileError, match=r"'mine' is not one of SPARE's own; pass domain="):
        spare.Experience.load(tmp_path / "mine.parquet")


def _rewritten(path: pathlib.Path, change: dict[str, pa.Array] | None = None, drop: str | None = None) -> None:
    table = pq.read_table(path)
    for name, column in (change or {}).items():
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table.drop_columns([drop]) if drop else table, path)


def test_other_columns(data: spare.Experience, tray: spare.Domain, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.parquet"
    for name in ("ids", "state", "next_state", "action", "objects", "parameters", "weight"):
        data.save(path)
        _rewritten(path, drop=name)
        with pytest.raises(spare.FileError, match=f"column '{name}' is missing; it has "):
            spare.Experience.load(path, tray)
        data.save(path)
        _rewritten(path, {name: pa.array([1, 2, 3], pa.int8())})
        with pytest.raises(spare.FileError, match=f"column '{name}' is int8, expected "):
            spare.Experience.load(path, tray)


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("action", pa.array(["slide", "jump", "slide"]), "transition 1: unknown action 'jump'; valid: slide, swap"),
        ("action", pa.array(["slide", None, "slide"]), "unknown action None"),
        ("weight", pa.array([1.0, -2.0, 1.0]), "transition 1: weight -2.0"),
        ("weight", pa.array([1.0, None, 1.0]), "weight nan"),
        ("objects", pa.array([[0], [2, 9], [0]], pa.list_(pa.int32())), "transition 1.*second is object 9"),
        (
            "objects",
            pa.array([[0], [2], [0]], pa.list_(pa.int32())),
            "transition 1: 1 objects given, its action takes 2",
        ),
        ("parameters", pa.array([[0.0], [], [1.0, 2.0]], pa.list_(pa.float32())), "transition 0: 1 parameters given"),
        ("ids", pa.array([["a", "a"], ["a", "b", "c"], ["a"]]), "transition 0: object id 'a' appears twice"),
        ("ids", pa.array([["a"], ["a", "b", "c"], ["a"]]), "different numbers of objects"),
    ],
)
def test_wrong_cells(
    data: spare.Experience, tray: spare.Domain, tmp_path: pathlib.Path, name: str, column: pa.Array, message: str
) -> None:
    path = tmp_path / "cells.parquet"
    data.save(path)
    _rewritten(path, {name: column})
    with pytest.raises(spare.SpareError, match=message) as caught:
        spare.Experience.load(path, tray)
    assert "cells.parquet" in str(caught.value)


@pytest.mark.parametrize(
    "header",
    [b"{", b"[]", b"{}", b'{"format": 99}', b'{"format": 1, "metadata": {}, "domain": {"properties": ["x"]}}', b"\xff"],
)
def test_damaged_headers(data: spare.Experience, tray: spare.Domain, tmp_path: pathlib.Path, header: bytes) -> None:
    path = tmp_path / "h.parquet"
    data.save(path)
    pq.write_table(pq.read_table(path).replace_schema_metadata({b"spare": header}), path)
    with pytest.raises(spare.FileError, match=r"damaged|newer"):
        spare.Experience.load(path, tray)


def test_no_transitions(data: spare.Experience, tray: spare.Domain, tmp_path: pathlib.Path) -> None:
    with pytest.raises(spare.FileError, match="no transitions"):
        data[:0].save(tmp_path / "empty.parquet")
    assert not list(tmp_path.iterdir())
    data.save(tmp_path / "e.parquet")
    pq.write_table(pq.read_table(tmp_path / "e.parquet")[:0], tmp_path / "e.parquet")
    with pytest.raises(spare.FileError, match="holds no transitions"):
        spare.Experience.load(tmp_path / "e.parquet", tray)


def test_the_header_tells_the_domain(data: spare.Experience, tmp_path: pathlib.Path) -> None:
    data.save(tmp_path / "h.parquet")
    header = json.loads(pq.read_schema(tmp_path / "h.parquet").metadata[b"spare"])
    assert header["format"] == parquet.FORMAT
    assert header["fingerprint"] == data.domain.fingerprint
    assert [p["name"] for p in header["domain"]["properties"]] == ["x", "y", "width"]


def test_not_finite_rows_can_be_streamed_past(
    tray: spare.Domain, data: spare.Experience, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "nan.parquet"
    data.save(path)
    cells = pq.read_table(path).column("state").to_pylist()
    cells[1][2][0] = float("nan")
    kind = pa.list_(pa.list_(pa.float32(), 3))
    _rewritten(path, {"state": pa.array(cells, kind)})
    with pytest.raises(spare.DataError, match="transition 1, object 'long name', property 'x': nan in the state"):
        spare.Experience.load(path, tray)
    (part,) = spare.Experience.stream(path, tray, drop_invalid=True)
    assert (len(part), part.dropped) == (2, 1)
