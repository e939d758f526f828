"""How much of what a rule gets wrong its objects have in common (`spare.model.copula`), learned from held-out samples.

1. Scores. The value of each object that the rule predicts, by the distribution that members give it which were not
   trained on the sample: z = Phi⁻¹(F(y)), divided by their root mean square.
2. Loadings. For each property the likelihood's maximum over one loading for each output slot and the share of samples
   in which objects go their own ways; one imagined sample of each kind keeps that share away from 0 and 1.
3. Evidence. A property whose gain is not worth its parameters (BIC) stays as in the paper: each value for itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, logsumexp, ndtri

from spare.learning.dataset import Extractor, Table
from spare.learning.likelihood import RowComponents
from spare.model.components import FARTHEST
from spare.model.copula import LARGEST

SHARES = (0.002, 0.5)
"""Between which the share of samples lies in which objects go their own ways."""
SMALLEST = 1e-3
"""Scores that are all smaller do not vary."""
FEW = 10
"""Held-out samples with several objects, at least: from fewer nothing is learned."""


class Scored(NamedTuple):
    """Object rows of held-out samples: scores, free (R, Q); slots (R, S), shares of each; owner (R,); weight (n,).

    `free` is sqrt(1 - resolution² / variance): the part of a deviation that can have a common cause.
    """

    scores: np.ndarray
    free: np.ndarray
    slots: np.ndarray
    owner: np.ndarray
    weight: np.ndarray


def fit_together(
    parts: RowComponents, extractor: Extractor, table: Table, validation: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """(loading (S, Q), apart (Q,)), or None if nothing moves together as far as these samples tell."""
    data = _scored(parts, extractor, table, validation)
    shared = np.flatnonzero(np.bincount(data.owner, minlength=len(data.weight)) > 1)
    if len(shared) < FEW:
        return None
    found = [maximum(data, q, len(shared)) for q in range(data.scores.shape[1])]
    loading, apart = np.stack([one[:-1] for one in found], axis=1), np.array([one[-1] for one in found])
    return (loading, apart) if loading.any() else None


def _scored(parts: RowComponents, extractor: Extractor, table: Table, validation: np.ndarray) -> Scored:
    experience, slots = extractor.experience, table.outputs.shape[0]
    owner = np.repeat(np.arange(len(experience)), experience.counts)
    judged = table.applies & (validation > 0)
    rows = np.flatnonzero(table.outputs.any(axis=0) & judged[owner])
    held, centre, spread = (part[rows].reshape(len(rows), -1, *part.shape[3:]) for part in parts[1:])
    logs = np.where(held, 0.0, -np.inf)[:, :, None]
    logs = logs - logsumexp(logs, axis=1, keepdims=True)
    centre, spread = centre.astype(np.float64), spread.astype(np.float64)
    apart = (parts.change[rows, None] - centre) / np.sqrt(spread)
    low, high = (logsumexp(logs + log_ndtr(side * apart), axis=1) for side in (1, -1))
    tail = np.exp(np.clip(np.minimum(low, high), FARTHEST, np.log(0.5)))
    weight = np.exp(logs)
    mean = (weight * centre).sum(axis=1)
    variance = (weight * (spread + np.square(centre - mean[:, None]))).sum(axis=1)
    free = np.sqrt(np.clip(1 - experience.domain.resolutions**2 / variance, 0, 1))
    members = table.outputs[:, rows].T.astype(np.float64)
    weights = np.where(judged, validation, 0.0)
    scores = np.where(low < high, 1, -1) * ndtri(tail)
    return Scored(
        scores / np.maximum(_size(scores, weights[owner[rows]]), SMALLEST),
        free,
        members.reshape(len(rows), slots) / members.sum(axis=1, keepdims=True),
        owner[rows],
        weights / weights[weights > 0].mean() if judged.any() else weights,
    )


def _size(scores: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The root mean square of each property's scores: a single judge may be too sure of itself, or not enough.

    Left in, that would look like a common cause, which makes scores of one sample large together.
    """
    return np.sqrt(weight @ np.square(scores) / max(weight.sum(), 1e-300))


def shared_log_density(score: np.ndarray, loading: np.ndarray, owner: np.ndarray, n: int) -> np.ndarray:
    """log N(z; 0, diag(1 - a²) + a a') - log N(z; 0, I) of each of n samples, from rows of one property, float64."""

    def total(part: np.ndarray) -> np.ndarray:
        return np.bincount(owner, part, minlength=n)

    own = 1 - loading**2
    both = 1 + total(loading**2 / own)
    square = total(score**2 * loading**2 / own) - total(loading * score / own) ** 2 / both
    return -0.5 * (total(np.log(own)) + np.log(both) + square)


def maximum(data: Scored, q: int, samples: int) -> np.ndarray:
    """The likelihood's maximum for property q: loadings of all slots and, last, the share apart.

    Loadings are 0 where it is not worth its parameters, judged by so many samples of several objects.
    """
    score, free, slots = data.scores[:, q], data.free[:, q], data.slots.shape[1]

    def gain(parameters: np.ndarray) -> float:
        apart = parameters[-1]
        shared = shared_log_density(score, free * (data.slots @ parameters[:-1]), data.owner, len(data.weight))
        return float(data.weight @ np.logaddexp(np.log1p(-apart) + shared, np.log(apart)))

    def loss(parameters: np.ndarray) -> float:
        return -gain(parameters) - float(np.log(parameters[-1]) + np.log1p(-parameters[-1]))

    start = np.append(0.7 * _signs(data, score), 0.05)
    bounds = [(-LARGEST, LARGEST)] * slots + [SHARES]
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
