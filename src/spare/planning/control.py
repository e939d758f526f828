"""`control`: plan, act, observe, again and again, in any Gymnasium environment whose observations are objects.

1. `observe` turns an observation into a `State`, `act` an `ActionCall` into the environment's action. An environment
   that has methods of these names (`spare.LearnedEnv`, the tasks of the lab) needs neither.
2. Each search starts from the rest of the plan before. A budget in seconds is kept between steps.
3. The record is written after every step: whatever ends the loop, what was done is on disk.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spare.arguments import check_kind, check_whole, is_real
from spare.data.checks import check_state
from spare.data.state import ActionCall, State
from spare.errors import DataError, UsageError
from spare.planning.plans import Plan, plan
from spare.planning.problems import Problem
from spare.planning.records import Record, Taken
from spare.planning.samplers import Planner

MOST_STEPS = 1_000_000
Observe = Callable[[Any, dict[str, Any]], State]
Act = Callable[[ActionCall, State], Any]


@dataclasses.dataclass(frozen=True)
class Loop:
    """How long to control, and where the record goes.

    `steps`     at most so many actions
    `seconds`   no further step begins after so much time; None: no limit
    `record`    a folder for `record.json` and `experience.parquet`, made if it is not there; None: no files
    `progress`  show a progress bar
    """

    steps: int = 20
    seconds: float | int | None = None
    record: str | os.PathLike[str] | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check_whole("steps", self.steps, 1, MOST_STEPS)
        if self.seconds is not None and not (is_real(self.seconds) and self.seconds > 0):
            raise UsageError(f"seconds: the budget must be above 0, got {self.seconds!r}")


def control(
    env: Any,
    problem: Problem,
    planner: Planner | None = None,
    *,
    seed: int,
    loop: Loop | None = None,
    translate: tuple[Observe, Act] | None = None,
) -> Record:
    """Act in the environment until the goal is reached, it ends the episode, or the loop's limits are.

    `translate`: (observe, act), see the module; `observe(observation, info)`, `act(call, state)`.
    """
    check_kind("problem", problem, Problem, "make one with spare.planning.Problem(model, actions, horizon, cost=...)")
    loop, (observe, act) = loop or Loop(), translate or _translate(env)
    _check_domain(env, problem)
    observation, info = env.reset(seed=seed)
    origin = here = check_state(problem.model.domain, observe(observation, info), "observation")
    record = Record.begin(problem, origin, loop.record, seed)
    before: Plan | None = None
    begun, ended = time.perf_counter(), "steps"
    if problem.reached(here, origin):
        return record.end("goal")
    try:
        with _bar(loop) as show:
            for number in range(loop.steps):
                if loop.seconds is not None and time.perf_counter() - begun >= loop.seconds:
                    ended = "time"
                    break
                before = plan(problem, here, planner, seed=seed + number, before=before, origin=origin)
                call = before.calls[0]
                observation, reward, terminated, truncated, info = env.step(act(call, here))
                after = _same_objects(
                    here, check_state(problem.model.domain, observe(observation, info), "observation")
                )
                record.add(Taken(here, call, after, float(reward), before))
                here = after
                show(number + 1, before)
                if problem.reached(here, origin):
                    ended = "goal"
                    break
                if terminated or truncated:
                    ended = "environment"
                    break
    except BaseException:
        record.end("interrupted")
        raise
    return record.end(ended)


def _same_objects(before: State, after: State) -> State:
    """The state after, in the order of the one before; objects neither come nor go."""
    if after.ids == before.ids:
        return after
    if {*after.ids} != {*before.ids}:
        odd = next(iter(sorted({*after.ids} ^ {*before.ids}, key=str)))
        raise DataError(f"observation: object {odd!r} came or went; a plan needs the same objects at every step")
    return State(before.ids, after.values[[after.ids.index(one) for one in before.ids]])


def _translate(env: Any) -> tuple[Observe, Act]:
    """The environment's own translations, if it has them."""
    own = getattr(env, "unwrapped", env)
    if not (hasattr(own, "observe") and hasattr(own, "act")):
        raise UsageError(
            "control: say how observations become states and calls become actions: translate=(observe, act), with "
            "observe(observation, info) -> spare.State and act(call, state) -> action"
        )
    return own.observe, own.act


def _check_domain(env: Any, problem: Problem) -> None:
    domain = getattr(getattr(env, "unwrapped", env), "domain", None)
    known = problem.model.domain
    if domain is not None and getattr(domain, "fingerprint", None) != known.fingerprint:
        raise UsageError(
            f"control: the model knows {known!r}, the environment has {domain!r}; use a model of that domain"
        )


@contextlib.contextmanager
def _bar(loop: Loop) -> Iterator[Callable[[int, Plan], None]]:
    """A function to call after each step; shows a bar where there is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not (loop.progress and console.is_terminal):
        yield lambda number, made: None
        return
    words = TextColumn("{task.description}", markup=False)
    with Progress(words, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task("control", total=loop.steps)

        def show(number: int, made: Plan) -> None:
            success = "" if np.isnan(made.success) else f", success {made.success:.0%}"
            bar.update(task, completed=number, description=f"expected cost {made.cost:.3g}{success}")

        yield show
