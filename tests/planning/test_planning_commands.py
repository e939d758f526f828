"""`spare plan`, `spare control`, the page about a record, and `spare bench plan`."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from spare.commands.cli import main
from spare.errors import UsageError
from spare.lab.bench.plan import asked_for, page
from spare.lab.experiments.planning import score
from spare.model.model import Model
from tests.model.test_heads import domain, make_data

HERE = "tests.planning.mine"
DOMAIN = ["--domain", "tests.model.test_heads:domain"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("planning")
    Model(domain, [], np.full(2, 0.01)).save(folder / "model.spare")
    make_data(1, 1, (5, 5)).save(folder / "data.parquet")
    return str(folder / "model.spare"), str(folder / "data.parquet")


def test_plan(files: tuple[str, str], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", *files, "--problem", f"{HERE}:problem", "--planner", "sampling", *DOMAIN]
    assert main([*asked, "--plot", str(tmp_path / "plan.png")]) == 0
    told = capsys.readouterr().out
    assert told.startswith("1. poke(")
    assert "expected cost" in told
    assert (tmp_path / "plan.png").stat().st_size > 5000
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["calls"]) == 2
    assert np.shape(found["expected"]) == (3, 5, 3)
    assert found["success"] is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (f"{HERE}:broken", "RuntimeError: no luck"),
        (f"{HERE}:nothing", "it gave a NoneType, not a spare.planning.Problem"),
        (f"{HERE}:absent", "has no 'absent'"),
        ("problem", "write it as package.module:problem"),
        (f"{HERE}:HERE", "has no 'HERE'"),
    ],
)
def test_problems_that_cannot_be_made(
    files: tuple[str, str], name: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *files, "--problem", name, *DOMAIN]) == 2
    assert sentence in capsys.readouterr().err


def test_control_and_its_page(
    files: tuple[str, str], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, asked = tmp_path / "run", ["control", files[0], *DOMAIN, "--planner", "sampling"]
    own = ["--env", f"{HERE}:Env", "--problem", f"{HERE}:problem"]
    assert main([*asked, *own, "--out", str(out), "--steps", "2"]) == 0
    assert "2 steps: the number of steps was used up; the cost is now" in capsys.readouterr().out
    assert main(["report", str(out)]) == 0
    text = (out / "report.html").read_text()
    assert "What was expected, and what happened" in text
    assert "poke(" in text
    wrong = [
        (own[:2], "needs its --problem"),
        ([], "name a --task of the lab, or an --env"),
        (["--task", "prk"], "did you mean 'park'"),
        (["--task", "load"], "it is in Domain('crane'"),
        (["--task", "load:x"], "write it as load:7"),
    ]
    for more, sentence in wrong:
        assert main([*asked, *more, "--out", str(tmp_path / "other")]) == 2
        assert sentence in capsys.readouterr().err
    (out / "record.json").write_text('{"steps": []}')
    assert main(["report", str(out)]) == 2
    assert "this is not a record of control" in capsys.readouterr().err


def test_what_the_bench_is_asked() -> None:
    assert asked_for(True).suites == ("park", "load", "order")
    assert "clear-20" in asked_for(False).suites
    cases: list[tuple[dict[str, Any], str]] = [
        ({"worlds": ("parc",)}, "did you mean 'park'"),
        ({"learners": ("x",)}, "unknown learner"),
    ]
    for wrong, sentence in cases:
        with pytest.raises(UsageError, match=sentence):
            asked_for(False, **wrong)
    with pytest.raises(UsageError, match="1 to 50 tasks"):
        asked_for(False, tasks=51)
    some = asked_for(False, worlds=("clear-4", "park"), learners=("truth", "spare"), sizes=(100,), seeds=1)
    assert [(run.settings["suite"], run.settings["learner"]) for run in some.every()] == [
        ("clear-4", "spare"),
        ("park", "truth"),
        ("park", "spare"),
    ]


@pytest.mark.slow
def test_a_run_of_the_bench(tmp_path: pathlib.Path) -> None:
    settings = {"suite": "order", "learner": "truth", "samples": 0, "tasks": 8, "candidates": 512, "effort": 1.0}
    found = score(settings, 0, tmp_path)
    assert found == score(settings, 0, tmp_path) | {name: found[name] for name in ("seconds", "plan")}
    assert sum(found["solved"]) >= 4
    assert len(found["promised"]) == 8
    row = {"suite": "order", "learner": "truth", "samples": 0, "solved": [0.9, 0.7, 1.0, 20], "actions": 3.0}
    row |= {"promised": None, "kept": [0.5, 0.2, 0.8, 20], "plan": None, "seconds": 0.0}
    assert "| order | the truth | - | 0.9 [0.7, 1] | 3.0 | - |" in page(asked_for(True), [row], {})
