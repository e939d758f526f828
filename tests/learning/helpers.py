"""Short recipes for tests where the recipe does not matter, and plans without a search."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from spare.language.references import Shell
from spare.learning.dataset import Dataset
from spare.learning.fit import make_dataset
from spare.learning.folds import split_weights
from spare.learning.presets import PRESETS, Preset
from spare.learning.problems import capacity_for
from spare.learning.train import Fitted, Plan, fit_predictors
from spare.model.predictors import Network, Predictor

SMALL: dict[str, Any] = {"hidden": (16,), "steps": 150, "epochs": 3, "members": 1}
PLAIN: dict[str, Any] = {"folds": 1, "ridge": 0, "halving": 1.0, "refine": False}


def quick(name: str = "shared", training: dict[str, Any] | None = None, **search: Any) -> Preset:
    """A preset with small networks that train for a moment, every candidate once."""
    base = PRESETS[name]
    recipe = dataclasses.replace(base.training, **(SMALL | (training or {})))
    chosen = dataclasses.replace(base.search, **(PLAIN | search))
    return dataclasses.replace(base, training=recipe, search=chosen, final=None)


def plan_for(dataset: Dataset, preset: Preset, longest: int = 2, seed: int = 0, share: float = 0.15) -> Plan:
    """How to train candidates on all of a dataset's data, a share held out."""
    weights = split_weights(dataset.experience.weights, share, seed)
    return Plan(preset, *weights, capacity_for(dataset, longest), seed, 1)


def fit_shell(
    data: Any, shell: Shell, preset: Preset, delta: Shell | None = None, seed: int = 0, *, longest: int = 1
) -> tuple[Fitted, Dataset, Plan]:
    """LearnDist for one pair of lists of the data's first action, padded to lists of at least `longest`."""
    dataset = make_dataset(data, data.domain.actions[0].name, preset)
    plan = plan_for(dataset, preset, max(longest, len(shell), len(delta or shell)), seed)
    return fit_predictors(dataset, [(shell, delta or shell)], plan)[0], dataset, plan


def networks(fitted: Fitted) -> list[Network]:
    """The networks of a trained ensemble, with a leading axis of members."""
    assert isinstance(fitted.predictor, Predictor)
    return list(fitted.predictor.networks.values())


def flat(fitted: Fitted) -> list[np.ndarray]:
    """Every number of the trained networks."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(networks(fitted))]
