"""Worlds whose true density is written down: what can happen in a scene, with probabilities, means and deviations.

    p(s' | s, a) = sum over ends k of w_k prod over objects o of p_k(s'[o]),
    p_k(s'[o])   = (1 - l) prod over values N(s'[o, P]; m, d²)  +  l prod over values N(s'[o, P]; m, wide²)

1. A world says how scenes are drawn, and of one scene all its `Ends`: w (K,), m and d (K, N, Q), and, where it needs
   them, l (K, N), the chance that a row is recorded wrongly, and degrees of freedom where tails are Student's.
2. `generate` draws scenes and ends from that; `Truth` is the same numbers as a transition model. One cannot drift from
   the other.
3. Deviations are along the axes of the action's frame, where it has one, as they are in models. No deviation is
   smaller than the resolution, which every model adds to its own: so the truth can be reached.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spare.data.experience import Experience
from spare.data.state import ActionCall, State
from spare.errors import DataError, UsageError
from spare.lab.baselines.gaussian import LOG_2PI, Expectation, single
from spare.language.domain import Domain
from spare.language.frames import FrameColumns, FramePose, from_frame, to_frame, variances_from_frame

FEW = 10.0
"""An object that changed by more than so many resolutions moved: five deviations of what stays."""
MOST = 1000
"""Ids of objects are unique in an experience: transition i has those from i * MOST on."""


class Drawn(NamedTuple):
    """A scene as a world draws it: values (N, P), rows of the action's objects, parameters, number of the action."""

    values: np.ndarray
    roles: tuple[int, ...]
    parameters: np.ndarray
    action: int = 0


class Ends(NamedTuple):
    """All that can happen in one scene; see the module. `degrees` (N,): infinity, or None, is a Gaussian."""

    weight: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    lost: np.ndarray | None = None
    degrees: np.ndarray | None = None


def certain(mean: np.ndarray, deviation: np.ndarray) -> Ends:
    """One end: means (N, Q), deviations (N, Q)."""
    return Ends(np.ones(1), mean[None], deviation[None])


def either(chance: float, moves: tuple[np.ndarray, np.ndarray], stays: tuple[np.ndarray, np.ndarray]) -> Ends:
    """Two ends, the first with this chance; each is means and deviations (N, Q)."""
    return Ends(np.array([chance, 1 - chance]), *(np.stack(pair) for pair in zip(moves, stays, strict=True)))


def scattered(rng: np.random.Generator, count: int, spacing: float) -> np.ndarray:
    """Places (count, 2) in cells of a square grid, at least 0.3 `spacing` apart: as dense with many as with few."""
    side = math.ceil(math.sqrt(1.3 * count))
    cells = np.stack(np.divmod(rng.permutation(side * side)[:count], side), axis=1)
    return spacing * (cells - side / 2 + rng.uniform(0.15, 0.85, (count, 2)))


