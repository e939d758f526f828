"""Mixture rules (section 4.3 of the paper): a distribution over shells instead of one shell.

A mixture rule T = (A, pi, Phi) spreads weight over all shells up to a length: explored shells share 1 - epsilon by
likelihood, all unexplored ones the rest uniformly, without ever being listed. Phi are transition rules for the
kappa heaviest shells (`em.RuleState`); predictions mix them by their weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from spare.errors import DefinitionError
from spare.language.domain import Domain
from spare.language.references import Shell, count_shells
from spare.model.distributions import log_mixture


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

        With every shell explored there is none to give epsilon to, and the explored ones share 1.
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


def mix(weights: Sequence[float], log_terms: np.ndarray) -> np.ndarray:
    """log(sum w_k exp(t_k) / sum w_k) over the first axis, in log space; weights that are all 0 count the same."""
    share = np.asarray(weights, np.float64).reshape(-1, *([1] * (log_terms.ndim - 1)))
    share = np.broadcast_to(share if share.sum() > 0 else np.ones_like(share), log_terms.shape)
    with np.errstate(divide="ignore"):
        return log_mixture(log_terms, np.log(share), share > 0)
