"""Draws follow the density: moments, coverage of intervals, and one tied rule for the whole state."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from tests.oracle_density import Mixture, normal_score
from tests.properties.answers import each_for_itself, pooled
from tests.strategies import Case, plain

DRAWS = 4096
pytestmark = [pytest.mark.invariant, pytest.mark.slow]


def chosen(drawn: Case, kind: str) -> int:
    """A transition where rules tie, where slots overlap, or where none applies."""
    for i in range(len(drawn.data)):
        world, call, _ = plain(drawn.data, i)
        firing = drawn.oracle.firing(world, call)
        marginals = drawn.oracle.marginals(world, call)
        members = len(drawn.oracle.rules[firing[0]].phi.members) if firing else 1
        overlap = any(len(mixture) > members for mixture in marginals.values())
        alone = len(firing) == 1
        shared = alone and len({o for (o, _), load in drawn.oracle.rules[firing[0]].loadings(world, call).items()}) > 1
        if {"tie": len(firing) > 1, "overlap": alone and overlap, "none": not firing, "together": shared}[kind]:
            return i
    raise AssertionError(f"no transition with {kind}")


SHARED, SHARED_OVERLAP = 16, 30
SITUATIONS = [(5, "tie"), (14, "overlap"), (14, "none"), (SHARED, "together")]
situations = pytest.mark.parametrize(("seed", "kind"), SITUATIONS)


@functools.cache
def draws(seed: int, kind: str) -> tuple[Case, int, np.ndarray]:
    drawn = pooled(seed)
    i = chosen(drawn, kind)
    sample = drawn.model.sample(drawn.data[np.full(DRAWS, i)], seed=11)
    return drawn, i, sample.reshape(DRAWS, 5, -1).astype(np.float64)


def cdf(mixture: Mixture, value: float) -> float:
    return math.fsum(w * 0.5 * (1 + math.erf((value - m) / math.sqrt(2 * v))) for w, m, v in mixture)


def quantile(mixture: Mixture, share: float) -> float:
    low, high = (side(m + 9 * s * math.sqrt(v) for _, m, v in mixture) for side, s in ((min, -1), (max, 1)))
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cdf(mixture, middle) < share else (low, middle)
    return low


@situations
def test_moments(seed: int, kind: str) -> None:
    drawn, i, sample = draws(seed, kind)
    world, call, _ = plain(drawn.data, i)
    for (o, name), (mean, variance) in drawn.oracle.moments(world, call).items():
        column = sample[:, o, drawn.data.domain.property_names.index(name)]
        assert abs(column.mean() - mean) < 4.5 * math.sqrt(variance / DRAWS)
        fourth = np.mean((column - column.mean()) ** 4)
        assert abs(column.var() - variance) < 4.5 * math.sqrt((fourth - variance**2) / DRAWS) + 1e-6


@situations
def test_coverage_of_every_interval(seed: int, kind: str) -> None:
    drawn, i, sample = draws(seed, kind)
    world, call, _ = plain(drawn.data, i)
    for (o, name), mixture in drawn.oracle.marginals(world, call).items():
        column = np.sort(sample[:, o, drawn.data.domain.property_names.index(name)])
        ranks = np.array([cdf(mixture, value) for value in column])
        distance = np.abs(ranks - (np.arange(DRAWS) + 0.5) / DRAWS).max()
        assert distance < 2.2 / math.sqrt(DRAWS)  # Kolmogorov: exceeded once in 10,000 values


@situations
def test_without_together_only_the_choice_of_a_rule_ties_values(seed: int, kind: str) -> None:
    drawn = each_for_itself(pooled(seed))
    i = chosen(pooled(seed), kind)
    sample = drawn.model.sample(drawn.data[np.full(DRAWS, i)], seed=11).reshape(DRAWS, 5, -1).astype(np.float64)
    world, call, _ = plain(drawn.data, i)
    names = drawn.data.domain.property_names
    keys = sorted(drawn.oracle.moments(world, call))
    seen = np.stack([sample[:, o, names.index(name)] for o, name in keys])
    centred = seen - seen.mean(axis=1, keepdims=True)
    for a in range(len(keys)):
        for b in range(a):
            product = centred[a] * centred[b]
            expected = drawn.oracle.covariance(world, call, keys[a], keys[b])
            assert abs(product.mean() - expected) < 4.8 * product.std() / math.sqrt(DRAWS) + 1e-6
    if kind == "tie":
        assert any(abs(drawn.oracle.covariance(world, call, a, b)) > 0.01 for a in keys for b in keys if a < b)


@pytest.mark.parametrize("seed", [SHARED, SHARED_OVERLAP])
def test_scores_of_draws_have_the_covariance_of_their_common_cause(seed: int) -> None:
    """cov(z_a, z_b) = (1 - apart) a_a a_b for two objects and one property; 0 for two properties."""
    drawn, i, sample = draws(seed, "together")
    world, call, _ = plain(drawn.data, i)
    rule = drawn.oracle.rules[drawn.oracle.firing(world, call)[0]]
    names, mixtures = drawn.data.domain.property_names, rule.mixtures(world, call)
    loads = {key: load for key, load in rule.loadings(world, call).items() if load}
    scores = {
        (o, name): np.array([normal_score(mixtures[o, name], v) for v in sample[:2000, o, names.index(name)]])
        for o, name in loads
    }
    apart = dict(zip(rule.language.dynamic, rule.copula[1], strict=True))  # type: ignore[index]
    tied = 0
    for a in loads:
        for b in loads:
            if a >= b:
                continue
            product = scores[a] * scores[b]
            expected = (1 - apart[a[1]]) * loads[a] * loads[b] if a[1] == b[1] else 0.0
            tied += abs(expected) > 0.1
            assert abs(product.mean() - expected) < 4.8 * product.std() / math.sqrt(len(product))
    assert tied


@situations
def test_static_properties_never_move(seed: int, kind: str) -> None:
    drawn, i, sample = draws(seed, kind)
    static = [c for c, p in enumerate(drawn.data.domain.properties) if p.static]
    here = drawn.data.states[i].values[:, static]
    np.testing.assert_array_equal(sample[:, :, static], np.broadcast_to(here, (DRAWS, 5, len(static))))


def test_the_expected_log_density_of_draws_is_the_oracles() -> None:
    drawn, i, sample = draws(5, "tie")
    world, call, _ = plain(drawn.data, i)
    names = drawn.data.domain.property_names
    joints, rng = drawn.oracle.joints(world, call), np.random.default_rng(0)

    def log_prob(values: np.ndarray) -> float:
        after = [type(world[0])(**dict(zip(names, row, strict=True))) for row in values.tolist()]
        return drawn.oracle.log_prob(world, call, after)

    def second_opinion() -> np.ndarray:
        values, which = drawn.data.states[i].values.astype(float), rng.integers(len(joints))
        rule = drawn.oracle.rules[drawn.oracle.firing(world, call)[which]]
        loads, cause = rule.loadings(world, call), {}
        for q, name in enumerate(rule.language.dynamic):
            cause[name] = rng.normal() if rule.copula and rng.random() > rule.copula[1][q] else None
        for (o, name), mixture in joints[which].items():
            load = loads.get((o, name), 0.0) if cause[name] is not None else 0.0
            score = load * (cause[name] or 0.0) + math.sqrt(1 - load**2) * rng.normal()
            values[o, names.index(name)] = quantile(mixture, 0.5 * math.erfc(-score / math.sqrt(2)))
        return values

    mine = np.array([log_prob(values) for values in sample[:1000]])
    theirs = np.array([log_prob(second_opinion()) for _ in range(1000)])
    assert abs(mine.mean() - theirs.mean()) < 4 * math.sqrt((mine.var() + theirs.var()) / 1000)


def test_a_draw_depends_on_the_seed_and_the_place_only() -> None:
    drawn, i, sample = draws(14, "overlap")
    copies, first = drawn.data[np.full(DRAWS, i)], sample.reshape(DRAWS * 5, -1).astype(np.float32)
    np.testing.assert_array_equal(first, drawn.model.sample(copies, seed=11))
    np.testing.assert_array_equal(first[: 5 * 4000], drawn.model.sample(copies[:4000], seed=11))
    assert not np.array_equal(first, drawn.model.sample(copies, seed=12))
    assert len(np.unique(sample[:, 0], axis=0)) == DRAWS
