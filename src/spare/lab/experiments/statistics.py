"""Means and intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95


class Estimate(NamedTuple):
    """A mean over so many `runs` with its 95 % interval; without limits where there are fewer than two runs."""

    mean: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        if not math.isfinite(self.low):
            return f"{self.mean:.3g} ({self.runs} run{'s' * (self.runs != 1)})"
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def short(self) -> str:
        """`4.35 ± 0.02`, without an interval where there is none; `-` without numbers."""
        if math.isnan(self.mean):
            return "-"
        wide = math.isfinite(self.low) and self.low != self.high
        return f"{self.mean:.2f}" + (f" ± {(self.high - self.low) / 2:.2f}" if wide else "")


UNKNOWN = Estimate(math.nan, -math.inf, math.inf, 0)
"""The estimate from no runs."""


def over_runs(values: Sequence[float]) -> Estimate:
    """mean ± t s / sqrt(n): Student's interval over independent runs."""
    from scipy.stats import t

    numbers = np.asarray(values, np.float64)
    count = len(numbers)
    if count < 2:
        return Estimate(float(numbers.mean()) if count else math.nan, -math.inf, math.inf, count)
    wide = float(t.ppf(0.5 + LEVEL / 2, count - 1)) * float(numbers.std(ddof=1)) / math.sqrt(count)
    return Estimate(float(numbers.mean()), float(numbers.mean()) - wide, float(numbers.mean()) + wide, count)


def share(successes: int, count: int) -> Estimate:
    """Wilson's interval for a share of runs."""
    from scipy.stats import norm

    if not count:
        return UNKNOWN
    z = float(norm.ppf(0.5 + LEVEL / 2))
    rate, wide = successes / count, z * z / count
    middle = (rate + wide / 2) / (1 + wide)
    half = math.sqrt(rate * (1 - rate) * wide + wide * wide / 4) / (1 + wide)
    return Estimate(rate, max(0.0, middle - half), min(1.0, middle + half), count)


FEWEST = 5
"""Runs that a median needs: that all five are on the wrong side of it by chance happens once in 32 times."""


def median_of(values: Sequence[float]) -> Estimate:
    """The median over runs, between the smallest and the largest: one-sided, 1 - 2^-n of all such intervals hold it.

    For numbers with outliers that a mean and Student's interval do not survive.
    """
    numbers = np.asarray(values, np.float64)
    if len(numbers) < FEWEST:
        return Estimate(float(np.median(numbers)) if len(numbers) else math.nan, -math.inf, math.inf, len(numbers))
    return Estimate(float(np.median(numbers)), float(numbers.min()), float(numbers.max()), len(numbers))
