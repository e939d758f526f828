"""What is asked of SPARE in worlds with a known density, as claims with verdicts; see `known_worlds.py` for the runs.

near       at most so many nats per value below the truth: 0.3 at 100 transitions, 0.15 at 300, 0.08 at 1,000; not asked
           of simulators, where the truth is a limit by repeats that no model of this size may reach
wide       with five times the objects at most 0.05 is lost, beside what the truth loses; chains of 16 within 0.3
ahead      better than every rival; or level with it, where both reach the truth
not-empty  a rule that predicts nothing but the action's own objects comes with a note
kinds      hidden kinds are told apart: adjusted Rand index of at least 0.9 at 1,000
covered    intervals of 90 % hold 85 to 95 % of what moved, at 300
seconds    a fit of 300 transitions takes at most 30 s
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spare.lab.experiments.claims import Claim, Statement, differences
from spare.lab.experiments.experiment import Results, seeded
from spare.lab.experiments.known_worlds import LEARNERS, LINKS
from spare.lab.experiments.runs import Run
from spare.lab.worlds.catalogue import KNOWN

NEAR = {100: 0.3, 300: 0.15, 1000: 0.08}
LOST, LONG, REACHED = 0.05, 0.3, 0.05
"""Nats per value: lost with five times the objects; below the truth on long chains; that still count as the truth."""
RAND, COVERED, SECONDS = 0.9, (0.85, 0.95), 30.0
PARTS = {"movers": "objects that moved, the action's own left out", "all": "all objects"}
RIVALS = tuple(name for name in LEARNERS if name not in ("spare", "dense", "shared", "truth"))
"""The learners that SPARE is to be ahead of; its presets `dense` and `shared` are no rivals."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a bench computes: every learner in every world from every number of transitions, with every seed."""

    worlds: tuple[str, ...]
    sizes: tuple[int, ...]
    seeds: int
    learners: tuple[str, ...]
    test: int = 500
    effort: float = 1.0

    def of(self, world: str, learner: str, samples: int) -> list[Run]:
        """One run per seed; the truth learns from nothing."""
        given = 0 if learner == "truth" else samples
        settings = {"world": world, "learner": learner, "samples": given, "test": self.test, "effort": self.effort}
        return seeded("known-world", settings, self.seeds)

    def runs(self) -> list[Run]:
        """All runs, quick learners first, so that a bench that is stopped has something of everything."""
        order = [*sorted(self.learners, key=list(LEARNERS)[::-1].index)]
        return [
            run
            for samples in self.sizes
            for world in self.worlds
            for learner in order
            for run in self.of(world, learner, samples)
        ]


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Finished runs of a plan."""

    plan: Plan
    results: Results

    def over(self, world: str, learner: str, samples: int, read: Callable[[dict[str, Any]], Any]) -> list[float]:
        """One number per seed; nothing at all where a run is missing or has no such number."""
        found = [self.results.value(run) for run in self.plan.of(world, learner, samples)]
        numbers = [None if one is None else read(one) for one in found]
        return [float(one) for one in numbers if one is not None] if None not in numbers else []

    def nats(self, world: str, learner: str, samples: int, part: str, test: str = "home") -> list[float]:
        """Nats per value of a part of the objects on one test set."""
        return self.over(world, learner, samples, lambda one: (one["tests"].get(test) or {}).get(part))

    def below(self, world: str, learner: str, samples: int, part: str, test: str = "home") -> list[float]:
        """How far below the truth."""
        return differences(
            self.nats(world, "truth", samples, part, test), self.nats(world, learner, samples, part, test)
        )


def claims(numbers: Numbers) -> list[Claim]:
    """All claims about the worlds and sizes of the plan."""
    found: list[Claim] = []
    for world in numbers.plan.worlds:
        for samples in numbers.plan.sizes:
            for part in PARTS:
                if numbers.nats(world, "truth", samples, part):
                    found += _near(numbers, world, samples, part)
                    found += [_ahead(numbers, world, samples, part, rival) for rival in _rivals(numbers)]
            found.append(_not_empty(numbers, world, samples))
        found += _once(numbers, world)
    return found


def _rivals(numbers: Numbers) -> list[str]:
    return [one for one in RIVALS if one in numbers.plan.learners]


def _statement(name: str, says: str, quantity: str) -> Statement:
    return Statement(f"worlds.{name}", says, quantity, "ours")


def _near(numbers: Numbers, world: str, samples: int, part: str) -> list[Claim]:
    """Near the truth at home, with five times the objects, and on long chains."""
    at = f"{world}-{samples}-{part}"
    found, home = [], numbers.below(world, "spare", samples, part)
    if samples in NEAR and world in KNOWN:
        says = f"World {world}, {samples:,} transitions, {PARTS[part]}: SPARE is near the truth"
        found.append(_statement(f"near-{at}", says, "nats per value: truth - spare").below(home, NEAR[samples]))
    more = differences(numbers.below(world, "spare", samples, part, "wide"), home)
    says = f"World {world}, {samples:,} transitions, {PARTS[part]}: five times the objects cost SPARE nothing"
    found.append(_statement(f"wide-{at}", says, "further nats per value below the truth").below(more, LOST))
    if world == "chain" and part == "movers":
        long = numbers.below(world, "spare", samples, part, str(LINKS[-1]))
        says = f"Chains of {LINKS[-1]} links, learned from {samples:,} short ones: SPARE is near the truth"
        found.append(_statement(f"long-{at}", says, "nats per value: truth - spare").below(long, LONG))
    return found


def _ahead(numbers: Numbers, world: str, samples: int, part: str, rival: str) -> Claim:
    """Ahead of a rival, or level where both reach the truth."""
    mine, theirs = (numbers.nats(world, one, samples, part) for one in ("spare", rival))
    gaps = [numbers.below(world, one, samples, part) for one in ("spare", rival)]
    level = all(gap and float(np.mean(gap)) <= REACHED for gap in gaps)
    says = f"World {world}, {samples:,} transitions, {PARTS[part]}: SPARE is ahead of {LEARNERS[rival]}"
    says += ", or level: both reach the truth" if level else ""
    claim = _statement(f"ahead-{world}-{samples}-{part}-{rival}", says, f"nats per value: spare - {rival}")
    return claim.above(differences(mine, theirs), -REACHED if level else 0.0)


def _not_empty(numbers: Numbers, world: str, samples: int) -> Claim:
    def fine(one: dict[str, Any]) -> float:
        return float(not one["empty"] or any(not note.startswith("property ") for note in one["notes"]))

    outcomes = numbers.over(world, "spare", samples, fine)
    says = f"World {world}, {samples:,} transitions: SPARE's rule is not empty, or a note says so"
    return _statement(f"not-empty-{world}-{samples}", says, "share of runs").every([bool(one) for one in outcomes])


def _once(numbers: Numbers, world: str) -> list[Claim]:
    """Claims about one number of transitions."""
    found, sizes = [], numbers.plan.sizes
    if world == "kinds" and 1000 in sizes:
        says = "Hidden kinds, 1,000 transitions: SPARE tells them apart"
        index = numbers.over(world, "spare", 1000, lambda one: one.get("rand"))
        found.append(_statement("kinds", says, "adjusted Rand index").above(index, RAND))
    if 300 in sizes:
        found.append(_covered(numbers, world))
        seconds = numbers.over(world, "spare", 300, lambda one: one["seconds"])
        says = f"World {world}: a fit of 300 transitions takes at most {SECONDS:g} s"
        found.append(_statement(f"seconds-{world}", says, "seconds").below(seconds, SECONDS))
    return found


def _covered(numbers: Numbers, world: str) -> Claim:
    """Of what moved; of all values where even the truth's own intervals miss it, because moving was unlikely."""
    key, low, high = "covered", *COVERED
    own = numbers.over(world, "truth", 300, lambda one: one["tests"]["home"][key])
    if not own or not low <= float(np.mean(own)) <= high:
        key = "covered_all"
    found = numbers.over(world, "spare", 300, lambda one: one["tests"]["home"][key])
    what = "what moved" if key == "covered" else "all values (moving is unlikely here: the truth's miss it, too)"
    says = f"World {world}, 300 transitions: intervals of 90 % hold {low:.0%} to {high:.0%} of {what}"
    middle, half = (low + high) / 2, (high - low) / 2
    return _statement(f"covered-{world}", says, f"share inside, less {middle:g}").within(
        [one - middle for one in found], half
    )


def tally(found: Sequence[Claim]) -> dict[str, dict[str, int]]:
    """How many claims of each group have each verdict; the group is the claim's first word."""
    result: dict[str, dict[str, int]] = {}
    for one in found:
        group = "not-empty" if one.name.startswith("worlds.not-empty") else one.name.split(".")[1].split("-")[0]
        counts = result.setdefault(group, {})
        counts[one.verdict] = counts.get(one.verdict, 0) + 1
    return result
