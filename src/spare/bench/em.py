"""`spare bench em`: seconds per EM iteration, its trainings as one batch on all cores or one after another.

1. Push data with stacks of 2, 3 and 4 blocks; memberships start from the heights, blurred, so that every run does the
   same work; preset `paper`.
2. All trainings of a step at once; the same on one thread; and one after another as separate programs, each compiled
   for the shape of its own rule, as a loop over rules and shells would do it. The same bits come out of the first two.
3. Warm starts on and off: seconds, and held-out likelihood of what is learned.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import Any

import numpy as np


def run(*, quick: bool, seed: int, quiet: bool) -> dict[str, Any]:
    """Seconds per iteration by way of training, their ratios, and what warm starts cost and bring."""
    from spare.domains import push
    from spare.learning.engine import cores

    samples, rounds = (150, 1) if quick else (900, 3)
    _say(quiet, f"generating {samples + samples // 3} pushes")
    data = push.generate(samples + samples // 3, stack=(2, 3, 4), seed=seed, jobs=cores())
    case = Case.make(data[:samples], data[samples:], seed, quick)
    _say(quiet, "compiling")
    case.run(threads=None, warm=False)
    ways: dict[str, list[float]] = {"batch": [], "one thread": []}
    for number in range(rounds):
        _say(quiet, f"measuring, round {number + 1} of {rounds}")
        for name, threads in (("batch", None), ("one thread", 1)):
            ways[name].append(case.run(threads=threads, warm=False)["seconds"])
    _say(quiet, "each shape compiled by itself")
    apart = case.one_by_one()
    warm = [case.run(threads=None, warm=flag) for flag in (False, True)]
    batch = float(np.median(ways["batch"]))
    return {
        "cores": cores(),
        "samples": samples,
        "trainings": case.trainings,
        "seconds": ways,
        "ratio": {name: float(np.median(times)) / batch for name, times in ways.items()},
        "each_compiled_by_itself": {"seconds": apart, "ratio": apart / batch},
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
        from spare.learning.em import Mixing
        from spare.learning.many import learn_rules

        mixing = Mixing(3, iterations=self.iterations, tolerance=0.0, polish=0, warm=warm)
        plan = dataclasses.replace(self.plan, threads=threads)
        result = learn_rules(self.extractor, plan, mixing, start=self.start)
        steps = [step.seconds for step in result.history[1:]]
        shells = [weights.top(mixing.kappa) for weights in result.history[-1].shells]
        self.trainings = sum(len(top) + 1 for top in shells)
        self._last = shells
        return {"seconds": float(np.mean(steps)), "held_out": float(result.model.log_prob(self.held_out).mean())}

    def one_by_one(self) -> float:
        """Seconds for one step's trainings in a loop, each padded to (hence compiled for) its own shape only."""
        from spare.learning.fit import fit_predictors
        from spare.learning.problems import capacity_for

        begin = time.perf_counter()
        for j, top in enumerate(self._last):
            weights = self.start[:, j]
            for shell in dict.fromkeys([*top, type(top[0])(top[0].roles)]):
                if not (self.extractor.table(shell, shell).applies & (self.plan.training > 0)).any():
                    continue
                plan = dataclasses.replace(
                    self.plan,
                    training=self.plan.training * weights,
                    validation=self.plan.validation * weights,
                    capacity=capacity_for(self.extractor, len(shell)),
                    threads=1,
                )
                fit_predictors(self.extractor, [(shell, shell)], plan)
        return time.perf_counter() - begin


def show(facts: dict[str, Any]) -> None:
    """Two tables for people."""
    from rich.console import Console
    from rich.table import Table

    table = Table("trainings of one EM iteration", "seconds", "ratio", title=f"about {facts['trainings']} trainings")
    for name, times in facts["seconds"].items():
        table.add_row(name, f"{np.median(times):.2f}", f"{facts['ratio'][name]:.2f}")
    apart = facts["each_compiled_by_itself"]
    table.add_row("one after another, each shape compiled", f"{apart['seconds']:.2f}", f"{apart['ratio']:.2f}")
    console = Console()
    console.print(table)
    warm = Table("warm starts", "seconds per iteration", "held-out nats per transition")
    for name in ("off", "on"):
        one = facts["warm_start"][name]
        warm.add_row(name, f"{one['seconds']:.2f}", f"{one['held_out']:.2f}")
    console.print(warm)
