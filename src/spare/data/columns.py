"""The columns of an experience: n transitions as flat arrays. `Experience` says what each column holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Columns(NamedTuple):
    """n transitions with `total` objects in all; see `Experience` for each column."""

    values: np.ndarray
    next_values: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    action: np.ndarray
    objects: np.ndarray
    parameters: np.ndarray
    weights: np.ndarray
    info: Mapping[str, np.ndarray]
    metadata: Mapping[str, Any]
    dropped: int

    @property
    def counts(self) -> np.ndarray:
        """The number of objects in each transition."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """The transition that each object row belongs to."""
        return owners(self.offsets)

    def take(self, rows: np.ndarray) -> Columns:
        """The transitions `rows`, in that order; none counts as dropped."""
        counts = self.counts[rows]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        flat = np.repeat(self.offsets[rows], counts) + positions_within(counts)
        return self._replace(
            values=self.values[flat],
            next_values=self.next_values[flat],
            offsets=offsets,
            ids=self.ids[flat],
            action=self.action[rows],
            objects=self.objects[rows],
            parameters=self.parameters[rows],
            weights=self.weights[rows],
            info={name: column[rows] for name, column in self.info.items()},
            dropped=0,  # parts put together again must not count it twice
        )


def owners(offsets: np.ndarray) -> np.ndarray:
    """The group of each row: 0 for the first offsets[1] rows, and so on."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def positions_within(counts: np.ndarray) -> np.ndarray:
    """0, 1, ..., c0 - 1, 0, 1, ..., c1 - 1, ...: positions within groups."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
