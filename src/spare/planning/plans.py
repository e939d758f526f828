"""`plan`: the actions that a planner finds for a problem in a state, and what the model expects of them.

The search is one compiled program. What is said about its result (cost, probability of success) comes from fresh
trajectories: those that the search saw are too good, because it chose by them.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from spare.arguments import check_kind
from spare.arrays import precision
from spare.content import ByContent
from spare.data.state import ActionCall, ObjectId, State
from spare.errors import DefinitionError
from spare.forks import check_threads
from spare.model.model import key_of
from spare.model.trajectories import Rollout
from spare.planning.evaluation import Candidates, Evaluation, Trajectory, Warm, follow
from spare.planning.problems import Problem, Situation
from spare.planning.samplers import ICEM, Planner
from spare.programs import PROGRAMS

CHECKED = 60
"""Fresh trajectories by which a plan is judged: a probability to within 0.13, and a multiple of most ensembles."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a plan, apart from the state: which of the problem's actions, whom, numbers from 0 to 1."""

    space: int
    objects: tuple[ObjectId, ...]
    z: tuple[float, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Plan(ByContent):
    """What to do, and what is expected of it.

    `calls`    one action per step; where parameters depend on the state, those of later steps are what is expected
    `cost`     what trajectories cost on average, `objective` the same with the problem's risk
    `success`  the probability that the goal is reached within the horizon; NaN without a goal
    `kept`     the probability that each constraint holds
    `rollout`  the trajectories themselves: means, deviations, where they leave what the model knows
    `steps`    what the next search starts from
    """

    problem: Problem
    state: State
    calls: tuple[ActionCall, ...]
    cost: float
    objective: float
    success: float
    kept: tuple[float, ...]
    rollout: Rollout
    steps: tuple[Step, ...]
    seconds: float

    def __str__(self) -> str:
        lines = []
        for number, call in enumerate(self.calls):
            names = self.problem.model.domain.action(call.action).parameters
            given = ", ".join(f"{name}={value:.4g}" for name, value in zip(names, call.parameters, strict=True))
            objects = ", ".join(map(str, call.objects))
            lines.append(f"{number + 1}. {call.action}({objects}{'; ' if given and objects else ''}{given})")
        lines.append(f"expected cost {self.cost:.4g}")
        if self.problem.goal is not None:
            lines[-1] += f", the goal is reached with probability {self.success:.0%}"
        for limit, share in zip(self.problem.limits, self.kept, strict=True):
            lines.append(f"a constraint holds with probability {share:.0%}; asked: {limit.probability:.0%}")
        lines += [str(one) for one in self.rollout.leaves[:3]]
        return "\n".join(lines)


def plan(
    problem: Problem,
    state: State,
    planner: Planner | None = None,
    *,
    seed: int,
    before: Plan | None = None,
    origin: State | None = None,
) -> Plan:
    """The best plan that the planner (`ICEM()` if none) finds.

    `before`: the plan of the step before, whose rest is where the search starts. `origin`: the state in which control
    began, which formulas see as `s.start`.
    """
    check_threads()
    check_kind("problem", problem, Problem, "make one with spare.planning.Problem(model, actions, horizon, cost=...)")
    chosen, begun = planner or ICEM(), time.perf_counter()
    situation = problem.situation(state, origin)
    key = key_of(seed)
    with precision(double=False):
        warm = warm_start(problem, situation, state, before)
        found, invalid = _search(problem, chosen, situation, warm, key)
        if int(invalid):
            raise DefinitionError(
                f"cost: it is not a number (NaN) in {int(invalid)} trajectories; look for 0 / 0, inf - inf or the root "
                "of a negative number in the problem's formulas"
            )
        checked = _check(problem, situation, found, jax.random.fold_in(key, 1 << 20))
    return _told(problem, state, (found, situation), checked, time.perf_counter() - begun)


def _search(problem: Problem, planner: Planner, situation: Situation, warm: Warm, key: PRNGKeyArray) -> Any:
    """The compiled search: a program for the structure of the model, the problem's formulas and the planner."""

    def search(model: Any, situation: Situation, warm: Warm, key: PRNGKeyArray) -> Any:
        own = with_model(problem, model)
        return planner.search(Evaluation(own, situation), situation, warm, key)

    given = (problem.model, situation, warm, key)
    found, invalid = PROGRAMS.call("plan", search, given, key=(problem.digest, planner), options=None)
    return jax.tree.map(np.asarray, found), np.asarray(invalid)


def _check(problem: Problem, situation: Situation, found: Candidates, key: PRNGKeyArray) -> Trajectory:
    """Fresh trajectories of one plan, each with random numbers and a member of its own."""
    members = problem.model.members
    count = -(-CHECKED // members) * members

    def check(model: Any, situation: Situation, plan: Candidates, key: PRNGKeyArray) -> Trajectory:
        own = with_model(problem, model)
        keys, each = jax.random.split(key, count), jnp.arange(count) % members
        return jax.vmap(lambda key, member: follow(own, situation, plan, (key, member)))(keys, each)

    given = (problem.model, situation, found, key)
    return jax.tree.map(np.asarray, PROGRAMS.call("check plan", check, given, key=problem.digest, options=None))


def with_model(problem: Problem, model: Any) -> Problem:
    """The problem with the traced arrays of its model; nothing is checked or traced again."""
    own = object.__new__(Problem)
    own.__dict__.update(problem.__dict__)
    object.__setattr__(own, "model", model)
    return own


def warm_start(problem: Problem, situation: Situation, state: State, before: Plan | None) -> Warm:
    """The rest of the plan before, step by step, where its choices still exist; nothing is known of the last step."""
    horizon, free = problem.horizon, situation.options.low.shape[1]
    warm = Warm(np.zeros(horizon, np.int32), np.full((horizon, free), 0.5, np.float32), np.zeros(horizon, bool))
    for k, step in enumerate(() if before is None else before.steps[1 : horizon + 1]):
        if not all(one in state.ids for one in step.objects) or len(step.z) != free:
            continue
        rows = [state.ids.index(one) for one in step.objects]
        same = situation.options.valid & (situation.options.space == step.space)
        same &= (situation.options.objects[:, : len(rows)] == rows).all(axis=1)
        if same.any():
            warm.option[k], warm.z[k], warm.known[k] = np.flatnonzero(same)[0], step.z, True
    return warm


def _told(
    problem: Problem, state: State, what: tuple[Candidates, Situation], checked: Trajectory, seconds: float
) -> Plan:
    """The plan in terms of ids and numbers."""
    (found, situation), domain = what, problem.model.domain
    calls, steps = [], []
    for h, option in enumerate(found.option.tolist()):
        space = int(situation.options.space[option])
        template = domain.action(problem.spaces[space].action)
        objects = tuple(state.ids[int(row)] for row in situation.options.objects[option, : len(template.objects)])
        parameters = checked.calls.parameters[:, h, : len(template.parameters)]
        middle = parameters[0] if h == 0 else np.median(parameters, axis=0)
        calls.append(ActionCall(template.name, objects, tuple(middle.astype(float).tolist())))
        steps.append(Step(space, objects, tuple(found.z[h].astype(float).tolist())))
    count = len(checked.cost)
    values = checked.values[:, :, : len(state)]
    first = np.broadcast_to(state.values.astype(values.dtype), (count, 1, *values.shape[2:]))
    rollout = Rollout(
        problem.model,
        state,
        tuple(calls),
        np.concatenate([first, values], axis=1),
        np.arange(count) % problem.model.members,
    )
    ordered = np.sort(checked.cost)
    share = max(1, round((1 - abs(problem.risk)) * count))
    worst = ordered[-share:] if problem.risk >= 0 else ordered[:share]
    success = float(checked.reached.mean()) if problem.goal is not None else float("nan")
    kept = tuple(checked.kept.mean(axis=0).astype(float).tolist())
    return Plan(
        problem,
        state,
        tuple(calls),
        float(checked.cost.mean()),
        float(worst.mean()),
        success,
        kept,
        rollout,
        tuple(steps),
        seconds,
    )
