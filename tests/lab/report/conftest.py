"""A real demo with brief learners, and a results folder with made-up numbers; each is made once."""

from __future__ import annotations

import contextlib
import functools
import io
import pathlib

import pytest

import spare
from spare.commands.cli import main
from spare.data.experience import Experience
from spare.lab.baselines.simple import no_change
from spare.lab.experiments.catalogue import EXPERIMENTS
from spare.lab.experiments.runner import conclude, distinct
from spare.lab.experiments.runs import QUICK
from spare.lab.experiments.store import Store, read_json
from spare.language.domain import Domain
from spare.model.model import Model
from tests.lab.experiments import made_up
from tests.learning.helpers import quick


class Evaluated:
    """In the place of scores that have tests of their own."""

    def as_dict(self) -> dict[str, float]:
        return {"log_prob": 1.0}


def stand_in(domain: Domain, data: Experience, **_: object) -> Model:
    """Nothing moves, in the place of a network that would take long to train."""
    return no_change(domain, data)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, str]:
    """(folder, standard output) of `spare demo` on a few pushes, our learner cut short, the networks stood in for."""
    folder, said = tmp_path_factory.mktemp("runs") / "demo", io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARE_CACHE", "off")
        patch.setattr(spare, "fit", functools.partial(spare.fit, preset=quick(max_references=1)))
        patch.setattr(spare, "evaluate", lambda model, data, seed: Evaluated())
        patch.setattr("spare.lab.baselines.flat.fit_flat", stand_in)
        patch.setattr("spare.lab.baselines.graph.fit_graph", stand_in)
        with contextlib.redirect_stdout(said):
            assert main(["demo", "--out", str(folder), "--samples", "40"]) == 0
    return folder, said.getvalue()


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory, demo: tuple[pathlib.Path, str]) -> pathlib.Path:
    """A quick run of four experiments: numbers as the paper would like them, one run failed, one model told."""
    folder = tmp_path_factory.mktemp("runs") / "results"
    store, chosen = Store(folder, QUICK), [EXPERIMENTS[name] for name in ("fig4a", "fig4b", "fig5a", "table1")]
    runs, records = distinct([run for one in chosen for run in one.runs(QUICK)]), {}
    told = read_json(demo[0] / "run.json")
    for key, run in runs.items():
        plain = {"task": run.task, "settings": dict(run.settings), "seed": run.seed, "seconds": 1.0}
        method = run.settings.get("method")
        values = made_up.value(run)
        if method == "spare":
            values |= {"learned": told["learned"], "error": 9.0, "data": ["a" * 16, "b" * 16]}
        if run.task == "score":
            values["ranks"] = told["methods"]["graph"]["ranks"]
        failed = method == "ensemble" and run.seed == 2
        records[key] = {**plain, "error": "FitError: <b>out of luck</b>"} if failed else {**plain, "values": values}
        store.put(run, records[key])
    conclude(chosen, store, runs, records)
    return folder
