"""Learning what values have in common: the loadings of `OneFactorCopula`, from samples that were held out.

1. Scores. For every object row of a held-out sample, by the mixture of the members that were not trained on the
   sample: z = Phi⁻¹(F(y)), divided by their root mean square.
2. Loadings. For each property the likelihood's maximum over one loading for each output slot and the share of samples
   without a common factor; one imagined sample of each kind keeps that share away from 0 and 1.
3. Evidence. A property whose gain is not worth its parameters (BIC) stays as in the paper: independent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from spare.learning.dataset import Dataset, DesignMatrix
from spare.model.copula import LARGEST_LOADING, OneFactorCopula, common_part, factor_log_density, mixed_with_apart
from spare.model.distributions import Components

SHARES = (0.002, 0.5)
"""Bounds of the share of samples without a common factor."""
SMALLEST = 1e-3
"""Scores that are all smaller do not vary."""
FEW = 10
"""From fewer held-out samples with several objects nothing is learned."""


class Scored(NamedTuple):
    """Object rows of held-out samples: scores, common (R, Q); slots (R, S), shares of each; owner (R,); weight (n,).

    `common` is the part of a deviation that can have a common factor.
    """

    scores: np.ndarray
    common: np.ndarray
    slots: np.ndarray
    owner: np.ndarray
    weight: np.ndarray


def fit_copula(
    change: np.ndarray, parts: Components, data: Dataset, matrix: DesignMatrix, validation: np.ndarray
) -> OneFactorCopula | None:
    """The copula of a rule, or None if values are independent as far as these samples tell.

    `change` (R, Q) and `parts` are what happened to each object row and what was predicted, see `row_components`.
    """
    scored = _scored(change, parts, data, matrix, validation)
    several = np.flatnonzero(np.bincount(scored.owner, minlength=len(scored.weight)) > 1)
    if len(several) < FEW:
        return None
    nothing = np.append(np.zeros(scored.slots.shape[1]), SHARES[1])
    found = [maximum(scored, q, len(several)) if one else nothing for q, one in enumerate(parts.continuous)]
    loading, apart = np.stack([one[:-1] for one in found], axis=1), np.array([one[-1] for one in found])
    return OneFactorCopula(loading, apart) if loading.any() else None


def _scored(
    change: np.ndarray, parts: Components, data: Dataset, matrix: DesignMatrix, validation: np.ndarray
) -> Scored:
    experience, slots = data.experience, matrix.outputs.shape[0]
    owner = experience.owner
    judged = matrix.applies & (validation > 0)
    rows = np.flatnonzero(matrix.outputs.any(axis=0) & judged[owner])
    mine = Components(
        parts.mask[:, rows],
        parts.log_weight.astype(np.float64),
        parts.location[:, rows].astype(np.float64),
        parts.variance[:, rows].astype(np.float64),
        parts.leaves,
    )
    members = matrix.outputs[:, rows].T.astype(np.float64)
    weights = np.where(judged, validation, 0.0)
    scores = mine.scores(change[rows].astype(np.float64))
    return Scored(
        scores / np.maximum(_size(scores, weights[owner[rows]]), SMALLEST),
        common_part(mine.moments()[1], experience.domain.resolutions),
        members.reshape(len(rows), slots) / members.sum(axis=1, keepdims=True),
        owner[rows],
        weights / weights[weights > 0].mean() if judged.any() else weights,
    )


def _size(scores: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The root mean square of each property's scores: a single judge may be overconfident, or not confident enough.

    Left in, that would look like a common factor, which makes scores of one sample large together.
    """
    return np.sqrt(weight @ np.square(scores) / max(weight.sum(), 1e-300))


def maximum(data: Scored, q: int, samples: int) -> np.ndarray:
    """The likelihood's maximum for property q: loadings of all slots and, last, the share without a common factor.

    Loadings are 0 where it is not worth its parameters, judged by so many samples of several objects.
    """
    score, common, slots, n = data.scores[:, q], data.common[:, q], data.slots.shape[1], len(data.weight)

    def gain(parameters: np.ndarray) -> float:
        factor = factor_log_density(
            score,
            common * (data.slots @ parameters[:-1]),
            lambda part: np.bincount(data.owner, part, minlength=n),
            lambda total: total[data.owner],
        )
        return float(data.weight @ mixed_with_apart(factor, parameters[-1]))

    def loss(parameters: np.ndarray) -> float:
        return -gain(parameters) - float(np.log(parameters[-1]) + np.log1p(-parameters[-1]))

    start = np.append(0.7 * _signs(data, score), 0.05)
    bounds = [(-LARGEST_LOADING, LARGEST_LOADING)] * slots + [SHARES]
    best = np.clip(minimize(loss, start, method="L-BFGS-B", bounds=bounds).x, *np.array(bounds).T)
    if gain(best) > 0.5 * (slots + 1) * np.log(samples):
        return best
    return np.append(np.zeros(slots), SHARES[1])


def _signs(data: Scored, score: np.ndarray) -> np.ndarray:
    """Which slots go the same way: signs of the first principal direction of their mean scores."""
    n, slots = len(data.weight), data.slots.shape[1]
    means = np.zeros((n, slots))
    for slot in range(slots):
        inside = data.slots[:, slot] > 0
        count = np.bincount(data.owner[inside], minlength=n)
        means[:, slot] = np.bincount(data.owner[inside], score[inside], minlength=n) / np.maximum(count, 1)
    _, _, directions = np.linalg.svd(means * np.sqrt(data.weight)[:, None], full_matrices=False)
    return np.where(directions[0] * np.sign(directions[0].sum() or 1.0) < 0, -1.0, 1.0)
