"""Table: a block in clutter is pushed, hits its neighbours, and stacks topple; in PyBullet, with yaw in the state.

Stacks of one to three blocks stand close together, each turned as it likes. The push goes into them from outside, so
that a block is driven against others, and what stands on them slides or falls. Noise: where the gripper starts and how
far it goes, as in the push world, whose engine, gripper and settling this uses.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.errors import DataError
from spare.lab.worlds.push.chunks import shared_engine
from spare.lab.worlds.push.episode import RejectedError, apply_push, settle
from spare.lab.worlds.push.scene import Push, Scene
from spare.lab.worlds.simulated import Executed, SimulatedWorld
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

SPACING, NOISE, ATTEMPTS = 0.1, 0.0025, 60
"""Metres between stacks; deviation in m of each executed parameter; scenes that are tried."""
CLEAR = 0.075
"""The gripper starts at least so far from the middle of every block but the target."""
TOUCH = 0.006


def _stands_on(o: Any, p: Any) -> Any:
    """f(o, p): the bottom of o is at the top of p, and o's centre is over p."""
    gap = (o.z - o.height / 2) - (p.z + p.height / 2)
    return (jnp.abs(gap) < TOUCH) & (distance(o, p) < (o.width + p.width) / 2)


above = Reference("above", _stands_on)

domain = Domain(
    "table",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("z", unit="m", resolution=1e-3),
        Property("yaw", unit="rad", resolution=1e-2, period=2 * math.pi),
        Property("width", unit="m", static=True),
        Property("length", unit="m", static=True),
        Property("height", unit="m", static=True),
        Property("mass", unit="kg", static=True),
    ],
    references=[
        above,
        above.closure("above*"),
        above.inverse("below"),
        Reference.closest("nearest", lambda o, p: distance(o, p) + jnp.abs(o.z - p.z)),
        Reference("near", lambda o, p: distance(o, p) < 0.2),
    ],
    actions=[
        Action(
            "push",
            objects=("target",),
            parameters=("xg", "yg", "zg", "d"),
            frame=Frame(
                "target",
                lambda target, push: jnp.arctan2(target.y - push.yg, target.x - push.xg),
                positions=(("x", "y", "z"), ("xg", "yg", "zg")),
                angles=("yaw",),
                mirror=True,
            ),
        )
    ],
)


def yaws(poses: np.ndarray) -> np.ndarray:
    """(N,) turn about the vertical of poses (N, 7)."""
    x, y, z, w = poses[:, 3:].T
    return np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def clutter(rng: np.random.Generator, count: int) -> Scene:
    """Stacks in cells of a square grid, blocks of one stack turned alike."""
    heights: list[int] = []
    while sum(heights) < count:
        heights.append(min(int(rng.choice([1, 2, 3], p=[0.35, 0.35, 0.3])), count - sum(heights)))
    side = math.ceil(math.sqrt(len(heights)))
    sizes = rng.uniform((0.03, 0.03, 0.05), (0.06, 0.06, 0.09), (count, 3))
    poses, k = np.zeros((count, 7)), 0
    for cell, height in zip(rng.permutation(side * side), heights, strict=False):
        spot = SPACING * (np.array(divmod(int(cell), side)) - side / 2 + rng.uniform(-0.06, 0.06, 2))
        yaw, top = rng.uniform(-math.pi, math.pi), 0.0
        for _ in range(height):
            poses[k, :2], poses[k, 2] = spot + rng.uniform(-0.008, 0.008, 2), top + sizes[k, 2] / 2
            poses[k, 5:], top, k = (math.sin(yaw / 2), math.cos(yaw / 2)), top + sizes[k, 2], k + 1
    return Scene(sizes, rng.uniform(0.1, 0.3, count), poses, count)


def aimed(rng: np.random.Generator, scene: Scene) -> tuple[int, Push] | None:
    """A block on the floor and a push at it from outside, where there is room for the gripper; None if there is not."""
    bearing, reach = rng.uniform(-math.pi, math.pi), rng.uniform(0.07, 0.1)
    out = np.array([math.cos(bearing), math.sin(bearing)])
    floor = np.flatnonzero(scene.poses[:, 2] < scene.sizes[:, 2] * 0.6)
    target = int(floor[np.argmax(scene.poses[floor, :2] @ out + rng.uniform(0, 0.1, len(floor)))])
    start = scene.poses[target, :2] + reach * out
    away = np.delete(np.hypot(*(scene.poses[:, :2] - start).T), target)
    if len(away) and away.min() < CLEAR and (np.sort(away) < CLEAR).sum() > _on(scene, target):
        return None
    level = float(rng.uniform(0.3, 0.9) * scene.sizes[target, 2])
    return target, Push(float(start[0]), float(start[1]), level, float(rng.uniform(0.06, 0.18)))


def _on(scene: Scene, target: int) -> int:
    """How many blocks share the target's place: those on it are as near to the gripper as it is."""
    return int((np.hypot(*(scene.poses[:, :2] - scene.poses[target, :2]).T) < 0.03).sum()) - 1


def execute(seed: int, index: int, count: int, repeat: int) -> Executed:
    """Build, settle, push with the noise of this repeat, settle: the first attempt that stands and comes to rest."""
    engine = shared_engine("bullet")
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([seed, index, attempt])
        scene = clutter(rng, count)
        found = aimed(rng, scene)
        if found is None:
            continue
        target, push = found
        try:
            engine.build(scene)
            settle(engine, scene)
            before = engine.poses()
            if np.abs(before[:, :3] - scene.poses[:, :3]).max() > 0.003:
                continue  # it did not stand: the same for every repeat
        except RejectedError:
            continue
        after = _pushed(engine, scene, (target, push), np.random.default_rng([seed, index, attempt, 1, repeat]))
        order = rng.permutation(count)
        static = np.concatenate([scene.sizes, scene.masses[:, None]], axis=1)
        states = [np.concatenate([one[:, :3], yaws(one)[:, None], static], axis=1)[order] for one in (before, after)]
        role = int(np.flatnonzero(order == target)[0])
        return Executed(states[0], states[1], (role,), np.array(push.as_tuple()))
    raise DataError(f"table: sample {index} of seed {seed}: no scene of {count} blocks stood in {ATTEMPTS} attempts")


def _pushed(engine: Any, scene: Scene, what: tuple[int, Push], rng: np.random.Generator) -> np.ndarray:
    """Poses after the push; a world that does not come to rest is taken as it is then."""
    target, push = what
    apply_push(engine, push.disturbed(rng, NOISE), engine.poses()[target])
    try:
        settle(engine, scene)
    except RejectedError as error:
        if str(error) != "restless":
            raise DataError("table: the simulation exploded") from error
    return engine.poses()


WORLD = SimulatedWorld(domain, execute, (5, 9), 7)
"""Blocks in clutter."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
