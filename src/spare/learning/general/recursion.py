"""Recursion along a closure: each link follows what is expected of the one before it.

A head over a closure (`behind*`) that sees how deep a link is learns a number for each depth that it has seen, and
nothing about longer chains. Where the change of a link depends on that of the link before, one step says it all:

1. A head sees the observed change of those one step before (`previous(b1).x`) instead of the depth; what else it does
   not need is left out.
2. What it expects, step by step from the objects that the closure starts from, takes the place of what was observed,
   and it is trained again, without what it then does not need: in use nobody has observed anything yet.
3. It is kept if it is better by the paired test, or no worse with at most half as many inputs.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from spare.language.references import Shell
from spare.learning.bindings import Expression, expressions
from spare.learning.general.inputs import InputSearch
from spare.learning.general.judge import Judge, JudgedHead
from spare.learning.general.rows import ActionRows

AS_GOOD = 0.01
"""Nats per value that a simpler head may cost on average."""


def recursive(search: InputSearch, head: JudgedHead, earlier: dict[int, JudgedHead]) -> JudgedHead:
    """The head, or one that follows the step before; `earlier`: heads of slots before it, by slot."""
    rows, shell, slot = search.judge.rows, search.shell, head.spec.slot
    layout = rows.layout(shell)
    entries = layout.chosen(head.spec.inputs)
    if not layout.closure(slot) or head.spec.outcomes > 1 or not any(e.about == "depth" for e in entries):
        return head
    first = earlier.get(shell.pointers[slot - shell.roles].arguments[0])
    if first is None or first.spec.outcomes > 1:
        return head
    closure = expressions(shell)[slot]
    found = _follows(search, head, first, closure)
    if found is None:
        rows.previous.pop(closure, None)
        return head
    return found


def _follows(search: InputSearch, head: JudgedHead, first: JudgedHead, closure: Expression) -> JudgedHead | None:
    judge, shell, slot = search.judge, search.shell, head.spec.slot
    rows, entries = judge.rows, judge.rows.layout(shell).entries
    previous = [name for name, e in entries.items() if e.about == "previous" and e.slot == slot]
    other = [name for name in head.spec.inputs if entries[name].about != "depth"]
    rows.previous[closure] = before(rows, shell, slot, rows.changes(relative=head.spec.relative))
    told = search.drop(search.fit(dataclasses.replace(head.spec, inputs=(*previous, *other))))
    if not {*previous} & {*told.spec.inputs}:
        return None
    rows.previous[closure] = expected_before(judge, shell, told, first)
    # What was observed of the step before had its noise, which other inputs averaged out: they may not be needed now.
    trial = search.drop(search.fit(told.spec))
    if not {*previous} & {*trial.spec.inputs}:
        return None
    mean, p_value = search.better(head, trial)
    if mean > 0 and p_value < search.alpha:
        return trial
    judged = max(float((search.judge.folds.judged > 0)[rows.owner[head.rows]].sum()), 1.0)
    cost = -mean * float(search.judge.folds.judged.sum()) / judged / rows.y.shape[1]
    simpler = 2 * len(trial.spec.inputs) <= len(head.spec.inputs)
    return trial if simpler and cost < AS_GOOD and search.no_worse(head, trial) else None


def before(rows: ActionRows, shell: Shell, slot: int, change: np.ndarray) -> np.ndarray:
    """(R, Q): the mean change of those one step before each member of a closure; 0 for all other rows."""
    steps, first = _steps(rows, shell, slot)
    found = np.zeros_like(change)
    for k in range(1, int(steps.max(initial=0)) + 1):
        found[steps == k] = _mean(rows, first if k == 1 else steps == k - 1, change)[rows.owner[steps == k]]
    return found


def expected_before(judge: Judge, shell: Shell, head: JudgedHead, first: JudgedHead) -> np.ndarray:
    """The same of what heads expect: of where the closure starts by `first`, from there on by the head itself."""
    rows, slot = judge.rows, head.spec.slot
    steps, start = _steps(rows, shell, slot)
    closure = expressions(shell)[slot]
    known = rows.previous[closure]
    moved, found = judge.everywhere(shell, first).mean, np.zeros_like(known)
    try:
        for k in range(1, int(steps.max(initial=0)) + 1):
            here = steps == k
            found[here] = _mean(rows, start if k == 1 else steps == k - 1, moved)[rows.owner[here]]
            rows.previous[closure] = found
            moved = np.where(here[:, None], judge.everywhere(shell, head).mean, moved)
    finally:
        rows.previous[closure] = known
    return found


def _steps(rows: ActionRows, shell: Shell, slot: int) -> tuple[np.ndarray, np.ndarray]:
    """(steps to each member of a closure (R,), which rows it starts from (R,))."""
    argument = shell.pointers[slot - shell.roles].arguments[0]
    return rows.bindings.depths(shell)[slot], rows.bindings.masks(shell)[argument]


def _mean(rows: ActionRows, chosen: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """(n, Q): the mean of these rows in each transition; 0 where there are none."""
    owner, size = rows.owner[chosen], len(rows.data)
    total = np.stack([np.bincount(owner, column[chosen], minlength=size) for column in numbers.T], axis=1)
    return total / np.maximum(np.bincount(owner, minlength=size), 1)[:, None]
