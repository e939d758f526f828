"""`spare reproduce` itself, with one small experiment, to be killed: `python -m tests.faults.reproducer OPTIONS`."""

from __future__ import annotations

import dataclasses
import sys

from spare.commands.entry import main
from spare.lab.experiments import catalogue, runs
from spare.lab.experiments.claims import Claim, Statement
from spare.lab.experiments.experiment import Experiment, Results, score_runs
from spare.lab.experiments.figures import Curve, Grid, Picture
from spare.lab.experiments.runs import Run, Size

SMALL = dataclasses.replace(runs.QUICK, samples=12, test=5, replayed=2, repeats=10)


def every(size: Size) -> list[Run]:
    """Cells that simulate a little, and one that looks at what nothing-moves would score."""
    settings = {"extra": 0, "test": size.test, "replayed": size.replayed, "repeats": size.repeats}
    return [*(Run("noise", settings, seed) for seed in range(4)), *score_runs(size, "no-change", extra=0, seeds=1)]


def pictures(results: Results) -> list[Picture | Grid]:
    """One point."""
    level = results.estimate(every(results.size), lambda one: one["stack"])
    return [Picture("still", "Nothing moves", "extra blocks", "nats", (Curve("still", (0,), (level,)),))]


def claims(results: Results) -> list[Claim]:
    """One number."""
    found = results.over(every(results.size), lambda one: one["stack"])
    return [Statement("still.finite", "It has a density", "nats").above(found, -100.0)]


STILL = Experiment("fig4a", "Nothing moves", "Nothing.", "Everything.", every, pictures, claims)

if __name__ == "__main__":
    runs.QUICK = runs.SIZES["quick"] = SMALL
    catalogue.EXPERIMENTS.clear()
    catalogue.EXPERIMENTS["fig4a"] = STILL
    sys.exit(main(["reproduce", "all", "--quick", *sys.argv[1:]]))
