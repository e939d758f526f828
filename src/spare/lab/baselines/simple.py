"""The ends of the scale: nothing moves, and our own learner with the true lists given."""

from __future__ import annotations

import dataclasses

import numpy as np

from spare.data.experience import Experience
from spare.errors import FitError
from spare.language.domain import Domain
from spare.language.references import Shell
from spare.learning.fit import Task, make_dataset, prepare
from spare.learning.noise import default_variance
from spare.learning.presets import Preset, find_preset
from spare.learning.train import fit_predictors
from spare.model.model import Model


def no_change(domain: Domain, experience: Experience) -> Model:
    """N(s, v): everything stays; v is the mean squared change of each property over all objects."""
    data, _ = prepare(domain, experience)
    variance = default_variance(data, np.ones(len(data.values), bool), data.weights)
    return Model(data.domain, [], variance)


def oracle_references(
    domain: Domain,
    experience: Experience,
    shell: Shell,
    *,
    seed: int,
    preset: str | Preset = "shared",
    threads: int | None = None,
) -> Model:
    """Our learner without its search: Gamma = Delta = `shell`, the predictor trained as a preset says."""
    chosen = find_preset(preset)
    chosen = dataclasses.replace(chosen, search=dataclasses.replace(chosen.search, max_references=len(shell)))
    data, _ = prepare(domain, experience)
    actions = sorted({int(index) for index in data.action})
    if len(actions) != 1:
        raise FitError(f"lists are given for one action; these data have {len(actions)}")
    action = data.domain.actions[actions[0]].name
    dataset = make_dataset(data, action, chosen)
    task = Task(chosen, seed, threads)
    plan = task.finish(data, dataset) or task.plan(data, dataset)
    fitted = fit_predictors(dataset, [(shell, shell)], plan)[0]
    noise = default_variance(data, np.ones(len(data.values), bool), data.weights)
    return Model(data.domain, [fitted.rule(dataset)], noise)
