"""What trained networks say about every transition, as log densities by property."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from spare.data.scene import round_up
from spare.learning.dataset import Extractor, Table
from spare.learning.noise import Rest, changes
from spare.learning.problems import Scaling
from spare.learning.programs import PROGRAMS
from spare.model.density import object_log_density


def log_values(
    extractor: Extractor,
    table: Table,
    normal: tuple[np.ndarray, np.ndarray],
    shared: tuple[Scaling, np.ndarray],
    rest: Rest,
) -> tuple[np.ndarray, np.ndarray]:
    """log p(s' | s, a; T) of every transition, (n, Q) over predicted objects and over others; NaN where it is not for.

    `normal` has mean and variance of each member in normalised units; `shared` the scaling, and which members (M, n)
    judge each transition.

    Everything is taken relative to each object's value before, so that float32 keeps small changes far from the
    origin: an absolute target minus that value is a change.
    """
    data = extractor.experience
    rows = len(data.values)
    parts = row_components(extractor, table, normal, shared)
    moved = np.zeros_like(parts.change)
    moved[:rows] = changes(data)
    still = jax.tree.map(lambda part: part.astype(np.float32), rest.still(data.domain.resolutions))
    arguments = (parts.change, moved, *parts[1:], still)
    values = np.asarray(PROGRAMS.get("density", _row_densities, arguments)(*arguments), np.float64)[:rows]
    predicted = np.any(table.outputs, axis=0, keepdims=True).T
    sides = (np.where(predicted, values, 0.0), np.where(predicted, 0.0, values))
    inside, outside = (np.add.reduceat(side, data.offsets[:-1], axis=0) for side in sides)
    applies = table.applies[:, None]
    return np.where(applies, inside, np.nan), np.where(applies, outside, np.nan)


class RowComponents(NamedTuple):
    """For each object row the Gaussians that speak of it: change (R, Q); held (R, M, S); centre, spread (R, M, S, Q).

    All relative to the value before, in the predictor's coordinates, float32; spread is a variance, with resolution².
    Rows are padded with some that nobody holds.
    """

    change: np.ndarray
    held: np.ndarray
    centre: np.ndarray
    spread: np.ndarray


def row_components(
    extractor: Extractor, table: Table, normal: tuple[np.ndarray, np.ndarray], shared: tuple[Scaling, np.ndarray]
) -> RowComponents:
    """What the members that judge a transition say about each of its objects."""
    data, (scaling, judge) = extractor.experience, shared
    slots, dynamic = table.y.shape[1], list(data.domain.dynamic)
    n, rows = len(data), len(data.values)
    owner = np.repeat(np.arange(n), data.counts)
    before = extractor.seen.values[:, dynamic]
    mean, variance = (part[:, :n].astype(np.float64) for part in normal)
    members, capacity = mean.shape[0], mean.shape[2]
    size = round_up(rows)
    centre = np.zeros((size, members, capacity, len(dynamic)), np.float32)
    spread, held = np.ones_like(centre), np.zeros((size, members, capacity), bool)
    shift = np.where(extractor.changes, 0.0, before)
    for member in range(members):
        absolute = scaling.y_mean + scaling.y_scale * mean[member, :, :slots]
        centre[:rows, member, :slots] = absolute[owner] - shift[:, None, :]
        spread[:rows, member, :slots] = (np.square(scaling.y_scale) * variance[member, :, :slots])[owner]
        held[:rows, member, :slots] = table.outputs.T & judge[member][owner, None]
    change = np.zeros((size, len(dynamic)), np.float32)
    change[:rows] = extractor.seen.after - before
    return RowComponents(change, held, centre, spread)


def _row_densities(change: Any, moved: Any, held: Any, centre: Any, spread: Any, still: Any) -> Any:
    """log p of every object row from its own components, as changes from its value before: (R, Q)."""
    _, members, slots, quantities = centre.shape
    weight = jnp.full(members * slots, -jnp.log(float(members)))

    def one(change: Any, moved: Any, held: Any, centre: Any, spread: Any) -> Any:
        components = (weight, centre.reshape(-1, quantities), spread.reshape(-1, quantities))
        return object_log_density(change, moved, held.reshape(-1), components, still)

    return jax.vmap(one)(change, moved, held, centre, spread)
