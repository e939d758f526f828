"""What a worker does: simulate a run of samples and return plain arrays. Nothing here imports JAX."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from spare.lab.workers import follow
from spare.lab.worlds.push import engines
from spare.lab.worlds.push.episode import REASONS, Sample, make_sample
from spare.lab.worlds.push.settings import Settings


@dataclass(frozen=True)
class Chunk:
    """Samples start, ..., stop - 1 as the flat arrays of an `Experience`, and what was rejected."""

    start: int
    stop: int
    columns: dict[str, Any]
    info: dict[str, np.ndarray]
    rejects: dict[str, int]


@functools.cache
def shared_engine(name: str) -> engines.Engine:
    """The engine of this process: worlds are rebuilt for every sample, the engine is not."""
    return engines.make(name)


def work(settings: Settings, start: int, stop: int, owner: int) -> Chunk:
    """`make_chunk` in a worker of process `owner`, which the worker does not outlive."""
    follow(owner)
    return make_chunk(settings, start, stop)


def make_chunk(settings: Settings, start: int, stop: int) -> Chunk:
    """Simulate samples start, ..., stop - 1."""
    engine = shared_engine(settings.engine)
    samples = [make_sample(engine, settings, index) for index in range(start, stop)]
    rejects = {reason: sum(sample.rejects[reason] for sample in samples) for reason in REASONS}
    info = {
        "index": np.array([sample.index for sample in samples], np.int64),
        "height": np.array([sample.drawn.scene.stack for sample in samples], np.int64),
        "attempt": np.array([sample.attempt for sample in samples], np.int64),
        "touched": np.array([sample.outcome.touched for sample in samples], np.bool_),
    }
    return Chunk(start, stop, columns_of(samples), info, rejects)


def columns_of(samples: list[Sample]) -> dict[str, Any]:
    """Flat arrays: x, y, z, width, length, height of every block, before and after, in the drawn order.

    A block's id says what it is: 0 is the target, 1, 2, ... stand on it bottom up, the rest are extra.
    """
    counts = [len(sample.drawn.scene) for sample in samples]
    return {
        "values": np.concatenate([_rows(sample, sample.outcome.before) for sample in samples]),
        "next_values": np.concatenate([_rows(sample, sample.outcome.after) for sample in samples]),
        "offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "ids": np.concatenate([sample.drawn.order for sample in samples]),
        "action": np.zeros(len(samples), np.int32),
        "objects": np.zeros((len(samples), 1), np.int32),
        "parameters": np.array([sample.drawn.push.as_tuple() for sample in samples], np.float32),
    }


def _rows(sample: Sample, poses: np.ndarray) -> np.ndarray:
    """(N, 6) float32 in the drawn order."""
    order = sample.drawn.order
    return np.concatenate([poses[order, :3], sample.drawn.scene.sizes[order]], axis=1).astype(np.float32)
