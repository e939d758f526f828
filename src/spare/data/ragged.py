"""Lists of any length, one for each transition: objects that appear, pairs of a relation, further actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


def owners(offsets: np.ndarray) -> np.ndarray:
    """The group of each row: 0 for the first offsets[1] rows, and so on."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def positions_within(counts: np.ndarray) -> np.ndarray:
    """0, 1, ..., c0 - 1, 0, 1, ..., c1 - 1, ...: positions within groups."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


class Ragged(NamedTuple):
    """Transition i owns the rows offsets[i] to offsets[i + 1] of every column; `offsets` (n + 1,) int64."""

    offsets: np.ndarray
    columns: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, owner: np.ndarray, columns: Mapping[str, np.ndarray], count: int) -> Ragged:
        """Rows in any order, of which `owner` says whose they are, for `count` transitions."""
        order = np.argsort(owner, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)
        return cls(offsets, {name: column[order] for name, column in columns.items()})

    @property
    def owner(self) -> np.ndarray:
        """The transition that each row belongs to."""
        return owners(self.offsets)

    @property
    def counts(self) -> np.ndarray:
        """The number of rows of each transition."""
        return np.diff(self.offsets)

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.offsets[-1])

    def at(self, i: int) -> dict[str, np.ndarray]:
        """The rows of one transition."""
        return {name: column[self.offsets[i] : self.offsets[i + 1]] for name, column in self.columns.items()}

    def take(self, rows: np.ndarray) -> Ragged:
        """Those of the transitions `rows`, in that order."""
        counts = self.counts[rows]
        flat = np.repeat(self.offsets[rows], counts) + positions_within(counts)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Ragged(offsets, {name: column[flat] for name, column in self.columns.items()})

    def frozen(self) -> Ragged:
        """The same, read-only."""
        for part in (self.offsets, *self.columns.values()):
            if part.flags.writeable:
                part.flags.writeable = False
        return self


def joined(parts: Sequence[Ragged | None], counts: Sequence[int]) -> Ragged | None:
    """All lists of all parts, of which part k has counts[k] transitions; None has no rows. None if nobody has any."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    sizes = [np.zeros(count, np.int64) if one is None else one.counts for one, count in zip(parts, counts, strict=True)]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
    columns = {}
    for name in known[0].columns:
        found = [part.columns[name] for part in known]
        mixed = len({one.dtype.kind for one in found}) > 1 and any(one.dtype.kind == "U" for one in found)
        columns[name] = np.concatenate([one.astype(str) for one in found] if mixed else found)
    return Ragged(offsets, columns)
