"""The library against the plain-Python oracle, on random domains, shells, states and models."""

from __future__ import annotations

import dataclasses
import random

import jax
import numpy as np
import pytest
from hypothesis import given
from tests.oracle import OracleModel
from tests.strategies import BUCKETS, Case, case, choices, plain, plan, seeds

import spare


@dataclasses.dataclass
class Answers:
    """Everything that is compared, in the layout of an experience."""

    log_prob: np.ndarray
    log_values: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def of_library(model: spare.Model, data: spare.Experience) -> Answers:
    columns = np.array(data.domain.dynamic)
    mean, std = model.moments(data)
    return Answers(model.log_prob(data), model.log_prob_values(data), mean[:, columns], std[:, columns])


def of_oracle(model: OracleModel, data: spare.Experience) -> Answers:
    names = data.domain.dynamic_names
    result: list[list] = [[], [], [], []]
    for i in range(len(data)):
        world, call, after = plain(data, i)
        values, moments = model.log_values(world, call, after), model.moments(world, call)
        result[0].append(model.log_prob(world, call, after))
        for o in range(len(world)):
            result[1].append([values[o, name] for name in names])
            result[2].append([moments[o, name][0] for name in names])
            result[3].append([moments[o, name][1] ** 0.5 for name in names])
    return Answers(*(np.array(part) for part in result))


def agree(drawn: Case, bound: float) -> None:
    ours, theirs = of_library(drawn.model, drawn.data), of_oracle(drawn.oracle, drawn.data)
    for field in dataclasses.fields(Answers):
        mine, other = getattr(ours, field.name), getattr(theirs, field.name)
        error = np.abs(mine - other) / (1 + np.abs(other))
        limit = max(bound, 1e-6) if field.name in ("mean", "std") else bound  # these two come back in float32
        assert mine.shape == other.shape
        assert np.all(error <= limit), (field.name, float(error.max()), str(drawn.model))


@given(choices, seeds)
def test_density_and_moments_in_float64(rnd: random.Random, seed: int) -> None:
    with jax.enable_x64(True):
        agree(case(plan(rnd), seed), 1e-10)


@given(choices, seeds)
def test_tied_rules_in_float32(rnd: random.Random, seed: int) -> None:
    agree(case(plan(rnd, ties=True), seed), 1e-5)


@pytest.mark.parametrize("bucket", ["one", "sixty"])
@given(rnd=choices, seed=seeds)
def test_one_object_and_sixty_in_float32(bucket: str, rnd: random.Random, seed: int) -> None:
    agree(case(plan(rnd), seed, transitions=4, objects=BUCKETS[bucket]), 1e-5)


@given(choices, seeds)
def test_who_is_pointed_at_and_scores(rnd: random.Random, seed: int) -> None:
    drawn = case(plan(rnd), seed, transitions=8)
    for i in range(len(drawn.data)):
        world, call, _ = plain(drawn.data, i)
        answers = drawn.model.predict(drawn.data.states[i], drawn.data.actions[i]).rules
        scores = [answer.rule.score if answer.applies else 0 for answer in answers]
        assert scores == drawn.oracle.scores(world, call)
        assert [k for k, answer in enumerate(answers) if answer.fires] == drawn.oracle.firing(world, call)
        for answer, rule in zip(answers, drawn.oracle.rules, strict=True):
            if answer.applies:
                np.testing.assert_allclose(answer.x, rule.x(world, call), rtol=1e-5, atol=1e-5)
