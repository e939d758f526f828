"""Numbers at the edges: finite results, or a clear error; never a saved model with NaN in it."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from scipy import stats

import spare
from spare.lab.worlds import queue as toy
from tests.faults.helpers import refuses
from tests.learning.helpers import quick

QUICK = quick(max_references=1)


def rebuilt(data: spare.Experience, **changes: Any) -> spare.Experience:
    names = ("values", "next_values", "offsets", "action", "objects", "parameters", "weights")
    return spare.Experience.from_arrays(data.domain, **{**{n: getattr(data, n) for n in names}, **changes})


def assert_sound(model: spare.Model, data: spare.Experience, folder: pathlib.Path) -> None:
    """Scores, moments and draws are finite, and the model comes back from a file."""
    assert np.isfinite(model.log_prob(data)).all()
    assert np.isfinite(model.sample(data, 0)).all()
    model.save(folder / "m.spare")
    np.testing.assert_array_equal(spare.load(folder / "m.spare", model.domain).log_prob(data), model.log_prob(data))


@pytest.mark.parametrize("size", [1e-30, 1e-10, 1.0, 1e10, 1e15])
def test_values_of_any_size_are_scored(size: float) -> None:
    """From 1e-30 to 1e15 times the deviations that were learned, a score is finite."""
    data = toy.generate(3, seed=0)
    scale = np.array([size, 1, 1], np.float32)
    large = rebuilt(data, values=data.values * scale, next_values=data.next_values * scale)
    assert np.isfinite(toy.true_model().log_prob(large)).all()


def test_values_too_large_to_square() -> None:
    """At 1e30 squares leave the range of 32-bit numbers: an error names the transition and says to rescale."""
    data = toy.generate(3, seed=0)
    after = data.next_values.copy()
    after[data.offsets[1] :, 0] = 1e30
    far = rebuilt(data, next_values=after)
    for call in (toy.true_model().log_prob, toy.true_model().log_prob_values):
        refuses(lambda call=call: call(far), "transition 1: its log-likelihood is not a finite number.*rescale")


def test_values_beyond_32_bits() -> None:
    """1e39 does not fit: refused on the way in, naming transition, object and property."""
    data = toy.generate(3, seed=0)
    after = data.next_values.astype(np.float64)
    after[0, 0] = 1e39
    refuses(lambda: rebuilt(data, next_values=after), "transition 0, object 0, property 'x': inf in the next state")


def test_likelihoods_that_underflow() -> None:
    """A thousand values that are each a hundred deviations off: the sum of logarithms is finite."""
    data = toy.generate(2, seed=0, lines=100, longest=10)
    after = data.next_values.copy()
    after[:, :2] += 5.0
    scores = toy.true_model().log_prob(rebuilt(data, next_values=after))
    assert np.isfinite(scores).all()
    assert (scores < -1e6).all()


@pytest.mark.slow
def test_a_thousand_objects() -> None:
    """A state of a thousand objects is scored, drawn and explained."""
    data = toy.generate(1, seed=0, lines=370, longest=5)
    assert data.counts[0] > 1000
    model = toy.true_model()
    assert np.isfinite(model.log_prob(data)).all()
    assert "expected: 3 of" in model.predict(data.states[0], data.actions[0]).explain(data.next_states[0])


@pytest.mark.slow
def test_far_from_the_origin(tmp_path: pathlib.Path) -> None:
    """At 1e6 m 32-bit numbers are 6 cm apart: learning says so and gives a finite model."""
    data = toy.generate(24, seed=0)
    shift = np.array([1e6, 0, 0], np.float32)
    far = rebuilt(data, values=data.values + shift, next_values=data.next_values + shift)
    result = spare.fit(toy.domain, far, seed=0, preset=QUICK, max_references=0)
    assert any("32-bit numbers are 0.062 apart" in note for note in result.notes)
    assert_sound(result.model, far, tmp_path)


@pytest.mark.slow
def test_one_applicable_sample_and_everyone_predicted(tmp_path: pathlib.Path) -> None:
    """A reference that applies to one sample only, and rules that leave nobody unpredicted: a finite model."""
    alone = toy.generate(23, seed=0, followers=0, lines=1, longest=1)
    pair = toy.generate(1, seed=1, followers=1, lines=1, longest=2)
    data = spare.concatenate([alone, pair])
    assert sorted(set(data.counts.tolist())) == [1, 2]
    result = spare.fit(toy.domain, data, seed=0, preset=QUICK)
    assert_sound(result.model, data, tmp_path)


def test_calibration_on_a_known_generator() -> None:
    """90 % intervals of the true model cover 88 to 92 % of 10,000 draws, and ranks are uniform (moved and still)."""
    data = toy.generate(1700, seed=5, lines=2, longest=4)
    model = toy.true_model()
    mean, std = model.moments(data)
    z = ((data.next_values.astype(np.float64) - mean) / np.where(std > 0, std, 1))[:, :2]
    moved = std[:, 0] > 2 * toy.REST
    for rows in (moved, ~moved):
        some = z[rows].ravel()[:10_000]
        assert len(some) >= 4000
        cover = float(np.mean(np.abs(some) < stats.norm.ppf(0.95)))
        assert 0.88 < cover < 0.92
        assert stats.kstest(stats.norm.cdf(some), "uniform").pvalue > 1e-3
    assert moved.sum() * 2 > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("which", ["true", "learned"])
def test_calibration_of_evaluate_and_of_draws(which: str) -> None:
    """True or learned: 90 % intervals of `evaluate` cover 88 to 92 % of 10,000 values; ranks in draws are uniform."""
    kind = {"lines": 1, "longest": 3}  # three people, all of whom move
    data, model = toy.generate(1700, seed=5, **kind), toy.true_model()
    if which == "learned":
        preset = quick(max_references=2, training={"steps": 600, "hidden": (32,)})
        model = spare.fit(toy.domain, toy.generate(1500, seed=1, **kind), seed=0, preset=preset).model
        assert model.rules[0].gamma == toy.true_shell()
    covered = spare.evaluate(model, data, seed=0, draws=99).coverage
    assert 0.88 < covered["90%"] < 0.92
    assert abs(covered["50%"] - 0.5) < (0.02 if which == "true" else 0.04)
    truth = data.next_values[:, :2]
    assert truth.size > 10_000
    below = sum((model.sample(data, 1000 + k)[:, :2] < truth).astype(int) for k in range(99))
    place = (below + np.random.default_rng(0).uniform(size=truth.shape)) / 100  # uniform, if truth is one more draw
    apart = stats.kstest(place.ravel(), "uniform")
    assert apart.pvalue > 1e-3 if which == "true" else apart.statistic < 0.035
    assert 0.88 < np.mean((place > 0.05) & (place < 0.95)) < 0.92
