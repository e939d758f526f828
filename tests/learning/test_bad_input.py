"""Bad input to learning: a clear error, or a finite result with a note; never a model that is not finite."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pytest

import spare
from spare.lab.worlds import queue as toy
from spare.language.references import Shell
from spare.learning.fit import FitResult, fit
from spare.learning.folds import split_weights
from spare.learning.presets import Search, Training
from spare.learning.problems import capacity_for
from spare.learning.search import GreedySearch
from spare.learning.train import Plan, fit_predictors
from tests.learning.helpers import fit_shell, quick
from tests.learning.worlds import searches

QUICK = quick(max_references=1)


def learned(data: spare.Experience, **settings: Any) -> FitResult:
    return fit(toy.domain, data, seed=0, preset=QUICK, **settings)


def changed(data: spare.Experience, **columns: Any) -> spare.Experience:
    return dataclasses.replace(data, **columns)


def assert_finite(result: FitResult, data: spare.Experience, folder: pathlib.Path) -> None:
    """The model scores its own data and can be written."""
    assert np.isfinite(result.model.log_prob(data)).all()
    result.model.save(folder / "model.spare")


def test_one_sample() -> None:
    with pytest.raises(spare.FitError, match="at least 4 are needed"):
        learned(toy.generate(1, seed=0))


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3, 0.5, 0.75, 0.9])
def test_fewer_samples_than_a_split_needs(share: float) -> None:
    """The number that the message names is the smallest that works."""
    with pytest.raises(spare.FitError) as caught:
        split_weights(np.ones(1), share, 0)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    training, validation = split_weights(np.ones(least), share, 0)
    assert training.any()
    assert validation.any()
    with pytest.raises(spare.FitError):
        split_weights(np.ones(least - 1), share, 0)


@pytest.mark.slow
def test_the_smallest_split_works(tmp_path: pathlib.Path) -> None:
    data = toy.generate(4, seed=0)
    result = learned(data)
    assert_finite(result, data, tmp_path)
    assert searches(result)[0].best.gamma == Shell(1)  # one validation sample supports nothing longer


def test_a_split_keeps_weights_and_follows_the_seed() -> None:
    weights = np.arange(1.0, 21.0)
    training, validation = split_weights(weights, 0.15, 3)
    np.testing.assert_array_equal(training + validation, weights)
    assert (validation > 0).sum() == 3
    assert (split_weights(weights, 0.15, 3)[1] == validation).all()
    assert (split_weights(weights, 0.15, 4)[1] != validation).any()


def test_weights() -> None:
    data = toy.generate(8, seed=0)
    with pytest.raises(spare.FitError, match="weight 0"):
        learned(data.weighted(np.zeros(8)))
    with pytest.raises(spare.SpareError, match="weight"):
        data.weighted(np.full(8, -1.0))
    with pytest.raises(spare.SpareError, match="weight"):
        data.weighted(np.full(8, np.nan))


def test_no_transitions_at_all() -> None:
    with pytest.raises(spare.FitError):
        learned(toy.generate(2, seed=0)[:0])


def test_settings_out_of_range() -> None:
    for wrong in ({"max_references": -1}, {"alpha": 0.0}, {"validation": 1.0}):
        with pytest.raises(spare.DefinitionError):
            learned(toy.generate(5, seed=0), **wrong)
    with pytest.raises(spare.DefinitionError, match="preset"):
        fit(toy.domain, toy.generate(5, seed=0), seed=0, preset="best")
    recipes: tuple[dict[str, Any], ...] = (
        {"hidden": (0,)},
        {"phases": ()},
        {"learning_rate": 0.0},
        {"activation": "sin"},
        {"members": 0},
    )
    for recipe in recipes:
        with pytest.raises(spare.DefinitionError):
            Training(**recipe)
    for name in ("stop", "inapplicable", "delta"):
        settings = Search()
        object.__setattr__(settings, name, "other")  # past the run-time checker of these tests, as users come
        with pytest.raises(spare.DefinitionError, match="'other'"):
            settings.__post_init__()


def test_a_negative_seed() -> None:
    with pytest.raises(spare.SpareError, match="seed"):
        fit(toy.domain, toy.generate(8, seed=0), seed=-1, preset=QUICK)


def test_data_of_another_domain(data: spare.Experience) -> None:
    with pytest.raises(spare.DataError, match="belong"):
        learned(data)


@pytest.mark.slow
def test_a_constant_property(tmp_path: pathlib.Path) -> None:
    data = toy.generate(30, seed=0)
    values, after = data.values.copy(), data.next_values.copy()
    for part in (values, after):
        part[:, 1:] = 2.5
    data = changed(data, values=values, next_values=after)
    result = learned(data)
    assert "property 'y' is constant (2.5) in these data" in result.notes
    assert "property 'mass' is constant (2.5) in these data" in result.notes
    assert_finite(result, data, tmp_path)


def test_open_resolutions_are_filled_and_said(tmp_path: pathlib.Path) -> None:
    bare = spare.Domain(
        "queue",
        properties=[spare.Property("x", unit="m"), spare.Property("y", unit="m"), toy.domain.property("mass")],
        references=toy.domain.references,
        actions=toy.domain.actions,
    )
    data = toy.generate(30, seed=0)
    result = fit(bare, data, seed=0, preset=QUICK)
    assert sum("resolution" in note for note in result.notes) == 2
    assert result.model.domain.resolved
    assert_finite(result, data, tmp_path)


@pytest.mark.parametrize("size", [1e8, 1e14])
def test_large_values_are_learned_with_a_note(size: float, tmp_path: pathlib.Path) -> None:
    data = toy.generate(30, seed=0)
    scale = np.array([size, 1, 1], np.float32)
    data = changed(data, values=data.values * scale, next_values=data.next_values * scale)
    result = learned(data)
    assert any("'x' reaches" in note for note in result.notes)
    assert_finite(result, data, tmp_path)


def test_values_of_1e30() -> None:
    """Whether the objects acted on have them, or only others, and whether they move."""
    data = toy.generate(30, seed=0)
    scale = np.array([1e30, 1, 1], np.float32)
    with pytest.raises(spare.FitError, match="rescale"):
        learned(changed(data, values=data.values * scale, next_values=data.next_values * scale))
    targets = data.offsets[:-1] + data.objects[:, 0]
    jumping = data.next_values.copy()
    jumping[(targets[3] + 1) % len(jumping), 0] = 1e30
    with pytest.raises(spare.FitError, match="rescale"):
        learned(changed(data, next_values=jumping))


def test_a_loss_that_is_not_a_number_fails_loudly() -> None:
    data = toy.generate(30, seed=0)
    fitted, dataset, plan = fit_shell(data, Shell(1), QUICK)
    search = GreedySearch(dataset, plan)
    broken = fitted.predicted.copy()
    broken[7] = np.nan
    with pytest.raises(spare.FitError, match=r"rule \[-\]: its loss is not a number on sample 7"):
        search.trainer.judged(dataclasses.replace(fitted, predicted=broken))


def test_a_rule_for_no_sample_cannot_be_trained() -> None:
    data = toy.generate(30, seed=0)
    _, dataset, plan = fit_shell(data, Shell(1), QUICK)
    nothing = Plan(QUICK, np.zeros(30), plan.validation, capacity_for(dataset, 1), 0)
    with pytest.raises(spare.FitError, match="none of the training samples"):
        fit_predictors(dataset, [(Shell(1), Shell(1))], nothing)
