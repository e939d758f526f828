from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from spare.errors import DataError, UsageError
from spare.lab.worlds.push.env import PadObjects, PushStackEnv


@pytest.mark.parametrize("engine", ["bullet", "mujoco"])
def test_gymnasium_accepts_it(engine):
    env = gym.make("spare/PushStack-v0", engine=engine)
    check_env(env.unwrapped)


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version:UserWarning")
def test_gymnasium_accepts_a_variant_of_fixed_size():
    env = gym.make("spare/PushStack3Extra4-v0", disable_env_checker=True)
    assert env.observation_space["objects"].shape == (7, 6)  # type: ignore[index]
    check_env(env, skip_render_check=True)
    env.close()


def _play(env, seed: int, steps: int = 3):
    observation, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    seen = [observation["objects"], observation["goal"]]
    for _ in range(steps):
        observation, reward, *_rest = env.step(env.action_space.sample())
        seen += [observation["objects"], np.array(reward)]
    return seen, info


def test_the_same_seed_gives_the_same_episode():
    env = PushStackEnv(stack=3, extra=2)
    first, info = _play(env, 5)
    again, _ = _play(PushStackEnv(stack=3, extra=2), 5)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert info["ids"][0] == 0
    assert not np.array_equal(first[0], _play(env, 6)[0][0])
    env.close()


def test_a_push_toward_the_goal_is_rewarded():
    env = PushStackEnv(stack=2, extra=0, noise=0.0)
    observation, info = env.reset(seed=1)
    way = observation["goal"] - observation["objects"][0, :2]
    behind = np.arctan2(-way[1], -way[0]) / np.pi
    after, reward, terminated, truncated, moved = env.step(np.array([behind, -1.0, 0.0, 0.0], np.float32))
    assert moved["touched"]
    assert not truncated
    assert reward > 0.02
    assert reward == pytest.approx(info["distance"] - moved["distance"])
    assert terminated == (moved["distance"] < 0.02)
    assert np.linalg.norm(after["goal"] - after["objects"][0, :2]) == pytest.approx(moved["distance"], abs=1e-6)
    env.close()


def test_an_action_means_a_push_in_the_ranges_of_the_data():
    env = PushStackEnv(stack=3, extra=0)
    env.reset(seed=0)
    low, high = (env.decode(np.full(4, edge, np.float32)) for edge in (-1.0, 1.0))
    ranges = env.settings.ranges
    assert (low.d, high.d) == pytest.approx(ranges.distance)
    target = env._poses[0, :2]
    assert np.hypot(low.xg - target[0], low.yg - target[1]) == pytest.approx(ranges.start[0])
    env.close()


def test_padding_marks_what_is_there():
    env = PadObjects(PushStackEnv(stack=2, extra=1), size=6)
    observation, _ = env.reset(seed=2)
    assert observation["mask"].tolist() == [1, 1, 1, 0, 0, 0]
    assert (observation["objects"][3:] == 0).all()
    assert env.observation_space.contains(observation)
    with pytest.raises(DataError, match="3 objects do not fit in 2 rows"):
        PadObjects(PushStackEnv(stack=2, extra=1), size=2).reset(seed=0)


def test_bad_use():
    with pytest.raises(UsageError, match="call reset before step"):
        PushStackEnv().step(np.zeros(4, np.float32))
    with pytest.raises(UsageError, match="at least 1, got 0"):
        gym.make("spare/PushStack-v0", stack=0)
