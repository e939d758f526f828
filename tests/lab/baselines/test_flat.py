"""The flat network: orders, fixed sizes, and what early stopping changes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import spare
from spare.lab.baselines.flat import PAPER, fit_flat, ordering
from spare.lab.worlds import push
from spare.lab.worlds import queue as toy
from tests.lab.baselines import worlds

pytestmark = pytest.mark.slow


def test_the_target_comes_first_in_every_order() -> None:
    data = worlds.pushes()
    for order in ("none", "xtheny", "stack"):
        rows = ordering(data, "push", dataclasses.replace(PAPER, order=order))
        assert np.array_equal(rows[:, 0], data.offsets[:-1] + data.objects[:, 0])
        assert np.array_equal(np.sort(rows, axis=1), np.arange(len(data.values)).reshape(rows.shape))


def test_xtheny_sorts_the_rest_by_position_and_none_leaves_it() -> None:
    data = worlds.pushes()
    rest = ordering(data, "push", PAPER)[:, 1:]
    assert np.all(np.diff(data.values[rest, 0], axis=1) >= 0)
    assert np.array_equal(
        ordering(data, "push", dataclasses.replace(PAPER, order="none"))[:, 1:],
        np.arange(len(data.values)).reshape(len(data), -1)[:, 1:],
    )


def test_equal_x_is_decided_by_y() -> None:
    values = np.array([[5.0, 5.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 1.0], [0.0, 9.0, 1.0]], np.float32)
    data = spare.Experience.from_arrays(
        toy.domain,
        values=values,
        next_values=values,
        offsets=[0, 4],
        action=[0],
        objects=[[0]],
        parameters=[[0.5]],
    )
    assert ordering(data, "usher", PAPER).tolist() == [[0, 3, 2, 1]]


def test_stack_lists_the_stack_from_the_bottom_up() -> None:
    data = worlds.pushes()
    rows = ordering(data, "push", dataclasses.replace(PAPER, order="stack"))
    assert np.array_equal(data.ids[rows[:, :3]], np.tile([0, 1, 2], (len(data), 1)))
    assert np.all(np.diff(data.values[rows[:, 3:], 0], axis=1) >= 0)


def test_sorting_makes_the_order_of_the_data_irrelevant() -> None:
    data = worlds.queue()[:30]
    moved, _ = worlds.reordered(data, 1)
    np.testing.assert_allclose(worlds.flat().log_prob(moved), worlds.flat().log_prob(data), rtol=1e-5)


def test_states_of_other_sizes_are_refused() -> None:
    other = toy.generate(10, 0, followers=2, lines=1, longest=5)
    with pytest.raises(spare.DataError, match=r"fixed number of objects: transition 0 has \d, transition \d+ has \d"):
        fit_flat(toy.domain, other, seed=0)
    four = other[np.flatnonzero(other.counts == 4)]
    with pytest.raises(spare.DataError, match="takes states of 3 objects; transition 0 has 4"):
        worlds.flat().log_prob(four)


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(spare.DefinitionError, match="unknown order 'size'; valid: none, xtheny, stack"):
        dataclasses.replace(PAPER, order="size")


def test_the_same_seed_gives_the_same_network() -> None:
    again = fit_flat(toy.domain, worlds.queue(), seed=0, settings=worlds.brief(PAPER))
    assert np.array_equal(again.log_prob(worlds.queue()), worlds.flat().log_prob(worlds.queue()))


def test_members_of_an_ensemble_differ() -> None:
    weights = worlds.ensemble().predictor.mean_net.weights[0]
    assert weights.shape[0] == 2
    assert not np.array_equal(weights[0], weights[1])


def test_push_densities_are_comparable_with_ours() -> None:
    """The same Gaussian, said by a flat network and by a rule, has the same density."""
    data = worlds.pushes()
    model = fit_flat(push.domain, data, seed=0, settings=worlds.brief(PAPER))
    mean, std = model.moments(data)
    dynamic = list(push.domain.dynamic)
    z = (data.next_values[:, dynamic] - mean[:, dynamic]) / std[:, dynamic]
    expected = -0.5 * (np.square(z) + np.log(2 * np.pi)) - np.log(std[:, dynamic])
    np.testing.assert_allclose(model.log_prob_values(data), expected, rtol=1e-3, atol=2e-3)
    assert std[:, dynamic].min() >= 1e-3
