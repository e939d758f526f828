"""What may happen to objects, apart: outcomes with their probability, instead of one mean between them.

A mixture of "it slips" and "it is lifted" has a mean where no load ever is. A `Choice` holds the outcomes of which
exactly one happens, to all of its objects together: one for the whole rule, or one for each object. What a head says of
an object without outcomes is a choice of one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from spare.content import ByContent
from spare.model.headrule import HeadRule
from spare.model.heads import HeadSpec
from spare.model.words import outcome_names


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome(ByContent):
    """One of several things that may happen, and what is expected of each object of the choice if it does.

    mean (objects, properties), covariance (objects, properties, properties) without outliers; static properties do not
    vary. `changes` is False for "nothing changes".
    """

    name: str
    probability: float
    changes: bool
    mean: np.ndarray
    covariance: np.ndarray

    @property
    def std(self) -> np.ndarray:
        """Standard deviations, (objects, properties)."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2), 0.0))


@dataclasses.dataclass(frozen=True, eq=False)
class Choice(ByContent):
    """Outcomes of which exactly one happens to all of `objects` (rows of the state) together.

    `outliers` is the share of objects that are not where any outcome expects them.
    """

    objects: tuple[int, ...]
    outcomes: tuple[Outcome, ...]
    outliers: float = 0.0

    def responsibilities(self, after: np.ndarray) -> np.ndarray:
        """P(outcome | after) by Gaussians with these means and deviations, (outcomes,); after (objects, properties).

        `Model.responsibilities` has the exact ones, of every member with its wide component.
        """
        scores = []
        for one in self.outcomes:
            varies = one.std > 0
            score = np.square((after - one.mean)[varies] / one.std[varies]) + 2 * np.log(one.std[varies])
            scores.append(np.log(max(one.probability, 1e-300)) - 0.5 * score.sum())
        share = np.exp(np.array(scores) - max(scores))
        return share / share.sum()


def choices(rule: HeadRule, outputs: np.ndarray, parts: Sequence[Any], values: np.ndarray) -> tuple[Choice, ...]:
    """The choices of one rule: the one of the whole rule first, then those of single objects, one outcome or more.

    outputs (H, N): whom each head holds; parts: what `HeadDistribution.outcomes` gives; values (N, P): before.
    """
    found: list[Choice] = []
    together: list[tuple[int, Any]] = []
    shared: HeadSpec | None = None
    for head, mask, part in zip(rule.heads, outputs, parts, strict=True):
        rows = [(int(i), part) for i in np.flatnonzero(mask)]
        if head.spec.scope == "rule" and head.spec.outcomes > 1:
            shared, together = head.spec, together + rows
        else:
            found += [_choice(rule, head.spec, [row], values) for row in rows]
    first = [] if shared is None or not together else [_choice(rule, shared, together, values)]
    return (*first, *found)


def _choice(rule: HeadRule, spec: HeadSpec, rows: list[tuple[int, Any]], values: np.ndarray) -> Choice:
    dynamic, made = np.array(rule.domain.dynamic), []
    for k, name in enumerate(outcome_names(rule, spec)):
        mean = np.array([values[i] for i, _ in rows], np.float64)
        covariance = np.zeros((*mean.shape, mean.shape[1]))
        for at, (i, part) in enumerate(rows):
            mean[at, dynamic] = np.asarray(part[1])[i, k]
            covariance[at][np.ix_(dynamic, dynamic)] = np.asarray(part[2])[i, k]
        first, part = rows[0]
        probability = float(np.asarray(part[0])[first, k])
        made.append(Outcome(name, probability, k > 0 or not spec.pinned, mean, covariance))
    outliers = float(np.mean([float(part[3]) for _, part in rows]))
    return Choice(tuple(i for i, _ in rows), tuple(made), outliers)
