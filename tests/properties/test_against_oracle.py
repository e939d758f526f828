"""The library against the plain-Python oracle, on random domains, shells, states and models."""

from __future__ import annotations

import random

import jax
import numpy as np
import pytest
from hypothesis import given

from tests.properties.answers import assert_close, of_library, of_oracle, pool, pooled
from tests.strategies import BUCKETS, MANY, case, choices, examples, plain, plan, seeds, thorough, transitions

pytestmark = [pytest.mark.invariant, pytest.mark.slow]


@examples(6, per=MANY)
@given(choices, seeds)
def test_random_models_in_float64(rnd: random.Random, seed: int) -> None:
    with jax.enable_x64(True):
        drawn = case(plan(rnd), seed, transitions=transitions(20))
        assert_close(of_library(drawn.model, drawn.data), of_oracle(drawn.oracle, drawn.data), 1e-10, drawn.model)


@examples(3, per=MANY)
@given(choices, seeds)
def test_tied_rules_in_float32(rnd: random.Random, seed: int) -> None:
    drawn = case(plan(rnd, ties=True), seed, transitions=transitions(20))
    assert_close(of_library(drawn.model, drawn.data), of_oracle(drawn.oracle, drawn.data), 1e-5, drawn.model)


@pytest.mark.parametrize("bucket", ["one", "sixty"])
@examples(3, per=MANY)
@given(rnd=choices, seed=seeds)
def test_one_object_and_sixty_in_float32(bucket: str, rnd: random.Random, seed: int) -> None:
    drawn = case(plan(rnd, rules=2), seed, transitions=transitions(4), objects=BUCKETS[bucket])
    assert_close(of_library(drawn.model, drawn.data), of_oracle(drawn.oracle, drawn.data), 1e-5, drawn.model)


@pool(14)
def test_the_public_functions_say_the_same(seed: int) -> None:
    drawn = pooled(seed)
    data, columns = drawn.data, np.array(drawn.data.domain.dynamic)
    theirs = of_oracle(drawn.oracle, data)
    np.testing.assert_allclose(drawn.model.log_prob(data), theirs.log_prob, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(drawn.model.log_prob_values(data), theirs.log_values, rtol=1e-5, atol=1e-5)
    mean, std = drawn.model.moments(data)
    np.testing.assert_allclose(mean[:, columns], theirs.mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(std[:, columns] ** 2, theirs.variance, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(drawn.model.mean(data), mean)
    static = [c for c in range(mean.shape[1]) if c not in columns]
    np.testing.assert_array_equal(mean[:, static], data.values[:, static])
    assert not std[:, static].any()


@pool(5)
def test_predict_points_at_the_same_objects(seed: int) -> None:
    drawn = pooled(seed)
    count = len(drawn.data) if thorough() else 20
    theirs = of_oracle(drawn.oracle, drawn.data[:count])
    for i in range(count):
        world, call, _ = plain(drawn.data, i)
        prediction = drawn.model.predict(drawn.data.states[i], drawn.data.actions[i])
        firing = [k for k, answer in enumerate(prediction.rules) if answer.fires]
        assert firing == drawn.oracle.firing(world, call)
        rows, columns = slice(*drawn.data.offsets[i : i + 2]), np.array(drawn.data.domain.dynamic)
        np.testing.assert_allclose(prediction.mean[:, columns], theirs.mean[rows], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(prediction.std[:, columns] ** 2, theirs.variance[rows], rtol=1e-5, atol=1e-5)
        for answer, rule in zip(prediction.rules, drawn.oracle.rules, strict=True):
            assert answer.applies == (rule.score(world, call) > 0)
            if answer.applies:
                np.testing.assert_allclose(answer.x, rule.x(world, call), rtol=1e-5, atol=1e-5)
                assert len(answer.x) == len(answer.rule.input_names)
