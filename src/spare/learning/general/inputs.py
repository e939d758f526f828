"""Which inputs a head has: what it starts with, what earns its place, what it does without.

1. Groups that could help (size of a slot and whether it holds somebody; mean properties of its members; of chosen
   slots and of others that are only looked at) are ranked by ridge regression of the head's held-out residuals on
   random features with and without the group, in closed form. The best few are trained.
2. Entries whose shuffling among held-out rows costs nothing by the paired test are left out, if the head is no worse
   without them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from spare.language.references import Shell
from spare.language.relations import sees_objects_alone
from spare.learning.general.judge import WIDER, Judge, JudgedHead, Prepared
from spare.learning.general.rows import ActionRows
from spare.learning.general.training import look
from spare.learning.screen import left_out, random_features
from spare.learning.statistics import paired_improvement, sparse_improvement
from spare.model.heads import HeadSpec
from spare.model.rows import RowLayout

TRIED = 3
"""So many groups are trained in a round."""
WORTH = 6.0
"""Nats that a group must promise in all to be trained."""
LOOKED_AT = 1200
"""Rows of the closed-form look."""
TRIES = 3
MINOR = 0.1
"""Entries whose shuffling costs less than this share of what the most important one costs may not be needed."""
DOUBTFUL = 0.2
"""A smaller head is worse if the paired test says so at this level."""
MOST_SHUFFLED = 600


class Group(NamedTuple):
    """Inputs that are tried together."""

    label: str
    names: tuple[str, ...]


def fresh(spec: HeadSpec, groups: Sequence[Group]) -> list[Group]:
    """These groups without what a head sees already."""
    have = {*spec.inputs}
    trimmed = [Group(g.label, tuple(n for n in g.names if n not in have)) for g in groups]
    return [group for group in trimmed if group.names]


def around(rows: ActionRows, layout: RowLayout, *, alone: bool = False) -> list[Group]:
    """What could be added about those whom a reference finds from an object; `alone`: whatever the action is."""
    found: list[Group] = []
    if not rows.bindings.pairable:
        return found
    for number, reference in enumerate(layout.domain.references):
        if reference.arity != 1 or (alone and not sees_objects_alone(reference.relation)):
            continue
        here = [e for e in layout.entries.values() if e.about == "around" and e.slot == number]
        sizes = tuple(e.name for e in here if e.how in ("present", "count"))
        found.append(Group(f"size of {reference.name}", sizes))
        for how in ("mean", "sum"):
            names = (e.name for e in here if e.how == how)
            found.append(Group(f"{how} of {reference.name}", (sizes[how == "sum"], *names)))
    return found


class InputSearch:
    """Chooses the inputs of heads of one rule, whose list has every slot that may be looked at."""

    def __init__(self, judge: Judge, shell: Shell, masks: dict[int, np.ndarray], alpha: float) -> None:
        self.judge, self.shell, self.masks, self.alpha = judge, shell, masks, alpha

    def fit(self, spec: HeadSpec) -> JudgedHead:
        """The head of this spec on folds."""
        return self.judge.fit(self.shell, self.masks, [spec])[0]

    def better(self, old: JudgedHead, new: JudgedHead) -> tuple[float, float]:
        """(gain in nats per judged transition, p-value)."""
        total = self.gain(old, new)
        return paired_improvement(np.zeros_like(total), -total, self.judge.folds.judged)

    def gain(self, old: JudgedHead, new: JudgedHead) -> np.ndarray:
        """By how much log p of every transition rises, (n,)."""
        return self.judge.rows.per_transition(np.where(old.seen, new.log_density - old.log_density, 0.0), old.rows)

    def add(self, head: JudgedHead, offered: Sequence[Group] | None = None) -> JudgedHead:
        """With the groups that earn their place, one after another: of these, or of all that could be added."""
        for _ in range(2):
            groups = self._promising(head, self.groups(head.spec) if offered is None else fresh(head.spec, offered))
            trials = [self._with(head, group) for group in groups[:TRIED]]
            if not trials:
                return head
            tests = [self.better(head, trial) for trial in trials]
            best = int(np.argmax([mean for mean, _ in tests]))
            if not (tests[best][0] > 0 and tests[best][1] < self.alpha):
                return head
            head = trials[best]
        return head

    def _with(self, head: JudgedHead, group: Group) -> JudgedHead:
        return self.fit(dataclasses.replace(head.spec, inputs=(*head.spec.inputs, *group.names)))

    def groups(self, spec: HeadSpec) -> list[Group]:
        """What could be added to a head."""
        layout, found = self.judge.rows.layout(self.shell), []
        held = self.judge.rows.bindings.held(self.judge.rows.bindings.masks(self.shell))
        names = self.shell.slot_names(self.judge.rows.roles)
        for slot in range(self.shell.roles, self.shell.slots):
            sizes = held[slot]
            if sizes.max(initial=0) == 0:
                continue
            counts = [
                f"{how}({names[slot]})"
                for how, varied in (
                    ("present", (sizes > 0).any() and not (sizes > 0).all()),
                    ("count", sizes.max() > 1 and np.ptp(sizes) > 0),
                )
                if varied
            ]
            if counts:
                found.append(Group(f"size of {names[slot]}", tuple(counts)))
            means = tuple(
                n for n, e in layout.entries.items() if e.about == "slot" and e.slot == slot and e.how == "mean"
            )
            found.append(Group(f"members of {names[slot]}", (*counts[:1], *means)))
        if spec.slot >= self.shell.roles:
            offsets = tuple(n for n, e in layout.entries.items() if e.about == "offset")
            found.append(Group("offsets", offsets))
            found += around(self.judge.rows, layout)
        return fresh(spec, found)

    def _promising(self, head: JudgedHead, groups: Sequence[Group]) -> list[Group]:
        """Groups that explain held-out residuals in closed form, the best first."""
        rows = np.flatnonzero(head.seen)
        if len(rows) < 20:
            return []
        if len(rows) > LOOKED_AT:
            rows = np.sort(np.random.default_rng(self.judge.seed).choice(rows, LOOKED_AT, replace=False))
        residual = residuals(head, self.judge.rows.changes(relative=head.spec.relative)[head.rows])[rows]
        chosen = head.rows[rows]
        x = self.judge.rows.x(self.shell, head.spec.inputs, chosen)
        weight = np.ones(len(rows))
        base = np.square(left_out(random_features(x), residual, weight)).mean(axis=0)
        base = np.minimum(base, np.square(residual).mean(axis=0))
        ranked = []
        for group in groups:
            z = self.judge.rows.x(self.shell, group.names, chosen)
            if not np.ptp(z, axis=0).any():
                continue
            wrong = np.square(left_out(random_features(np.concatenate([x, z], axis=1)), residual, weight)).mean(axis=0)
            alone = np.square(left_out(random_features(z), residual, weight)).mean(axis=0)
            worth = (
                0.5
                * len(rows)
                * np.log(np.maximum(base, 1e-9) / np.maximum(np.minimum(wrong, alone), 1e-9)).clip(0).sum()
            )
            ranked.append((worth, group))
        ranked.sort(key=lambda pair: -pair[0])
        return [group for worth, group in ranked if worth > WORTH]

    # -- without ------------------------------------------------------------------------------------------------

    def drop(self, head: JudgedHead) -> JudgedHead:
        """Without the entries that bring nothing, as long as the head is no worse; all of them if nobody can judge.

        1. Where objects are goes, if where they are from each other says as much.
        2. Entries go whose shuffling costs nothing.
        3. Entries go whose shuffling costs little. A network that sees an input makes some use of it, needed or not,
           and would be at a loss where that input is unlike what it was in training.
        """
        if not head.seen.any():
            return head
        if absolute := self._absolute(head.spec):
            kept = tuple(name for name in head.spec.inputs if name not in absolute)
            trial = self.fit(dataclasses.replace(head.spec, inputs=kept))
            head = trial if self.no_worse(head, trial) else head
        for minor in (False, True):
            drop = self._unneeded(head, minor=minor)
            for _ in range(TRIES):
                if not drop:
                    break
                kept = tuple(name for name in head.spec.inputs if name not in {*drop})
                trial = self.fit(dataclasses.replace(head.spec, inputs=kept))
                if self.no_worse(head, trial):
                    head, drop = trial, self._unneeded(trial, minor=minor)
                else:
                    drop = drop[: len(drop) // 2]
        return head

    def _absolute(self, spec: HeadSpec) -> set[str]:
        """Entries that say where objects are, of properties whose differences the head sees too."""
        layout, inputs = self.judge.rows.layout(self.shell), self.judge.rows.layout(self.shell).inputs
        entries = layout.chosen(spec.inputs)
        apart = {e.column for e in entries if e.about in ("offset", "between")}
        moving = {column for column in apart if not inputs[layout.property_of(column)].static}
        return {e.name for e in entries if e.about in ("role", "own") and e.column in moving}

    def no_worse(self, head: JudgedHead, trial: JudgedHead) -> bool:
        """Whether held-out transitions do not speak against the smaller head."""
        lost = sparse_improvement(self.gain(trial, head), self.judge.folds.judged)
        return lost.gain <= 0 or lost.p_value > DOUBTFUL

    def _unneeded(self, head: JudgedHead, *, minor: bool) -> list[str]:
        """Entries that the paired test does not ask for, the least useful first; one is always left.

        `minor`: also those that cost little beside the others. Entries are shuffled one by one, and all of one property
        together: an object's place and that of its neighbours may each seem needed, where only their difference is
        seen, and that does not matter.
        """
        layout, names = self.judge.rows.layout(self.shell), head.spec.inputs
        about: dict[int, list[int]] = {}
        for k, entry in enumerate(layout.chosen(names)):
            if entry.about not in ("action", "previous") and entry.column >= 0:
                about.setdefault(layout.property_of(entry.column), []).append(k)
        together = [[k] for k in range(len(names))] + [group for group in about.values() if len(group) > 1]
        costs = self._costs(head, together)
        judged = int((self.judge.folds.judged > 0).sum())
        level = max(0.05, 5.0 / max(judged, 1))
        order = np.argsort([mean for mean, _ in costs], kind="stable")
        little = MINOR * max((mean for mean, _ in costs), default=0.0) if minor else -np.inf
        free = [one for one in order if costs[one][1] >= level or costs[one][0] < little]
        found = [names[k] for one in free for k in together[one]]
        return list(dict.fromkeys(found))[: len(names) - 1]

    def _costs(self, head: JudgedHead, together: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
        """(nats that shuffling some entries together among held-out rows costs, p-value) of each group of entries."""
        judge, rng = self.judge, np.random.default_rng([self.judge.seed, 71])
        rows = np.flatnonzero(head.seen)
        if len(rows) > MOST_SHUFFLED * 4:
            rows = np.sort(rng.choice(rows, MOST_SHUFFLED * 4, replace=False))
        chosen = head.rows[rows]
        x = judge.rows.x(self.shell, head.spec.inputs, chosen)
        y = judge.rows.changes(relative=head.spec.relative)[chosen]
        weight = judge.folds.weights[judge.rows.owner[chosen]]
        held = np.stack([one[judge.rows.owner[chosen]] for one in judge.folds.held])
        times = int(np.clip(MOST_SHUFFLED // len(rows), 1, 5))
        before = self._density(head, x, y, held)
        found = []
        for entries in together:
            after = np.zeros(len(rows))
            for _ in range(times):
                other = x.copy()
                other[:, entries] = x[rng.permutation(len(x))][:, entries]
                after += self._density(head, other, y, held) / times
            cost = np.zeros(len(judge.rows.data))
            np.add.at(cost, judge.rows.owner[chosen], weight * (before - after))
            found.append(paired_improvement(cost, np.zeros_like(cost), judge.folds.judged))
        return found

    def _density(self, head: JudgedHead, x: np.ndarray, y: np.ndarray, held: np.ndarray) -> np.ndarray:
        made = Prepared(head.spec, np.arange(len(x)), x, y, np.ones(len(x)), None, head.scaling)
        units, every = self.judge.looking(made)
        which, density = WIDER.index(head.wider), np.zeros(len(x))
        for fold, weights in enumerate(head.members):
            said = look(weights, every, units)
            part = logsumexp(said.gate + said.log_outcomes[which], axis=1)[: len(x)]
            density = np.where(held[fold], part, density)
        return density


def residuals(head: JudgedHead, y: np.ndarray) -> np.ndarray:
    """What a head gets wrong of every row, standardised: of each value by the outcome that it has, and of outcomes."""
    joint = head.gate + head.log_outcomes
    share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    error = (y[:, None, :] - head.mean) / np.sqrt(head.variance)
    wrong = np.clip((share[:, :, None] * error).sum(axis=1), -5, 5)
    if head.spec.outcomes == 1:
        return wrong
    surprise = share - np.exp(head.gate)
    open_ = np.ptp(surprise, axis=0) > 1e-6
    return np.concatenate([wrong, 3.0 * surprise[:, open_]], axis=1)