@dataclasses.dataclass(frozen=True)
class KnownWorld:
    """A domain with its generator and its true density.

    draw      (numbers, how many objects, further sizes) -> a scene
    ends      scene -> all that can happen in it
    objects   how many objects a state has: drawn between these two, both included, if nothing else is asked
    fixed     how many it has in experiments with learners that take a fixed number
    named     what the column of `info` is called that holds which end it was
    wide      deviation of values (Q,) that are recorded wrongly
    """

    domain: Domain
    draw: Callable[..., Drawn]
    ends: Callable[[Drawn], Ends]
    objects: tuple[int, int]
    fixed: int
    named: str = "end"
    wide: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The domain's name."""
        return self.domain.name

    @functools.cached_property
    def truth(self) -> Truth:
        """The density that `generate` draws from, as a transition model."""
        return Truth(self)

    def generate(self, samples: int, seed: int, *, objects: int | None = None, **sizes: int) -> Experience:
        """`samples` transitions, each of `objects` objects or of a drawn number; sample i depends on (seed, i)."""
        low, high = self.objects
        if samples < 1 or seed < 0 or (objects is not None and not low <= objects < MOST):
            raise UsageError(f"{self.name}: samples >= 1, seed >= 0 and {low} to {MOST - 1} objects are needed")
        drawn, streams = [], [np.random.default_rng([seed, i]) for i in range(samples)]
        for rng in streams:
            count = int(rng.integers(low, high + 1)) if objects is None else objects
            drawn.append(_shuffled(self.draw(rng, count, **sizes), rng))
        data = self._still(drawn, {"generator": self.name, "seed": seed, "objects": objects, **sizes})
        after, end = self.truth.draws(data, streams)
        return Experience.from_arrays(
            self.domain,
            values=data.values,
            next_values=after,
            offsets=data.offsets,
            ids=data.ids,
            action=data.action,
            objects=data.objects,
            parameters=data.parameters,
            info={self.named: end},
            metadata=data.metadata,
        )

    def _still(self, drawn: list[Drawn], metadata: dict[str, Any]) -> Experience:
        """The scenes as an experience in which nothing happens."""
        values = np.concatenate([one.values for one in drawn])
        roles, parameters = self.domain.roles, self.domain.parameters
        return Experience.from_arrays(
            self.domain,
            values=values,
            next_values=values,
            offsets=np.cumsum([0] + [len(one.values) for one in drawn]),
            ids=np.concatenate([i * MOST + np.arange(len(one.values)) for i, one in enumerate(drawn)]),
            action=np.array([one.action for one in drawn]),
            objects=np.array([[*one.roles, *[-1] * (roles - len(one.roles))] for one in drawn]),
            parameters=np.array([[*one.parameters, *[0.0] * (parameters - len(one.parameters))] for one in drawn]),
            metadata=metadata,
        )

    def scene(self, experience: Experience, i: int) -> Drawn:
        """Transition i's state and action, as `ends` takes them: float32 numbers as float64."""
        index = int(experience.action[i])
        action = self.domain.actions[index]
        return Drawn(
            experience.values[experience.offsets[i] : experience.offsets[i + 1]].astype(np.float64),
            tuple(experience.objects[i, : len(action.objects)].tolist()),
            experience.parameters[i, : len(action.parameters)].astype(np.float64),
            index,
        )

    def movers(self, experience: Experience) -> np.ndarray:
        """(total,) bool: rows that changed by more than ten resolutions in some property."""
        return movers(experience.with_domain(self.domain))


def movers(experience: Experience) -> np.ndarray:
    """(total,) bool: rows that changed by more than `FEW` resolutions in some property."""
    dynamic = list(experience.domain.dynamic)
    change = np.abs(experience.next_values[:, dynamic].astype(np.float64) - experience.values[:, dynamic])
    return np.any(change > FEW * experience.domain.resolutions, axis=1)


def _shuffled(drawn: Drawn, rng: np.random.Generator) -> Drawn:
    """The same scene with its objects in random order."""
    order = rng.permutation(len(drawn.values))
    return drawn._replace(values=drawn.values[order], roles=tuple(np.argsort(order)[list(drawn.roles)].tolist()))


class _Known(NamedTuple):
    """`Ends` of n transitions with R rows: log_weight (n, K), mean and deviation (K, R, Q) in frames, lost (K, R)."""

    log_weight: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    lost: np.ndarray
    degrees: np.ndarray
    frames: tuple[tuple[np.ndarray, FrameColumns, FramePose], ...]


