"""`spare bench worlds`: runs that are kept, numbers of the truth, claims and the page, refusals in a sentence."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

import spare
from spare.commands.cli import main
from spare.lab.bench import worlds as bench
from spare.lab.experiments import known_claims, known_worlds
from spare.lab.experiments.experiment import Results
from spare.lab.experiments.known_claims import Numbers, Plan, claims
from spare.lab.experiments.known_page import page
from spare.lab.experiments.known_worlds import covered, rand_index, scores
from spare.lab.experiments.runs import QUICK
from spare.lab.worlds import chain, crane, kinds, queue, wind
from spare.lab.worlds.known import Truth
from spare.learning.presets import PRESETS
from spare.model.evaluation import acted_rows


def quiet(text: str) -> None:
    """Nobody listens."""


def test_a_bench_keeps_its_runs_and_goes_on(tmp_path: pathlib.Path) -> None:
    said: list[str] = []
    asked = {"worlds": ("wind",), "sizes": (20,), "seeds": 1, "learners": ("nothing",)}
    first = bench.run(True, 0, said.append, tmp_path / "out", **asked)
    records = sorted((tmp_path / "out" / "runs").glob("*.json"))
    assert len(records) == 2  # nothing, and the truth
    assert first["failed"] == {}
    before = [path.stat().st_mtime_ns for path in records]
    bench.run(True, 0, said.append, tmp_path / "out", **{**asked, "sizes": (20, 30)})
    assert [path.stat().st_mtime_ns for path in records] == before
    assert any("3 runs, 2 of them finished before" in line for line in said)
    text = (tmp_path / "out" / "worlds.md").read_text()
    assert "| the truth | 2.4" in text or "| the truth | 2.5" in text
    assert json.loads((tmp_path / "out" / "claims.json").read_text())["failed"] == {}


def test_learners_see_the_same_data_and_the_truth_their_test(tmp_path: pathlib.Path) -> None:
    settings = {"world": "wind", "learner": "nothing", "samples": 20, "test": 30, "effort": 0.1}
    one = known_worlds.score(settings, 3, tmp_path)
    truth = known_worlds.score({**settings, "learner": "truth", "samples": 0}, 3, tmp_path)
    assert one["test data"] == truth["test data"]
    assert one["data"] == wind.generate(20, 3, objects=5).fingerprint
    assert set(one["tests"]) == {"home", "wide"}
    assert truth["tests"]["home"]["all"] == pytest.approx(2.49, abs=0.15)
    assert truth["tests"]["home"]["covered_all"] == pytest.approx(0.9, abs=0.06)
    assert truth["tests"]["home"]["bystanders"] is None
    assert truth["tests"]["home"]["joint"] == pytest.approx(10 * truth["tests"]["home"]["all"], abs=1e-6)


def test_long_chains_are_tested_too() -> None:
    found = known_worlds.tests("chain", 10, 0)
    assert set(found) == {"home", "wide", "8", "16"}
    assert chain.movers(found["16"]).sum() > chain.movers(found["8"]).sum()


def test_scores_split_objects_into_three() -> None:
    data = crane.generate(40, 0)
    moved, own = crane.movers(data), acted_rows(data)
    found = scores(crane.truth, moved, data, coverage=False)
    sizes = [(moved & ~own).sum(), own.sum(), (~moved & ~own).sum()]
    parts = np.array([found["movers"], found["acted"], found["bystanders"]])
    assert found["all"] == pytest.approx((np.array(sizes) * parts).sum() / len(data.values))
    assert own.sum() == len(data)


def test_intervals_that_are_too_narrow_do_not_cover() -> None:
    data = wind.generate(60, 0, objects=4)

    class Narrow(Truth):
        def sample(self, experience: spare.Experience, seed: int) -> np.ndarray:
            middle = wind.truth.mean(experience)
            return middle + 0.5 * (wind.truth.sample(experience, seed) - middle)

    narrow = Narrow(wind.WORLD)
    assert covered(wind.truth, data).mean() == pytest.approx(0.9, abs=0.05)
    assert covered(narrow, data).mean() < 0.75


def test_the_rand_index_of_kinds() -> None:
    """Responsibilities that are the kinds themselves give 1; a model of one rule has no say."""
    data = kinds.generate(60, 0)

    class Knowing:
        rules = ()

        def responsibilities(self, data: spare.Experience) -> np.ndarray:
            return np.eye(3)[(data.info["kind"] + 1) % 3]

    assert rand_index(Knowing(), data) == 1.0
    empty = spare.Model(data.domain, [], np.ones(len(data.domain.dynamic)))
    assert rand_index(empty, data) is None
    assert not known_worlds.empty(queue.true_model())


def _made_up(plan: Plan, nats: dict[str, float], **more: Any) -> Numbers:
    """Records in which each learner has the same nats everywhere, but for a little noise over seeds."""
    records = {}
    for run in plan.runs():
        learner = run.settings["learner"]
        one = nats[learner] + 0.001 * run.seed
        part = {"movers": one, "all": one, "acted": one, "bystanders": None, "joint": 10 * one}
        test = {**part, "covered": 0.9 + 0.001 * run.seed, "covered_all": 0.9}
        values = {"tests": {"home": test, "wide": part if learner != "pets" else None}, "seconds": 5.0 + run.seed}
        values |= {"empty": False, "notes": [], **(more if learner == "spare" else {})}
        records[run.key] = run.record(values=values, seconds=1.0)
    return Numbers(plan, Results(QUICK, records))


PLAN = Plan(("crane",), (100, 300), 3, ("spare", "graph", "pets", "truth"))


def _verdicts(numbers: Numbers) -> dict[str, str]:
    return {one.name.removeprefix("worlds."): one.verdict for one in claims(numbers)}


def test_verdicts_follow_the_numbers() -> None:
    found = _verdicts(_made_up(PLAN, {"spare": 3.8, "graph": 3.0, "pets": 3.9, "truth": 4.0}))
    assert found["near-crane-100-movers"] == "holds"
    assert found["near-crane-300-movers"] == "does not hold"
    assert found["ahead-crane-300-all-graph"] == "holds"
    assert found["ahead-crane-300-all-pets"] == "does not hold"
    assert found["wide-crane-300-all"] == "holds"
    assert found["not-empty-crane-100"] == "holds"
    assert found["covered-crane"] == "holds"
    assert found["seconds-crane"] == "holds"


def test_who_reaches_the_truth_may_be_level() -> None:
    found = _verdicts(_made_up(PLAN, {"spare": 3.98, "graph": 3.99, "pets": 3.0, "truth": 4.0}))
    assert found["ahead-crane-100-movers-graph"] == "holds"


def test_an_empty_rule_needs_a_note() -> None:
    nats = {"spare": 3.9, "graph": 3.0, "pets": 3.0, "truth": 4.0}
    silent = _made_up(PLAN, nats, empty=True, notes=["property 'x': resolution 0.001 taken from the data"])
    assert _verdicts(silent)["not-empty-crane-100"] == "does not hold"
    said = _made_up(PLAN, nats, empty=True, notes=["nothing was found that predicts who moves"])
    assert _verdicts(said)["not-empty-crane-100"] == "holds"


def test_the_page_has_every_learner_and_every_claim() -> None:
    numbers = _made_up(PLAN, {"spare": 3.8, "graph": 3.0, "pets": 3.9, "truth": 4.0})
    found = claims(numbers)
    text = page(numbers, found, {"a run": "why <b>"}, {"dense": "there is no preset 'dense'"}, False)
    for words in ("Crane: a load is lifted", "| SPARE | 3.80 ± 0.00 |", "dense is left out", "why &lt;b&gt;"):
        assert words in text
    assert text.count("\n| World crane") + text.count("\n| Hidden") == len(found)
    assert sum(sum(counts.values()) for counts in known_claims.tally(found).values()) == len(found)


def test_what_is_left_out_is_said() -> None:
    said, reasons = bench.plan(True, learners=("spare", "dense"))
    assert ("dense" in reasons) == ("dense" not in PRESETS)
    assert said.learners[-1] == "truth"
    with pytest.raises(spare.UsageError, match="learner"):
        bench.plan(True, learners=("spere",))
    with pytest.raises(spare.UsageError, match="at least one seed"):
        bench.plan(True, seeds=0)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["worlds", "--worlds", "crain"], "crane"),
        (["worlds", "--sizes", "100;300"], "--sizes takes numbers"),
        (["scale", "--worlds", "crane"], "bench scale takes no --worlds"),
    ],
)
def test_wrong_words_get_a_sentence(words: list[str], answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert answer in capsys.readouterr().err
