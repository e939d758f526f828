"""The control loop and its record; the model as an environment; trees."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import spare
from spare.planning import ICEM, Actions, Loop, Problem, RefinedTree, TreeSearch, control, plan
from spare.programs import PROGRAMS
from tests.planning.toy import domain, state, toy

FAST = ICEM(candidates=64, elites=8, iterations=3)
MOVE = {"dx": (-0.5, 0.5), "dy": (-0.5, 0.5)}


@pytest.fixture(scope="module")
def problem() -> Problem:
    space = Actions("move", MOVE, {"thing": "a"})
    near = jnp.array([0.6, -0.4])
    return Problem(
        toy(),
        space,
        2,
        cost=lambda s: jnp.hypot(s["a"].x - near[0], s["a"].y - near[1]),
        goal=lambda s: jnp.hypot(s["a"].x - near[0], s["a"].y - near[1]) < 0.1,
    )


@pytest.fixture(scope="module")
def env(problem: Problem) -> spare.LearnedEnv:
    return spare.LearnedEnv(problem, state(), steps=6)


def test_the_loop_reaches_the_goal_and_writes_down_how(
    problem: Problem, env: spare.LearnedEnv, tmp_path: pathlib.Path
) -> None:
    found = control(env, problem, FAST, seed=3, loop=Loop(steps=5, record=tmp_path / "run"))
    assert found.reached
    assert 2 <= len(found.steps) <= 4
    told = json.loads((tmp_path / "run" / "record.json").read_text())
    assert told["ended"] == "goal"
    assert len(told["steps"]) == len(found.steps)
    assert np.hypot(*(np.array(told["steps"][-1]["observed"])[0, :2] - [0.6, -0.4])) < 0.1
    data = spare.Experience.load(tmp_path / "run" / "experience.parquet", domain)
    assert len(data) == len(found.steps)
    assert np.array_equal(data.next_states[-1].values[:, :2], found.final.values[:, :2])
    assert "the goal was reached" in str(found)
    with pytest.raises(spare.FileError, match="there is a record already"):
        control(env, problem, FAST, seed=3, loop=Loop(record=tmp_path / "run"))


def test_an_interrupt_leaves_the_record(problem: Problem, env: spare.LearnedEnv, tmp_path: pathlib.Path) -> None:
    class Stops:
        unwrapped, count = env, 0

        def reset(self, seed: int) -> Any:
            return env.reset(seed=seed)

        def step(self, action: Any) -> Any:
            self.count += 1
            if self.count == 2:
                raise KeyboardInterrupt
            return env.step(action)

    with pytest.raises(KeyboardInterrupt):
        control(Stops(), problem, FAST, seed=3, loop=Loop(record=tmp_path))
    told = json.loads((tmp_path / "record.json").read_text())
    assert told["words"] == "it was interrupted"
    assert len(told["steps"]) == 1
    assert len(spare.Experience.load(tmp_path / "experience.parquet", domain)) == 1


def test_budgets_and_translations(problem: Problem, env: spare.LearnedEnv) -> None:
    assert control(env, problem, FAST, seed=0, loop=Loop(steps=1)).ended == "steps"
    assert control(env, problem, FAST, seed=0, loop=Loop(seconds=1e-9)).ended == "time"
    with pytest.raises(spare.UsageError, match="translate="):
        control(object(), problem, FAST, seed=0)
    seen = iter([state(), spare.State(("a", "b", "q"), state().values)])
    with pytest.raises(spare.DataError, match="object 'c' came or went"):
        control(env, problem, FAST, seed=0, translate=(lambda *_: next(seen), env.act))

    class Other:
        domain = spare.Domain(
            "other",
            properties=[spare.Property("x", resolution=1.0)],
            references=[],
            actions=[spare.Action("go", objects=())],
        )
        observe, act = env.observe, env.act

    with pytest.raises(spare.UsageError, match="use a model of that domain"):
        control(Other(), problem, FAST, seed=0)


def test_gymnasium_s_checker_is_content(env: spare.LearnedEnv) -> None:
    check_env(env, skip_render_check=True)


def test_many_episodes_are_those_of_one_in_one_call(problem: Problem) -> None:
    spaces = [Actions("move", MOVE), Actions("swap")]
    both = Problem(toy(), spaces, 1, cost=problem.cost, goal=problem.goal)
    many = spare.LearnedVectorEnv(both, [state(2), state(3)], count=4, steps=3, objects=3)
    seen, _ = many.reset(seed=0)
    assert seen["objects"].shape == (4, 8, 4)
    assert set(seen["mask"].sum(axis=1)) <= {2.0, 3.0}
    before, shapes = 0, []
    for _ in range(8):
        seen, rewards, _, truncated, _ = many.step(many.action_space.sample())
        before = before or PROGRAMS.compiled
        shapes.append((rewards.shape, bool(np.all(rewards <= 0)), truncated.any()))
    assert {one[:2] for one in shapes} == {((4,), True)}
    assert [one[2] for one in shapes][:5] == [False, False, True, False, False]
    assert PROGRAMS.compiled <= before + 1
    alone = spare.LearnedEnv(both, state(3))
    alone.reset(seed=0)
    after = alone.step(alone.act(spare.ActionCall("swap", ("b", "c")), alone.state))[0]
    assert after["objects"][:3, 0].tolist() == [0.0, 2.0, 1.0]


@pytest.mark.slow
def test_a_tree_finds_the_choice_and_its_numbers_are_refined() -> None:
    spaces = [Actions("move", MOVE), Actions("swap"), Actions("wait")]
    problem = Problem(toy(), spaces, 2, cost=lambda s: jnp.hypot(s["c"].x - 0.3, s["c"].y))
    found = plan(problem, state(), RefinedTree(TreeSearch(simulations=64)), seed=0)
    assert found.calls[0].action == "swap"
    assert {*found.calls[0].objects} == {"a", "c"}
    assert found.cost < 0.45
