"""The learned model as a Gymnasium environment, one at a time or many in one compiled call.

    reward       minus the problem's cost of the state that follows; terminated where its goal holds
    observation  `objects` (N, P), padded with zeros, and `mask` (N,), which is 1 where a row is an object
    action       numbers from -1 to 1, one for each free parameter; where there are several options (templates, objects)
                 one more before them, whose range is divided evenly among these

An episode keeps one member of the model's ensemble. Who may act is decided when an episode begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from spare.arguments import check_whole
from spare.data.experience import Experience
from spare.data.scene import object_slots
from spare.data.state import ActionCall, State
from spare.errors import DataError, UsageError
from spare.language.domain import Domain
from spare.planning.evaluation import Candidates, Evaluation
from spare.planning.plans import with_model
from spare.planning.problems import Problem, Situation
from spare.programs import PROGRAMS

Starts = State | Sequence[State] | Experience | Callable[[np.random.Generator], State]
"""Where episodes begin: one state, several, those of an experience, or a function that draws one."""


FAR = 1e9
"""No number of an observation is larger: Gymnasium asks for bounds."""


class _Episodes:
    """B episodes of a problem: their situations, and one compiled step for all of them."""

    def __init__(self, problem: Problem, starts: Starts, count: int, most: int | None) -> None:
        self.problem, self.count = problem, count
        self._draw = _drawing(starts)
        self.size = object_slots(self._largest(starts) if most is None else most)
        self.situations: list[Situation | None] = [None] * count
        self.states: list[State | None] = [None] * count
        self.members = np.zeros(count, np.int32)
        first = problem.situation(self._draw(np.random.default_rng(0)))
        self.options, self.free = int(first.options.valid.sum()), max(len(one.bounds) for one in problem.spaces)

    def _largest(self, starts: Starts) -> int:
        if isinstance(starts, State):
            return len(starts)
        if isinstance(starts, Experience):
            return int(starts.counts.max())
        if callable(starts):
            return len(starts(np.random.default_rng(0)))
        return max(len(one) for one in starts)

    def begin(self, b: int, rng: np.random.Generator) -> None:
        """A new episode in place b."""
        state = self._draw(rng)
        if object_slots(len(state)) > self.size:
            raise DataError(f"a start has {len(state)} objects, more than {self.size}; say how many there are at most")
        found = self.problem.situation(state)
        self.situations[b], self.states[b] = _padded(found, self.size), state
        self.members[b] = rng.integers(self.problem.model.members)

    def step(self, actions: np.ndarray, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(costs (B,), goal reached (B,)): every episode goes one step on."""
        ready = [one for one in self.situations if one is not None]
        if len(ready) != self.count:
            raise UsageError("call reset before step")
        slots = max(len(one.options.valid) for one in ready)
        stacked = jax.tree.map(lambda *parts: np.stack(parts), *[_lengthened(one, slots) for one in ready])
        given = (self.problem.model, stacked, actions.astype(np.float32), seeds, self.members)
        found = PROGRAMS.call(
            "environment", self._stepped, given, key=(self.problem.digest, self.several), options=None
        )
        after, cost, reached = (np.asarray(part) for part in found)
        for b, one in enumerate(ready):
            self.situations[b] = one._replace(state=one.state._replace(values=after[b]))
            here = self.states[b]
            assert here is not None
            self.states[b] = State(here.ids, after[b, : len(here)])
        return cost, reached

    @property
    def several(self) -> bool:
        """Whether an action chooses an option."""
        return self.options > 1

    def _stepped(self, model: Any, situations: Situation, actions: Any, seeds: Any, members: Any) -> Any:
        own = with_model(self.problem, model)

        def one(situation: Situation, action: Any, seed: Any, member: Any) -> Any:
            share = (jnp.clip(action, -1.0, 1.0) + 1) / 2
            count = situation.options.valid.sum()
            option = jnp.minimum((share[0] * count).astype(int), count - 1) if self.several else jnp.zeros((), int)
            z = jnp.zeros(situation.options.low.shape[1]).at[: self.free].set(share[1:] if self.several else share)
            chance = (jax.random.key(seed), member)
            return Evaluation(own, situation).step(situation.state.values, Candidates(option, z), chance)

        return jax.vmap(one)(situations, actions, seeds, members)

    def observation(self, b: int) -> dict[str, np.ndarray]:
        """What is seen of episode b."""
        one = self.situations[b]
        assert one is not None
        return {
            "objects": np.clip(one.state.values, -FAR, FAR).astype(np.float32),
            "mask": np.array(one.state.valid, np.float32),
        }

    def observation_space(self) -> spaces.Space[Any]:
        """`objects` and `mask`."""
        shape = (self.size, len(self.problem.model.domain.properties))
        return spaces.Dict(
            {
                "objects": spaces.Box(-FAR, FAR, shape, np.float32),
                "mask": spaces.Box(0.0, 1.0, (self.size,), np.float32),
            }
        )

    def action_space(self) -> spaces.Space[Any]:
        """-1 to 1 for each free number, and for the choice of an option if there are several."""
        return spaces.Box(-1.0, 1.0, (max(1, self.free + self.several),), np.float32)


