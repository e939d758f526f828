"""What every baseline promises, as every transition model does."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import spare
from spare.lab.baselines.simple import no_change, oracle_references
from spare.lab.worlds import queue as toy
from spare.learning.presets import PRESETS
from spare.testing import check_model
from tests.lab.baselines import worlds

pytestmark = pytest.mark.slow

MODELS = {
    "flat": (worlds.flat, worlds.queue),
    "ensemble": (worlds.ensemble, worlds.queue),
    "graph": (worlds.graph, worlds.queue),
    "framed": (worlds.framed, worlds.pushes),
    "no-change": (lambda: no_change(toy.domain, worlds.queue()), worlds.queue),
}


@pytest.fixture(params=list(MODELS))
def case(request: pytest.FixtureRequest) -> tuple[object, spare.Experience]:
    make, data = MODELS[request.param]
    return make(), data()[:20]


def test_it_is_a_transition_model_and_its_values_sum_to_its_likelihood(case: tuple) -> None:
    model, data = case
    values = model.log_prob_values(data)
    assert isinstance(model, spare.TransitionModel)
    assert values.shape == (len(data.values), len(data.domain.dynamic))
    np.testing.assert_allclose(np.add.reduceat(values.sum(axis=1), data.offsets[:-1]), model.log_prob(data), rtol=1e-4)


def test_a_part_of_the_data_gets_the_same_numbers(case: tuple) -> None:
    model, data = case
    np.testing.assert_allclose(model.log_prob(data)[7:9], model.log_prob(data[7:9]), rtol=1e-4, atol=1e-3)


def test_the_contract(case: tuple) -> None:
    """Shapes, determinism, indifference to order and names, and draws that follow the density, in a frame too."""
    model, data = case
    check_model(model, data).require()


def test_samples_depend_on_the_seed_and_the_transition_alone(case: tuple) -> None:
    model, data = case
    np.testing.assert_allclose(
        model.sample(data, 1)[: data.offsets[5]], model.sample(data[:5], 1), rtol=1e-5, atol=1e-6
    )


def test_explanations_name_every_object() -> None:
    data = worlds.queue()
    text = worlds.graph().predict(data.states[0], data.actions[0]).explain()
    assert all(f"  {one}: x " in text for one in data.states[0].ids)


def test_data_of_another_domain_are_refused(data: spare.Experience) -> None:
    with pytest.raises(spare.DataError, match="the data belong to"):
        worlds.graph().log_prob(data)


def test_nothing_moves_has_the_empirical_variance() -> None:
    data = worlds.queue()
    model = no_change(toy.domain, data)
    moved = data.next_values[:, :2].astype(np.float64) - data.values[:, :2]
    np.testing.assert_allclose(
        np.square(moved).mean(axis=0), model.noise.resolved(toy.domain.resolutions).variance, rtol=1e-4
    )


def test_given_lists_are_the_rule() -> None:
    data = worlds.queue()
    shell = toy.true_shell(2)
    default = PRESETS["shared"]
    training = dataclasses.replace(default.training, members=1, steps=300)
    search = dataclasses.replace(default.search, folds=1)
    one = dataclasses.replace(default, training=training, search=search, final=None)
    model = oracle_references(toy.domain, data[:200], shell, seed=0, preset=one)
    assert model.rules[0].gamma == model.rules[0].delta == shell
    test = data[200:]
    true = toy.true_model(2).log_prob(test).mean()
    assert no_change(toy.domain, data[:200]).log_prob(test).mean() + 2 < model.log_prob(test).mean() < true + 0.5


def test_one_action_at_a_time(data: spare.Experience) -> None:
    with pytest.raises(spare.FitError, match="one action"):
        oracle_references(data.domain, data.weighted([1.0, 1.0, 1.0]), spare.Shell(1), seed=0)
