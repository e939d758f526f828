"""The push world as a Gymnasium environment: `spare/PushStack-v0`, and variants of fixed size.

One step is one push; the task is to bring the bottom block of the stack to a goal, with the stack still on it.
Observation, with any number N of objects:

    objects   N rows x, y, z, width, length, height; the target is row 0, the others come in random order
    goal      x, y where the target should be

Action, in [-1, 1]^4: bearing of the gripper as seen from the target (a full turn), its distance from the target,
its height, and the push distance d, each within the ranges that data is generated with. Reward: the decrease of the
target's distance to the goal, in m. Terminates within 2 cm of the goal, or when the stack has fallen.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from spare.errors import DataError, UsageError
from spare.lab.worlds.push import engines
from spare.lab.worlds.push.episode import RejectedError, apply_push, settle
from spare.lab.worlds.push.scene import Draw, NoRoomError, Push, Scene, draw
from spare.lab.worlds.push.settings import Settings

REACHED = 0.02
"""Within this distance of the goal, in m, the task is done."""
FAR = 10.0
"""No coordinate of an observation is larger than this, in m."""
_ROW = spaces.Box(-FAR, FAR, (6,), np.float32)


class PushStackEnv(gym.Env[dict[str, Any], np.ndarray]):
    """One push per step, on one stack with extra blocks around it; see the module for spaces and reward."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own)

    def __init__(self, stack: int = 3, extra: int = 4, engine: str = "bullet", noise: float = Settings.noise) -> None:
        self.settings = Settings.make(stack, extra=extra, engine=engine, noise=noise)
        self.observation_space = spaces.Dict(
            {"objects": spaces.Sequence(_ROW, stack=True), "goal": spaces.Box(-FAR, FAR, (2,), np.float32)}
        )
        self.action_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self._engine = engines.make(engine)
        self._drawn: Draw | None = None
        self._poses = np.zeros((0, 7))
        self._goal = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A new scene, settled; the same seed gives the same scene, goal and noise."""
        super().reset(seed=seed)
        for attempt in range(50):
            try:
                drawn = draw(self.settings, int(self.np_random.integers(2**31)), attempt)
                self._engine.build(drawn.scene)
                settle(self._engine, drawn.scene)
            except (NoRoomError, RejectedError):
                continue
            break
        else:
            raise DataError("no scene of these settings stands")
        self._drawn, self._poses = drawn, self._engine.poses()
        way = self.np_random.uniform(-math.pi, math.pi)
        reach = self.np_random.uniform(0.1, 0.2)
        self._goal = self._poses[0, :2] + reach * np.array([math.cos(way), math.sin(way)])
        return self._observation(), self._info()

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Push once, with noise, and let the world settle."""
        if self._drawn is None:
            raise UsageError("call reset before step")
        push = self.decode(action)
        before, scene = self._distance(), self._current()
        truncated = touched = False
        try:
            # The world is built again for each push, so that a step depends only on what came before in the episode.
            self._engine.build(scene)
            executed = push.disturbed(self.np_random, self.settings.noise)
            touched, _ = apply_push(self._engine, executed, self._poses[0])
            settle(self._engine, scene)
            self._poses = self._engine.poses()
        except RejectedError:
            truncated = True  # the world exploded or did not come to rest: the last good state stands
        after = self._distance()
        info = {**self._info(), "touched": touched, "push": np.array(push.as_tuple())}
        return self._observation(), before - after, after < REACHED or self._fallen(), truncated, info

    def decode(self, action: np.ndarray) -> Push:
        """The push (xg, yg, zg, d) that an action in [-1, 1]^4 stands for, in the present state."""
        share = (np.clip(np.asarray(action, np.float64), -1.0, 1.0) + 1) / 2
        ranges, (x, y) = self.settings.ranges, self._poses[0, :2]
        bearing = math.pi * (2 * float(share[0]) - 1)
        reach, grip, d = (
            low + float(part) * (high - low)
            for part, (low, high) in zip(share[1:], (ranges.start, ranges.grip, ranges.distance), strict=True)
        )
        height = float(self._drawn.scene.sizes[0, 2]) if self._drawn else 0.0
        return Push(float(x) + reach * math.cos(bearing), float(y) + reach * math.sin(bearing), grip * height, d)

    def close(self) -> None:
        """Free the engine."""
        self._engine.close()

    def _current(self) -> Scene:
        """The scene with the blocks where they are now."""
        assert self._drawn is not None
        scene = self._drawn.scene
        return Scene(scene.sizes, scene.masses, self._poses, scene.stack)

    def _distance(self) -> float:
        return float(np.linalg.norm(self._poses[0, :2] - self._goal))

    def _fallen(self) -> bool:
        """Whether a block of the stack is not where a stack has it: its height changed by over a centimetre."""
        scene = self._current()
        heights = np.cumsum(scene.sizes[: scene.stack, 2]) - scene.sizes[: scene.stack, 2] / 2
        return bool((np.abs(self._poses[: scene.stack, 2] - heights) > 0.01).any())

    def _observation(self) -> dict[str, Any]:
        scene = self._current()
        order = self._drawn.order if self._drawn else np.arange(len(scene))
        rows = np.concatenate([self._poses[order, :3], scene.sizes[order]], axis=1).astype(np.float32)
        return {"objects": rows, "goal": self._goal.astype(np.float32)}

    def _info(self) -> dict[str, Any]:
        assert self._drawn is not None
        return {"ids": self._drawn.order.copy(), "distance": self._distance()}


class PadObjects(gym.ObservationWrapper[dict[str, Any], np.ndarray, dict[str, Any]]):
    """objects (N, 6) -> objects (size, 6) with zeros below, and mask (size,) that is 1 where a row is an object."""

    def __init__(self, env: gym.Env[Any, Any], size: int) -> None:
        super().__init__(env)
        self.size = size
        goal = env.observation_space["goal"]  # type: ignore[index]
        self.observation_space = spaces.Dict(
            {"objects": spaces.Box(-FAR, FAR, (size, 6), np.float32), "mask": spaces.MultiBinary(size), "goal": goal}
        )

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Pad one observation; more objects than rows is an error."""
        rows = observation["objects"]
        if len(rows) > self.size:
            raise DataError(f"{len(rows)} objects do not fit in {self.size} rows; give a larger size")
        objects = np.zeros((self.size, 6), np.float32)
        objects[: len(rows)] = rows
        mask = np.zeros(self.size, np.int8)
        mask[: len(rows)] = 1
        return {"objects": objects, "mask": mask, "goal": observation["goal"]}


def _make_padded(stack: int, extra: int, **rest: Any) -> gym.Env[Any, Any]:
    """A fixed-size variant: every observation has exactly stack + extra rows."""
    return PadObjects(PushStackEnv(stack=stack, extra=extra, **rest), stack + extra)


def register() -> None:
    """Make the environments known to `gymnasium.make`; safe to call twice."""
    home = "spare.lab.worlds.push.env"
    if "spare/PushStack-v0" in gym.registry:
        return
    gym.register("spare/PushStack-v0", entry_point=f"{home}:PushStackEnv", max_episode_steps=20)
    for stack, extra in ((2, 0), (3, 0), (3, 4), (4, 8)):
        gym.register(
            f"spare/PushStack{stack}Extra{extra}-v0",
            entry_point=f"{home}:_make_padded",
            kwargs={"stack": stack, "extra": extra},
            max_episode_steps=20,
        )


register()
