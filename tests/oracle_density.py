"""Densities for the oracle, with nothing but math: Gaussian mixtures of one value, and correlated scores."""

from __future__ import annotations

import math

Mixture = list[tuple[float, float, float]]  # (weight, mean, variance)


def log_normal(value: float, mean: float, variance: float) -> float:
    return -0.5 * ((value - mean) ** 2 / variance + math.log(2 * math.pi * variance))


def log_sum_exp(terms: list[float]) -> float:
    top = max(terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in terms))


def log_mixture(mixture: Mixture, value: float) -> float:
    return log_sum_exp([math.log(w) + log_normal(value, m, v) for w, m, v in mixture])


def mixture_moments(mixture: Mixture) -> tuple[float, float]:
    mean = math.fsum(w * m for w, m, _ in mixture)
    return mean, math.fsum(w * (v + (m - mean) ** 2) for w, m, v in mixture)


def normal_score(mixture: Mixture, value: float) -> float:
    """The score whose normal distribution function is the mixture's at `value`, by bisection of the smaller tail."""
    below = math.fsum(w * 0.5 * math.erfc((m - value) / math.sqrt(2 * v)) for w, m, v in mixture)
    above = math.fsum(w * 0.5 * math.erfc((value - m) / math.sqrt(2 * v)) for w, m, v in mixture)
    low, high = 0.0, 13.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if 0.5 * math.erfc(middle / math.sqrt(2)) > min(below, above) else (low, middle)
    return -low if below < above else low


def log_correlated(scores: list[float], loads: list[float]) -> float:
    """log N(z; 0, C) with C = a a' off the diagonal and 1 on it, by Gaussian elimination one variable at a time."""
    size = len(scores)
    rest = [[1.0 if i == j else loads[i] * loads[j] for j in range(size)] for i in range(size)]
    z, total = list(scores), 0.0
    for k in range(size):
        total += log_normal(z[k], 0.0, rest[k][k])
        for i in range(k + 1, size):
            slope = rest[i][k] / rest[k][k]
            z[i] -= slope * z[k]
            for j in range(k + 1, size):
                rest[i][j] -= slope * rest[k][j]
    return total
