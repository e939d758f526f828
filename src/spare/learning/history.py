"""What a search looked at, round by round, and what it found; and how a live view hears of it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from spare.language.references import Shell
from spare.learning.train import Fitted
from spare.model.model import Model


@dataclasses.dataclass(frozen=True)
class Explored:
    """One pair of lists that the search looked at.

    loss, train_loss: mean -log p in nats per transition on validation and training samples; default_deviation (Q,):
    the rule's deviation for what it does not predict, resolution included; applies: the share of samples it covers;
    note: why it was not trained, else empty.
    """

    gamma: Shell
    delta: Shell
    loss: float = np.nan
    train_loss: float = np.nan
    default_deviation: tuple[float, ...] = ()
    applies: float = 0.0
    note: str = ""

    @property
    def trained(self) -> bool:
        """Whether the rule was trained, or skipped for the reason in `note`."""
        return not self.note


@dataclasses.dataclass(frozen=True)
class Round:
    """One round: what was explored, its best, whether that was kept, and the paired test against the round before."""

    explored: tuple[Explored, ...]
    best: Explored | None
    accepted: bool
    improvement: float
    p_value: float
    seconds: float
    build: Callable[[], Model] | None

    @functools.cached_property
    def model(self) -> Model | None:
        """The round's best as a model, made when it is first asked for; None if nothing was trained."""
        return self.build() if self.build is not None else None


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The lists found, the trained rule, and how the search went.

    fitted: the trained rule and the one with empty lists; rounds: round 0 has empty lists, then growth, pruning
    and exchanges of sets; explored: every candidate that was trained, inner searches included; losses (n,): -log p of
    every sample under the result, whether its rule applies or not. Losses are of each value alone: what objects do
    copula is learned when the lists are found, and left out of them.
    """

    action: str
    best: Explored
    fitted: tuple[Fitted, Fitted]
    rounds: tuple[Round, ...]
    explored: tuple[Explored, ...]
    losses: np.ndarray
    model: Model


@runtime_checkable
class Listener(Protocol):
    """Hears how a search goes, for live views."""

    def round_started(self, number: int, candidates: int) -> None:
        """A round begins with so many candidates to train."""
        ...

    def candidate_done(self, explored: Explored) -> None:
        """A candidate was trained."""
        ...

    def round_ended(self, number: int, round_: Round) -> None:
        """A round's verdict."""
        ...

    def step_started(self, text: str) -> None:
        """The lists are found; now this is done with them."""
        ...

    def step_ended(self, text: str, seconds: float) -> None:
        """What came of it."""
        ...
