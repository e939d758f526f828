"""A cell is one computation of an experiment: a pure function of JSON-able settings and a seed.

Experiments that need the same cell share it: figures 4b and 6, for example, read different numbers off one training.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, eq=False)
class Cell:
    """`kind` says what is computed (see `kinds.py`), from `settings` (JSON values) and a seed."""

    kind: str
    settings: Mapping[str, Any]
    seed: int

    @property
    def key(self) -> str:
        """16 hex digits that name the cell: equal cells have equal keys."""
        text = json.dumps([self.kind, dict(self.settings), self.seed], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        parts = [f"{name} {_short(value)}" for name, value in self.settings.items() if name != "effort"]
        return f"{self.kind}, {', '.join(parts)}, seed {self.seed}"


def _short(value: Any) -> str:
    return " ".join(map(_short, value)) if isinstance(value, list | tuple) else f"{value}"


@dataclasses.dataclass(frozen=True)
class Size:
    """How large a run is.

    samples, test   training pushes (at most 15 % held out) and unseen ones
    seeds, tables   runs of each figure and of each table
    extras          numbers of extra blocks in figures 4b, 6, 7 and in `mixed`
    counts, many    training pushes in figure 4c; `many` for the baselines
    effort          the share of each training schedule that is run; 1 is the whole
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
        """The number of extra blocks of figure 4c and of `mixed`: 4, as in the rest of this project."""
        return 4


FULL = Size("full", 1250, 250, 5, 5, (0, 2, 4, 6, 8, 10), (100, 200, 400, 700, 1000, 1250), 10_000, 1.0, 8, 40, 60)
QUICK = Size("quick", 200, 50, 3, 3, (0, 4), (50, 200), 400, 0.25, 2, 10, 10)
SIZES = {size.name: size for size in (FULL, QUICK)}
