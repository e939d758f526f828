"""How much of a sample's time is the engine's own: the generator against bare calls of the engine.

Both sides build the same scenes, take the same numbers of steps and drive the gripper alike. The bare side knows in
advance what to do: it draws nothing, looks at nothing and checks nothing.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spare.domains.push import engines
from spare.domains.push.chunks import make_chunk, shared_engine
from spare.domains.push.engines import GRIPPER, Engine
from spare.domains.push.episode import CHUNK, Sample, make_sample, speeds
from spare.domains.push.generation import generate
from spare.domains.push.settings import ENGINES, Settings


@dataclass(frozen=True)
class Bench:
    """Processor time per sample in ms, and overhead = made / bare; rate in samples per second and core."""

    engine: str
    made: float
    bare: float
    overhead: float
    rate: float


def overhead(engine: str, samples: int = 40, rounds: int = 5, extra: int = 4) -> Bench:
    """Make `samples` samples as the generator does and by bare calls, in turns, `rounds` times.

    The best time of every sample counts: what else the machine does only ever adds to it.
    """
    settings = Settings.make(3, extra=extra, engine=engine)
    world = shared_engine(engine)
    plan = [make_sample(world, settings, index) for index in range(samples)]
    times = np.zeros((2, rounds, samples))
    for turn in range(rounds):
        for index, sample in enumerate(plan):
            began = time.process_time()
            make_chunk(settings, index, index + 1)
            between = time.process_time()
            bare_run(world, sample)
            times[:, turn, index] = between - began, time.process_time() - between
    made, bare = (float(side) for side in times.min(axis=1).mean(axis=1))
    return Bench(engine, 1000 * made, 1000 * bare, made / bare, 1 / made)


def bare_run(engine: Engine, sample: Sample) -> None:
    """The same world and the same steps as `sample`, and nothing else."""
    executed, before = sample.outcome.executed, sample.outcome.before[0]
    profile = speeds(executed.d)
    idle = sample.outcome.steps - CHUNK * len(profile)
    engine.build(sample.drawn.scene)
    engine.step(sample.outcome.settled)
    engine.place((executed.xg, executed.yg, max(executed.zg, GRIPPER[2] / 2)), executed.heading(before))
    for speed in profile:
        engine.step(CHUNK, speed)
    engine.lift()
    engine.step(idle - sample.outcome.settled)


def speed_up(samples: int, jobs: int = 2, engine: str = "bullet") -> float:
    """Time with one worker over time with `jobs`, once the workers are up. Needs idle cores to mean anything."""
    generate(jobs * 25, jobs=jobs, engine=engine, seed=1)
    began = time.perf_counter()
    generate(samples, jobs=1, engine=engine)
    between = time.perf_counter()
    generate(samples, jobs=jobs, engine=engine)
    return (between - began) / (time.perf_counter() - between)


def memory(samples: int, engine: str, seed: int = 0) -> list[float]:
    """Resident memory in MB at 20 moments while one engine makes `samples` samples in this process."""
    settings, world, seen = Settings.make(3, extra=4, engine=engine, seed=seed), engines.make(engine), []
    every = max(1, samples // 20)
    for index in range(samples):
        make_sample(world, settings, index)
        if (index + 1) % every == 0:
            seen.append(_resident())
    world.close()
    return seen


def _resident() -> float:
    """Resident memory of this process in MB, as the kernel counts it."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def run(quick: bool = False, seed: int = 0, quiet: bool = False) -> dict[str, Any]:
    """Everything, as plain numbers: overhead, rate and memory of each engine, and what a second worker brings."""
    rounds, samples, many, flat = (3, 15, 200, 300) if quick else (7, 40, 1000, 10_000)
    facts: dict[str, Any] = {}
    for engine in ENGINES:
        if not quiet:
            print(f"{engine}: overhead, then memory over {flat} samples", file=sys.stderr)
        facts[engine] = {**asdict(overhead(engine, samples, rounds)), "memory_mb": memory(flat, engine, seed)}
    facts["speed_up_two_workers"] = speed_up(many)
    facts["goals"] = {"overhead": 1.3, "speed_up_two_workers": 1.8}
    return facts


def show(facts: dict[str, Any]) -> None:
    """A table for people."""
    from rich.console import Console
    from rich.table import Table

    table = Table("engine", "ms per sample", "bare engine, ms", "overhead", "samples/s", "memory, MB")
    for engine in ENGINES:
        one = facts[engine]
        seen = one["memory_mb"]
        numbers = (f"{one['made']:.1f}", f"{one['bare']:.1f}", f"{one['overhead']:.2f}", f"{one['rate']:.0f}")
        table.add_row(engine, *numbers, f"{seen[0]:.0f} to {seen[-1]:.0f}")
    console = Console()
    console.print(table)
    console.print(f"two workers: {facts['speed_up_two_workers']:.2f} times one; goals {facts['goals']} on idle cores")
