"""Padded batches cover every transition once, with few shapes."""

from __future__ import annotations

import numpy as np
import pytest

import spare
from spare.data.scene import batches, round_up
from spare.lab.worlds import queue as toy


def test_rounding_up_wastes_at_most_a_third() -> None:
    sizes = [round_up(count) for count in range(1, 5000)]
    assert sizes[:12] == [1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12, 12]
    for count, size in enumerate(sizes, start=1):
        assert count <= size
        assert size - count < size / 3 or count == size
    assert len(set(sizes)) < 30


@pytest.mark.parametrize("cells", [1, 20, 100, 1 << 18])
def test_every_transition_once(cells: int) -> None:
    data = toy.generate(70, 0)
    seen = []
    for batch in batches(data, cells):
        height, size = batch.scene.valid.shape
        assert height == 1 or height * size <= cells
        assert (height, size) == (round_up(height), round_up(size))
        for row, i in enumerate(batch.index):
            if i < 0:
                assert not batch.scene.valid[row].any()
                continue
            seen.append(int(i))
            valid = batch.scene.valid[row]
            np.testing.assert_array_equal(batch.scene.values[row][valid], data.states[i].values)
            np.testing.assert_array_equal(batch.next_values[row][valid], data.next_states[i].values)
            assert not batch.scene.values[row][~valid].any()
            np.testing.assert_array_equal(batch.scene.parameters[row], data.parameters[i])
            assert batch.scene.action[row] == data.action[i]
    assert sorted(seen) == list(range(70))


def test_nothing_gives_no_batches() -> None:
    empty = toy.generate(2, 0)[:0]
    assert list(batches(empty)) == []
    assert spare.Model(toy.domain, [], np.ones(2)).log_prob(empty).shape == (0,)
