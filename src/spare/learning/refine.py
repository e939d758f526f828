"""After the lists are found: how each property is best predicted, how sets are seen, and which inputs can go.

Entries of x that never vary are left out at once. Then:

1. Targets. The rule is trained once more with new values in the place of changes, or the other way round; a property
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
from spare.learning.dataset import Extractor
from spare.learning.engine import Problem, outputs
from spare.learning.likelihood import log_values
from spare.learning.problems import with_reflection
from spare.learning.programs import PROGRAMS
from spare.learning.statistics import paired_improvement, weighted_mean
from spare.learning.train import Fitted, Pair, Plan, fit_predictors, judges, member_problem, members_of
from spare.model.features import further

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


def refine(extractor: Extractor, pair: Pair, plan: Plan) -> Extractor:
    """The extractor that sees and predicts the found lists in the best way; the same one if nothing is better."""
    table = extractor.table(*pair)
    if not (np.where(table.applies, plan.validation, 0.0) > 0).any():
        return extractor
    weights = np.where(table.applies, plan.training + plan.validation, 0.0)
    shown, (used, _) = with_reflection(extractor, table, (weights, weights))  # what is constant may tell its image
    names = extractor.input_names(pair[0])
    still = [name for name, spread in zip(names, np.ptp(shown.x[used > 0], axis=0), strict=True) if spread == 0]
    chosen = _without(extractor, pair[0], still) if 0 < len(still) < len(names) else extractor
    return _inputs(_sets(_targets(Judged(chosen, pair, plan))))


def _without(extractor: Extractor, gamma: Shell, names: list[str]) -> Extractor:
    """An extractor that does without these entries, too."""
    added, ignored = extractor.adds.get(gamma, ()), extractor.ignores.get(gamma, ())
    fewer = [name for name in names if name not in added]
    return dataclasses.replace(
        extractor,
        ignores={**extractor.ignores, gamma: (*fewer, *ignored)},
        adds={**extractor.adds, gamma: tuple(name for name in added if name not in names)},
    )


class Judged:
    """Lists trained by a plan, and log p of held-out samples, with deviations widened by what suits these best."""

    def __init__(self, extractor: Extractor, pair: Pair, plan: Plan) -> None:
        self.extractor, self.pair, self.plan = extractor, pair, plan
        self.fitted: Fitted = fit_predictors(extractor, [pair], plan)[0]
        self.judged = np.where(self.fitted.table.applies, plan.validation, 0.0)
        said = self._said()
        tried = [self._log_values(said, wider) for wider in WIDER]
        losses = [weighted_mean(-values.sum(axis=1), self.judged) for values in tried]
        best = int(np.argmin(losses))
        self.wider, self.loss, self.log_values = WIDER[best], losses[best], tried[best]

    @functools.cached_property
    def _problems(self) -> dict[int, Problem]:
        shown = (self.extractor, self.fitted.table, self.plan, self.fitted.scaling)
        return {member: member_problem(*shown, member) for member in members_of(self.fitted.table, self.plan)}

    def _said(self, entry: int = 0, order: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of every member for every row, after an entry of x has been put in another order."""
        rows, means, variances = np.flatnonzero(self.fitted.table.applies), [], []
        for nets, problem in zip(self.fitted.nets, self._problems.values(), strict=True):
            x = problem.rows.x
            if order is not None:
                x = x.copy()
                x[rows, entry] = problem.rows.x[order, entry]
            plain = nets._replace(mean_state=None, variance_state=None)
            arguments = (plain, problem._replace(rows=problem.rows._replace(x=x)))
            mean, variance = PROGRAMS.get("told", outputs, arguments)(*arguments)
            means.append(np.asarray(mean))
            variances.append(np.asarray(variance))
        return np.stack(means), np.stack(variances)

    def _log_values(self, said: tuple[np.ndarray, np.ndarray], wider: float) -> np.ndarray:
        """log p of every sample, by property, (n, Q)."""
        judge = judges(self.plan, list(self._problems))
        normal, shared = (said[0], said[1] * wider**2), (self.fitted.scaling, judge)
        inside, outside = log_values(self.extractor, self.fitted.table, normal, shared, self.fitted.rest)
        return inside + outside

    def costs(self) -> list[tuple[float, float]]:
        """(mean loss on held-out samples that shuffling costs, p-value that it costs something) of each entry of x."""
        rows, found = np.flatnonzero(self.fitted.table.applies), []
        rng = np.random.default_rng([self.plan.seed, 71])
        times = int(np.clip(SHUFFLED // max(1, int((self.judged > 0).sum())), 1, SHUFFLES))
        before = -self.log_values.sum(axis=1)
        for entry in range(self.fitted.table.x.shape[1]):
            orders = [rng.permutation(rows) for _ in range(times)]
            after = [-self._log_values(self._said(entry, order), self.wider).sum(axis=1) for order in orders]
            found.append(paired_improvement(np.mean(after, axis=0), before, self.judged))
        return found


def _targets(first: Judged) -> Judged:
    """Each property as a change or as a new value, whichever is better by the test; a tie stays as it was."""
    extractor, pair, plan = first.extractor, first.pair, first.plan
    free = ~extractor.experience.domain.periodic
    if not free.any():
        return first
    other = Judged(dataclasses.replace(extractor, changes=extractor.changes ^ free), pair, plan)
    better = []
    for before, after, may in zip(first.log_values.T, other.log_values.T, free, strict=True):
        gain, p_value = paired_improvement(-before, -after, first.judged)
        better.append(may and gain > 0 and p_value < plan.preset.search.alpha)
    if not any(better):
        return first
    if np.array_equal(better, free):
        return other
    return Judged(dataclasses.replace(extractor, changes=extractor.changes ^ np.array(better)), pair, plan)


def _sets(first: Judged) -> Judged:
    """With further aggregators of sets, one group after the other, where the test supports them."""
    best = first
    for group in GROUPS:
        names = _further(best, group)
        if not names:
            continue
        extractor, gamma = best.extractor, best.pair[0]
        adds = {**extractor.adds, gamma: (*extractor.adds.get(gamma, ()), *names)}
        more = Judged(dataclasses.replace(extractor, adds=adds), best.pair, best.plan)
        before, after = (-one.log_values.sum(axis=1) for one in (best, more))
        gain, p_value = paired_improvement(before, after, best.judged)
        if gain > 0 and p_value < best.plan.preset.search.alpha:
            best = more
    return best


def _further(judged: Judged, group: tuple[str, ...]) -> tuple[str, ...]:
    """Entries by these aggregators that tell something new: of sets, that vary, and are not another one's multiple."""
    extractor, (gamma, delta), domain = judged.extractor, judged.pair, judged.extractor.experience.domain
    applies = judged.fitted.table.applies
    sizes = extractor.pointing.held(extractor.pointing.masks(gamma))[:, applies]
    found: list[str] = []
    every = further(domain, extractor.action, gamma, extractor.inputs)
    for ways, size, pointer in zip(every, sizes[gamma.roles :], gamma, strict=True):
        told = {*domain.reference(pointer.reference).aggregators}
        same = {"count", "sum", *({"mean"} if "sum" in told else ())} if np.ptp(size) == 0 else set()
        if size.max() > 1:
            found += [name for how in ways if how in group and how not in same for name in ways[how]]
    more = dataclasses.replace(extractor, ignores={}, adds={gamma: tuple(found)})
    spread = np.ptp(more.table(gamma, delta).x[applies], axis=0)
    varies = {name for name, far in zip(more.input_names(gamma), spread, strict=True) if far > 0}
    return tuple(name for name in found if name in varies)


def _inputs(first: Judged) -> Extractor:
    """Without the entries that bring nothing, as long as that is no worse."""
    best, gamma, drop = first, first.pair[0], _unneeded(first)
    for _ in itertools.repeat(None, TRIES):
        if not drop:
            break
        fewer = Judged(_without(best.extractor, gamma, drop), best.pair, best.plan)
        if fewer.loss <= best.loss:
            best, drop = fewer, _unneeded(fewer)
        else:
            drop = drop[: len(drop) // 2]
    return best.extractor


def _unneeded(judged: Judged) -> list[str]:
    """The entries that the test does not ask for, the least useful first; one is always left."""
    names, costs = judged.extractor.input_names(judged.pair[0]), judged.costs()
    level = needed(int((judged.judged > 0).sum()))
    order = [names[k] for k in np.argsort([cost for cost, _ in costs], kind="stable") if costs[k][1] >= level]
    return order[: len(names) - 1]
