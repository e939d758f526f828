"""Candidates of a search: trained, judged on every sample, and turned into models.

1. `useful` leaves out candidates that cannot be better, `promising` those that ridge regression puts behind, and
   both say why; `halve` trains many for a while and the best four in full.
2. `train` runs LearnDist on the rest, and gives each its loss on every sample: where a rule does not apply, by the
   rule with empty lists, by an empirical default covariance (the paper's footnote to section 4.2), or by other rules.
3. `model` is the density that a trial stands for.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import time
from collections.abc import Iterator, Sequence
from types import TracebackType

import numpy as np

from spare.errors import FitError
from spare.learning.dataset import Dataset, DesignMatrix
from spare.learning.history import Explored, Listener, Round
from spare.learning.noise import default_variance, fit_noise, noise_log_prob, noise_log_values
from spare.learning.screen import RidgeScreen
from spare.learning.statistics import Improvement, weighted_mean
from spare.learning.threads import cores
from spare.learning.train import Fitted, Pair, Plan, members_of, training_call
from spare.model.model import Model
from spare.model.noise import DefaultNoise

KEPT = 64
"""How many trained candidates a search remembers: memory does not grow with their number."""
FEW = 5
"""With fewer samples that a rule does not cover, these have no default noise of their own."""
FINALISTS = 4
"""How many candidates of a round are trained on every fold; the others on one."""


def _first_rung(plan: Plan) -> Plan | None:
    """The plan with its first fold only and less training, or None if that is the same or leaves nothing to learn."""
    folds = 1 if plan.folds is None else len(plan.folds)
    if folds == 1 and plan.preset.search.halving == 1:
        return None
    training = dataclasses.replace(plan.preset.training, members=1)
    held = plan.held_out(0)
    if not (plan.training[~held] > 0).any() or not (plan.validation[held] > 0).any():
        return None
    return dataclasses.replace(
        plan,
        preset=dataclasses.replace(plan.preset, training=training),
        training=np.where(held, 0.0, plan.training),
        validation=np.where(held, plan.validation, 0.0),
        folds=None,
        effort=plan.effort * plan.preset.search.halving,
    )


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trained candidate with its loss on every sample (those the rule does not cover included)."""

    explored: Explored
    fitted: Fitted
    losses: np.ndarray

    @property
    def pair(self) -> Pair:
        """(Gamma, Delta)."""
        return self.explored.gamma, self.explored.delta


