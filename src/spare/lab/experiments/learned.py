"""What was learned, as plain values that a report can be written from when the model itself is gone.

domain, rules, diagram     the model in words, and its SVG
search                     per action, the rounds: every candidate with its validation score, what was kept and why not
provenance                 versions, seed, preset, fingerprint of the data
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from spare.data.experience import Experience
from spare.language.domain import Domain
from spare.learning.fit import FitResult
from spare.learning.history import Explored, Round, SearchResult
from spare.learning.many import ManyResult
from spare.model import diagram
from spare.model.model import Model

BINS = 20
LEVELS = tuple(range(10, 100, 10))
"""Central intervals, in %, of which a report shows how often they hold what happened."""
DRAWS = 39
"""Draws of each transition for `ranks`: a value's rank among them is one of 40, two for each bin."""


def learned(result: FitResult) -> dict[str, Any]:
    """The record of a fit: the module's fields."""
    return {**told(result.model), "search": [_search(one, result.model.domain) for one in result.history]}


def told(model: Model) -> dict[str, Any]:
    """What a model says by itself, however it was found."""
    facts = {name: value for name, value in model.provenance.items() if name != "rules"}
    return {
        "domain": model.domain.name,
        "rules": str(model),
        "diagram": diagram.svg(model) if model.rules else None,
        "provenance": facts,
    }


def _search(one: SearchResult | ManyResult, domain: Domain) -> dict[str, Any]:
    roles = domain.action(one.action).objects
    if isinstance(one, ManyResult):
        return {"action": one.action, "iterations": _iterations(one, roles)}
    rounds, size = [], 0
    for round_ in one.rounds:
        rounds.append(_round(round_, size, not rounds, roles))
        if round_.accepted and round_.best is not None:
            size = len(round_.best.gamma)
    return {"action": one.action, "rounds": rounds, "found": one.best.gamma.show(roles), "ended": _ended(one.rounds)}


def _round(round_: Round, size: int, first: bool, roles: tuple[str, ...]) -> dict[str, Any]:
    """One round, from lists of `size` references."""
    best = round_.best
    longer = len(best.gamma) - size if best is not None else 1
    return {
        "move": "start" if first else "grow" if longer > 0 else "drop" if longer < 0 else "replace",
        "best": best and best.gamma.show(roles),
        "changes": best and best.delta.show(roles),
        "kept": round_.accepted,
        "gain": _number(round_.improvement),
        "p_value": _number(round_.p_value),
        "seconds": round(round_.seconds, 2),
        "explored": [_candidate(one, roles) for one in round_.explored],
    }


def _candidate(one: Explored, roles: tuple[str, ...]) -> dict[str, Any]:
    """Validation and training score in nats per transition; `skipped` says why there is none."""
    return {
        "list": one.gamma.show(roles),
        "changes": one.delta.show(roles),
        "validation": _number(-one.loss) if one.trained else None,
        "training": _number(-one.train_loss) if one.trained else None,
        "applies": round(one.applies, 4),
        "skipped": one.note or None,
    }


def _ended(rounds: Sequence[Round]) -> str:
    """Why the search went no further."""
    last = rounds[-1]
    if not any(one.trained for one in last.explored):
        return "every further reference points at nothing, or at objects that are in the list already"
    if last.accepted:
        return "the list is as long as it may become"
    return (
        f"no other list explains validation samples better: the best one gains {last.improvement:+.2f} nats "
        f"(p = {last.p_value:.2g})"
    )


def _iterations(many: ManyResult, roles: tuple[str, ...]) -> list[dict[str, Any]]:
    """EM's history: likelihood, how many samples each rule has, and its heaviest list."""
    return [
        {
            "likelihood": _number(one.log_likelihood),
            "shares": [round(float(share), 4) for share in one.memberships.mean(axis=0)],
            "lists": [shells.top(1)[0].show(roles) for shells in one.shells],
            "weights": [round(float(shells[shells.top(1)[0]]), 4) for shells in one.shells],
        }
        for one in many.history
    ]


def _number(value: float) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None


def ranks(model: Any, data: Experience, rows: np.ndarray, seed: int = 0) -> list[int]:
    """How often what happened has each rank among draws of the model, in 20 bins: level if the model is calibrated.

    `rows` (total,) bool says which object rows count.
    """
    return np.sum([*ranks_by_property(model, data, rows, seed).values()], axis=0).tolist()


def ranks_by_property(model: Any, data: Experience, rows: np.ndarray, seed: int = 0) -> dict[str, list[int]]:
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
