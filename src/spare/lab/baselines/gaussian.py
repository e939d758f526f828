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
from spare.forks import check_threads
from spare.language.domain import Domain
from spare.language.frames import FrameColumns, FramePose, from_frame, variances_from_frame
from spare.learning.dataset import ObservedRows, action_poses, observe_rows

LOG_2PI = float(np.log(2 * np.pi))


class RowGaussians(NamedTuple):
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
    seen: ObservedRows
    pose: FramePose | None
    columns: FrameColumns | None


class GaussianModel(abc.ABC):
    """A transition model whose networks give `RowGaussians` for every object; see the module."""

    def __init__(self, domain: Domain, framed: bool) -> None:
        self.domain, self.framed = domain, framed
        self._last: tuple[weakref.ref[Experience], list[tuple[Part, RowGaussians]]] | None = None

    @abc.abstractmethod
    def answer(self, part: Part) -> RowGaussians:
        """What the networks say about every object of one action's transitions."""

    def log_prob(self, experience: Experience) -> np.ndarray:
        """log p(s' | s, a) in nats, float64, one per transition."""
        return np.add.reduceat(self.log_prob_values(experience).sum(axis=1), experience.offsets[:-1])

    def log_prob_values(self, experience: Experience) -> np.ndarray:
        """log p of every (object, changeable property), float64 (total, Q), rows as in `experience.values`."""
        result = np.empty((len(experience.values), len(self.domain.dynamic)))
        for part, said in self._answers(experience):
            variance = said.variance + self.domain.resolutions**2
            moved = part.seen.after - part.seen.values[:, list(self.domain.dynamic)]
            terms = -0.5 * (np.square(moved - said.change) / variance + np.log(variance) + LOG_2PI)
            top = terms.max(axis=0)
            result[part.rows] = top + np.log(np.exp(terms - top).mean(axis=0))
        return result

    def mean(self, experience: Experience) -> np.ndarray:
        """E[s'] of every object, float32 (total, P), rows as in `experience.values`."""
        return self.moments(experience)[0]

    def moments(self, experience: Experience) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard deviation) of every object's properties, float32 (total, P); static ones never vary."""
        mean, std = experience.values.copy(), np.zeros_like(experience.values)
        for part, said in self._answers(experience):
            change = said.change.mean(axis=0)
            spread = (said.variance + np.square(said.change - change)).mean(axis=0) + self.domain.resolutions**2
            place = np.ix_(part.rows, np.array(self.domain.dynamic))
            mean[place] = self._outside(part, change)
            std[place] = np.sqrt(self._variances(part, spread))
        return mean, std

    def sample(self, experience: Experience, seed: int) -> np.ndarray:
        """One draw of s' for each transition, float32 (total, P); transition i's draw depends on (seed, i) only."""
        result = experience.values.copy()
        for part, said in self._answers(experience):
            shape = (len(part.rows), len(self.domain.dynamic))
            member, noise = np.empty(shape), np.empty(shape)
            for i, start, stop in zip(part.transitions, part.data.offsets[:-1], part.data.offsets[1:], strict=True):
                rng = np.random.default_rng([seed, int(i)])
                member[start:stop] = rng.uniform(size=(stop - start, shape[1]))
                noise[start:stop] = rng.standard_normal((stop - start, shape[1]))
            chosen = (member * len(said.change)).astype(int)[None]
            change = np.take_along_axis(said.change, chosen, axis=0)[0]
            variance = np.take_along_axis(said.variance, chosen, axis=0)[0] + self.domain.resolutions**2
            drawn = self._outside(part, change + np.sqrt(variance) * noise)
            result[np.ix_(part.rows, np.array(self.domain.dynamic))] = drawn
        return result

    def predict(self, state: State, action: ActionCall) -> Expectation:
        """What is expected of each object."""
        one = single(self.domain, state, action)
        return Expectation(self.domain, state, action, *self.moments(one))

    def _answers(self, experience: Experience) -> list[tuple[Part, RowGaussians]]:
        """What is said of each action's transitions; kept for the last experience: evaluation draws from it often."""
        if self._last is None or self._last[0]() is not experience:
            self._last = (weakref.ref(experience), [(part, self.answer(part)) for part in self._parts(experience)])
        return self._last[1]

    def _parts(self, experience: Experience) -> Iterator[Part]:
        check_threads()
        if experience.domain.fingerprint != self.domain.fingerprint:
            raise DataError(f"the model knows {self.domain!r}, the data belong to {experience.domain!r}")
        data = experience.with_domain(self.domain)
        for index, action in enumerate(self.domain.actions):
            chosen = np.flatnonzero(data.action == index)
            if len(chosen):
                owner = np.repeat(data.action, data.counts)
                mine = data[chosen]
                seen = observe_rows(mine, action.name, self.framed)
                pose = action_poses(mine, action.name) if self.framed else None
                columns = None if action.frame is None else action.frame.columns(self.domain.dynamic_names)
                rows = None if pose is None else pose.at(mine.owner)
                yield Part(action.name, chosen, np.flatnonzero(owner == index), mine, seen, rows, columns)

    def _outside(self, part: Part, change: np.ndarray) -> np.ndarray:
        """Changes in the predictor's coordinates as new values in the world."""
        after = part.seen.values[:, list(self.domain.dynamic)] + change
        return after if part.pose is None or part.columns is None else from_frame(after, part.columns, part.pose)

    def _variances(self, part: Part, variance: np.ndarray) -> np.ndarray:
        if part.pose is None or part.columns is None:
            return variance
        return variances_from_frame(variance, part.columns, part.pose)


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
