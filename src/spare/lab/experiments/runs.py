"""A run is one computation of an experiment: a pure function of JSON-able settings and a seed.

Experiments that need the same run share it: figures 4b and 6, for example, read different numbers off one training.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """`task` says what is computed (see `tasks.py`), from `settings` (JSON values) and a seed."""

    task: str
    settings: Mapping[str, Any]
    seed: int

    @property
    def key(self) -> str:
        """16 hex digits that name the run: equal runs have equal keys."""
        text = json.dumps([self.task, dict(self.settings), self.seed], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def record(self, **found: object) -> dict[str, Any]:
        """What is stored of the run: the run itself, and what was found."""
        return {"task": self.task, "settings": dict(self.settings), "seed": self.seed, **found}

    def __str__(self) -> str:
        parts = [f"{name} {_short(value)}" for name, value in self.settings.items() if name != "effort"]
        return f"{self.task}, {', '.join(parts)}, seed {self.seed}"


def _short(value: object) -> str:
    return " ".join(map(_short, value)) if isinstance(value, list | tuple) else f"{value}"


@dataclasses.dataclass(frozen=True)
class Size:
    """How large an experiment is.

    samples, test   training pushes (at most 15 % held out) and unseen ones
    seeds, tables   runs of each figure and of each table
    extras          numbers of extra blocks in figures 4b, 6, 7 and in `mixed`
    counts, many    training pushes in figure 4c; `many` for the baselines
    effort          the share of each training schedule that is executed; 1 is the whole
    repeats         simulations of a push for the noise floor, of `replayed` pushes
    """

    name: str
    samples: int
    test: int
    seeds: int
    tables: int
    extras: tuple[int, ...]
    counts: tuple[int, ...]
    many: int
    effort: float
    iterations: int
    repeats: int
    replayed: int

    @property
    def usual(self) -> int:
        """The number of extra blocks where it is not varied: 4."""
        return 4

    @property
    def whole(self) -> bool:
        """Whether learners are trained in full."""
        return self.effort >= 1


FULL = Size("full", 1250, 250, 5, 5, (0, 2, 4, 6, 8, 10), (100, 200, 400, 700, 1000, 1250), 10_000, 1.0, 8, 40, 60)
QUICK = Size("quick", 200, 50, 3, 3, (0, 4), (50, 200), 400, 0.25, 2, 10, 10)
SIZES = {size.name: size for size in (FULL, QUICK)}
