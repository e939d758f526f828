"""Worlds that differ in kind from pushing: is our preset as good there as the learners one would take instead?

worlds   likelihood of what an action affects, and of all objects, in each of `WORLDS`, from 100 and 1,000 transitions

A flat network takes a fixed number of objects, so every state of a world has the same here; how many of them an action
affects varies all the same.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from spare.data.experience import Experience
from spare.lab.experiments.claims import Claim, Statement
from spare.lab.experiments.data import TEST_SEEDS
from spare.lab.experiments.experiment import NONE, Experiment, Results, seeded
from spare.lab.experiments.figures import Curve, Picture
from spare.lab.experiments.methods import LABELS, learn
from spare.lab.experiments.runs import Run, Size
from spare.lab.worlds.catalogue import WORLDS
from spare.model.model import Model

RIVALS = ("spare-paper", "flat", "graph")
"""What preset `default` is compared with; in worlds with a frame also the graph network in it."""
SLACK = 0.05
"""Nats per value by which `at least as good` may be missed: what a training changes from seed to seed."""
PARTS = {"moved": "affected objects", "all": "all objects"}
BELOW = 4.0
"""Curves that are so many nats below the noise are cut off."""


def _data(settings: Mapping[str, Any], seed: int, samples: int) -> Experience:
    world = WORLDS[settings["world"]]
    return world.generate(samples, seed, objects=world.fixed)


def score(settings: Mapping[str, Any], seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """One method in one world: nats per value of affected objects, of the others, of all; the rules in words."""
    world = WORLDS[settings["world"]]
    train = _data(settings, seed, settings["samples"])
    test = _data(settings, TEST_SEEDS + seed, settings["test"])
    model = learn(settings["method"], train, seed, settings["effort"]).model
    values, moved = model.log_prob_values(test), world.moved(test)
    result = {
        "moved": float(values[moved].mean()),
        "others": float(values[~moved].mean()),
        "all": float(values.mean()),
        "data": [train.fingerprint, test.fingerprint],
    }
    return result | {"rules": str(model)} if isinstance(model, Model) else result


def noise(settings: Mapping[str, Any], seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """The world's own noise: the log density of the first test transitions under the true distribution."""
    world = WORLDS[settings["world"]]
    test = _data(settings, TEST_SEEDS + seed, settings["replayed"])
    values, moved = world.log_density(test, repeats=settings["repeats"]), world.moved(test)
    return {"moved": float(values[moved].mean()), "all": float(values.mean())}


def _counts(size: Size) -> tuple[int, ...]:
    return (100, 1000) if size.whole else (100,)


def _rivals(world: str) -> tuple[str, ...]:
    framed = any(action.frame is not None for action in WORLDS[world].domain.actions)
    return (*RIVALS, "graph-frame") if framed else RIVALS


def _of(size: Size, world: str, method: str, samples: int) -> list[Run]:
    settings = {"world": world, "method": method, "samples": samples, "test": size.test, "effort": size.effort}
    return seeded("world", settings, size.seeds)


def _noise(size: Size, world: str) -> list[Run]:
    settings = {"world": world, "replayed": min(size.test, 2 * size.replayed), "repeats": 5 * size.repeats}
    return seeded("world-noise", settings, min(2, size.seeds))


def _runs(size: Size) -> list[Run]:
    """Every method in every world from every number of transitions, and the worlds' noise."""
    found: list[Run] = []
    for world in WORLDS:
        found += _noise(size, world)
        for method in ("spare", *_rivals(world)):
            for samples in _counts(size):
                found += _of(size, world, method, samples)
    return found


def _picture(results: Results, world: str, part: str) -> Picture:
    size, counts = results.size, _counts(results.size)
    curves = [
        results.curve(LABELS[name], counts, lambda n, name=name: _of(size, world, name, n), part, name)
        for name in ("spare", *_rivals(world))
    ]
    level = results.estimate(_noise(size, world), part)
    return Picture(
        f"worlds-{world}-{part}",
        f"The world {world}",
        "training transitions",
        f"nats per value of {PARTS[part]}",
        (*curves, Curve.level("the world's noise", counts, level)),
        logarithmic=True,
        floor=level.mean - BELOW if level.runs else None,
    )


def _claims(results: Results) -> list[Claim]:
    """At least as good as each rival, in each world, from each number of transitions, for affected objects and all."""
    return [
        _claim(results, world, samples, rival, part)
        for world in WORLDS
        for samples in _counts(results.size)
        for rival in _rivals(world)
        for part in PARTS
    ]


def _claim(results: Results, world: str, samples: int, rival: str, part: str) -> Claim:
    mine, theirs = (_of(results.size, world, method, samples) for method in ("spare", rival))
    return Statement(
        f"worlds.{world}-{samples}-{rival}-{part}",
        f"World {world}, {samples:,} transitions, {PARTS[part]}: SPARE is at least as good as {LABELS[rival]}",
        f"nats per value of {PARTS[part]}: spare - {rival}",
        "ours",
    ).above(
        results.apart(mine, theirs, part), -SLACK, typical=rival == "flat"
    )  # now and then a flat network is overconfident


WORLDS_EXPERIMENT = Experiment(
    "worlds",
    "Worlds of other kinds",
    NONE,
    "Trays that carry what stands on them, billiard balls, flights with connections (`spare.lab.worlds`). All "
    "learn from the same transitions. Every state of a world has the same number of "
    "objects, since the flat network needs that. `At least as good` allows for 0.05 nats per value.",
    _runs,
    lambda results: [_picture(results, world, part) for world in WORLDS for part in PARTS],
    _claims,
)
