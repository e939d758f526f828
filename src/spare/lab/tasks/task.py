"""What a task is: a start, a problem, a test of success, and a world to act in.

A suite has `COUNT` tasks. Task i is drawn from the stream (number of the suite, i), and episode e of it acts with noise
from (number, i, e): every model and every planner meets the same tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from spare.data.experience import Experience
from spare.data.state import ActionCall, State
from spare.errors import UsageError
from spare.lab.baselines.gaussian import single
from spare.lab.worlds.known import KnownWorld
from spare.language.domain import Domain
from spare.model.rollout import Simulator
from spare.planning.plans import Plan, plan
from spare.planning.problems import Problem
from spare.planning.samplers import Planner

COUNT = 50
"""Tasks of a suite."""


@runtime_checkable
class World(Protocol):
    """Where a task is carried out: it is reset to the start, and then acts for real."""

    def reset(self) -> State:
        """The start."""
        ...

    def step(self, call: ActionCall, seed: tuple[int, ...]) -> State:
        """The state that an action leads to, with noise from this stream."""
        ...


@dataclasses.dataclass(frozen=True)
class Task:
    """One task: where it begins, what its problem is given, and the world to act in."""

    start: State
    given: Mapping[str, Any]
    world: World


@dataclasses.dataclass(frozen=True, eq=False)
class Suite:
    """Tasks of one kind.

    draw      (numbers, objects) -> a task
    problem   (model, what a task is given) -> what to plan
    generate  (samples, seed) -> random transitions to learn from
    truth     the true step, to plan in; None where only a simulator knows it
    steps     how many actions a task may take
    objects   how many objects a state has
    """

    name: str
    number: int
    domain: Domain
    draw: Callable[[np.random.Generator, int], Task]
    problem: Callable[[Simulator, Mapping[str, Any]], Problem]
    generate: Callable[[int, int], Experience]
    truth: Callable[[], Simulator] | None
    steps: int
    objects: int

    def task(self, index: int) -> Task:
        """The task of this number."""
        if not 0 <= index < COUNT:
            raise UsageError(f"{self.name}: tasks are numbered 0 to {COUNT - 1}, got {index}")
        return self.draw(np.random.default_rng([self.number, index]), self.objects)


@dataclasses.dataclass(frozen=True)
class Episode:
    """How one task went: solved or not, after how many actions, and seconds of each plan.

    `promised`: the chance of success that the first plan gives itself; `kept`: whether it succeeded by itself.
    """

    solved: bool
    actions: int
    promised: float
    kept: bool
    seconds: tuple[float, ...]


def carry_out(suite: Suite, index: int, model: Simulator, planner: Planner, episode: int = 0) -> Episode:
    """Plan, act, observe until the goal holds or the steps are used up.

    `promised`: of the first plan, followed without planning again, the chance that it reaches the goal within its
    horizon; `kept`: whether it did, in an execution of its own.
    """
    task = suite.task(index)
    problem = suite.problem(model, task.given)
    here = origin = task.world.reset()
    before: Plan | None = None
    seconds: list[float] = []
    promised, kept = float("nan"), False
    for number in range(suite.steps):
        if problem.reached(here, origin):
            return Episode(True, number, promised, kept, tuple(seconds))
        before = plan(problem, here, planner, seed=1000 * index + number, before=before, origin=origin)
        seconds.append(before.seconds)
        if number == 0:
            promised, kept = before.success, _follows(suite, task, before, (index, episode), problem)
            here = task.world.reset()
        here = task.world.step(before.calls[0], (suite.number, index, episode, number))
    return Episode(problem.reached(here, origin), suite.steps, promised, kept, tuple(seconds))


def _follows(suite: Suite, task: Task, made: Plan, key: tuple[int, int], problem: Problem) -> bool:
    """Whether the plan's own calls, one after another, reach the goal in the real world."""
    if any(space.to is not None for space in problem.spaces):
        return False  # its later calls depend on states that are not known yet
    here = task.world.reset()
    for number, call in enumerate(made.calls):
        here = task.world.step(call, (suite.number, *key, number, 1))
        if problem.reached(here, made.state):
            return True
    return False


@dataclasses.dataclass
class KnownStep:
    """A world whose truth is known: it acts by a draw from its own density."""

    world: KnownWorld
    start: State
    here: State | None = None

    def reset(self) -> State:
        """The start."""
        self.here = self.start
        return self.start

    def step(self, call: ActionCall, seed: tuple[int, ...]) -> State:
        """A draw of `world.truth`."""
        now = self.here or self.start
        data = single(self.world.domain, now, call)
        after, _ = self.world.truth.draws(data, [np.random.default_rng(seed)])
        self.here = State(now.ids, after.astype(np.float32))
        return self.here
