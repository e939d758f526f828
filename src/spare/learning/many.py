"""From memberships to a model: the last step of the many-rule learner, and the choice of how many rules.

1. EM gives every rule a heaviest shell and every sample a membership.
2. Rules that say the same (the same lists) are merged, and their memberships added.
3. Each is trained once more on its samples; together, with the default covariance, they are the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from spare.data.experience import Experience
from spare.errors import FitError
from spare.language.references import Shell
from spare.learning.dataset import Extractor
from spare.learning.em import EM, NEGLIGIBLE, EMListener, Iteration, Mixing, RuleState
from spare.learning.history import SearchResult
from spare.learning.mixtures import MixtureModel, MixtureRule
from spare.learning.noise import default_variance, plain_rest
from spare.learning.statistics import paired_improvement
from spare.learning.train import Fitted, Plan, fit_jobs
from spare.model.model import Model


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
    starts = em.starts()
    runs, failure = [], None
    for number, one in enumerate(starts):
        try:
            z, states, history = em.run(one, f" (start {number + 1} of {len(starts)})" if len(starts) > 1 else "")
        except FitError as error:  # a cluster too small to learn from: another start may do
            failure = error
            continue
        shells, merged = _merge(em, z, [state.shells.top(1)[0] for state in states])
        score, fitted, merged = _trained(em, shells, merged, finish)
        runs.append((score, fitted, merged, z, states, history))
    if failure is not None and not runs:
        raise failure
    _, fitted, merged, z, states, history = max(runs, key=lambda run: run[0])
    order = np.argsort(-(em.weights @ merged), kind="stable")
    fitted, merged = [fitted[j] for j in order], merged[:, order]
    model = Model(extractor.experience.domain, [f.rule(extractor) for f in fitted], _default(extractor, plan, fitted))
    shares = tuple(_share(em.weights, merged[:, j], fitted[j]) for j in range(len(fitted)))
    mixture = _mixture(extractor, em, z, states)
    return ManyResult(extractor.action, model, mixture, shares, merged, tuple(history), em.single)


def _trained(
    em: EM, shells: Sequence[Shell], z: np.ndarray, finish: Plan | None
) -> tuple[float, list[Fitted], np.ndarray]:
    """(score, rules, memberships): each rule trained on its own samples, EM's or the model's, whichever explains more.

    The score is the mean log p of validation samples.

    A model uses, for each sample, the most specific rule that applies, whatever EM thought of the sample; a rule that
    was not shown all it will be used for can be far off there.
    """
    applies = np.stack([em.extractor.table(shell, shell).applies for shell in shells], axis=1)
    fires = _fires(applies, np.array([1 + len(shell) for shell in shells]))
    best: tuple[float, list[Fitted], np.ndarray] | None = None
    for memberships in (z, _as_used(z, fires)):
        covered = all(_covers(em, shell, memberships[:, j]) for j, shell in enumerate(shells))
        same = best is not None and np.allclose(memberships, best[2], atol=em.mixing.floor)
        if best is not None and (same or not covered or em.starved(memberships)):
            continue
        jobs = []
        for j, shell in enumerate(shells):
            own = dataclasses.replace(em.rule_plan(memberships[:, j], j, base=finish), bystanders=0.0)
            jobs.append(((shell, shell), own))
        fitted = fit_jobs(em.extractor, jobs, em.plan.threads)
        score = _score(em, fitted, fires)
        if best is None or score > best[0]:
            best = score, fitted, memberships
    assert best is not None
    return best


def _score(em: EM, fitted: Sequence[Fitted], fires: np.ndarray) -> float:
    """Mean log p of the validation samples under the model of these rules; by its default where none of them fires."""
    data = em.extractor.experience
    still = plain_rest(_default(em.extractor, em.plan, fitted)).log_prob(data)
    terms = np.stack([np.where(fires[:, j], one.log_prob, -np.inf) for j, one in enumerate(fitted)])
    joint = np.logaddexp.reduce(terms, axis=0) - np.log(np.maximum(fires.sum(axis=1), 1))
    used = em.plan.validation > 0
    return float(em.plan.validation[used] @ np.where(fires.any(axis=1), joint, still)[used] / em.plan.validation.sum())


def _fires(applies: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Which rules a model uses for each sample, (n, K): those that apply with the highest score."""
    scores = np.where(applies, score, 0)
    return (scores > 0) & (scores == scores.max(axis=1, keepdims=True))


def _as_used(z: np.ndarray, fires: np.ndarray) -> np.ndarray:
    """Memberships among the rules that a model uses for each sample; as they were where none applies."""
    inside = np.where(fires, np.maximum(z, 1e-12), 0.0)
    total = inside.sum(axis=1, keepdims=True)
    return np.where(total > 0, inside / np.maximum(total, 1e-300), z)


def _merge(em: EM, z: np.ndarray, shells: Sequence[Shell]) -> tuple[list[Shell], np.ndarray]:
    """Distinct shells in order of appearance, and the summed memberships of the rules that have them.

    A rule that has lost its samples is left out, as long as there is another; one whose shell applies to none of its
    samples, all of them explained by its empty lists, has empty lists.
    """
    lost = em.starved(z)
    shells = [shell if _covers(em, shell, z[:, j]) else em.empty for j, shell in enumerate(shells)]
    kept = [j for j in range(len(shells)) if j not in lost] or list(range(len(shells)))
    distinct = list(dict.fromkeys(shells[j] for j in kept))
    merged = np.zeros((len(z), len(distinct)))
    for j in kept:
        merged[:, distinct.index(shells[j])] += z[:, j]
    return distinct, merged / merged.sum(axis=1, keepdims=True)


def _covers(em: EM, shell: Shell, column: np.ndarray) -> bool:
    """Whether the shell applies to a training sample that has more than a negligible membership."""
    mine = (column >= NEGLIGIBLE * column.max()) & (em.plan.training > 0)
    return bool((em.extractor.table(shell, shell).applies & mine).any())


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
