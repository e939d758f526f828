"""`spare bench em`: seconds per EM iteration, beside the same trainings done one after another.

1. Push data with stacks of 2, 3 and 4 blocks; memberships start from the heights, blurred, so that every run does the
   same work; preset `paper`.
2. EM runs, and what it trains in each iteration is written down: lists, weights and seeds.
3. The same trainings again, one after another: each a program compiled (before the clock starts) for the shape of its
   own rule, as a loop over rules and shells would do it; and as one batch without the rest of the iteration. EM itself
   compiles nothing: the searches before it have, and every shape is padded to the same one.
4. Warm starts on and off: seconds, and held-out likelihood of what is learned.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from spare.data.experience import Experience
from spare.lab.worlds import push
from spare.learning.dataset import Dataset
from spare.learning.em import EM
from spare.learning.fit import Task, make_dataset, prepare
from spare.learning.many import learn_rules
from spare.learning.mixing import Mixing
from spare.learning.presets import PRESETS
from spare.learning.problems import capacity_for
from spare.learning.threads import cores
from spare.learning.train import Plan, fit_jobs, fit_predictors


def run(quick: bool, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds per iteration by way of training, their ratios, and the seconds and likelihood of warm starts."""
    samples, rounds = (150, 1) if quick else (900, 5)
    say(f"generating {samples + samples // 3} pushes")
    data = push.generate(samples + samples // 3, stack=(2, 3, 4), seed=seed, jobs=cores())
    case = Case.make(data[:samples], data[samples:], seed, quick)
    say("compiling")
    compiling = case.one_by_one()
    compiling -= case.one_by_one()
    ways: dict[str, Callable[[], float]] = {
        "an EM iteration": lambda: sum(case.run().seconds),
        "its trainings, at once": lambda: case.at_once(None),
        "its trainings, at once, one thread": lambda: case.at_once(1),
        "its trainings, one after another": case.one_by_one,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        say(f"measuring, round {number + 1} of {rounds}")
        for name, way in ways.items():
            times[name].append(way() / case.iterations)
    say("warm starts")
    warm = [[case.learn(warm=flag) for flag in (False, True)] for _ in range(2)][-1]  # the first time compiles
    whole, loop = (np.array(times[name]) for name in ("an EM iteration", "its trainings, one after another"))
    return {
        "cores": cores(),
        "samples": samples,
        "trainings": sum(map(len, case.batches)),
        "iterations": case.iterations,
        "seconds": times,
        "ratio": {name: float(np.median(np.array(these) / whole)) for name, these in times.items()},
        "compiling_each_shape": compiling,
        "ratio_with_compiling": float(np.median(loop + compiling / case.iterations) / np.median(whole)),
        "warm_start": {"off": warm[0], "on": warm[1], "ratio": warm[0]["seconds"] / warm[1]["seconds"]},
        "goals": {"ratio to one after another": 2.0},
    }


class Run(NamedTuple):
    """Seconds of each iteration of EM, and every batch it trained."""

    seconds: list[float]
    batches: list[list[Any]]


@dataclasses.dataclass
class Case:
    """EM on one data set, ready to run in different ways; `batches` is what one run of it trained."""

    dataset: Dataset
    plan: Plan
    start: np.ndarray
    held_out: Experience
    iterations: int
    batches: list[list[Any]] = dataclasses.field(default_factory=list)

    @classmethod
    def make(cls, data: Experience, held_out: Experience, seed: int, quick: bool) -> Case:
        """Memberships of 0.8 with the height's own rule; short searches; one run to see what is trained."""
        preset = PRESETS["paper"]
        training = dataclasses.replace(preset.training, epochs=2 if quick else preset.training.epochs)
        search = dataclasses.replace(preset.search, max_references=2 if quick else 3)
        preset = dataclasses.replace(preset, training=training, search=search)
        seen, _ = prepare(data.domain, data)
        dataset = make_dataset(seen, "push", preset)
        plan = Task(preset, seed).plan(seen, dataset)
        heights = np.asarray(data.info["height"])
        start = np.where(heights[:, None] == np.array([2, 3, 4]), 0.8, 0.1)
        case = cls(dataset, plan, start, held_out, 2 if quick else 4)
        case.batches = case.run().batches
        return case

    def mixing(self, warm: bool = False) -> Mixing:
        """Three rules, a fixed number of iterations, no polish."""
        return Mixing(3, iterations=self.iterations, tolerance=0.0, polish=0, searches=0, warm=warm)

    def run(self) -> Run:
        """EM without its start: seconds of every iteration (trainings, votes, E-step), and what it trained."""
        batches: list[list[Any]] = []

        class Watched(EM):
            def train(self, jobs: Sequence[Any]) -> list[Any]:
                batches.append(list(jobs))
                return super().train(jobs)

        em = Watched(self.dataset, self.plan, self.mixing(), start=self.start)
        history = em.run(em.starts()[0])[2]
        return Run([step.seconds for step in history[1:]], batches)

    def learn(self, *, warm: bool) -> dict[str, float]:
        """{seconds: mean per iteration, held_out: nats per transition of the learned model}."""
        result = learn_rules(self.dataset, self.plan, self.mixing(warm), start=self.start)
        seconds = float(np.mean([step.seconds for step in result.history[1:]]))
        return {"seconds": seconds, "held_out": float(result.model.log_prob(self.held_out).mean())}

    def at_once(self, threads: int | None) -> float:
        """Seconds for all recorded trainings, batch by batch."""
        begin = time.perf_counter()
        for jobs in self.batches:
            fit_jobs(self.dataset, jobs, threads)
        return time.perf_counter() - begin

    def one_by_one(self) -> float:
        """Seconds for the same trainings in a loop, each padded to its own shape only."""
        begin = time.perf_counter()
        for pair, plan in (job for jobs in self.batches for job in jobs):
            capacity = capacity_for(self.dataset, len(pair[0]))
            fit_predictors(self.dataset, [pair], dataclasses.replace(plan, capacity=capacity))
        return time.perf_counter() - begin


def show(facts: dict[str, Any]) -> None:
    """Two tables for people."""
    from rich.console import Console
    from rich.table import Table

    title = f"{facts['iterations']} iterations of EM, {facts['trainings']} trainings, {facts['samples']} samples"
    table = Table("seconds per iteration", "median", "ratio", title=title)
    for name, times in facts["seconds"].items():
        table.add_row(name, f"{np.median(times):.2f}", f"{facts['ratio'][name]:.2f}")
    compiling = facts["compiling_each_shape"] / facts["iterations"]
    table.add_row("and compiling a program for each shape", f"{compiling:.2f}", f"{facts['ratio_with_compiling']:.2f}")
    console = Console()
    console.print(table)
    warm = Table("warm starts", "seconds per iteration", "held-out nats per transition")
    for name in ("off", "on"):
        one = facts["warm_start"][name]
        warm.add_row(name, f"{one['seconds']:.2f}", f"{one['held_out']:.2f}")
    console.print(warm)
