"""What a rule has seen, measured on the samples that it was learned from: `Familiar`.

The range of D inputs over n samples is left by 2 D / (n + 1) of further samples of the same kind, which with a few
inputs is every second one. So a value counts as outside only if it lies beyond by more than a slack, a share of the
range's width. The share is the smallest that at most `ALARMS` of the samples themselves exceed, each compared with the
range of all others, and at most `WIDEST`: what lies a quarter of the width outside is always told.

Members of an ensemble disagree less on samples that most of them were trained on than on others. So the bound is taken
from samples that some held out, and widened by `WIDER`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spare.data.experience import Experience
from spare.language.references import Shell
from spare.learning.dataset import Dataset
from spare.model.familiar import Familiar, Gauge, gauges

ALARMS = 0.02
"""The share of samples that may lie outside of what all others have in common."""
NARROWEST, FEW, WIDEST = 0.02, 10.0, 0.22
"""The least slack, as a share of a range's width: NARROWEST, or FEW / n of n samples; and the largest."""
ROUNDING = 1e-5
"""What is nearer than this, in units of the largest number of its kind, is the same."""
MOVED = (ROUNDING, 1e-13)
"""The same of coordinates that were moved to a frame, in units of those in the world, of 32 bits and of 64."""
SURE, WIDER = 0.99, 1.5
"""The quantile of the disagreement on held-out samples, and by how much it is widened for samples nobody saw."""


class Measured(NamedTuple):
    """The numbers of one gauge: values (images, m), first as they are, then in a mirror; the sample of each, (m,)."""

    values: np.ndarray
    owner: np.ndarray


@dataclasses.dataclass(frozen=True)
class Place:
    """Where numbers come from: an experience of an action, seen in the action's frame or in the world."""

    data: Experience
    action: str
    framed: bool

    def moved(self) -> tuple[set[str], float]:
        """Properties and parameters that are coordinates in a frame, and the largest of these in the world.

        In the frame they are differences of such numbers, and inexact by as much as these are.
        """
        data, template = self.data, self.data.domain.action(self.action)
        if not self.framed or template.frame is None:
            return set(), 0.0
        found, far = set(), 0.0
        for names, numbers in ((data.domain.property_names, data.values), (template.parameters, data.parameters)):
            columns = list(sum(template.frame.columns(names).positions, ()))
            found |= {names[column] for column in columns}
            far = max(far, float(np.abs(numbers[:, columns]).max(initial=0.0)))
        return found, far


def learn_familiar(
    dataset: Dataset, gamma: Shell, seen: np.ndarray, doubts: np.ndarray | None, held_out: np.ndarray
) -> Familiar:
    """The ranges over the samples `seen` (n,) bool, and the bound for `doubts` (n,), the disagreement on each."""
    every = gauges(dataset.layout(gamma))
    views = [dataset] if dataset.reflection is None else [dataset, dataset.reflection]
    entries = [view.entries(gamma)[seen] for view in views]
    owner = np.arange(int(seen.sum()))
    numbers = [Measured(np.stack([gauge.read(one) for one in entries]), owner) for gauge in every]
    place = Place(dataset.experience, dataset.action, dataset.features.framed)
    return familiar_of(place, every, numbers, len(owner), most_doubt(doubts, seen, held_out))


def familiar_of(
    place: Place, every: Sequence[Gauge], numbers: Sequence[Measured], samples: int, most: float
) -> Familiar:
    """The ranges of gauges over so many samples; `most` is how far members may disagree.

    Of a gauge that tells of several objects, a sample has as many numbers, or none.
    """
    floor = _floors(place, every, np.array([np.abs(one.values).max(initial=0.0) for one in numbers]))
    own, ends = (np.empty((2, samples, len(every))) for _ in range(2))
    for k, (gauge, one) in enumerate(zip(every, numbers, strict=True)):
        values = one.values if gauge.period is None else _unrolled(one.values, gauge.period)
        own[:, :, k] = _ends(values[:1], one.owner, samples)
        ends[:, :, k] = _ends(values, one.owner, samples)
    low, high = ends[0].min(axis=0, initial=np.inf), ends[1].max(axis=0, initial=-np.inf)
    low, high = (np.where(low <= high, part, 0.0) for part in (low, high))  # of those that nobody was ever among
    slack = np.maximum(_share(own, ends, floor) * (high - low), floor)
    return Familiar.of(low, high, slack, most)


def _ends(values: np.ndarray, owner: np.ndarray, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest number (n,) of each sample; infinite, and the other way round, if it has none."""
    low, high = np.full(samples, np.inf), np.full(samples, -np.inf)
    for one in values:
        np.minimum.at(low, owner, one)
        np.maximum.at(high, owner, one)
    return low, high


def _floors(place: Place, every: Sequence[Gauge], largest: np.ndarray) -> np.ndarray:
    """The difference (G,) below which two values are the same: the resolution, or what is lost by rounding."""
    resolutions = {one.name: one.resolution or 0.0 for one in place.data.domain.properties}
    places, far = place.moved()
    lost = MOVED[place.data.double] * far
    moved = np.array([lost if (gauge.prop or gauge.name) in places else 0.0 for gauge in every])
    resolution = np.array([resolutions.get(gauge.prop or "", 0.0) for gauge in every])
    return np.maximum(np.maximum(resolution, moved), np.maximum(ROUNDING * largest, 1e-30))


def _unrolled(angles: np.ndarray, period: float) -> np.ndarray:
    """Angles without a jump: those behind the widest gap between neighbours come a period later."""
    if not angles.size:
        return angles
    ordered = np.sort(angles, axis=None)
    gaps = np.diff(ordered, append=ordered[0] + period)
    widest = int(np.argmax(gaps))
    return np.where(angles > ordered[widest], angles - period, angles)


def _share(own: np.ndarray, ends: np.ndarray, floor: np.ndarray) -> float:
    """The smallest slack, as a share of widths, that at most `ALARMS` of the samples exceed; see above.

    own, ends (2, n, G): where each sample begins and ends, without and with its images.
    """
    n = ends.shape[1]
    if n < 3:
        return WIDEST
    lows, highs = _without_each(ends[0], np.minimum), _without_each(ends[1], np.maximum)
    with np.errstate(invalid="ignore"):  # infinity less infinity, where nobody has such a number
        width = highs - lows
        beyond = np.maximum(lows - own[0], own[1] - highs) - floor
    share = np.where(beyond > 0, (beyond + floor) / np.maximum(width, 1e-300), 0.0).max(axis=1, initial=0.0)
    found = float(np.quantile(np.minimum(share, 1.0), 1 - ALARMS, method="higher"))
    return min(max(found, NARROWEST, FEW / n), WIDEST)


def _without_each(values: np.ndarray, reduce: np.ufunc) -> np.ndarray:
    """The extreme (n, G) of all other rows, for each row."""
    order = np.sort(values, axis=0)
    first, second = (order[0], order[1]) if reduce is np.minimum else (order[-1], order[-2])
    return np.where((values == first) & (first != second), second, first)


def most_doubt(doubts: np.ndarray | None, seen: np.ndarray, held_out: np.ndarray) -> float:
    """How far members may disagree: without members that could, any distance is fine."""
    rows = seen & held_out if (seen & held_out).any() else seen
    if doubts is None or not len(doubts[rows]):
        return float(np.finfo(np.float32).max)
    return float(WIDER * np.quantile(doubts[rows], SURE, method="higher"))
