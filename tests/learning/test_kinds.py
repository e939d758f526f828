"""A property kind of a user's own: Booleans, from their encoding to a saved model, in the one place that a kind is."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.arrays import array_module
from spare.learning.history import SearchResult
from tests.learning.helpers import quick

pytestmark = pytest.mark.slow


@dataclasses.dataclass(frozen=True)
class Bernoulli(spare.Leaf):
    """P(value = 1) = sigmoid(location); what stays flips with the probability that it has changed before."""

    continuous = False

    def log_density(self, value: Any, location: Any, variance: Any) -> Any:
        return -jax.nn.softplus(jnp.where(value > 0.5, -location, location))

    def loss(self, target: Any, spread: Any, location: Any, variance: Any) -> Any:
        return jax.nn.softplus(location) - target * location

    def moments(self, location: Any, variance: Any) -> tuple[Any, Any]:
        p = jax.nn.sigmoid(location)
        return p, p * (1 - p)

    def log_tails(self, value: Any, location: Any, variance: Any) -> tuple[Any, Any]:
        xp = array_module(value)
        zero = xp.zeros_like(location)
        return zero, zero  # no copula asks for them: values are not continuous

    def quantile(self, score: Any, location: Any, variance: Any) -> Any:
        return (score > -jax.scipy.special.ndtri(jax.nn.sigmoid(location))).astype(location.dtype)

    def stay_log_density(self, change: Any, variance: Any) -> Any:
        xp = array_module(change)
        flip = xp.clip(variance, 1e-6, 0.5)
        return xp.where(xp.abs(change) > 0.5, xp.log(flip), xp.log1p(-flip))

    def stay_moments(self, value: Any, variance: Any) -> tuple[Any, Any]:
        flip = jnp.clip(variance, 1e-6, 0.5)
        return value + flip * (1 - 2 * value), flip * (1 - flip)

    def stay(self, value: Any, score: Any, variance: Any) -> Any:
        flips = score > -jax.scipy.special.ndtri(jnp.clip(variance, 1e-6, 0.5))
        return jnp.where(flips, 1.0 - value, value)


@dataclasses.dataclass(frozen=True)
class Boolean(spare.Kind):
    """0 or 1; a rule predicts the new value."""

    changes = False

    @property
    def leaf(self) -> spare.Leaf:
        return Bernoulli()

    def names(self, name: str) -> tuple[str, ...]:
        return (f"{name}?",)

    def encode(self, values: Any) -> tuple[Any, ...]:
        return (2.0 * values - 1.0,)

    def image(self, before: Any, after: Any) -> Any:
        return np.round(after)

    def units(self, mean: Any, deviation: Any) -> tuple[Any, Any]:
        return np.zeros_like(mean), np.ones_like(deviation)


DOMAIN = spare.Domain(
    "lamps",
    properties=[
        spare.Property("x", resolution=0.01),
        spare.Property("on", resolution=0.01, kind=Boolean()),
    ],
    references=[spare.Reference.closest("next", lambda o, p: jnp.where(o.x > p.x, o.x - p.x, jnp.inf))],
    actions=[spare.Action("press", ("lamp",), ("force",))],
)


def lamps(count: int, seed: int) -> tuple[spare.Experience, np.ndarray]:
    """A press moves a lamp by 0.1 and toggles the next one with probability 0.95 if it is hard, 0.05 if not.

    The experience, and log p of each transition's Booleans under the truth.
    """
    rng, builder, truth = np.random.default_rng(seed), spare.Builder(DOMAIN), []
    for _ in range(count):
        n = int(rng.integers(3, 6))
        x, on, force = np.sort(rng.uniform(0, 10, n)), rng.integers(0, 2, n), rng.uniform(0, 1)
        which = int(rng.integers(0, n - 1))
        after, lit, p = x.copy(), on.copy(), 0.95 if force > 0.5 else 0.05
        after[which] += 0.1 + 0.02 * rng.standard_normal()
        toggles = rng.random() < p
        lit[which + 1] ^= toggles
        truth.append(np.log(p if toggles else 1 - p))
        ids = tuple(range(n))
        call = spare.ActionCall("press", (which,), (float(force),))
        builder.add(spare.State(ids, np.stack([x, on], 1)), call, spare.State(ids, np.stack([after, lit], 1)))
    return builder.build(), np.array(truth)


@pytest.fixture(scope="module")
def learned() -> spare.Model:
    chosen = quick(training={"hidden": (32, 32), "steps": 1500, "copula": True, "members": 2}, folds=2)
    return spare.fit(DOMAIN, lamps(400, 0)[0], seed=0, preset=chosen).model


def test_the_rule_is_found_and_its_probabilities_are_close_to_the_truth(learned: spare.Model) -> None:
    test, truth = lamps(300, 1)
    rule = learned.rules[0]
    assert "next(lamp)" in rule.show()
    assert rule.spec.targets == ("change", "absolute")
    assert any(name.endswith("on?") for name in rule.layout.names)
    nats = learned.log_prob_values(test)[:, 1]
    ours = np.add.reduceat(nats, test.offsets[:-1])
    assert truth.mean() - 0.12 < ours.mean() <= 0
    assert rule.copula is None or (np.asarray(rule.copula.loading)[:, 1] == 0).all()


def test_draws_are_Booleans_with_the_predicted_probability(learned: spare.Model) -> None:  # noqa: N802
    test, _ = lamps(40, 2)
    draws = np.stack([learned.sample(test, seed)[:, 1] for seed in range(120)])
    assert np.isin(draws, (0.0, 1.0)).all()
    mean, std = learned.moments(test)
    np.testing.assert_allclose(draws.mean(axis=0), mean[:, 1], atol=5 * 0.5 / np.sqrt(120))
    assert (std[:, 1] <= 0.5 + 1e-6).all()


def test_it_survives_a_file(learned: spare.Model, tmp_path: pathlib.Path) -> None:
    test, _ = lamps(40, 3)
    learned.save(tmp_path / "lamps.spare")
    again = spare.load(tmp_path / "lamps.spare", DOMAIN)
    np.testing.assert_array_equal(again.log_prob(test), learned.log_prob(test))
    test.save(tmp_path / "lamps.parquet")
    np.testing.assert_array_equal(spare.Experience.load(tmp_path / "lamps.parquet", DOMAIN).values, test.values)
    plain = spare.Domain(
        "lamps",
        properties=[DOMAIN.properties[0], spare.Property("on", resolution=0.01)],
        references=DOMAIN.references,
        actions=DOMAIN.actions,
    )
    with pytest.raises(spare.FileError, match="on"):
        spare.load(tmp_path / "lamps.spare", plain)


def test_learning_and_the_model_agree_on_every_sample() -> None:
    """One member, so that the search judges by the very network that the model has."""
    data, _ = lamps(60, 4)
    result = spare.fit(DOMAIN, data, seed=0, preset=quick(max_references=1))
    search = result.history[0]
    assert isinstance(search, SearchResult)
    fitted = search.fitted[0]
    own = fitted.matrix.applies
    np.testing.assert_allclose(fitted.log_prob[own], result.model.log_prob(data)[own], atol=1e-3)
