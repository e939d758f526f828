"""The queue world draws from the model that it says it draws from."""

from __future__ import annotations

import numpy as np
import pytest

import spare
from spare.lab.worlds import queue as toy


@pytest.mark.slow
def test_the_true_model_is_true() -> None:
    data = toy.generate(600, 5, lines=2, longest=3)
    data = data[data.counts > 4]  # one size of batch, so one compilation
    model = toy.true_model()
    found = model.log_prob_values(data)
    entropy = -0.5 * np.log(2 * np.pi * np.e)
    mean, std = model.moments(data)
    z = ((data.next_values - mean) / np.where(std > 0, std, 1))[:, :2]
    expected = entropy - np.log(std[:, :2])
    assert abs((found - expected).mean()) < 4 * np.sqrt(0.5 / found.size)
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / z.size)
    moved = std[:, 0] > 2 * toy.REST
    assert moved.sum() == 3 * len(data)
    assert abs(z[moved].var() - 1) < 4 * np.sqrt(2 / z[moved].size)


def test_a_sample_depends_on_the_seed_and_its_index_only() -> None:
    whole, part = toy.generate(6, 3), toy.generate(4, 3)
    np.testing.assert_array_equal(whole[:4].values, part.values)
    np.testing.assert_array_equal(whole[:4].next_values, part.next_values)
    assert toy.generate(4, 4).fingerprint != part.fingerprint
    assert part.metadata["seed"] == 3


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"followers": 4}, {"followers": -1}, {"lines": 0}, {"longest": 2}])
def test_impossible_worlds(wrong: dict) -> None:
    with pytest.raises(spare.UsageError, match="queue: "):
        toy.generate(**{"samples": 3, "seed": 0, **wrong})
