"""A closed-form look at candidates: what lists are worth by ridge regression on random features, without training.

1. Features of x: itself, and cosines of random projections (about a Gaussian kernel).
2. Ridge regression of every output on them. What it says of each sample when that one is left out comes from one
   decomposition; the penalty is the one with which it is wrong least.
3. -log p of every sample with Gaussians of constant variance around that, and default noise for what is not predicted.

This takes milliseconds where training takes seconds, and ranks the candidates of a round well enough that only the
best few need to be trained.
"""

from __future__ import annotations

import numpy as np

from spare.language.references import Shell
from spare.learning.dataset import Dataset, DesignMatrix
from spare.learning.noise import fit_noise, noise_log_values
from spare.learning.statistics import weighted_mean
from spare.learning.threads import one_thread
from spare.learning.train import Pair, Plan

FEATURES = 128
"""Random projections; fewer where samples are fewer."""
MOST = 2000
"""Samples that are looked at: the first of those to train on."""
PENALTIES = 10.0 ** np.arange(-2, 5)


class RidgeScreen:
    """About how well lists would do in a plan, remembered."""

    def __init__(self, dataset: Dataset, plan: Plan) -> None:
        self._dataset, self._plan = dataset, plan
        self._known: dict[Pair, np.ndarray] = {}

    def loss(self, pair: Pair) -> float:
        """The mean over samples to train on; where a rule does not apply, as the rule with empty lists has it."""
        found, training = self._losses(pair), self._plan.training
        nothing = (Shell(pair[0].roles), Shell(pair[1].roles))
        behind = self._losses(nothing) if self._plan.others is None else self._plan.others
        found = np.where(np.isnan(found), behind, found)
        return weighted_mean(found, np.where(np.isnan(found), 0.0, training))

    def _losses(self, pair: Pair) -> np.ndarray:
        if pair not in self._known:
            matrix, preset = self._dataset.matrix(*pair), self._plan.preset
            self._known[pair] = ridge_losses(
                self._dataset, matrix, self._plan.training, outliers=preset.training.outliers
            )
        return self._known[pair]


def ridge_losses(dataset: Dataset, matrix: DesignMatrix, training: np.ndarray, *, outliers: bool) -> np.ndarray:
    """About -log p(s' | s, a) of every sample to train on, (n,); NaN where the rule does not apply, or beyond MOST."""
    rows = np.flatnonzero(matrix.applies & (training > 0))[:MOST]
    losses = np.full(len(training), np.nan)
    if len(rows) < 3:
        return losses
    weight = training[rows] / training[rows].mean()
    y = matrix.y[rows].reshape(len(rows), -1)
    left = left_out(random_features(matrix.x[rows]), y, weight).reshape(matrix.y[rows].shape)
    squares = np.square(left) + matrix.spread[rows]
    share = _shares(dataset, matrix)[rows][:, :, None]
    total = np.maximum((weight[:, None, None] * share).sum(axis=0), 1e-9)
    floor = dataset.experience.domain.resolutions**2
    variance = (weight[:, None, None] * share * squares).sum(axis=0) / total + floor
    predicted = 0.5 * (share * (squares / variance + np.log(2 * np.pi * variance))).sum(axis=(1, 2))
    losses[rows] = predicted + _unpredicted(dataset, matrix, training, outliers)[rows]
    return losses


def random_features(x: np.ndarray) -> np.ndarray:
    """1, normalised x, and cosines of random projections of it; the same ones whenever x has as many entries."""
    spread = x.std(axis=0)
    normal = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    rng, count = np.random.default_rng(x.shape[1]), int(min(FEATURES, len(x)))
    turn = rng.normal(0, 1 / np.sqrt(max(x.shape[1], 1)), (x.shape[1], count))
    waves = np.sqrt(2 / count) * np.cos(normal @ turn + rng.uniform(0, 2 * np.pi, count))
    return np.concatenate([np.ones((len(x), 1)), normal / np.sqrt(max(x.shape[1], 1)), waves], axis=1)


def left_out(features: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """y - y^ of each row (m, O) by weighted ridge regression on the other rows, each output with its best penalty.

    With A = w^1/2 Phi and A'A = V diag(s²) V', the hat matrix is H = (A V) diag(1 / (s² + penalty)) (A V)', and a row
    left out is wrong by (y - H y) / (1 - H_ii). The threads of BLAS are held back: other threads train meanwhile.
    """
    root = np.sqrt(weight)[:, None]
    with one_thread():
        a = root * features
        squares, v = np.linalg.eigh(a.T @ a)
        turned = a @ v
        inside, sizes = turned.T @ (root * y), np.square(turned)
        best, smallest = np.zeros_like(y), np.full(y.shape[1], np.inf)
        for penalty in PENALTIES:
            keep = 1.0 / (np.maximum(squares, 0.0) + penalty)
            wrong = (root * y - turned @ (keep[:, None] * inside)) / (1 - np.minimum(sizes @ keep, 0.999))[:, None]
            size = np.square(wrong).sum(axis=0)
            better = size < smallest
            best, smallest = np.where(better, wrong, best), np.where(better, size, smallest)
    return best / root


def _shares(dataset: Dataset, matrix: DesignMatrix) -> np.ndarray:
    """(n, S): how many objects each output slot speaks for, those that several slots hold in equal parts."""
    parts = matrix.outputs.astype(np.float64) / np.maximum(matrix.outputs.sum(axis=0), 1)
    return np.add.reduceat(parts, dataset.experience.offsets[:-1], axis=1).T


def _unpredicted(dataset: Dataset, matrix: DesignMatrix, training: np.ndarray, outliers: bool) -> np.ndarray:
    """-log p of what the rule does not predict, (n,)."""
    data = dataset.experience
    still = np.logical_not(matrix.outputs.any(axis=0))
    inside = np.repeat(matrix.applies & (training > 0), data.counts)
    noise = fit_noise(data, still & inside, training, outliers=outliers)
    terms = np.where(still.reshape(-1, 1), noise_log_values(noise, data), 0.0).sum(axis=1)
    return -np.add.reduceat(terms, data.offsets[:-1])
