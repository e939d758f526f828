"""Files that are whole or not there."""

from __future__ import annotations

import os
import pathlib
import stat

import pytest

import spare
from spare.io.atomic import replacing
from spare.lab.worlds import queue as toy


def _fail_while_writing(path: pathlib.Path, error: BaseException) -> None:
    with replacing(path) as temporary:
        temporary.write_text("half")
        raise error


def test_a_file_appears_whole_or_keeps_its_old_content(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "f.txt"
    path.write_text("old")
    for error in (RuntimeError("stop"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            _fail_while_writing(path, error)
    with pytest.raises(spare.FileError, match=r"f\.txt: cannot be written: no room"):
        _fail_while_writing(path, OSError(28, "no room"))
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["f.txt"])
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert (path.read_text(), os.listdir(tmp_path)) == ("new", ["f.txt"])
    usual = tmp_path / "usual.txt"
    usual.write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)


def test_places_that_cannot_hold_a_file(tmp_path: pathlib.Path) -> None:
    data = toy.generate(1, 0)
    with pytest.raises(spare.FileError, match="does not exist; create it first"):
        data.save(tmp_path / "nowhere" / "f.parquet")
    with pytest.raises(spare.FileError, match="this is a folder"):
        data.save(tmp_path)
    with pytest.raises(spare.FileError, match="cannot write in its folder"):
        data.save(tmp_path / ("x" * 300))
    assert not os.listdir(tmp_path)
