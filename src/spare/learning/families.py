"""Families of predictors: how a rule's phi is initialised, trained, and turned into arrays.

A family is a seam. What stands in a trained rule is an `AbstractPredictor` (model/predictors.py: a callable and its
arrays, for files); how it is found is a `Family`, named by `Training.family`. `register_family` adds one.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Generic, TypeVar

import jax
import numpy as np

from spare.errors import DefinitionError, one_of
from spare.learning.engine import (
    Capacity,
    Nets,
    Problem,
    Recipe,
    cut_network,
    initial_nets,
    net_outputs,
    padded_network,
    train_nets,
)
from spare.learning.presets import Training
from spare.learning.problems import Scaling
from spare.model.predictors import AbstractPredictor, Network, Predictor

Member = TypeVar("Member")
FinishedPredictor = TypeVar("FinishedPredictor", bound=AbstractPredictor)


class Family(abc.ABC, Generic[Member, FinishedPredictor]):
    """init, train, arrays: one member of an ensemble at a time, on normalised and padded numbers (`Problem`)."""

    @abc.abstractmethod
    def init(self, training: Training, capacity: Capacity, sizes: tuple[int, int], rng: np.random.Generator) -> Member:
        """A member before training; `sizes` are the numbers of inputs and outputs that are not padding."""

    @abc.abstractmethod
    def train(self, recipe: Recipe, member: Member, problem: Problem, seed: int, effort: float) -> Member:
        """The member after training, by a share `effort` of the schedule."""

    @abc.abstractmethod
    def outputs(self, member: Member, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (with resolution²) of every row of the problem, (rows, S, Q), in normalised units."""

    @abc.abstractmethod
    def predictor(self, members: Sequence[Member], scaling: Scaling) -> FinishedPredictor:
        """The trained ensemble without padding and with normalisation inside; its `arrays()` are what is kept."""

    @abc.abstractmethod
    def members(self, predictor: FinishedPredictor, capacity: Capacity) -> list[Member]:
        """The members again, padded, to go on training; normalisation stays with the rule's `Scaling`."""


class NetworkFamily(Family[Nets, Predictor]):
    """Gaussian networks: one for means and one for variances (the paper), or a residual one for both."""

    def init(self, training: Training, capacity: Capacity, sizes: tuple[int, int], rng: np.random.Generator) -> Nets:
        """Glorot-uniform weights, biases of 0."""
        return initial_nets(training, capacity, sizes, rng)

    def train(self, recipe: Recipe, member: Nets, problem: Problem, seed: int, effort: float) -> Nets:
        """The phases of the schedule, one after another."""
        return train_nets(recipe, member, problem, seed, effort)

    def outputs(self, member: Nets, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        """One pass over all rows."""
        return net_outputs(member, problem)

    def predictor(self, members: Sequence[Nets], scaling: Scaling) -> Predictor:
        """All members side by side."""
        inputs, outputs = len(scaling.x_mean), scaling.y_mean.size

        def stack(networks: Sequence[Network]) -> Network:
            cut = [cut_network(net, inputs, outputs) for net in networks]
            # `device_put` moves what NumPy has prepared; `jnp.asarray` would compile a program for every shape.
            return jax.tree.map(lambda *leaves: jax.device_put(np.stack(leaves)), *cut)

        second = [one.variance for one in members if one.variance is not None]
        parts = (scaling.x_mean, scaling.x_scale, scaling.y_mean, scaling.y_scale)
        numbers = (jax.device_put(part.astype(np.float32)) for part in parts)
        return Predictor(stack([one.mean for one in members]), stack(second) if second else None, *numbers)

    def members(self, predictor: Predictor, capacity: Capacity) -> list[Nets]:
        """Each member's networks, padded again."""

        def one(net: Network, k: int) -> Network:
            return padded_network(jax.tree.map(lambda leaf: np.asarray(leaf)[k], net), capacity)

        second = predictor.variance_net
        return [Nets(one(predictor.mean_net, k), second and one(second, k)) for k in range(predictor.members)]


FAMILIES: dict[str, Family] = {"networks": NetworkFamily(), "residual": NetworkFamily()}
"""Families by the name that `Training.family` gives."""


def register_family(name: str, family: Family) -> None:
    """Let `Training(family=name)` train with this family; a name belongs to one family."""
    if FAMILIES.setdefault(name, family) is not family:
        raise DefinitionError(f"family {name!r} is registered already; choose another name")


def find_family(name: str) -> Family:
    """The family of that name."""
    if name not in FAMILIES:
        raise DefinitionError(one_of("family", name, FAMILIES))
    return FAMILIES[name]
