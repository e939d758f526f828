"""What every baseline promises, as every transition model does."""

from __future__ import annotations

import numpy as np
import pytest

import spare
from spare.baselines.simple import no_change, oracle_references
from spare.domains import toy
from tests.baselines import worlds

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


def test_prediction_is_the_mean_and_deviation_of_samples(case: tuple) -> None:
    model, data = case
    expected = model.predict(data.states[3], data.actions[3])
    one = data[3:4]
    draws = np.stack([model.sample(one, seed) for seed in range(300)])
    dynamic = list(data.domain.dynamic)
    error = expected.std[:, dynamic].max() / np.sqrt(300)
    np.testing.assert_allclose(draws.mean(axis=0)[:, dynamic], expected.mean[:, dynamic], atol=5 * error)
    np.testing.assert_allclose(draws.std(axis=0)[:, dynamic], expected.std[:, dynamic], rtol=0.25)
    static = [c for c in range(len(data.domain.properties)) if c not in dynamic]
    assert np.array_equal(draws[0][:, static], one.values[:, static])


def test_samples_depend_on_the_seed_and_the_transition_alone(case: tuple) -> None:
    model, data = case
    first = model.sample(data, 1)
    np.testing.assert_allclose(first[: data.offsets[5]], model.sample(data[:5], 1), rtol=1e-5, atol=1e-6)
    assert not np.array_equal(first, model.sample(data, 2))


def test_likelihood_of_its_own_samples_is_what_its_entropy_says() -> None:
    """For one member E[-log p] = sum log(2 pi e var) / 2: density and samples agree, in a frame too."""
    model, data = worlds.graph(), worlds.queue()[:20]
    _, std = model.moments(data)
    entropy = 0.5 * np.log(2 * np.pi * np.e * np.square(std[:, :2].astype(np.float64)))
    found = []
    for seed in range(40):
        again = spare.Experience.from_arrays(
            data.domain,
            values=data.values,
            next_values=model.sample(data, seed),
            offsets=data.offsets,
            action=data.action,
            objects=data.objects,
            parameters=data.parameters,
        )
        found.append(model.log_prob(again).mean())
    assert np.mean(found) == pytest.approx(-entropy.sum() / len(data), abs=0.15)


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
    np.testing.assert_allclose(np.square(moved).mean(axis=0), model.default_spread(), rtol=1e-4)


def test_given_lists_are_the_rule() -> None:
    data = worlds.queue()
    shell = toy.true_shell(2)
    model = oracle_references(toy.domain, data[:200], shell, seed=0)
    assert model.rules[0].gamma == model.rules[0].delta == shell
    test = data[200:]
    true = toy.true_model(2).log_prob(test).mean()
    assert no_change(toy.domain, data[:200]).log_prob(test).mean() + 2 < model.log_prob(test).mean() < true + 0.5


def test_one_action_at_a_time(data: spare.Experience) -> None:
    with pytest.raises(spare.FitError, match="one action"):
        oracle_references(data.domain, data.weighted([1.0, 1.0, 1.0]), spare.Shell(1), seed=0)