def _drawing(starts: Starts) -> Callable[[np.random.Generator], State]:
    if isinstance(starts, State):
        return lambda rng: starts
    if callable(starts):
        return starts
    every = starts.states if isinstance(starts, Experience) else tuple(starts)
    if not len(every):
        raise UsageError("starts: there is no state to begin with; give at least one")
    return lambda rng: every[int(rng.integers(len(every)))]


def _padded(one: Situation, size: int) -> Situation:
    """The situation with as many rows of objects as all others have."""
    more = size - len(one.state.valid)
    rows = [(0, more), (0, 0)]
    state = one.state._replace(values=np.pad(one.state.values, rows), valid=np.pad(one.state.valid, (0, more)))
    return one._replace(state=state, origin=np.pad(one.origin, rows))


def _lengthened(one: Situation, slots: int) -> Situation:
    """The situation with this many places for options."""
    more = slots - len(one.options.valid)
    padded = [np.pad(part, [(0, more)] + [(0, 0)] * (part.ndim - 1)) for part in one.options]
    return one._replace(options=type(one.options)(*padded))


class LearnedEnv(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """One episode at a time; see the module. `steps`: truncated after so many; `objects`: at most so many."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own)

    def __init__(self, problem: Problem, starts: Starts, steps: int = 50, objects: int | None = None) -> None:
        self._steps, self._taken = check_whole("steps", steps, 1), 0
        self._episodes = _Episodes(problem, starts, 1, objects)
        self.observation_space, self.action_space = self._episodes.observation_space(), self._episodes.action_space()

    @property
    def domain(self) -> Domain:
        """The model's."""
        return self._episodes.problem.model.domain

    @property
    def state(self) -> State:
        """The current state, with the ids of its objects."""
        found = self._episodes.states[0]
        if found is None:
            raise UsageError("call reset first")
        return found

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """A new episode from one of the starts."""
        super().reset(seed=seed)
        self._taken = 0
        self._episodes.begin(0, self.np_random)
        return self._episodes.observation(0), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """One draw of what follows."""
        seeds = self.np_random.integers(2**31, size=1).astype(np.int32)
        cost, reached = self._episodes.step(np.asarray(action)[None], seeds)
        self._taken += 1
        over = bool(self._taken >= self._steps)
        return self._episodes.observation(0), -float(cost[0]), bool(reached[0]), over, {}

    def observe(self, observation: Any, info: dict[str, Any]) -> State:
        """For `control`: the state itself."""
        return self.state

    def act(self, call: ActionCall, state: State) -> np.ndarray:
        """For `control`: the action that a call is, where parameters are the template's own."""
        problem, situation = self._episodes.problem, self._episodes.situations[0]
        assert situation is not None
        rows = [state.ids.index(one) for one in call.objects]
        for k in np.flatnonzero(situation.options.valid):
            space = problem.spaces[int(situation.options.space[k])]
            if space.action == call.action and situation.options.objects[k, : len(rows)].tolist() == rows:
                if space.to is not None:
                    raise UsageError("act: parameters that follow from objects cannot be turned back into an action")
                names = self.domain.action(call.action).parameters
                given = [call.parameters[names.index(name)] for name in space.bounds]
                low, high = (part[k, : len(given)] for part in (situation.options.low, situation.options.high))
                width = np.where(high > low, high - low, 1.0)
                share = np.zeros(self._episodes.free)
                share[: len(given)] = np.clip((np.array(given) - low) / width, 0, 1)
                first = [(k + 0.5) / situation.options.valid.sum()] if self._episodes.several else []
                return (2 * np.concatenate([first, share]) - 1).astype(np.float32)
        raise UsageError(f"act: {call.action} of {call.objects} is none of the problem's actions here")


class LearnedVectorEnv(VectorEnv[dict[str, np.ndarray], np.ndarray, np.ndarray]):
    """`count` episodes, a step of all of them in one compiled call; one that ends begins anew at the next step."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self, problem: Problem, starts: Starts, count: int, steps: int = 50, objects: int | None = None
    ) -> None:
        self.num_envs, self._steps = check_whole("count", count, 1), check_whole("steps", steps, 1)
        self._episodes = _Episodes(problem, starts, count, objects)
        self.single_observation_space = self._episodes.observation_space()
        self.single_action_space = self._episodes.action_space()
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, count)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, count)
        self._taken, self._over = np.zeros(count, int), np.zeros(count, bool)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """New episodes everywhere."""
        first = seed if seed is None or isinstance(seed, int) else next(iter(seed))
        super().reset(seed=first)
        for b in range(self.num_envs):
            self._episodes.begin(b, self.np_random)
        self._taken[:], self._over[:] = 0, False
        return self._observations(), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One step of every episode; those that had ended begin instead, with reward 0."""
        seeds = self.np_random.integers(2**31, size=self.num_envs).astype(np.int32)
        cost, reached = self._episodes.step(np.asarray(actions), seeds)
        for b in np.flatnonzero(self._over):
            self._episodes.begin(int(b), self.np_random)
        self._taken = np.where(self._over, 0, self._taken + 1)
        rewards = np.where(self._over, 0.0, -cost.astype(np.float64))
        terminated = np.where(self._over, False, reached)
        truncated = self._taken >= self._steps
        self._over = terminated | truncated
        return self._observations(), rewards, terminated, truncated, {}

    def _observations(self) -> dict[str, np.ndarray]:
        every = [self._episodes.observation(b) for b in range(self.num_envs)]
        return {name: np.stack([one[name] for one in every]) for name in every[0]}
