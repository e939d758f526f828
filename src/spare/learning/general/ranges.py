"""What a rule with heads has seen: ranges of all that `model/watched.py` names, and how far members disagreed."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from spare.language.references import Shell
from spare.learning.dataset import observe_rows
from spare.learning.familiar import Measured, Place, familiar_of, most_doubt
from spare.learning.general.judge import MOST_ROWS, Judge, JudgedHead, Prepared
from spare.learning.general.rows import ActionRows
from spare.learning.general.training import look
from spare.model.familiar import Familiar, disagreements
from spare.model.headrule import HeadRule
from spare.model.heads import narrow_moments
from spare.model.watched import origins_in


class Doubts(NamedTuple):
    """What is needed beside heads to tell how far members disagree.

    process (R,)         their disagreement about each row, if the process has a network
    log_weights (M, n, K)  of the outcomes of each transition, where those belong to the whole rule
    """

    process: np.ndarray | None = None
    log_weights: np.ndarray | None = None


def learn_ranges(
    judge: Judge, rule: HeadRule, heads: list[JudgedHead], masks: list[np.ndarray], doubts: Doubts
) -> Familiar:
    """What the rule was learned from; `masks` (R,) are the rows of its heads."""
    rows, every = judge.rows, np.ones(len(judge.rows.data), bool)
    most = most_doubt(_worst(judge, rule, heads, masks, doubts), every, np.any(judge.folds.held, axis=0))
    place = Place(rows.data, rows.action, rows.framed)
    return familiar_of(place, rule.gauges, measured(rows, rule, masks), len(rows.data), most)


def _worst(
    judge: Judge, rule: HeadRule, heads: list[JudgedHead], masks: list[np.ndarray], doubts: Doubts
) -> np.ndarray | None:
    """How far members disagree about each transition (n,); None if they cannot."""
    if rule.members < 2 or (not heads and doubts.process is None):
        return None
    owner, found = judge.rows.owner, np.zeros(len(judge.rows.data))
    if doubts.process is not None:
        free = ~np.any(masks, axis=0) if masks else np.ones(len(owner), bool)
        np.maximum.at(found, owner[free], doubts.process[free])
    for head in heads:
        weights = doubts.log_weights if head.spec.scope == "rule" else None
        np.maximum.at(found, owner[head.rows], row_doubts(judge, rule.gamma, head, weights))
    return found


def measured(rows: ActionRows, rule: HeadRule, masks: list[np.ndarray]) -> list[Measured]:
    """The numbers of every gauge of a rule over all transitions, in the frame's mirror too where that is as good."""
    names, layout, slots = rule.watched, rule.layout, rows.slots(rule.gamma)
    views = [(rows.observed.before, slots)]
    if rows.mirror:
        views.append((rows.reflected.before, rows.slots(rule.gamma, mirror=True)))
    common = [layout.common(names.common, view, held) for view, held in views]
    groups = []
    for mask in masks:
        chosen = np.flatnonzero(mask)
        groups.append(([layout.x(names.rows, view, held, chosen) for view, held in views], rows.owner[chosen]))
    if names.world:
        others = np.flatnonzero(_others(rows, rule, masks))
        seen = observe_rows(rows.data, rows.action, False, origins=origins_in(rule.world, rows.origins))
        own = rule.world.x(names.world, seen.before, slots, others)
        unseen = np.zeros((len(others), len(names.rows)))  # the columns of members come first
        groups.append(([np.concatenate([unseen, own], axis=1)], rows.owner[others]))
    found = []
    for gauge in rule.gauges:
        entries, owner = (common, np.arange(len(rows.data))) if gauge.group is None else groups[gauge.group]
        found.append(Measured(np.stack([gauge.read(one) for one in entries]), owner))
    return found


def _others(rows: ActionRows, rule: HeadRule, masks: list[np.ndarray]) -> np.ndarray:
    """Whom a process with a network is asked about, (R,); see `watched.py`."""
    found = ~np.any(masks, axis=0) if masks else np.ones(len(rows.owner), bool)
    for head, mask in zip(rule.heads, masks, strict=True):
        if rows.framed and head.spec.relative:
            found = found | mask
    return found


def row_doubts(judge: Judge, shell: Shell, head: JudgedHead, log_weights: np.ndarray | None = None) -> np.ndarray:
    """How far the members of a head disagree about each of its rows, as a rule's distribution computes it.

    log_weights (M, n, K): of the outcomes of each transition, where those belong to the whole rule.
    """
    found = np.zeros(len(head.rows))
    for start in range(0, len(head.rows), MOST_ROWS):
        part = slice(start, start + MOST_ROWS)
        found[part] = _part_doubts(judge, shell, dataclasses.replace(head, rows=head.rows[part]), log_weights)
    return found


def _part_doubts(judge: Judge, shell: Shell, head: JudgedHead, log_weights: np.ndarray | None) -> np.ndarray:
    size, owner = len(head.rows), judge.rows.owner[head.rows]
    x = judge.rows.x(shell, head.spec.inputs, head.rows)
    y = judge.rows.changes(relative=head.spec.relative)[head.rows]
    units, every = judge.looking(Prepared(head.spec, head.rows, x, y, np.ones(size), None, head.scaling))
    moments = []
    for member, weights in enumerate(head.members):
        said = look(weights, every, units)
        gate = said.gate[:size] if log_weights is None else log_weights[member][owner]
        variance = (said.variance[:size] - units.floor) * head.wider**2 + units.floor
        moments.append(narrow_moments(gate, said.mean[:size], variance))
    means, variances = (np.stack(part).astype(np.float64) for part in zip(*moments, strict=True))
    return disagreements(means, variances).max(axis=-1)
