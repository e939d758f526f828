"""GreedySelect (section 4.2, algorithm 1): grow the reference lists of one rule, one pointer at a time.

1. Train the rule with empty lists; its validation loss is L_0.
2. Train every legal extension of the current lists; the one with the smallest validation loss is the round's best.
3. If it is an improvement (by any amount, or one that a paired test supports), keep it and go on; otherwise stop.
4. Optionally prune: drop pointers that nothing depends on and that the paired test does not ask for; climb again.

Every explored pair of lists stays in the result, with its loss and its default deviations.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from spare.errors import FitError
from spare.learning.extract import Extractor, Table, default_variance
from spare.learning.fit import Fitted, Pair, Plan, fit_predictors
from spare.learning.statistics import paired_improvement, weighted_mean
from spare.model import Model
from spare.references import Pointer, Shell, next_pointers


@dataclasses.dataclass(frozen=True)
class Explored:
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


@dataclasses.dataclass(frozen=True)
class Round:
    """One round: what was explored, its best, whether that was kept, and the paired test against the round before."""

    explored: tuple[Explored, ...]
    best: Explored | None
    accepted: bool
    improvement: float
    p_value: float
    seconds: float
    model: Model | None


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The lists found, the trained rule, and how the search went.

    fitted: the trained rule and the one with empty lists; rounds: round 0 has empty lists, then growth and pruning;
    explored: every candidate that was trained, inner searches included; losses (n,): -log p of every sample under
    the result, whether its rule applies or not.
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


@dataclasses.dataclass(frozen=True)
class _Trial:
    """A trained candidate with its loss on every sample (those the rule does not cover included)."""

    explored: Explored
    fitted: Fitted
    losses: np.ndarray

    @property
    def pair(self) -> Pair:
        """(Gamma, Delta)."""
        return self.explored.gamma, self.explored.delta


class GreedySearch:
    """Algorithm 1 over one action's transitions."""

    def __init__(self, extractor: Extractor, plan: Plan, listener: Listener | None = None) -> None:
        self.extractor, self.plan, self.preset, self.listener = extractor, plan, plan.preset, listener
        self.training, self.validation = plan.training, plan.validation
        self.roles = len(extractor.experience.domain.action(extractor.action).objects)
        self._empty: _Trial | None = None
        self._explored: list[Explored] = []

    def run(self) -> SearchResult:
        """The whole search, in the manner that `search.delta` asks for."""
        nothing = Shell(self.roles)
        first, rounds = self._start((nothing, nothing))
        if self.preset.search.delta == "nested":
            trial, more = self._nested(first)
            if self.preset.search.prune:
                trial, dropped = self._prune(trial, len(more) + 1)
                more += dropped
        else:
            moves = self._both if self.preset.search.delta == "same" else self._interleaved
            trial, more = self._climb(first, moves)
            if self.preset.search.prune:
                trial, more = self._prune_and_climb(trial, more, moves)
                if self.preset.search.stop == "paired" and self.preset.search.delta == "same":
                    trial, more = self._look_inside_sets(trial, more, moves)
        empty = self._empty.fitted if self._empty else trial.fitted
        return SearchResult(
            self.extractor.action,
            trial.explored,
            (trial.fitted, empty),
            (*rounds, *more),
            tuple(self._explored),
            trial.losses,
            self.model(trial),
        )

    # -- moves --------------------------------------------------------------------------------------------------

    def _pointers(self, shell: Shell) -> tuple[Pointer, ...]:
        if len(shell) >= self.preset.search.max_references:
            return ()
        return next_pointers(self.extractor.experience.domain.references, shell.slots)

    def _both(self, pair: Pair) -> Iterator[Pair]:
        """Delta = Gamma: one pointer for both."""
        for pointer in self._pointers(pair[0]):
            longer = pair[0].extend(pointer)
            yield longer, longer

    def _gamma(self, pair: Pair) -> Iterator[Pair]:
        for pointer in self._pointers(pair[0]):
            yield pair[0].extend(pointer), pair[1]

    def _delta(self, pair: Pair) -> Iterator[Pair]:
        for pointer in self._pointers(pair[1]):
            yield pair[0], pair[1].extend(pointer)

    def _interleaved(self, pair: Pair) -> Iterator[Pair]:
        """Gamma alone, Delta alone, or the same object in both (an output often needs its own input)."""
        yield from self._gamma(pair)
        yield from self._delta(pair)
        for pointer in self._pointers(pair[0]):
            if max(pointer.arguments) < pair[1].slots and len(pair[1]) < self.preset.search.max_references:
                yield pair[0].extend(pointer), pair[1].extend(pointer)

    # -- the climb ----------------------------------------------------------------------------------------------

    def _start(self, pair: Pair) -> tuple[_Trial, list[Round]]:
        begin = time.perf_counter()
        if self.listener:
            self.listener.round_started(0, 1)
        trial = self._train([pair])[0]
        if self._empty is None:
            self._empty = trial
        round_ = self._round([trial.explored], trial, True, (0.0, 0.0), begin)
        if self.listener:
            self.listener.round_ended(0, round_)
        return trial, [round_]

    def _climb(
        self, current: _Trial, moves: Callable[[Pair], Iterator[Pair]], first: int = 1
    ) -> tuple[_Trial, list[Round]]:
        rounds: list[Round] = []
        while True:
            pairs = list(moves(current.pair))
            if not pairs:
                return current, rounds
            best, round_ = self._step(current, pairs, current, first + len(rounds))
            rounds.append(round_)
            if best is None or not round_.accepted:
                return current, rounds
            current = best

    def _step(self, current: _Trial, pairs: Sequence[Pair], rival: _Trial, number: int) -> tuple[_Trial | None, Round]:
        """Train what is worth training of `pairs`, which start from `current`; judge the best against `rival`."""
        begin = time.perf_counter()
        wanted, skipped = self._screen(current, pairs)
        if self.listener:
            self.listener.round_started(number, len(wanted))
        trials = self._train(wanted)
        best, accepted, test = self._judge(rival, trials)
        round_ = self._round([*(t.explored for t in trials), *skipped], best, accepted, test, begin)
        if self.listener:
            self.listener.round_ended(number, round_)
        return best, round_

    def _look_inside_sets(
        self, current: _Trial, rounds: list[Round], moves: Callable[[Pair], Iterator[Pair]]
    ) -> tuple[_Trial, list[Round]]:
        """A set that comes first hides its members: each adds little beside it, yet together they replace it.

        So try other pointers in the place of a set, also after growing past it where that alone gains nothing; what
        is kept must beat the lists found so far by the paired test. Lists without a set of several are left alone.
        """
        tentative = current
        while True:
            known = {(e.gamma, e.delta) for e in self._explored}
            swaps = [pair for less in self._without_sets(tentative) for pair in moves((less, less))]
            best, round_ = self._step(
                tentative, [pair for pair in swaps if pair not in known], current, len(rounds) + 1
            )
            if round_.explored:
                rounds = [*rounds, round_]
            if best is not None and round_.accepted:
                current, rounds = self._prune_and_climb(best, rounds, moves)
                tentative = current
                continue
            longer = list(moves(tentative.pair)) if swaps else []
            best, round_ = self._step(tentative, longer, current, len(rounds) + 1)
            if best is None:
                return current, rounds
            rounds, tentative = [*rounds, round_], best

    def _without_sets(self, trial: _Trial) -> list[Shell]:
        """The list without each pointer that finds several objects in some sample and that no other one needs."""
        shell, pointing = trial.explored.gamma, self.extractor.pointing
        several = (pointing.held(pointing.masks(shell)) > 1).any(axis=1)[shell.roles :]
        less = [_without(shell, int(position)) for position in np.flatnonzero(several)]
        return [one for one in less if one is not None]

    def _prune_and_climb(
        self, current: _Trial, rounds: list[Round], moves: Callable[[Pair], Iterator[Pair]]
    ) -> tuple[_Trial, list[Round]]:
        """Alternate until nothing can be dropped; each pass is shorter or ends the search."""
        while True:
            pruned, dropped = self._prune(current, len(rounds) + 1)
            rounds = [*rounds, *dropped]
            if pruned is current:
                return current, rounds
            grown, more = self._climb(pruned, moves, len(rounds) + 1)
            rounds += more
            if len(grown.explored.gamma) >= len(current.explored.gamma):
                return (grown if grown.explored.loss < current.explored.loss else pruned), rounds
            current = grown

    def _prune(self, current: _Trial, number: int) -> tuple[_Trial, list[Round]]:
        """Drop one pointer at a time, as long as the paired test does not ask for it back."""
        rounds: list[Round] = []
        while True:
            pairs = _without_one(current.pair, apart=self.preset.search.delta != "same")
            if not pairs or pairs == [(Shell(self.roles), Shell(self.roles))]:
                return current, rounds
            begin = time.perf_counter()
            if self.listener:
                self.listener.round_started(number + len(rounds), len(pairs))
            trials = self._train(pairs)
            best = min(trials, key=lambda trial: trial.explored.loss)
            worse, p_value = paired_improvement(best.losses, current.losses, self.validation)
            accepted = worse <= 0 or p_value >= self.preset.search.alpha
            rounds.append(self._round([t.explored for t in trials], best, accepted, (-worse, p_value), begin))
            if self.listener:
                self.listener.round_ended(number + len(rounds) - 1, rounds[-1])
            if not accepted:
                return current, rounds
            current = best

    def _nested(self, first: _Trial) -> tuple[_Trial, list[Round]]:
        """Around each candidate for Delta, a whole search for Gamma; the best pair of a round is judged."""
        current, _ = self._climb(first, self._gamma)
        rounds: list[Round] = []
        while True:
            pairs = [
                (Shell(self.roles), delta) for _, delta in self._delta((current.explored.gamma, current.explored.delta))
            ]
            begin = time.perf_counter()
            wanted, skipped = self._screen(current, pairs)
            trials = []
            for pair in wanted:
                start = self._train([pair])[0]
                trials.append(self._climb(start, self._gamma)[0])
            best, accepted, test = self._judge(current, trials)
            rounds.append(self._round([*(t.explored for t in trials), *skipped], best, accepted, test, begin))
            if best is None or not accepted:
                return current, rounds
            current = best

    def _judge(self, current: _Trial, trials: Sequence[_Trial]) -> tuple[_Trial | None, bool, tuple[float, float]]:
        """(best of the round, is it kept, (improvement, p-value))."""
        if not trials:
            return None, False, (0.0, 1.0)
        best = min(trials, key=lambda trial: trial.explored.loss)
        improvement, p_value = paired_improvement(current.losses, best.losses, self.validation)
        if self.preset.search.stop == "paper":
            return best, improvement > 0, (improvement, p_value)
        return best, improvement > 0 and p_value < self.preset.search.alpha, (improvement, p_value)

    def _screen(self, current: _Trial, pairs: Sequence[Pair]) -> tuple[list[Pair], list[Explored]]:
        """Leave out pairs that can bring nothing, and say why."""
        wanted: list[Pair] = []
        skipped: list[Explored] = []
        seen: dict[tuple[bytes, ...], Pair] = {}
        roles = self.extractor.experience.domain.action(self.extractor.action).objects
        for pair in pairs:
            note = self._useless(current.fitted.table, pair)
            twin = seen.setdefault(tuple(self.extractor.pointing.masks(shell).tobytes() for shell in pair), pair)
            if not note and twin != pair:
                note = f"selects the same objects as [{twin[0].show(roles)}]"
            if note:
                skipped.append(Explored(*pair, note=note))
            else:
                wanted.append(pair)
        return wanted, skipped

    def _useless(self, parent: Table, pair: Pair) -> str:
        """Why a longer pair cannot be better: no sample, or the same objects as a slot before wherever it applies."""
        table, used = self.extractor.table(*pair), self.training > 0
        if not table.applies[used].any():
            return "applies to no training sample"
        if bool(np.any(table.applies[used] != parent.applies[used])):
            return ""
        roles = self.extractor.experience.domain.action(self.extractor.action).objects
        inside = np.repeat(table.applies, self.extractor.experience.counts)
        for old, shell in zip((parent.gamma, parent.delta), pair, strict=True):
            if shell == old or not len(shell):
                continue
            masks = self.extractor.pointing.masks(shell)[:, inside]
            for slot in range(shell.slots - 1):
                if np.array_equal(masks[-1], masks[slot]):
                    return f"selects the same objects as {shell.slot_names(roles)[slot]} on every sample"
        return ""

    def _train(self, pairs: Sequence[Pair]) -> list[_Trial]:
        trials: list[_Trial] = []

        def done(fitted: Fitted) -> None:
            trials.append(self._trial(fitted))
            if self.listener:
                self.listener.candidate_done(trials[-1].explored)

        fit_predictors(self.extractor, pairs, self.plan, done)
        return trials

    def _trial(self, fitted: Fitted) -> _Trial:
        """Losses on every sample; where the rule does not apply, as the paper's footnote says."""
        losses = -fitted.log_prob
        uncovered = ~fitted.table.applies
        if uncovered.any():
            losses = np.where(uncovered, self._fallback(fitted, uncovered), losses)
        gamma, delta = fitted.table.gamma, fitted.table.delta
        if not np.isfinite(losses).all():
            name = gamma.show(self.extractor.experience.domain.action(self.extractor.action).objects)
            raise FitError(f"rule [{name}]: its loss is not a number on sample {int(np.argmin(np.isfinite(losses)))}")
        deviation = np.sqrt(fitted.default_variance + self.extractor.experience.domain.resolutions**2)
        explored = Explored(
            gamma,
            delta,
            weighted_mean(losses, self.validation),
            weighted_mean(losses, self.training),
            tuple(deviation.tolist()),
            float(fitted.table.applies.mean()),
        )
        self._explored.append(explored)
        return _Trial(explored, fitted, losses)

    def _fallback(self, fitted: Fitted, uncovered: np.ndarray) -> np.ndarray:
        """-log p of samples that a rule does not cover: by the rule with empty lists, or by a default covariance."""
        if self.preset.search.inapplicable == "empty":
            if self._empty is None:
                raise FitError("the rule with empty lists does not apply to every sample")
            return self._empty.losses
        data = self.extractor.experience
        total = self._covariance(uncovered) + data.domain.resolutions**2
        dynamic = list(data.domain.dynamic)
        moved = data.next_values[:, dynamic].astype(np.float64) - data.values[:, dynamic]
        terms = 0.5 * (np.square(moved) / total + np.log(2 * np.pi * total)).sum(axis=1)
        return np.add.reduceat(terms, data.offsets[:-1])

    def _covariance(self, rows: np.ndarray) -> np.ndarray:
        """Sigma_default: squared deviations of all objects in these training samples (of all, if there are none)."""
        data = self.extractor.experience
        chosen = rows & (self.training > 0)
        every = np.repeat(chosen if chosen.any() else self.training > 0, data.counts)
        return default_variance(data, every, self.training)

    def model(self, trial: _Trial) -> Model:
        """The rule as a model; with the empty-lists rule behind it if that is what covers the other samples."""
        uncovered = ~trial.fitted.table.applies & ((self.training > 0) | (self.validation > 0))
        rules = [trial.fitted.rule(self.extractor)]
        if uncovered.any() and self.preset.search.inapplicable == "empty" and self._empty is not None:
            rules.append(self._empty.fitted.rule(self.extractor))
        return Model(self.extractor.experience.domain, rules, self._covariance(~trial.fitted.table.applies))

    def _round(
        self,
        explored: Sequence[Explored],
        best: _Trial | None,
        accepted: bool,
        test: tuple[float, float],
        begin: float,
    ) -> Round:
        seconds = time.perf_counter() - begin
        model = self.model(best) if best is not None else None
        return Round(tuple(explored), best.explored if best else None, accepted, *test, seconds, model)


def _without_one(pair: Pair, apart: bool = False) -> list[Pair]:
    """Every pair of lists with one pointer less that no other pointer needs.

    Where both lists are the same it goes from both; also from one alone if the lists may come `apart`.
    """
    gamma, delta = pair
    both = [(shell, shell) for shell in _shorter(gamma)] if gamma == delta else []
    if gamma == delta and not apart:
        return both
    return both + [(shell, delta) for shell in _shorter(gamma)] + [(gamma, shell) for shell in _shorter(delta)]


def _shorter(shell: Shell) -> Iterator[Shell]:
    for position in range(len(shell)):
        less = _without(shell, position)
        if less is not None:
            yield less


def _without(shell: Shell, position: int) -> Shell | None:
    """The shell without one pointer, or None if another starts from what it finds."""
    slot = shell.roles + position
    rest = [pointer for k, pointer in enumerate(shell) if k != position]
    if any(slot in pointer.arguments for pointer in rest):
        return None
    return Shell(shell.roles, tuple(Pointer(p.reference, tuple(a - (a > slot) for a in p.arguments)) for p in rest))
