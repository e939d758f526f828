"""The columns of an experience: n transitions as flat arrays. `Experience` says what each column holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from spare.data.ragged import Ragged, owners, positions_within


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
    vanished: np.ndarray | None = None
    arrivals: Ragged | None = None
    pairs: Mapping[str, Ragged] = {}
    next_pairs: Mapping[str, Ragged] = {}
    calls: Ragged | None = None

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
            vanished=some(None if self.vanished is None else self.vanished[flat]),
            arrivals=none_empty(None if self.arrivals is None else self.arrivals.take(rows)),
            pairs={name: one.take(rows) for name, one in self.pairs.items()},
            next_pairs={name: one.take(rows) for name, one in self.next_pairs.items()},
            calls=none_empty(None if self.calls is None else self.calls.take(rows)),
        )


def some(flags: np.ndarray | None) -> np.ndarray | None:
    """The flags, or None if none is set: so that equal experience has equal columns."""
    return flags if flags is not None and flags.any() else None


def none_empty(lists: Ragged | None) -> Ragged | None:
    """The lists, or None if all are empty."""
    return lists if lists is not None and lists.total else None
