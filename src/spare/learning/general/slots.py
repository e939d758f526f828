"""Which slots get a head: from below, from above, and the dense rule as yardstick.

1. A dense head, over every object but the action's own, shows what can be gained at all beyond the process.
2. From below: pointers from the objects found so far are tried, those first whose members the dense head says most
   about; the one whose head gains most over the process is kept if the paired test supports it.
3. From above: a slot that holds many who do not change is replaced by narrower ones that lose nothing.
4. What the dense head gains on everybody else by the paired test keeps a dense head; a slot on whose members the dense
   head is better than the slot's own is not kept, and none is where the dense head alone says as much.

Every candidate is judged on the same transitions: rows that it does not hold are the process's.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import NamedTuple

import numpy as np

from spare.language.references import EVERYONE, Pointer, Shell, next_pointers
from spare.learning.bindings import Expression, expressions
from spare.learning.general.judge import Everywhere, Judge, JudgedHead
from spare.learning.presets import Heads
from spare.learning.statistics import sparse_improvement
from spare.model.heads import HeadSpec
from spare.model.rows import Entry

TRAINED = 5
"""So many candidates of a round are trained at most."""
MUCH = 0.05
"""The dense head takes over a slot's objects if it is better by this share of what the slot gains: its inputs are not
chosen yet, and the slot is what a person can read."""
STILL = 0.1
"""Nats per value below which a gain may be about how still things are, and no more."""
AS_GOOD = 0.98
"""A narrower slot is as good as a wider one if it has this share of its gain."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A list that was tried: what its last slot gains over the process in nats per judged transition, its objects."""

    shell: Shell
    gain: float
    p_value: float
    rows: int


class SlotRound(NamedTuple):
    """One round of growing: what was tried, which of it was kept (None: nothing), and how long it took."""

    tried: tuple[Candidate, ...]
    kept: int | None
    seconds: float


@dataclasses.dataclass
class Slots:
    """A rule being built: its list, and the slots that have a head, in the order in which they claim objects."""

    shell: Shell
    predicted: list[int]

    def masks(self, judge: Judge) -> dict[int, np.ndarray]:
        """Which rows each slot predicts: the first one that holds a row has it."""
        every, taken, found = judge.rows.bindings.masks(self.shell), np.zeros(len(judge.rows.owner), bool), {}
        for slot in (*range(self.shell.roles), *self.predicted):
            if slot not in found:
                found[slot] = every[slot] & ~taken
                taken |= every[slot]
        return found

    def held(self, judge: Judge) -> np.ndarray:
        """Which rows some slot predicts, (R,)."""
        masks = list(self.masks(judge).values())
        return np.any(masks, axis=0) if masks else np.zeros(len(judge.rows.owner), bool)


