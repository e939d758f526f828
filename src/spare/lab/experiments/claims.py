"""Claims: statements about an experiment, each computed from its runs, with an interval and a verdict.

Medians are used for the flat network, whose likelihood has outliers of thousands of nats.

holds            the whole 95 % interval is on the side that the claim says
does not hold    the whole interval is on the other side
not decided      it is on both: this many runs, or runs of this size, do not tell
no numbers       a run that the claim needs is missing or failed
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

from spare.lab.experiments.statistics import UNKNOWN, Estimate, median_of, over_runs, share

Source = Literal["paper", "ours"]
Verdict = Literal["holds", "does not hold", "not decided", "no numbers"]


@dataclasses.dataclass(frozen=True)
class Statement:
    """What a claim says, before there are numbers.

    says: the claim in words; quantity: what is estimated; source: the paper, or ours where the paper makes no such
    statement.
    """

    name: str
    says: str
    quantity: str
    source: Source = "paper"

    def above(self, values: Sequence[float], bound: float = 0.0, *, typical: bool = False) -> Claim:
        """The mean of `values` over runs, or with `typical` their median, is greater than `bound`."""
        found, what = (median_of(values), "median ") if typical else (over_runs(values), "")
        return self._claim(f"{what}> {bound:g}", found, _side(found.low > bound, found.high < bound, found))

    def below(self, values: Sequence[float], bound: float = 0.0, *, typical: bool = False) -> Claim:
        """The mean of `values` over runs, or with `typical` their median, is smaller than `bound`."""
        found, what = (median_of(values), "median ") if typical else (over_runs(values), "")
        return self._claim(f"{what}< {bound:g}", found, _side(found.high < bound, found.low > bound, found))

    def within(self, values: Sequence[float], bound: float) -> Claim:
        """The mean of `values` over runs is between -bound and bound."""
        found = over_runs(values)
        inside = -bound < found.low and found.high < bound
        outside = found.low > bound or found.high < -bound
        return self._claim(f"between -{bound:g} and {bound:g}", found, _side(inside, outside, found))

    def mostly(self, outcomes: Sequence[bool]) -> Claim:
        """More than half of all such runs succeed (Wilson's interval for the share)."""
        found = share(sum(outcomes), len(outcomes))
        return self._claim("> 0.5 of runs", found, _side(found.low > 0.5, found.high < 0.5, found))

    def every(self, outcomes: Sequence[bool]) -> Claim:
        """Every run succeeds; Wilson's interval says what that means for others."""
        found = share(sum(outcomes), len(outcomes))
        return self._claim("every run", found, _side(all(outcomes), not all(outcomes), found))

    def _claim(self, bound: str, found: Estimate, verdict: Verdict) -> Claim:
        return Claim(self.name, self.says, self.quantity, self.source, bound, found, verdict)


@dataclasses.dataclass(frozen=True)
class Claim(Statement):
    """One statement with what was found; bound: what the claim asks of the estimate, as in "> 0"."""

    bound: str = ""
    estimate: Estimate = UNKNOWN
    verdict: Verdict = "no numbers"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; limits that do not exist are None."""
        numbers = self.estimate._asdict()
        plain = {k: v if math.isfinite(v) else None for k, v in numbers.items()}
        return {**dataclasses.asdict(self), "estimate": plain}


@dataclasses.dataclass(frozen=True)
class Summary:
    """What was found: claims by experiment, runs that failed and why, processor seconds and number of all runs."""

    claims: dict[str, list[Claim]]
    failed: dict[str, str]
    seconds: float
    runs: int


def _side(yes: bool, no: bool, found: Estimate) -> Verdict:
    if math.isnan(found.mean):
        return "no numbers"
    return "holds" if yes else "does not hold" if no else "not decided"


def whose(method: str) -> Source:
    """Whether a statement about a method is the paper's, which has these two learners, or ours."""
    return "paper" if method in ("spare-paper", "flat") else "ours"


def differences(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """first - second, run by run; nothing where one of them has no numbers."""
    return [a - b for a, b in _pairs(first, second)]


def ratios(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """first / second, run by run; nothing where one of them has no numbers."""
    return [a / b for a, b in _pairs(first, second)]


def _pairs(first: Sequence[float], second: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip(first, second, strict=True)) if first and second else []
