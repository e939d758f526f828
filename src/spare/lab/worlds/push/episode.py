"""Runs one push in an engine: build, settle, push, lift, settle; and says if the result can be used.

Sample i is the first attempt that passes: the stack stood, everything came to rest, nothing exploded, and no
extra block moved. What did not pass is counted by reason. All of it is a function of (settings, i).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spare.errors import DataError
from spare.lab.worlds.push.engines import GRIPPER, STEP, Engine
from spare.lab.worlds.push.scene import Draw, NoRoomError, Push, Scene, draw, noise_source
from spare.lab.worlds.push.settings import Settings

SPEED = 0.12
"""How fast the gripper moves, in m/s: slow enough that friction carries a stack along."""
RAMP = 0.1
"""Seconds in which the gripper gains its speed, and loses it."""
CHUNK = 8
"""Steps between two looks at the world."""
REST = 0.004
"""Below this mean speed between two looks, in m/s, three looks running, the world is at rest."""
PATIENCE = 3.0
"""Seconds after which a world that still moves is rejected."""
SHIFTED = 0.003
"""A stack that moves more than this, in m, before it is pushed did not stand."""
STIRRED = 0.0005
"""An extra block that moves more than this, in m, was not left alone."""
ATTEMPTS = 50
REASONS: tuple[str, ...] = ("no_room", "unstable", "restless", "exploded", "extra_moved")


class RejectedError(Exception):
    """This attempt cannot be used; the message is one of `REASONS`."""


@dataclass(frozen=True)
class Outcome:
    """Poses (N, 7) before and after a push, the push as executed, and if it touched a block.

    `settled` steps were taken before the push, `steps` in all.
    """

    before: np.ndarray
    after: np.ndarray
    executed: Push
    touched: bool
    settled: int
    steps: int


@dataclass(frozen=True)
class Sample:
    """A transition that passed, what it was drawn from, and the attempts that failed before it."""

    index: int
    attempt: int
    drawn: Draw
    outcome: Outcome
    rejects: dict[str, int]


def make_sample(engine: Engine, settings: Settings, index: int) -> Sample:
    """Sample `index`: the first attempt that passes."""
    rejects: dict[str, int] = dict.fromkeys(REASONS, 0)
    for attempt in range(ATTEMPTS):
        try:
            drawn = draw(settings, index, attempt)
            outcome = run(engine, drawn, noise_source(settings, index, attempt), settings.noise)
        except NoRoomError:
            rejects["no_room"] += 1
        except RejectedError as error:
            rejects[str(error)] += 1
        else:
            return Sample(index, attempt, drawn, outcome, rejects)
    raise DataError(f"sample {index}: all {ATTEMPTS} attempts were rejected ({tally(rejects)})")


def run(engine: Engine, drawn: Draw, rng: np.random.Generator, noise: float) -> Outcome:
    """Build the scene, let it settle, push with noise, and let it settle again."""
    scene = drawn.scene
    engine.build(scene)
    settled = settle(engine, scene)
    before = engine.poses()
    if np.abs(before[:, :3] - scene.poses[:, :3]).max() > SHIFTED:
        raise RejectedError("unstable")
    executed = drawn.push.disturbed(rng, noise)
    touched, pushed = apply_push(engine, executed, before[0])
    steps = settled + pushed + settle(engine, scene)
    after = engine.poses()
    moved = np.abs(after[scene.stack :, :3] - before[scene.stack :, :3])
    if moved.size and moved.max() > STIRRED:
        raise RejectedError("extra_moved")
    return Outcome(before, after, executed, touched, settled, steps)


def apply_push(engine: Engine, push: Push, target: np.ndarray) -> tuple[bool, int]:
    """Move the gripper from its start toward the target by d, then lift it. Returns (touched, steps)."""
    heading = push.heading(target)
    engine.place((push.xg, push.yg, max(push.zg, GRIPPER[2] / 2)), heading)
    touched, profile = False, speeds(push.d)
    for speed in profile:
        engine.step(CHUNK, speed)
        touched = touched or engine.touching()
    engine.lift()
    return touched, CHUNK * len(profile)


def speeds(distance: float) -> list[float]:
    """Speeds, one per chunk of steps, that rise, hold and fall, and cover exactly `distance`."""
    chunk = CHUNK * STEP
    count = max(2, math.ceil((distance / SPEED + RAMP) / chunk))
    time = (np.arange(count) + 0.5) * chunk
    shape = np.minimum(1.0, np.minimum(time, count * chunk - time) / RAMP)
    return (shape * (distance / (shape.sum() * chunk))).tolist()


def settle(engine: Engine, scene: Scene) -> int:
    """Step until every block is at rest on three looks in a row; returns the steps taken.

    Speeds are taken between looks, since stiff contacts make blocks tremble in place without going anywhere.
    """
    limit, quiet, steps = math.ceil(PATIENCE / STEP), 0, 0
    last = engine.poses()[:, :3]
    while steps < limit:
        engine.step(CHUNK)
        steps += CHUNK
        now = engine.poses()[:, :3]
        speed = np.abs(now - last).max() / (CHUNK * STEP)
        last = now
        if not speed < 50.0:
            raise RejectedError("exploded")
        quiet = quiet + 1 if speed < REST else 0
        if quiet == 3:
            break
    else:
        raise RejectedError("restless")
    poses = engine.poses()
    if not np.isfinite(poses).all() or (poses[:, 2] < scene.sizes.min() / 4).any():
        raise RejectedError("exploded")
    return steps


def tally(rejects: dict[str, int]) -> str:
    """`2 unstable, 1 extra moved`, or `none`."""
    return ", ".join(f"{n} {reason.replace('_', ' ')}" for reason, n in rejects.items() if n) or "none"
