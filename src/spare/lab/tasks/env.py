"""A task as an environment for `spare.planning.control`: one action per step, observations are states."""

from __future__ import annotations

from typing import Any

from spare.data.state import ActionCall, State
from spare.lab.tasks.task import Suite
from spare.language.domain import Domain


class TaskEnv:
    """reset and step as in Gymnasium; the observation is the `State` itself, the action the `ActionCall`."""

    def __init__(self, suite: Suite, index: int) -> None:
        self.suite, self.index, self.task = suite, index, suite.task(index)
        self._seed = self._taken = 0

    @property
    def domain(self) -> Domain:
        """The world's."""
        return self.suite.domain

    def reset(self, *, seed: int | None = None) -> tuple[State, dict[str, Any]]:
        """The start of the task; the seed is that of the noise."""
        self._seed, self._taken = seed or 0, 0
        return self.task.world.reset(), {}

    def step(self, action: ActionCall) -> tuple[State, float, bool, bool, dict[str, Any]]:
        """What the action leads to; the task says nothing about rewards."""
        stream = (self.suite.number, self.index, self._seed, self._taken)
        self._taken += 1
        return self.task.world.step(action, stream), 0.0, False, self._taken >= self.suite.steps, {}

    def observe(self, observation: State, info: dict[str, Any]) -> State:
        """The state itself."""
        return observation

    def act(self, call: ActionCall, state: State) -> ActionCall:
        """The call itself."""
        return call
