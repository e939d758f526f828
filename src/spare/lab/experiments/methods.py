"""The learners that experiments compare, by name. All see the same training pushes; none holds out more than 15 %."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from spare.data.experience import Experience
from spare.errors import UsageError, one_of
from spare.lab.baselines.flat import PAPER, PETS, FlatSettings, fit_flat
from spare.lab.baselines.graph import GraphSettings, fit_graph
from spare.lab.baselines.several import fit_each
from spare.lab.baselines.simple import no_change, oracle_references
from spare.lab.baselines.trees import TreeSettings, fit_trees
from spare.language.references import Pointer, Shell
from spare.learning.fit import FitResult, fit
from spare.learning.presets import PRESETS, Preset, Schedule, Training
from spare.model.model import TransitionModel


class Scored(TransitionModel, Protocol):
    """A transition model that also gives means, and densities of single values; every method learns one."""

    def mean(self, experience: Experience) -> np.ndarray:
        """E[s'] for each transition, in the layout of `experience.next_values`."""
        ...

    def log_prob_values(self, experience: Experience) -> np.ndarray:
        """The log density of each changeable value alone, (total, Q)."""
        ...


Learner = Callable[[Experience, int, float], FitResult | Scored]
"""(data, seed, effort) -> what was learned."""

STACK = Shell(1, (Pointer("above", (0,)), Pointer("above", (1,))))
"""above(target), above(above(target)): what a push of a stack of three moves."""


MEMBERS = 5
"""Networks in the ensembles of graph networks, as many as in our preset `default` and in PETS."""


def shorter(training: Training, effort: float) -> Training:
    """The schedule cut to a share of its epochs and steps, and an ensemble to one member; an effort of 1 is all."""
    if effort >= 1:
        return training
    epochs, steps = (max(1, round(effort * count)) for count in (training.epochs, training.steps))
    return dataclasses.replace(training, epochs=epochs, steps=max(steps, training.check_every), members=1)


def preset(name: str, effort: float) -> Preset:
    """One of our presets with its schedule cut to a share, and then a search on one fold, without refinement."""
    chosen = PRESETS[name]
    if effort >= 1:
        return chosen
    search = dataclasses.replace(chosen.search, folds=1, halving=1.0, refine=False)
    final = chosen.final and shorter(chosen.final, effort)
    heads = chosen.heads and dataclasses.replace(
        chosen.heads, search=_cut(chosen.heads.search, effort), final=_cut(chosen.heads.final, effort), members=2
    )
    training = shorter(chosen.training, effort)
    return dataclasses.replace(chosen, training=training, search=search, final=final, heads=heads)


def _cut(schedule: Schedule, effort: float) -> Schedule:
    return dataclasses.replace(schedule, steps=max(schedule.check_every, round(effort * schedule.steps)))


def _rules(name: str) -> Learner:
    def learn(data: Experience, seed: int, effort: float) -> FitResult:
        return fit(data.domain, data, seed=seed, preset=preset(name, effort), threads=1)

    return learn


def _flat(base: FlatSettings, order: str) -> Learner:
    def learn(data: Experience, seed: int, effort: float) -> Scored:
        settings = dataclasses.replace(base, order=order, training=shorter(base.training, effort))
        fit_one = functools.partial(fit_flat, seed=seed, settings=settings, threads=1)
        return fit_each(fit_one, data.domain, data)

    return learn


def _graph(framed: bool) -> Learner:
    def learn(data: Experience, seed: int, effort: float) -> Scored:
        settings = GraphSettings(framed=framed, members=MEMBERS if effort >= 1 else 1)
        settings = dataclasses.replace(settings, steps=max(settings.check_every, round(effort * settings.steps)))
        fit_one = functools.partial(fit_graph, seed=seed, settings=settings, threads=1)
        return fit_each(fit_one, data.domain, data)

    return learn


def _trees(data: Experience, seed: int, effort: float) -> Scored:
    settings = TreeSettings()
    return fit_trees(
        data.domain, data, seed=seed, settings=dataclasses.replace(settings, most=max(1, round(effort * settings.most)))
    )


def _still(data: Experience, seed: int, effort: float) -> Scored:
    return no_change(data.domain, data)


def _oracle(data: Experience, seed: int, effort: float) -> Scored:
    return oracle_references(data.domain, data, STACK, seed=seed, preset=preset("shared", effort), threads=1)


class Method(NamedTuple):
    """A learner, and how figures show it."""

    label: str
    colour: str
    learn: Learner


METHODS = {
    "spare": Method("SPARE", "#0b6e4f", _rules("default")),
    "spare-paper": Method("SPARE, as in the paper", "#3fa34d", _rules("paper")),
    "flat": Method("flat network", "#c1440e", _flat(PAPER, "xtheny")),
    "flat-none": Method("flat, random order", "#e08e45", _flat(PAPER, "none")),
    "flat-stack": Method("flat, stack first", "#8f2d0a", _flat(PAPER, "stack")),
    "ensemble": Method("flat ensemble (PETS)", "#e0a458", _flat(PETS, "xtheny")),
    "ensemble-frame": Method(
        "flat ensemble, action's frame", "#c98a2b", _flat(dataclasses.replace(PETS, framed=True), "xtheny")
    ),
    "ensemble-none": Method("flat ensemble, random order", "#f0cf9c", _flat(PETS, "none")),
    "ensemble-stack": Method("flat ensemble, stack first", "#a8681b", _flat(PETS, "stack")),
    "graph": Method("graph network", "#2b59c3", _graph(framed=False)),
    "graph-frame": Method("graph network, action's frame", "#7aa0e8", _graph(framed=True)),
    "trees": Method("boosted trees, action's frame", "#6a4c93", _trees),
    "no-change": Method("nothing moves", "#8a8a8a", _still),
    "oracle": Method("SPARE, true lists given", "#8cc68f", _oracle),
}
LABELS = {name: method.label for name, method in METHODS.items()} | {"noise": "the simulator's noise"}
COLOURS = {name: method.colour for name, method in METHODS.items()} | {"noise": "#202020"}
"""One colour per method in every figure."""
WILD = ("flat", "flat-none", "flat-stack")
"""Methods with outliers of thousands of nats: claims about them are about medians."""


class Learned(NamedTuple):
    """A transition model; `how` it was found, where there was a search; seconds that learning took."""

    model: Scored
    how: FitResult | None
    seconds: float


def learn(method: str, data: Experience, seed: int, effort: float = 1.0) -> Learned:
    """What the method of that name makes of the data."""
    if method not in METHODS:
        raise UsageError(one_of("method", method, METHODS))
    begin = time.perf_counter()
    found = METHODS[method].learn(data, seed, effort)
    model, how = (found.model, found) if isinstance(found, FitResult) else (found, None)
    return Learned(model, how, time.perf_counter() - begin)
