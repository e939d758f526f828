"""p(s' | s, a) from networks that speak about every object: what all learned baselines have in common.

    p(s'[o, P]) = mean over members m of N(s'[o, P]; s[o, P] + change_m, variance_m)

Members of an ensemble are mixed value by value, variances are sigma² + resolution², and in a frame the density is
that of the values in the frame: all as in `Model`, so that the numbers compare.
"""

from __future__ import annotations

import abc
import dataclasses
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spare.data.checks import check_call, check_state
from spare.data.experience import Experience
from spare.data.state import ActionCall, State
from spare.errors import DataError
from spare.language.domain import Domain
from spare.language.frames import Placed, groups, leave, leave_variances, place_all
from spare.learning.dataset import Seen, look

LOG_2PI = float(np.log(2 * np.pi))


class Told(NamedTuple):
    """M Gaussians for each of R object rows and Q values: mean of the change and variance, float64 (M, R, Q).

    In the predictor's coordinates (the frame's, or the world's); the variance without resolution².
    """

    change: np.ndarray
    variance: np.ndarray


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What a baseline expects of one action: `mean` and `std` of shape (objects, properties)."""

    domain: Domain
    state: State
    action: ActionCall
    mean: np.ndarray
    std: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        """Which objects are predicted, (objects,) bool: all of them."""
        return np.ones(len(self.state), bool)

    def explain(self) -> str:
        """One line per object: each changeable value before, expected, and its deviation."""
        lines = [f"{self.action.action}({', '.join(map(str, self.action.objects))})"]
        for i, one in enumerate(self.state.ids):
            cells = [
                f"{self.domain.property_names[c]} {self.state.values[i, c]:.4g} -> {self.mean[i, c]:.4g} "
                f"± {self.std[i, c]:.2g}"
                for c in self.domain.dynamic
            ]
            lines.append(f"  {one}: " + ", ".join(cells))
        return "\n".join(lines)


class Part(NamedTuple):
    """The transitions of one action: which they are, which object rows they own, and how the network sees them."""

    action: str
    transitions: np.ndarray
    rows: np.ndarray
    data: Experience
    seen: Seen
    placed: tuple[Placed, tuple[tuple[int, ...], ...]] | None


class GaussianModel(abc.ABC):
    """A transition model whose networks give `Told` for every object; see the module."""

    def __init__(self, domain: Domain, framed: bool) -> None:
        self.domain, self.framed = domain, framed
        self._last: tuple[weakref.ref[Experience], list[tuple[Part, Told]]] | None = None

    @abc.abstractmethod
    def tell(self, part: Part) -> Told:
        """What the networks say about every object of one action's transitions."""

    def log_prob(self, experience: Experience) -> np.ndarray:
        """log p(s' | s, a) in nats, float64, one per transition."""
        return np.add.reduceat(self.log_prob_values(experience).sum(axis=1), experience.offsets[:-1])

    def log_prob_values(self, experience: Experience) -> np.ndarray:
        """log p of every (object, changeable property), float64 (total, Q), rows as in `experience.values`."""
        result = np.empty((len(experience.values), len(self.domain.dynamic)))
        for part, told in self._told(experience):
            variance = told.variance + self.domain.resolutions**2
            moved = part.seen.after - part.seen.values[:, list(self.domain.dynamic)]
            terms = -0.5 * (np.square(moved - told.change) / variance + np.log(variance) + LOG_2PI)
            top = terms.max(axis=0)
            result[part.rows] = top + np.log(np.exp(terms - top).mean(axis=0))
        return result

    def mean(self, experience: Experience) -> np.ndarray:
        """E[s'] of every object, float32 (total, P), rows as in `experience.values`."""
        return self.moments(experience)[0]

    def moments(self, experience: Experience) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard deviation) of every object's properties, float32 (total, P); static ones never vary."""
        mean, std = experience.values.copy(), np.zeros_like(experience.values)
        for part, told in self._told(experience):
            change = told.change.mean(axis=0)
            spread = (told.variance + np.square(told.change - change)).mean(axis=0) + self.domain.resolutions**2
            place = np.ix_(part.rows, np.array(self.domain.dynamic))
            mean[place] = self._leave(part, change)
            std[place] = np.sqrt(self._leave_variances(part, spread))
        return mean, std

    def sample(self, experience: Experience, seed: int) -> np.ndarray:
        """One draw of s' for each transition, float32 (total, P); transition i's draw depends on (seed, i) only."""
        result = experience.values.copy()
        for part, told in self._told(experience):
            shape = (len(part.rows), len(self.domain.dynamic))
            member, noise = np.empty(shape), np.empty(shape)
            for i, start, stop in zip(part.transitions, part.data.offsets[:-1], part.data.offsets[1:], strict=True):
                rng = np.random.default_rng([seed, int(i)])
                member[start:stop] = rng.uniform(size=(stop - start, shape[1]))
                noise[start:stop] = rng.standard_normal((stop - start, shape[1]))
            chosen = (member * len(told.change)).astype(int)[None]
            change = np.take_along_axis(told.change, chosen, axis=0)[0]
            variance = np.take_along_axis(told.variance, chosen, axis=0)[0] + self.domain.resolutions**2
            drawn = self._leave(part, change + np.sqrt(variance) * noise)
            result[np.ix_(part.rows, np.array(self.domain.dynamic))] = drawn
        return result

    def predict(self, state: State, action: ActionCall) -> Expectation:
        """What is expected of each object."""
        one = single(self.domain, state, action)
        return Expectation(self.domain, state, action, *self.moments(one))

    def _told(self, experience: Experience) -> list[tuple[Part, Told]]:
        """What is said of each action's transitions; kept for the last experience: evaluation draws from it often."""
        if self._last is None or self._last[0]() is not experience:
            self._last = (weakref.ref(experience), [(part, self.tell(part)) for part in self._parts(experience)])
        return self._last[1]

    def _parts(self, experience: Experience) -> Iterator[Part]:
        if experience.domain.fingerprint != self.domain.fingerprint:
            raise DataError(f"the model knows {self.domain!r}, the data belong to {experience.domain!r}")
        data = experience.with_domain(self.domain)
        for index, action in enumerate(self.domain.actions):
            chosen = np.flatnonzero(data.action == index)
            if len(chosen):
                owner = np.repeat(data.action, data.counts)
                mine = data[chosen]
                seen, placed = see(mine, action.name, self.framed), self._place(mine, action.name)
                yield Part(action.name, chosen, np.flatnonzero(owner == index), mine, seen, placed)

    def _place(self, data: Experience, action: str) -> tuple[Placed, tuple[tuple[int, ...], ...]] | None:
        """The frame of every object row, and which changeable values are positions in it."""
        template = self.domain.action(action)
        if not self.framed or template.frame is None:
            return None
        roles = data.values[data.offsets[:-1, None] + data.objects[:, : len(template.objects)]]
        placed = place_all(self.domain, template, roles, data.parameters)
        owner = np.repeat(np.arange(len(data)), data.counts)
        columns = groups(self.domain.dynamic_names, template.frame.groups)
        return Placed(placed.origin[owner], placed.heading[owner]), columns

    def _leave(self, part: Part, change: np.ndarray) -> np.ndarray:
        """Changes in the predictor's coordinates as new values in the world."""
        after = part.seen.values[:, list(self.domain.dynamic)] + change
        return after if part.placed is None else leave(after, part.placed[1], part.placed[0])

    def _leave_variances(self, part: Part, variance: np.ndarray) -> np.ndarray:
        if part.placed is None:
            return variance
        return np.asarray(leave_variances(variance, part.placed[1], part.placed[0]))


def see(data: Experience, action: str, framed: bool, mirror: bool = False) -> Seen:
    """One action's transitions in the predictor's coordinates: the world's, the frame's, or the frame's mirror."""
    return look(data, action, framed, mirror)


def single(domain: Domain, state: State, action: ActionCall) -> Experience:
    """One checked state and action as an experience in which nothing happens."""
    check_state(domain, state)
    _, objects = check_call(domain, state, action)
    columns: dict[str, Any] = {
        "values": state.values,
        "next_values": state.values,
        "offsets": np.array([0, len(state)]),
        "action": [action.action],
        "objects": np.array([objects + [-1] * (domain.roles - len(objects))]),
        "parameters": np.array([[*action.parameters, *[0.0] * (domain.parameters - len(action.parameters))]]),
    }
    return Experience.from_arrays(domain, ids=list(state.ids), **columns)
