"""Refinement: targets and inputs are chosen by what held-out samples say, and worlds that we know are understood."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pytest

import spare
from spare.learning.fit import FitResult, Task, fit, make_dataset
from spare.learning.refine import Judged, needed
from tests.learning.helpers import quick

BEHIND = spare.Reference("behind", lambda o, p: o.x < p.x)
DOMAIN = spare.Domain(
    "doors",
    properties=[
        spare.Property("x", resolution=0.01),
        spare.Property("angle", resolution=0.01),
        spare.Property("colour", static=True),
        spare.Property("weight", static=True),
    ],
    references=[BEHIND.aggregated("mean", "max", "count")],
    actions=[spare.Action("shove", objects=("target",), parameters=("force", "song"))],
)


def doors(count: int, seed: int) -> spare.Experience:
    """Shoved, x grows by force / weight, and the angle becomes x / 10, whatever it was.

    Neither the colour nor the song matters, and nobody else does.
    """
    rng, builder = np.random.default_rng(seed), spare.Builder(DOMAIN)
    for _ in range(count):
        values = np.column_stack(
            [rng.uniform(0, 5, 3), rng.uniform(-20, 20, 3), rng.integers(0, 9, 3), rng.uniform(1, 2, 3)]
        )
        force, song = rng.uniform(1, 2), rng.uniform(-1, 1)
        after = values.copy()
        after[0, 0] += force / values[0, 3] + rng.normal(0, 0.02)
        after[0, 1] = values[0, 0] / 10 + rng.normal(0, 0.02)
        states = [spare.State(("a", "b", "c"), one) for one in (values, after)]
        builder.add(states[0], spare.ActionCall("shove", ("a",), (float(force), float(song))), states[1])
    return builder.build()


@pytest.fixture(scope="module")
def results() -> tuple[FitResult, FitResult]:
    """The same data without and with refinement; no references, so that only the target matters."""
    data = doors(150, 0)
    small = {"steps": 1200, "hidden": (32,), "members": 2}
    first, second = (
        fit(DOMAIN, data, seed=0, preset=quick(training=small, max_references=0, refine=on, folds="auto"))
        for on in (False, True)
    )
    return first, second


@pytest.mark.slow
def test_a_value_that_is_set_is_predicted_as_such(results: tuple[FitResult, FitResult]) -> None:
    """x moves, the angle is set."""
    assert results[0].model.rules[0].spec.targets == ("change", "change")
    assert results[1].model.rules[0].spec.targets == ("change", "absolute")


@pytest.mark.slow
def test_inputs_that_do_not_matter_are_left_out(results: tuple[FitResult, FitResult]) -> None:
    """Those that do are kept, and unseen samples are explained better."""
    rule = results[1].model.rules[0]
    dropped = rule.spec.features.dropped
    assert {*dropped} == {"song", "target.angle", "target.colour"}
    assert len(rule.input_names) + len(dropped) == len(results[0].model.rules[0].input_names)
    assert "(without " in str(results[1].model)
    unseen = doors(300, 1)
    assert results[1].model.log_prob(unseen).mean() > results[0].model.log_prob(unseen).mean() + 0.2


def test_a_refined_model_is_saved_and_predicts(results: tuple[FitResult, FitResult], tmp_path: pathlib.Path) -> None:
    """The file says what is dropped; explaining names the inputs that are left."""
    model, data = results[1].model, doors(20, 2)
    model.save(tmp_path / "m.spare")
    again = spare.load(tmp_path / "m.spare", model.domain)
    np.testing.assert_array_equal(model.log_prob(data), again.log_prob(data))
    text = again.predict(data.states[0], data.actions[0]).explain()
    (line,) = [line for line in text.splitlines() if line.startswith("  inputs: ")]
    assert [part.split("=")[0] for part in line[10:].split(", ")] == ["force", "target.x", "target.weight"]


def judged(count: int, name: str = "shared", **more: Any) -> Judged:
    """The rule with empty lists, trained for a moment on several folds."""
    data = doors(count, 3)
    chosen = quick(name, training={"hidden": (16,), "steps": 400} | more, folds=4, max_references=0)
    dataset = make_dataset(data, "shove", chosen)
    plan = Task(chosen, 0, 1).plan(data, dataset)
    return Judged(dataset, (spare.Shell(1), spare.Shell(1)), plan)


def test_judges_say_what_training_said_and_are_widened_where_they_are_too_sure() -> None:
    """Asked again, networks say the same of every sample; few samples and much training make them too sure."""
    sure = judged(24, "paper", hidden=(64, 64), epochs=100)
    again = sure._log_values(sure._outputs(), 1.0).sum(axis=1)
    np.testing.assert_allclose(again, sure.fitted.log_prob, rtol=1e-4, atol=1e-3)
    assert sure.wider > 1
    held = sure.judged > 0
    assert sure.loss < -sure.fitted.log_prob[held].mean()


@pytest.mark.slow
def test_what_shuffling_costs() -> None:
    """What decides costs, by the test; what does not, does not; five shuffles of forty samples say so already."""
    one = judged(60)
    costs = dict(zip(one.dataset.layout(one.pair[0]).names, one.costs(), strict=True))
    assert costs["force"][1] < 0.01
    assert costs["target.angle"][1] < 0.01  # as a change, the new angle depends on the old one
    assert costs["force"][0] > 4 * abs(costs["song"][0])


def test_the_fewer_are_judged_the_weaker_the_evidence_that_keeps_an_entry() -> None:
    assert [needed(count) for count in (10, 25, 100, 1000)] == [0.5, 0.2, 0.05, 0.05]


@pytest.mark.slow
def test_entries_that_never_vary_are_left_out() -> None:
    """If none varies, one stays."""
    data = doors(40, 4)
    silent = dataclasses.replace(data, parameters=data.parameters * np.array([1, 0], np.float32))
    chosen = quick(training={"steps": 300, "members": 2}, max_references=0, refine=True, folds=2)
    rule = fit(DOMAIN, silent, seed=0, preset=chosen).model.rules[0]
    assert "song" in rule.spec.features.dropped
    same = data[np.zeros(40, int)]
    assert fit(DOMAIN, same, seed=0, preset=chosen).model.rules[0].input_names


@pytest.mark.slow
def test_what_tells_an_image_from_its_original_is_kept() -> None:
    """Always shoved along 0.5 rad, in a wind along x: sin(heading) is constant, but not in the mirror."""
    frame = spare.Frame(origin=lambda t, a: (t.x, t.y), heading=lambda t, a: a.h, positions=(("x", "y"),), mirror=True)
    domain = spare.Domain(
        "wind",
        properties=[spare.Property(name, resolution=0.01) for name in ("x", "y")],
        references=[],
        actions=[spare.Action("shove", objects=("t",), parameters=("h", "d"), frame=frame)],
    )
    rng, builder = np.random.default_rng(0), spare.Builder(domain)
    for _ in range(80):
        here, d = rng.uniform(-1, 1, (1, 2)), rng.uniform(0.1, 0.5)
        there = here + d * np.array([np.cos(0.5), np.sin(0.5)]) + [0.3, 0] + rng.normal(0, 0.02, (1, 2))
        call = spare.ActionCall("shove", ("p",), (0.5, float(d)))
        builder.add(spare.State(("p",), here), call, spare.State(("p",), there))
    chosen = quick(training={"steps": 600, "hidden": (32,), "members": 2}, max_references=0, refine=True, folds=2)
    model = fit(domain, builder.build(), seed=0, preset=chosen).model
    assert any(name.startswith("sin(") for name in model.rules[0].input_names)
    assert "h" in model.rules[0].spec.features.dropped
    assert model.log_prob(builder.build()).mean() > 4
