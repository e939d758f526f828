"""Physics, in the real engines."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spare.errors import UsageError
from spare.lab.worlds.push import engines
from spare.lab.worlds.push.engines import GRIPPER, STEP
from spare.lab.worlds.push.episode import (
    CHUNK,
    STIRRED,
    RejectedError,
    make_sample,
    run,
    settle,
    speeds,
)
from spare.lab.worlds.push.scene import Draw, Push, Scene, draw, noise_source
from spare.lab.worlds.push.settings import ENGINES, Settings

pytestmark = pytest.mark.slow


def _tower(offsets: list[float], size: float = 0.08) -> Scene:
    """Equal cubes on each other, each off the one below along x."""
    count = len(offsets)
    poses = np.zeros((count, 7))
    poses[:, 6] = 1.0
    poses[:, 0] = np.cumsum(offsets)
    poses[:, 2] = size * (np.arange(count) + 0.5)
    return Scene(np.full((count, 3), size), np.full(count, 0.2), poses, count)


def _pushed(scene: Scene, push: Push) -> Draw:
    return Draw(scene, push, np.arange(len(scene)))


def _still() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("name", ENGINES)
def test_a_stack_of_three_moves_together_in_most_pushes(pushes, name):
    moves = np.array([(s.outcome.after - s.outcome.before)[:3, :2] for s in pushes[name]])
    touched = np.array([s.outcome.touched for s in pushes[name]])
    apart = np.linalg.norm(moves - moves[:, :1], axis=2).max(axis=1)
    far = np.linalg.norm(moves[:, 0], axis=1)
    assert touched.mean() > 0.9
    assert np.median(far[touched]) > 0.03
    assert (apart < 0.015).mean() > 0.8
    assert np.abs([(s.outcome.after - s.outcome.before)[:3, 2] for s in pushes[name]]).max() < 0.01


@pytest.mark.parametrize("name", ENGINES)
def test_extra_blocks_never_move(pushes, name):
    moved = [np.abs((s.outcome.after - s.outcome.before)[3:, :3]).max() for s in pushes[name]]
    assert max(moved) < STIRRED
    assert sum(s.rejects["extra_moved"] for s in pushes[name]) == 0


@pytest.mark.parametrize("name", ENGINES)
def test_the_target_ends_where_the_gripper_stops(worlds, name):
    """Head on, on a cube: the face ends at start + d + half the bar, so the centre half a cube further."""
    outcome = run(worlds[name], _pushed(_tower([0, 0, 0]), Push(-0.12, 0.0, 0.04, 0.13)), _still(), noise=0.0)
    assert outcome.touched
    expected = -0.12 + 0.13 + GRIPPER[0] / 2 + 0.04
    assert outcome.after[0, 0] == pytest.approx(expected, abs=0.003)
    assert np.abs(outcome.after[:, 1]).max() < 0.0025  # it goes straight: 5 cm with a drift under 5 %


@pytest.mark.parametrize("name", ENGINES)
def test_a_leaning_stack_topples_and_is_rejected(worlds, name):
    scene = _tower([0, 0.03, 0.03, 0.03])
    worlds[name].build(scene)
    worlds[name].step(480)
    assert worlds[name].poses()[3, 2] < scene.poses[3, 2] - 0.05
    with pytest.raises(RejectedError, match=r"unstable|restless"):
        run(worlds[name], _pushed(scene, Push(-0.12, 0.0, 0.04, 0.1)), _still(), noise=0.0)


@pytest.mark.parametrize("name", ENGINES)
def test_a_push_that_misses_moves_nothing_beyond_the_resolution(worlds, name):
    settings = Settings.make(3, extra=4, engine=name)
    for index in range(5):
        drawn = draw(settings, index, 0)
        short = Push(drawn.push.xg, drawn.push.yg, drawn.push.zg, 0.02)
        outcome = run(worlds[name], Draw(drawn.scene, short, drawn.order), _still(), noise=0.0)
        assert not outcome.touched
        assert np.abs(outcome.after - outcome.before)[:, :3].max() < 1e-3


@pytest.mark.parametrize("name", ENGINES)
def test_blocks_inside_each_other_are_rejected(worlds, name):
    scene = _tower([0, 0, 0])
    scene.poses[1:, 2] -= 0.05
    with pytest.raises(RejectedError, match=r"unstable|exploded|restless"):
        run(worlds[name], _pushed(scene, Push(-0.12, 0.0, 0.04, 0.1)), _still(), noise=0.0)


@pytest.mark.parametrize("name", ENGINES)
def test_an_extra_block_in_the_way_is_seen_to_move(worlds, name):
    tower = _tower([0, 0])
    beside = np.array([[0.1, 0, 0.04, 0, 0, 0, 1.0]])
    scene = Scene(np.full((3, 3), 0.08), np.full(3, 0.2), np.vstack([tower.poses, beside]), 2)
    with pytest.raises(RejectedError, match="extra_moved"):
        run(worlds[name], _pushed(scene, Push(-0.12, 0.0, 0.04, 0.15)), _still(), noise=0.0)


@pytest.mark.parametrize("name", ENGINES)
def test_a_world_that_turns_to_nan_is_rejected(worlds, name):
    scene = _tower([0, 0])
    scene.poses[1, 0] = math.nan
    worlds[name].build(scene)
    with pytest.raises(RejectedError, match="exploded"):
        settle(worlds[name], scene)


def test_both_engines_take_the_same_pushes_to_the_same_places(worlds):
    """Without noise, on 30 draws: the target ends within a few millimetres, the stack on it within a centimetre."""
    off, far = [], []
    for index in range(30):
        ends = {}
        for name in ENGINES:
            settings = Settings.make(3, extra=0, engine=name, noise=0.0, seed=8)
            ends[name] = make_sample(worlds[name], settings, index).outcome
        off.append(np.linalg.norm(ends["bullet"].after[:3, :3] - ends["mujoco"].after[:3, :3], axis=1))
        far.append(np.linalg.norm(ends["bullet"].after[0, :2] - ends["bullet"].before[0, :2]))
    off = np.array(off)
    assert np.median(far) > 0.04
    assert np.median(off[:, 0]) < 0.006
    assert np.median(off) < 0.008
    assert np.quantile(off, 0.9) < 0.025


@pytest.mark.parametrize("name", ENGINES)
def test_a_sample_is_the_same_in_a_used_engine_and_a_fresh_one(pushes, name):
    fresh = engines.make(name)
    settings = Settings.make(3, extra=4, engine=name)
    for index in (41, 7):
        again = make_sample(fresh, settings, index).outcome
        np.testing.assert_array_equal(again.after, pushes[name][index].outcome.after)
    fresh.close()
    fresh.close()


@pytest.mark.parametrize("distance", [0.0, 0.001, 0.05, 0.1234, 0.18])
def test_speeds_cover_the_distance_smoothly(distance):
    profile = speeds(distance)
    assert sum(profile) * CHUNK * STEP == pytest.approx(distance)
    assert min(profile) >= 0
    assert max(profile) <= 0.14


def test_noise_moves_the_result(worlds):
    settings = Settings.make(3, noise=0.0025)
    drawn = draw(settings, 1, 0)
    ends = [
        run(worlds["bullet"], drawn, noise_source(settings, 1, 0, r), settings.noise).after[0, :2] for r in range(8)
    ]
    assert 0.0005 < np.std(ends, axis=0).max() < 0.02


def test_unknown_engine():
    with pytest.raises(UsageError, match="unknown engine 'ode'; valid: bullet, mujoco"):
        engines.make("ode")
