"""Folders that work is kept in, when they are not what they seem; and code that lies beside the data."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

import spare
from spare.io.atomic import replacing
from spare.lab.experiments.data import missing, stacks
from spare.lab.experiments.runs import QUICK
from spare.lab.experiments.store import Store, read_json
from spare.lab.worlds import queue as toy
from spare.lab.worlds.push import store as parts
from spare.learning.cache import open_run
from tests.faults.helpers import environment, one_sentence, refuses, run


def fitted(folder: pathlib.Path) -> None:
    """What `spare fit --out m` does with its folder, from beginning to end."""
    open_run(folder / "m.run", {}).close(finished=True)


def generated(folder: pathlib.Path) -> None:
    """What `spare generate --out m` does with its folder."""
    with parts.holding(folder / "m") as held:
        held.check({"seed": 1})


both = pytest.mark.parametrize(("work", "name"), [(fitted, "m.run"), (generated, "m.parts")], ids=["fit", "generate"])
Work = Callable[[pathlib.Path], None]


@both
def test_folder_that_is_the_users_own(tmp_path: pathlib.Path, work: Work, name: str) -> None:
    """A folder of the user's that happens to be called as ours would be: refused, and nothing in it is removed."""
    for kept in ("thesis.tex", "other.safetensors", "mine.parquet", "run.json"):
        folder = tmp_path / kept
        (folder / name).mkdir(parents=True)
        (folder / name / kept).write_text("precious")
        text = refuses(lambda folder=folder: work(folder), "which no run has written")
        assert kept in text
        assert (folder / name / kept).read_text() == "precious"


def test_folder_that_somebody_puts_a_file_in(tmp_path: pathlib.Path) -> None:
    """A file that appears while the work goes on is left, and so is the folder, when the rest is removed."""
    held = open_run(tmp_path / "m.run", {})
    (tmp_path / "m.run" / "thesis.tex").write_text("precious")
    held.close(finished=True)
    assert os.listdir(tmp_path / "m.run") == ["thesis.tex"]