class CandidateTrainer:
    """Trains and judges candidates on one action's transitions; keeps all it has explored.

    Inside `with`, candidates are trained on as many threads as the plan allows; outside, one after another.
    """

    def __init__(self, dataset: Dataset, plan: Plan, listener: Listener | None = None) -> None:
        self.dataset, self.plan, self.preset, self.listener = dataset, plan, plan.preset, listener
        self.training, self.validation = plan.training, plan.validation
        self.empty: Trial | None = None
        self.explored: list[Explored] = []
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._coming: dict[tuple[Pair, bool], concurrent.futures.Future[Fitted]] = {}
        self._known: dict[Pair, Trial] = {}
        self._first_rung = _first_rung(plan)
        self._screen = RidgeScreen(dataset, plan)

    def __enter__(self) -> CandidateTrainer:
        threads = self.plan.threads or cores()
        self._pool = concurrent.futures.ThreadPoolExecutor(threads) if threads > 1 else None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None
        self._coming.clear()

    def useful(self, parent: DesignMatrix, pairs: Sequence[Pair]) -> tuple[list[Pair], list[Explored]]:
        """Leave out pairs that cannot be better, and say why."""
        wanted: list[Pair] = []
        skipped: list[Explored] = []
        seen: dict[tuple[bytes, ...], Pair] = {}
        roles = self.dataset.roles
        for pair in pairs:
            note = self._useless(parent, pair)
            twin = seen.setdefault(tuple(self.dataset.bindings.masks(shell).tobytes() for shell in pair), pair)
            if not note and twin != pair:
                note = f"selects the same objects as [{twin[0].show(roles)}]"
            if note:
                skipped.append(Explored(*pair, note=note))
            else:
                wanted.append(pair)
        return wanted, skipped

    def _useless(self, parent: DesignMatrix, pair: Pair) -> str:
        """Why a longer pair cannot be better: too few samples, or the same objects as a slot before on each of them."""
        matrix, used = self.dataset.matrix(*pair), self.training > 0
        if not matrix.applies[used].any():
            return "applies to no training sample"
        if len(members_of(matrix, self.plan)) < self.plan.preset.training.members:
            return "applies to too few training samples"
        if bool(np.any(matrix.applies[used] != parent.applies[used])):
            return ""
        roles = self.dataset.roles
        inside = np.repeat(matrix.applies, self.dataset.experience.counts)
        for old, shell in zip((parent.gamma, parent.delta), pair, strict=True):
            if shell == old or not len(shell):
                continue
            masks = self.dataset.bindings.masks(shell)[:, inside]
            for slot in range(shell.slots - 1):
                if np.array_equal(masks[-1], masks[slot]):
                    return f"selects the same objects as {shell.slot_names(roles)[slot]} on every sample"
        return ""

    def anticipate(self, pairs: Sequence[Pair], *, halving: bool = False) -> None:
        """Begin what `train`, or `halve`, will be asked for; does nothing on one thread."""
        short = halving and self._halves(pairs)
        for pair in pairs:
            if self._pool is not None and (pair, short) not in self._coming:
                self._coming[pair, short] = self._pool.submit(training_call(self.dataset, pair, self._plan(short)))

    def train(self, pairs: Sequence[Pair]) -> list[Trial]:
        """LearnDist for each pair, and its loss on every sample; what this search has trained before is not again."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        for pair, fitted in zip(new, self._fitted(new), strict=True):
            self._known[pair] = self._heard(self.judged(fitted))
        found = [self._known[pair] for pair in pairs]
        while len(self._known) > KEPT:
            self._known.pop(next(iter(self._known)))
        return found

    def halve(self, pairs: Sequence[Pair]) -> tuple[list[Trial], list[Explored]]:
        """(trained candidates, those that fell behind): successive halving, with less training on one fold first.

        Up to four candidates are trained in full at once.
        """
        if not self._halves(pairs):
            return self.train(pairs), []
        first = [self.judged(fitted, self._first_rung) for fitted in self._fitted(pairs, short=True)]
        order = np.argsort([trial.explored.loss for trial in first], kind="stable")
        behind = [self._heard(first[k]).explored for k in sorted(order[FINALISTS:])]
        return self.train([first[k].pair for k in sorted(order[:FINALISTS])]), behind

    def promising(self, pairs: Sequence[Pair], rival: Pair) -> tuple[list[Pair], list[Explored]]:
        """(pairs that are worth training, the others and why they are not), by ridge regression, in order.

        The best one always is; a few more if they look better than the `rival` that must be beaten.
        """
        count = self.preset.search.ridge
        if not count or len(pairs) < 2:
            return list(pairs), []
        loss = np.array([self._screen.loss(pair) for pair in pairs])
        first, *more = np.argsort(loss, kind="stable")[:count]
        kept = {first, *(k for k in more if loss[k] < self._screen.loss(rival))}
        notes = [f"{far:.2f} nats behind the best by ridge regression" for far in loss - loss[first]]
        behind = [Explored(*pair, note=notes[k]) for k, pair in enumerate(pairs) if k not in kept]
        return [pair for k, pair in enumerate(pairs) if k in kept], behind

    def _halves(self, pairs: Sequence[Pair]) -> bool:
        return self._first_rung is not None and len(pairs) > FINALISTS

    def _heard(self, trial: Trial) -> Trial:
        self.explored.append(trial.explored)
        if self.listener:
            self.listener.candidate_done(trial.explored)
        return trial

    def _plan(self, short: bool) -> Plan:
        return self._first_rung if short and self._first_rung is not None else self.plan

    def _fitted(self, pairs: Sequence[Pair], short: bool = False) -> Iterator[Fitted]:
        self.anticipate(pairs, halving=short)
        for pair in pairs:
            coming = self._coming.pop((pair, short), None)
            yield coming.result() if coming else training_call(self.dataset, pair, self._plan(short))()

    def judged(self, fitted: Fitted, plan: Plan | None = None) -> Trial:
        """Losses on every sample; where the rule does not apply, as the paper's footnote says."""
        losses = -fitted.log_prob
        uncovered = ~fitted.matrix.applies
        if uncovered.any():
            losses = np.where(uncovered, self._fallback(uncovered), losses)
        gamma, delta = fitted.matrix.gamma, fitted.matrix.delta
        if not np.isfinite(losses).all():
            name = gamma.show(self.dataset.roles)
            raise FitError(f"rule [{name}]: its loss is not a number on sample {int(np.argmin(np.isfinite(losses)))}")
        deviation = np.sqrt(fitted.variance + self.dataset.experience.domain.resolutions**2)
        explored = Explored(
            gamma,
            delta,
            weighted_mean(losses, plan.validation if plan else self.validation),
            weighted_mean(losses, plan.training if plan else self.training),
            tuple(deviation.tolist()),
            float(fitted.matrix.applies.mean()),
        )
        return Trial(explored, fitted, losses)

    def _fallback(self, uncovered: np.ndarray) -> np.ndarray:
        """-log p of samples that a rule does not cover: by the other rules, the empty lists or a covariance."""
        if self.plan.others is not None:
            return self.plan.others
        if self.preset.search.inapplicable == "empty":
            if self.empty is None:
                raise FitError("the rule with empty lists does not apply to every sample")
            return -self._behind(uncovered).log_prob
        return -noise_log_prob(DefaultNoise(self._covariance(uncovered)), self.dataset.experience)

    def _behind(self, uncovered: np.ndarray) -> Fitted:
        """The rule with empty lists, as it stands behind one that does not cover these samples.

        Where outliers are expected, its default noise is learned from those samples alone, if there are a few.
        """
        assert self.empty is not None
        behind = self.empty.fitted
        if not self.preset.training.outliers or ((self.training > 0) & uncovered).sum() < FEW:
            return behind
        data = self.dataset.experience
        outside = ~np.any(behind.matrix.outputs, axis=0, keepdims=True).T
        weights = np.where(uncovered, self.training, 0.0)
        noise = fit_noise(data, outside[:, 0] & np.repeat(uncovered, data.counts), weights, outliers=True)
        terms = np.where(outside, noise_log_values(noise, data), 0.0)
        return dataclasses.replace(behind, noise=noise, unpredicted=np.add.reduceat(terms, data.offsets[:-1], axis=0))

    def _covariance(self, rows: np.ndarray) -> np.ndarray:
        """Sigma_default: squared deviations of all objects in these training samples (of all, if there are none)."""
        data = self.dataset.experience
        chosen = rows & (self.training > 0)
        every = np.repeat(chosen if chosen.any() else self.training > 0, data.counts)
        return default_variance(data, every, self.training)

    def model(self, trial: Trial) -> Model:
        """The rule as a model; with the empty-lists rule behind it if that is what covers the other samples."""
        uncovered = ~trial.fitted.matrix.applies & ((self.training > 0) | (self.validation > 0))
        rules = [trial.fitted.rule(self.dataset)]
        if uncovered.any() and self.preset.search.inapplicable == "empty" and self.empty is not None:
            rules.append(self._behind(~trial.fitted.matrix.applies).rule(self.dataset))
        return Model(self.dataset.experience.domain, rules, self._covariance(~trial.fitted.matrix.applies))

    def round(
        self,
        explored: Sequence[Explored],
        best: Trial | None,
        accepted: bool,
        test: Improvement,
        begin: float,
    ) -> Round:
        """The record of one round that began at `begin`."""
        seconds, build = time.perf_counter() - begin, functools.partial(self.model, best) if best else None
        return Round(tuple(explored), best.explored if best else None, accepted, *test, seconds, build)
