"""Worlds in a real simulator: nobody can write their density down, but any transition can be executed again.

1. Sample i of seed s is built from the stream (s, i) and executed with noise from the stream (s, i, repeat): repeat 0
   is what the data have, 1, 2, ... are fresh.
2. `SimulatorNoise` executes a transition many times and asks how dense the ends lie where it was observed to end:
   log mean over repeats k of N(s'[o, P]; s'_k[o, P], h² + resolution²), with Silverman's width h. So it is about values
   alone, a little too low, and the better the more repeats there are.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spare.data.experience import Experience
from spare.data.state import ActionCall, State
from spare.errors import DataError, UsageError
from spare.lab.baselines.gaussian import LOG_2PI
from spare.lab.worlds.known import MOST, movers
from spare.language.domain import Domain
from spare.language.frames import from_frame, to_frame
from spare.language.properties import nearest_images
from spare.learning.dataset import action_poses


class Executed(NamedTuple):
    """A transition: values before and after (N, P), rows of the action's objects, parameters."""

    before: np.ndarray
    after: np.ndarray
    roles: tuple[int, ...]
    parameters: np.ndarray


@dataclasses.dataclass(frozen=True)
class SimulatedWorld:
    """A domain of one action with a simulator; the same surface as `KnownWorld`.

    execute   (seed, index, how many objects, repeat) -> what happened
    tested    at most so many transitions are tested in benchmarks, since each is executed `repeats` times
    """

    domain: Domain
    execute: Callable[[int, int, int, int], Executed]
    objects: tuple[int, int]
    fixed: int
    repeats: int = 12
    tested: int = 100

    @property
    def name(self) -> str:
        """The domain's name."""
        return self.domain.name

    @functools.cached_property
    def truth(self) -> SimulatorNoise:
        """How likely the simulator itself finds what was observed, each value alone."""
        return SimulatorNoise(self)

    def generate(self, samples: int, seed: int, *, objects: int | None = None) -> Experience:
        """`samples` transitions, each of `objects` objects or of a drawn number; sample i depends on (seed, i)."""
        low, high = self.objects
        if samples < 1 or seed < 0 or (objects is not None and not low <= objects < MOST):
            raise UsageError(f"{self.name}: samples >= 1, seed >= 0 and {low} to {MOST - 1} objects are needed")
        counts = [int(np.random.default_rng([seed, i, 7]).integers(low, high + 1)) for i in range(samples)]
        counts = counts if objects is None else [objects] * samples
        made = [self.execute(seed, i, count, 0) for i, count in enumerate(counts)]
        return Experience.from_arrays(
            self.domain,
            values=np.concatenate([one.before for one in made]),
            next_values=np.concatenate([one.after for one in made]),
            offsets=np.cumsum([0, *counts]),
            ids=np.concatenate([i * MOST + np.arange(count) for i, count in enumerate(counts)]),
            action=np.zeros(samples, np.int64),
            objects=np.array([one.roles for one in made]),
            parameters=np.array([one.parameters for one in made]),
            info={"seed": np.full(samples, seed), "index": np.arange(samples)},
            metadata={"generator": self.name, "seed": seed, "objects": objects},
        )

    def movers(self, experience: Experience) -> np.ndarray:
        """(total,) bool: rows that changed by more than ten resolutions in some property."""
        return movers(experience.with_domain(self.domain))


class SimulatorNoise:
    """What executing the same transitions again leads to, as densities of single values; see the module.

    It knows transitions of its own world only: it executes them by the seed and index that `generate` wrote down.
    """

    def __init__(self, world: SimulatedWorld) -> None:
        self.world, self.domain = world, world.domain
        self._last: tuple[weakref.ref[Experience], np.ndarray] | None = None

    def ends(self, experience: Experience) -> np.ndarray:
        """(repeats, total, Q): where repeats end, in the world."""
        if self._last is None or self._last[0]() is not experience:
            self._last = (weakref.ref(experience), self._execute(experience))
        return self._last[1]

    def _execute(self, experience: Experience) -> np.ndarray:
        if not {"seed", "index"} <= set(experience.info):
            raise DataError(f"this experience was not made by {self.world.name}: it cannot be executed again")
        keys = zip(experience.info["seed"].tolist(), experience.info["index"].tolist(), strict=True)
        parts = []
        for i, (seed, index) in enumerate(keys):
            count = int(experience.counts[i])
            again = [self.world.execute(seed, index, count, k) for k in range(1, 1 + self.world.repeats)]
            before = experience.values[experience.offsets[i] : experience.offsets[i + 1]]
            if not np.array_equal(again[0].before.astype(np.float32), before):
                raise DataError(f"transition {i} cannot be rebuilt: this simulator gives another state")
            after = [nearest_images(self.domain.properties, before, one.after) for one in again]
            parts.append(np.stack(after)[:, :, list(self.domain.dynamic)])
        return np.concatenate(parts, axis=1)

    def log_prob_values(self, experience: Experience) -> np.ndarray:
        """The log density of each changeable value alone, (total, Q), in the action's frame."""
        dynamic = list(self.domain.dynamic)
        ends = self._framed(experience, self.ends(experience))
        after = self._framed(experience, experience.next_values[:, dynamic].astype(np.float64))
        variance = np.square(self._width(ends)) + self.domain.resolutions**2
        terms = -0.5 * (np.square(after - ends) / variance + np.log(variance) + LOG_2PI)
        top = terms.max(axis=0)
        return top + np.log(np.exp(terms - top).mean(axis=0))

    def log_prob(self, experience: Experience) -> np.ndarray:
        """The sum over values, one per transition: what values have in common is not known."""
        return np.add.reduceat(self.log_prob_values(experience).sum(axis=1), experience.offsets[:-1])

    def mean(self, experience: Experience) -> np.ndarray:
        """The mean of the repeats, float32 (total, P)."""
        result = experience.values.copy()
        result[:, list(self.domain.dynamic)] = self.ends(experience).mean(axis=0)
        return result

    def sample(self, experience: Experience, seed: int) -> np.ndarray:
        """One of the repeats of each transition, each value with the width of its density."""
        ends, rng = self._framed(experience, self.ends(experience)), np.random.default_rng([seed, 3])
        wide = np.sqrt(np.square(self._width(ends)) + self.domain.resolutions**2)
        which = rng.integers(len(ends), size=len(experience))[experience.owner]
        drawn = ends[which, np.arange(ends.shape[1])] + wide * rng.standard_normal(ends.shape[1:])
        result = experience.values.copy()
        result[:, list(self.domain.dynamic)] = self._framed(experience, drawn, back=True)
        return result

    def predict(self, state: State, action: ActionCall) -> Any:
        """Refused: a state does not say from which seed it was built."""
        raise UsageError("a simulator's noise is known of transitions that it made; it predicts no other states")

    def _width(self, ends: np.ndarray) -> np.ndarray:
        """Silverman's width of each value's kernel, (total, Q)."""
        quarter = np.quantile(ends, [0.25, 0.75], axis=0)
        spread = np.minimum(ends.std(axis=0), (quarter[1] - quarter[0]) / 1.34)
        return 0.9 * spread * len(ends) ** -0.2

    def _framed(self, experience: Experience, values: np.ndarray, back: bool = False) -> np.ndarray:
        """Values (..., total, Q) into the action's frame, or back out of it."""
        action = self.domain.actions[0]
        pose = action_poses(experience.with_domain(self.domain), action.name)
        if action.frame is None or pose is None:
            return values
        columns = action.frame.columns(self.domain.dynamic_names)
        return (from_frame if back else to_frame)(values, columns, pose.at(experience.owner))
