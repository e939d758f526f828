"""Objects that move together: a density in its own right, whose single values are as before, recovered from data."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.language.kinds import Normal
from spare.learning.copula import Scored, fit_copula, maximum
from spare.learning.fit import fit, make_dataset
from spare.model.copula import OneFactorCopula, factor_log_density
from spare.model.distributions import Components
from spare.model.predictors import linear_predictor
from spare.testing import check_model
from tests.learning.helpers import quick
from tests.rules import make_rule

DOMAIN = spare.Domain(
    "convoy",
    properties=[spare.Property("x", resolution=0.01), spare.Property("y", resolution=0.01)],
    references=[spare.Reference("behind", lambda o, p: (o.x < p.x) & (o.x > p.x - 10))],
    actions=[spare.Action("tow", objects=("lead",), parameters=("d",))],
)
CONVOY = spare.Shell(1, (spare.Pointer("behind", (0,)),))
LOADING, APART = np.array([[0.9, 0.0], [0.8, 0.0]]), np.array([0.05, 0.5])


def truth(together: bool = True) -> spare.Rule:
    """Everyone moves by d along x, within 0.2; y wanders by 0.1. Errors along x have a common cause."""
    weight = jnp.zeros((7, 4)).at[0, 0].set(1.0).at[0, 2].set(1.0)
    variance = jnp.array([[0.2**2, 0.1**2]] * 2)
    return make_rule(
        DOMAIN,
        "tow",
        CONVOY,
        linear_predictor(weight[:5], jnp.zeros(4), variance),
        np.zeros(2),
        targets="change",
        copula=(LOADING, APART) if together else None,
    )


def states(count: int, seed: int) -> spare.Experience:
    """A lead, two or three behind, one far away; next states are drawn from the truth."""
    rng, builder = np.random.default_rng(seed), spare.Builder(DOMAIN)
    for _ in range(count):
        n = int(rng.integers(3, 5))
        x = np.concatenate([[0.0], -rng.uniform(1, 9, n - 1), [30.0]])
        state = spare.State(tuple(range(n + 1)), np.column_stack([x, rng.uniform(-1, 1, n + 1)]))
        builder.add(state, spare.ActionCall("tow", (0,), (float(rng.uniform(1, 2)),)), state)
    data = builder.build()
    return dataclasses.replace(data, next_values=spare.Model(DOMAIN, [truth()], np.zeros(2)).sample(data, seed))


def components(count: int, seed: int) -> Components:
    """Two members' Gaussians for `count` objects and one property."""
    rng = np.random.default_rng(seed)
    shape = (2, count, 1)
    mean, variance = jnp.array(rng.normal(0, 1, shape)), jnp.array(rng.uniform(0.2, 2.0, shape))
    return Components(jnp.ones((2, count), bool), jnp.log(jnp.array([0.5, 0.5])), mean, variance, (Normal(),))


def shared_log_density(score: Any, loading: Any) -> Any:
    """The density of the common factor, by property, for the objects of one scene."""
    return factor_log_density(score, loading, lambda part: part.sum(axis=0), lambda total: total)


def joint_log_density(score: Any, loading: Any, apart: Any) -> Any:
    """The whole copula of one scene."""
    return OneFactorCopula(None, apart).log_density(score, loading)


@pytest.mark.slow
def test_the_joint_density_integrates_to_one_and_leaves_single_values_as_they_were() -> None:
    """On a fine grid over two objects; the integral over one of them is the other's own density."""
    parts, loading, apart = components(2, 0), jnp.array([[0.9], [-0.7]]), jnp.array([0.1])
    grid = np.linspace(-9, 9, 361)

    def single(value: jax.Array) -> jax.Array:
        scaled = jnp.square(value - parts.location) / parts.variance
        return jnp.log((0.5 * jnp.exp(-0.5 * scaled) / jnp.sqrt(2 * jnp.pi * parts.variance)).sum(axis=0))

    def joint(a: Any, b: Any) -> jax.Array:
        value = jnp.array([[a], [b]])
        return single(value).sum() + joint_log_density(parts.scores(value), loading, apart)

    values = np.exp(np.asarray(jax.jit(jax.vmap(jax.vmap(joint, (None, 0)), (0, None)))(grid, grid), np.float64))
    step = grid[1] - grid[0]
    assert values.sum() * step**2 == pytest.approx(1.0, abs=1e-3)
    own = np.exp(np.asarray(jax.jit(jax.vmap(lambda v: single(jnp.array([[v], [0.0]]))[0, 0]))(grid)))
    np.testing.assert_allclose(values.sum(axis=1) * step, own, atol=2e-3)
    assert np.abs(values - np.outer(own, values.sum(axis=0) * step)).max() > 0.02  # and yet it is no product


