"""What a search looked at, round by round, and what it found; and how a live view hears of it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from spare.content import ByContent
from spare.language.domain import Domain
from spare.language.references import Shell
from spare.learning.train import Fitted
from spare.model.model import Model


@dataclasses.dataclass(frozen=True, eq=False)
class Explored(ByContent):
    """One pair of lists that the search looked at.

    loss, train_loss: mean -log p in nats per transition on validation and training samples; default_deviation (Q,):
    the rule's deviation for what it does not predict, resolution included; applies: the share of samples it covers;
    note: why it was not trained, else empty.
    """

    gamma: Shell
    delta: Shell
    loss: float = np.nan
    train_loss: float = np.nan
    default_deviation: tuple[float, ...] = ()
    applies: float = 0.0
    note: str = ""

    @property
    def trained(self) -> bool:
        """Whether the rule was trained, or skipped for the reason in `note`."""
        return not self.note


@dataclasses.dataclass(frozen=True, eq=False)
class Round(ByContent):
    """One round: what was explored, its best, whether that was kept, and the paired test against the round before."""

    explored: tuple[Explored, ...]
    best: Explored | None
    accepted: bool
    improvement: float
    p_value: float
    seconds: float
    build: Callable[[], Model] | None = dataclasses.field(compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to other processes: the model itself, in place of the search that could make it."""
        return {**vars(self), "build": None, "model": self.model}

    @functools.cached_property
    def model(self) -> Model | None:
        """The round's best as a model, made when it is first asked for; None if nothing was trained."""
        return self.build() if self.build is not None else None


@dataclasses.dataclass(frozen=True, eq=False)
class SearchResult(ByContent):
    """The lists found, the trained rule, and how the search went.

    fitted: the trained rule and the one with empty lists; rounds: round 0 has empty lists, then growth, pruning
    and exchanges of sets; explored: every candidate that was trained, inner searches included; losses (n,): -log p of
    every sample under the result, whether its rule applies or not. Losses treat values as
    independent: the copula is learned after the lists are found and is not included.
    """

    action: str
    best: Explored
    fitted: tuple[Fitted, Fitted]
    rounds: tuple[Round, ...]
    explored: tuple[Explored, ...]
    losses: np.ndarray
    model: Model


@runtime_checkable
class Listener(Protocol):
    """Hears how a search goes, for live views."""

    def round_started(self, number: int, candidates: int) -> None:
        """A round begins with so many candidates to train."""
        ...

    def candidate_done(self, explored: Explored) -> None:
        """A candidate was trained."""
        ...

    def round_ended(self, number: int, round_: Round) -> None:
        """A round's verdict."""
        ...

    def step_started(self, text: str) -> None:
        """The lists are found; now this is done with them."""
        ...

    def step_ended(self, text: str, seconds: float) -> None:
        """What came of it."""
        ...


@runtime_checkable
class EMResult(Protocol):
    """What EM found for one action: `many.ManyResult`, whose history holds `em.Iteration`."""

    @property
    def action(self) -> str:
        """The action's name."""
        ...

    @property
    def history(self) -> Sequence[Any]:
        """The iterations."""
        ...


@runtime_checkable
class SlotsFound(Protocol):
    """What the general learner found for one action: `general.learn.GeneralResult`."""

    @property
    def action(self) -> str:
        """The action's name."""
        ...

    @property
    def start(self) -> float:
        """The loss before any slot had a head."""
        ...

    @property
    def slot_rounds(self) -> Sequence[Any]:
        """The rounds of the search for slots."""
        ...


def describe_history(history: Iterable[SearchResult | EMResult | SlotsFound], domain: Domain) -> list[dict[str, Any]]:
    """The searches of a fit as JSON values, one per action: `rounds` of candidates, or `iterations` of EM.

    A round has its move (start, grow, drop, replace), the best lists and their loss, whether they were kept, the gain
    over the round before with its p-value, and every candidate; losses are mean -log p of validation samples in nats
    per transition. `found` and `ended` say what a search found and why it stopped. Numbers that do not exist are None.
    """
    found = []
    for one in history:
        roles = domain.action(one.action).objects
        if isinstance(one, SlotsFound):
            found.append(_describe_slots(one, roles))
        elif isinstance(one, SearchResult):
            rounds = [_describe_round(round_, previous, roles) for previous, round_ in _with_previous(one.rounds)]
            ended = {"found": one.best.gamma.show(roles), "ended": _ended(one.rounds)}
            found.append({"action": one.action, "rounds": rounds, **ended})
        else:
            steps = [_describe_step(step, roles) for step in one.history]
            found.append({"action": one.action, "iterations": steps})
    return found


