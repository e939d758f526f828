"""The graph network against plain loops, its symmetries, and that it is worth comparing with."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.lab.baselines.flat import fit_flat
from spare.lab.baselines.graph import GraphSettings, fit_graph
from spare.lab.baselines.graph_data import edge_list, nearest
from spare.lab.baselines.graph_net import Edges, fresh_net
from spare.lab.baselines.simple import no_change
from spare.lab.worlds import push
from spare.lab.worlds import queue as toy
from spare.learning.dataset import observe_rows
from spare.model.predictors import Network
from tests.lab.baselines import worlds

pytestmark = pytest.mark.slow


def test_the_network_in_plain_loops() -> None:
    """One message per edge, summed over the edges that arrive, for a graph with a node that hears nobody."""
    rng = np.random.default_rng(0)
    net = fresh_net(jax.random.key(0), (4, 2, 3), 5, 2)
    nodes, values = rng.normal(size=(4, 4)).astype("f4"), rng.normal(size=(4, 2)).astype("f4")
    pairs, padding = [(1, 0), (2, 0), (0, 1), (3, 1), (0, 2)], [(0, 3)]
    senders, receivers = (jnp.array(side) for side in zip(*pairs, *padding, strict=True))
    mean, raw = eqx.filter_jit(net)(
        jnp.asarray(nodes), jnp.asarray(values), Edges(senders, receivers, jnp.arange(6) < 5)
    )
    h = [_plain(net.encode, row) for row in nodes]
    for one in net.rounds:
        told = [_plain(one.sender, row) for row in h]
        fresh = []
        for i in range(4):
            total = np.zeros(5)
            for j, k in pairs:
                if k == i:
                    gap = values[j] - values[i]
                    sent = told[j] + _plain(one.receiver, h[i]) + _plain(one.pair, np.append(gap, np.linalg.norm(gap)))
                    total += sent / (1 + np.exp(-sent))
            fresh.append(h[i] + _plain(one.update, np.concatenate([h[i], _plain(one.message, total)])))
        h = fresh
    expected = np.stack([_plain(net.decode, row) for row in h])
    np.testing.assert_allclose(np.concatenate([mean, raw], axis=1), expected, rtol=2e-4, atol=1e-5)


def _plain(net: Network, x: np.ndarray) -> np.ndarray:
    """A fully connected net with SiLU between its layers."""
    for k, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        x = x / (1 + np.exp(-x)) if k else x
        x = x @ np.asarray(weight, np.float64) + np.asarray(bias)
    return x


def test_nearest_is_brute_force() -> None:
    points = np.random.default_rng(3).normal(size=(30, 3))
    apart = np.square(points[:, None] - points[None]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    assert np.array_equal(nearest(points, 4), np.argsort(apart, axis=1)[:, :4])


def test_nearest_of_objects_in_one_place_never_names_itself() -> None:
    found = nearest(np.zeros((7, 2)), 3)
    assert found.shape == (7, 3)
    assert not np.any(found == np.arange(7)[:, None])


def test_edges_are_all_pairs_or_the_nearest() -> None:
    data = toy.generate(6, 1)
    seen = observe_rows(data, "usher", framed=False)
    senders, receivers, counts = edge_list(data, seen, None)
    assert np.array_equal(counts, data.counts * (data.counts - 1))
    assert not np.any(senders == receivers)
    first = set(zip(senders[: counts[0]].tolist(), receivers[: counts[0]].tolist(), strict=True))
    assert len(first) == counts[0]
    _, receivers, counts = edge_list(data, seen, 2)
    assert np.array_equal(counts, np.minimum(2, data.counts - 1) * data.counts)
    assert np.array_equal(np.bincount(receivers[: counts[0]]), np.full(data.counts[0], min(2, data.counts[0] - 1)))


def test_the_order_of_objects_does_not_matter() -> None:
    data = worlds.queue()[:30]
    moved, index = worlds.reordered(data, 2)
    model = worlds.graph()
    np.testing.assert_allclose(model.log_prob_values(moved), model.log_prob_values(data)[index], rtol=1e-3, atol=1e-3)


def test_any_number_of_objects() -> None:
    """Trained on queues of three, asked about states of 1 to 15 people; each state's answer is its own."""
    model, data = worlds.graph(), toy.generate(40, 3)
    assert len(np.unique(data.counts)) > 3
    both = model.log_prob(data)
    assert np.isfinite(both).all()
    np.testing.assert_allclose(both[4:6], model.log_prob(data[4:6]), rtol=1e-3, atol=1e-2)
    alone = spare.State(("me",), np.array([[0.0, 0.0, 70.0]], np.float32))
    assert model.predict(alone, spare.ActionCall("usher", ("me",), (0.5,))).mean.shape == (1, 3)


def test_it_beats_the_flat_network_and_no_change_clearly_on_queues() -> None:
    test = worlds.queue(200, 9)
    scores = {name: model.log_prob(test).mean() for name, model in _rivals().items()}
    assert scores["graph"] > scores["no-change"] + 3
    assert scores["graph"] > scores["flat"] + 3
    assert scores["graph"] < toy.true_model(2).log_prob(test).mean() + 0.5


def _rivals() -> dict:
    data = worlds.queue()
    return {
        "graph": worlds.graph(),
        "flat": fit_flat(toy.domain, data, seed=0),
        "no-change": no_change(toy.domain, data),
    }


def test_it_beats_no_change_on_mixed_numbers_of_objects() -> None:
    train, test = toy.generate(150, 0, lines=2), toy.generate(60, 1, lines=2)
    model = fit_graph(toy.domain, train, seed=0, settings=dataclasses.replace(worlds.SHORT, neighbours=4, steps=400))
    assert model.log_prob(test).mean() > no_change(toy.domain, train).log_prob(test).mean() + 8


def test_the_same_seed_gives_the_same_network() -> None:
    again = fit_graph(toy.domain, worlds.queue(), seed=0, settings=worlds.SHORT, threads=1)
    assert np.array_equal(again.log_prob(worlds.queue()), worlds.graph().log_prob(worlds.queue()))


def test_the_frame_and_its_mirror() -> None:
    """In the frame a world turned about the vertical axis looks the same, but for the heading itself."""
    model, data = worlds.framed(), worlds.pushes()
    assert model.framed
    assert len(model.nets) == 2
    values = model.log_prob_values(data)
    assert np.isfinite(values).all()
    assert model.log_prob(data).mean() > no_change(push.domain, data).log_prob(data).mean()


@pytest.mark.parametrize("wrong", [{"hidden": 0}, {"neighbours": 0}, {"learning_rate": 1.5}, {"members": 0}])
def test_settings_that_make_no_sense(wrong: dict) -> None:
    with pytest.raises(spare.DefinitionError, match="graph network"):
        GraphSettings(**wrong)
