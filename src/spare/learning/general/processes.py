"""What happens to objects by themselves, whatever is done.

An object stays, drifts, follows a net of its own properties, or a net of those and of whom references find from it. The
levels are tried in this order, over all transitions and all objects that no action names; the next one is taken if the
paired test over held-out transitions supports it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from spare.data.experience import Experience
from spare.data.precision import origins
from spare.language.references import EVERYONE, Pointer, Shell
from spare.learning.bindings import Bindings
from spare.learning.general.inputs import InputSearch, around
from spare.learning.general.judge import Everywhere, Judge, JudgedHead, Trainer
from spare.learning.general.rows import ActionRows, Folds, action_rows, rows_of
from spare.learning.statistics import paired_improvement
from spare.model.heads import HeadSpec

LEVELS = ("stay", "drift", "net")
LITTLE = 0.1
"""Nats per value by which whoever sees the action may be better about an object that a process explains."""


@dataclasses.dataclass(frozen=True)
class Process:
    """The process that was chosen, with what it says of every object row, held out, and the change that it expects.

    said: densities of all rows; expected (R, Q); rest (Q,): variance of what follows the process.
    """

    level: str
    spec: HeadSpec
    said: Everywhere
    expected: np.ndarray
    rest: np.ndarray


def process_rows(data: Experience) -> ActionRows:
    """All object rows in the world's coordinates; their changes are y."""
    nothing = np.zeros((len(data.values), len(data.domain.dynamic)))
    zeros = origins(data.domain, data.numbers, 0)
    return ActionRows(Bindings(data, data.domain.actions[0].name), False, nothing, zeros)


def acted_rows(data: Experience) -> np.ndarray:
    """Which rows are objects of their transition's action, (R,)."""
    mask = np.zeros(len(data.values), bool)
    for index, action in enumerate(data.domain.actions):
        chosen = np.flatnonzero(data.action == index)
        for role in range(len(action.objects)):
            mask[data.offsets[chosen] + data.objects[chosen, role]] = True
    return mask


def level_spec(level: str, rows: ActionRows) -> HeadSpec:
    """The head of a level as it starts: pinned, constant, or a net of own properties."""
    entries = rows.layout(Shell(len(rows.roles))).entries
    own = tuple(name for name, entry in entries.items() if entry.about == "own")
    return {"stay": HeadSpec(0, (), 1, True), "drift": HeadSpec(0), "net": HeadSpec(0, own)}[level]


def rest_of(y: np.ndarray, resolutions: np.ndarray) -> np.ndarray:
    """A robust first guess at the variance of what rests, (Q,)."""
    middle = np.median(y, axis=0) if len(y) else np.zeros(len(resolutions))
    spread = 1.4826 * np.median(np.abs(y - middle), axis=0) if len(y) else resolutions
    return np.maximum(np.square(spread) - np.square(resolutions), np.square(0.03 * resolutions))


def find_process(data: Experience, folds: Folds, trainer: Trainer, alpha: float, *, moving: bool = True) -> Process:
    """The simplest process that explains held-out objects as well as the next one; without `moving`, "stays"."""
    rows, others = process_rows(data), ~acted_rows(data)
    resolutions = data.domain.resolutions
    if not others.any():
        others = ~others
    rest = rest_of(rows.filled(rows.y, np.arange(len(rows.y)))[others], resolutions)
    judge = Judge(rows, folds, trainer, rest=rest)
    shell = Shell(len(rows.roles))
    best, level = judge.fit(shell, {0: others}, [level_spec("stay", rows)])[0], "stay"
    stays = best
    if not moving:
        return described(judge, shell, best, level)
    for one in LEVELS[1:]:
        trial = judge.fit(shell, {0: others}, [level_spec(one, rows)])[0]
        if _supported(judge, best, trial, alpha) and _enough(data, judge, trial, stays):
            best, level = trial, one
    best, level = _pointing(judge, shell, best, level, stays, alpha)
    return described(judge, shell, best, level)


def needed(data: Experience, process: Process, left: np.ndarray, folds: Folds, trainer: Trainer, alpha: float) -> bool:
    """Whether a process says more than "stays" of the rows that no head predicts (`left`).

    Before anybody knows whom an action moves, a process may have guessed at some of them.
    """
    if process.level == "stay" or not left.any():
        return True
    rows = process_rows(data)
    judge, shell = Judge(rows, folds, trainer, rest=process.rest), Shell(len(rows.roles))
    old, new = judge.fit(shell, {0: left}, [level_spec("stay", rows), process.spec])
    return _supported(judge, old, new, alpha)


