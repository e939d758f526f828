"""Planners reach what is asked, in few programs; problems say what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import spare
from spare.planning import ICEM, MPPI, Actions, Constraint, Found, GradientDescent, PredictiveSampling, Problem, plan
from spare.planning.evaluation import at_risk
from spare.planning.problems import valued
from spare.planning.samplers import coloured
from spare.planning.spaces import resolve
from spare.programs import PROGRAMS
from tests.planning.toy import domain, state, toy

MOVE = {"dx": (-0.5, 0.5), "dy": (-0.5, 0.5)}
PLANNERS = [
    PredictiveSampling(candidates=512),
    ICEM(candidates=128, elites=16),
    MPPI(candidates=128),
    GradientDescent(starts=8),
]


def distance(s: Any) -> Any:
    return jnp.hypot(s["a"].x - s.given.goal[0], s["a"].y - s.given.goal[1])


def to_goal(**more: Any) -> Problem:
    given = {"goal": (0.6, -0.4)}
    known: dict[str, Any] = {
        "model": toy(),
        "actions": Actions("move", MOVE, {"thing": "a"}),
        "horizon": 3,
        "given": given,
    }
    return Problem(**{**known, "cost": distance, **more})


@pytest.mark.parametrize("planner", PLANNERS, ids=lambda one: type(one).__name__)
def test_every_planner_moves_a_thing_to_its_place(planner: Any) -> None:
    problem = to_goal()
    found = plan(problem, state(), planner, seed=0)
    assert [call.action for call in found.calls] == ["move"] * 3
    assert {call.objects for call in found.calls} == {("a",)}
    assert all(abs(one) <= 0.5 for call in found.calls for one in call.parameters)
    nothing, best = 3 * math.hypot(0.6, 0.4), math.hypot(0.1, 0.0)
    assert found.cost < 0.45 * nothing
    assert found.cost > best
    assert found.rollout.mean[-1, 0, :2].tolist() == pytest.approx([0.6, -0.4], abs=0.25)
    assert math.isnan(found.success)


def test_the_same_program_serves_other_goals_objects_and_numbers_of_them() -> None:
    planner = PLANNERS[1]
    first = plan(to_goal(), state(3), planner, seed=0)
    before = PROGRAMS.compiled
    for count, goal in ((2, (0.1, 0.1)), (8, (-0.3, 0.2))):
        other = to_goal(
            given={"goal": goal}, cost=lambda s: jnp.hypot(s["a"].x - s.given.goal[0], s["a"].y - s.given.goal[1])
        )
        found = plan(other, state(count), planner, seed=1, before=first)
        assert found.cost < 0.6
    named = to_goal(
        actions=Actions("move", MOVE, {"thing": "b"}),
        cost=lambda s: jnp.hypot(s["b"].x - s.given.goal[0], s["b"].y - s.given.goal[1]),
        given={"goal": (1.4, 0.3)},
    )
    assert plan(named, state(3), planner, seed=0).cost < 0.6
    assert PROGRAMS.compiled == before


@pytest.mark.slow
def test_templates_and_objects_are_chosen_together() -> None:
    """Only a swap brings c to a's place within two steps; then a thing has to be moved."""
    spaces = [Actions("move", MOVE), Actions("swap"), Actions("wait")]
    problem = Problem(toy(), spaces, 2, cost=lambda s: jnp.hypot(s["c"].x - 0.3, s["c"].y))
    found = plan(problem, state(), ICEM(candidates=256, elites=24), seed=0)
    assert {found.calls[0].action, found.calls[1].action} >= {"swap"}
    assert float(found.rollout.mean[-1, 2, 0]) == pytest.approx(0.3, abs=0.1)
    assert found.steps[0].space in (0, 1)
    options = resolve(domain, spaces, state())
    assert int(options.valid.sum()) == 3 + 6 + 1


def test_a_warm_start_is_the_rest_of_the_plan_before() -> None:
    problem = to_goal()
    first = plan(problem, state(), PLANNERS[0], seed=0)
    again = plan(problem, state(), PredictiveSampling(candidates=2, spread=1e-6), seed=1, before=first)
    assert [one.z for one in again.steps[:2]] == [pytest.approx(one.z, abs=1e-4) for one in first.steps[1:]]


def test_parameters_may_follow_from_the_objects() -> None:
    """`by` is a share of the way to the origin, wherever the thing is by then."""
    space = Actions("move", {"by": (0.0, 1.0)}, {"thing": "c"}, to=lambda o, u: {"dx": -u.by * o.x, "dy": -u.by * o.y})
    problem = Problem(toy(), space, 2, cost=lambda s: jnp.hypot(s["c"].x, s["c"].y))
    found = plan(problem, state(), PLANNERS[1], seed=0)
    assert found.calls[0].parameters[0] == pytest.approx(-2.0, abs=0.1)
    assert found.cost < 0.2


