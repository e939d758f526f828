"""One residual network for means and variances, in the place of two plain ones."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.commands.inspect import Inspect
from spare.lab.worlds import queue as toy
from spare.learning.cache import open_run
from spare.learning.engine import cut_network, initial_nets
from spare.learning.fit import fit
from spare.learning.presets import PRESETS, Preset, Training
from spare.learning.train import fit_predictors
from spare.model.predictors import Network, Predictor
from tests.learning.helpers import fit_shell

pytestmark = pytest.mark.slow

TRUE = toy.true_shell(1)


def preset(final: Training | None = None, **more: Any) -> Preset:
    """The preset `default` with one short training of small residual networks."""
    base = PRESETS["shared"]
    settings: dict[str, Any] = {"hidden": (24,) * 3, "family": "residual", "steps": 600, "members": 2}
    training = dataclasses.replace(base.training, **(settings | more))
    search = dataclasses.replace(base.search, folds=1)
    return dataclasses.replace(base, training=training, search=search, final=final)


def test_it_learns_the_queue() -> None:
    data, held_out = toy.generate(600, seed=0, followers=1), toy.generate(200, seed=9, followers=1)
    fitted, dataset, _ = fit_shell(data, TRUE, preset(), longest=3)
    model = spare.Model(data.domain, [fitted.rule(dataset)], np.ones(2))
    gap = toy.true_model(1).log_prob(held_out).mean() - model.log_prob(held_out).mean()
    assert -0.1 < gap < 1.0
    predictor = model.rules[0].predictor
    assert isinstance(predictor, Predictor)
    assert predictor.variance_net is None
    assert [w.shape for w in predictor.mean_net.weights] == [(2, 7, 24), (2, 24, 24), (2, 24, 24), (2, 24, 8)]


def test_what_was_trained_is_what_the_rule_says() -> None:
    """Padded and cut networks agree, with two heads whose padding lies between them."""
    data = toy.generate(200, seed=1, followers=1)
    fitted, dataset, plan = fit_shell(data, TRUE, preset(members=1), longest=3)
    assert plan.capacity.slots > 2
    rule = fitted.rule(dataset)
    model = spare.Model(data.domain, [rule], np.ones(2))
    np.testing.assert_allclose(fitted.log_prob, model.log_prob(data), rtol=2e-4, atol=2e-3)


def test_a_cache_brings_it_back_bit_for_bit(tmp_path: pathlib.Path) -> None:
    data = toy.generate(60, seed=2, followers=1)
    fitted, dataset, plan = fit_shell(data, TRUE, preset(steps=50), longest=2)
    found, reused = [], []
    for _ in range(2):
        cache = open_run(tmp_path / "run", {})
        found.append(fit_predictors(dataset, [(TRUE, TRUE)], dataclasses.replace(plan, cache=cache))[0])
        reused.append(cache.reused)
        cache.close(finished=False)
    assert reused == [0, 1]
    for again in found:
        assert {*again.arrays()} == {*fitted.arrays()}
        for name, array in fitted.arrays().items():
            assert array.tobytes() == again.arrays()[name].tobytes()
        assert str(again.rule(dataset)) == str(fitted.rule(dataset))


def test_only_the_real_outputs_of_both_heads_start_away_from_zero() -> None:
    data = toy.generate(20, seed=0)
    _, _, plan = fit_shell(data, spare.Shell(1), preset(steps=25), longest=2)
    nets = initial_nets(preset().training, plan.capacity, (4, 2), np.random.default_rng(0))
    assert nets.variance is None
    last = np.asarray(nets.mean.weights[-1])
    half = plan.capacity.slots * plan.capacity.quantities
    assert np.flatnonzero(last.any(axis=0)).tolist() == [0, 1, half, half + 1]
    cut = cut_network(nets.mean, 4, 2)
    np.testing.assert_array_equal(cut.weights[-1], last[:, [0, 1, half, half + 1]])
    np.testing.assert_array_equal(cut.weights[0], nets.mean.weights[0][:4])


def test_a_search_may_end_with_residual_networks(tmp_path: Any, capsys: Any) -> None:
    """Candidates have two plain networks; the ensemble of what was found has residual ones, and is saved so."""
    data = toy.generate(200, seed=3, followers=1)
    final = preset(hidden=(24,) * 5, steps=300).training
    chosen = preset(final, family="networks", hidden=(24, 24), steps=300)
    model = fit(data.domain, data, seed=0, preset=chosen, max_references=1, refine=False).model
    predictor = model.rules[0].predictor
    assert isinstance(predictor, Predictor)
    assert predictor.variance_net is None
    assert len(predictor.mean_net.weights) == 6
    model.save(tmp_path / "a.spare")
    again = spare.load(tmp_path / "a.spare")
    np.testing.assert_array_equal(again.log_prob(data), model.log_prob(data))
    Inspect(tmp_path / "a.spare").run()
    assert "network of 6 layers (silu), 2 in the ensemble" in capsys.readouterr().out


@pytest.mark.parametrize("hidden", [(64, 64), (64,), (64, 32, 64), (64,) * 4])
def test_hidden_layers_that_cannot_skip_are_refused(hidden: tuple[int, ...]) -> None:
    with pytest.raises(spare.DefinitionError, match="equal hidden layers"):
        Training(phases=("joint",), family="residual", hidden=hidden)


def test_phases_of_one_network_are_refused() -> None:
    with pytest.raises(spare.DefinitionError, match="joint phases"):
        Training(family="residual", hidden=(8, 8, 8))


def test_a_predictor_has_two_plain_networks_or_a_residual_one() -> None:
    def net(skips: bool) -> Network:
        shapes = ((2, 3), (3, 3), (3, 3), (3, 2))
        weights, biases = (tuple(np.zeros((1, *s[k:])) for s in shapes) for k in (0, 1))
        return Network(weights, biases, "relu", skips)

    parts: Any = (jnp.zeros(2), jnp.ones(2), jnp.zeros((1, 1)), jnp.ones((1, 1)))
    Predictor(net(skips=True), None, *parts)
    for pair in ((net(skips=False), None), (net(skips=True), net(skips=False)), (net(skips=False), net(skips=True))):
        with pytest.raises(spare.DefinitionError, match="one net with skips"):
            Predictor(*pair, *parts)
