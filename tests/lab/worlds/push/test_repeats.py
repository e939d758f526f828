from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import spare
from spare.errors import DataError, UsageError
from spare.lab.worlds import push
from spare.lab.worlds.push.repeats import cross_fit

pytestmark = pytest.mark.slow

STILL = -0.5 * math.log(2 * math.pi * 1e-6)
"""log N(y; y, resolution²): what a value that is known exactly earns at 1 mm."""


def test_the_noise_of_the_data_gives_the_data_back(mixed):
    path, data = mixed
    loaded = spare.Experience.load(path)
    for index in (0, 17, 59):
        again = push.replay(loaded, index, first=0)
        np.testing.assert_array_equal(again[0].next_state.values, data[index].next_state.values)
        assert again[0].action == data[index].action
        assert again[0].info == data[index].info


def test_fresh_noise_gives_the_same_state_and_other_ends(mixed):
    _, data = mixed
    again = push.replay(data[20:40], 5, repeats=6)
    assert len(again) == 6
    for k in range(6):
        np.testing.assert_array_equal(again.states[k].values, data.states[25].values)
        assert again.actions[k] == data.actions[25]
    ends = np.stack([state.values[0, :2] for state in again.next_states])
    assert len(np.unique(ends[:, 0])) == 6


def test_the_noise_floor_of_a_push_without_noise_is_the_resolution():
    data = push.generate(2, extra=1, noise=0.0)
    floor = push.noise_floor(data, repeats=10)
    np.testing.assert_allclose(floor.nats, STILL, atol=1e-9)
    np.testing.assert_allclose(floor.log_prob, 4 * 3 * STILL)


def test_the_noise_floor_of_real_pushes(mixed):
    _, data = mixed
    few = data[:6]
    floor = push.noise_floor(few, repeats=20)
    assert floor.log_prob.shape == (6,)
    extra = floor.nats[~floor.stack]
    np.testing.assert_allclose(extra, STILL, atol=0.01)
    assert 3.5 < floor.stack_per_value.mean() < 5.8
    by_hand = floor.nats[: few.counts[0]][floor.stack[: few.counts[0]]].mean()
    assert floor.stack_per_value[0] == pytest.approx(by_hand)
    assert "nats per value of the stack" in repr(floor)


def test_workers_do_not_change_the_noise_floor(mixed):
    _, data = mixed
    one, two = (push.noise_floor(data[:4], repeats=10, jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.nats, two.nats)


def test_cross_fitting_finds_the_entropy_of_a_gaussian():
    """E log N(y; m, s² + r²) for y ~ N(m, s²), with many repeats; with few it stays below."""
    rng = np.random.default_rng(0)
    spread, resolution = 0.004, np.full(3, 1e-3)
    nats = cross_fit(rng.normal(0.2, spread, (4000, 5, 3)), resolution)
    variance = spread**2 + 1e-6
    exact = -0.5 * math.log(2 * math.pi * variance) - 0.5 * spread**2 / variance
    np.testing.assert_allclose(nats.mean(), exact, atol=0.01)
    few = cross_fit(rng.normal(0.2, spread, (10, 500, 3)), resolution)
    assert few.mean() < exact


def test_data_of_another_engine_version_is_refused(mixed):
    _, data = mixed
    moved = data.values.copy()
    moved[:, 0] += 0.001
    with pytest.raises(DataError, match="cannot be rebuilt: this bullet gives another state"):
        push.replay(dataclasses.replace(data, values=moved), 3)


def test_data_from_elsewhere_is_refused(mixed):
    _, data = mixed
    other = dataclasses.replace(data, metadata={})
    with pytest.raises(DataError, match=r"not made by push\.generate"):
        push.noise_floor(other)
    damaged = dataclasses.replace(data, metadata={"push": {"settings": {"ranges": {}}}})
    with pytest.raises(DataError, match="damaged"):
        push.replay(damaged, 0)


def test_bad_input(mixed):
    _, data = mixed
    with pytest.raises(UsageError, match="index 60 is past the end: there are 60 transitions"):
        push.replay(data, 60)
    with pytest.raises(UsageError, match="repeats must be at least 10"):
        push.noise_floor(data, repeats=5)