class SlotSearch:
    """Finds the slots of one action's rule; `process` is what the process says of all rows, held out."""

    def __init__(self, judge: Judge, process: Everywhere, settings: Heads) -> None:
        self.judge, self.process, self.settings = judge, process, settings
        self.alpha, self.longest = settings.alpha, settings.max_references
        self.rounds: list[SlotRound] = []
        self._bases: dict[bytes, np.ndarray] = {}
        self.dense_gain = 0.0
        """What a head for everyone gains over the process, in nats per judged transition."""
        self.judged = judge.folds.judged
        roles = len(judge.rows.roles)
        self.roles = roles
        shell = Shell(roles, (Pointer(EVERYONE, ()),))
        others = ~judge.rows.acted
        self.dense: JudgedHead | None = None
        if others.any():
            masks = {roles: others}
            specs = [self.spec(shell, roles, 2, True)]
            self.dense = judge.fit(shell, masks, specs)[0]

    def spec(self, shell: Shell, slot: int, outcomes: int = 1, pinned: bool = False) -> HeadSpec:
        """A head with the inputs that every head starts with."""
        return HeadSpec(slot, self.first_inputs(shell, slot), outcomes, pinned)

    def first_inputs(self, shell: Shell, slot: int) -> tuple[str, ...]:
        """The action, its objects, how far they are apart; of a slot's members their own properties and depth.

        Differences are those of properties that change; in a frame, places are differences already.
        """
        layout, framed = self.judge.rows.layout(shell), self.judge.rows.framed
        closure = slot >= shell.roles and self._varied_depth(shell, slot)

        def first(entry: Entry) -> bool:
            if entry.about in ("offset", "between"):
                moving = not framed and not layout.inputs[layout.property_of(entry.column)].static
                return moving and (entry.about == "offset") == (slot >= shell.roles)
            if entry.about in ("own", "depth"):
                own = slot >= shell.roles and (entry.about == "own" or entry.slot == slot)
                return own and (entry.about == "own" or closure)
            return entry.about in ("action", "role")

        return tuple(name for name, entry in layout.entries.items() if first(entry))

    def _varied_depth(self, shell: Shell, slot: int) -> bool:
        return float(self.judge.rows.bindings.depths(shell)[slot].max(initial=0)) > 1

    def base(self, covered: np.ndarray) -> np.ndarray:
        """log p of all rows under the process, with outliers as frequent as among those that nobody covers."""
        key = covered.tobytes()
        if key not in self._bases:
            free = ~covered & self._seen
            self._bases[key] = np.where(self._seen, self.process.log_density(free), 0.0)
        return self._bases[key]

    @functools.cached_property
    def _seen(self) -> np.ndarray:
        """Rows of judged transitions, (R,)."""
        return self.judged[self.judge.rows.owner] > 0

    def better(self, head: JudgedHead, covered: np.ndarray) -> np.ndarray:
        """log density beyond the process's of every row, (R,), if the head is added to what is covered.

        Rows of the head are its own; for all others the process has fewer outliers to reckon with.
        """
        more = covered.copy()
        more[head.rows] = True
        found = np.where(covered, 0.0, self.base(more) - self.base(covered))
        found[head.rows] = np.where(head.seen, head.log_density - self.base(covered)[head.rows], 0.0)
        return found

    def total(self, by_row: np.ndarray) -> np.ndarray:
        """Sums over the rows of each transition, (n,)."""
        return self.judge.rows.per_transition(by_row, np.arange(len(by_row)))

    def gain_of_slot(self, head: JudgedHead) -> np.ndarray:
        """What a head gains on its own rows over a process that it leaves the others to, by transition, (n,)."""
        own = np.zeros(len(self._seen), bool)
        own[head.rows] = True
        found = np.zeros(len(own))
        found[head.rows] = np.where(head.seen, head.log_density - self.base(~own)[head.rows], 0.0)
        return self.total(found)

    @functools.cached_property
    def start(self) -> float:
        """-log p of judged transitions under the process alone, nats per transition."""
        total = self.total(self.base(np.zeros(len(self._seen), bool)))
        return -float(self.judged @ total / max(self.judged.sum(), 1e-300))

    def test(self, gain: np.ndarray) -> tuple[float, float]:
        """(mean gain in nats per judged transition, p-value that there is one)."""
        return sparse_improvement(gain, self.judged)

    # -- from below ---------------------------------------------------------------------------------------------

    def grow(self, slots: Slots, banned: frozenset[Expression] = frozenset()) -> tuple[Slots, np.ndarray]:
        """Add slots as long as the paired test supports the best; returns them and their total gain (n,)."""
        total = np.zeros(len(self.judged))
        while len(slots.predicted) < self.longest:
            found = self._round(slots, banned)
            if found is None:
                break
            slots, gained = found
            total = total + gained
        return slots, total

    def _round(self, slots: Slots, banned: frozenset[Expression]) -> tuple[Slots, np.ndarray] | None:
        begin = time.perf_counter()
        covered = slots.held(self.judge)
        candidates = self._candidates(slots, covered, banned)
        shells = [slots.shell.extend(pointer) for pointer, _ in candidates]
        specs = [self.spec(shell, shell.slots - 1, 2, True) for shell in shells]
        heads = []
        for (_, mask), shell, spec in zip(candidates, shells, specs, strict=True):
            heads += self.judge.fit(shell, {spec.slot: mask}, [spec])
        better = [self.better(head, covered) for head in heads]
        gains = [self.total(one) for one in better]
        tests = [self.test(gain) for gain in gains]
        tried = tuple(
            Candidate(shell, test[0], test[1], len(head.rows))
            for shell, head, test in zip(shells, heads, tests, strict=True)
        )
        kept = [k for k, head in enumerate(heads) if self.helps(better[k], head.rows)]
        if not kept:
            self.rounds.append(SlotRound(tried, None, time.perf_counter() - begin))
            return None
        best = max(kept, key=lambda k: tests[k][0])
        rivals = [k for k in kept if self._as_good(gains[k], gains[best])]
        chosen = min(rivals, key=lambda k: (len(heads[k].rows), k))
        shell = shells[chosen]
        self.rounds.append(SlotRound(tried, chosen, time.perf_counter() - begin))
        return Slots(shell, [*slots.predicted, shell.slots - 1]), gains[chosen]

    def _as_good(self, gain: np.ndarray, best: np.ndarray) -> bool:
        mean, top = self.test(gain)[0], self.test(best)[0]
        worse = self.test(best - gain)
        return mean >= AS_GOOD * top or (mean >= 0.9 * top and worse[1] > 0.2)

    def _candidates(
        self, slots: Slots, covered: np.ndarray, banned: frozenset[Expression]
    ) -> list[tuple[Pointer, np.ndarray]]:
        """Pointers that hold somebody new, those first whose members the dense head says most about."""
        bindings, found, seen = self.judge.rows.bindings, [], set()
        reach = [*range(self.roles), *slots.predicted]
        for pointer in next_pointers(self.judge.rows.data.domain.references, slots.shell.slots):
            if any(slot not in reach for slot in pointer.arguments):
                continue
            expression = expressions(slots.shell.extend(pointer))[-1]
            mask = bindings.after(slots.shell, pointer) & ~covered
            key = mask.tobytes()
            if not mask.any() or key in seen or expression in banned:
                continue
            seen.add(key)
            found.append((pointer, mask))
        if self.dense is None or len(found) <= TRAINED:
            return found
        dense = self.better(self.dense, covered)
        order = sorted(range(len(found)), key=lambda k: -float(dense[found[k][1]].sum()))
        return [found[k] for k in order[:TRAINED]]

    # -- from above ---------------------------------------------------------------------------------------------

    def narrow(self, slots: Slots, total: np.ndarray) -> tuple[Slots, np.ndarray]:
        """Other slots in place of one that holds many who do not change, if they lose nothing and hold fewer."""
        for slot in list(slots.predicted):
            mask = slots.masks(self.judge)[slot]
            if self._changed(mask) > 0.8:
                continue
            expression = expressions(slots.shell)[slot]
            start = Slots(Shell(self.roles), [])
            other, gained = self.grow(start, frozenset([expression]))
            held, had = (one.held(self.judge).sum() for one in (other, slots))
            if held < had and self._as_good(gained, total):
                slots, total = other, gained
        return slots, total

    def _changed(self, mask: np.ndarray) -> float:
        """The share of these rows that changed."""
        return float(self.changed[mask].mean()) if mask.any() else 1.0

    @functools.cached_property
    def changed(self) -> np.ndarray:
        """Which rows changed beyond their resolution and what rests, (R,)."""
        return self.judge.moved(self.judge.rows.y)

    def find(self) -> Slots:
        """All of it: grow, narrow, and a dense head for the rest where it is needed (or for all, if asked for)."""
        nothing = Slots(Shell(self.roles), [])
        if self.dense is None or self.longest == 0:
            return nothing
        better = self.better(self.dense, self.judge.rows.acted)
        self.dense_gain = self.test(self.total(better))[0]
        helps = self.helps(better, self.dense.rows)
        if self.settings.dense:
            return self._with_dense(nothing) if helps else nothing
        slots, total = self.grow(nothing)
        slots, total = self.narrow(slots, total)
        slots = self._worth_it(slots)
        if not self._dense_left(slots):
            return slots
        return self._with_dense(slots if self._beside_dense(slots) else nothing)

    def _beside_dense(self, slots: Slots) -> bool:
        """Whether slots say more of their members than the dense head, which is there anyway: one head is simpler."""
        assert self.dense is not None
        masks, gain = slots.masks(self.judge), np.zeros(len(self.judged))
        for slot in slots.predicted:
            if masks[slot].any():
                head = self.judge.fit(slots.shell, masks, [self.spec(slots.shell, slot, 2, True)])[0]
                gain += self.total(self._beyond(head, self.dense))
        mean, p_value = self.test(gain)
        return mean > 0 and p_value < self.alpha

    def _dense_left(self, slots: Slots) -> bool:
        """Whether the dense head gains on everybody else, and on those of them that changed."""
        assert self.dense is not None
        held = slots.held(self.judge)
        return self.helps(self._over(self.dense, held), np.flatnonzero(~held))

    def _over(self, head: JudgedHead, covered: np.ndarray) -> np.ndarray:
        """log density of a head's rows beyond that of the process of what is not covered, (R,)."""
        found = np.zeros(len(covered))
        found[head.rows] = np.where(head.seen, head.log_density - self.base(covered)[head.rows], 0.0)
        return found

    def _beyond(self, head: JudgedHead, other: JudgedHead) -> np.ndarray:
        """log density of a head beyond another's, (R,), where both are judged: of many rows each sees a sample."""
        parts = np.full((2, len(self._seen)), np.nan)
        for part, one in zip(parts, (head, other), strict=True):
            part[one.rows[one.seen]] = one.log_density[one.seen]
        more = parts[0] - parts[1]
        return np.where(np.isnan(more), 0.0, more)

    def helps(self, better: np.ndarray, rows: np.ndarray) -> bool:
        """Whether the paired test supports what is gained, and on these rows it is more than how still things are.

        It is if much is gained per value of them, or if something is gained on those rows that changed; these may be
        few, so the test asks less of them alone.
        """

        def supported(gain: np.ndarray, level: float) -> bool:
            mean, p_value = self.test(gain)
            return mean > 0 and p_value < level

        changed, seen = rows[self.changed[rows]], rows[self._seen[rows]]
        if not len(seen) or not supported(self.total(better), self.alpha):
            return False
        much = better[seen].mean() > STILL * self.judge.rows.y.shape[1]
        return bool(much or supported(self.judge.rows.per_transition(better[changed], changed), 5 * self.alpha))

    def _worth_it(self, slots: Slots) -> Slots:
        """Without slots on whose members the dense head is better than their own."""
        assert self.dense is not None
        covered = slots.held(self.judge)
        kept = []
        for slot in slots.predicted:
            mask = slots.masks(self.judge)[slot]
            if not mask.any():
                continue
            head = self.judge.fit(slots.shell, {slot: mask}, [self.spec(slots.shell, slot, 2, True)])[0]
            mean, p_value = self.test(self.total(self._beyond(self.dense, head)))
            gained = self.test(self.total(self._over(head, covered)))[0]
            if not (mean > MUCH * gained and p_value < self.alpha):
                kept.append(slot)
        return Slots(slots.shell, kept)

    def _with_dense(self, slots: Slots) -> Slots:
        shell = slots.shell.extend(Pointer(EVERYONE, ()))
        return Slots(shell, [*slots.predicted, shell.slots - 1])