@pytest.mark.slow
def test_goals_count_how_often_they_are_reached_and_stop_the_bill() -> None:
    problem = to_goal(model=toy(0.2), cost=None, goal=lambda s: distance(s) < 0.2, horizon=3)
    found = plan(problem, state(), PLANNERS[1], seed=0)
    assert 0.3 < found.success < 1
    assert 1.0 < found.cost < 3.0
    assert found.rollout.values.shape[0] == 60
    near = np.linalg.norm(found.rollout.values[:, 1:, 0, :2] - [0.6, -0.4], axis=2) < 0.2
    assert found.success == pytest.approx(near.any(axis=1).mean(), abs=1e-6)
    steps = np.where(near.any(axis=1), near.argmax(axis=1), 3)
    assert found.cost == pytest.approx(steps.mean(), abs=1e-5)


@pytest.mark.slow
def test_chance_constraints_keep_away_from_a_wall() -> None:
    """Without one the best place is as far to the right as can be; with one it is two deviations before the wall."""
    wall = Constraint(lambda s: s["a"].x < 0.3, probability=0.95)
    space = Actions("move", MOVE, {"thing": "a"})
    problem = Problem(toy(0.05), space, 1, lambda s: -s["a"].x, constraints=wall, samples=40)
    careful = plan(problem, state(), PLANNERS[0], seed=0)
    assert 0.3 - 0.05 * 3.5 < careful.rollout.mean[1, 0, 0] < 0.3 - 0.05 * 1.2
    assert careful.kept[0] > 0.88
    assert "a constraint holds with probability" in str(careful)


@pytest.mark.slow
def test_risk_turns_to_the_certain_or_to_the_doubtful() -> None:
    """Members disagree about moves of a, and waiting is certain: the optimistic planner moves."""
    model = toy(0.0, (-0.4, 0.4))
    spaces = [Actions("move", {"dx": 0.0, "dy": 0.0}, {"thing": "a"}), Actions("wait")]

    def chosen(risk: float) -> str:
        problem = Problem(model, spaces, 1, cost=lambda s: s["a"].x, risk=risk, samples=4)
        return plan(problem, state(), PLANNERS[0], seed=0).calls[0].action

    assert chosen(-0.5) == "move"
    cost = jnp.array([[4.0, 1.0], [2.0, 3.0], [3.0, 0.0], [1.0, 2.0]])
    assert at_risk(cost, 0.0).tolist() == [2.5, 1.5]
    assert at_risk(cost, 0.5).tolist() == [3.5, 2.5]
    assert at_risk(cost, -0.75).tolist() == [1.0, 0.0]


def test_coloured_noise_varies_along_the_steps_together() -> None:
    mixing = coloured(6, 2.0)
    noise = np.random.default_rng(0).standard_normal((20_000, 6)) @ mixing
    assert noise.std(axis=0).tolist() == pytest.approx([1.0] * 6, abs=0.03)
    assert np.asarray(np.corrcoef(noise.T))[0, 1] > 0.6
    assert coloured(6, 0.0) == pytest.approx(np.eye(6), abs=1e-6)


def test_who_may_act() -> None:
    here = state(4)

    def ids(who: Any) -> list[str]:
        options = resolve(domain, [Actions("move", MOVE, {"thing": who})], here)
        return [str(here.ids[row]) for row in options.objects[options.valid, 0]]

    assert ids(None) == ["a", "b", "c", "d"]
    assert ids("c") == ["c"]
    assert ids(["d", "a"]) == ["d", "a"]
    assert ids(lambda o: o.weight > 2.5) == ["c", "d"]
    close = spare.State(here.ids, here.values * np.array([0.6, 1, 1, 1], np.float32))
    options = resolve(domain, [Actions("move", MOVE, {"thing": Found("near", "b")})], close)
    assert options.objects[options.valid, 0].tolist() == [0, 2]


def test_formulas_see_all_objects_the_start_and_what_is_given() -> None:
    seen = to_goal(
        cost=lambda s: (
            s.sum(lambda o: o.x) + 10 * s.max(lambda o: o.weight) + 100 * s.count(lambda o: o.x > 0.5) + s.given.one
        ),
        final=lambda s: s["a"].x - s.start["a"].x + s.mean(lambda o: o.x, where=lambda o: o.weight > 1.5),
        goal=lambda s: s.all(lambda o: o.x >= 0) & ~s.any(lambda o: o.x > 5),
        given={"one": 1.0},
    )
    here, begun = state(3), state(3)
    begun.values[0, 0] = -0.5
    assert valued(seen, "cost", here) == 3 + 30 + 200 + 1
    assert valued(seen, "final", here, begun) == 0.5 + 1.5
    assert seen.reached(here)
    assert not seen.reached(begun)


