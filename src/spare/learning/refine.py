"""After the lists are found: how each property is best predicted, and which inputs the rule does without.

1. Targets. The rule is trained once more with new values in the place of changes, or the other way round; a property
   changes sides if the paired test over held-out samples supports it.
2. Inputs. Each entry of x is shuffled among the samples, and what that costs on held-out ones is what the trained
   networks make of the entry. Those that cost nothing are left out together, the rule is trained without them, and
   that is kept if it explains the held-out samples no worse; otherwise half of them, the least useful, are tried.

An entry is one property of one slot by one aggregator, so the second step also chooses aggregators.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from spare.learning.engine import outputs
from spare.learning.extract import Extractor
from spare.learning.fit import Fitted, Plan, fit_predictors, judges, log_values, member_problems
from spare.learning.programs import PROGRAMS
from spare.learning.statistics import paired_improvement, weighted_mean

NEEDED = 0.05
"""Entries whose shuffling costs something at this level of the paired test are kept in any case."""
TRIES = 3


def refine(extractor: Extractor, fitted: Fitted, plan: Plan) -> Extractor:
    """The extractor that sees and predicts the found lists in the best way; the same one if nothing is better."""
    judged = np.where(fitted.table.applies, plan.validation, 0.0)
    if not (judged > 0).any():
        return extractor
    chosen = _targets(extractor, fitted, plan, judged)
    if chosen is not extractor:
        fitted = _trained(chosen, fitted, plan)
    return _inputs(chosen, fitted, plan, judged)


def _trained(extractor: Extractor, fitted: Fitted, plan: Plan) -> Fitted:
    return fit_predictors(extractor, [(fitted.table.gamma, fitted.table.delta)], plan)[0]


def _targets(extractor: Extractor, fitted: Fitted, plan: Plan, judged: np.ndarray) -> Extractor:
    """Each property as a change or as a new value, whichever is better by the test; a tie stays as it was."""
    free = ~extractor.experience.domain.periodic
    if not free.any():
        return extractor
    other = _trained(dataclasses.replace(extractor, changes=extractor.changes ^ free), fitted, plan)
    better = []
    for before, after, may in zip(fitted.log_values[0].T, other.log_values[0].T, free, strict=True):
        gain, p_value = paired_improvement(-before, -after, judged)
        better.append(may and gain > 0 and p_value < plan.preset.search.alpha)
    return dataclasses.replace(extractor, changes=extractor.changes ^ np.array(better)) if any(better) else extractor


def _inputs(extractor: Extractor, fitted: Fitted, plan: Plan, judged: np.ndarray) -> Extractor:
    """Without the entries that bring nothing, if that is no worse."""
    gamma = fitted.table.gamma
    names, costs = extractor.input_names(gamma), importance(extractor, fitted, plan)
    order = [int(k) for k in np.argsort([cost for cost, _ in costs], kind="stable") if costs[k][1] >= NEEDED]
    order = order[: len(names) - 1]
    base = weighted_mean(-fitted.log_prob, judged)
    for _ in range(TRIES):
        if not order:
            break
        ignored = tuple(names[k] for k in sorted(order)) + extractor.ignores.get(gamma, ())
        less = dataclasses.replace(extractor, ignores={**extractor.ignores, gamma: ignored})
        if weighted_mean(-_trained(less, fitted, plan).log_prob, judged) <= base:
            return less
        order = order[: len(order) // 2]
    return extractor


def importance(extractor: Extractor, fitted: Fitted, plan: Plan) -> list[tuple[float, float]]:
    """(mean loss on held-out samples that shuffling costs, p-value that it costs something) of each entry of x."""
    table = fitted.table
    rows = np.flatnonzero(table.applies)
    judged = np.where(table.applies, plan.validation, 0.0)
    problems = dict(member_problems(extractor, table, plan, fitted.scaling))
    judge = judges(plan, list(problems))
    rng, found = np.random.default_rng([plan.seed, 71]), []
    for k in range(table.x.shape[1]):
        shuffled = rng.permutation(rows)
        told = []
        for nets, problem in zip(fitted.nets, problems.values(), strict=True):
            x = problem.rows.x.copy()
            x[rows, k] = problem.rows.x[shuffled, k]
            changed = problem._replace(rows=problem.rows._replace(x=x))
            plain = nets._replace(mean_state=None, variance_state=None)
            arguments = (plain, changed)
            mean, variance = PROGRAMS.get("told", outputs, arguments)(*arguments)
            told.append((np.asarray(mean), np.asarray(variance)))
        normal = (np.stack([mean for mean, _ in told]), np.stack([variance for _, variance in told]))
        values = log_values(extractor, table, normal, (fitted.scaling, judge), fitted.rest)
        after = values[0].sum(axis=1) + values[1].sum(axis=1)
        found.append(paired_improvement(-after, -fitted.log_prob, judged))
    return found
