"""What an experiment is: its cells, and how figures and claims are read off them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from spare.lab.experiments.cells import Cell, Size
from spare.lab.experiments.claims import Claim
from spare.lab.experiments.figures import Grid, Picture
from spare.lab.experiments.statistics import Estimate, over_runs


class Results:
    """Values of finished cells, by cell."""

    def __init__(self, size: Size, records: dict[str, dict[str, Any]]) -> None:
        self.size, self._records = size, records

    def value(self, cell: Cell) -> dict[str, Any] | None:
        """What the cell found, or None if it is missing or failed."""
        return self._records.get(cell.key, {}).get("values")

    def over(self, cells: Sequence[Cell], read: Callable[[dict[str, Any]], float]) -> list[float]:
        """One number per cell; nothing at all if one of them has none, since runs are compared pair by pair."""
        found = [self.value(cell) for cell in cells]
        return [float(read(one)) for one in found if one is not None] if all(f is not None for f in found) else []

    def estimate(self, cells: Sequence[Cell], read: Callable[[dict[str, Any]], float]) -> Estimate:
        """Mean and interval over those of the cells that have a number."""
        values = [self.value(cell) for cell in cells]
        return over_runs([float(read(one)) for one in values if one is not None])


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper (or one that it only speaks of), made again.

    paper: what the paper shows or says; differs: what is different here, and why.
    """

    name: str
    title: str
    paper: str
    differs: str
    cells: Callable[[Size], list[Cell]]
    pictures: Callable[[Results], list[Picture | Grid]]
    claims: Callable[[Results], list[Claim]]


def score_cells(
    size: Size, method: str, *, extra: int, samples: int | None = None, seeds: int | None = None
) -> list[Cell]:
    """One score cell per seed: the method on stacks of three among `extra` other blocks."""
    settings = {
        "method": method,
        "extra": extra,
        "samples": samples or size.samples,
        "test": size.test,
        "effort": size.effort,
    }
    return [Cell("score", settings, seed) for seed in range(seeds or size.seeds)]


def noise_cells(size: Size, extra: int, seeds: int = 2) -> list[Cell]:
    """The simulator's noise, one cell per seed."""
    settings = {"extra": extra, "test": size.test, "replayed": size.replayed, "repeats": size.repeats}
    return [Cell("noise", settings, seed) for seed in range(min(seeds, size.seeds))]