@both
def test_lock_that_is_somebodys_file(tmp_path: pathlib.Path, work: Work, name: str) -> None:
    """A lock that is a link, a second name of another file, or a pipe: refused, not emptied and not waited for."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    makers: dict[str, Callable[[pathlib.Path], None]] = {
        "link": lambda lock: lock.symlink_to(victim),
        "nowhere": lambda lock: lock.symlink_to(tmp_path / "new"),
        "second": lambda lock: lock.hardlink_to(victim),
        "pipe": os.mkfifo,
        "folder": pathlib.Path.mkdir,
    }
    for kind, make in makers.items():
        (tmp_path / kind / name).mkdir(parents=True)
        make(tmp_path / kind / name / "lock")
        refuses(lambda kind=kind: work(tmp_path / kind), "cannot be used as a run folder")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["deep", "pipe", "endless"])
def test_record_that_cannot_be_read(tmp_path: pathlib.Path, kind: str) -> None:
    """Settings of unfinished samples that are nested without end, a pipe or a device count as missing."""
    with parts.holding(tmp_path / "m") as held:
        held.check({"seed": 1})
        part = tmp_path / "m.parts" / "00000000-00000005.parquet"
        part.write_text("x")
    record = tmp_path / "m.parts" / "settings.json"
    record.unlink()
    makers: dict[str, Callable[[], object]] = {
        "deep": lambda: record.write_text("[" * 10**5),
        "pipe": lambda: os.mkfifo(record),
        "endless": lambda: record.symlink_to("/dev/zero"),
    }
    makers[kind]()
    with parts.holding(tmp_path / "m") as held:
        held.check({"seed": 2})
        assert json.loads(record.read_text()) == {"seed": 2}
        assert not part.exists()


def test_temporary_file_that_is_swapped(tmp_path: pathlib.Path) -> None:
    """Somebody puts a link in the place of a temporary file: nothing takes the final name, and we say so."""
    (tmp_path / "m.spare").write_text("old")
    (tmp_path / "other").write_text("other")

    def save() -> None:
        with replacing(tmp_path / "m.spare") as target:
            target.write_text("new")
            target.unlink()
            target.symlink_to(tmp_path / "other")

    refuses(save, "another process has replaced")
    assert (tmp_path / "m.spare").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["m.spare", "other"]


def test_results_killed_before_they_begin(tmp_path: pathlib.Path) -> None:
    """A results folder whose run was killed before it wrote what it belongs to is begun again."""
    folder = tmp_path / "results"
    for part in ("runs", "data", "figures"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / ".run.json.0123456789ab.tmp").write_text("torn")
        Store(folder, QUICK)
        assert sorted(os.listdir(folder)) == ["data", "figures", "run.json", "runs"]
        (folder / "run.json").unlink()
    (folder / "data" / "mine.parquet").write_text("precious")
    refuses(lambda: Store(folder, QUICK), "not results")


@pytest.mark.slow
def test_two_runs_into_one_results_folder(tmp_path: pathlib.Path) -> None:
    """The second `spare reproduce` stops at once and names the process that is at work."""
    store = Store(tmp_path / "results", QUICK)
    with store.held():
        text = one_sentence(run("reproduce", "table1", "--quick", "--json", folder=tmp_path))
    assert f"another run (process {os.getpid()}) is writing here" in text
    with store.held():
        pass


def test_results_that_are_nested_without_end(tmp_path: pathlib.Path) -> None:
    """Records of results that are too deep, too large, half characters or a pipe: refused, naming the file."""
    path = tmp_path / "run.json"
    for text in ('{"a":' * 10**5, '{"a": "\\ud800"}', '{"a": ' + "[" * 40 + "]" * 40 + "}"):
        path.write_text(text)
        assert "run.json: damaged" in refuses(lambda: read_json(path))
    path.unlink()
    os.mkfifo(path)
    refuses(lambda: read_json(path), "run.json: damaged")
    path.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 30)
    refuses(lambda: read_json(path), "more than such a file can have")


def test_data_of_results_with_a_damaged_footer(tmp_path: pathlib.Path) -> None:
    """Data in a results folder are looked at by our own reader first, never by Arrow alone; made again if damaged."""
    one = stacks(0, 0, 5)
    path = tmp_path / f"{one.family}.parquet"
    toy.generate(5, seed=0).save(path)
    assert missing([one], tmp_path) == []
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    for place in range(len(whole) - 8 - size, len(whole) - 8, 41):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        missing([one], tmp_path)
    path.write_bytes(whole[:-20])
    assert missing([one], tmp_path) == [one]


def test_code_beside_the_data(tmp_path: pathlib.Path) -> None:
    """`--domain` runs the module that it names; a file beside it that is called as a package of ours is not run."""
    (tmp_path / "world.py").write_text("from spare.lab.worlds.queue import domain\n")
    for name in ("rich", "matplotlib", "joblib"):  # each is imported where it is needed, after the domain
        (tmp_path / f"{name}.py").write_text("open('owned', 'w').close()\n")
    code = (
        "from spare.commands.common import named_domain; named_domain('world:domain')\nimport rich, matplotlib, joblib"
    )
    settings = {"cwd": tmp_path, "env": environment(), "capture_output": True, "text": True, "timeout": 120}
    result = subprocess.run([sys.executable, "-P", "-c", code], check=False, **settings)
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "owned").exists()


def test_domains_that_cannot_be_imported(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths, dots, code that does not parse or lacks a name: one sentence each, and nothing outside is imported."""
    from spare.commands.common import named_domain

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "does_not_parse.py").write_text("def(\n")
    (tmp_path / "lacks_a_name.py").write_text("from spare import nothing_like_this\n")
    for text in ("..:x", ".a:x", "../a:x", "/etc/passwd:x", "a b:c", ":x", "a:", "a", "does_not_parse:domain"):
        refuses(lambda text=text: named_domain(text), "--domain")
    refuses(lambda: named_domain("lacks_a_name:domain"), "nothing_like_this")
    refuses(lambda: named_domain("os:path"), "not a spare.Domain")
    assert isinstance(named_domain("queue"), spare.Domain)
