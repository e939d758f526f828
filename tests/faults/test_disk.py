"""Disks that are full, folders that cannot be written or vanish, writers that get in each other's way."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator

import pytest

import spare
from spare.io.atomic import replacing
from spare.lab.worlds import queue as toy
from spare.learning.cache import Kept, open_run
from tests.faults.helpers import command, environment, one_sentence, python, refuses, run
from tests.fuzz import samples

SAVE = """
import resource, sys, spare
from spare.lab.worlds import queue as toy
import spare.data.files
import spare.model.model
model, data = toy.true_model(), toy.generate(40, seed=0)
for limit in map(int, sys.argv[2:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for what, name in ((model, "model.spare"), (data, "data.parquet")):
        try:
            what.save(f"{sys.argv[1]}/{name}")
            print("written", limit, name)
        except spare.FileError as error:
            print(error)
"""


@pytest.mark.slow
def test_disk_full_at_any_byte_of_a_save(tmp_path: pathlib.Path) -> None:
    """A message, the previous file intact, and no temporary file left, wherever the disk runs out."""
    toy.generate(3, seed=9).save(tmp_path / "data.parquet")
    samples.model().save(tmp_path / "model.spare")
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    limits = [0, 1, 7, 8, 100, 1000, 2000]
    result = python(SAVE, tmp_path, *limits, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 2 * len(limits)
    assert all("cannot be written: " in line and "File too large" in line for line in lines), result.stdout
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


@pytest.mark.slow
def test_disk_full_during_fit(tmp_path: pathlib.Path) -> None:
    """`spare fit` says so with exit code 2; no model and no temporary file is left."""
    toy.generate(30, seed=0).save(tmp_path / "data.parquet")
    options = ("fit", "data.parquet", "--out", "m.spare", "--max-references", 0, "--threads", 1, "--json")
    text = one_sentence(run(*options, folder=tmp_path, largest=3000))
    assert "cannot be written: File too large" in text
    assert not (tmp_path / "m.spare").exists()
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.slow
def test_disk_full_for_what_is_printed(tmp_path: pathlib.Path) -> None:
    """A full disk behind standard output is an error with a sentence, not a traceback."""
    toy.true_model().save(tmp_path / "m.spare")
    with open("/dev/full", "w") as full:
        result = run("inspect", "m.spare", folder=tmp_path, stdout=full)
    assert "cannot be written" in one_sentence(result)


@pytest.mark.slow
def test_reader_of_the_output_goes_away(tmp_path: pathlib.Path) -> None:
    """`spare inspect | head` ends quietly."""
    toy.true_model().save(tmp_path / "m.spare")
    line = " ".join(command("inspect", "m.spare")) + " | true"
    result = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert result.stderr == ""


@contextlib.contextmanager
def readonly(folder: pathlib.Path) -> Iterator[None]:
    """A folder that nobody can write to: for root, who may always, an immutable one or a read-only mount."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield
        folder.chmod(0o755)
        return
    for begin, end in (
        (["chattr", "+i", str(folder)], ["chattr", "-i", str(folder)]),
        (["mount", "-t", "tmpfs", "-o", "ro", "none", str(folder)], ["umount", str(folder)]),
    ):
        if shutil.which(begin[0]) and subprocess.run(begin, capture_output=True, check=False).returncode == 0:
            try:
                yield
            finally:
                subprocess.run(end, check=True)
            return
    pytest.skip("root, on a system where no folder can be made read-only")


def test_readonly_folder(tmp_path: pathlib.Path) -> None:
    """A sentence that names the file; nothing is left behind."""
    folder = tmp_path / "fixed"
    folder.mkdir()
    with readonly(folder):
        refuses(lambda: toy.true_model().save(folder / "m.spare"), "cannot write in its folder")
        refuses(lambda: toy.generate(2, seed=0).save(folder / "d.parquet"), "cannot write in its folder")
        refuses(lambda: open_run(folder / "m.spare.run", {}), "cannot be used as a run folder")
    assert os.listdir(folder) == []


@pytest.mark.slow
def test_folder_that_is_not_there(tmp_path: pathlib.Path) -> None:
    """Refused before hours of work, not after."""
    toy.generate(6, seed=0).save(tmp_path / "d.parquet")
    text = one_sentence(run("fit", "d.parquet", "--out", "nowhere/m.spare", folder=tmp_path))
    assert "nowhere does not exist; create it first" in text


def _vanish(folder: pathlib.Path) -> None:
    with replacing(folder / "m.spare") as target:
        target.write_text("half")
        shutil.rmtree(folder)


def test_folder_that_vanishes_while_writing(tmp_path: pathlib.Path) -> None:
    """A sentence, whether it goes before, during or after the content is written."""
    folder = tmp_path / "gone"
    folder.mkdir()
    refuses(lambda: _vanish(folder), "cannot be written: No such file or directory")
    refuses(lambda: toy.true_model().save(folder / "m.spare"), "does not exist; create it first")


def test_run_folder_that_vanishes(tmp_path: pathlib.Path) -> None:
    """The next checkpoint says so."""
    cache = open_run(tmp_path / "m.run", {})
    shutil.rmtree(tmp_path / "m.run")
    refuses(lambda: cache.put("key", Kept({}, {})), r"m\.run does not exist")
    cache.close(finished=True)


def test_temporary_file_of_a_dead_writer_is_removed(tmp_path: pathlib.Path) -> None:
    """The next save of the same name removes it; that of a living writer, and other files, stay."""
    dead = tmp_path / ".m.spare.0123456789ab.tmp"
    dead.write_text("torn")
    other = tmp_path / ".n.spare.0123456789ab.tmp"
    other.write_text("another name's")
    with replacing(tmp_path / "m.spare") as living:
        assert not dead.exists()
        toy.true_model().save(tmp_path / "m.spare")
        assert living.exists()
        living.write_text("mine")
    assert (tmp_path / "m.spare").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == [other.name, "m.spare"]


def test_permissions_are_kept(tmp_path: pathlib.Path) -> None:
    """A private file stays private when it is written again; a new one follows the umask."""
    path = tmp_path / "m.spare"
    toy.true_model().save(path)
    usual = tmp_path / "usual"
    usual.write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)
    path.chmod(0o600)
    toy.true_model().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_savers_of_one_name(tmp_path: pathlib.Path) -> None:
    """The file is always one or the other, whole."""
    contents = [bytes([65 + k]) * 200_000 for k in range(2)]
    code = (
        "import sys; from spare.io.atomic import replacing\n"
        "for _ in range(60):\n"
        " with replacing(sys.argv[1]) as target: target.write_bytes(sys.argv[2].encode() * 200_000)"
    )
    path = tmp_path / "f"
    line = [sys.executable, "-c", code, str(path)]
    writers = [subprocess.Popen([*line, letter], env=environment()) for letter in "AB"]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            assert path.read_bytes() in contents
            seen += 1
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen > 3
    assert os.listdir(tmp_path) == ["f"]


def test_devices_and_pipes_are_not_replaced(tmp_path):
    """A device, a pipe or a socket under the name that is to be written stays what it is; the save is refused."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(spare.FileError, match="not a file"), replacing(pipe):
        pass
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode)
