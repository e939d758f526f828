"""Candidates of a search: trained, judged on every sample, and turned into models.

1. `screen` leaves out candidates that can bring nothing, `promising` those that ridge regression puts behind, and
   both say why; `race` trains many for a while and the best four in full.
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
from spare.learning.dataset import Extractor, Table
from spare.learning.history import Explored, Listener, Round
from spare.learning.noise import changes, default_variance, fit_rest, plain_rest
from spare.learning.screen import Outlook
from spare.learning.statistics import weighted_mean
from spare.learning.threads import cores
from spare.learning.train import Fitted, Pair, Plan, grows_from, members_of, training_call
from spare.model.model import Model

KEPT = 64
"""How many trained candidates a search remembers: memory does not grow with their number."""
FEW = 5
"""Samples below which those that a rule does not cover have no rest of their own."""
FINALISTS = 4
"""How many candidates of a round are trained on every fold; the others on one."""


def _heat(plan: Plan) -> Plan | None:
    """The plan with its first fold only and less training, or None if that is the same or leaves nothing to learn."""
    folds = 1 if plan.folds is None else len(plan.folds)
    if folds == 1 and plan.preset.search.screen == 1:
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
        effort=plan.effort * plan.preset.search.screen,
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


class Trials:
    """Trains and judges candidates on one action's transitions; keeps all it has explored.

    Inside `with`, candidates are trained on as many threads as the plan allows; outside, one after another.
    """

    def __init__(self, extractor: Extractor, plan: Plan, listener: Listener | None = None) -> None:
        self.extractor, self.plan, self.preset, self.listener = extractor, plan, plan.preset, listener
        self.training, self.validation = plan.training, plan.validation
        self.empty: Trial | None = None
        self.explored: list[Explored] = []
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._coming: dict[tuple[Pair, bool], concurrent.futures.Future[Fitted]] = {}
        self._known: dict[Pair, Trial] = {}
        self._heat = _heat(plan)
        self._parent: Fitted | None = None
        self._outlook = Outlook(extractor, plan)

    def __enter__(self) -> Trials:
        threads = self.plan.threads or cores()
        self._pool = concurrent.futures.ThreadPoolExecutor(threads) if threads > 1 else None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None
        self._coming.clear()

    def screen(self, parent: Table, pairs: Sequence[Pair]) -> tuple[list[Pair], list[Explored]]:
        """Leave out pairs that can bring nothing, and say why."""
        wanted: list[Pair] = []
        skipped: list[Explored] = []
        seen: dict[tuple[bytes, ...], Pair] = {}
        roles = self.extractor.experience.domain.action(self.extractor.action).objects
        for pair in pairs:
            note = self._useless(parent, pair)
            twin = seen.setdefault(tuple(self.extractor.pointing.masks(shell).tobytes() for shell in pair), pair)
            if not note and twin != pair:
                note = f"selects the same objects as [{twin[0].show(roles)}]"
            if note:
                skipped.append(Explored(*pair, note=note))
            else:
                wanted.append(pair)
        return wanted, skipped

    def _useless(self, parent: Table, pair: Pair) -> str:
        """Why a longer pair cannot be better: too few samples, or the same objects as a slot before on each of them."""
        table, used = self.extractor.table(*pair), self.training > 0
        if not table.applies[used].any():
            return "applies to no training sample"
        if len(members_of(table, self.plan)) < self.plan.preset.training.members:
            return "applies to too few training samples"
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

    def anticipate(self, pairs: Sequence[Pair], *, race: bool = False) -> None:
        """Begin what `train`, or `race`, will be asked for; does nothing on one thread."""
        heat = race and self._races(pairs)
        for pair in pairs:
            if self._pool is not None and (pair, heat) not in self._coming:
                self._coming[pair, heat] = self._pool.submit(
                    training_call(self.extractor, pair, self._plan(heat, pair))
                )

    def train(self, pairs: Sequence[Pair]) -> list[Trial]:
        """LearnDist for each pair, and its loss on every sample; what this search has trained before is not again."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        for pair, fitted in zip(new, self._fitted(new), strict=True):
            self._known[pair] = self._heard(self.judged(fitted))
        found = [self._known[pair] for pair in pairs]
        while len(self._known) > KEPT:
            self._known.pop(next(iter(self._known)))
        return found

    def race(self, pairs: Sequence[Pair], parent: Fitted | None = None) -> tuple[list[Trial], list[Explored]]:
        """(trained candidates, explored ones that fell behind): a heat with less training on one fold, then a final.

        Four candidates go straight to the final. In a warm search, those that extend the `parent` begin with its
        networks.
        """
        if not self._races(pairs):
            return self.train(pairs), []
        self._parent = parent if self.preset.search.warm else None
        heat = [self.judged(fitted, self._heat) for fitted in self._fitted(pairs, heat=True)]
        order = np.argsort([trial.explored.loss for trial in heat], kind="stable")
        behind = [self._heard(heat[k]).explored for k in sorted(order[FINALISTS:])]
        return self.train([heat[k].pair for k in sorted(order[:FINALISTS])]), behind

    def promising(self, pairs: Sequence[Pair], rival: Pair) -> tuple[list[Pair], list[Explored]]:
        """(pairs that are worth training, the others and why they are not), by ridge regression, in order.

        The best one always is; a few more if they look better than the `rival` that must be beaten.
        """
        count = self.preset.search.ridge
        if not count or len(pairs) < 2:
            return list(pairs), []
        outlook = np.array([self._outlook.loss(pair) for pair in pairs])
        first, *more = np.argsort(outlook, kind="stable")[:count]
        kept = {first, *(k for k in more if outlook[k] < self._outlook.loss(rival))}
        notes = [f"{far:.2f} nats behind the best by ridge regression" for far in outlook - outlook[first]]
        behind = [Explored(*pair, note=notes[k]) for k, pair in enumerate(pairs) if k not in kept]
        return [pair for k, pair in enumerate(pairs) if k in kept], behind

    def _races(self, pairs: Sequence[Pair]) -> bool:
        return self._heat is not None and len(pairs) > FINALISTS

    def _heard(self, trial: Trial) -> Trial:
        self.explored.append(trial.explored)
        if self.listener:
            self.listener.candidate_done(trial.explored)
        return trial

    def _plan(self, heat: bool, pair: Pair) -> Plan:
        if not heat or self._heat is None:
            return self.plan
        if self._parent is None or not grows_from(self.extractor.table(*pair), self._parent.table):
            return self._heat
        return dataclasses.replace(self._heat, parent=self._parent, effort=self._heat.effort / 2)

    def _fitted(self, pairs: Sequence[Pair], heat: bool = False) -> Iterator[Fitted]:
        self.anticipate(pairs, race=heat)
        for pair in pairs:
            coming = self._coming.pop((pair, heat), None)
            yield coming.result() if coming else training_call(self.extractor, pair, self._plan(heat, pair))()

    def judged(self, fitted: Fitted, plan: Plan | None = None) -> Trial:
        """Losses on every sample; where the rule does not apply, as the paper's footnote says."""
        losses = -fitted.log_prob
        uncovered = ~fitted.table.applies
        if uncovered.any():
            losses = np.where(uncovered, self._fallback(fitted, uncovered), losses)
        gamma, delta = fitted.table.gamma, fitted.table.delta
        if not np.isfinite(losses).all():
            name = gamma.show(self.extractor.experience.domain.action(self.extractor.action).objects)
            raise FitError(f"rule [{name}]: its loss is not a number on sample {int(np.argmin(np.isfinite(losses)))}")
        deviation = np.sqrt(fitted.rest.plain + self.extractor.experience.domain.resolutions**2)
        explored = Explored(
            gamma,
            delta,
            weighted_mean(losses, plan.validation if plan else self.validation),
            weighted_mean(losses, plan.training if plan else self.training),
            tuple(deviation.tolist()),
            float(fitted.table.applies.mean()),
        )
        return Trial(explored, fitted, losses)

    def _fallback(self, fitted: Fitted, uncovered: np.ndarray) -> np.ndarray:
        """-log p of samples that a rule does not cover: by the other rules, the empty lists or a covariance."""
        if self.plan.others is not None:
            return self.plan.others
        if self.preset.search.inapplicable == "empty":
            if self.empty is None:
                raise FitError("the rule with empty lists does not apply to every sample")
            return -self._behind(uncovered).log_prob
        return -plain_rest(self._covariance(uncovered)).log_prob(self.extractor.experience)

    def _behind(self, uncovered: np.ndarray) -> Fitted:
        """The rule with empty lists, as it stands behind one that does not cover these samples.

        Where surprises are expected, what stays there is learned from those samples alone, if there are a few.
        """
        assert self.empty is not None
        behind = self.empty.fitted
        if not self.preset.training.surprises or ((self.training > 0) & uncovered).sum() < FEW:
            return behind
        data = self.extractor.experience
        outside = ~np.any(behind.table.outputs, axis=0, keepdims=True).T
        weights = np.where(uncovered, self.training, 0.0)
        rest = fit_rest(data, outside[:, 0] & np.repeat(uncovered, data.counts), weights, surprises=True)
        terms = np.where(outside, rest.log_values(changes(data), data.domain.resolutions), 0.0)
        values = (behind.log_values[0], np.add.reduceat(terms, data.offsets[:-1], axis=0))
        return dataclasses.replace(behind, rest=rest, log_values=values)

    def _covariance(self, rows: np.ndarray) -> np.ndarray:
        """Sigma_default: squared deviations of all objects in these training samples (of all, if there are none)."""
        data = self.extractor.experience
        chosen = rows & (self.training > 0)
        every = np.repeat(chosen if chosen.any() else self.training > 0, data.counts)
        return default_variance(data, every, self.training)

    def model(self, trial: Trial) -> Model:
        """The rule as a model; with the empty-lists rule behind it if that is what covers the other samples."""
        uncovered = ~trial.fitted.table.applies & ((self.training > 0) | (self.validation > 0))
        rules = [trial.fitted.rule(self.extractor)]
        if uncovered.any() and self.preset.search.inapplicable == "empty" and self.empty is not None:
            rules.append(self._behind(~trial.fitted.table.applies).rule(self.extractor))
        return Model(self.extractor.experience.domain, rules, self._covariance(~trial.fitted.table.applies))

    def round(
        self,
        explored: Sequence[Explored],
        best: Trial | None,
        accepted: bool,
        test: tuple[float, float],
        begin: float,
    ) -> Round:
        """The record of one round that began at `begin`."""
        timing = (time.perf_counter() - begin, functools.partial(self.model, best) if best is not None else None)
        return Round(tuple(explored), best.explored if best else None, accepted, *test, *timing)