@pytest.mark.slow
def test_scores_and_values_are_inverse_far_into_the_tails() -> None:
    parts = components(40, 1)
    score = jnp.linspace(-6, 6, 40)[:, None]
    there_and_back, scores = jax.jit(lambda z: parts.scores(parts.values_at(z))), jax.jit(lambda v: parts.scores(v))
    np.testing.assert_allclose(there_and_back(score), score, atol=2e-3)
    far = scores(jnp.full((40, 1), 1e6))
    assert np.isfinite(far).all()
    assert (far > 12).all()


@pytest.mark.slow
def test_gradients_of_the_density_are_those_of_finite_differences() -> None:
    score, loading = jnp.array([[0.3], [-1.2], [0.8]]), jnp.array([[0.9], [0.5], [0.0]])

    def density(z: jax.Array) -> jax.Array:
        return joint_log_density(z, loading, jnp.array([0.05]))

    with jax.enable_x64(True):
        wide = score.astype(jnp.float64)
        found = np.asarray(jax.grad(density)(wide))
        for k in range(3):
            step = jnp.zeros_like(wide).at[k].set(1e-6)
            assert found[k, 0] == pytest.approx(float((density(wide + step) - density(wide - step)) / 2e-6), abs=1e-6)
    assert found[2, 0] == 0  # who has nothing in common adds nothing


@pytest.mark.slow
def test_draws_have_the_common_cause_and_the_share_apart() -> None:
    loading = jnp.array([[0.9], [0.6]])
    draw = jax.jit(jax.vmap(lambda key: OneFactorCopula(None, jnp.array([0.2])).draw(key, loading)))
    scores = np.asarray(draw(jax.random.split(jax.random.key(0), 20_000)))[:, :, 0]
    np.testing.assert_allclose(np.cov(scores.T), [[1, 0.8 * 0.54], [0.8 * 0.54, 1]], atol=0.03)
    shared = np.asarray(jax.jit(jax.vmap(lambda z: shared_log_density(z[:, None], loading)[0]))(scores[:2000]))
    assert shared.min() < np.log(0.2) - 1  # some go apart, which the common cause alone makes very unlikely


def test_one_that_goes_its_own_way_costs_no_more_than_its_share() -> None:
    """A block that falls off a stack: without the share apart it would cost tens of nats."""
    score, loading = jnp.array([[5.0], [0.0], [0.0]]), jnp.full((3, 1), 0.95)
    assert float(shared_log_density(score, loading)[0]) < -60
    assert float(joint_log_density(score, loading, jnp.array([0.05]))) >= np.log(0.05) - 1e-4


def test_loadings_and_share_of_exact_scores_are_recovered() -> None:
    """The mean over five data sets of 300 samples: within 0.02 of both loadings, within 0.04 of the share."""

    def scored(seed: int) -> Scored:
        rng, owner = np.random.default_rng(seed), np.repeat(np.arange(300), 3)
        slots = np.tile([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], (300, 1))
        load = slots @ LOADING[:, 0] * np.repeat(rng.random(300) > APART[0], 3)
        scores = load * rng.normal(size=300)[owner] + np.sqrt(1 - load**2) * rng.normal(size=900)
        return Scored(scores[:, None], np.ones((900, 1)), slots, owner, np.ones(300))

    found = np.mean([maximum(scored(seed), 0, 300) for seed in range(5)], axis=0)
    np.testing.assert_allclose(found[:2], LOADING[:, 0], atol=0.02)
    assert found[2] == pytest.approx(APART[0], abs=0.04)


@pytest.fixture(scope="module")
def learned() -> tuple[spare.Model, spare.Experience]:
    """Learned from 300 transitions of the known rule, with the lists given by the search."""
    training = {"steps": 1500, "hidden": (32,), "members": 3, "copula": True}
    recipe = quick(training=training, folds="auto", max_references=1)
    return fit(DOMAIN, states(300, 1), seed=0, preset=recipe).model, states(300, 2)


@pytest.mark.slow
def test_loadings_are_recovered(learned: tuple[spare.Model, spare.Experience]) -> None:
    """Those of x within 0.1; y has no common cause, and the evidence says so."""
    rule = learned[0].rules[0]
    assert rule.copula is not None
    np.testing.assert_allclose(rule.copula.loading[:, 0], LOADING[:, 0], atol=0.1)
    assert (np.asarray(rule.copula.loading)[:, 1] == 0).all()
    assert "errors are correlated: x " in str(learned[0])


