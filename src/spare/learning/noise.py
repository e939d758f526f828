"""Fitting what is expected of the objects that a rule does not predict: `DefaultNoise`.

The paper's is N(s, v) with v in closed form. One object that moves although no slot holds it then either costs
thousands of nats or makes v large for all others, so there may be outliers: a wide Gaussian with a small share.
"""

from __future__ import annotations

import numpy as np

from spare.data.experience import Experience
from spare.errors import FitError
from spare.learning.dataset import LARGEST
from spare.model.noise import DefaultNoise

EM_STEPS = 60
"""Steps of EM for the two Gaussians; both have mean 0, so it settles fast."""
FIRST_SHARE = 0.05


def changes(experience: Experience) -> np.ndarray:
    """s' - s of every object row and changeable property, float64 (R, Q)."""
    dynamic = list(experience.domain.dynamic)
    return experience.next_values[:, dynamic].astype(np.float64) - experience.values[:, dynamic]


def noise_log_values(noise: DefaultNoise, experience: Experience) -> np.ndarray:
    """log p of every object row and changeable property under the default noise, float64 (R, Q)."""
    domain = experience.domain
    return noise.resolved(domain.resolutions).log_density(changes(experience), domain.leaves)


def noise_log_prob(noise: DefaultNoise, experience: Experience) -> np.ndarray:
    """log p of every transition (n,), if no rule predicts any of its objects."""
    return np.add.reduceat(noise_log_values(noise, experience).sum(axis=1), experience.offsets[:-1])


def default_variance(
    experience: Experience, still: np.ndarray, weights: np.ndarray, bystanders: float = 0.0
) -> np.ndarray:
    """v = max(0, sum w (s' - s)² / sum w - resolution²) over the object rows `still`, per changeable property.

    That is the likelihood's maximum, since the density's variance is v + resolution². No row at all gives 0.
    `bystanders` is a prior that things stay: that much weight of imagined objects that did not move.
    """
    moved, weight = changes(experience), np.where(still, np.repeat(weights, experience.counts), 0.0)
    held = experience.domain.held_dynamic(experience.values)
    if np.abs(moved[weight > 0]).max(initial=0) > LARGEST:
        raise FitError(f"values that change by more than {LARGEST:g} cannot be learned in 32-bit floats; rescale them")
    total = weight.sum() + bystanders
    if weight.sum() <= 0:
        return np.zeros(moved.shape[1])
    if held is not None:
        total = np.maximum(weight @ held + bystanders, 1e-12)
    return np.maximum(weight @ np.square(moved) / total - experience.domain.resolutions**2, 0.0)


def fit_noise(
    experience: Experience, still: np.ndarray, weights: np.ndarray, *, bystanders: float = 0.0, outliers: bool = False
) -> DefaultNoise:
    """The default noise of the object rows `still`; with `outliers` by EM for two Gaussians of mean 0, value by value.

    A prior keeps both alive: one imagined object that stayed, and one that moved as far as all objects do on average,
    those that rules predict included.
    """
    plain = default_variance(experience, still, weights, bystanders)
    if not outliers:
        return DefaultNoise(plain)
    every = np.repeat(weights, experience.counts)
    overall = default_variance(experience, np.ones(len(every), bool), weights)
    weight = np.where(still, every, 0.0)[:, None]
    one = float(weights[weights > 0].mean())
    squares, floor = np.square(changes(experience)), experience.domain.resolutions**2
    narrow, wide, share = np.zeros_like(overall), overall, np.full_like(overall, FIRST_SHARE)
    for _ in range(EM_STEPS):
        far, near = wide + floor, narrow + floor
        odds = np.log(share / (1 - share)) + 0.5 * (squares * (1 / near - 1 / far) + np.log(near / far))
        moving = weight * 0.5 * (1 + np.tanh(0.5 * odds))
        staying = weight - moving
        total, rest = moving.sum(axis=0), staying.sum(axis=0) + bystanders
        narrow = np.maximum((staying * squares).sum(axis=0) / (rest + one) - floor, 0.0)
        wide = np.maximum(((moving * squares).sum(axis=0) + one * (overall + floor)) / (total + one) - floor, narrow)
        share = np.clip((total + one) / (total + rest + 2 * one), 1e-6, 0.5)
    return DefaultNoise(narrow, share, wide)
