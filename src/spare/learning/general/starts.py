"""Where the outcomes of a head start: a mixture of linear regressions, by EM from several first guesses.

    p(y | x) = sum over k of w_k prod_q N(y_q; c_kq + x' S_kq, v_kq)

Things that are pushed alike and go different ways (a ball, a box) differ in the slopes of y on x, not in y itself: a
clustering of y alone would find large and small pushes instead.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import KMeans

from spare.learning.threads import one_thread

ROUNDS, GUESSES, MOST = 12, 2, 600
"""Steps of EM, random first guesses, and rows that are looked at."""
NARROW = 1e-4
"""The smallest variance, of normalised y."""


class Lines(NamedTuple):
    """centres (K, Q) and slopes (K, D, Q) of K linear functions of x."""

    centres: np.ndarray
    slopes: np.ndarray


def slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Ridge regression of y on x, both normalised, (D, Q): with as much trust as there are rows."""
    return _solve(x, y, np.ones(len(x)))


def _solve(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    if not len(x) or not x.shape[1]:
        return np.zeros((x.shape[1], y.shape[1]))
    scaled = weight[:, None] * x
    gram = x.T @ scaled + (1.0 + 0.01 * weight.sum()) * np.eye(x.shape[1])
    return np.linalg.solve(gram, scaled.T @ y)


def lines(x: np.ndarray, y: np.ndarray, outcomes: int, seed: int) -> Lines:
    """The mixture of `outcomes` lines that explains y (rows, Q) best, x (rows, D) normalised."""
    rng = np.random.default_rng([seed, outcomes])
    if len(x) > MOST:
        chosen = np.sort(rng.choice(len(x), MOST, replace=False))
        x, y = x[chosen], y[chosen]
    best, most = None, -np.inf
    with one_thread():
        for share in _guesses(x, y, outcomes, rng):
            found, score = _climbed(x, y, share)
            if score > most:
                best, most = found, score
    assert best is not None
    return best


def ordered_like(found: Lines, other: Lines, outcomes: int) -> Lines:
    """The same with the first so many lines in the order in which they are nearest to those of another mixture."""

    def apart(order: tuple[int, ...]) -> float:
        parts = zip(found, other, strict=True)
        return float(sum(np.square(mine[list(order)] - theirs[:outcomes]).sum() for mine, theirs in parts))

    order = min(itertools.permutations(range(outcomes)), key=apart)
    every = [*order, *range(outcomes, len(found.centres))]
    return Lines(found.centres[every], found.slopes[every])


def _guesses(x: np.ndarray, y: np.ndarray, outcomes: int, rng: np.random.Generator) -> list[np.ndarray]:
    """First responsibilities (rows, K): clusters of y, of what a single line leaves, and lines through a few rows."""
    state = int(rng.integers(2**31))
    residual = y - y.mean(axis=0) - x @ slopes(x, y - y.mean(axis=0))
    found = []
    for points in (y, residual):
        if np.ptp(points, axis=0).max() > 1e-6:
            # K-means warns where it is asked for more clusters than there are different points.
            kinds = min(outcomes, len(np.unique(points.round(6), axis=0)))
            found.append(np.eye(outcomes)[KMeans(kinds, n_init="auto", random_state=state).fit_predict(points)])
    size = min(len(x), 2 * x.shape[1] + 4)
    for _ in range(GUESSES):
        near = []
        for _ in range(outcomes):
            rows = rng.choice(len(x), size, replace=False)
            centre = y[rows].mean(axis=0)
            near.append(np.square(y - centre - x @ slopes(x[rows], y[rows] - centre)).sum(axis=1))
        found.append(np.eye(outcomes)[np.argmin(np.stack(near, axis=1), axis=1)])
    return found


def _climbed(x: np.ndarray, y: np.ndarray, share: np.ndarray) -> tuple[Lines, float]:
    """(lines after EM from these responsibilities, log likelihood)."""
    kinds, rows, quantities = share.shape[1], len(x), y.shape[1]
    centres, slope = np.zeros((kinds, quantities)), np.zeros((kinds, x.shape[1], quantities))
    score = -np.inf
    for _ in range(ROUNDS):
        terms = np.zeros((rows, kinds))
        for k in range(kinds):
            weight = share[:, k] + 1e-6
            total = weight.sum()
            middle, seen = (weight @ y) / total, (weight @ x) / total
            slope[k] = _solve(x - seen, y - middle, weight)
            centres[k] = middle - seen @ slope[k]
            wrong = np.square(y - centres[k] - x @ slope[k])
            variance = np.maximum((weight @ wrong + NARROW) / (total + 1.0), NARROW)
            terms[:, k] = np.log((total + 1.0) / (rows + kinds)) - 0.5 * (wrong / variance + np.log(variance)).sum(
                axis=1
            )
        score = float(logsumexp(terms, axis=1).sum())
        share = np.exp(terms - logsumexp(terms, axis=1, keepdims=True))
    return Lines(centres, slope), score