class Truth:
    """p(s' | s, a) of a known world: what `generate` draws from."""

    def __init__(self, world: KnownWorld) -> None:
        self.world, self.domain = world, world.domain
        self._last: tuple[weakref.ref[Experience], _Known] | None = None

    def log_prob(self, experience: Experience) -> np.ndarray:
        """log p(s' | s, a) in nats, one per transition."""
        known, value, wide = self._leaves(experience)
        with np.errstate(divide="ignore"):
            row = np.logaddexp(np.log1p(-known.lost) + value.sum(axis=2), np.log(known.lost) + wide.sum(axis=2))
        ends = np.add.reduceat(row, experience.offsets[:-1], axis=1)
        return _mixed(known.log_weight.T + ends)

    def log_prob_values(self, experience: Experience) -> np.ndarray:
        """The log density of each changeable value alone, (total, Q), in the action's frame where it has one."""
        known, value, wide = self._leaves(experience)
        lost = known.lost[:, :, None]
        with np.errstate(divide="ignore"):
            leaf = np.logaddexp(np.log1p(-lost) + value, np.log(lost) + wide)
        return _mixed(known.log_weight.T[:, experience.owner, None] + leaf)

    def _leaves(self, experience: Experience) -> tuple[_Known, np.ndarray, np.ndarray]:
        """(what is known, log density of every value given each end (K, R, Q), the same if it is recorded wrongly)."""
        known = self._known(experience)
        off = _framed(_after(experience), known, to_frame) - known.mean
        value = _log_leaf(off, known.deviation, known.degrees[:, None])
        wide = self._wide()
        return known, value, -0.5 * (np.square(off / wide) + LOG_2PI) - np.log(wide)

    def _wide(self) -> np.ndarray:
        return np.array(self.world.wide or [1.0] * len(self.domain.dynamic))

    def mean(self, experience: Experience) -> np.ndarray:
        """E[s'] of every object, float32 (total, P)."""
        return self.moments(experience)[0]

    def moments(self, experience: Experience) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard deviation) of every object's properties, float32 (total, P); static ones never vary."""
        known, dynamic = self._known(experience), np.array(self.domain.dynamic)
        with np.errstate(invalid="ignore"):
            wider = np.where(np.isinf(known.degrees), 1.0, known.degrees / (known.degrees - 2))[:, None]
        lost = known.lost[:, :, None]
        variance = (1 - lost) * np.square(known.deviation) * wider + lost * np.square(self._wide())
        for rows, columns, pose in known.frames:
            variance[:, rows] = variances_from_frame(variance[:, rows], columns, pose)
        weight, means = np.exp(known.log_weight).T[:, experience.owner, None], _framed(known.mean, known, from_frame)
        mean = (weight * means).sum(axis=0)
        variance = (weight * (variance + np.square(means - mean))).sum(axis=0)
        expected, deviation = experience.values.copy(), np.zeros_like(experience.values)
        expected[:, dynamic], deviation[:, dynamic] = mean, np.sqrt(variance)
        return expected, deviation

    def sample(self, experience: Experience, seed: int) -> np.ndarray:
        """One draw of s' for each transition, float32 (total, P); transition i's draw depends on (seed, i) only."""
        streams = [np.random.default_rng([seed, i]) for i in range(len(experience))]
        return self.draws(experience, streams)[0].astype(np.float32)

    def draws(self, experience: Experience, streams: list[np.random.Generator]) -> tuple[np.ndarray, np.ndarray]:
        """(s' (total, P) float64, which end it was (n,)), transition i from stream i."""
        known, wide = self._known(experience), self._wide()
        after, which = np.empty(known.mean.shape[1:]), np.zeros(len(experience), np.int64)
        for i, rng in enumerate(streams):
            rows = slice(experience.offsets[i], experience.offsets[i + 1])
            total = np.cumsum(np.exp(known.log_weight[i]))
            k = which[i] = min(int(np.searchsorted(total, rng.random(), side="right")), len(total) - 1)
            shape = known.mean[k, rows].shape
            noise = rng.standard_normal(shape)
            if np.isfinite(known.degrees[rows]).any():
                degrees = np.where(np.isinf(known.degrees[rows]), 1.0, known.degrees[rows])[:, None]
                heavy = noise / np.sqrt(rng.chisquare(degrees, shape) / degrees)
                noise = np.where(np.isinf(known.degrees[rows])[:, None], noise, heavy)
            wrong = rng.random(shape[0]) < known.lost[k, rows]
            after[rows] = known.mean[k, rows] + np.where(wrong[:, None], wide, known.deviation[k, rows]) * noise
        result = experience.values.astype(np.float64)
        result[:, list(self.domain.dynamic)] = _framed(after, known, from_frame)
        return result, which

    def predict(self, state: State, action: ActionCall) -> Expectation:
        """What is expected of each object."""
        return Expectation(self.domain, state, action, *self.moments(single(self.domain, state, action)))

    def _known(self, experience: Experience) -> _Known:
        """All ends of all transitions; kept for the last experience."""
        if self._last is None or self._last[0]() is not experience:
            self._last = (weakref.ref(experience), self._gather(experience))
        return self._last[1]

    def _gather(self, experience: Experience) -> _Known:
        if experience.domain.fingerprint != self.domain.fingerprint:
            raise DataError(f"this is the truth of {self.domain!r}; the data belong to {experience.domain!r}")
        found = [self.world.ends(self.world.scene(experience, i)) for i in range(len(experience))]
        counts, kinds = experience.counts.tolist(), len(found[0].weight)
        none, gaussian = [np.zeros((kinds, n)) for n in counts], [np.full(n, np.inf) for n in counts]
        lost = [empty if one.lost is None else one.lost for one, empty in zip(found, none, strict=True)]
        degrees = [plain if one.degrees is None else one.degrees for one, plain in zip(found, gaussian, strict=True)]
        with np.errstate(divide="ignore"):
            weight = np.log(np.stack([one.weight for one in found]))
        known = _Known(
            weight,
            np.concatenate([one.mean for one in found], axis=1),
            np.concatenate([one.deviation for one in found], axis=1),
            np.concatenate(lost, axis=1),
            np.concatenate(degrees),
            tuple(_frames(experience.with_domain(self.domain))),
        )
        return known._replace(mean=_framed(known.mean, known, to_frame))


