"""`spare bench em`: seconds per EM iteration, its trainings as one batch on all cores or one after another.

1. Push data with stacks of 2, 3 and 4 blocks; memberships start from the heights, blurred, so that every run does the
   same work; preset `paper`.
2. All trainings of a step at once; the same on one thread; and one after another, each a program compiled (before the
   clock starts) for the shape of its own rule, as a loop over rules and shells would do it, on one thread and on all.
3. Warm starts on and off: seconds, and held-out likelihood of what is learned.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def run(*, quick: bool, seed: int, quiet: bool) -> dict[str, Any]:
    """Seconds per iteration by way of training, their ratios, and what warm starts cost and bring."""
    from spare.domains import push
    from spare.learning.threads import cores

    samples, rounds = (150, 1) if quick else (900, 3)
    _say(quiet, f"generating {samples + samples // 3} pushes")
    data = push.generate(samples + samples // 3, stack=(2, 3, 4), seed=seed, jobs=cores())
    case = Case.make(data[:samples], data[samples:], seed, quick)
    _say(quiet, "compiling")
    case.run(threads=None, warm=False)
    compiling = [case.one_by_one(threads) for threads in (1, None)]
    compiling = [first - case.one_by_one(threads) for first, threads in zip(compiling, (1, None), strict=True)]
    ways: dict[str, Callable[[], float]] = {
        "an EM iteration": lambda: case.run(threads=None, warm=False)["seconds"],
        "its trainings, at once": lambda: case.at_once(None),
        "its trainings, at once, one thread": lambda: case.at_once(1),
        "its trainings, one after another, one thread": lambda: case.one_by_one(1),
        "its trainings, one after another, all threads": lambda: case.one_by_one(None),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        _say(quiet, f"measuring, round {number + 1} of {rounds}")
        for name, way in ways.items():
            times[name].append(way())
    _say(quiet, "warm starts")
    warm = [case.run(threads=None, warm=flag) for flag in (False, True)]
    batch = np.array(times["its trainings, at once"])
    return {
        "cores": cores(),
        "samples": samples,
        "trainings": case.trainings,
        "seconds": times,
        "ratio": {name: float(np.median(np.array(these) / batch)) for name, these in times.items()},
        "compiling_each_shape": max(compiling),
        "warm_start": {"off": warm[0], "on": warm[1], "ratio": warm[0]["seconds"] / warm[1]["seconds"]},
        "goals": {"ratio to one after another": 2.0},
    }


def _say(quiet: bool, text: str) -> None:
    if not quiet:
        print(text, file=sys.stderr, flush=True)


@dataclasses.dataclass
class Case:
    """EM on one data set, ready to run in different ways."""

    extractor: Any
    plan: Any
    start: np.ndarray
    held_out: Any
    iterations: int
    trainings: int = 0

    @classmethod
    def make(cls, data: Any, held_out: Any, seed: int, quick: bool) -> Case:
        """Memberships of 0.8 with the height's own rule; short searches."""
        from spare.learning.api import Task, make_extractor, prepare
        from spare.learning.presets import PRESETS

        preset = PRESETS["paper"]
        training = dataclasses.replace(preset.training, epochs=2 if quick else preset.training.epochs)
        search = dataclasses.replace(preset.search, max_references=2 if quick else 3)
        preset = dataclasses.replace(preset, training=training, search=search)
        seen, _ = prepare(data.domain, data)
        extractor = make_extractor(seen, "push", preset)
        plan = Task(preset, seed).plan(seen, extractor)
        heights = np.asarray(data.info["height"])
        start = np.where(heights[:, None] == np.array([2, 3, 4]), 0.8, 0.1)
        return cls(extractor, plan, start, held_out, 2 if quick else 4)

    def run(self, *, threads: int | None, warm: bool) -> dict[str, float]:
        """{seconds: mean per iteration without the start, held_out: nats per transition of the learned model}."""
        from spare.learning.many import learn_rules
        from spare.learning.mixing import Mixing

        mixing = Mixing(3, iterations=self.iterations, tolerance=0.0, polish=0, searches=0, warm=warm)
        plan = dataclasses.replace(self.plan, threads=threads)
        result = learn_rules(self.extractor, plan, mixing, start=self.start)
        steps = [step.seconds for step in result.history[1:]]
        shells = [weights.top(mixing.kappa) for weights in result.history[-1].shells]
        self._last = shells
        self.trainings = len(self.jobs())
        return {"seconds": float(np.mean(steps)), "held_out": float(result.model.log_prob(self.held_out).mean())}

    def jobs(self) -> list[tuple[int, Any]]:
        """(rule, shell) of every training of the last step: each rule's heaviest shells and its empty lists."""
        used = self.plan.training > 0
        return [
            (j, shell)
            for j, top in enumerate(self._last)
            for shell in dict.fromkeys([*top, type(top[0])(top[0].roles)])
            if (self.extractor.table(shell, shell).applies & used).any()
        ]

    def at_once(self, threads: int | None) -> float:
        """Seconds for one step's trainings as one batch."""
        from spare.learning.fit import fit_jobs

        begin = time.perf_counter()
        plans = {j: self._plan(j) for j, _ in self.jobs()}
        fit_jobs(self.extractor, [((shell, shell), plans[j]) for j, shell in self.jobs()], threads)
        return time.perf_counter() - begin

    def _plan(self, j: int) -> Any:
        weights = self.start[:, j]
        training, validation = self.plan.training * weights, self.plan.validation * weights
        return dataclasses.replace(self.plan, training=training, validation=validation)

    def one_by_one(self, threads: int | None) -> float:
        """Seconds for one step's trainings in a loop, each padded to its own shape only."""
        from spare.learning.fit import fit_predictors
        from spare.learning.problems import capacity_for

        begin = time.perf_counter()
        for j, shell in self.jobs():
            capacity = capacity_for(self.extractor, len(shell))
            plan = dataclasses.replace(self._plan(j), capacity=capacity, threads=threads)
            fit_predictors(self.extractor, [(shell, shell)], plan)
        return time.perf_counter() - begin


def show(facts: dict[str, Any]) -> None:
    """Two tables for people."""
    from rich.console import Console
    from rich.table import Table

    table = Table("seconds", "median", "ratio", title=f"{facts['trainings']} trainings, {facts['samples']} samples")
    for name, times in facts["seconds"].items():
        table.add_row(name, f"{np.median(times):.2f}", f"{facts['ratio'][name]:.2f}")
    table.add_row("compiling a program for each shape", f"{facts['compiling_each_shape']:.2f}", "")
    console = Console()
    console.print(table)
    warm = Table("warm starts", "seconds per iteration", "held-out nats per transition")
    for name in ("off", "on"):
        one = facts["warm_start"][name]
        warm.add_row(name, f"{one['seconds']:.2f}", f"{one['held_out']:.2f}")
    console.print(warm)
