"""Modules that lie beside the data: none is run, but for the one that `--domain` names."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from spare.lab.worlds import queue as toy
from tests.faults.helpers import environment, one_sentence, python, run

TRAP = "import os\nos.close(os.open(os.path.join({folder!r}, 'ran-{name}'), os.O_CREAT | os.O_WRONLY))\n"
NAMES = ("joblib", "pickle", "random", "jax", "numpy", "typing", "signal", "rich", "shlex", "tempfile", "__future__")
"""Packages of ours and modules of Python's own, which commands and their workers import sooner or later."""

ENTRY = "import sys; from spare.commands.entry import main; sys.exit(main())"
WAYS = {
    "spare": ["-P", "-c", ENTRY],  # as the installed script: its own folder comes first, and not the current one
    "python -m spare": ["-m", "spare"],
    "python -c": ["-c", ENTRY],
}


def laid(folder: pathlib.Path, *names: str) -> None:
    """Put modules there that say so when they are run."""
    for name in names:
        (folder / f"{name}.py").write_text(TRAP.format(folder=str(folder), name=name))


def sprung(folder: pathlib.Path) -> list[str]:
    """Which of them were run."""
    return sorted(path.name for path in folder.glob("ran-*"))


def started(way: str, *arguments: object, folder: pathlib.Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command, started in one of the ways, to its end."""
    return subprocess.run(
        [sys.executable, *WAYS[way], *map(str, arguments)],
        cwd=folder,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_code_beside_the_data_of_a_command(tmp_path: pathlib.Path, way: str) -> None:
    """A file called as a module of ours, of JAX's or of Python's own: not run, however the command is started."""
    toy.generate(5, seed=0).save(tmp_path / "d.parquet")
    toy.true_model().save(tmp_path / "m.spare")
    laid(tmp_path, *NAMES)
    done = started(way, "evaluate", "m.spare", "d.parquet", "--draws", 10, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sprung(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_code_beside_the_data_of_workers(tmp_path: pathlib.Path, way: str) -> None:
    """Nor is it run by the worker processes of `spare generate`, or by those that clean up after them."""
    # What `python -m` itself imports, before a line of ours is run, is Python's; in workers it is ours to keep out.
    first = () if way == "python -m spare" else ("importlib", "types", "functools", "contextlib", "runpy")
    laid(tmp_path, *NAMES, "multiprocessing", "argparse", *first)
    words = ("generate", "push", "--samples", 50, "--jobs", 2, "--out", "p.parquet", "--json")
    done = started(way, *words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.parquet").is_file()
    assert sprung(tmp_path) == []


@pytest.mark.slow
def test_code_beside_the_results(tmp_path: pathlib.Path) -> None:
    """Nor by the workers of `spare reproduce`."""
    laid(tmp_path, *NAMES)
    line = [sys.executable, "-P", "-m", "tests.faults.reproducer", "--jobs", "2", "--out", "results"]
    settings = {"cwd": tmp_path, "env": environment(tmp_path / "cache"), "capture_output": True, "text": True}
    done = subprocess.run(line, timeout=500, check=False, **settings)
    assert done.returncode == 0, done.stderr
    assert sprung(tmp_path) == []


def test_code_beside_the_data_and_an_empty_place_in_the_path(tmp_path: pathlib.Path) -> None:
    """PYTHONPATH=:/some/folder, which `PYTHONPATH=$PYTHONPATH:...` gives, does not stand for the current folder."""
    code = "from spare.commands.entry import alone; alone(); import joblib, sys, subprocess\n"
    code += "subprocess.run([sys.executable, '-c', 'import joblib'], check=True)\n"
    code += "subprocess.run([sys.executable, '-m', 'joblib.logger'], check=True)"
    laid(tmp_path, "joblib")
    places = environment()["PYTHONPATH"]
    for path in (f":{places}", f"{places}:", f"{places}::{places}"):
        line = [sys.executable, "-c", code]
        done = subprocess.run(
            line, cwd=tmp_path, env={**environment(), "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert sprung(tmp_path) == []


def test_a_path_of_the_users_own(tmp_path: pathlib.Path) -> None:
    """A folder that PYTHONPATH names stays, even if it is the current one; so does one of installed packages."""
    code = "from spare.commands.entry import alone; alone(); import mine, sys; print(sys.path.count(sys.argv[1]))"
    (tmp_path / "mine.py").write_text("")
    for name in (str(tmp_path), "."):
        path = f"{environment()['PYTHONPATH']}:{name}"
        line = [sys.executable, "-P", "-c", code, str(tmp_path)]
        settings = {"cwd": tmp_path, "env": {**environment(), "PYTHONPATH": path}, "capture_output": True, "text": True}
        done = subprocess.run(line, check=False, **settings)
        assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    code = "import sys; sys.path.append(sys.argv[1]); from spare.commands.entry import alone; alone(); import mine"
    assert python(code, tmp_path, folder=tmp_path).returncode == 0


def test_domain_beside_the_data_comes_last(tmp_path: pathlib.Path) -> None:
    """With `--domain` the folder comes last: a file beside the module, called as a package of ours, is not run."""
    (tmp_path / "world.py").write_text("from spare.lab.worlds.queue import domain\n")
    laid(tmp_path, *NAMES, "matplotlib")  # some are imported where they are needed, after the domain
    toy.generate(5, seed=0).save(tmp_path / "d.parquet")
    toy.true_model().save(tmp_path / "m.spare")
    done = started("python -m spare", "show", "m.spare", "--domain", "world:domain", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sprung(tmp_path) == []


WORKER = """
from spare.commands.entry import alone
alone()
from spare.commands.common import named_domain
import joblib

def main():
    domain = named_domain("world:domain")
    import world
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(world.name)() for _ in range(2)) == [domain.name] * 2

