"""The commands as a user runs them, good input and bad."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
import tyro

import spare
from spare.commands import cli
from spare.commands.bench import Bench
from spare.lab.bench import generate as bench
from spare.lab.worlds.push.settings import ENGINES, Settings

pytestmark = pytest.mark.slow


def _generate(*words: str | pathlib.Path) -> int:
    return cli.main(["generate", "push", *map(str, words)])


def test_generate_writes_a_file_and_says_what_is_in_it(tmp_path, capsys):
    path = tmp_path / "push.parquet"
    assert _generate("--samples", "6", "--stack", "2,3", "--share", "1,2", "--extra", "2", "--out", path) == 0
    shown = capsys.readouterr().out
    assert "6 transitions" in shown
    assert "rejected 0.00% of attempts (none)" in shown
    assert "of the pushes touch" in shown
    data = spare.Experience.load(path)
    assert data.info["height"].tolist() == [Settings.make((2, 3), (1.0, 2.0)).height_of(i) for i in range(6)]
    assert set(data.info["height"].tolist()) == {2, 3}


def test_generate_as_json_in_the_other_engine(tmp_path):
    path = tmp_path / "push.parquet"
    words = ["generate", "push", "--samples", "4", "--engine", "mujoco", "--json", "--out", str(path)]
    done = subprocess.run([sys.executable, "-m", "spare", *words], capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    assert facts["samples"] == 4
    assert facts["reject_share"] == 0
    assert done.stderr == ""
    assert spare.Experience.load(path).metadata["push"]["settings"]["engine"] == "mujoco"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--samples", "-5"], "samples must be a whole number of at least 1, got -5"),
        (["--engine", "havok"], "unknown engine 'havok'"),
        (["--stack", "0"], "a stack's height must be"),
        (["--stack", "two"], "--stack 'two': give one number"),
        (["--share", "0.5,0.5"], "one number per stack height"),
        (["--extra", "5000"], "5000 extra blocks cannot be placed"),
        (["--noise", "-0.1"], "noise must be between 0 and 0.05 m"),
        (["--jobs", "0"], "jobs must be"),
        (["--max-rejects", "2"], "max_rejects must be"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words, message, tmp_path, capsys):
    path = tmp_path / "x.parquet"
    assert _generate("--samples", "3", *words, "--out", path) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown
    assert not list(tmp_path.iterdir())


def test_an_unknown_world_and_a_missing_folder(tmp_path, capsys):
    assert cli.main(["generate", "pull", "--out", str(tmp_path / "x.parquet")]) == 2
    assert "unknown world 'pull'; valid: push" in capsys.readouterr().err
    assert _generate("--samples", "3", "--out", tmp_path / "no" / "x.parquet") == 2
    assert "does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ENGINES)
def test_the_generator_is_nearly_as_fast_as_its_engine(name):
    """Measured without run-time type checks, which only tests switch on."""
    code = f"from spare.lab.bench.generate import overhead; print(overhead({name!r}, 20, 3).overhead)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.9 < float(done.stdout) < 1.3


def test_memory_stays_flat(capsys):
    code = "from spare.lab.bench.generate import memory; print(*memory(200, 'mujoco'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seen = [float(word) for word in done.stdout.split()]
    assert len(seen) == 20
    assert seen[-1] - seen[4] < 5.0
    one = {"made": 2.0, "bare": 1.0, "overhead": 2.0, "rate": 500.0, "memory_mb": seen, "two_workers": [1.8, 1.9, 2.0]}
    bench.show({**dict.fromkeys(ENGINES, one), "goals": {"overhead at most": 1.3}})
    shown = capsys.readouterr().out
    assert "1.90" in shown
    assert "goals: overhead at most 1.3" in shown
    assert tyro.cli(Bench, args=["generate", "--quick"]).quick
