"""Scores against closed forms on a Gaussian world, where the true model is known."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.lab.worlds import queue as toy
from spare.model.evaluation import Evaluation, evaluate, moved_rows
from tests.rules import make_rule

SIGMA = 0.5


@pytest.fixture(scope="module")
def flat() -> spare.Domain:
    return spare.Domain(
        "flat",
        properties=[spare.Property("x", resolution=1e-3), spare.Property("w", static=True)],
        references=[],
        actions=[spare.Action("wait", ("one",))],
    )


def gaussian(domain: spare.Domain, bias: float = 0.0, sigma: float = SIGMA) -> spare.Model:
    """x' = x + bias + N(0, sigma²): one rule for the one object that is acted on."""
    variance = jnp.array([[sigma**2 - 1e-6]])
    weight = jnp.zeros((2, 1)).at[0, 0].set(1.0)
    rule = make_rule(
        domain, "wait", spare.Shell(1), spare.linear_predictor(weight, jnp.array([bias]), variance), np.ones(1)
    )
    return spare.Model(domain, [rule], np.ones(1))


def drawn(domain: spare.Domain, count: int = 1500, seed: int = 0) -> spare.Experience:
    """One object per transition, moved by N(0, SIGMA²)."""
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.uniform(-3, 3, count), rng.uniform(1, 2, count)])
    after = values.copy()
    after[:, 0] += SIGMA * rng.standard_normal(count)
    return spare.Experience.from_arrays(
        domain,
        values=values,
        next_values=after,
        offsets=np.arange(count + 1),
        action=np.zeros(count, int),
        objects=np.zeros((count, 1), int),
        parameters=np.zeros((count, 0)),
    )


@pytest.mark.slow
def test_a_perfect_model(flat: spare.Domain) -> None:
    data = drawn(flat)
    result = evaluate(gaussian(flat), data, seed=0, draws=60)
    n = len(data)
    entropy = 0.5 * math.log(2 * math.pi * math.e * SIGMA**2)
    assert abs(result.log_prob + entropy) < 4 * math.sqrt(0.5 / n)
    assert result.log_prob_error == pytest.approx(math.sqrt(0.5 / n), rel=0.15)
    assert result.per_value == pytest.approx(result.log_prob)
    assert result.per_value_moved == pytest.approx(result.log_prob, abs=0.02)
    for level in (0.5, 0.9, 0.95):
        assert abs(result.coverage[f"{level:.0%}"] - level) < 4 * math.sqrt(level * (1 - level) / n)
    # E|X - y| - E|X - X'| / 2 of N(0, s²) against its own draws: s / sqrt(pi)
    assert result.crps["x"] == pytest.approx(SIGMA / math.sqrt(math.pi), rel=0.06)
    assert result.rmse["x"] == pytest.approx(SIGMA, rel=0.06)
    assert result.rmse_moved["x"] == pytest.approx(result.rmse["x"], rel=0.01)
    assert result.transitions == n
    assert set(result.rmse) == {"x"}  # static properties are not scored


@pytest.mark.slow
def test_crps_and_rmse_of_a_biased_model(flat: spare.Domain) -> None:
    """CRPS(N(m, s²), y) = s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), z = (y - m) / s; RMSE² = s² + bias²."""
    data, bias, sigma = drawn(flat, 800), 0.4, 0.8
    result = evaluate(gaussian(flat, bias, sigma), data, seed=1, draws=80)
    z = (data.next_values[:, 0].astype(np.float64) - data.values[:, 0] - bias) / sigma
    cdf = np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in z])
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    crps = sigma * (z * (2 * cdf - 1) + 2 * density - 1 / math.sqrt(math.pi))
    assert result.crps["x"] == pytest.approx(crps.mean(), rel=0.04)
    assert result.rmse["x"] == pytest.approx(math.sqrt(np.mean((sigma * z) ** 2)), rel=1e-4)
    for level, reach in ((0.5, 0.6745), (0.9, 1.6449)):  # the share of these very data inside the exact interval
        assert result.coverage[f"{level:.0%}"] == pytest.approx(np.mean(np.abs(z) < reach), abs=0.03)


@pytest.mark.slow
def test_a_model_that_is_too_sure_covers_too_little(flat: spare.Domain) -> None:
    result = evaluate(gaussian(flat, 0.0, SIGMA / 3), drawn(flat, 600), seed=0, draws=40)
    expected = math.erf(1.6449 / 3 / math.sqrt(2))
    assert result.coverage["90%"] == pytest.approx(expected, abs=0.07)


@pytest.mark.slow
def test_totals_on_the_queue() -> None:
    data = toy.generate(40, seed=0)
    model = toy.true_model(2)
    result = evaluate(model, data, seed=0, draws=20)
    total = model.log_prob(data)
    assert result.log_prob == pytest.approx(total.mean())
    assert result.per_value == pytest.approx(total.sum() / (2 * len(data.values)))
    moved = moved_rows(data)
    assert result.per_value_moved == pytest.approx(model.log_prob_values(data)[moved].mean())
    assert result.objects_moved == pytest.approx(moved.sum() / len(data))
    error = (model.mean(data) - data.next_values)[:, 0].astype(np.float64)
    assert result.rmse["x"] == pytest.approx(math.sqrt(np.mean(error**2)), rel=1e-4)
    assert result.rmse_moved["x"] == pytest.approx(math.sqrt(np.mean(error[moved] ** 2)), rel=1e-4)
    again = evaluate(model, data, seed=0, draws=20)
    assert again == result
    assert again.as_dict()["crps"] == result.crps
    assert evaluate(model, data, seed=50, draws=20).crps != result.crps


@pytest.mark.slow
def test_any_transition_model_can_be_scored(flat: spare.Domain) -> None:
    """log_prob, sample and predict suffice: means then come from draws, nats per moved value are unknown."""
    inner, data = gaussian(flat), drawn(flat, 200)

    class Plain:
        domain = flat

        def log_prob(self, experience: spare.Experience) -> np.ndarray:
            return inner.log_prob(experience)

        def sample(self, experience: spare.Experience, seed: int) -> np.ndarray:
            return inner.sample(experience, seed)

        def predict(self, state: spare.State, action: spare.ActionCall) -> object:
            return inner.predict(state, action)

    plain, full = evaluate(Plain(), data, seed=0, draws=60), evaluate(inner, data, seed=0, draws=60)
    assert isinstance(plain, Evaluation)
    assert plain.per_value_moved is None
    assert (plain.log_prob, plain.coverage, plain.crps) == (full.log_prob, full.coverage, full.crps)
    assert plain.rmse["x"] == pytest.approx(full.rmse["x"], rel=0.05)


def test_nothing_moves_and_one_transition(flat: spare.Domain) -> None:
    data = drawn(flat, 1)
    still = spare.Experience.from_arrays(
        flat,
        values=data.values,
        next_values=data.values,
        offsets=data.offsets,
        action=data.action,
        objects=data.objects,
        parameters=data.parameters,
    )
    result = evaluate(gaussian(flat), still, seed=0, draws=20)
    assert result.objects_moved == 0
    assert result.per_value_moved is None
    assert np.isfinite([result.log_prob, result.rmse["x"], result.crps["x"], *result.coverage.values()]).all()
    with pytest.raises(spare.DataError, match="no transitions"):
        evaluate(gaussian(flat), data[:0], seed=0)
    with pytest.raises(spare.DataError, match="belong"):
        evaluate(toy.true_model(1), data, seed=0)
