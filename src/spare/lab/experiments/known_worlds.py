"""One learner in one world with a known density, on unseen transitions: the runs of `spare bench worlds`.

Every learner sees the same transitions, all with the world's fixed number of objects, since a flat network needs that.
It is asked about unseen ones of the same kind, about states with five times as many objects, and in the world `chain`
about chains of 8 and 16 links. The truth is a learner like any other, so its numbers are of the same test sets.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from spare.data.experience import Experience
from spare.errors import DataError, UsageError, one_of
from spare.lab.experiments.data import TEST_SEEDS
from spare.lab.experiments.methods import METHODS, Scored, preset
from spare.lab.worlds.catalogue import BENCH, KnownWorld, SimulatedWorld
from spare.learning.fit import FitResult, fit
from spare.learning.presets import PRESETS
from spare.model.evaluation import acted_rows
from spare.model.model import Model

LEARNERS = {
    "spare": "SPARE",
    "dense": "SPARE, preset dense",
    "shared": "SPARE, preset shared",
    "paper": "SPARE, preset paper",
    "graph": "graph network",
    "graph-frame": "graph network, action's frame",
    "pets": "ensemble of flat networks (PETS), action's frame",
    "trees": "boosted trees, action's frame",
    "nothing": "nothing moves",
    "truth": "the truth",
}
RULES = {"spare": "default", "dense": "dense", "shared": "shared", "paper": "paper"}
"""Learners that are presets of `spare.fit`."""
OTHERS = {
    "graph": "graph",
    "graph-frame": "graph-frame",
    "pets": "ensemble-frame",
    "trees": "trees",
    "nothing": "no-change",
}
"""The names of the other learners among `METHODS`."""
TIMES = 5
"""How many times as many objects the wide test has."""
LINKS = (8, 16)
DRAWS = 100
LEVEL = 0.9


def skipped(learner: str) -> str | None:
    """Why a learner cannot take part, or None."""
    if learner not in LEARNERS:
        raise UsageError(one_of("learner", learner, LEARNERS))
    if learner in RULES and RULES[learner] not in PRESETS:
        return f"there is no preset {RULES[learner]!r}"
    return None


def tests(world: str, count: int, seed: int) -> dict[str, Experience]:
    """Unseen transitions by name: `home`, `wide` (five times the objects), and chains of `8` and `16` links."""
    one, where = BENCH[world], TEST_SEEDS + seed
    slow = isinstance(one, SimulatedWorld)
    count = min(count, one.tested) if slow else count
    found = {"home": one.generate(count, where, objects=one.fixed)}
    found["wide"] = one.generate(max(1, count // (5 if slow else 2)), where, objects=TIMES * one.fixed)
    if isinstance(one, KnownWorld) and world == "chain":
        for links in LINKS:
            found[str(links)] = one.generate(max(1, count // 2), where, objects=links + one.fixed, links=links)
    return found


def score(settings: Mapping[str, Any], seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """The numbers of one learner: `seconds` of learning, and by test set what `scores` says (None: it cannot).

    For rules also: `empty` (nothing but the action's objects is predicted), `notes`, the rules in words, and in the
    world `kinds` the adjusted Rand index of who is which kind.
    """
    world, learner = BENCH[settings["world"]], settings["learner"]
    unseen = tests(settings["world"], settings["test"], seed)
    result: dict[str, Any] = {"test data": unseen["home"].fingerprint}
    if learner == "truth":
        model: Scored = world.truth
    else:
        train = world.generate(settings["samples"], seed, objects=world.fixed)
        begin = time.perf_counter()
        found = _learn(learner, train, seed, settings["effort"])
        result |= {"seconds": round(time.perf_counter() - begin, 3), "data": train.fingerprint}
        model = found.model if isinstance(found, FitResult) else found
        if isinstance(found, FitResult):
            result |= _rules(found, unseen["home"])
    result["tests"] = {name: _asked(model, world.movers(data), data, name) for name, data in unseen.items()}
    return result


def _learn(learner: str, data: Experience, seed: int, effort: float) -> FitResult | Scored:
    if learner in RULES:
        return fit(data.domain, data, seed=seed, preset=preset(RULES[learner], effort))
    return METHODS[OTHERS[learner]].learn(data, seed, effort)


def _asked(model: Scored, moved: np.ndarray, data: Experience, name: str) -> dict[str, Any] | None:
    """Scores on a test set; None for a learner that does not take so many objects."""
    try:
        return scores(model, moved, data, coverage=name == "home")
    except DataError:
        if name == "home":
            raise
        return None


def scores(model: Scored, moved: np.ndarray, data: Experience, *, coverage: bool) -> dict[str, Any]:
    """Nats per value of objects that moved but were not acted on, of those acted on, of bystanders, of all.

    joint: mean log density of a whole next state. covered, covered_all: share of values of objects that moved, and of
    all, inside central intervals of 90 %. A group without members has None.
    """
    values, own = model.log_prob_values(data), acted_rows(data)
    parts = {"movers": moved & ~own, "acted": own, "bystanders": ~moved & ~own, "all": np.ones(len(own), bool)}
    result = {name: float(values[rows].mean()) if rows.any() else None for name, rows in parts.items()}
    result["joint"] = float(model.log_prob(data).mean())
    if coverage:
        inside = covered(model, data)
        result["covered_all"] = float(inside.mean())
        result["covered"] = float(inside[moved].mean()) if moved.any() else None
    return result


def covered(model: Scored, data: Experience) -> np.ndarray:
    """(total, Q) in [0, 1]: whether the rank of each value among draws is a central one, the ends interpolated."""
    dynamic = list(data.domain.dynamic)
    seen, below = data.next_values[:, dynamic], np.zeros((len(data.values), len(dynamic)))
    for k in range(DRAWS):
        below += model.sample(data, k)[:, dynamic] < seen
    edge = (1 - LEVEL) / 2 * (DRAWS + 1)
    return np.clip(below + 1 - edge, 0, 1) * np.clip(DRAWS + 1 - edge - below, 0, 1)


def _rules(found: FitResult, test: Experience) -> dict[str, Any]:
    result = {"empty": empty(found.model), "notes": list(found.notes), "rules": str(found.model)}
    if "kind" in test.info:
        index = rand_index(found.model, test)
        result |= {} if index is None else {"rand": index}
    return result


def empty(model: Any) -> bool:
    """Whether only the action's own objects are predicted: no rule points at anybody, and nothing is a process."""
    processes = getattr(model, "processes", ())
    return not processes and not any(len(rule.delta) for rule in model.rules)


def rand_index(model: Any, data: Experience) -> float | None:
    """Adjusted Rand index of the hidden kinds and what the model takes each transition for; None if it has no say.

    A model that tells outcomes apart has `responsibilities(experience)` (n, K); where no rule has several outcomes,
    each of several rules is asked alone which transitions it explains best.
    """
    from sklearn.metrics import adjusted_rand_score

    plain = isinstance(model, Model) and all(getattr(rule, "outcomes", 1) == 1 for rule in model.rules)
    if hasattr(model, "responsibilities") and not plain:
        chosen = np.argmax(model.responsibilities(data), axis=1)
    elif len(model.rules) > 1:
        alone = [Model(model.domain, [rule], model.noise).log_prob(data) for rule in model.rules]
        chosen = np.argmax(np.stack(alone), axis=0)
    else:
        return None
    return float(adjusted_rand_score(data.info["kind"], chosen))