def _pointing(
    judge: Judge, shell: Shell, best: JudgedHead, level: str, stays: JudgedHead, alpha: float
) -> tuple[JudgedHead, str]:
    """The process with inputs about those whom references find from an object, where they earn their place."""
    mask = np.zeros(len(judge.rows.owner), bool)
    mask[best.rows] = True
    search = InputSearch(judge, shell, {0: mask}, alpha)
    start = search.fit(level_spec("net", judge.rows))
    found = search.add(start, around(judge.rows, judge.rows.layout(shell), alone=True))
    if found.spec == start.spec or not _supported(judge, best, found, alpha):
        return best, level
    if not _enough(judge.rows.data, judge, found, stays):
        return best, level
    return search.drop(found), "net"


def _supported(judge: Judge, old: JudgedHead, new: JudgedHead, alpha: float) -> bool:
    """Whether the paired test asks for the new level, for its mean alone, and most objects gain.

    An action that moves many makes every richer density look better; a process must say where objects go, with a
    noise that is the same for all, and be right about most of them.
    """
    rows = judge.rows
    y = rows.y[new.rows]
    kinds = [1 if head.spec.free else 0 for head in (old, new)]
    before, after = (head.mean[:, kind] for head, kind in zip((old, new), kinds, strict=True))
    spread = np.maximum(old.variance[:, kinds[0]], 1e-30)

    def robust(mean: np.ndarray) -> np.ndarray:
        score = np.square(y - mean) / spread
        return -2.0 * np.log1p(score / 3.0).sum(axis=1)

    centred = np.where(new.seen, robust(after) - robust(before), 0.0)
    whole = np.where(new.seen, new.log_density - old.log_density, 0.0)
    for gain in (whole, centred):
        total = rows.per_transition(gain, new.rows)
        mean, p_value = paired_improvement(np.zeros_like(total), -total, judge.folds.judged)
        if not (mean > 0 and p_value < alpha):
            return False
    return bool((centred[new.seen & _gaining(rows, new, centred)] > 0).mean() > 0.5)


def _gaining(rows: ActionRows, new: JudgedHead, gain: np.ndarray) -> np.ndarray:
    """Which rows of a head are of a type that gains at all: a process may be one type's alone."""
    types = rows.data.types[new.rows]
    if not rows.data.domain.types:
        return np.ones(len(types), bool)
    total = np.bincount(types, np.where(new.seen, gain, 0.0), minlength=len(rows.data.domain.types))
    return total[types] > 0


def _enough(data: Experience, judge: Judge, new: JudgedHead, stays: JudgedHead) -> bool:
    """Whether most of what a process explains is not explained better by whoever sees the action as well.

    Where objects move because of what is done, a process that guesses from how they stand is right about some of it; a
    head for everyone that sees the action and the same inputs is then better about the very objects that move.
    """
    gained = np.where(new.seen, new.log_density - stays.log_density, 0.0)
    behind, base = np.zeros(len(judge.rows.owner)), np.zeros(len(judge.rows.owner))
    base[new.rows] = new.log_density
    for index in np.unique(data.action):
        rows = action_rows(data, int(index), np.zeros_like(judge.rows.y))
        here = rows_of(data, np.flatnonzero(data.action == index))
        folds = Folds(judge.folds.held[:, data.action == index], judge.folds.weights[data.action == index])
        own = Judge(rows, folds, judge.trainer, rest=judge.rest)
        shell = Shell(len(rows.roles), (Pointer(EVERYONE, ()),))
        entries = rows.layout(shell).entries.items()
        names = tuple(
            name
            for name, e in entries
            if e.about in ("action", "role", "own")
            or (e.about == "offset" and not rows.framed)
            or (e.about == "around" and name in new.spec.inputs)
        )
        others = ~rows.acted
        if not others.any():
            continue
        head = own.fit(shell, {shell.roles: others}, [HeadSpec(shell.roles, names, 2, True)])[0]
        behind[here[head.rows]] = np.where(head.seen, head.log_density - base[here][head.rows], 0.0)
    weight = np.clip(gained, 0.0, 10.0)
    return weighted_median(behind[new.rows], weight) <= LITTLE * judge.rows.y.shape[1]


def weighted_median(numbers: np.ndarray, weight: np.ndarray) -> float:
    """The number below which half of the weight lies."""
    order = np.argsort(numbers, kind="stable")
    total = np.cumsum(weight[order])
    return float(numbers[order][np.searchsorted(total, 0.5 * total[-1])]) if total[-1] > 0 else np.inf


def described(judge: Judge, shell: Shell, head: JudgedHead, level: str) -> Process:
    """The process, with what it says of every object row."""
    rows = judge.rows
    said = judge.everywhere(shell, head)
    expected = np.zeros_like(rows.y) if level == "stay" else said.mean
    rest = np.maximum(rows.mean_held(said.variance) - np.square(rows.data.domain.resolutions), 0.0)
    return Process(level, head.spec, said, expected, rest)
