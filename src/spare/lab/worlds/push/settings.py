"""What a push world is made of: the ranges that scenes are drawn from, and one generator's settings.

Lengths are metres, masses kilograms, times seconds. Everything here is frozen, compared with `==` and
written into the metadata of a data file, so that the file alone is enough to make its samples again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from spare.errors import UsageError, one_of

ENGINES = ("bullet", "mujoco")

Range = tuple[float, float]


@dataclass(frozen=True)
class Ranges:
    """Uniform ranges of everything random in a scene, and the fixed sizes of table and gripper."""

    width: Range = (0.06, 0.10)
    length: Range = (0.06, 0.10)
    height: Range = (0.04, 0.06)
    mass: Range = (0.1, 0.3)
    spread: float = 0.15
    """The stack stands within this distance of the table's middle, along x and along y."""
    shift: float = 0.012
    """A block of the stack is off the one below by at most this, along x and along y."""
    margin: float = 0.010
    """The weight above any block of the stack acts at least this far inside its top face."""
    start: Range = (0.105, 0.14)
    """How far from the target's centre the gripper starts."""
    distance: Range = (0.07, 0.18)
    """How far the gripper moves (d)."""
    grip: Range = (0.35, 0.65)
    """Where the gripper's centre is (zg), as a share of the target's height."""
    table: float = 1.2
    """The side of the square table top."""
    clearance: float = 0.02
    """What is left free between two blocks that stand side by side."""
    sway: float = 0.03
    """How much further than half a block's diagonal from the line of the push extra blocks stay away."""

    def __post_init__(self) -> None:
        for name in ("width", "length", "height", "mass", "start", "distance", "grip"):
            low, high = getattr(self, name)
            if not 0 < low <= high < math.inf:
                raise UsageError(f"range {name} must be two positive numbers, the smaller first, got {low}, {high}")
        if not (self.table > 0 and self.spread >= 0 and self.shift >= 0):
            raise UsageError("table must be positive, spread and shift must not be negative")


@dataclass(frozen=True)
class Settings:
    """Sample i of `Settings` is a function of (settings, i) and of nothing else."""

    heights: tuple[int, ...] = (3,)
    shares: tuple[float, ...] = (1.0,)
    extra: int = 0
    seed: int = 0
    engine: str = "bullet"
    noise: float = 0.0025
    """Standard deviation of the noise on each executed parameter xg, yg, zg, d."""
    ranges: Ranges = field(default_factory=Ranges)

    def __post_init__(self) -> None:
        _check_stack(self.heights, self.shares)
        _whole("extra", self.extra, 0)
        _whole("seed", self.seed, 0)
        if self.engine not in ENGINES:
            raise UsageError(one_of("engine", self.engine, ENGINES))
        if not (math.isfinite(self.noise) and 0 <= self.noise <= 0.05):
            raise UsageError(f"noise must be between 0 and 0.05 m, got {self.noise!r}")
        room = capacity(self.ranges, max(self.heights))
        if self.extra > room:
            raise UsageError(
                f"{self.extra} extra blocks cannot be placed on a table of {self.ranges.table:g} m "
                f"beside a stack of {max(self.heights)} and its push; at most {room} can"
            )

    @classmethod
    def make(cls, stack: int | Sequence[int], share: Sequence[float] | None = None, **rest: Any) -> Settings:
        """Settings for one height or several, with shares that need not add up to one (default: equal)."""
        heights = (stack,) if isinstance(stack, int) else tuple(stack)
        shares = tuple(float(s) for s in (share if share is not None else (1.0,) * len(heights)))
        total = sum(shares)
        if len(shares) == len(heights) and total > 0 and math.isfinite(total):
            shares = tuple(s / total for s in shares)
        return cls(heights=heights, shares=shares, **rest)

    def height_of(self, index: int) -> int:
        """The stack height of sample `index`: shares hold for every run of samples, to about one sample.

        Points that step by the golden ratio, modulo one, fill [0, 1) evenly however many are taken.
        """
        point = (index * 0.6180339887498949 + self.seed * 0.7548776662466927) % 1.0
        total = 0.0
        for height, share in zip(self.heights, self.shares, strict=True):
            total += share
            if point < total:
                return height
        return self.heights[-1]

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and strings; `from_json` is its inverse."""
        plain = asdict(self)
        plain["heights"], plain["shares"] = list(self.heights), list(self.shares)
        plain["ranges"] = {k: list(v) if isinstance(v, tuple) else v for k, v in plain["ranges"].items()}
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Settings:
        """The settings that `to_json` wrote."""
        ranges: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in plain["ranges"].items()}
        rest = {k: v for k, v in plain.items() if k not in ("heights", "shares", "ranges")}
        return cls(tuple(plain["heights"]), tuple(plain["shares"]), ranges=Ranges(**ranges), **rest)


def capacity(ranges: Ranges, height: int) -> int:
    """How many extra blocks surely find a place: 40 % of the cells that the push leaves free.

    Random placing without overlap fills about 55 % of a plane with squares before it jams.
    """
    cell = max(ranges.width[1], ranges.length[1]) + ranges.clearance
    radius = keep_out(ranges, height) + cell / 2
    sweep = 2 * radius * (ranges.start[1] + ranges.distance[1]) + math.pi * radius**2
    return max(0, int(0.4 * (ranges.table**2 - sweep) / cell**2))


def keep_out(ranges: Ranges, height: int) -> float:
    """How far from the line of the push the stack may reach: half a block's diagonal, and room to sway."""
    return math.hypot(ranges.width[1], ranges.length[1]) / 2 + ranges.sway + 0.01 * height


def _check_stack(heights: tuple[int, ...], shares: tuple[float, ...]) -> None:
    """Raise unless there is at least one height, each at least 1, and a positive share for each."""
    if not heights:
        raise UsageError("stack needs at least one height")
    for height in heights:
        _whole("a stack's height", height, 1)
        if height > 8:
            raise UsageError(f"a stack's height must be at most 8 to stand safely, got {height}")
    if len(set(heights)) != len(heights):
        raise UsageError(f"stack heights must differ, got {list(heights)}")
    if len(shares) != len(heights):
        raise UsageError(f"share needs one number per stack height: {len(heights)}, got {len(shares)}")
    if not all(math.isfinite(s) and s >= 0 for s in shares) or abs(sum(shares) - 1) > 1e-6:
        raise UsageError(f"shares must be non-negative and not all zero, got {list(shares)}")


def _whole(name: str, value: object, least: int) -> None:
    """Raise unless `value` is a whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, got {value!r}")
