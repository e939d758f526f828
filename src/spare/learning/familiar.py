"""What a rule has seen, measured on the samples that it was learned from: `Familiar`.

The range of D inputs over n samples is left by 2 D / (n + 1) of further samples of the same kind, which with a few
inputs is every second one. So a value counts as outside only if it lies beyond by more than a slack, a share of the
range's width. The share is the smallest that at most `ALARMS` of the samples themselves exceed, each compared with the
range of all others, and at most `WIDEST`: what lies a quarter of the width outside is always told.

Members of an ensemble disagree less on samples that most of them were trained on than on others. So the bound is taken
from samples that some held out, and widened by `WIDER`.
"""

from __future__ import annotations

import numpy as np

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


def learn_familiar(
    dataset: Dataset, gamma: Shell, seen: np.ndarray, doubts: np.ndarray | None, held_out: np.ndarray
) -> Familiar:
    """The ranges over the samples `seen` (n,) bool, and the bound for `doubts` (n,), the disagreement on each."""
    layout = dataset.layout(gamma)
    every = gauges(layout)
    views = [dataset] if dataset.reflection is None else [dataset, dataset.reflection]
    entries = [view.entries(gamma)[seen] for view in views]
    images = np.stack([np.stack([gauge.read(one) for gauge in every], axis=-1) for one in entries])  # (images, n, G)
    floor = _floors(dataset, every, images)
    for k, gauge in enumerate(every):
        if gauge.period is not None:
            images[..., k] = _unrolled(images[..., k], gauge.period)
    low, high = images.min(axis=(0, 1)), images.max(axis=(0, 1))
    share = _share(images, floor)
    slack = np.maximum(share * (high - low), floor)
    return Familiar.of(low, high, slack, _most(doubts, seen, held_out))


def _floors(dataset: Dataset, every: tuple[Gauge, ...], images: np.ndarray) -> np.ndarray:
    """The difference (G,) below which two values are the same: the resolution, or what is lost by rounding."""
    domain = dataset.experience.domain
    resolutions = {one.name: one.resolution or 0.0 for one in domain.properties}
    largest = np.abs(images).max(axis=(0, 1), initial=0.0)
    places, far = _places(dataset)
    lost = MOVED[dataset.experience.double] * far
    moved = np.array([lost if (gauge.prop or gauge.name) in places else 0.0 for gauge in every])
    resolution = np.array([resolutions.get(gauge.prop or "", 0.0) for gauge in every])
    return np.maximum(np.maximum(resolution, moved), np.maximum(ROUNDING * largest, 1e-30))


def _places(dataset: Dataset) -> tuple[set[str], float]:
    """Properties and parameters that are coordinates in a frame, and the largest of these in the world.

    In the frame they are differences of such numbers, and inexact by as much as these are.
    """
    data, template = dataset.experience, dataset.experience.domain.action(dataset.action)
    if not dataset.features.framed or template.frame is None:
        return set(), 0.0
    found, far = set(), 0.0
    for names, numbers in ((data.domain.property_names, data.values), (template.parameters, data.parameters)):
        columns = list(sum(template.frame.columns(names).positions, ()))
        found |= {names[column] for column in columns}
        far = max(far, float(np.abs(numbers[:, columns]).max(initial=0.0)))
    return found, far


def _unrolled(angles: np.ndarray, period: float) -> np.ndarray:
    """Angles without a jump: those behind the widest gap between neighbours come a period later."""
    ordered = np.sort(angles, axis=None)
    gaps = np.diff(ordered, append=ordered[0] + period)
    widest = int(np.argmax(gaps))
    return np.where(angles > ordered[widest], angles - period, angles)


def _share(images: np.ndarray, floor: np.ndarray) -> float:
    """The smallest slack, as a share of widths, that at most `ALARMS` of the samples exceed; see above."""
    n = images.shape[1]
    if n < 3:
        return WIDEST
    least, most = images.min(axis=0), images.max(axis=0)  # (n, G): the ends of each sample and its images
    lows, highs = _without_each(least, np.minimum), _without_each(most, np.maximum)
    width = highs - lows
    beyond = np.maximum(lows - images[0], images[0] - highs) - floor
    share = np.where(beyond > 0, (beyond + floor) / np.maximum(width, 1e-300), 0.0).max(axis=1)
    found = float(np.quantile(share, 1 - ALARMS, method="higher"))
    return min(max(found, NARROWEST, FEW / n), WIDEST)


def _without_each(values: np.ndarray, reduce: np.ufunc) -> np.ndarray:
    """The extreme (n, G) of all other rows, for each row."""
    order = np.sort(values, axis=0)
    first, second = (order[0], order[1]) if reduce is np.minimum else (order[-1], order[-2])
    return np.where((values == first) & (first != second), second, first)


def _most(doubts: np.ndarray | None, seen: np.ndarray, held_out: np.ndarray) -> float:
    """How far members may disagree: without members that could, any distance is fine."""
    rows = seen & held_out if (seen & held_out).any() else seen
    if doubts is None or not len(doubts[rows]):
        return float(np.finfo(np.float32).max)
    return float(WIDER * np.quantile(doubts[rows], SURE, method="higher"))
