"""What trained networks say about every transition, as log densities by property."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spare.data.scene import round_up
from spare.learning.dataset import Dataset, DesignMatrix
from spare.learning.noise import changes
from spare.learning.problems import Scaling
from spare.model.distributions import Components
from spare.model.noise import DefaultNoise
from spare.programs import PROGRAMS


class Outputs(NamedTuple):
    """What each of M members predicts for each of n transitions, in normalised units: mean, variance (M, n, S, Q)."""

    mean: np.ndarray
    variance: np.ndarray


class Judges(NamedTuple):
    """In which units predictions are made, and which members (M, n) judge each transition."""

    scaling: Scaling
    members: np.ndarray


def log_values(
    data: Dataset, matrix: DesignMatrix, change: np.ndarray, parts: Components, noise: DefaultNoise
) -> tuple[np.ndarray, np.ndarray]:
    """log p(s' | s, a; T) of every transition, (n, Q) over predicted and other objects; NaN if the rule does not apply.

    Everything is taken relative to each object's value before, so that float32 keeps small changes far from the
    origin: an absolute target minus that value is a change. `change` and `parts` are those of `row_components`.
    """
    experience = data.experience
    rows = len(experience.values)
    moved = np.zeros_like(change)
    moved[:rows] = changes(experience)
    resolved = DefaultNoise(
        *(None if p is None else p.astype(np.float32) for p in noise.resolved(experience.domain.resolutions))
    )
    arguments = (parts, change, moved, resolved)
    values = np.asarray(PROGRAMS.get("density", Components.log_values, arguments)(*arguments), np.float64)[:rows]
    predicted = np.any(matrix.outputs, axis=0, keepdims=True).T
    sides = (np.where(predicted, values, 0.0), np.where(predicted, 0.0, values))
    inside, outside = (np.add.reduceat(side, experience.offsets[:-1], axis=0) for side in sides)
    applies = matrix.applies[:, None]
    return np.where(applies, inside, np.nan), np.where(applies, outside, np.nan)


def row_components(
    data: Dataset, matrix: DesignMatrix, outputs: Outputs, judges: Judges
) -> tuple[np.ndarray, Components]:
    """The change (R, Q) of every object row, and what the members that judge its transition say about it.

    All relative to the value before, in the predictor's coordinates, float32. Rows are padded with some that no slot
    holds.
    """
    experience = data.experience
    slots, dynamic = matrix.y.shape[1], list(experience.domain.dynamic)
    n, rows = len(experience), len(experience.values)
    owner = experience.owner
    before = data.rows.values[:, dynamic]
    mean, variance = (part[:, :n].astype(np.float64) for part in outputs)
    members, capacity = mean.shape[0], mean.shape[2]
    size = round_up(rows)
    location = np.zeros((members, capacity, size, len(dynamic)), np.float32)
    spread, held = np.ones_like(location), np.zeros((members, capacity, size), bool)
    # Where a leaf is the same after a shift, everything is relative to the value before; elsewhere it is absolute.
    origin = np.where([leaf.shifts for leaf in experience.domain.leaves], before, 0.0)
    shift, scaling = origin - np.where(data.changes, before, 0.0), judges.scaling
    for member in range(members):
        absolute = scaling.y_mean + scaling.y_scale * mean[member, :, :slots]
        scaled = np.square(scaling.y_scale) * variance[member, :, :slots]
        location[member, :slots, :rows] = np.moveaxis(absolute[owner] - shift[:, None, :], 1, 0)
        spread[member, :slots, :rows] = np.moveaxis(scaled[owner], 1, 0)
        held[member, :slots, :rows] = matrix.outputs & judges.members[member][owner]
    change = np.zeros((size, len(dynamic)), np.float32)
    change[:rows] = data.rows.after - origin
    count = members * capacity
    parts = Components(
        held.reshape(count, size),
        np.full(count, -np.log(float(members)), np.float32),
        location.reshape(count, size, -1),
        spread.reshape(count, size, -1),
        experience.domain.leaves,
    )
    return change, parts
