"""Golden traces: every discrete outcome of two searches. Rewrite with `python -m tests.learning.test_golden`."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from spare.lab.worlds import queue as toy
from spare.learning.fit import FitResult, fit
from tests.learning.helpers import quick
from tests.learning.worlds import fixed_worlds, searches

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "golden"


def trace(result: FitResult) -> list[dict[str, Any]]:
    """Per round: who was trained, who was skipped and why, and what was kept; then the lists found."""
    traces = []
    for search in searches(result):
        roles = result.model.domain.action(search.action).objects

        def pair(explored: Any, roles: Any = roles) -> str:
            return f"{explored.gamma.show(roles)} | {explored.delta.show(roles)}"

        rounds = [
            {
                "trained": [pair(e) for e in round_.explored if e.trained],
                "skipped": {pair(e): e.note for e in round_.explored if e.note},
                "kept": pair(round_.best) if round_.best and round_.accepted else None,
            }
            for round_ in search.rounds
        ]
        traces.append({"action": search.action, "rounds": rounds, "found": pair(search.best)})
    return traces


def queue() -> FitResult:
    preset = quick(training={"steps": 300}, max_references=2)
    return fit(toy.domain, toy.generate(200, seed=1, followers=1), seed=0, preset=preset)


def leader() -> FitResult:
    world = fixed_worlds()["leader"]
    preset = quick(training={"steps": 500}, max_references=1, delta="interleaved")
    return fit(world.domain, world.generate(3, 300), seed=0, preset=preset)


SEARCHES = {"search-queue": queue, "search-leader-interleaved": leader}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_search_traces(name: str) -> None:
    assert trace(SEARCHES[name]()) == json.loads((FOLDER / f"{name}.json").read_text())


if __name__ == "__main__":
    for one, run in SEARCHES.items():
        (FOLDER / f"{one}.json").write_text(json.dumps(trace(run()), indent=1) + "\n")
