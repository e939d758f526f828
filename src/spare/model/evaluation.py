"""How good a transition model is on data it has not seen: true nats, errors, coverage and sharpness."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from spare.arguments import check_seed, check_whole
from spare.content import ByContent
from spare.data.experience import Experience, expect_experience
from spare.errors import DataError
from spare.model.model import TransitionModel, expect_model

LEVELS = (0.5, 0.9, 0.95)
MOST_DRAWS = 1_000_000
"""Draws are kept for all transitions at once: a number with many digits too much would take the memory, or forever."""
DEVIATIONS, OFTEN, MANY = 4.5, 0.02, 0.1
"""A change is one beyond so many deviations; it is a failure if so many per transition change, and this share of them
is not predicted."""


@dataclasses.dataclass(frozen=True, eq=False)
class GroupScore(ByContent):
    """Scores of the objects of one group: how many there are, mean log p of a value alone, error of the mean.

    per_value is None, and rmse empty, where nothing can be said: no such objects, or a model without `log_prob_values`.
    """

    objects: int
    per_value: float | None
    rmse: dict[str, float]


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation(ByContent):
    """Scores of a model on an experience; a value is one changeable property of one object.

    failures          sentences on objects that change here and that nothing predicts: read them before any number
    notes             what the fit said of the model, failures to learn first
    groups            `acted`: the action's objects; `moved`: others that moved by more than a resolution; `bystanders`
    log_prob          mean log p(s' | s, a) in nats per transition
    per_value         the same divided by the number of values, over all objects
    per_value_moved   mean log p of a value alone, of objects that moved by more than a resolution (None if unknown)
    rmse, rmse_moved  root mean squared error of the mean, per property
    coverage          share of values of moved objects inside central intervals, by level
    crps              mean continuous ranked probability score of moved objects, per property
    """

    failures: tuple[str, ...]
    notes: tuple[str, ...]
    groups: dict[str, GroupScore]
    transitions: int
    objects_moved: float
    log_prob: float
    log_prob_error: float
    per_value: float
    per_value_moved: float | None
    rmse: dict[str, float]
    rmse_moved: dict[str, float]
    coverage: dict[str, float]
    crps: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)


def moved_rows(experience: Experience) -> np.ndarray:
    """Which object rows changed by more than a resolution in some property, (total,) bool."""
    dynamic = list(experience.domain.dynamic)
    change = np.abs(experience.next_values[:, dynamic].astype(np.float64) - experience.values[:, dynamic])
    return np.any(change > experience.domain.resolutions, axis=1)


def acted_rows(experience: Experience) -> np.ndarray:
    """Which object rows are objects of their transition's action, (total,) bool."""
    found = np.zeros(len(experience.values), bool)
    found[(experience.offsets[:-1, None] + experience.objects)[experience.objects >= 0]] = True
    return found


def object_groups(experience: Experience) -> dict[str, np.ndarray]:
    """The rows of each group, (total,) bool: acted objects, others that moved, and bystanders."""
    own, moved = acted_rows(experience), moved_rows(experience)
    return {"acted": own, "moved": moved & ~own, "bystanders": ~moved & ~own}


def missing_rules(model: TransitionModel, experience: Experience) -> tuple[str, ...]:
    """Sentences on objects that change although nothing predicts them; none for a model that cannot say whom it does.

    An object has changed if some value did by more than its resolution, and by more than so many deviations of those
    that nothing predicts, which are estimated from the middle of them.
    """
    predicted = getattr(model, "predicted", None)
    if not callable(predicted):
        return ()
    dynamic, held, own = list(model.domain.dynamic), np.asarray(predicted(experience), bool), acted_rows(experience)
    change = experience.next_values[:, dynamic].astype(np.float64) - experience.values[:, dynamic]
    rest = change[~held & ~own]
    spread = 1.4826 * np.median(np.abs(rest), axis=0) if len(rest) else np.zeros(len(dynamic))
    changed = np.any(np.abs(change) > np.maximum(model.domain.resolutions, DEVIATIONS * spread), axis=1)
    found = []
    for whom, rows in (("objects of the action", changed & own), ("other objects", changed & ~own)):
        often, missed = rows.sum() / len(experience), (rows & ~held).sum() / max(1, rows.sum())
        if often > OFTEN and missed > MANY:
            share = "NONE OF THEM" if missed == 1 else f"only {1 - missed:.0%} of them"
            found.append(
                f"{often:.2g} {whom} change per transition, and {share} is predicted by a rule, the rest is "
                "expected to stay; good scores of other objects say nothing about these"
            )
    return tuple(found)


def evaluate(model: TransitionModel, experience: Experience, *, seed: int, draws: int = 100) -> Evaluation:
    """Score any transition model; intervals and CRPS are estimated from `draws` samples of each transition.

    CRPS = E|X - y| - E|X - X'| / 2, with neighbouring draws as X and X'.
    """
    expect_model(model)
    seed, draws = check_seed(seed), check_whole("draws", draws, 2, MOST_DRAWS)
    if not len(expect_experience(experience)):
        raise DataError("there are no transitions to evaluate on")
    data = experience.with_domain(model.domain)
    names, dynamic = model.domain.dynamic_names, list(model.domain.dynamic)
    moved = moved_rows(data)
    log_prob = model.log_prob(data)
    known = getattr(model, "log_prob_values", None)
    values = None if known is None else known(data)
    held = data.held[:, dynamic]
    if values is not None and not held.all():
        values = np.ma.array(values, mask=~held)  # what an object does not have is no value
    per_moved = float(values[moved].mean()) if values is not None and moved.any() else None
    samples = np.stack([model.sample(data, (seed + k) % 2**64)[:, dynamic] for k in range(draws)])
    truth = data.next_values[:, dynamic].astype(np.float64)
    expected = getattr(model, "mean", None)
    mean = expected(data)[:, dynamic] if expected is not None else samples.mean(axis=0)
    error = np.square(mean - truth)
    judged = moved if moved.any() else np.ones(len(truth), bool)
    seen, drawn = truth[judged], samples[:, judged].astype(np.float64)
    apart = np.abs(drawn - np.roll(drawn, 1, axis=0)).mean(axis=(0, 1))
    crps = np.abs(drawn - seen).mean(axis=(0, 1)) - 0.5 * apart
    groups = {
        name: GroupScore(
            int(rows.sum()),
            float(values[rows].mean()) if values is not None and rows.any() else None,
            _named(names, np.sqrt(error[rows].mean(axis=0))) if rows.any() else {},
        )
        for name, rows in object_groups(data).items()
    }
    return Evaluation(
        failures=missing_rules(model, data),
        notes=tuple(getattr(model, "notes", ())),
        groups=groups,
        transitions=len(data),
        objects_moved=float(moved.sum() / len(data)),
        log_prob=float(log_prob.mean()),
        log_prob_error=float(log_prob.std(ddof=1) / np.sqrt(len(log_prob))) if len(log_prob) > 1 else 0.0,
        per_value=float(log_prob.sum() / held.sum()),
        per_value_moved=per_moved,
        rmse=_named(names, np.sqrt(error.mean(axis=0))),
        rmse_moved=_named(names, np.sqrt(error[judged].mean(axis=0))),
        coverage={f"{level:.0%}": _coverage(drawn, seen, level) for level in LEVELS},
        crps=_named(names, crps),
    )


def _named(names: tuple[str, ...], values: np.ndarray) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _coverage(drawn: np.ndarray, seen: np.ndarray, level: float) -> float:
    """Share of values whose rank among the draws lies in the central `level` of ranks, the ends interpolated."""
    below = (drawn < seen).sum(axis=0)
    edge = (1 - level) / 2 * (len(drawn) + 1)
    # With n draws the rank is one of n + 1 equally likely ones under a perfect model: count the central ones.
    inside = np.clip(below + 1 - edge, 0, 1) * np.clip(len(drawn) + 1 - edge - below, 0, 1)
    return float(inside.mean())
