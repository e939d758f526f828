"""Object rows of one action's transitions, as heads see and predict them.

A row is one object of one transition. `ActionRows` has, in the action's frame where it has one, what is seen of every
row before the action, by how much it changed beyond what its process expects (y), and the same in the frame's mirror.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from spare.data.experience import Experience
from spare.data.precision import origins
from spare.language.frames import mirrored, to_frame
from spare.language.references import Pointer, Shell
from spare.learning.bindings import Bindings, Expression, expressions
from spare.learning.dataset import ObservedRows, action_poses, observe_rows
from spare.learning.folds import fold_masks
from spare.model.features import ExperienceSlots, Observed
from spare.model.rows import RowLayout
from spare.model.watched import origins_in

JUDGED = 250
"""How many transitions a paired test should rest on."""
MOST_FOLDS = 6
MOST_HELD_OUT = 50


@dataclasses.dataclass(frozen=True)
class Folds:
    """held (F, n): which transitions each fold holds out; `judged` (n,): those that some fold holds out, weighted."""

    held: np.ndarray
    weights: np.ndarray

    @classmethod
    def of_search(cls, weights: np.ndarray, validation: float, seed: int) -> Folds:
        """As many folds as bring the judged transitions to a number that a test can rest on."""
        n = len(weights)
        held = max(1, round(validation * n))
        count = int(np.clip(-(-JUDGED // held), 1, min(MOST_FOLDS, max(1, n // held))))
        return cls(fold_masks(n, validation, count, seed), weights)

    @classmethod
    def of_ensemble(cls, weights: np.ndarray, validation: float, members: int, seed: int) -> Folds:
        """One for each member, which hold out other transitions each, at most 50."""
        n = len(weights)
        share = max(min(validation, MOST_HELD_OUT / n), 1.0 / n)
        return cls(fold_masks(n, share, members, seed + 1), weights)

    @property
    def judged(self) -> np.ndarray:
        """Weights of the transitions that are judged by members that did not see them."""
        return np.where(self.held.any(axis=0), self.weights, 0.0)


@dataclasses.dataclass(frozen=True, eq=False)
class ActionRows:
    """R object rows of n transitions of one action; `expected` (R, Q) is the change that the process expects.

    `origins`: what properties and parameters are counted from, where 32 bits would lose digits of them.
    `previous`: by closure, the change expected of those one step before each row (R, Q), as `recursion.py` found it.
    """

    bindings: Bindings
    framed: bool
    expected: np.ndarray
    origins: tuple[float, ...] = ()
    previous: dict[Expression, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def data(self) -> Experience:
        """The transitions."""
        return self.bindings.experience

    @property
    def action(self) -> str:
        """The action's name."""
        return self.bindings.action

    @functools.cached_property
    def owner(self) -> np.ndarray:
        """The transition of each row."""
        return self.data.owner

    @functools.cached_property
    def roles(self) -> tuple[str, ...]:
        """Names of the action's objects."""
        return self.data.domain.action(self.action).objects

    @functools.cached_property
    def acted(self) -> np.ndarray:
        """Which rows are the action's own objects, (R,)."""
        return np.asarray(self.bindings.masks(Shell(len(self.roles))).any(axis=0))

    @functools.cached_property
    def mirror(self) -> bool:
        """Whether the mirror image in the frame is as good as another sample."""
        frame = self.data.domain.action(self.action).frame
        return self.framed and frame is not None and frame.mirror

    @functools.cached_property
    def observed(self) -> ObservedRows:
        """Rows before and after, in the predictor's coordinates."""
        return observe_rows(self.data, self.action, self.framed, origins=self._origins)

    @functools.cached_property
    def reflected(self) -> ObservedRows:
        """The same in the frame's mirror."""
        return observe_rows(self.data, self.action, self.framed, mirror=True, origins=self._origins)

    @functools.cached_property
    def _origins(self) -> Observed | None:
        return origins_in(self.layout(Shell(len(self.roles))), self.origins)

    def _start(self, relative: bool) -> np.ndarray:
        """Where a change begins, (R, Q), in the predictor's coordinates: where a row is, or its process expects it."""
        data, template = self.data, self.data.domain.action(self.action)
        there = data.values[:, list(data.domain.dynamic)].astype(np.float64) + (self.expected if relative else 0.0)
        if self._origins is not None:
            there = there - self._origins.values[list(data.domain.dynamic)]
        if not self.framed or template.frame is None:
            return there
        pose = action_poses(data, self.action)
        assert pose is not None
        return to_frame(there, template.frame.columns(data.domain.dynamic_names), pose.at(self.owner))

    @functools.cached_property
    def y(self) -> np.ndarray:
        """The change of every row beyond what its process expects, (R, Q) float64."""
        return self.changes(relative=True)

    @functools.lru_cache(maxsize=4)  # noqa: B019 - as long as the rows themselves
    def changes(self, *, relative: bool, mirror: bool = False) -> np.ndarray:
        """The change of every row, beyond what its process expects if `relative`; in the frame's mirror if asked."""
        start = self._start(relative)
        if not mirror:
            return self.observed.after - start
        frame = self.data.domain.action(self.action).frame
        assert frame is not None
        return self.reflected.after - mirrored(start, frame.columns(self.data.domain.dynamic_names))

    @functools.cached_property
    def held(self) -> np.ndarray | None:
        """Which of the properties that can change each row has, (R, Q); None if all have all."""
        found = self.data.held[:, list(self.data.domain.dynamic)]
        return None if found.all() else found

    def held_of(self, rows: np.ndarray) -> np.ndarray | None:
        """The same of these rows."""
        return None if self.held is None else self.held[rows]

    def volume(self, scale: np.ndarray, rows: np.ndarray) -> np.ndarray | float:
        """Sum of log scales over the properties that each of these rows has; one number if all have all."""
        return np.log(scale).sum() if self.held is None else self.held[rows] @ np.log(scale)

    def filled(self, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Changes of these rows for statistics: where a row lacks a property, that of another row stands in."""
        mine = self.held_of(rows)
        if mine is None:
            return y
        found = y.copy()
        for q in range(y.shape[1]):
            others = y[mine[:, q], q]
            empty = np.flatnonzero(~mine[:, q])
            found[empty, q] = others[np.arange(len(empty)) % len(others)] if len(others) else 0.0
        return found

    def mean_held(self, numbers: np.ndarray) -> np.ndarray:
        """Means (Q,) of numbers (R, Q) over the rows that have each property."""
        if self.held is None:
            return numbers.mean(axis=0)
        count = np.maximum(self.held.sum(axis=0), 1)
        return np.where(self.held, numbers, 0.0).sum(axis=0) / count

    def layout(self, shell: Shell) -> RowLayout:
        """The entries that heads of a rule with this list may see."""
        return RowLayout(self.data.domain, self.action, shell, self.framed)

    def slots(self, shell: Shell, *, mirror: bool = False) -> ExperienceSlots:
        """Who is in each slot of every transition; expected changes in the frame's mirror if asked."""
        data, starts = self.data, self.data.offsets[:-1]
        objects = starts[:, None] + data.objects
        masks = self.bindings.masks(shell)
        before = {k: self.previous[one] for k, one in enumerate(expressions(shell)) if one in self.previous}
        if mirror and before:
            frame = self.data.domain.action(self.action).frame
            assert frame is not None
            columns = frame.columns(self.data.domain.dynamic_names)
            before = {slot: mirrored(change, columns) for slot, change in before.items()}
        depths = self.bindings.depths(shell)
        return ExperienceSlots(objects, masks, starts, self.owner, depths, self.bindings.pairs, before)

    def x(self, shell: Shell, names: Sequence[str], rows: np.ndarray, *, mirror: bool = False) -> np.ndarray:
        """x (rows, D) float64."""
        seen = self.reflected if mirror else self.observed
        return self.layout(shell).x(tuple(names), seen.before, self.slots(shell, mirror=mirror), rows)

    def per_transition(self, numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Sums of numbers of these rows over each transition, (n,)."""
        return np.bincount(self.owner[rows], numbers, minlength=len(self.data))


def pointer_name(shell: Shell, slot: int, roles: Sequence[str]) -> str:
    """`above(above(target))`: what a slot stands for, in terms of the action's objects."""
    if slot < shell.roles:
        return roles[slot]
    pointer: Pointer = shell.pointers[slot - shell.roles]
    return f"{pointer.reference}({', '.join(pointer_name(shell, one, roles) for one in pointer.arguments)})"


def rows_of(data: Experience, transitions: np.ndarray) -> np.ndarray:
    """Object rows of these transitions."""
    wanted = np.zeros(len(data), bool)
    wanted[transitions] = True
    return np.flatnonzero(wanted[data.owner])


def action_rows(data: Experience, index: int, expected: np.ndarray) -> ActionRows:
    """The rows of one action's transitions, in its frame if it has one."""
    chosen = np.flatnonzero(data.action == index)
    action, mine = data.domain.actions[index], expected[rows_of(data, chosen)]
    # Properties are counted from the same numbers whatever the action is: all rules share a process.
    zeros = origins(data.domain, data.numbers, index)
    return ActionRows(Bindings(data[chosen], action.name), action.frame is not None, mine, zeros)
