"""The general learner: one rule with heads for every action, and one process for everything else.

1. `processes.py`  what objects do by themselves: stays, drift, a net of own properties
2. `slots.py`      whom an action changes: a dense head as yardstick, pointers from below and from above
3. `inputs.py`     what each head looks at
4. `outcomes.py`   how many things can happen, and to whom at once
5. `final.py`      the ensemble, its calibration, the common factor

Everything is judged by the log density of whole held-out transitions, simple choices first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spare.data.experience import Experience
from spare.language.references import Shell, next_pointers
from spare.learning.bindings import expressions
from spare.learning.cache import TrainingCache
from spare.learning.general.final import Draft, built, compact, head_masks, make_rule
from spare.learning.general.inputs import InputSearch
from spare.learning.general.judge import Everywhere, Judge, JudgedHead, Trainer
from spare.learning.general.outcomes import choose_outcomes, rule_outcomes
from spare.learning.general.processes import Process, find_process, needed, process_rows
from spare.learning.general.ranges import row_doubts
from spare.learning.general.recursion import recursive
from spare.learning.general.rows import ActionRows, Folds, action_rows, rows_of
from spare.learning.general.slots import SlotRound, Slots, SlotSearch
from spare.learning.presets import Heads
from spare.model.headrule import HeadRule
from spare.model.heads import Head, HeadSpec

MOST_LOOKED_AT = 12
"""Pointers beside the chosen ones whose members a head may look at."""


@dataclasses.dataclass(frozen=True)
class GeneralResult:
    """What the general learner found for one action.

    `process`    stay, drift or net: what objects that no head holds do
    `slot_rounds`  of the search for slots
    `start`      loss of the process alone, nats per transition
    `heads`      held-out judgements of the heads that were kept
    `dense`      what a head for everyone gains over the process, nats per transition
    `uncovered`  share of the objects that changed, the action's own left out, that no head holds
    `changed`    how many objects besides the action's own changed, per transition
    """

    action: str
    rule: HeadRule
    process: str
    slot_rounds: tuple[SlotRound, ...]
    heads: tuple[JudgedHead, ...]
    start: float
    dense: float
    uncovered: float
    changed: float


@dataclasses.dataclass(frozen=True)
class Learning:
    """How to learn: settings, seed, threads, where finished trainings are kept, and who hears how it goes."""

    settings: Heads
    seed: int
    threads: int | None = None
    cache: TrainingCache | None = None
    listener: Callable[[str], Any] | None = None

    @property
    def trainer(self) -> Trainer:
        """How heads are trained while they are chosen."""
        return Trainer(self.settings.search, self.seed, self.threads, self.cache)

    @property
    def finisher(self) -> Trainer:
        """How heads are trained in the end."""
        return Trainer(self.settings.final, self.seed + 1, self.threads, self.cache)

    def folds(self, weights: np.ndarray) -> Folds:
        """Who judges while heads are chosen."""
        return Folds.of_search(weights, self.settings.validation, self.seed)

    def last_folds(self, weights: np.ndarray) -> Folds:
        """What each member of the ensemble holds out."""
        return Folds.of_ensemble(weights, self.settings.validation, self.settings.members, self.seed)


@contextlib.contextmanager
def step(view: Any, text: str) -> Iterator[list[str]]:
    """A step that a listener hears of; the list collects what came of it."""
    outcome: list[str] = []
    begin = time.perf_counter()
    if view is not None:
        view.step_started(text)
    yield outcome
    if view is not None:
        view.step_ended("; ".join(outcome), time.perf_counter() - begin)


def learn(data: Experience, how: Learning) -> list[GeneralResult]:
    """One rule for every action that occurs in the data."""
    indices = [int(index) for index in np.unique(data.action)]
    views = {k: how.listener(data.domain.actions[k].name) if how.listener else None for k in indices}
    with step(views[indices[0]], "what objects do by themselves") as outcome:
        process = find_process(data, how.folds(data.weights), how.trainer, how.settings.alpha)
        outcome.append(f"objects that nothing acts on: {process.level}")
    searches, unpredicted = _searched(data, process, how, views)
    with step(views[indices[0]], "whether they do so whatever is done") as outcome:
        folds, alpha = how.folds(data.weights), how.settings.alpha
        if not needed(data, process, unpredicted, folds, how.trainer, alpha):
            process = find_process(data, folds, how.trainer, alpha, moving=False)
            searches, unpredicted = _searched(data, process, how, views)
            outcome.append("no: it was the action that moved them")
    with step(views[indices[0]], "training what was found") as outcome:
        head, expected, rest, doubts = final_process(data, process, unpredicted, how)
        results = []
        for index, (search, draft) in searches.items():
            rows = action_rows(data, index, expected)
            rows.previous.update(search.rows.previous)
            judge = Judge(rows, how.last_folds(rows.data.weights), how.finisher, rest=rest)
            rule, judged = make_rule(judge, draft, head, None if doubts is None else doubts[search.places])
            results.append(search.result(rule, judged, draft, process.level))
        outcome.append(f"ensemble of {how.settings.members}")
    return results


def _searched(
    data: Experience, process: Process, how: Learning, views: dict[int, Any]
) -> tuple[dict[int, tuple[ActionSearch, Draft]], np.ndarray]:
    """Each action's search with what it found, by the action's number; rows that no head predicts, (R,)."""
    searches, left = {}, np.ones(len(data.values), bool)
    for index, view in views.items():
        search = ActionSearch(data, index, process, how, view)
        draft = search.run()
        searches[index] = (search, draft)
        left[search.places] = ~covered(search.rows, draft)
    return searches, left


def covered(rows: ActionRows, draft: Draft) -> np.ndarray:
    """Which rows some head predicts, (R,)."""
    masks = list(head_masks(rows, draft).values())
    return np.any(masks, axis=0) if masks else np.zeros(len(rows.owner), bool)


def final_process(
    data: Experience, process: Process, unpredicted: np.ndarray, how: Learning
) -> tuple[Head, np.ndarray, np.ndarray, np.ndarray | None]:
    """(the process's head, the change that it expects of every row, variance of what rests), by the whole ensemble.

    Last comes how far its members disagree about each row (R,), if it has a network.
    """
    rows = process_rows(data)
    mask = unpredicted if unpredicted.any() else np.ones_like(unpredicted)
    trainer = how.finisher if process.level == "net" else how.trainer
    judge = Judge(rows, how.last_folds(data.weights), trainer, rest=process.rest)
    shell = Shell(len(rows.roles))
    judged = judge.fit(shell, {0: mask}, [process.spec])[0]
    said = judge.everywhere(shell, judged)
    expected = np.zeros_like(said.mean) if process.level == "stay" else said.mean
    rest = np.maximum(rows.mean_held(said.variance) - np.square(data.domain.resolutions), 0.0)
    doubts = None
    if process.level == "net":
        everyone = dataclasses.replace(judged, rows=np.arange(len(rows.owner)))
        doubts = row_doubts(judge, shell, everyone)
    return built(judged), expected, rest, doubts


class ActionSearch:
    """The search for one action's rule."""

    def __init__(self, data: Experience, index: int, process: Process, how: Learning, view: Any) -> None:
        self.how, self.view = how, view
        self.moving = process.level != "stay"
        self.places = rows_of(data, np.flatnonzero(data.action == index))
        self.rows = action_rows(data, index, process.expected)
        self.judge = Judge(self.rows, how.folds(self.rows.data.weights), how.trainer, rest=process.rest)
        said = Everywhere(*(part[self.places] for part in process.said))
        self.slots = SlotSearch(self.judge, said, how.settings)

    def run(self) -> Draft:
        """Slots, inputs, outcomes."""
        with step(self.view, "whom the action changes") as outcome:
            slots = self.slots.find()
            outcome.append(f"slots: {slots.shell.show(self.rows.roles)}")
        shell = self._looked_at(slots)
        masks = Slots(shell, slots.predicted).masks(self.judge)
        search = InputSearch(self.judge, shell, masks, self.how.settings.alpha)
        names, kept = shell.slot_names(self.rows.roles), []
        for slot in (*range(shell.roles), *slots.predicted):
            if not masks[slot].any():
                continue
            with step(self.view, f"inputs and outcomes of {names[slot]}") as outcome:
                head = self._head(search, slot, {one.spec.slot: one for one in kept})
                outcome.append(_said(names[slot], head))
            kept += [] if head is None else [head]
        kept = rule_outcomes(search, kept)
        return compact(Draft(shell, tuple(head.spec for head in kept)), self.rows.layout(shell))

    def result(self, rule: HeadRule, judged: list[JudgedHead], draft: Draft, process: str) -> GeneralResult:
        """What is reported of it."""
        changed = self.slots.changed & ~self.rows.acted
        left = changed & ~covered(self.rows, draft)
        share = float(left.sum() / changed.sum()) if changed.any() else 0.0
        return GeneralResult(
            self.rows.action,
            rule,
            process,
            tuple(self.slots.rounds),
            tuple(judged),
            self.slots.start,
            self.slots.dense_gain,
            share,
            float(changed.sum() / len(self.rows.data)),
        )

    def _head(self, search: InputSearch, slot: int, earlier: dict[int, JudgedHead]) -> JudgedHead | None:
        """The best head of a slot; None where the process says as much."""
        first = HeadSpec(slot, self.slots.first_inputs(search.shell, slot))
        kinds = [(k, p, r) for r in ((True, False) if self.moving else (True,)) for k, p in ((1, False), (2, True))]
        tried = [search.fit(dataclasses.replace(first, outcomes=k, pinned=p, relative=r)) for k, p, r in kinds]
        head = max(tried, key=lambda one: search.better(tried[0], one)[0])
        head = choose_outcomes(search, search.add(search.drop(head)))
        head = recursive(search, head, earlier)
        mean, p_value = self.slots.test(self.slots.gain_of_slot(head))
        return head if mean > 0 and p_value < self.how.settings.alpha else None

    def _looked_at(self, slots: Slots) -> Shell:
        """The list with further pointers that heads may look at: from the action's objects and the chosen slots."""
        shell, bindings = slots.shell, self.rows.bindings
        reach = [*range(shell.roles), *slots.predicted]
        seen = {bindings.mask(one).tobytes() for one in expressions(shell)}
        for pointer in next_pointers(self.rows.data.domain.references, slots.shell.slots):
            if len(shell) - len(slots.shell) >= MOST_LOOKED_AT or any(slot not in reach for slot in pointer.arguments):
                continue
            mask = bindings.after(slots.shell, pointer)
            if mask.any() and mask.tobytes() not in seen:
                seen.add(mask.tobytes())
                shell = shell.extend(pointer)
        return shell


def _said(name: str, head: JudgedHead | None) -> str:
    """One line about a head."""
    if head is None:
        return f"{name}: the process says as much"
    outcomes = {1: "one outcome"}.get(head.spec.outcomes, f"{head.spec.outcomes} outcomes")
    pinned = ", of which one is that nothing changes" if head.spec.pinned else ""
    return f"{name}: {len(head.spec.inputs)} inputs, {outcomes}{pinned}"
