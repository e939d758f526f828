"""What candidate plans cost: the one compiled evaluation that every planner goes through.

1. A candidate is, for each step, an option and numbers z (`Candidates`); its action is made from the state that a
   trajectory has reached.
2. Each candidate is rolled out in `samples` trajectories, one member each. All candidates share the random numbers of a
   trajectory: their differences are then their own, and the generator is asked once for all of them.
3. Costs of trajectories become one score (`Problem.risk`). A candidate that breaks a constraint is worse than every one
   that does not: it pays the range of all objectives for each trajectory that is missing.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from spare.model.rollout import advanced
from spare.planning.problems import Problem, Situation
from spare.planning.spaces import call_of
from spare.planning.views import StateView

LOST = 1e9
"""What a trajectory costs whose values are no numbers any more."""


class Candidates(NamedTuple):
    """Plans, leading axes ...: an option for each step (..., H), its numbers from 0 to 1 (..., H, d)."""

    option: Any
    z: Any

    def at(self, index: Any) -> Candidates:
        """Those with this number, or these numbers."""
        return Candidates(self.option[index], self.z[index])


class Trajectory(NamedTuple):
    """What came of a plan: cost (), goal reached (), constraints kept (constraints,), values (H, N, P), actions.

    `invalid`: the cost is not a number although all values are, so a formula is at fault. A trajectory that leaves all
    numbers behind, as those of a bad model do, costs `LOST`.
    """

    cost: Any
    reached: Any
    kept: Any
    values: Any
    calls: Any
    invalid: Any


class Scores(NamedTuple):
    """Of C candidates: score (C,), lower is better; objective, and the shares that reach the goal, keep constraints."""

    score: Any
    objective: Any
    success: Any
    kept: Any
    invalid: Any


def moved(problem: Problem, situation: Situation, values: Any, now: Candidates, chance: tuple[Any, Any]) -> Any:
    """(the call, values (N, P) after it) of one step of a plan in a state with these values."""
    call = call_of(problem.model.domain, problem.spaces, situation.options, now.option, now.z, values)
    return call, advanced(problem.model, situation.state, values, call, chance)


def charged(problem: Problem, view: StateView) -> tuple[Any, Any]:
    """(what a step to this state costs, whether the goal is reached in it)."""
    cost = problem.asked("cost", view)
    arrived = problem.asked("goal", view)
    arrived = jnp.asarray(False) if arrived is None else arrived
    if cost is None:
        cost = jnp.where(arrived, 0.0, 0.0 if problem.goal is None else 1.0)
    return cost, arrived


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """What planners may ask about a problem in a situation: scores of candidates, or one step."""

    problem: Problem
    situation: Situation

    def __call__(self, plans: Candidates, key: PRNGKeyArray) -> Scores:
        """Scores of candidates (C, H)."""
        return evaluate(self.problem, self.situation, plans, key)

    def step(self, values: Any, now: Candidates, chance: tuple[Any, Any]) -> tuple[Any, Any, Any]:
        """(values after, cost, goal reached) of one step."""
        _, after = moved(self.problem, self.situation, values, now, chance)
        return after, *charged(self.problem, self.problem.view(self.situation, after))


def follow(problem: Problem, situation: Situation, plan: Candidates, chance: tuple[Any, Any]) -> Trajectory:
    """One plan (H,) from the situation on, with the random numbers of a key, as one member sees it."""
    key, member = chance
    limits = problem.limits
    real = jnp.asarray(situation.state.values).dtype

    def step(carry: tuple[Any, ...], what: tuple[Any, Candidates]) -> tuple[Any, Any]:
        values, paid, reached, kept, weight = carry
        number, now = what
        call, after = moved(problem, situation, values, now, (jax.random.fold_in(key, number), member))
        view = problem.view(situation, after)
        cost, arrived = charged(problem, view)
        paid = paid + jnp.where(reached, 0.0, weight * cost.astype(real))
        holds = [problem.asked(f"constraint {k + 1}", view) for k in range(len(limits))]
        always = [one | (limits[k].when == "end") for k, one in enumerate(holds)]
        kept = kept & jnp.stack(always) if limits else kept
        end = jnp.stack(holds) if limits else kept
        return (after, paid, reached | arrived, kept, weight * problem.discount), (after, call, end)

    start = (jnp.asarray(situation.state.values), jnp.zeros((), real), jnp.asarray(False))
    start = (*start, jnp.ones(len(limits), bool), jnp.ones((), real))
    numbers = jnp.arange(problem.horizon)
    (last, paid, reached, kept, _), (values, calls, ends) = jax.lax.scan(step, start, (numbers, plan))
    final = problem.asked("final", problem.view(situation, last))
    if final is not None:
        paid = paid + jnp.where(reached, 0.0, final.astype(real))
    finite = jnp.isfinite(values).all()
    invalid = jnp.isnan(paid) & finite
    paid = jnp.where(finite, paid, LOST)
    return Trajectory(paid, reached & finite, kept & ends[-1] & finite, values, calls, invalid)


def evaluate(problem: Problem, situation: Situation, plans: Candidates, key: PRNGKeyArray) -> Scores:
    """Scores of candidates (C, H): `samples` trajectories each, with random numbers in common."""
    samples = problem.samples
    keys, first = jax.random.split(key, samples), jax.random.randint(key, (), 0, problem.model.members)
    members = (first + jnp.arange(samples)) % problem.model.members

    def sample(own: PRNGKeyArray, member: Any) -> tuple[Any, Any, Any, Any]:
        found = jax.vmap(lambda plan: follow(problem, situation, plan, (own, member)))(plans)
        return found.cost, found.reached, found.kept, found.invalid

    cost, reached, kept, invalid = jax.vmap(sample)(keys, members)
    invalid = invalid.sum()
    objective = at_risk(jnp.where(jnp.isnan(cost), jnp.inf, cost), problem.risk)
    shortfall = jnp.zeros_like(objective)
    for k, limit in enumerate(problem.limits):
        needed = jnp.ceil(limit.probability * samples - 1e-6)
        shortfall = shortfall + jnp.maximum(needed - kept[:, :, k].sum(axis=0), 0.0)
    finite = jnp.isfinite(objective)
    low, high = jnp.where(finite, objective, jnp.inf).min(), jnp.where(finite, objective, -jnp.inf).max()
    score = objective + jax.lax.stop_gradient(jnp.maximum(high - low, 1.0) * 1.01) * shortfall
    return Scores(score, objective, reached.mean(axis=0), kept.mean(axis=0), invalid)


def at_risk(cost: Float[Array, S * n], risk: float | int) -> Float[Array, "*n"]:
    """The mean over samples; of the worst 1 - risk of them for a positive risk, of the best ones for a negative."""
    if not risk:
        return cost.mean(axis=0)
    count = cost.shape[0]
    share = max(1.0, (1 - abs(risk)) * count)
    ordered = jnp.sort(cost, axis=0)
    ordered = ordered[::-1] if risk > 0 else ordered
    weight = jnp.clip(share - jnp.arange(count), 0.0, 1.0) / share
    return jnp.where(weight.reshape(-1, *[1] * (cost.ndim - 1)) > 0, ordered, 0.0).T @ weight


class Belief(NamedTuple):
    """Where good plans are thought to be: P(option) (H, O), and mean and deviation of its numbers (H, O, d)."""

    share: Any
    mean: Any
    std: Any

    @classmethod
    def around(cls, situation: Situation, warm: Warm, spread: float) -> Belief:
        """Uniform over options; where a warm start has one, half of it there, around its numbers."""
        valid, free = jnp.asarray(situation.options.valid), situation.options.low.shape[1]
        horizon, count = warm.option.shape[0], valid.shape[0]
        even = jnp.broadcast_to(valid / valid.sum(), (horizon, count))
        chosen = (jnp.arange(count) == warm.option[:, None]) & warm.known[:, None]
        share = jnp.where(warm.known[:, None], 0.5 * even + 0.5 * chosen, even)
        mean = jnp.where(chosen[:, :, None], warm.z[:, None], 0.5)
        std = jnp.where(chosen[:, :, None], 0.5 * spread, spread)
        return cls(share, jnp.broadcast_to(mean, (horizon, count, free)), jnp.broadcast_to(std, mean.shape))

    def draw(self, key: PRNGKeyArray, count: int, colour: Any = None) -> Candidates:
        """Plans drawn from it; with a `colour` (H, H) their numbers vary along the steps together."""
        one, two = jax.random.split(key)
        uniform = jax.random.uniform(one, (count, self.share.shape[0], 1))
        option = (uniform >= jnp.cumsum(self.share, axis=-1)[:, :-1]).sum(axis=-1)
        noise = jax.random.normal(two, (count, *self.mean.shape[::2]), self.mean.dtype)
        if colour is not None:
            noise = jnp.einsum("cjd,jh->chd", noise, colour)
        steps = jnp.arange(self.share.shape[0])
        return Candidates(option, reflected(self.mean[steps, option] + self.std[steps, option] * noise))

    def refit(self, plans: Candidates, weight: Any, rate: float, floor: float) -> Belief:
        """Moved by `rate` to the weighted plans (C, H); options that none of them has keep their numbers."""
        count = self.share.shape[1]
        chosen = jax.nn.one_hot(plans.option, count) * weight[:, None, None]
        mass = chosen.sum(axis=0)
        some = (mass > 1e-6)[:, :, None]
        per = chosen / jnp.maximum(mass, 1e-6)
        mean = jnp.einsum("cho,chd->hod", per, plans.z)
        spread = jnp.einsum("cho,chod->hod", per, jnp.square(plans.z[:, :, None] - mean))
        share = (1 - rate) * self.share + rate * mass / mass.sum(axis=1, keepdims=True)
        return Belief(
            share,
            jnp.where(some, (1 - rate) * self.mean + rate * mean, self.mean),
            jnp.where(some, (1 - rate) * self.std + rate * jnp.maximum(jnp.sqrt(spread), floor), self.std),
        )


class Warm(NamedTuple):
    """What is left of the plan before: option (H,), z (H, d), and at which steps there is something, `known` (H,)."""

    option: Any
    z: Any
    known: Any


def reflected(z: Any) -> Any:
    """Numbers thrown back into 0 .. 1 at the ends: clipping would pile them up there."""
    folded = jnp.abs(z - 2.0 * jnp.round(z / 2.0))
    return jnp.clip(folded, 0.0, 1.0)
