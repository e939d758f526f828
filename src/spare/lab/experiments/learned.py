"""What was learned, as plain values that a report can be written from when the model itself is gone.

notes                      what the fit said of it, failures to learn first
domain, rules, diagram     the model in words, and its SVG
rest                       of each rule, what it says of objects that it does not point at
search                     per action, as `describe_history` gives it
provenance                 versions, seed, preset, fingerprint of the data
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spare.data.experience import Experience
from spare.learning.history import SearchResult, SlotsFound, describe_history
from spare.learning.many import ManyResult
from spare.model import diagram
from spare.model.headrule import HeadRule
from spare.model.model import Model, TransitionModel
from spare.model.words import describe_process

BINS = 20
LEVELS = tuple(range(10, 100, 10))
"""Central intervals, in %, whose coverage a report shows."""
STAYS = "everything else stays"
DRAWS = 39
"""Draws of each transition for `ranks`: a value's rank among them is one of 40, two for each bin."""


def describe(model: Model, history: Sequence[SearchResult | ManyResult | SlotsFound] = ()) -> dict[str, Any]:
    """The record of a model, and of how it was found if that is known: the module's fields."""
    return {
        "notes": list(model.notes),
        "domain": model.domain.name,
        "rules": str(model),
        "rest": [describe_process(rule) if isinstance(rule, HeadRule) else STAYS for rule in model.rules],
        "diagram": diagram.svg(model) if model.rules else None,
        "search": describe_history(history, model.domain),
        "provenance": {name: value for name, value in model.provenance.items() if name not in ("rules", "notes")},
    }


def ranks(model: TransitionModel, data: Experience, rows: np.ndarray, seed: int = 0) -> list[int]:
    """How often an observed value has each rank among draws of the model, in 20 bins: level if it is calibrated.

    `rows` (total,) bool says which object rows count.
    """
    return np.sum([*ranks_by_property(model, data, rows, seed).values()], axis=0).tolist()


def ranks_by_property(
    model: TransitionModel, data: Experience, rows: np.ndarray, seed: int = 0
) -> dict[str, list[int]]:
    """The same for each changeable property by itself."""
    data, dynamic = data.with_domain(model.domain), list(model.domain.dynamic)
    truth = data.next_values[rows][:, dynamic]
    below = np.zeros(truth.shape, int)
    for k in range(DRAWS):
        below += model.sample(data, seed + k)[rows][:, dynamic] < truth
    bins = (below * BINS // (DRAWS + 1)).T
    names = model.domain.dynamic_names
    return {name: np.bincount(one, minlength=BINS).tolist() for name, one in zip(names, bins, strict=True)}


def coverage(counts: Sequence[int], level: float) -> float:
    """The share of values inside the central `level` of the ranks; bins that are cut count in part."""
    bins, total = len(counts), max(1, sum(counts))
    edge = (1.0 - level) / 2 * bins
    inside = 0.0
    for k, count in enumerate(counts):
        part = min(k + 1, bins - edge) - max(k, edge)
        inside += count * max(0.0, min(1.0, part))
    return inside / total
