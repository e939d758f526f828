"""What a world is: a domain, how its states and actions are drawn, and what an action does, with its noise.

1. Sample i of seed s is drawn from the stream (s, i): a state, an action, what happens, what is measured afterwards.
2. What happens is a function of state, action and a stream of noise, so that any transition can be executed again.
3. Everything is measured with a Gaussian error, `jitter`. So the true density of a value is the mean, over executions,
   of Gaussians around where they end: that is the limit for models, see `World.log_density`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from spare.arguments import check_seed, check_whole
from spare.data.experience import Experience
from spare.errors import DataError
from spare.language.domain import Domain
from spare.language.frames import to_frame


def distance(o: Any, p: Any) -> Any:
    """From object to object in the plane, for references."""
    return jnp.hypot(o.x - p.x, o.y - p.y)


class Scene(NamedTuple):
    """(s, a): values (N, P), rows of the action's objects, the action's parameters; float32 numbers as float64."""

    values: np.ndarray
    roles: tuple[int, ...]
    parameters: np.ndarray


class Outcome(NamedTuple):
    """What an execution leads to: values (N, P) before they are measured; who is affected by the action (N,) bool."""

    values: np.ndarray
    moved: np.ndarray


@dataclasses.dataclass(frozen=True)
class World:
    """A domain with a generator.

    draw      (numbers, how many objects) -> a scene
    execute   (scene, numbers) -> what happens
    jitter    deviation of the measurement of every property that can change
    objects   how many objects a state has: drawn between these two, both included
    fixed     how many it has in experiments with learners that take a fixed number
    """

    domain: Domain
    draw: Callable[[np.random.Generator, int], Scene]
    execute: Callable[[Scene, np.random.Generator], Outcome]
    jitter: float
    objects: tuple[int, int]
    fixed: int

    @property
    def name(self) -> str:
        """The domain's name."""
        return self.domain.name

    def generate(self, samples: int, seed: int, *, objects: int | None = None) -> Experience:
        """`samples` transitions, each of `objects` objects or of a drawn number; sample i depends on (seed, i)."""
        low, high = self.objects
        seed, samples = check_seed(seed, f"{self.name}: seed"), check_whole(f"{self.name}: samples", samples, 1)
        if objects is not None:
            objects = check_whole(f"{self.name}: objects", objects, low, high)
        made = [self._sample(np.random.default_rng([seed, i]), objects) for i in range(samples)]
        columns = {name: [one[name] for one in made] for name in made[0]}
        arrays: dict[str, Any] = {name: np.concatenate(columns[name]) for name in ("values", "next_values", "ids")}
        return Experience.from_arrays(
            self.domain,
            **arrays,
            objects=np.stack(columns["objects"]),
            parameters=np.stack(columns["parameters"]),
            offsets=np.cumsum([0] + [len(one) for one in columns["values"]]),
            action=np.zeros(samples, np.int64),
            info={"moved": np.array(columns["moved"], np.int64)},
            metadata={"generator": self.name, "seed": seed, "objects": objects},
        )

    def _sample(self, rng: np.random.Generator, objects: int | None) -> dict[str, np.ndarray]:
        """The columns of one transition, objects in random order, ids of those that are affected first."""
        count = int(rng.integers(self.objects[0], self.objects[1] + 1)) if objects is None else objects
        values, roles, parameters = self.draw(rng, count)
        scene = Scene(_single(values), roles, _single(parameters))
        found = self.execute(scene, rng)
        after, dynamic = found.values.copy(), list(self.domain.dynamic)
        after[:, dynamic] += self.jitter * rng.standard_normal((count, len(dynamic)))
        ids = np.empty(count, np.int64)
        ids[np.argsort(~found.moved, kind="stable")] = np.arange(count)
        order = rng.permutation(count)
        return {
            "values": scene.values[order],
            "next_values": after[order],
            "ids": ids[order],
            "objects": np.argsort(order)[list(roles)],
            "parameters": scene.parameters,
            "moved": found.moved.sum(),
        }

    def moved(self, experience: Experience) -> np.ndarray:
        """(total,) bool: rows of objects that the action truly affected, its own objects among them if they were."""
        if "moved" not in experience.info:
            raise DataError(f"this experience was not made by {self.name}: it does not say which objects were affected")
        return np.asarray(experience.ids) < np.repeat(experience.info["moved"], experience.counts)

    def scenes(self, experience: Experience) -> list[Scene]:
        """The states and actions of an experience, as `execute` takes them."""
        return [
            Scene(
                experience.values[start:stop].astype(np.float64),
                tuple(experience.objects[i].tolist()),
                experience.parameters[i].astype(np.float64),
            )
            for i, (start, stop) in enumerate(zip(experience.offsets[:-1], experience.offsets[1:], strict=True))
        ]

    def log_density(self, experience: Experience, *, repeats: int = 200, seed: int = 0) -> np.ndarray:
        """log of mean over executions k of N(s'[o, P]; s'_k[o, P], jitter² + h²), float64 (total, Q).

        The log density, in nats, of every measured value under the true distribution of that value given state and
        action: no model of independent values can expect more. In the action's frame, where there is one. It rests on
        `repeats` executions of every transition, smoothed by Silverman's width h where they spread: a little too low.
        """
        parts, dynamic = [], list(self.domain.dynamic)
        for i, scene in enumerate(self.scenes(experience)):
            rng = np.random.default_rng([seed, i])
            ends = np.stack([self.execute(scene, rng).values[:, dynamic] for _ in range(repeats)])
            after = experience.next_values[experience.offsets[i] : experience.offsets[i + 1]][:, dynamic]
            parts.append(self._density(self._framed(scene, ends), self._framed(scene, after.astype(np.float64))))
        return np.concatenate(parts)

    def _density(self, ends: np.ndarray, after: np.ndarray) -> np.ndarray:
        """log density (N, Q) of one measured state, given where executions (K, N, Q) end."""
        quarter = np.quantile(ends, [0.25, 0.75], axis=0)
        spread = np.minimum(ends.std(axis=0), (quarter[1] - quarter[0]) / 1.34)
        variance = self.jitter**2 + np.square(0.9 * spread * len(ends) ** -0.2)
        terms = -0.5 * (np.square(after - ends) / variance + np.log(2 * np.pi * variance))
        top = terms.max(axis=0)
        return top + np.log(np.exp(terms - top).mean(axis=0))

    def _framed(self, scene: Scene, values: np.ndarray) -> np.ndarray:
        """Changeable properties (..., N, Q) in the action's frame."""
        action = self.domain.actions[0]
        if action.frame is None:
            return values
        pose = self.domain.poses(action, scene.values[None, list(scene.roles)], scene.parameters[None])
        return to_frame(values, action.frame.columns(self.domain.dynamic_names), pose)


def _single(values: np.ndarray) -> np.ndarray:
    """Rounded to what is stored."""
    return np.asarray(values, np.float32).astype(np.float64)
