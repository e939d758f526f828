"""What an experiment is: its runs, and how figures and claims are read off them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from spare.lab.experiments.claims import Claim, differences
from spare.lab.experiments.figures import Curve, Grid, Picture
from spare.lab.experiments.runs import Run, Size
from spare.lab.experiments.statistics import Estimate, over_runs

STACK = "nats per value of the stack"
NONE = "The paper has no such experiment."
Reader = str | Callable[[dict[str, Any]], float]
"""How a number is read off a run's values: the name of one, or a function."""


def _read(values: dict[str, Any], read: Reader) -> float:
    return float(values[read] if isinstance(read, str) else read(values))


class Results:
    """Values of finished runs, by run."""

    def __init__(self, size: Size, records: dict[str, dict[str, Any]]) -> None:
        self.size, self._records = size, records

    def value(self, run: Run) -> dict[str, Any] | None:
        """What the run found, or None if it is missing or failed."""
        return self._records.get(run.key, {}).get("values")

    def over(self, runs: Sequence[Run], read: Reader) -> list[float]:
        """One number per run; nothing at all if one of them has none, since runs are compared pair by pair."""
        found = [self.value(run) for run in runs]
        return [_read(one, read) for one in found if one is not None] if None not in found else []

    def estimate(self, runs: Sequence[Run], read: Reader) -> Estimate:
        """Mean and interval over those of the runs that have a number."""
        values = [self.value(run) for run in runs]
        return over_runs([_read(one, read) for one in values if one is not None])

    def apart(self, first: Sequence[Run], second: Sequence[Run], read: Reader) -> list[float]:
        """first - second, run by run."""
        return differences(self.over(first, read), self.over(second, read))

    def curve(
        self, label: str, x: Sequence[int], runs: Callable[[int], Sequence[Run]], read: Reader, key: str = ""
    ) -> Curve:
        """Estimates over x, each from the runs at that x; `key` chooses the colour."""
        return Curve(label, tuple(x), tuple(self.estimate(runs(at), read) for at in x), key)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper (or one that it only mentions), reproduced.

    paper: what the paper shows or says; differs: what is different here, and why.
    """

    name: str
    title: str
    paper: str
    differs: str
    runs: Callable[[Size], list[Run]]
    pictures: Callable[[Results], Sequence[Picture | Grid]]
    claims: Callable[[Results], list[Claim]]


def seeded(task: str, settings: dict[str, Any], seeds: int) -> list[Run]:
    """One run per seed."""
    return [Run(task, settings, seed) for seed in range(seeds)]


def score_runs(
    size: Size, method: str, *, extra: int, samples: int | None = None, seeds: int | None = None, **more: Any
) -> list[Run]:
    """One run per seed: the method on stacks of three (or `height` blocks) among `extra` other blocks."""
    settings = {"method": method, "extra": extra, "samples": samples or size.samples, "test": size.test}
    return seeded("score", {**settings, "effort": size.effort, **more}, seeds or size.seeds)


def noise_runs(size: Size, extra: int, seeds: int = 2) -> list[Run]:
    """The simulator's noise, one run per seed."""
    settings = {"extra": extra, "test": size.test, "replayed": size.replayed, "repeats": size.repeats}
    return seeded("noise", settings, min(seeds, size.seeds))
