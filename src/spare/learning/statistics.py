"""Weighted means and the paired test that keeps a search from chasing noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr


def weighted_mean(values: np.ndarray, weights: np.ndarray) -> float:
    """sum w v / sum w over rows with weight; the values of rows without weight do not matter."""
    used = weights > 0
    return float(weights[used] @ values[used] / weights[used].sum())


class Improvement(NamedTuple):
    """By how much losses fell on average, and the p-value of the one-sided test that they did."""

    gain: float
    p_value: float


BOUND = 4.0
"""Nats beyond which a transition counts no more in the bounded test."""


def sparse_improvement(gain: np.ndarray, weights: np.ndarray) -> Improvement:
    """Mean gain and the smaller p of two paired tests: of the gains, and of gains bounded to +-4 nats.

    Where something happens in one transition of twenty, gains are 0 but for a few large ones of different size: their
    spread hides from a t-test what each of them says. Bounded, they count about the same.
    """
    nothing = np.zeros_like(gain)
    plain = paired_improvement(nothing, -gain, weights)
    bounded = paired_improvement(nothing, -np.clip(gain, -BOUND, BOUND), weights)
    return Improvement(plain.gain, min(plain.p_value, bounded.p_value) if plain.gain > 0 else plain.p_value)


def paired_improvement(before: np.ndarray, after: np.ndarray, weights: np.ndarray) -> Improvement:
    """Mean of before - after and p of a one-sided paired t-test that losses fell; fewer than two samples give p = 1.

    Weights enter through the effective sample size (sum w)² / sum w², which for whole weights is cautious: a
    sample counted twice does not become two independent ones.
    """
    used = weights > 0
    if not used.any():
        return Improvement(0.0, 1.0)
    gain, share = before[used] - after[used], weights[used] / weights[used].sum()
    mean = float(share @ gain)
    size = 1.0 / float(share @ share)
    if size < 2 - 1e-9:
        return Improvement(mean, 1.0)
    variance = float(share @ np.square(gain - mean)) * size / (size - 1)
    if variance == 0:
        return Improvement(mean, 0.0 if mean > 0 else 1.0)
    return Improvement(mean, float(stdtr(size - 1, -mean / np.sqrt(variance / size))))
