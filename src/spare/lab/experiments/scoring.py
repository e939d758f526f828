"""Runs that learn with one method and score it on unseen pushes."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from spare.data.experience import Experience, concatenate
from spare.lab.experiments.data import PushData, stacks, unseen
from spare.lab.experiments.learned import describe, ranks_by_property
from spare.lab.experiments.methods import Scored, learn
from spare.lab.experiments.scenes import representative, scenes
from spare.lab.worlds import push
from spare.learning.bindings import Bindings
from spare.model.model import Model


def score_data(settings: Mapping[str, Any], seed: int) -> list[PushData]:
    """(training, test) data of a run."""
    train = stacks(settings["extra"], seed, settings["samples"], settings.get("height", 3))
    return [train, unseen(train, settings["test"])]


def score(settings: Mapping[str, Any], seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """One method on one number of extra blocks and of training pushes; see `scores`.

    ranks, ranks_by_property: of the stack's values among draws; learned: for rules, how they were found (see
    `learned.py`), with a few pushes to draw in the first run of ours.
    """
    train, test = (one.load(folder) for one in score_data(settings, seed))
    model, how, _ = learn(settings["method"], train, seed, settings["effort"])
    result = scores(model, test)
    by_property = ranks_by_property(model, test, push.stack_mask(test))
    result |= {"ranks": np.sum([*by_property.values()], axis=0).tolist(), "ranks_by_property": by_property}
    result["data"] = [train.fingerprint, test.fingerprint]
    if how is not None:
        result["learned"] = describe(how.model, how.history)
        if seed == 0 and settings["method"] == "spare":
            result["learned"]["scenes"] = scenes(test, representative(test, 3), how.model)
    return result


def scores(model: Scored, test: Experience) -> dict[str, Any]:
    """Nats per value of the stack, of the others, of all; per transition; for rules, what they point at.

    Those are of each value alone, and `each` of the stack for every push; joint: of all values of a stack together,
    divided by their number; transition: of whole next states. A product over values has joint = stack.
    error: root mean squared distance, in mm, from where a block of the stack was expected; covers: the share of pushes
    in which a rule predicts exactly the blocks of the stack.
    """
    stack = push.stack_mask(test)
    values, whole = model.log_prob_values(test), model.log_prob(test)
    total = np.add.reduceat(np.where(stack[:, None], values, 0.0).sum(axis=1), test.offsets[:-1])
    apart = (model.mean(test) - test.next_values)[stack, :3].astype(np.float64)
    result: dict[str, Any] = {
        "error": 1000 * float(np.sqrt(np.square(apart).sum(axis=1).mean())),
        "stack": float(values[stack].mean()),
        "others": float(values[~stack].mean()) if (~stack).any() else None,
        "all": float(values.mean()),
        "transition": float(whole.mean()),
        "joint": float((whole.sum() - values[~stack].sum()) / values[stack].size),
        "each": [round(float(one), 4) for one in total / np.add.reduceat(stack, test.offsets[:-1]) / values.shape[1]],
    }
    if isinstance(model, Model) and model.rules:
        result |= {"rule": model.rules[0].show(), "covers": covers(model, test)}
    return result


def covers(model: Model, test: Experience) -> float:
    """The share of transitions in which the first rule's output slots hold exactly the blocks of the stack."""
    rule = model.rules[0]
    bindings = Bindings(test.with_domain(model.domain), rule.action)
    wrong = bindings.masks(rule.delta).any(axis=0) != push.stack_mask(test)
    return float(1.0 - np.maximum.reduceat(wrong, test.offsets[:-1]).mean())


ROOMY = 3.0
"""The side, in m, of a table with room for a hundred extra blocks."""
CROWDED = 20
"""From so many extra blocks on the table is that large."""


def across_data(settings: Mapping[str, Any], seed: int) -> list[PushData]:
    """Training data for every number in `extras`, then test data for every number in `tested`."""
    tests = [unseen(stacks(extra, seed, 1), settings["test"]) for extra in settings["tested"]]
    tests = [dataclasses.replace(one, table=ROOMY) if one.extra >= CROWDED else one for one in tests]
    return [*(stacks(extra, seed, settings["samples"]) for extra in settings["extras"]), *tests]


def across(settings: Mapping[str, Any], seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """One method trained on pushes with several numbers of extra blocks together, tested on each of `tested`."""
    loaded = [one.load(folder) for one in across_data(settings, seed)]
    joined = concatenate(loaded[: len(settings["extras"])]).shuffle(seed)
    model = learn(settings["method"], joined, seed, settings["effort"]).model
    tests = zip(settings["tested"], loaded[len(settings["extras"]) :], strict=True)
    return {"by_extra": {str(extra): scores(model, test) for extra, test in tests}, "samples": len(joined)}


def noise_data(settings: Mapping[str, Any], seed: int) -> list[PushData]:
    """The pushes that are simulated again and again."""
    return [unseen(stacks(settings["extra"], seed, 1), settings["test"])]


def noise(settings: Mapping[str, Any], seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """The simulator's own noise: what the best diagonal Gaussian could reach on these pushes."""
    (data,) = (one.load(folder) for one in noise_data(settings, seed))
    floor = push.noise_floor(data[: settings["replayed"]], repeats=settings["repeats"])
    return {"stack": float(floor.stack_per_value.mean()), "transition": float(floor.log_prob.mean())}
