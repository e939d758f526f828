"""One learner, planned in: the runs of `spare bench plan`.

Every learner sees the same random transitions, has the same planner with as many candidates, and meets the same tasks.
The truth is a learner like any other, which needs no transitions. A run keeps what came of every task, so that rates
and intervals are read off later.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Mapping
from typing import Any

from spare.errors import UsageError, one_of
from spare.lab.baselines.gaussian import GaussianModel
from spare.lab.baselines.simulators import simulator_of
from spare.lab.experiments.methods import METHODS, preset
from spare.lab.tasks.catalogue import SUITES
from spare.lab.tasks.task import Suite, carry_out
from spare.learning.fit import fit
from spare.model.rollout import Simulator
from spare.planning.samplers import ICEM

PLANNED = {
    "spare": "SPARE",
    "graph": "graph network, action's frame",
    "pets": "ensemble of flat networks (PETS), action's frame",
    "truth": "the truth",
}
_METHODS = {"graph": "graph-frame", "pets": "ensemble-frame"}


def model_of(learner: str, suite: Suite, samples: int, seed: int, effort: float) -> Simulator:
    """What is planned in: learned from random transitions, or the truth."""
    if learner == "truth":
        if suite.truth is None:
            raise UsageError(f"{suite.name}: only a simulator knows the truth of this world; it cannot be planned in")
        return suite.truth()
    data = suite.generate(samples, seed)
    if learner == "spare":
        return fit(data.domain, data, seed=seed, preset=preset("default", effort)).model
    if learner not in _METHODS:
        raise UsageError(one_of("learner", learner, PLANNED))
    found: Any = METHODS[_METHODS[learner]].learn(data, seed, effort)
    assert isinstance(found, GaussianModel)
    return simulator_of(found)


def planner_of(candidates: int) -> ICEM:
    """The planner of all learners: iCEM, four iterations that share out the candidates."""
    each = max(32, candidates // 4)
    return ICEM(candidates=each, elites=max(8, each // 10), iterations=4)


def score(settings: Mapping[str, Any], seed: int, folder: pathlib.Path) -> dict[str, Any]:
    """By task: solved, actions, promised and kept success of the first plan; seconds of learning and of a plan."""
    suite, begin = SUITES[settings["suite"]], time.perf_counter()
    model = model_of(settings["learner"], suite, settings["samples"], seed, settings["effort"])
    learned, planner = time.perf_counter() - begin, planner_of(settings["candidates"])
    found = [carry_out(suite, index, model, planner, seed) for index in range(settings["tasks"])]
    seconds = sorted(one for episode in found for one in episode.seconds)
    return {
        "seconds": round(learned, 2),
        "plan": round(seconds[len(seconds) // 2], 4) if seconds else None,
        "solved": [one.solved for one in found],
        "actions": [one.actions for one in found],
        "promised": [one.promised for one in found],
        "kept": [one.kept for one in found],
    }
