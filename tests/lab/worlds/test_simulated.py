"""Worlds in a simulator: seeds, repeats, who moves, what the simulator's noise says."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import spare
from spare.lab.worlds import arm, table
from spare.lab.worlds.catalogue import SIMULATED, SimulatedWorld
from spare.language.registry import find_domain
from spare.testing import check_domain

EVERY = pytest.mark.parametrize("world", SIMULATED.values(), ids=lambda world: world.name)


@EVERY
def test_a_sample_depends_on_the_seed_and_its_index_only(world: SimulatedWorld) -> None:
    whole, part = world.generate(6, 3), world.generate(4, 3)
    for name in ("values", "next_values", "parameters", "objects"):
        np.testing.assert_array_equal(getattr(whole[:4], name), getattr(part, name))
    assert world.generate(4, 4).fingerprint != part.fingerprint


@EVERY
def test_numbers_of_objects(world: SimulatedWorld) -> None:
    low, high = world.objects
    counts = world.generate(25, 0).counts
    assert low <= counts.min() < counts.max() <= high
    assert (world.generate(2, 0, objects=5 * world.fixed).counts == 5 * world.fixed).all()
    for wrong in ({"samples": 0}, {"seed": -1}, {"objects": low - 1}):
        with pytest.raises(spare.UsageError, match=f"{world.name}: "):
            world.generate(**{"samples": 3, "seed": 0, **wrong})


@EVERY
def test_the_acted_object_moves_and_often_others_do(world: SimulatedWorld) -> None:
    data = world.generate(40, 5, objects=world.fixed)
    own = np.isin(np.arange(len(data.values)), data.offsets[:-1] + data.objects[:, 0])
    moved = world.movers(data)
    assert moved[own].mean() > 0.9
    assert 0.5 < (moved & ~own).sum() / len(data) < world.fixed - 2


@pytest.mark.slow
@EVERY
def test_the_noise_is_a_limit_between_nothing_and_the_resolution(world: SimulatedWorld) -> None:
    """What stays is known to its resolution; what moves less well; the state itself is far less likely for movers."""
    small = dataclasses.replace(world, repeats=12)
    data = small.generate(12, 6, objects=world.fixed)
    density, moved = small.truth.log_prob_values(data), small.movers(data)
    sharp = -np.log(world.domain.resolutions) - 0.5 * np.log(2 * np.pi)
    assert (density <= sharp + 1e-9).all()
    assert density[~moved, 0].mean() == pytest.approx(sharp[0], abs=0.6)
    assert density[moved, 0].mean() < sharp[0] - 0.5
    still = dataclasses.replace(data, next_values=data.values)
    assert small.truth.log_prob_values(still)[moved].mean() < density[moved].mean() - 5
    np.testing.assert_allclose(
        small.truth.log_prob(data), np.add.reduceat(density.sum(axis=1), data.offsets[:-1]), rtol=1e-9
    )
    drawn = small.truth.sample(data, 1)
    assert np.abs(drawn - data.next_values)[~moved].max() < 0.2


@EVERY
def test_only_its_own_transitions_can_be_executed_again(world: SimulatedWorld) -> None:
    data = world.generate(2, 7, objects=world.fixed)
    with pytest.raises(spare.DataError, match="cannot be executed again"):
        world.truth.log_prob(dataclasses.replace(data, info={}))
    moved = dataclasses.replace(data, values=data.values + np.float32(0.01))
    with pytest.raises(spare.DataError, match="cannot be rebuilt"):
        dataclasses.replace(world, repeats=2).truth.log_prob(moved)
    with pytest.raises(spare.UsageError, match="predicts no other states"):
        world.truth.predict(data.states[0], data.actions[0])


@pytest.mark.slow
@EVERY
def test_nothing_is_found_wrong_with_the_domain(world: SimulatedWorld) -> None:
    assert list(check_domain(world.domain, world.generate(120, 1)).findings) == []
    assert find_domain(world.name) == world.domain


def test_stacks_topple_and_blocks_turn() -> None:
    data = table.generate(60, 0)
    change = np.abs(data.next_values - data.values)
    assert (change[:, 2] > 0.03).sum() >= 5
    assert (change[:, 3] > 0.2).sum() >= 20
    other = np.isin(np.arange(len(data.values)), data.offsets[:-1] + data.objects[:, 0])
    assert (table.movers(data) & ~other).any()


def test_a_gripped_cube_comes_along() -> None:
    """Where the hand is right above a cube and grips, that cube moves as the hand does; without, it stays below."""
    data = arm.generate(120, 0, objects=4)
    ways: dict[bool, list[float]] = {True: [], False: []}
    for i in range(len(data)):
        before, after, hand = data.states[i].values, data.next_states[i].values, data.objects[i, 0]
        away = before[:, :3] - before[hand, :3]
        under = (np.abs(away[:, :2]) < 0.012).all(axis=1) & (away[:, 2] < -0.03) & (away[:, 2] > -0.06)
        if under.any():
            cube = int(np.flatnonzero(under)[0])
            ways[data.parameters[i, 3] > 0.5].append(after[cube, 2] - before[cube, 2] - (after - before)[hand, 2])
    assert np.median(np.abs(ways[True])) < 0.01
    assert np.median(ways[False]) < -0.02