@pytest.mark.slow
def test_unseen_transitions_are_likelier_and_single_values_as_likely(
    learned: tuple[spare.Model, spare.Experience],
) -> None:
    """By nearly as much as under the truth; draws keep the distances of what moves together."""
    model, unseen = learned
    values = np.add.reduceat(model.log_prob_values(unseen).sum(axis=1), unseen.offsets[:-1])
    gain = float((model.log_prob(unseen) - values).mean())
    true, alone = (spare.Model(DOMAIN, [truth(on)], np.zeros(2)).log_prob(unseen).mean() for on in (True, False))
    assert gain > 0.8 * (true - alone) > 0.5
    drawn = model.sample(unseen, 0)
    first = unseen.offsets[:-1]
    apart = (drawn[first, 0] - drawn[first + 1, 0]) - (unseen.values[first, 0] - unseen.values[first + 1, 0])
    assert apart.std() < 0.75 * np.sqrt(2) * 0.2


@pytest.mark.slow
def test_it_is_saved_and_keeps_the_contract(
    learned: tuple[spare.Model, spare.Experience], tmp_path: pathlib.Path
) -> None:
    model, unseen = learned
    model.save(tmp_path / "m.spare")
    again = spare.load(tmp_path / "m.spare", DOMAIN)
    np.testing.assert_array_equal(model.log_prob(unseen), again.log_prob(unseen))
    np.testing.assert_array_equal(model.sample(unseen, 3), again.sample(unseen, 3))
    assert not check_model(model, unseen, most=4).findings


@pytest.mark.slow
def test_slopes_are_finite_where_nothing_varies_and_at_the_median() -> None:
    """A variance that is resolution² has no free part; a root of 0 would have an infinite slope."""

    def load(variance: jax.Array) -> jax.Array:
        copula = OneFactorCopula(jnp.full((1, 1), 0.9), jnp.array([0.1]))
        return copula.of_objects(jnp.ones((1, 2), bool), variance, jnp.array([0.5])).sum()

    slopes = np.asarray(jax.jit(jax.grad(load))(jnp.array([[0.25], [0.5]])))
    assert np.isfinite(slopes).all()
    assert slopes[1] > 0
    parts = Components(jnp.ones((1, 1), bool), jnp.zeros(1), jnp.zeros((1, 1, 1)), jnp.ones((1, 1, 1)), (Normal(),))
    slope = jax.jit(jax.grad(lambda v: parts.scores(v).sum()))
    assert float(slope(jnp.zeros((1, 1)))[0, 0]) == pytest.approx(1.0, abs=1e-4)


def test_a_large_set_keeps_its_digits_in_32_bits() -> None:
    """3,000 objects with much in common: as in 64 bits, in any order."""
    rng = np.random.default_rng(0)
    score, loading = 0.99 * rng.normal() + 0.14 * rng.normal(size=(3000, 1)), np.full((3000, 1), 0.99)
    found = [float(shared_log_density(jnp.array(part), jnp.array(loading))[0]) for part in (score, score[::-1])]
    with jax.enable_x64(True):
        exact = float(shared_log_density(jnp.array(score), jnp.array(loading))[0])
    np.testing.assert_allclose(found, exact, atol=0.02)


@pytest.mark.parametrize("size", [0.3, 1.0, 3.0])
def test_judges_that_are_too_sure_or_not_enough_are_no_common_cause(size: float) -> None:
    """Independent scores of any size: nothing moves together."""
    rng, n = np.random.default_rng(1), 60
    location = np.zeros((1, 3 * n, 1), np.float32)
    change = (size * rng.normal(size=(3 * n, 1))).astype(np.float32)
    one = np.zeros(1, np.float32)
    parts = Components(np.ones((1, 3 * n), bool), one, location, np.ones_like(location), (Normal(),))
    domain = spare.Domain(
        "dots", properties=[spare.Property("x", resolution=1e-3)], references=[], actions=[DOMAIN.actions[0]]
    )
    builder = spare.Builder(domain)
    state = spare.State((0, 1, 2), np.zeros((3, 1)))
    for _ in range(n):
        builder.add(state, spare.ActionCall("tow", (0,), (0.0,)), state)
    dataset = make_dataset(builder.build(), "tow", quick())
    table = dataset.matrix(spare.Shell(1), spare.Shell(1))
    everyone = dataclasses.replace(table, outputs=np.ones_like(table.outputs))
    assert fit_copula(change, parts, dataset, everyone, np.ones(n)) is None


def test_bad_numbers_are_refused() -> None:
    rule = truth()
    for together in (
        (np.full((2, 2), 1.5), APART),
        (LOADING, np.array([0.0, 0.5])),
        (LOADING[:1], APART),
        (LOADING, APART[:1]),
    ):
        with pytest.raises(spare.DefinitionError, match="copula"):
            make_rule(DOMAIN, "tow", CONVOY, rule.predictor, np.zeros(2), targets="change", copula=together)