main()
"""


@pytest.mark.slow
def test_domain_beside_the_data_in_workers(tmp_path: pathlib.Path) -> None:
    """Worker processes find the module that `--domain` names, last as well: nothing else beside it is run."""
    (tmp_path / "world.py").write_text(
        "from spare.lab.worlds.queue import domain\ndef name():\n    return domain.name\n"
    )
    laid(tmp_path, *NAMES)
    done = python(WORKER, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sprung(tmp_path) == []


BROKEN = {
    "import spare\nspare.nothing_like_this\n": "line 2: AttributeError: module 'spare' has no attribute",
    "\n\ndomain = undefined\n": "line 3: NameError: name 'undefined' is not defined",
    "import sys\nsys.exit(0)\n": "line 2: SystemExit: 0",
    "raise SystemExit\n": "line 1: SystemExit",
    "import os\nos._exit(0)\n": "line 2: SystemExit: 0",
    "import nothing_like_this\n": "line 1: ModuleNotFoundError: No module named 'nothing_like_this'",
    "def f(:\n": "line 1: SyntaxError: invalid syntax",
    "raise BaseException('\\x1b[2J two\\nlines')\n": "line 1: BaseException: \\x1b[2J two\\nlines",
    "import json\n\ndef f():\n    return json.loads('{')\n\ndomain = f()\n": "line 4: JSONDecodeError",
    "import spare\ndomain = spare.Property('a b')\n": "line 2: DefinitionError: property name 'a b'",
    "def f():\n    f()\n\nf()\n": "line 2: RecursionError",
}


@pytest.mark.parametrize("code", BROKEN)
def test_domain_with_an_error_of_its_own(tmp_path: pathlib.Path, code: str) -> None:
    """Whatever the module raises, also SystemExit(0), is told as an error in it, with file and line; exit code 2."""
    (tmp_path / "world.py").write_text(code)
    toy.generate(5, seed=0).save(tmp_path / "d.parquet")
    text = one_sentence(run("fit", "d.parquet", "--domain", "world:domain", folder=tmp_path))
    assert f"--domain 'world:domain': an error in {tmp_path / 'world.py'}, {BROKEN[code]}" in text
    assert os.path.exists(tmp_path / "model.spare") is False


LATE = """
import sys
import spare
from spare.lab.worlds.queue import domain as queue

made = []

def behind(o, p):
    if made:
        sys.exit(0)
    return queue.reference("behind").relation.key(o, p)

references = [spare.Reference.closest("behind", behind), *queue.references[1:]]
domain = spare.Domain("queue", properties=queue.properties, references=references, actions=queue.actions)
made.append(domain)
"""


def test_domain_whose_formula_ends_the_program(tmp_path: pathlib.Path) -> None:
    """A formula that calls `sys.exit(0)` in the middle of a command is an error of the formula's, not a success."""
    (tmp_path / "world.py").write_text(LATE)
    toy.generate(5, seed=0).save(tmp_path / "d.parquet")
    toy.true_model().save(tmp_path / "m.spare")
    text = one_sentence(run("predict", "m.spare", "d.parquet", "--domain", "world:domain", folder=tmp_path))
    assert "reference 'behind': its formula fails" in text
    assert "it ends the program (SystemExit: 0)" in text
