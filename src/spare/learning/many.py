"""From memberships to a model: the last step of the many-rule learner, and the choice of how many rules.

1. EM gives every rule a heaviest shell and every sample a membership.
2. Rules that say the same (the same lists) are merged, and their memberships added.
3. Each is trained once more on its samples; together, with the default covariance, they are the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from spare.experience import Experience
from spare.learning.em import EM, EMListener, Iteration, Mixing, RuleState
from spare.learning.extract import Extractor, default_variance
from spare.learning.fit import Fitted, Plan, fit_jobs
from spare.learning.statistics import paired_improvement
from spare.learning.trials import SearchResult
from spare.mixture_rule import MixtureModel, MixtureRule
from spare.model import Model
from spare.references import Shell


@dataclasses.dataclass(frozen=True)
class RuleShare:
    """What a learned rule stands for: its lists, its share of the data, the sample most typical of it."""

    shell: Shell
    share: float
    typical: int


@dataclasses.dataclass(frozen=True)
class ManyResult:
    """K rules learned together.

    model: one transition rule per distinct shell; mixture: the mixture rules as EM left them; memberships (n, K) of
    the samples that were learned from, merged as the rules were; history: one `Iteration` per step from the start.
    """

    action: str
    model: Model
    mixture: MixtureModel
    shares: tuple[RuleShare, ...]
    memberships: np.ndarray
    history: tuple[Iteration, ...]
    single: SearchResult | None


def learn_rules(
    extractor: Extractor,
    plan: Plan,
    mixing: Mixing,
    listener: EMListener | None = None,
    start: np.ndarray | None = None,
    finish: Plan | None = None,
) -> ManyResult:
    """The many-rule learner on the transitions of one action; `start` gives memberships instead of clustering.

    `finish` is how the rules are trained in the end, if otherwise than in EM.
    """
    em = EM(extractor, plan, mixing, listener, start)
    z, states, history = em.run()
    shells, merged = _merge(z, [state.shells.top(1)[0] for state in states])
    jobs = []
    for j, shell in enumerate(shells):
        own = dataclasses.replace(em.rule_plan(merged[:, j], j, base=finish), bystanders=0.0)
        jobs.append(((shell, shell), own))
    fitted = fit_jobs(extractor, jobs, plan.threads)
    order = np.argsort(-(em.weights @ merged), kind="stable")
    fitted, merged = [fitted[j] for j in order], merged[:, order]
    model = Model(extractor.experience.domain, [f.rule(extractor) for f in fitted], _default(extractor, plan, fitted))
    shares = tuple(_share(em.weights, merged[:, j], fitted[j]) for j in range(len(fitted)))
    mixture = _mixture(extractor, em, z, states)
    return ManyResult(extractor.action, model, mixture, shares, merged, tuple(history), em.single)


def _merge(z: np.ndarray, shells: Sequence[Shell]) -> tuple[list[Shell], np.ndarray]:
    """Distinct shells in order of appearance, and the summed memberships of the rules that have them."""
    distinct = list(dict.fromkeys(shells))
    merged = np.zeros((len(z), len(distinct)))
    for j, shell in enumerate(shells):
        merged[:, distinct.index(shell)] += z[:, j]
    return distinct, merged


def _default(extractor: Extractor, plan: Plan, fitted: Sequence[Fitted]) -> np.ndarray:
    """Sigma_default: squared deviations in the training samples that no rule covers (in all, if each is covered)."""
    covered = np.any([f.table.applies for f in fitted], axis=0)
    used = plan.training > 0
    rows = used & ~covered if (used & ~covered).any() else used
    return default_variance(extractor.experience, np.repeat(rows, extractor.experience.counts), plan.training)


def _share(weights: np.ndarray, column: np.ndarray, fitted: Fitted) -> RuleShare:
    """The typical sample is the one with median likelihood among those that belong to the rule and that it covers."""
    mine = np.flatnonzero(fitted.table.applies & (column > 0.5) & (weights > 0))
    if not len(mine):
        mine = np.flatnonzero(fitted.table.applies)
    ranked = mine[np.argsort(fitted.log_prob[mine], kind="stable")]
    return RuleShare(fitted.table.gamma, float(weights @ column / weights.sum()), int(ranked[len(ranked) // 2]))


def _mixture(extractor: Extractor, em: EM, z: np.ndarray, states: Sequence[RuleState]) -> MixtureModel:
    """The mixture rules as models; each part has the empty-lists rule behind it."""
    domain = extractor.experience.domain
    rules = []
    for state in states:
        empty = state.fitted[em.empty].rule(extractor)
        parts = []
        for shell in state.shells.top(em.mixing.kappa):
            if shell in state.fitted:
                own = [] if shell == em.empty else [state.fitted[shell].rule(extractor)]
                parts.append((shell, Model(domain, [*own, empty], state.fitted[em.empty].default_variance)))
        rules.append(MixtureRule(extractor.action, state.shells, tuple(parts)))
    priors = em.weights @ z / em.weights.sum()
    return MixtureModel(domain, tuple(rules), tuple(priors.tolist()))


def better_by_test(few: Model, many: Model, held_out: Experience, alpha: float) -> bool:
    """Whether more rules explain held-out samples better, by the paired test; a tie goes to fewer."""
    gain, p_value = paired_improvement(-few.log_prob(held_out), -many.log_prob(held_out), held_out.weights)
    return gain > 0 and p_value < alpha
