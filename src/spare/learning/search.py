"""GreedySelect (section 4.2, algorithm 1): grow the reference lists of one rule, one pointer at a time.

1. Train the rule with empty lists; its validation loss is L_0.
2. Train the legal extensions of the current lists, or only those that ridge regression finds promising (`screen.py`);
   the one with the smallest validation loss is the round's best.
3. If it is an improvement (by any amount, or one that a paired test supports), keep it and go on; otherwise stop.
4. Optionally prune: drop pointers that nothing depends on and that the paired test does not ask for; climb again.
   Then try other pointers in place of sets.
5. Optionally refine how the rule sees and predicts (`refine.py`), and train what was found as an ensemble.

Every pair of lists that was looked at stays in the rounds: with its loss if it was trained, else with the reason.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from spare.language.references import Pointer, Shell, next_pointers
from spare.learning.candidates import CandidateTrainer, Trial
from spare.learning.dataset import Dataset
from spare.learning.history import Listener, Round, SearchResult
from spare.learning.refine import refine
from spare.learning.statistics import Improvement, paired_improvement
from spare.learning.train import Pair, Plan, fit_predictors


class GreedySearch:
    """Algorithm 1 over one action's transitions, by up to three plans.

    `plan` is how candidates are trained; `judging` how inputs and targets are chosen for the lists that were found, if
    they are; `finish` how those lists are trained in the end, if otherwise than during the search: an ensemble of
    which every member leaves out other samples.
    """

    def __init__(
        self,
        dataset: Dataset,
        plan: Plan,
        listener: Listener | None = None,
        *,
        judging: Plan | None = None,
        finish: Plan | None = None,
    ) -> None:
        self.judging, self.finish = judging, finish
        self.dataset, self.preset, self.listener = dataset, plan.preset, listener
        self.validation = plan.validation
        self.roles = len(dataset.roles)
        self.trainer = CandidateTrainer(dataset, plan, listener)

    def run(self) -> SearchResult:
        """The whole search, in the manner that `search.delta` asks for."""
        with self.trainer:
            return self._search()

    def _search(self) -> SearchResult:
        nothing = Shell(self.roles)
        first, rounds = self._start((nothing, nothing))
        if self.preset.search.delta == "nested":
            trial, more = self._nested(first)
            if self.preset.search.prune:
                trial, dropped = self._prune(trial, len(more) + 1)
                more += dropped
        else:
            moves = self._moves
            trial, more = self._climb(first, moves)
            if self.preset.search.prune:
                trial, more = self._prune_and_climb(trial, more, moves)
                if self.preset.search.stop == "paired" and self.preset.search.delta == "same":
                    trial, more = self._look_inside_sets(trial, more, moves)
        trial, last = self._finished(trial, self._refined(trial))
        return SearchResult(
            self.dataset.action,
            trial.explored,
            (trial.fitted, last.empty.fitted if last.empty else trial.fitted),
            (*rounds, *more),
            tuple(self.trainer.explored),
            trial.losses,
            last.model(trial),
        )

    def _refined(self, trial: Trial) -> Dataset:
        """How the lists that were found are best seen and predicted."""
        if self.judging is None:
            return self.dataset
        with self._step_of("choosing inputs and targets") as outcome:
            better = refine(self.dataset, trial.pair, self.judging)
            gamma = trial.explored.gamma
            used, offered = ({*one.layout(gamma).names} for one in (better, self.dataset))
            more = f" and {len(used - offered)} more" * bool(used - offered)
            outcome.append(f"inputs: {len(used & offered)} of {len(offered)}{more} are used")
        return better

    def _finished(self, trial: Trial, dataset: Dataset) -> tuple[Trial, CandidateTrainer]:
        """The rule and the one with empty lists, trained as the result should be, and who judges them.

        The search's own judge stays as it was: its rounds can still be asked for their models.
        """
        if self.finish is None and dataset is self.dataset:
            return trial, self.trainer
        last, nothing = CandidateTrainer(dataset, self.finish or self.trainer.plan), Shell(self.roles)
        with self._step_of("training what was found") as outcome:
            pairs = list(dict.fromkeys([(nothing, nothing), trial.pair]))
            trained = fit_predictors(dataset, pairs, last.plan)
            last.empty = last.judged(trained[0])
            done = last.judged(trained[-1])
            outcome.append(
                f"ensemble of {done.fitted.predictor.members}: loss {done.explored.loss:.2f} on held-out samples"
            )
        return done, last

    @contextlib.contextmanager
    def _step_of(self, text: str) -> Iterator[list[str]]:
        """A step after the rounds; the list collects what the listener hears of it."""
        outcome: list[str] = []
        begin = time.perf_counter()
        if self.listener:
            self.listener.step_started(text)
        yield outcome
        if self.listener:
            self.listener.step_ended("; ".join(outcome), time.perf_counter() - begin)

    # -- moves --------------------------------------------------------------------------------------------------

    def _pointers(self, shell: Shell) -> tuple[Pointer, ...]:
        if len(shell) >= self.preset.search.max_references:
            return ()
        return next_pointers(self.dataset.experience.domain.references, shell.slots)

    def _moves(self, pair: Pair) -> Iterator[Pair]:
        """The pairs that a climb tries next."""
        ways = {"same": self._both, "interleaved": self._interleaved, "nested": self._gamma}
        return ways[self.preset.search.delta](pair)

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
            if max(pointer.arguments, default=0) < pair[1].slots and len(pair[1]) < self.preset.search.max_references:
                yield pair[0].extend(pointer), pair[1].extend(pointer)

    # -- the climb ----------------------------------------------------------------------------------------------

    def _start(self, pair: Pair) -> tuple[Trial, list[Round]]:
        begin = time.perf_counter()
        if self.listener:
            self.listener.round_started(0, 1)
        self.trainer.anticipate([pair])
        # The first round of a climb does not depend on this one's outcome: it need not wait for it.
        matrix = self.dataset.matrix(*pair)
        coming, _ = self.trainer.promising(self.trainer.useful(matrix, list(self._moves(pair)))[0], pair)
        self.trainer.anticipate(coming, halving=True)
        trial = self.trainer.train([pair])[0]
        if self.trainer.empty is None:
            self.trainer.empty = trial
        round_ = self.trainer.round([trial.explored], trial, True, Improvement(0.0, 0.0), begin)
        if self.listener:
            self.listener.round_ended(0, round_)
        return trial, [round_]

    def _climb(
        self, current: Trial, moves: Callable[[Pair], Iterator[Pair]], first: int = 1
    ) -> tuple[Trial, list[Round]]:
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

    def _step(self, current: Trial, pairs: Sequence[Pair], rival: Trial, number: int) -> tuple[Trial | None, Round]:
        """Train what is worth training of `pairs`, which start from `current`; judge the best against `rival`."""
        begin = time.perf_counter()
        wanted, skipped = self.trainer.useful(current.fitted.matrix, pairs)
        wanted, hopeless = self.trainer.promising(wanted, rival.pair)
        if self.listener:
            self.listener.round_started(number, len(wanted))
        trials, behind = self.trainer.halve(wanted)
        best, accepted, test = self._judge(rival, trials)
        round_ = self.trainer.round(
            [*(t.explored for t in trials), *behind, *hopeless, *skipped], best, accepted, test, begin
        )
        if self.listener:
            self.listener.round_ended(number, round_)
        return best, round_

    def _look_inside_sets(
        self, current: Trial, rounds: list[Round], moves: Callable[[Pair], Iterator[Pair]]
    ) -> tuple[Trial, list[Round]]:
        """A set that comes first hides its members: each adds little beside it, yet together they replace it.

        So try other pointers in place of a set, also after growing past it where that alone gains nothing; what
        is kept must beat the lists found so far by the paired test. Lists without a set of several are left alone.
        """
        tentative = current
        while True:
            known = {(e.gamma, e.delta) for e in self.trainer.explored}
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

    def _without_sets(self, trial: Trial) -> list[Shell]:
        """The list without each pointer that finds several objects in some sample and that no other one needs."""
        shell, bindings = trial.explored.gamma, self.dataset.bindings
        several = np.any(bindings.held(bindings.masks(shell)) > 1, axis=1)[shell.roles :]
        less = [_without(shell, int(position)) for position in np.flatnonzero(several)]
        return [one for one in less if one is not None]

    def _prune_and_climb(
        self, current: Trial, rounds: list[Round], moves: Callable[[Pair], Iterator[Pair]]
    ) -> tuple[Trial, list[Round]]:
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

    def _prune(self, current: Trial, number: int) -> tuple[Trial, list[Round]]:
        """Drop one pointer at a time, as long as the paired test does not ask for it back."""
        rounds: list[Round] = []
        while True:
            pairs = _without_one(current.pair, apart=self.preset.search.delta != "same")
            if not pairs or pairs == [(Shell(self.roles), Shell(self.roles))]:
                return current, rounds
            begin = time.perf_counter()
            if self.listener:
                self.listener.round_started(number + len(rounds), len(pairs))
            trials = self.trainer.train(pairs)
            best = min(trials, key=lambda trial: trial.explored.loss)
            worse, p_value = paired_improvement(best.losses, current.losses, self.validation)
            accepted = worse <= 0 or p_value >= self.preset.search.alpha
            rounds.append(
                self.trainer.round([t.explored for t in trials], best, accepted, Improvement(-worse, p_value), begin)
            )
            if self.listener:
                self.listener.round_ended(number + len(rounds) - 1, rounds[-1])
            if not accepted:
                return current, rounds
            current = best

    def _nested(self, first: Trial) -> tuple[Trial, list[Round]]:
        """Around each candidate for Delta, a whole search for Gamma; the best pair of a round is judged."""
        current, _ = self._climb(first, self._gamma)
        rounds: list[Round] = []
        while True:
            pairs = [
                (Shell(self.roles), delta) for _, delta in self._delta((current.explored.gamma, current.explored.delta))
            ]
            begin = time.perf_counter()
            wanted, skipped = self.trainer.useful(current.fitted.matrix, pairs)
            trials = []
            for pair in wanted:
                start = self.trainer.train([pair])[0]
                trials.append(self._climb(start, self._gamma)[0])
            best, accepted, test = self._judge(current, trials)
            rounds.append(self.trainer.round([*(t.explored for t in trials), *skipped], best, accepted, test, begin))
            if best is None or not accepted:
                return current, rounds
            current = best

    def _judge(self, current: Trial, trials: Sequence[Trial]) -> tuple[Trial | None, bool, Improvement]:
        """(best of the round, is it kept, the test against the current lists)."""
        if not trials:
            return None, False, Improvement(0.0, 1.0)
        best = min(trials, key=lambda trial: trial.explored.loss)
        test = paired_improvement(current.losses, best.losses, self.validation)
        kept = test.gain > 0 and (self.preset.search.stop == "paper" or test.p_value < self.preset.search.alpha)
        return best, kept, test


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