def _frames(experience: Experience) -> list[tuple[np.ndarray, FrameColumns, FramePose]]:
    """(rows, columns of a frame, its pose in each row) for every action that has a frame."""
    found, domain, owner = [], experience.domain, experience.owner
    for index, action in enumerate(domain.actions):
        chosen = np.flatnonzero(experience.action == index)
        if action.frame is None or not len(chosen):
            continue
        places = experience.offsets[chosen, None] + experience.objects[chosen, : len(action.objects)]
        pose = domain.poses(action, experience.values[places], experience.parameters[chosen])
        rows = np.flatnonzero(experience.action[owner] == index)
        inside = np.searchsorted(chosen, owner[rows])
        found.append((rows, action.frame.columns(domain.dynamic_names), pose.at(inside)))
    return found


def _framed(values: np.ndarray, known: _Known, turn: Callable[..., np.ndarray]) -> np.ndarray:
    """Values (..., R, Q) into frames (`to_frame`) or out of them (`from_frame`)."""
    result = values.copy()
    for rows, columns, pose in known.frames:
        result[..., rows, :] = turn(values[..., rows, :], columns, pose)
    return result


def _after(experience: Experience) -> np.ndarray:
    return experience.next_values[:, list(experience.domain.dynamic)].astype(np.float64)


def _log_leaf(off: np.ndarray, deviation: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """log density of a Gaussian, or of Student's t with these degrees of freedom, at so far from its centre."""
    from scipy.special import gammaln

    score = np.square(off / deviation)
    plain = -0.5 * (score + LOG_2PI)
    if np.isfinite(degrees).any():
        nu = np.where(np.isinf(degrees), 1.0, degrees)
        scale = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        plain = np.where(np.isinf(degrees), plain, scale - (nu + 1) / 2 * np.log1p(score / nu))
    return plain - np.log(deviation)


def _mixed(terms: np.ndarray) -> np.ndarray:
    """log sum exp over the first axis."""
    top = terms.max(axis=0)
    return top + np.log(np.exp(terms - top).sum(axis=0))
