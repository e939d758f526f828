"""Padded batches for compiled code: few shapes, so few compilations.

Transitions are grouped by their number of objects, rounded up to 8, 32, 256, 2048, 4096, ... (all together when
that fits into one batch). The number of rows is rounded up as well, to 1, 2, 3, 4, 6, 8, 12, 16, ...; or every batch
has as many rows as fit, for programs that only look at those that are there. Padding is marked by `valid` (objects) and
by an `index` of -1 (rows), which come last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from spare.data.experience import Experience
from spare.data.extras import ragged_pairs
from spare.data.ragged import Ragged, positions_within
from spare.data.state import State


class Scene(NamedTuple):
    """(s, a), padded to N objects: what a rule looks at. Leading axes are batches.

    values (N, P), valid (N,) which rows are objects, action () template index, objects (roles,) local indices,
    parameters (d,); pairs of each stored relation (E, 2) local indices, -1 where there is none, by name (None: there
    are no relations).
    """

    values: Any
    valid: Any
    action: Any
    objects: Any
    parameters: Any
    pairs: Any = None


class Batch(NamedTuple):
    """B padded scenes, their next values (B, N, P), and which transition each row is (-1 for padding)."""

    scene: Scene
    next_values: Any
    index: Any


def round_up(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ...: at most a third is padding."""
    size = 1
    while size < count:
        size *= 2
    return size * 3 // 4 if size >= 4 and size * 3 // 4 >= count else size


SLOTS = (8, 32, 256, 2048)


def object_slots(count: int) -> int:
    """The next of 8, 32, 256, 2048, and from there on of 4096, 8192, ...

    Few programs for all sizes of states: while states are small, padding costs less than a program does.
    """
    size = next((size for size in SLOTS if size >= count), SLOTS[-1])
    while size < count:
        size *= 2
    return size


def batches(experience: Experience, cells: int = 1 << 18, *, full: bool = False) -> Iterator[Batch]:
    """Batches of at most `cells` padded objects each, smallest scenes first, covering every transition once.

    With `full`, batches of scenes of one size have one height, however few transitions there are.
    """
    counts = experience.counts
    for lists in experience.pairs.values():  # a state with many pairs is as large as one with as many objects
        counts = np.maximum(counts, lists.counts)
    capacity = np.array([object_slots(int(count)) for count in counts], np.int64)
    if len(counts) * capacity.max(initial=0) <= cells:  # so few that one shape costs less than several compilations
        capacity[:] = capacity.max(initial=0)
    for size in np.unique(capacity):
        rows = np.flatnonzero(capacity == size)
        step = max(1, cells // int(size))
        step = step if round_up(step) <= step else max(1, round_up(step) // 2)
        objects = object_slots(int(experience.counts[rows].max(initial=0))) if experience.pairs else int(size)
        for start in range(0, len(rows), step):
            yield pad(experience, rows[start : start + step], objects, step if full else None)


def pad(experience: Experience, rows: np.ndarray, size: int, height: int | None = None) -> Batch:
    """The transitions `rows` as one batch of scenes with `size` object slots, and of this height if one is given."""
    height = round_up(len(rows)) if height is None else height
    counts = experience.counts[rows]
    where = (np.repeat(np.arange(len(rows)), counts), positions_within(counts))
    flat = np.repeat(experience.offsets[rows], counts) + where[1]

    def spread(values: np.ndarray) -> np.ndarray:
        result = np.zeros((height, size, values.shape[1]), values.dtype)
        result[where] = values[flat]
        return result

    def lengthen(column: np.ndarray, fill: int) -> np.ndarray:
        result = np.full((height, *column.shape[1:]), fill, column.dtype)
        result[: len(rows)] = column[rows]
        return result

    valid = np.zeros((height, size), bool)
    valid[where] = True
    index = np.full(height, -1, np.int64)
    index[: len(rows)] = rows
    scene = Scene(
        spread(experience.values),
        valid,
        lengthen(experience.action, -1),
        lengthen(experience.objects, 0),
        lengthen(experience.parameters, 0),
        {name: padded_pairs(lists, rows, height) for name, lists in experience.pairs.items()} or None,
    )
    return Batch(scene, spread(experience.next_values), index)


def padded_pairs(lists: Ragged, rows: np.ndarray, height: int) -> np.ndarray:
    """Pairs (height, E, 2) of the transitions `rows`, -1 where there is none; E is a size as of objects."""
    mine = lists.take(rows)
    result = np.full((height, object_slots(int(mine.counts.max(initial=1))), 2), -1, np.int32)
    where = (mine.owner, positions_within(mine.counts))
    result[(*where, 0)], result[(*where, 1)] = mine.columns["source"], mine.columns["target"]
    return result


def pairs_of(state: State) -> dict[str, np.ndarray] | None:
    """Stored relations of one state by name, (E, 2) rows each, padded; None where there is none."""
    return {name: padded_pairs(one, np.zeros(1, int), 1)[0] for name, one in ragged_pairs(state).items()} or None
