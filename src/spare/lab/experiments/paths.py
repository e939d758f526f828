"""Cells that follow one greedy search reference by reference, past the point where it would stop (figure 4a)."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from spare.data.experience import Experience
from spare.lab.experiments.data import Dataset, stacks, unseen
from spare.lab.experiments.methods import preset
from spare.lab.experiments.scoring import covers
from spare.lab.worlds import push
from spare.language.references import Shell, next_pointers
from spare.learning.candidates import Trial, Trials
from spare.learning.fit import Task, make_extractor, prepare


def path_data(settings: Mapping[str, Any], seed: int) -> list[Dataset]:
    """(training, test) data of a path cell."""
    train = stacks(settings["extra"], seed, settings["samples"])
    return [train, unseen(train, settings["test"])]


def path(settings: Mapping[str, Any], seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """The best list of 0, 1, 2, ... references, each an extension of the one before, and where algorithm 1 stops.

    Per list: mean log p in nats per transition on validation, training and test pushes, the largest default deviation
    in mm, and whether exactly the stack is covered. `kept` is the length at which the validation loss no longer falls.
    """
    train, test = (one.load(folder) for one in path_data(settings, seed))
    chosen = preset(settings["preset"], settings["effort"])
    data, _ = prepare(train.domain, train)
    extractor = make_extractor(data, "push", chosen)
    trials = Trials(extractor, Task(chosen, seed, 1).plan(data, extractor))
    current = trials.train([(Shell(1), Shell(1))])[0]
    trials.empty = current
    found = [current]
    for _ in range(settings["references"]):
        found.append(_best_extension(trials, data, found[-1]))
    losses = np.array([one.explored.loss for one in found])
    worse = np.flatnonzero(np.diff(losses) >= 0)
    kept = int(worse[0]) if len(worse) else len(found) - 1
    return {"steps": [_step(trials, one, test) for one in found], "kept": kept}


def _best_extension(trials: Trials, data: Experience, current: Trial) -> Trial:
    """The extension with the smallest validation loss; of those that bring nothing new, if there are no others."""
    gamma = current.explored.gamma
    longer = [gamma.extend(pointer) for pointer in next_pointers(data.domain.references, gamma.slots)]
    pairs = [(shell, shell) for shell in longer]
    wanted = trials.screen(current.fitted.table, pairs)[0]
    if not wanted:
        wanted = [p for p in pairs if trials.extractor.table(*p).applies[trials.training > 0].any()]
    return min(trials.train(wanted), key=lambda trial: trial.explored.loss)


def _step(trials: Trials, trial: Trial, test: Experience) -> dict[str, Any]:
    model, one = trials.model(trial), trial.explored
    values = model.log_prob_values(test)
    return {
        "list": one.gamma.show(("target",)),
        "validation": -one.loss,
        "training": -one.train_loss,
        "test": float(values.sum() / len(test)),
        "stack": float(values[push.stack_mask(test)].mean()),
        "deviation": 1000 * max(one.default_deviation),
        "covers": covers(model, test),
    }
