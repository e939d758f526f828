"""What a user would write beside their data: a problem and an environment, named on the command line."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

import spare
from spare.planning import Actions, Problem
from tests.model.test_heads import make_data


def start() -> spare.State:
    return make_data(1, 1, (5, 5)).states[0]


def problem(model: Any) -> Problem:
    actions = Actions("poke", {"d": (-1.0, 1.0)}, {"target": start().ids[0]})
    return Problem(model, actions, 2, cost=lambda s: jnp.abs(s[start().ids[0]].x - 0.2))


def broken(model: Any) -> Problem:
    raise RuntimeError("no luck")


def nothing(model: Any) -> None:
    return None


class Env:
    """Everything stays."""

    def reset(self, seed: int) -> Any:
        return start(), {}

    def step(self, action: spare.ActionCall) -> Any:
        return start(), 1.0, False, False, {}

    def observe(self, observation: Any, info: dict[str, Any]) -> spare.State:
        return observation

    def act(self, call: spare.ActionCall, state: spare.State) -> spare.ActionCall:
        return call
