"""Mixture rules (section 4.3 of the paper): a distribution over shells instead of one shell.

A mixture rule T = (A, pi, Phi) spreads weight over all shells up to a length: explored shells share 1 - epsilon by
likelihood, all unexplored ones the rest uniformly, without ever being listed. Phi are transition rules for the
kappa heaviest shells; predictions mix them by their weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from spare.data.experience import Experience
from spare.errors import DefinitionError
from spare.language.domain import Domain
from spare.language.references import Shell, count_shells
from spare.model.model import Model


@dataclasses.dataclass(frozen=True)
class ShellWeights:
    """pi: a distribution over all `total` shells; `explored` holds theirs, the rest is uniform over the others."""

    explored: Mapping[Shell, float]
    total: int

    def __post_init__(self) -> None:
        inside = sum(self.explored.values())
        if len(self.explored) > self.total or min(self.explored.values(), default=0.0) < 0 or inside > 1 + 1e-9:
            raise DefinitionError("shell weights must be a distribution over at most `total` shells")

    @classmethod
    def from_losses(cls, losses: Mapping[Shell, float], epsilon: float, total: int) -> ShellWeights:
        """pi(Gamma) = (1 - epsilon) exp(-L(Gamma)) / sum exp(-L): the paper's chi, the right way up.

        With every shell explored there is nobody to give epsilon to, and the explored ones share 1.
        """
        shells = list(losses)
        worst = np.array([losses[shell] for shell in shells], np.float64)
        weight = np.exp(worst.min() - worst)
        share = 1.0 if len(shells) >= total else 1.0 - epsilon
        weight *= share / weight.sum()
        return cls(dict(zip(shells, weight.tolist(), strict=True)), total)

    @property
    def rest(self) -> float:
        """The weight of each unexplored shell."""
        hidden = self.total - len(self.explored)
        return max(0.0, 1.0 - sum(self.explored.values())) / hidden if hidden else 0.0

    def __getitem__(self, shell: Shell) -> float:
        return self.explored.get(shell, self.rest)

    def top(self, count: int) -> tuple[Shell, ...]:
        """The `count` heaviest explored shells; equal weights in the order of exploration."""
        return tuple(sorted(self.explored, key=lambda shell: -self.explored[shell])[:count])

    def voted(self, votes: Mapping[Shell, float]) -> ShellWeights:
        """pi(k) = V(k) sum pi / sum V over the shells that were voted on: the paper's xi, the right way up."""
        total = sum(votes.values())
        if total <= 0:
            return self
        mass = sum(self.explored[shell] for shell in votes)
        changed = {shell: vote * mass / total for shell, vote in votes.items()}
        return ShellWeights({**self.explored, **changed}, self.total)


def all_shells(domain: Domain, action: str, longest: int) -> int:
    """How many shells there are up to a length, for one action of a domain."""
    return count_shells(domain.references, len(domain.action(action).objects), longest)


@dataclasses.dataclass(frozen=True)
class MixtureRule:
    """(A, pi, Phi): the heaviest shells, each as a `Model` that also covers the samples its rule does not apply to."""

    action: str
    shells: ShellWeights
    parts: tuple[tuple[Shell, Model], ...]

    def log_prob(self, experience: Experience) -> np.ndarray:
        """log sum over k of pi(k) p(s' | s, a; Phi_k) / sum pi: one per transition."""
        terms = np.stack([model.log_prob(experience) for _, model in self.parts])
        return mix([self.shells[shell] for shell, _ in self.parts], terms)


def mix(weights: Sequence[float], log_terms: np.ndarray) -> np.ndarray:
    """log(sum w_k exp(t_k) / sum w_k) over the first axis, in log space."""
    share = np.asarray(weights, np.float64)
    share = share / share.sum() if share.sum() > 0 else np.full(len(share), 1 / len(share))
    used = share > 0
    shifted = log_terms[used] + np.log(share[used]).reshape(-1, *([1] * (log_terms.ndim - 1)))
    top = shifted.max(axis=0)
    return top + np.log(np.exp(shifted - top).sum(axis=0))


@dataclasses.dataclass(frozen=True)
class MixtureModel:
    """p(s' | s, a) = sum over j of prior_j p(s' | s, a; T_j): K mixture rules with their shares of the data."""

    domain: Domain
    rules: tuple[MixtureRule, ...]
    priors: tuple[float, ...]

    def log_prob(self, experience: Experience) -> np.ndarray:
        """log p(s' | s, a) in nats, one per transition."""
        return mix(self.priors, np.stack([rule.log_prob(experience) for rule in self.rules]))

    def responsibilities(self, experience: Experience) -> np.ndarray:
        """p(j | s, a, s'): which rule explains each transition, (n, K)."""
        terms = np.stack([rule.log_prob(experience) for rule in self.rules])
        with np.errstate(divide="ignore"):
            joint = terms + np.log(np.array(self.priors))[:, None]
        joint -= joint.max(axis=0)
        weight = np.exp(joint)
        return (weight / weight.sum(axis=0)).T
