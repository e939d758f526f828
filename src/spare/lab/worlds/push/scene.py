"""Draws a scene: a stack that can stand, a push at its bottom block, and blocks that are out of the way.

1. Sizes and masses are uniform. Blocks are aligned with the table's axes.
2. The stack is built bottom up; each block is shifted a little from the one below. By statics it stands if,
   for every block, the centre of mass of all that is above lies over its top face; shifts are drawn again
   until that holds with a margin.
3. The gripper starts at a random bearing and distance from the target, at a height within its side.
4. Extra blocks stand anywhere on the table except near the line that the push sweeps, apart from each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spare.lab.worlds.push.settings import Ranges, Settings, keep_out

UPRIGHT = (0.0, 0.0, 0.0, 1.0)
TRIES = 2000


@dataclass(frozen=True)
class Push:
    """push(target; xg, yg, zg, d): start at (xg, yg, zg), go distance d toward the target's centre, level."""

    xg: float
    yg: float
    zg: float
    d: float

    def heading(self, target: np.ndarray) -> float:
        """The direction of the push, as an angle from the x axis: from the gripper to the target's (x, y)."""
        return math.atan2(float(target[1]) - self.yg, float(target[0]) - self.xg)

    def disturbed(self, rng: np.random.Generator, noise: float) -> Push:
        """What is executed instead: each parameter plus independent Gaussian noise; d stays at least 0."""
        error = rng.normal(0.0, 1.0, 4) * noise
        return Push(
            self.xg + float(error[0]),
            self.yg + float(error[1]),
            self.zg + float(error[2]),
            max(0.0, self.d + float(error[3])),
        )

    def as_tuple(self) -> tuple[float, float, float, float]:
        """(xg, yg, zg, d)."""
        return self.xg, self.yg, self.zg, self.d


@dataclass(frozen=True)
class Scene:
    """N blocks, the stack first and bottom up, then the extra ones; block 0 is the target.

    sizes (N, 3) width, length, height; masses (N,); poses (N, 7) centre, then quaternion x, y, z, w.
    """

    sizes: np.ndarray
    masses: np.ndarray
    poses: np.ndarray
    stack: int

    def __len__(self) -> int:
        return len(self.masses)


@dataclass(frozen=True)
class Draw:
    """One attempt at a sample: the scene, the push, and the order in which a state lists the blocks."""

    scene: Scene
    push: Push
    order: np.ndarray


class NoRoomError(Exception):
    """The stack or an extra block found no place; the attempt is rejected and counted."""


def draw(settings: Settings, index: int, attempt: int) -> Draw:
    """Attempt `attempt` at sample `index`. The target is listed first, the others in random order."""
    rng = np.random.default_rng(np.random.SeedSequence([settings.seed, index, attempt, 0]))
    ranges, height = settings.ranges, settings.height_of(index)
    count = height + settings.extra
    low, high = zip(ranges.width, ranges.length, ranges.height, strict=True)
    sizes = rng.uniform(low, high, (count, 3))
    masses = rng.uniform(*ranges.mass, count)
    poses = np.tile(np.array([0.0, 0.0, 0.0, *UPRIGHT]), (count, 1))
    poses[:height, :3] = _stack(rng, ranges, sizes[:height], masses[:height])
    push = _push(rng, ranges, poses[0], sizes[0])
    poses[height:, :3] = _extras(rng, ranges, height, sizes, push, poses[0])
    order = np.concatenate([[0], 1 + rng.permutation(count - 1)]).astype(np.int64)
    return Draw(Scene(sizes, masses, poses, height), push, order)


def noise_source(settings: Settings, index: int, attempt: int, repeat: int = 0) -> np.random.Generator:
    """The stream of action noise: repeat 0 is the one in the data, 1, 2, ... are fresh."""
    return np.random.default_rng(np.random.SeedSequence([settings.seed, index, attempt, 1, repeat]))


def overhang(sizes: np.ndarray, masses: np.ndarray, centres: np.ndarray) -> float:
    """min over blocks k of the distance from the edge of k's carrying face to the weight on it; < 0 falls."""
    least = math.inf
    for k in range(len(masses) - 1):
        weight = np.average(centres[k + 1 :, :2], axis=0, weights=masses[k + 1 :])
        upper = centres[k + 1]
        for axis in range(2):
            # The face that carries is where block k and the next one overlap.
            left = max(centres[k, axis] - sizes[k, axis] / 2, upper[axis] - sizes[k + 1, axis] / 2)
            right = min(centres[k, axis] + sizes[k, axis] / 2, upper[axis] + sizes[k + 1, axis] / 2)
            least = min(least, weight[axis] - left, right - weight[axis])
    return float(least)


def _stack(rng: np.random.Generator, ranges: Ranges, sizes: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Centres (height, 3) of a stack that stands, by statics."""
    top = np.cumsum(sizes[:, 2])
    centres = np.zeros((len(masses), 3))
    centres[:, 2] = top - sizes[:, 2] / 2
    base = rng.uniform(-ranges.spread, ranges.spread, 2)
    for _ in range(TRIES):
        shifts = rng.uniform(-ranges.shift, ranges.shift, (len(masses), 2))
        shifts[0] = 0.0
        centres[:, :2] = base + np.cumsum(shifts, axis=0)
        if overhang(sizes, masses, centres) >= ranges.margin:
            return centres
    raise NoRoomError("no stable stack")


def _push(rng: np.random.Generator, ranges: Ranges, target: np.ndarray, size: np.ndarray) -> Push:
    """A push that starts clear of the target, at a uniform bearing."""
    bearing = rng.uniform(-math.pi, math.pi)
    reach = rng.uniform(*ranges.start)
    return Push(
        float(target[0] + reach * math.cos(bearing)),
        float(target[1] + reach * math.sin(bearing)),
        float(rng.uniform(*ranges.grip) * size[2]),
        float(rng.uniform(*ranges.distance)),
    )


def _extras(
    rng: np.random.Generator, ranges: Ranges, height: int, sizes: np.ndarray, push: Push, target: np.ndarray
) -> np.ndarray:
    """Centres of the extra blocks: on the table, apart from each other, off the line of the push."""
    extra = sizes[height:]
    start = np.array([push.xg, push.yg])
    heading = push.heading(target)
    end = start + (ranges.start[1] + push.d) * np.array([math.cos(heading), math.sin(heading)])
    centres = np.zeros((len(extra), 3))
    for k, size in enumerate(extra):
        room = ranges.table / 2 - size[:2] / 2
        radius = keep_out(ranges, height) + math.hypot(size[0], size[1]) / 2
        gap = (extra[:k, :2] + size[:2]) / 2 + ranges.clearance
        for _ in range(TRIES):
            spot = rng.uniform(-room, room)
            apart = (np.abs(centres[:k, :2] - spot) >= gap).any(axis=1).all()
            if apart and _to_segment(spot, start, end) >= radius:
                break
        else:
            raise NoRoomError("no room for an extra block")
        centres[k] = (*spot, size[2] / 2)
    return centres


def _to_segment(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    """The distance from a point to the segment from start to end."""
    along = end - start
    share = np.clip(np.dot(point - start, along) / np.dot(along, along), 0.0, 1.0)
    return float(np.linalg.norm(point - start - share * along))