def _describe_slots(one: SlotsFound, roles: tuple[str, ...]) -> dict[str, Any]:
    """Rounds in the same form: the loss of a list is that before it less what its last slot gains."""
    loss, shown = one.start, "-"
    blank = {"delta": "", "train_loss": None, "default_deviation": [], "applies": 1.0, "skipped": None}
    start = {"gamma": shown, "loss": _number(loss), **blank, "delta": shown}
    rounds: list[dict[str, Any]] = [_slot_round("start", shown, loss, True, [start])]
    for done in one.slot_rounds:
        tried = []
        for candidate in done.tried:
            text = candidate.shell.show(roles)
            tried.append({"gamma": text, "loss": _number(loss - candidate.gain), **blank, "delta": text})
        which = (
            done.kept
            if done.kept is not None
            else max(range(len(tried)), key=lambda k: done.tried[k].gain, default=None)
        )
        if which is None:
            continue
        best = done.tried[which]
        text, kept = best.shell.show(roles), done.kept is not None
        one_round = _slot_round("grow", text, loss - best.gain, kept, tried)
        test = {"gain": _number(best.gain), "p_value": _number(best.p_value), "seconds": round(done.seconds, 2)}
        rounds.append(one_round | test)
        if kept:
            loss, shown = loss - best.gain, text
    ended = "no further reference points at objects whose changes it helps to predict"
    return {"action": one.action, "rounds": rounds, "found": shown, "ended": ended}


def _slot_round(move: str, best: str, loss: float, kept: bool, tried: list[dict[str, Any]]) -> dict[str, Any]:
    """A round without its test and its time."""
    return {
        "move": move,
        "best": best,
        "changes": best,
        "loss": _number(loss),
        "default_deviation": [],
        "kept": kept,
        "gain": 0.0,
        "p_value": 0.0,
        "seconds": 0.0,
        "explored": tried,
    }


def _with_previous(rounds: Sequence[Round]) -> list[tuple[int | None, Round]]:
    """(length of the list that was kept before, None at the start; round)."""
    found, size = [], None
    for one in rounds:
        found.append((size, one))
        if one.accepted and one.best is not None:
            size = len(one.best.gamma)
    return found


def _describe_round(one: Round, previous: int | None, roles: tuple[str, ...]) -> dict[str, Any]:
    best = one.best
    longer = 1 if best is None or previous is None else len(best.gamma) - previous
    return {
        "move": "start" if previous is None else "grow" if longer > 0 else "drop" if longer < 0 else "replace",
        "best": best and best.gamma.show(roles),
        "changes": best and best.delta.show(roles),
        "loss": best and _number(best.loss),
        "default_deviation": best and list(best.default_deviation),
        "kept": one.accepted,
        "gain": _number(one.improvement),
        "p_value": _number(one.p_value),
        "seconds": round(one.seconds, 2),
        "explored": [_describe_candidate(explored, roles) for explored in one.explored],
    }


def _describe_candidate(one: Explored, roles: tuple[str, ...]) -> dict[str, Any]:
    """`skipped` says why a candidate was not trained."""
    return {
        "gamma": one.gamma.show(roles),
        "delta": one.delta.show(roles),
        "loss": _number(one.loss),
        "train_loss": _number(one.train_loss),
        "default_deviation": list(one.default_deviation),
        "applies": round(one.applies, 4),
        "skipped": one.note or None,
    }


def _describe_step(one: Any, roles: tuple[str, ...]) -> dict[str, Any]:
    """Likelihood, the share of samples of each rule, and the weights of its five heaviest lists."""
    return {
        "iteration": one.number,
        "log_likelihood": _number(one.log_likelihood),
        "change": _number(one.change) if one.number else None,
        "starved": list(one.starved),
        "shells": [{s.show(roles): round(float(w[s]), 4) for s in w.top(5)} for w in one.shells],
        "shares": [round(float(share), 4) for share in one.memberships.mean(axis=0)],
    }


def _ended(rounds: Sequence[Round]) -> str:
    """Why the search stopped."""
    last = rounds[-1]
    if len(rounds) == 1:
        return "there is no reference to try"
    if not any(one.trained for one in last.explored):
        return "every further reference points at nothing, or at objects that are in the list already"
    if last.accepted:
        return "the list has its largest length"
    return (
        f"no other list explains validation samples better: the best one gains {last.improvement:+.2f} nats "
        f"(p = {last.p_value:.2g})"
    )


def _number(value: float) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None
