"""From memberships to a model: the last step of the many-rule learner, and the choice of how many rules.

1. EM gives every rule a heaviest shell and every sample a membership.
2. Rules that say the same (the same lists) are merged, and their memberships added.
3. Each is trained once more on its samples; together, with the default covariance, they are the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from spare.content import ByContent
from spare.data.experience import Experience
from spare.errors import FitError
from spare.language.references import Shell
from spare.learning.dataset import Dataset
from spare.learning.em import EM, NEGLIGIBLE, EMListener, Iteration
from spare.learning.history import SearchResult
from spare.learning.mixing import Mixing
from spare.learning.noise import default_variance, noise_log_prob
from spare.learning.statistics import paired_improvement, weighted_mean
from spare.learning.train import Fitted, Plan, fit_jobs
from spare.model.distributions import firing, mix_rules
from spare.model.model import Model
from spare.model.noise import DefaultNoise


@dataclasses.dataclass(frozen=True)
class RuleShare:
    """What a learned rule stands for: its lists, its share of the data, the sample most typical of it."""

    shell: Shell
    share: float
    typical: int


@dataclasses.dataclass(frozen=True, eq=False)
class ManyResult(ByContent):
    """K rules learned together.

    model: one transition rule per distinct shell; memberships (n, K) of the samples that were learned from, merged as
    the rules were; history: one `Iteration` per step from the start.
    """

    action: str
    model: Model
    shares: tuple[RuleShare, ...]
    memberships: np.ndarray
    history: tuple[Iteration, ...]
    single: SearchResult | None


def learn_rules(
    dataset: Dataset,
    plan: Plan,
    mixing: Mixing,
    listener: EMListener | None = None,
    start: np.ndarray | None = None,
    finish: Plan | None = None,
) -> ManyResult:
    """The many-rule learner on the transitions of one action; `start` gives memberships instead of clustering.

    `finish` is how the rules are trained in the end, if otherwise than in EM.
    """
    em = EM(dataset, plan, mixing, listener, start)
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
        runs.append((score, fitted, merged, history))
    if failure is not None and not runs:
        raise failure
    _, fitted, merged, history = max(runs, key=lambda run: run[0])
    order = np.argsort(-(em.weights @ merged), kind="stable")
    fitted, merged = [fitted[j] for j in order], merged[:, order]
    model = Model(dataset.experience.domain, [f.rule(dataset) for f in fitted], _default(dataset, plan, fitted))
    shares = tuple(_share(em.weights, merged[:, j], fitted[j]) for j in range(len(fitted)))
    return ManyResult(dataset.action, model, shares, merged, tuple(history), em.single)


def _trained(
    em: EM, shells: Sequence[Shell], z: np.ndarray, finish: Plan | None
) -> tuple[float, list[Fitted], np.ndarray]:
    """(score, rules, memberships): each rule trained on its own samples, EM's or the model's, whichever explains more.

    The score is the mean log p of validation samples.

    A model uses, for each sample, the most specific rule that applies, whatever EM thought of the sample; a rule that
    was not shown all it will be used for can be far off there.
    """
    applies = np.stack([em.dataset.matrix(shell, shell).applies for shell in shells], axis=1)
    fires = firing(np.where(applies, np.array([1 + len(shell) for shell in shells]), 0).T).T
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
        fitted = fit_jobs(em.dataset, jobs, em.plan.threads)
        score = _score(em, fitted, fires)
        if best is None or score > best[0]:
            best = score, fitted, memberships
    assert best is not None
    return best


def _score(em: EM, fitted: Sequence[Fitted], fires: np.ndarray) -> float:
    """Mean log p of the validation samples under the model of these rules; by its default where none of them fires."""
    data = em.dataset.experience
    default = noise_log_prob(DefaultNoise(_default(em.dataset, em.plan, fitted)), data)
    terms = np.stack([*(one.log_prob for one in fitted), default])
    return weighted_mean(mix_rules(fires.T, np.nan_to_num(terms)), em.plan.validation)


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
    return bool((em.dataset.matrix(shell, shell).applies & mine).any())


def _default(dataset: Dataset, plan: Plan, fitted: Sequence[Fitted]) -> np.ndarray:
    """Sigma_default: squared deviations in the training samples that no rule covers (in all, if each is covered)."""
    covered = np.any([f.matrix.applies for f in fitted], axis=0)
    used = plan.training > 0
    rows = used & ~covered if (used & ~covered).any() else used
    return default_variance(dataset.experience, np.repeat(rows, dataset.experience.counts), plan.training)


def _share(weights: np.ndarray, column: np.ndarray, fitted: Fitted) -> RuleShare:
    """The typical sample is the one with median likelihood among those that belong to the rule and that it covers."""
    mine = np.flatnonzero(fitted.matrix.applies & (column > 0.5) & (weights > 0))
    if not len(mine):
        mine = np.flatnonzero(fitted.matrix.applies)
    ranked = mine[np.argsort(fitted.log_prob[mine], kind="stable")]
    return RuleShare(fitted.matrix.gamma, float(weights @ column / weights.sum()), int(ranked[len(ranked) // 2]))


def better_by_test(few: Model, many: Model, held_out: Experience, alpha: float) -> bool:
    """Whether more rules explain held-out samples better, by the paired test; a tie goes to fewer."""
    gain, p_value = paired_improvement(-few.log_prob(held_out), -many.log_prob(held_out), held_out.weights)
    return gain > 0 and p_value < alpha
