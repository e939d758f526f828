"""Transitions again: rebuilt from (seed, i), executed many times with fresh action noise.

The spread of the repeats is what no model can know. Fitting a Gaussian to some repeats and scoring others gives
the log-likelihood that the best diagonal-Gaussian model could reach: the limit that learned models approach.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from spare.data.experience import Experience
from spare.errors import DataError, UsageError
from spare.lab.workers import pool
from spare.lab.worlds.push.chunks import columns_of, shared_engine
from spare.lab.worlds.push.episode import ATTEMPTS, RejectedError, Sample, run
from spare.lab.worlds.push.generation import settings_of, workers
from spare.lab.worlds.push.relations import domain
from spare.lab.worlds.push.scene import draw, noise_source
from spare.lab.worlds.push.settings import Settings

FOLDS = 5


def replay(data: Experience, index: int, *, repeats: int = 1, first: int = 1) -> Experience:
    """Transition `index` of `data`, executed `repeats` times: the same state and action, other noise each time.

    Repeat 0 is the noise that is in the data; `first` says with which repeat to begin. A repeat that is rejected
    for the same reasons as in the data is skipped. The state that is rebuilt must be the one in the data, or the
    engine is not the one that made it: then a `DataError` says so.
    """
    if not isinstance(index, int) or not 0 <= index < len(data):
        raise UsageError(f"index {index!r} is past the end: there are {len(data)} transitions, 0 to {len(data) - 1}")
    if repeats < 1 or first < 0:
        raise UsageError(f"repeats must be at least 1 and first at least 0, got {repeats} and {first}")
    settings, info = settings_of(data), data[index].info
    samples = repeat_sample(settings, (info["index"], info["attempt"]), range(first, first + repeats))
    again = Experience.from_arrays(
        domain,
        **columns_of(samples),
        info={name: np.repeat(column[index : index + 1], repeats) for name, column in data.info.items()},
        metadata=dict(data.metadata),
    )
    if not np.array_equal(again.states[0].values, data.states[index].values):
        raise DataError(
            f"transition {index} cannot be rebuilt: this {settings.engine} gives another state than the one in the "
            f"data, which was made with version {data.metadata['push']['versions'].get(settings.engine)}"
        )
    return again


def repeat_sample(settings: Settings, key: tuple[int, int], repeats: range) -> list[Sample]:
    """Sample (index, attempt) executed with len(repeats) streams of noise, from the first of `repeats` on."""
    index, attempt = key
    engine, drawn = shared_engine(settings.engine), draw(settings, index, attempt)
    samples: list[Sample] = []
    for repeat in range(repeats.start, repeats.start + ATTEMPTS + 2 * len(repeats)):
        try:
            outcome = run(engine, drawn, noise_source(settings, index, attempt, repeat), settings.noise)
        except RejectedError:
            continue
        samples.append(Sample(index, attempt, drawn, outcome, {}))
        if len(samples) == len(repeats):
            return samples
    raise DataError(f"sample {index}: too many of its repeats were rejected")


@dataclasses.dataclass(frozen=True)
class NoiseFloor:
    """The limit for models of `data`: what the simulator's own noise leaves.

    nats      (total, Q) float64: E[log N(y; mean, var + resolution²)] of every value, in the rows of the data
    offsets   (n + 1,): transition i owns the rows offsets[i]:offsets[i + 1]
    stack     (total,) bool: rows of the pushed stack
    repeats   executions per transition
    """

    nats: np.ndarray
    offsets: np.ndarray
    stack: np.ndarray
    repeats: int

    @property
    def log_prob(self) -> np.ndarray:
        """(n,): the best expected log-likelihood of each transition, all blocks, in nats."""
        return np.add.reduceat(self.nats.sum(axis=1), self.offsets[:-1])

    @property
    def stack_per_value(self) -> np.ndarray:
        """(n,): mean nats per value over the blocks of the stack, for each transition."""
        kept = np.where(self.stack[:, None], self.nats, 0.0).sum(axis=1)
        count = self.nats.shape[1] * np.add.reduceat(self.stack.astype(np.int64), self.offsets[:-1])
        return np.add.reduceat(kept, self.offsets[:-1]) / count

    def __repr__(self) -> str:
        per = self.stack_per_value
        wide = 1.96 * per.std() / max(1, len(per)) ** 0.5
        return f"NoiseFloor({per.mean():.3f} ± {wide:.3f} nats per value of the stack, {len(per)} transitions)"


def noise_floor(data: Experience, *, repeats: int = 40, jobs: int = 1) -> NoiseFloor:
    """E over repeats y of log N(y; mean, var + resolution²), mean and var fitted to other repeats of the same push.

    Cross-fitted in five parts, each scored with the Gaussian of the other four, so that nothing is scored with what
    it was fitted on. Costs `repeats` simulations per transition.
    """
    from joblib import delayed

    if repeats < 2 * FOLDS:
        raise UsageError(f"repeats must be at least {2 * FOLDS}, so that each part has a few, got {repeats}")
    settings = settings_of(data)
    keys = list(zip(data.info["index"].tolist(), data.info["attempt"].tolist(), strict=True))
    results: Any = pool(workers(jobs))(delayed(_repeat_positions)(settings, key, range(1, 1 + repeats)) for key in keys)
    resolution = np.array([p.resolution for p in domain.properties if not p.static], np.float64)
    nats = np.concatenate([cross_fit(positions, resolution) for positions in results])
    return NoiseFloor(nats, data.offsets, stack_mask(data), repeats)


def _repeat_positions(settings: Settings, key: tuple[int, int], repeats: range) -> np.ndarray:
    """(repeats, N, 3) float32: where every block ends, in the order of the state."""
    samples = repeat_sample(settings, key, repeats)
    order = samples[0].drawn.order
    return np.stack([sample.outcome.after[order, :3] for sample in samples]).astype(np.float32)


def cross_fit(positions: np.ndarray, resolution: np.ndarray) -> np.ndarray:
    """(N, Q): mean log-density of each fifth of the repeats under the Gaussian of the others."""
    values = positions.astype(np.float64)
    part = np.arange(len(values)) % FOLDS
    total = np.zeros(values.shape[1:])
    for k in range(FOLDS):
        fit, held = values[part != k], values[part == k]
        variance = fit.var(axis=0, ddof=1) + resolution**2
        density = -0.5 * np.log(2 * np.pi * variance) - 0.5 * (held - fit.mean(axis=0)) ** 2 / variance
        total += density.sum(axis=0)
    return total / len(values)


def stack_mask(data: Experience) -> np.ndarray:
    """(total,) bool: rows of `data` that are blocks of the pushed stack (ids below the stack's height)."""
    if "height" not in data.info:
        raise DataError("this experience was not made by push.generate: it does not say how high its stacks are")
    return np.asarray(data.ids) < np.repeat(data.info["height"], data.counts)
