"""After the lists are found: how each property is best predicted, how sets are seen, and which inputs can go.

Entries of x that never vary are left out at once. Then:

1. Targets. The rule is trained once more with new values in place of changes, or the other way round; a property
   changes sides if the paired test over held-out samples supports it.
2. Aggregators. Where a slot is a set, the rule is trained once more with further views of it: its size, sums and
   mean, then its extremes. They stay if the paired test supports it.
3. Inputs. Each entry of x is shuffled among the samples, and what that costs on held-out ones is what the trained
   networks make of the entry. Those that the test does not ask for are left out together, the rule is trained without
   them, and that is kept if it explains the held-out samples no worse; otherwise half of them, the least useful, are
   tried. The same again for what is left, at most six times.

An entry is one property of one slot by one aggregator, so the last step also chooses among those that were there.

Held-out samples are judged by few networks, often by one, which with few samples is too sure of itself; the ensemble
that is trained in the end is less so. Left alone, that would speak against every input, so variances are first widened
by the factor that suits the held-out samples best.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np

from spare.language.references import Shell
from spare.learning.dataset import Dataset
from spare.learning.engine import Problem
from spare.learning.families import find_family
from spare.learning.likelihood import Judges, Outputs, log_values, row_components
from spare.learning.problems import with_reflection
from spare.learning.statistics import paired_improvement, weighted_mean
from spare.learning.train import Fitted, Pair, Plan, fit_predictors, judges, member_problem, members_of

TRIES = 6
"""How many times, at most, the rule is trained without some inputs."""
WIDER = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""By how much deviations may be widened."""
GROUPS = (("mean", "sum", "count"), ("max", "min"))
"""Aggregators that are tried together."""
SHUFFLED, SHUFFLES = 300, 5
"""An entry is shuffled until so many samples have been judged, at most so many times."""


def needed(judged: int) -> float:
    """The level of the paired test at which an entry is kept in any case: 5 %, and more where samples are too few."""
    return max(0.05, 5.0 / judged)


def refine(dataset: Dataset, pair: Pair, plan: Plan) -> Dataset:
    """The dataset that sees and predicts the found lists in the best way; the same one if nothing is better."""
    matrix = dataset.matrix(*pair)
    if not (np.where(matrix.applies, plan.validation, 0.0) > 0).any():
        return dataset
    weights = np.where(matrix.applies, plan.training + plan.validation, 0.0)
    shown, (used, _) = with_reflection(dataset, matrix, (weights, weights))  # what is constant may tell its image
    names = dataset.layout(pair[0]).names
    constant = [name for name, spread in zip(names, np.ptp(shown.x[used > 0], axis=0), strict=True) if spread == 0]
    chosen = _without(dataset, pair[0], constant) if 0 < len(constant) < len(names) else dataset
    return _inputs(_sets(_targets(Judged(chosen, pair, plan))))


def _without(dataset: Dataset, gamma: Shell, names: list[str]) -> Dataset:
    """A dataset that does without these entries, too."""
    spec = dataset.feature_spec(gamma)
    fewer = tuple(name for name in names if name not in spec.extra)
    extra = tuple(name for name in spec.extra if name not in names)
    return dataset.with_features(gamma, dataclasses.replace(spec, dropped=(*fewer, *spec.dropped), extra=extra))


