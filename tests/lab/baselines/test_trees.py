"""Boosted trees, and networks for several actions: contract, several actions, what they learn."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

import spare
from spare.lab.baselines.flat import PETS, fit_flat
from spare.lab.baselines.graph import GraphSettings, fit_graph
from spare.lab.baselines.several import PerAction, fit_each
from spare.lab.baselines.simple import no_change
from spare.lab.baselines.trees import Trees, TreeSettings, fit_trees
from spare.lab.worlds import drag, masses, vehicle, wind
from spare.testing import check_model

SMALL = TreeSettings(most=60, variance=20, folds=3)


@functools.cache
def belts() -> spare.Experience:
    return masses.generate(120, 0, objects=6)


@functools.cache
def trees() -> Trees:
    return fit_trees(masses.domain, belts(), seed=0, settings=SMALL)


@pytest.mark.slow
def test_trees_keep_the_contract_with_several_actions_and_any_number_of_objects() -> None:
    check_model(trees(), masses.generate(30, 1)).require()


@pytest.mark.slow
def test_trees_keep_the_contract_in_a_frame_with_angles() -> None:
    check_model(
        fit_trees(vehicle.domain, vehicle.generate(80, 0), seed=0, settings=SMALL), vehicle.generate(20, 1)
    ).require()


def test_trees_know_which_action_it_is() -> None:
    """A jolt moves x and never z, raising the other way round: on unseen transitions, errors are far below changes."""
    test = masses.generate(80, 1, objects=6)
    moved, after = masses.movers(test), test.next_values
    error, change = (np.abs(other - after)[moved][:, [0, 2]].mean() for other in (trees().mean(test), test.values))
    assert error < 0.5 * change
    nothing = no_change(masses.domain, belts())
    assert trees().log_prob_values(test)[moved].mean() > nothing.log_prob_values(test)[moved].mean() + 0.5


def test_trees_find_a_drift_and_its_noise() -> None:
    data, test = wind.generate(200, 0, objects=4), wind.generate(100, 1, objects=4)
    found = fit_trees(wind.domain, data, seed=0, settings=SMALL)
    assert found.log_prob_values(test).mean() > wind.truth.log_prob_values(test).mean() - 0.3
    again = fit_trees(wind.domain, data, seed=0, settings=SMALL)
    np.testing.assert_array_equal(found.log_prob(test), again.log_prob(test))


def test_variances_follow_the_data() -> None:
    """Rows whose noise is ten times as large get a larger variance."""
    rng, data = np.random.default_rng(0), drag.generate(200, 0, objects=4)
    noise = np.where(data.values[:, 4] > 1.0, 0.3, 0.03)[:, None] * rng.standard_normal((len(data.values), 5))
    after = data.values + np.where([p.static for p in drag.domain.properties], 0.0, noise)
    noisy = dataclasses.replace(data, next_values=after.astype(np.float32))
    spread = fit_trees(drag.domain, noisy, seed=0, settings=SMALL).moments(noisy)[1][:, 0]
    heavy = data.values[:, 4] > 1.0
    assert np.median(spread[heavy]) > 4 * np.median(spread[~heavy])


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(spare.DefinitionError, match="trees: "):
        TreeSettings(folds=1)


@pytest.mark.slow
def test_a_flat_network_works_in_the_frame() -> None:
    """In its frame a hit looks the same in every direction: fewer errors than in the world, and the same contract."""
    data, test = drag.generate(150, 0, objects=3), drag.generate(60, 1, objects=3)
    training = dataclasses.replace(PETS.training, members=1, steps=600)
    models = [
        fit_flat(drag.domain, data, seed=0, settings=dataclasses.replace(PETS, training=training, framed=framed))
        for framed in (True, False)
    ]
    own = test.offsets[:-1] + test.objects[:, 0]
    framed, plain = (np.abs(one.mean(test) - test.next_values)[own, :4].mean() for one in models)
    assert framed < plain
    check_model(models[0], test[:20]).require()


@pytest.mark.slow
def test_networks_of_several_actions_are_one_model() -> None:
    settings = GraphSettings(steps=100, hidden=16, members=1)
    model = fit_each(functools.partial(fit_graph, seed=0, settings=settings), masses.domain, belts())
    assert isinstance(model, PerAction)
    assert list(model.models) == ["jolt", "raise"]
    check_model(model, masses.generate(20, 1)).require()
    jolts = belts()[np.flatnonzero(belts().action == 0)]
    alone = fit_each(functools.partial(fit_graph, seed=0, settings=settings), masses.domain, jolts)
    np.testing.assert_allclose(alone.log_prob(jolts), model.log_prob(jolts), rtol=1e-5)
    with pytest.raises(spare.DataError, match="'jolt', not on 'raise'"):
        alone.log_prob(belts())
    with pytest.raises(spare.DataError, match="no transitions of it were learned from"):
        PerAction(masses.domain, {"jolt": model.models["jolt"]}).log_prob(belts())
