"""Running: each run is stored as they finish, a failed one does not stop the others, an interrupted run goes on."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import spare
from spare.commands.cli import main
from spare.lab.experiments.claims import Claim, Statement
from spare.lab.experiments.data import PushData, missing, stacks, unseen
from spare.lab.experiments.experiment import Experiment, Results, score_runs
from spare.lab.experiments.figures import Curve, Grid, Picture
from spare.lab.experiments.runner import reproduce
from spare.lab.experiments.runs import FULL, QUICK, Run, Size
from spare.lab.experiments.store import FORMAT, Store
from tests.lab.experiments.made_up import TINY

pytestmark = pytest.mark.slow


def runs(size: Size) -> list[Run]:
    """Three that simulate a little, which needs nothing compiled, and one that cannot be."""
    settings = {"extra": 0, "test": size.test, "replayed": size.replayed, "repeats": size.repeats}
    good = [Run("noise", settings, seed) for seed in range(3)]
    return [*good, *score_runs(size, "no-such-method", extra=0, seeds=1)]


def pictures(results: Results) -> list[Picture | Grid]:
    level = results.estimate(runs(results.size)[:3], lambda one: one["stack"])
    return [Picture("still", "Nothing moves", "extra blocks", "nats", (Curve("still", (0,), (level,)),))]


def claims(results: Results) -> list[Claim]:
    return [
        Statement("still.finite", "It has a density", "nats").above(
            results.over(runs(results.size)[:3], lambda one: one["stack"]), -100.0
        )
    ]


STILL = Experiment("still", "Nothing moves", "Nothing.", "Everything.", runs, pictures, claims)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, list[str], object]:
    """A run of three good runs and a bad one, on two workers."""
    folder, said = tmp_path_factory.mktemp("runs") / "results", []
    summary = reproduce([STILL], Store(folder, TINY), jobs=2, say=said.append)
    return folder, said, summary


def test_a_failed_cell_is_recorded_and_the_others_go_on(finished: tuple) -> None:
    folder, said, summary = finished
    assert len(list((folder / "runs").glob("*.json"))) == 4
    (reason,) = summary.failed.values()
    assert reason.startswith("unknown method 'no-such-method'; valid: spare, ")
    assert sum("failed:" in line for line in said) == 1
    (claim,) = summary.claims["still"]
    assert (claim.verdict, claim.estimate.runs) == ("holds", 3)


def test_what_is_written(finished: tuple) -> None:
    folder, _, _ = finished
    assert {path.name for path in (folder / "figures").iterdir()} == {"still.png", "still.svg", "still.csv"}
    found = json.loads((folder / "claims.json").read_text())
    assert found["run"] == {"format": FORMAT, "spare": spare.__version__, "size": "tiny"}
    assert found["claims"]["still"][0]["verdict"] == "holds"
    assert next(iter(found["failed"].values())).startswith("unknown method")
    page = (folder / "reproduction.md").read_text()
    for text in (
        "spare reproduce still",
        "| It has a density | paper |",
        "## Runs that failed",
        "**The paper.** Nothing.",
    ):
        assert text in page
    record = json.loads(next((folder / "runs").glob("*.json")).read_text())
    assert {"task", "settings", "seed", "seconds", "processor"} <= set(record)


def test_a_second_run_computes_only_what_is_missing(finished: tuple) -> None:
    folder, _, first = finished
    stamps = {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    good = runs(TINY)[1]
    (folder / "runs" / f"{good.key}.json").unlink()
    said: list[str] = []
    again = reproduce([STILL], Store(folder, TINY), jobs=1, say=said.append)
    assert said[0] == "4 runs, 2 of them finished before"
    assert not any(line.startswith("data") for line in said)
    assert again.claims == first.claims
    later = {path.name for path in (folder / "runs").iterdir() if path.stat().st_mtime_ns != stamps[path.name]}
    assert later == {f"{good.key}.json", f"{runs(TINY)[3].key}.json"}


def test_a_folder_of_another_run_is_refused(finished: tuple, tmp_path: pathlib.Path) -> None:
    folder, _, _ = finished
    with pytest.raises(spare.FileError, match="these results are of size 'tiny', this run is of 'full'"):
        Store(folder, FULL)
    other = tmp_path / "other"
    Store(other, QUICK)
    (other / "run.json").write_text(f'{{"format": {FORMAT}, "spare": "0.0.1", "size": "quick"}}')
    with pytest.raises(spare.FileError, match=r"version '0.0.1'.*--out"):
        Store(other, QUICK)
    (other / "run.json").write_text('{"format": 2, "spare": "0.1.0", "size": "quick"}')
    with pytest.raises(spare.FileError, match=r"format 2.*--out"):
        Store(other, QUICK)
    (other / "run.json").write_text('{"format": 1')
    with pytest.raises(spare.FileError, match="half written"):
        Store(other, QUICK)


def test_a_folder_with_other_things_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(spare.FileError, match="not results"):
        Store(tmp_path, QUICK)
    with pytest.raises(spare.FileError, match="this is a file"):
        Store(tmp_path / "thesis.tex", QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_damaged_record_is_refused_and_named(tmp_path: pathlib.Path) -> None:
    store, run = Store(tmp_path / "results", QUICK), Run("score", {}, 0)
    assert store.get(run) is None
    whole = run.record(values={})
    store.put(run, whole)
    assert store.get(run) == whole
    others = [{**whole, "task": "noise"}, {**whole, "settings": {"samples": 3}}, {**whole, "seed": 1}, run.record()]
    for text in ("", "[]", *map(json.dumps, others)):
        (store.runs / f"{run.key}.json").write_text(text)
        with pytest.raises(spare.FileError, match=rf"{run.key}.json: .*delete the file"):
            store.get(run)


def test_data_are_the_same_wherever_they_are_made(tmp_path: pathlib.Path) -> None:
    """A shorter set is the beginning of a longer one; a damaged or missing file is made again."""
    long, short = stacks(1, 3, 6), stacks(1, 3, 4)
    assert missing([short, long, unseen(short, 2)], tmp_path) == [unseen(short, 2), long]
    long.make(1, tmp_path / f"{long.family}.parquet")
    assert missing([short, long], tmp_path) == []
    assert np.array_equal(short.load(tmp_path).next_values, short.make().next_values)
    path = tmp_path / f"{long.family}.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert missing([short], tmp_path) == [short]
    assert unseen(long, 2).seed != long.seed
    assert dataclasses.replace(long, extra=2).family != long.family
    assert PushData((2, 3), (0.5, 0.5), 0, 0, 5).family == "push-2x0.5-3x0.5-extra0-seed0"


def test_the_command_line_refuses_in_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").write_text("")
    for arguments, text in (
        (["fig9"], "unknown experiment 'fig9'; valid: fig4a"),
        ([], "name at least one experiment"),
        (["fig4a", "--jobs", "0"], "jobs"),
        (["fig4a", "--out", str(tmp_path / "full")], "not results"),
        (["fig4a", "--out", str(tmp_path / "r"), "--page", str(tmp_path / "no" / "page.md")], "does not exist"),
    ):
        assert main(["reproduce", *arguments]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert text in printed.err
        assert printed.err.count("\n") == 1
    assert not (tmp_path / "r").exists()


def test_a_real_process_reproduces_from_what_is_stored(tmp_path: pathlib.Path) -> None:
    """A results folder whose runs are all there: figures, claims and page without computing; exit code 0."""
    from spare.lab.experiments.catalogue import EXPERIMENTS
    from tests.lab.experiments import made_up

    store = Store(tmp_path / "results", QUICK)
    for run in EXPERIMENTS["table1"].runs(QUICK):
        store.put(run, run.record(seconds=1.0, values=made_up.value(run)))
    done = subprocess.run(
        [sys.executable, "-m", "spare", "reproduce", "table1", "--quick", "--page", "page.md", "--json"],
        cwd=tmp_path,
        env={**os.environ, "SPARE_CACHE": "off"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "results" / "claims.json").read_text())
    assert (tmp_path / "page.md").read_text() == (tmp_path / "results" / "reproduction.md").read_text()
    assert (tmp_path / "results" / "figures" / "table1.png").is_file()


def test_a_failed_cell_is_told_and_the_exit_code_is_1(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line: the other runs' numbers are there, the page and the report say which failed and why."""
    from spare.lab.experiments import runner
    from spare.lab.experiments.catalogue import EXPERIMENTS
    from tests.lab.experiments import made_up

    folder = tmp_path / "results"
    store = Store(folder, QUICK)
    first, *others = EXPERIMENTS["table1"].runs(QUICK)
    for run in others:
        store.put(run, run.record(seconds=1.0, values=made_up.value(run)))
    failed = {"task": first.task, "settings": {}, "seed": 0, "seconds": 0.1, "error": "FitError: no luck today"}
    monkeypatch.setattr(runner, "make_data", lambda *_: None)
    monkeypatch.setattr(runner, "compute", lambda *_: failed)
    assert main(["reproduce", "table1", "--quick", "--out", str(folder), "--jobs", "1"]) == 1
    printed = capsys.readouterr()
    assert f"failed: {first}: FitError: no luck today" in printed.err
    assert f"- {first}: FitError: no luck today" in (folder / "reproduction.md").read_text()
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert "FitError: no luck today" in page
    assert str(first) in page
