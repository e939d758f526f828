"""Cells about several rules: how clustering separates stacks by height, and what EM makes of it (figure 5, tables)."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from spare.data.experience import Experience
from spare.lab.experiments.data import Dataset
from spare.lab.experiments.methods import preset
from spare.language.references import Shell
from spare.learning.clusters import Clustering, features, matched, memberships, separation
from spare.learning.dataset import Extractor
from spare.learning.em import Iteration
from spare.learning.fit import Task, make_extractor, prepare
from spare.learning.many import ManyResult, learn_rules
from spare.learning.mixing import Mixing
from spare.learning.presets import Preset
from spare.learning.search import GreedySearch

HEIGHTS = (2, 3, 4)
STARTS = {
    "table1": Clustering("discrete", 1.0, loss="total"),
    "table2": Clustering("inverse", 1.0, loss="total"),
    "table3": Clustering("inverse-square", 1.0, loss="total"),
    "table4": Clustering("inverse-square", 5.0, loss="total"),
}


def set_means(effort: float) -> Preset:
    """The paper's rules (absolute targets, the mean of a set as its target) with the training and search of `default`.

    With exact set targets and changes, `above*(target)` describes stacks of any height in one rule, and there is
    nothing to separate.
    """
    default = preset("default", effort).for_many()
    training = dataclasses.replace(default.training, set_targets="mean")
    return dataclasses.replace(default, name="set-means", training=training, targets="absolute", final=None)


def many_data(settings: Mapping[str, Any], seed: int) -> list[Dataset]:
    """Pushes of stacks of 2, 3 and 4 blocks, no extra blocks."""
    return [Dataset(HEIGHTS, tuple(settings["shares"]), 0, seed, settings["samples"])]


def start(settings: Mapping[str, Any], seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """One rule for all samples, then the four ways to start memberships: tables 1 to 4, rows clusters, columns heights.

    lists: for the discrete start by the paper's learner, what a search on each cluster alone points at, and the share
    of the cluster's height whose blocks it covers exactly. `default` needs no such lists: one rule holds all heights.
    """
    (data,) = (one.load(folder) for one in many_data(settings, seed))
    name = settings.get("preset", "paper")
    heights, chosen = np.asarray(data.info["height"]), preset(name, settings["effort"]).for_many()
    seen, _ = prepare(data.domain, data)
    extractor = make_extractor(seen, "push", chosen)
    plan = Task(chosen, seed, 1).plan(seen, extractor)
    single = GreedySearch(extractor, plan).run()
    tables, lists = {}, []
    for table, how in STARTS.items():
        z = memberships(features(extractor, single, single.losses, how), seen.weights, len(HEIGHTS), how, seed)
        tables[table] = separation(z, heights)[1].tolist()
        if table == "table1" and name == "paper":
            for height, column in zip(HEIGHTS, matched(z, heights).T, strict=True):
                own = dataclasses.replace(plan, training=plan.training * column, validation=plan.validation * column)
                shell = GreedySearch(extractor, own).run().best.gamma
                right = _exactly(extractor, shell, np.flatnonzero(heights == height))
                lists.append({"height": height, "list": shell.show(("target",)), "exact": float(right.mean())})
    return {"tables": tables, "lists": lists, "single": single.best.gamma.show(("target",))}


def em(settings: Mapping[str, Any], seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """EM from memberships of 70 % by height: the paper's figure 5.

    diagonals: mean membership of each height's samples in its own rule, by iteration; shells: weights of the rules'
    heaviest shells; blocks: share of each height's samples whose rule points at exactly its blocks.
    """
    (data,) = (one.load(folder) for one in many_data(settings, seed))
    heights, chosen = np.asarray(data.info["height"]), set_means(settings["effort"])
    seen, _ = prepare(data.domain, data)
    extractor = make_extractor(seen, "push", chosen)
    plan = Task(chosen, seed, 1).plan(seen, extractor, 1)
    begin = np.where(heights[:, None] == np.array(HEIGHTS), 0.7, 0.15)
    mixing = Mixing(len(HEIGHTS), iterations=settings["iterations"])
    if settings["effort"] < 1:
        mixing = dataclasses.replace(mixing, polish=1, searches=0)
    result = learn_rules(extractor, plan, mixing, start=begin)
    return {
        "diagonals": [np.diag(separation(one.memberships, heights)[1]).tolist() for one in result.history],
        "shells": [_shells(one, heights) for one in result.history],
        "blocks": _blocks(result, extractor, heights),
        "rules": [one.shell.show(("target",)) for one in result.shares],
        "likelihood": [one.log_likelihood for one in result.history],
    }


def _shells(step: Iteration, heights: np.ndarray) -> list[dict[str, float]]:
    """For each height, the five heaviest shells of the rule that its samples belong to most."""
    order = [int(np.argmax(step.memberships[heights == height].mean(axis=0))) for height in HEIGHTS]
    return [{s.show(("target",)): float(step.shells[j][s]) for s in step.shells[j].top(5)} for j in order]


def _blocks(result: ManyResult, extractor: Extractor, heights: np.ndarray) -> list[float]:
    """For each height, the share of its samples whose own rule points at exactly its blocks."""
    owner = result.memberships.argmax(axis=1)
    right = np.zeros(len(heights), bool)
    for j, one in enumerate(result.shares):
        mine = np.flatnonzero(owner == j)
        right[mine] = _exactly(extractor, one.shell, mine)
    return [float(right[heights == height].mean()) for height in HEIGHTS]


def _exactly(extractor: Extractor, shell: Shell, rows: np.ndarray) -> np.ndarray:
    """Whether the shell applies to each of these samples and holds all of its blocks: there are no others."""
    data: Experience = extractor.experience
    masks, starts = extractor.pointing.masks(shell), data.offsets[:-1]
    every = np.minimum.reduceat(masks.any(axis=0), starts)
    applies = np.all(extractor.pointing.held(masks) > 0, axis=0)
    return (every & applies)[rows]
