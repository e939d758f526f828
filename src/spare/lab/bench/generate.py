"""`spare bench generate`: the generator of pushes against bare calls of the engine.

Both sides build the same scenes, take the same numbers of steps and drive the gripper alike. The bare side knows in
advance what to do: it draws nothing, looks at nothing and checks nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spare.lab.workers import pool
from spare.lab.worlds.push import engines
from spare.lab.worlds.push.chunks import make_chunk, shared_engine
from spare.lab.worlds.push.engines import GRIPPER, Engine
from spare.lab.worlds.push.episode import CHUNK, Sample, make_sample, speeds
from spare.lab.worlds.push.generation import generate
from spare.lab.worlds.push.settings import ENGINES, Settings


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


def speed_up(samples: int, rounds: int, jobs: int = 2, engine: str = "bullet") -> list[float]:
    """Time with one worker over time with `jobs`, in turns, `rounds` times, once the workers are up.

    One worker is this process itself, so that the pool's own cost counts against two. Needs idle cores.
    """
    generate(jobs * 25, jobs=jobs, engine=engine, seed=1)
    seen = []
    for turn in range(rounds):
        times = {}
        for workers in (1, jobs) if turn % 2 else (jobs, 1):
            began = time.perf_counter()
            generate(samples, jobs=workers, engine=engine)
            times[workers] = time.perf_counter() - began
        seen.append(times[1] / times[jobs])
    return seen


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


def run(quick: bool, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Everything, as plain numbers: overhead, rate and memory of each engine, and the speed-up by a second worker."""
    from joblib import delayed

    rounds, samples, many, turns, flat = (3, 15, 100, 1, 300) if quick else (7, 40, 400, 7, 10_000)

    facts: dict[str, Any] = {}
    for engine in ENGINES:
        say(f"{engine}: overhead over {samples} samples, best of {rounds}")
        facts[engine] = asdict(overhead(engine, samples, rounds))
        say(f"{engine}: one worker and two, {many} samples, {turns} times each")
        facts[engine]["two_workers"] = speed_up(many, turns, engine=engine)
    say(f"memory over {flat} samples, both engines at once (no time is measured)")
    seen: Any = pool(len(ENGINES))(delayed(memory)(flat, engine, seed) for engine in ENGINES)
    for engine, resident in zip(ENGINES, seen, strict=True):
        facts[engine]["memory_mb"] = resident
    facts["goals"] = {"overhead at most": 1.3, "two workers at least": 1.8}
    return facts


def show(facts: dict[str, Any]) -> None:
    """A table for people."""
    from rich.console import Console
    from rich.table import Table

    heads = ("engine", "ms per sample", "bare engine, ms", "overhead", "samples/s", "two workers : one", "memory, MB")
    table = Table(*heads)
    for engine in ENGINES:
        one = facts[engine]
        seen, ratios = one["memory_mb"], one["two_workers"]
        numbers = (f"{one['made']:.1f}", f"{one['bare']:.1f}", f"{one['overhead']:.2f}", f"{one['rate']:.0f}")
        gain = f"{np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        table.add_row(engine, *numbers, gain, f"{seen[0]:.0f} to {seen[-1]:.0f}")
    console = Console()
    console.print(table)
    console.print(f"goals: {', '.join(f'{name} {value}' for name, value in facts['goals'].items())}, on idle cores")
