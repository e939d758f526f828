"""Which samples train and which judge."""

from __future__ import annotations

import itertools

import numpy as np

from spare.errors import FitError


def split_weights(weights: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(training, validation) weights: a `share` of the samples, drawn by seed, is held out."""
    n = len(weights)
    held = round(share * n)
    if held < 1 or held >= n:
        least = next(k for k in itertools.count(2) if 1 <= round(share * k) < k)
        raise FitError(
            f"{n} samples cannot be split into training and {share:.0%} validation; at least {least} are needed"
        )
    chosen = fold_masks(n, share, 1, seed)[0]
    return np.where(chosen, 0.0, weights), np.where(chosen, weights, 0.0)


def fold_masks(n: int, share: float, folds: int, seed: int) -> np.ndarray:
    """(F, n): one after another, each fold holds out a `share` of the samples, in an order drawn by seed."""
    held = round(share * n)
    order = np.random.default_rng([seed, 15]).permutation(n)
    masks = np.zeros((folds, n), bool)
    for k, mask in enumerate(masks):
        mask[np.take(order, np.arange(k * held, (k + 1) * held), mode="wrap")] = True
    return masks