@pytest.fixture
def _as_users_come() -> Iterator[None]:
    """Without the run-time checker of the tests, which stands before every function of ours."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"horizon": 0}, "horizon"),
    ({"cost": lambda s: s["a"].z}, "cost: unknown property 'z'; valid: x, y, turn, weight"),
    ({"cost": lambda s: s.objects.x}, r"cost: it must give one number, got shape \(8,\)"),
    ({"cost": lambda s: float(s["a"].x)}, "cost: it cannot be traced with JAX"),
    ({"cost": lambda s: s.given.nothing}, "cost: unknown given number 'nothing'; valid: goal"),
    ({"cost": None}, "say what is wanted"),
    ({"goal": lambda s: s["a"].x}, "goal: it must give one truth value"),
    ({"actions": []}, "actions: the list is empty"),
    ({"actions": Actions("mve", MOVE)}, r"unknown action 'mve'.*did you mean 'move'"),
    (
        {"actions": Actions("move", {"dx": (0.5, -0.5), "dy": 0.0})},
        "the bounds are the wrong way round: 0.5 is above -0.5",
    ),
    ({"actions": Actions("move", {"dx": (0, math.inf), "dy": 0.0})}, r"write bounds as \(low, high\)"),
    ({"actions": Actions("move", {"dx": (0, 1)})}, "bounds are needed for dx, dy, got dx"),
    ({"actions": Actions("move", MOVE, {"target": "a"})}, "unknown role 'target'; valid: thing"),
    ({"actions": Actions("move", MOVE, to=lambda o, u: {"dx": 0.0})}, "to: it must give dx, dy by name, got dx"),
    ({"cost": 3.0}, "cost: expected a function of the state"),
    ({"actions": ["move"]}, "expected spare.planning.Actions"),
    ({"constraints": [lambda s: True]}, "expected spare.planning.Constraint"),
    ({"model": "model.spare"}, r"model: it must draw next states.*spare.load"),
    ({"risk": 1.5}, "risk: it is above -1"),
    ({"discount": 0}, "discount"),
    ({"samples": 0}, "samples"),
    ({"given": {"goal": (math.nan, 0)}}, "given 'goal': numbers must be finite"),
]


@pytest.mark.usefixtures("_as_users_come")
@pytest.mark.parametrize(("what", "sentence"), BAD, ids=[text[:30] for _, text in BAD])
def test_problems_that_cannot_be(what: dict[str, Any], sentence: str) -> None:
    with pytest.raises((spare.DefinitionError, spare.UsageError), match=sentence):
        to_goal(**what)


def test_what_is_wrong_with_a_state_is_said_when_it_comes() -> None:
    with pytest.raises(
        spare.DataError, match=r"cost: it names object 'z', which is not in the state \(\['a', 'b', 'c'\]\)"
    ):
        plan(to_goal(cost=lambda s: s["z"].x), state(), seed=0)
    with pytest.raises(spare.DataError, match="thing: object 'q' is not in the state"):
        plan(to_goal(actions=Actions("move", MOVE, {"thing": "q"})), state(), seed=0)
    with pytest.raises(spare.DataError, match="no objects of this state may take the roles of move"):
        plan(to_goal(actions=Actions("move", MOVE, {"thing": lambda o: o.weight > 99})), state(), seed=0)
    with pytest.raises(spare.DefinitionError, match=r"cost: it is not a number \(NaN\)"):
        plan(to_goal(cost=lambda s: jnp.sqrt(-1.0 - s["a"].x ** 2)), state(), PLANNERS[0], seed=0)
    far = spare.State(("a",), np.array([[1e7 + 0.1, 0.0, 0.0, 1.0]]))
    with pytest.raises(spare.DataError, match="32-bit numbers, in which plans are made, lose digits"):
        plan(to_goal(), far, seed=0)
    with pytest.raises(spare.DefinitionError, match="probability is above 0"):
        Constraint(lambda s: True, probability=0)
    with pytest.raises(spare.DefinitionError, match="16 elites of 8"):
        ICEM(candidates=8, elites=16)
    with pytest.raises(spare.UsageError, match="candidates"):
        PredictiveSampling(candidates=0)