class Judged:
    """Lists trained by a plan, and log p of held-out samples, with deviations widened by what suits these best."""

    def __init__(self, dataset: Dataset, pair: Pair, plan: Plan) -> None:
        self.dataset, self.pair, self.plan = dataset, pair, plan
        self.fitted: Fitted = fit_predictors(dataset, [pair], plan)[0]
        self.judged = np.where(self.fitted.matrix.applies, plan.validation, 0.0)
        outputs = self._outputs()
        tried = [self._log_values(outputs, wider) for wider in WIDER]
        losses = [weighted_mean(-values.sum(axis=1), self.judged) for values in tried]
        best = int(np.argmin(losses))
        self.wider, self.loss, self.log_values = WIDER[best], losses[best], tried[best]

    @functools.cached_property
    def _problems(self) -> dict[int, Problem]:
        shown = (self.dataset, self.fitted.matrix, self.plan, self.fitted.scaling)
        return {member: member_problem(*shown, member) for member in members_of(self.fitted.matrix, self.plan)}

    @functools.cached_property
    def _members(self) -> list:
        family = find_family(self.plan.preset.training.family)
        return family.members(self.fitted.predictor, self.plan.room(self.fitted.matrix))

    def _outputs(self, entry: int = 0, order: np.ndarray | None = None) -> Outputs:
        """Mean and variance of every member for every row, after an entry of x has been put in another order."""
        family = find_family(self.plan.preset.training.family)
        rows, found = np.flatnonzero(self.fitted.matrix.applies), []
        for member, problem in zip(self._members, self._problems.values(), strict=True):
            x = problem.rows.x
            if order is not None:
                x = x.copy()
                x[rows, entry] = problem.rows.x[order, entry]
            found.append(family.outputs(member, problem._replace(rows=problem.rows._replace(x=x))))
        return Outputs(*(np.stack(part) for part in zip(*found, strict=True)))

    def _log_values(self, outputs: Outputs, wider: float) -> np.ndarray:
        """log p of every sample, by property, (n, Q)."""
        judging = Judges(self.fitted.scaling, judges(self.plan, list(self._problems)))
        widened = Outputs(outputs.mean, outputs.variance * wider**2)
        rows = row_components(self.dataset, self.fitted.matrix, widened, judging)
        inside, outside = log_values(self.dataset, self.fitted.matrix, *rows, self.fitted.noise)
        return inside + outside

    def costs(self) -> list[tuple[float, float]]:
        """(mean loss on held-out samples that shuffling costs, p-value that it costs something) of each entry of x."""
        rows, found = np.flatnonzero(self.fitted.matrix.applies), []
        rng = np.random.default_rng([self.plan.seed, 71])
        times = int(np.clip(SHUFFLED // max(1, int((self.judged > 0).sum())), 1, SHUFFLES))
        before = -self.log_values.sum(axis=1)
        for entry in range(self.fitted.matrix.x.shape[1]):
            orders = [rng.permutation(rows) for _ in range(times)]
            after = [-self._log_values(self._outputs(entry, order), self.wider).sum(axis=1) for order in orders]
            found.append(paired_improvement(np.mean(after, axis=0), before, self.judged))
        return found


def _targets(first: Judged) -> Judged:
    """Each property as a change or as a new value, whichever is better by the test; a tie stays as it was."""
    dataset, pair, plan = first.dataset, first.pair, first.plan
    free = np.array([kind.changes is None for kind in dataset.experience.domain.kinds])
    if not free.any():
        return first
    other = Judged(dataclasses.replace(dataset, changes=dataset.changes ^ free), pair, plan)
    better = []
    for before, after, may in zip(first.log_values.T, other.log_values.T, free, strict=True):
        gain, p_value = paired_improvement(-before, -after, first.judged)
        better.append(may and gain > 0 and p_value < plan.preset.search.alpha)
    if not any(better):
        return first
    if np.array_equal(better, free):
        return other
    return Judged(dataclasses.replace(dataset, changes=dataset.changes ^ np.array(better)), pair, plan)


def _sets(first: Judged) -> Judged:
    """With further aggregators of sets, one group after the other, where the test supports them."""
    best = first
    for group in GROUPS:
        names = _further(best, group)
        if not names:
            continue
        gamma = best.pair[0]
        spec = best.dataset.feature_spec(gamma)
        wider = dataclasses.replace(spec, extra=(*spec.extra, *names))
        more = Judged(best.dataset.with_features(gamma, wider), best.pair, best.plan)
        before, after = (-one.log_values.sum(axis=1) for one in (best, more))
        gain, p_value = paired_improvement(before, after, best.judged)
        if gain > 0 and p_value < best.plan.preset.search.alpha:
            best = more
    return best


def _further(judged: Judged, group: tuple[str, ...]) -> tuple[str, ...]:
    """Entries by these aggregators that tell something new: of sets, that vary, and are not another one's multiple."""
    dataset, (gamma, delta), domain = judged.dataset, judged.pair, judged.dataset.experience.domain
    applies, pointers = judged.fitted.matrix.applies, tuple(gamma)
    sizes = dataset.bindings.held(dataset.bindings.masks(gamma))[:, applies]
    found: list[str] = []
    for block in dataset.layout(gamma).every:
        if block.offered or block.slot is None or block.how not in group:
            continue
        offered = domain.reference(pointers[block.slot - gamma.roles].reference).aggregators
        same = {"count", "sum", *({"mean"} if "sum" in offered else ())} if np.ptp(sizes[block.slot]) == 0 else set()
        if sizes[block.slot].max() > 1 and block.how not in same:
            found += block.names
    plain = dataclasses.replace(dataset.feature_spec(gamma), dropped=(), extra=tuple(found))
    more = dataset.with_features(gamma, plain)
    spread = np.ptp(more.matrix(gamma, delta).x[applies], axis=0)
    varies = {name for name, far in zip(more.layout(gamma).names, spread, strict=True) if far > 0}
    return tuple(name for name in found if name in varies)


def _inputs(first: Judged) -> Dataset:
    """Without the entries that bring nothing, as long as that is no worse."""
    best, gamma, drop = first, first.pair[0], _unneeded(first)
    for _ in itertools.repeat(None, TRIES):
        if not drop:
            break
        fewer = Judged(_without(best.dataset, gamma, drop), best.pair, best.plan)
        if fewer.loss <= best.loss:
            best, drop = fewer, _unneeded(fewer)
        else:
            drop = drop[: len(drop) // 2]
    return best.dataset


def _unneeded(judged: Judged) -> list[str]:
    """The entries that the test does not ask for, the least useful first; one is always left."""
    names, costs = judged.dataset.layout(judged.pair[0]).names, judged.costs()
    level = needed(int((judged.judged > 0).sum()))
    order = [names[k] for k in np.argsort([cost for cost, _ in costs], kind="stable") if costs[k][1] >= level]
    return order[: len(names) - 1]
