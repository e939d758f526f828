"""Tasks on the table: scenes stand, pushes act, and a wish of the planner's is a push of the simulator's."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.lab.tasks.catalogue import SUITES
from spare.lab.tasks.env import TaskEnv
from spare.lab.tasks.table import PUSH, as_push
from spare.lab.worlds import table
from spare.model.rollout import padded
from spare.planning.spaces import Actions, call_of, resolve


@pytest.mark.parametrize("name", ["clear-4", "sort-10", "gather-4"])
def test_a_task_on_the_table(name: str) -> None:
    suite = SUITES[name]
    env = TaskEnv(suite, 0)
    start, _ = env.reset(seed=1)
    assert start == suite.task(0).start
    assert len(start) == suite.objects
    space = {"clear": "bottom", "sort": "first1"}.get(name.split("-")[0], start.ids[int(np.argmin(start.values[:, 2]))])
    here = start.values[start.ids.index(space)]
    away = here[:2] - start.values[:, :2].mean(axis=0)
    away = away / np.hypot(*away)
    place = here[:2] + 0.09 * away
    call = spare.ActionCall("push", (space,), (float(place[0]), float(place[1]), float(0.5 * here[6]), 0.12))
    after, _, _, truncated, _ = env.step(call)
    assert not truncated
    moved = after.values[:, :2] - start.values[:, :2]
    assert np.hypot(*moved[start.ids.index(space)]) > 0.005
    env.reset(seed=1)
    assert env.step(call)[0] == after


def test_numbers_of_a_plan_are_a_push_from_where_the_target_is() -> None:
    suite = SUITES["clear-4"]
    start = suite.task(1).start
    space = Actions("push", PUSH, {"target": "bottom"}, to=as_push)
    options = resolve(table.domain, [space], start)
    values = jnp.asarray(padded(table.domain, start).values)
    call = call_of(table.domain, [space], options, 0, np.array([0.5, 0.0, 0.0, 1.0]), values)
    x, y, height = start.values[start.ids.index("bottom"), [0, 1, 6]]
    assert np.asarray(call.parameters).tolist() == pytest.approx([x + 0.07, y, 0.3 * height, 0.18], abs=1e-6)
