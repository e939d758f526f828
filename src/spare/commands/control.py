"""`spare control`: plan, act, observe, again and again, in a task of the lab or an environment of your own."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated, Any

import tyro

from spare.commands.common import imported, load_model, remember_programs
from spare.commands.plan import PlannerName, planner_of, problem_of


@dataclasses.dataclass(frozen=True)
class Control:
    """Control a task or an environment by planning in a model; the record is written as it goes."""

    model: Annotated[pathlib.Path, tyro.conf.Positional]
    """Model file."""
    out: pathlib.Path
    """Folder for record.json and experience.parquet; `spare report` shows it."""
    task: str = ""
    """A task of the lab, as in park, load:7 (the suite, and which of its 50 tasks)."""
    env: str = ""
    """A function that makes an environment with `observe` and `act`: package.module:function. It needs --problem."""
    problem: str = ""
    """A function of the model that makes the problem: package.module:function."""
    planner: PlannerName = "icem"
    """How to search."""
    steps: int | None = None
    """At most so many actions (default: as many as the task allows, or 20)."""
    seconds: float | None = None
    """No step begins after so many seconds."""
    seed: int = 0
    """Seed of the search and of the environment."""
    domain: str | None = None
    """A domain of your own: package.module:name."""

    def run(self) -> int:
        """Control, and say how it ended; the exit code is 1 if the goal was not reached."""
        from spare.errors import UsageError
        from spare.planning.control import Loop, control

        if bool(self.task) == bool(self.env):
            raise UsageError("control: name a --task of the lab, or an --env of your own with its --problem")
        remember_programs()
        model = load_model(self.model, self.domain)
        env, problem, usual = self._task(model) if self.task else self._own(model)
        loop = Loop(self.steps or usual, self.seconds, self.out, progress=True)
        found = control(env, problem, planner_of(self.planner), seed=self.seed, loop=loop)
        print(found)
        print(self.out)
        return 0 if found.reached or problem.goal is None else 1

    def _task(self, model: Any) -> tuple[Any, Any, int]:
        from spare.errors import UsageError, one_of
        from spare.lab.tasks.catalogue import SUITES
        from spare.lab.tasks.env import TaskEnv

        name, _, number = self.task.partition(":")
        if name not in SUITES:
            raise UsageError(f"--task: {one_of('task', name, SUITES)}")
        if number and not number.isdigit():
            raise UsageError(f"--task {self.task!r}: write it as {name}:7, with the number of the task")
        suite = SUITES[name]
        if model.domain.fingerprint != suite.domain.fingerprint:
            raise UsageError(f"--task {name}: it is in {suite.domain!r}; the model knows {model.domain!r}")
        env = TaskEnv(suite, int(number or 0))
        problem = problem_of(self.problem, model) if self.problem else suite.problem(model, env.task.given)
        return env, problem, suite.steps

    def _own(self, model: Any) -> tuple[Any, Any, int]:
        from spare.errors import UsageError

        if not self.problem:
            raise UsageError("control: an environment of your own needs its --problem package.module:function")
        make = imported("env", self.env)
        if not callable(make):
            raise UsageError(f"--env {self.env!r}: it must be a function that makes an environment")
        return make(), problem_of(self.problem, model), 20
