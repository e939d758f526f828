"""From tables to the padded, normalised problems that the engine trains on.

Statistics are weighted and taken in float64; a frame's mirror image doubles what is trained on.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from spare.data.scene import round_up
from spare.language.periodic import shown_names
from spare.learning.dataset import Extractor, Table, width
from spare.learning.engine import Capacity, Problem, Rows

SMALLEST_SCALE = 1e-6


@dataclasses.dataclass(frozen=True)
class Scaling:
    """x = mean + scale * normalised x, and the same for y: taken from weighted training rows in float64."""

    x_mean: np.ndarray
    x_scale: np.ndarray
    y_mean: np.ndarray
    y_scale: np.ndarray

    def extended(self, longer: Scaling) -> Scaling:
        """This scaling where it is defined, and the longer one's for the inputs and slots that it has more."""
        both = ((getattr(self, f.name), getattr(longer, f.name)) for f in dataclasses.fields(self))
        return Scaling(*(np.concatenate([mine, theirs[len(mine) :]]) for mine, theirs in both))


def capacity_for(extractor: Extractor, longest: int) -> Capacity:
    """The shape that every rule with at most `longest` references fits into."""
    data = extractor.experience
    template = data.domain.action(extractor.action)
    each = len(shown_names(data.domain, extractor.inputs))
    widest = max((width(r.aggregators, each) for r in data.domain.references), default=0)
    given = extractor.seen.parameters.shape[1]
    inputs = given + len(template.objects) * each + longest * widest
    rows = round_up(len(data)) * (1 if extractor.reflection is None else 2)
    return Capacity(rows, inputs, len(template.objects) + longest, len(data.domain.dynamic))


def with_reflection(
    extractor: Extractor, table: Table, weights: tuple[np.ndarray, np.ndarray]
) -> tuple[Table, tuple[np.ndarray, np.ndarray]]:
    """The table and, after it, its image in the frame's mirror, to train on; validation samples are not doubled."""
    if extractor.reflection is None:
        return table, weights
    image = extractor.reflection.table(table.gamma, table.delta)
    parts = {
        name: np.concatenate([getattr(table, name), getattr(image, name)])
        for name in ("x", "y", "spread", "size", "applies")
    }
    training, validation = weights
    both = (np.concatenate([training, training]), np.concatenate([validation, np.zeros_like(validation)]))
    return dataclasses.replace(table, **parts), both


def take_scale(table: Table, weights: np.ndarray, resolution: np.ndarray) -> Scaling:
    """Weighted means and deviations; a constant input gets scale 1, an output at least its resolution."""
    share = weights / weights.sum()
    x_mean = share @ table.x
    x_scale = np.sqrt(share @ np.square(table.x - x_mean))
    x_scale = np.where(x_scale > SMALLEST_SCALE * np.maximum(np.abs(x_mean), SMALLEST_SCALE), x_scale, 1.0)
    y_mean = np.einsum("n,nsq->sq", share, table.y)
    variance = np.einsum("n,nsq->sq", share, np.square(table.y - y_mean) + table.spread)
    return Scaling(x_mean, x_scale, y_mean, np.maximum(np.sqrt(variance), resolution))


def padded_problem(
    table: Table,
    rows: tuple[np.ndarray, np.ndarray],
    scaling: Scaling,
    capacity: Capacity,
    resolution: np.ndarray,
    exact: bool,
) -> Problem:
    """The table, normalised and padded; weights scaled so that usable rows have mean 1; `exact` counts set members."""
    weights, validation = rows
    n, slots, _ = table.y.shape
    usable = weights > 0
    keep = table.applies[:, None]
    x = np.where(keep, (table.x - scaling.x_mean) / scaling.x_scale, 0.0)
    y = np.where(keep[:, :, None], (table.y - scaling.y_mean) / scaling.y_scale, 0.0)
    spread = table.spread / np.square(scaling.y_scale) * exact
    members = np.where(keep, table.size if exact else np.ones_like(table.size), 0.0)

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
