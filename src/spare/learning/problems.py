"""From matrices to the padded, normalised problems that the engine trains on.

Statistics are weighted and taken in float64; a frame's mirror image doubles what is trained on.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from spare.content import ByContent
from spare.data.scene import round_up
from spare.language.domain import Domain
from spare.language.references import Shell
from spare.learning.dataset import Dataset, DesignMatrix
from spare.learning.engine import Capacity, Problem, Rows

SMALLEST_SCALE = 1e-6


@dataclasses.dataclass(frozen=True, eq=False)
class Scaling(ByContent):
    """x = mean + scale * normalised x, and the same for y: taken from weighted training rows in float64."""

    x_mean: np.ndarray
    x_scale: np.ndarray
    y_mean: np.ndarray
    y_scale: np.ndarray


def capacity_for(dataset: Dataset, longest: int) -> Capacity:
    """The shape that every rule with at most `longest` references fits into."""
    data, roles = dataset.experience, len(dataset.roles)
    layout = dataset.layout(Shell(roles))
    each = len(layout.encoded_names)
    widths = [sum(1 if how == "count" else each for how in r.aggregators) for r in data.domain.references]
    rows = round_up(len(data)) * (1 if dataset.reflection is None else 2)
    inputs = len(layout.names) + longest * max(widths, default=0)
    return Capacity(rows, inputs, roles + longest, len(data.domain.dynamic))


def with_reflection(
    dataset: Dataset, matrix: DesignMatrix, weights: tuple[np.ndarray, np.ndarray]
) -> tuple[DesignMatrix, tuple[np.ndarray, np.ndarray]]:
    """The matrix and, after it, its image in the frame's mirror, to train on; validation samples are not doubled."""
    if dataset.reflection is None:
        return matrix, weights
    image = dataset.reflection.matrix(matrix.gamma, matrix.delta)
    parts = {
        name: np.concatenate([getattr(matrix, name), getattr(image, name)])
        for name in ("x", "y", "spread", "size", "applies")
    }
    training, validation = weights
    both = (np.concatenate([training, training]), np.concatenate([validation, np.zeros_like(validation)]))
    return dataclasses.replace(matrix, **parts), both


def take_scale(matrix: DesignMatrix, weights: np.ndarray, domain: Domain) -> Scaling:
    """Weighted means and deviations; a constant input gets scale 1, an output at least its resolution.

    A kind may ask for other units of its targets.
    """
    share = weights / weights.sum()
    x_mean = share @ matrix.x
    x_scale = np.sqrt(share @ np.square(matrix.x - x_mean))
    x_scale = np.where(x_scale > SMALLEST_SCALE * np.maximum(np.abs(x_mean), SMALLEST_SCALE), x_scale, 1.0)
    y_mean = np.einsum("n,nsq->sq", share, matrix.y)
    variance = np.einsum("n,nsq->sq", share, np.square(matrix.y - y_mean) + matrix.spread)
    y_scale = np.maximum(np.sqrt(variance), domain.resolutions)
    units = [kind.units(y_mean[:, q], y_scale[:, q]) for q, kind in enumerate(domain.kinds)]
    y_mean, y_scale = (np.stack(np.broadcast_arrays(*part), axis=1) for part in zip(*units, strict=True))
    return Scaling(x_mean, x_scale, y_mean, y_scale)


def padded_problem(
    matrix: DesignMatrix,
    rows: tuple[np.ndarray, np.ndarray],
    scaling: Scaling,
    capacity: Capacity,
    resolution: np.ndarray,
    exact: bool,
) -> Problem:
    """The matrix, normalised and padded; weights scaled so that usable rows have mean 1; `exact` counts set members."""
    weights, validation = rows
    n, slots, _ = matrix.y.shape
    usable = weights > 0
    keep = matrix.applies[:, None]
    x = np.where(keep, (matrix.x - scaling.x_mean) / scaling.x_scale, 0.0)
    y = np.where(keep[:, :, None], (matrix.y - scaling.y_mean) / scaling.y_scale, 0.0)
    spread = matrix.spread / np.square(scaling.y_scale) * exact
    members = np.where(keep, matrix.size if exact else np.ones_like(matrix.size), 0.0)

    def padded(weight: np.ndarray, chosen: np.ndarray, size: int) -> Rows:
        def lay(part: np.ndarray, *shape: int) -> np.ndarray:
            result = np.zeros((size, *shape), np.float32)
            result[tuple(slice(length) for length in part[chosen].shape)] = part[chosen]
            return result

        return Rows(
            lay(x, capacity.inputs),
            lay(y, capacity.slots, capacity.quantities),
            lay(spread, capacity.slots, capacity.quantities),
            lay(weight[:, None] * members, capacity.slots),
        )

    held = np.flatnonzero(validation > 0)
    floor = np.ones((capacity.slots, capacity.quantities), np.float32)
    floor[:slots] = np.square(resolution / scaling.y_scale)
    flags = np.zeros(capacity.rows, bool)
    flags[:n] = usable
    every = padded(weights / weights[usable].mean(), np.arange(n), capacity.rows)
    check = padded(validation / max(validation.sum(), 1e-300), held, round_up(max(len(held), 1)))
    return Problem(every, check, floor, flags, np.int32(usable.sum()))
