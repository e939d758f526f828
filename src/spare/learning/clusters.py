"""The start of the many-rule learner (section 4.3): k-means on what a single rule sees.

1. Learn one rule on all data.
2. Turn every sample into (x, y, loss) through that rule's lists.
3. k-means; memberships from the distances to its centres.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from spare.errors import FitError, UsageError
from spare.learning.dataset import Dataset
from spare.learning.history import SearchResult

Kind = Literal["discrete", "inverse", "inverse-square"]
Scale = Literal["raw", "standard"]
Loss = Literal["total", "above-rest"]


@dataclasses.dataclass(frozen=True)
class Clustering:
    """How the start is made.

    `kind`        discrete: all weight on the nearest centre; inverse: proportional to 1 / distance; inverse-square:
                  to 1 / distance²
    `likelihood`  factor on the loss feature (1 and 5 in the paper). 5 is the default: nats are the feature that
                  tells heights apart, and more weight on it separates better
    `scale`       raw: features in their own units, as the paper must have done (metres beside nats); standard: each
                  divided by its deviation, which drowns the loss among dozens of positions
    `loss`        total: all nats of a sample, as in the paper; above-rest: without what its objects would give if all
                  of them rested as the single rule's default says, so that the number of bystanders does not matter
    """

    kind: Kind = "inverse-square"
    likelihood: float = 5.0
    scale: Scale = "raw"
    loss: Loss = "above-rest"

    def __post_init__(self) -> None:
        if self.kind not in ("discrete", "inverse", "inverse-square"):
            raise UsageError(f"clustering: unknown kind {self.kind!r}; valid: discrete, inverse, inverse-square")
        if self.loss not in ("total", "above-rest"):
            raise UsageError(f"clustering: unknown loss {self.loss!r}; valid: total, above-rest")
        if not (np.isfinite(self.likelihood) and self.likelihood >= 0):
            raise UsageError(f"clustering: the weight of the likelihood must be 0 or more, got {self.likelihood}")


def features(dataset: Dataset, single: SearchResult, losses: np.ndarray, how: Clustering) -> np.ndarray:
    """(x, y, loss) of every sample through the single rule's lists, (n, F).

    Where a slot is empty the rule does not apply: the loss is that of the rule with empty lists (the paper's
    footnote), and what the slot would have held is filled with the mean of the others.
    """
    gamma, delta = single.best.gamma, single.best.delta
    matrix = dataset.partial(gamma, delta)
    columns = np.concatenate([matrix.x, matrix.y.reshape(len(losses), -1)], axis=1)
    weights = dataset.experience.weights
    held = np.isfinite(columns)
    share = np.where(held, weights[:, None], 0.0)
    mean = (share * np.where(held, columns, 0.0)).sum(axis=0) / np.maximum(share.sum(axis=0), 1e-300)
    columns = np.where(held, columns, mean)
    if how.loss == "above-rest":
        noise = single.fitted[0].noise.variance + dataset.experience.domain.resolutions**2
        losses = losses - dataset.experience.counts * 0.5 * np.log(2 * np.pi * np.e * noise).sum()
    if how.scale == "standard":
        everything = np.concatenate([columns, losses[:, None]], axis=1)
        deviation = everything.std(axis=0)
        everything = (everything - everything.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        everything[:, -1] *= how.likelihood
        return everything
    return np.concatenate([columns, how.likelihood * losses[:, None]], axis=1)


def memberships(points: np.ndarray, weights: np.ndarray, rules: int, how: Clustering, seed: int) -> np.ndarray:
    """z (n, K): k-means on `points`, then shares by distance to the centres; clusters ordered by their mean loss."""
    from sklearn.cluster import KMeans

    if rules < 1:
        raise UsageError(f"the number of rules must be 1 or more, got {rules}")
    distinct = len(np.unique(points, axis=0))
    if rules > distinct:
        raise FitError(f"{rules} rules cannot be told apart: of {len(points)} samples, {distinct} are distinct")
    if rules == 1:
        return np.ones((len(points), 1))
    kmeans: Any = KMeans
    found = kmeans(rules, n_init=10, random_state=_random(seed)).fit(points, sample_weight=weights)
    order = np.argsort(found.cluster_centers_[:, -1], kind="stable")
    centres = found.cluster_centers_[order]
    squared = np.square(points[:, None, :] - centres[None]).sum(axis=2)
    if how.kind == "discrete":
        return (np.arange(rules) == squared.argmin(axis=1)[:, None]).astype(np.float64)
    power = 0.5 if how.kind == "inverse" else 1.0
    closeness = np.maximum(squared, 1e-12 * max(squared.max(), 1e-300)) ** -power
    return closeness / closeness.sum(axis=1, keepdims=True)


def _random(seed: int) -> np.random.RandomState:
    """The generator of a seed of up to 64 bits, in which scikit-learn's are of 32."""
    return np.random.RandomState(seed if seed < 2**32 else [seed % 2**32, seed >> 32])


def matched(z: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """z with its clusters ordered so that cluster k goes best with label k: the diagonal's sum is largest."""
    from scipy.optimize import linear_sum_assignment

    matrix = np.stack([z[labels == name].mean(axis=0) for name in np.unique(labels)], axis=1)
    rows, columns = linear_sum_assignment(-matrix)
    return z[:, np.concatenate([rows[np.argsort(columns)], np.setdiff1d(np.arange(len(matrix)), rows)])]


def separation(z: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(labels, matrix): the mean membership of each label's samples in each cluster, clusters matched to labels.

    Column l of the matrix is a label, row j a cluster, in the order of `matched`.
    """
    names, z = np.unique(labels), matched(z, labels)
    return names, np.stack([z[labels == name].mean(axis=0) for name in names], axis=1)
