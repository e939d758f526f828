"""Three tasks on the table, in PyBullet: blocks hit each other, stacks topple.

1. `clear`   a stack to a place in clutter: within 2.5 cm, nothing toppled, no other block moved by over 1 cm.
2. `sort`    three stacks (or blocks), each to its own place, within 3 cm, in 20 pushes.
3. `gather`  every block into one circle.

A push is planned as seen from its target: bearing and distance of the gripper, its height as a share of the block's,
and how far it goes. Only the simulator knows the truth, so it cannot be planned in.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.data.experience import Experience
from spare.data.state import ActionCall, State
from spare.errors import DataError
from spare.lab.tasks.task import Suite, Task
from spare.lab.worlds import table
from spare.lab.worlds.push.chunks import shared_engine
from spare.lab.worlds.push.episode import RejectedError, apply_push, settle
from spare.lab.worlds.push.scene import Push, Scene
from spare.model.rollout import Simulator
from spare.planning.problems import Constraint, Problem
from spare.planning.spaces import Actions

STAND, APART = 0.01, 0.025
"""Metres: a block whose height changed by more has toppled; blocks nearer to each other stand on one another."""
PUSH = {"bearing": (-math.pi, math.pi), "reach": (0.07, 0.1), "level": (0.3, 0.9), "d": (0.06, 0.18)}
TRAINED = 6
"""Blocks on the table in the transitions that models learn from."""


def as_push(target: Any, u: Any) -> dict[str, Any]:
    """The push that numbers mean, wherever the target is by then."""
    return {
        "xg": target.x + u.reach * jnp.cos(u.bearing),
        "yg": target.y + u.reach * jnp.sin(u.bearing),
        "zg": u.level * target.height,
        "d": u.d,
    }


def on_floor(o: Any) -> Any:
    """Blocks that stand on the table: only these were pushed in the data."""
    return o.z < 0.6 * o.height


@dataclasses.dataclass
class TableStep:
    """The simulator, built again for each push from the poses that the last one left."""

    scene: Scene
    ids: tuple[str, ...]
    poses: np.ndarray | None = None

    def _state(self, poses: np.ndarray) -> State:
        static = np.concatenate([self.scene.sizes, self.scene.masses[:, None]], axis=1)
        values = np.concatenate([poses[:, :3], table.yaws(poses)[:, None], static], axis=1)
        return State(self.ids, values.astype(np.float32))

    def reset(self) -> State:
        """The scene, settled."""
        self.poses = self.scene.poses
        return self._state(self.poses)

    def step(self, call: ActionCall, seed: tuple[int, ...]) -> State:
        """Push with noise, and let the world settle."""
        engine, target = shared_engine("bullet"), self.ids.index(str(call.objects[0]))
        poses = self.scene.poses if self.poses is None else self.poses
        here = Scene(self.scene.sizes, self.scene.masses, poses, self.scene.stack)
        engine.build(here)
        push = Push(*call.parameters).disturbed(np.random.default_rng(seed), table.NOISE)
        apply_push(engine, push, poses[target])
        try:
            settle(engine, here)
        except RejectedError as error:
            if str(error) != "restless":
                return self._state(poses)  # the simulation exploded: the last good state stands
        self.poses = engine.poses()
        return self._state(self.poses)


def standing(rng: np.random.Generator, count: int, fits: Callable[[Scene], bool]) -> Scene:
    """A cluttered scene that stands by itself and fits, with the poses at which it came to rest."""
    engine = shared_engine("bullet")
    for _ in range(table.ATTEMPTS):
        scene = table.clutter(rng, count)
        if not fits(scene):
            continue
        try:
            engine.build(scene)
            settle(engine, scene)
        except RejectedError:
            continue
        poses = engine.poses()
        if np.abs(poses[:, :3] - scene.poses[:, :3]).max() < 0.003:
            return Scene(scene.sizes, scene.masses, poses, scene.stack)
    raise DataError(f"table: no scene of {count} blocks stood in {table.ATTEMPTS} attempts")


def _floors(scene: Scene) -> np.ndarray:
    """Rows of blocks on the table, outermost first: there is room around those."""
    rows = np.flatnonzero(scene.poses[:, 2] < 0.6 * scene.sizes[:, 2])
    middle = scene.poses[rows, :2].mean(axis=0)
    return rows[np.argsort(-np.hypot(*(scene.poses[rows, :2] - middle).T))]


def _ids(scene: Scene, named: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(named.get(k, f"block{k}") for k in range(len(scene)))


def _outward(scene: Scene, row: int, reach: float, rng: np.random.Generator) -> np.ndarray:
    """A place so far from a block, away from the middle of all, give or take 0.6 rad."""
    gap = scene.poses[row, :2] - scene.poses[:, :2].mean(axis=0)
    way = math.atan2(gap[1], gap[0]) + rng.uniform(-0.6, 0.6)
    return scene.poses[row, :2] + reach * np.array([math.cos(way), math.sin(way)])


def draw_clear(rng: np.random.Generator, count: int) -> Task:
    """The outermost stack of two or more blocks, to a place outside."""

    def tall(scene: Scene) -> list[int]:
        near = [np.hypot(*(scene.poses[:, :2] - scene.poses[row, :2]).T) < APART for row in _floors(scene)]
        return [int(row) for row, mine in zip(_floors(scene), near, strict=True) if mine.sum() > 1]

    scene = standing(rng, count, lambda one: bool(tall(one)))
    bottom = tall(scene)[0]
    goal = _outward(scene, bottom, rng.uniform(0.1, 0.2), rng)
    return Task(*_parts(scene, {bottom: "bottom"}, {"goal": goal}))


def draw_sort(rng: np.random.Generator, count: int) -> Task:
    """Three blocks on the table, with what stands on them, outward by 8 to 15 cm each."""
    scene = standing(rng, count, lambda one: len(_floors(one)) >= 3)
    rows = [int(row) for row in _floors(scene)[:3]]
    goals = np.stack([_outward(scene, row, rng.uniform(0.08, 0.15), rng) for row in rows])
    return Task(*_parts(scene, {row: f"first{k}" for k, row in enumerate(rows)}, {"goals": goals}))


def draw_gather(rng: np.random.Generator, count: int) -> Task:
    """Everybody into a circle around the middle, 2 cm smaller than the one that holds them now."""
    scene = standing(rng, count, lambda one: True)
    middle = scene.poses[:, :2].mean(axis=0)
    radius = float(np.hypot(*(scene.poses[:, :2] - middle).T).max()) - 0.02
    return Task(*_parts(scene, {}, {"middle": middle, "radius": radius}))


def _parts(scene: Scene, named: Mapping[int, str], given: dict[str, Any]) -> tuple[State, dict[str, Any], TableStep]:
    world = TableStep(scene, _ids(scene, named))
    return world.reset(), given, world


def _off(o: Any, goal: Any) -> Any:
    return jnp.hypot(o.x - goal[0], o.y - goal[1])


def _upright(s: Any) -> Any:
    return s.all(lambda o: jnp.abs(o.z - s.start.objects.z) < STAND)


def _others_rest(s: Any) -> Any:
    """Blocks that did not stand on the bottom one at the start are where they were."""
    start, bottom = s.start.objects, s.start["bottom"]
    mine = jnp.hypot(start.x - bottom.x, start.y - bottom.y) < APART
    return s.all(lambda o: mine | (jnp.hypot(o.x - start.x, o.y - start.y) < 0.01))


def clear(model: Simulator, given: Mapping[str, Any]) -> Problem:
    """The stack to its place."""
    return Problem(
        model,
        Actions("push", PUSH, {"target": "bottom"}, to=as_push),
        2,
        cost=lambda s: _off(s["bottom"], s.given["goal"]),
        goal=lambda s: (_off(s["bottom"], s.given["goal"]) < 0.025) & _upright(s) & _others_rest(s),
        constraints=Constraint(lambda s: _upright(s) & _others_rest(s), 0.9),
        samples=10,
        given=given,
    )


def _apart(s: Any) -> Any:
    return jnp.stack([_off(s[f"first{k}"], s.given["goals"][k]) for k in range(3)])


def sort(model: Simulator, given: Mapping[str, Any]) -> Problem:
    """Three blocks to their places."""
    return Problem(
        model,
        Actions("push", PUSH, {"target": [f"first{k}" for k in range(3)]}, to=as_push),
        3,
        cost=lambda s: _apart(s).sum(),
        goal=lambda s: (_apart(s) < 0.03).all(),
        given=given,
    )


def gather(model: Simulator, given: Mapping[str, Any]) -> Problem:
    """Everybody into the circle."""
    return Problem(
        model,
        Actions("push", PUSH, {"target": on_floor}, to=as_push),
        2,
        cost=lambda s: s.sum(lambda o: jnp.maximum(_off(o, s.given["middle"]) - s.given["radius"] + 0.01, 0.0)),
        goal=lambda s: s.all(lambda o: _off(o, s.given["middle"]) < s.given["radius"]),
        given=given,
    )


def generate(samples: int, seed: int) -> Experience:
    """Random pushes among six blocks."""
    return table.generate(samples, seed, objects=TRAINED)


KINDS = {"clear": (draw_clear, clear, 8), "sort": (draw_sort, sort, 20), "gather": (draw_gather, gather, 10)}
TABLE = tuple(
    Suite(f"{name}-{count}", 21 + 3 * k + j, table.domain, draw, problem, generate, None, steps, count)
    for k, (name, (draw, problem, steps)) in enumerate(KINDS.items())
    for j, count in enumerate((4, 10, 20))
)
"""Every kind with 4, 10 and 20 blocks."""
