"""Tasks of known worlds: the truth that planners use is the worlds' own, and so are the baselines'."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.lab.baselines.flat import PETS, fit_flat
from spare.lab.baselines.graph import GraphSettings, fit_graph
from spare.lab.baselines.simulators import simulator_of
from spare.lab.tasks.catalogue import SUITES
from spare.lab.tasks.task import COUNT, Suite
from spare.lab.worlds import chain, crane, vehicle
from spare.model.model import make_scene

WORLDS = {"park": vehicle.WORLD, "load": crane.WORLD, "order": chain.WORLD}
suites = pytest.mark.parametrize("suite", [SUITES[name] for name in WORLDS], ids=list(WORLDS))
DRAWS = 3000


def moments(model: Any, state: spare.State, call: spare.ActionCall) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(means, deviations, draws) of the changeable properties of one step."""
    scene = jax.tree.map(jnp.asarray, make_scene(model.domain, state, call))
    keys, members = jax.random.split(jax.random.key(0), DRAWS), np.arange(DRAWS) % model.members
    drawn = jax.jit(jax.vmap(lambda key, member: model.advance(scene, key, member)))(keys, members)
    found = np.asarray(drawn)[:, : len(state), list(model.domain.dynamic)].astype(np.float64)
    return found.mean(axis=0), found.std(axis=0), found


@suites
def test_the_true_step_is_the_worlds_own(suite: Suite) -> None:
    assert suite.truth is not None
    data = WORLDS[suite.name].generate(4, 3, objects=suite.objects)
    means, stds = WORLDS[suite.name].truth.moments(data)
    dynamic = list(suite.domain.dynamic)
    for i in range(len(data)):
        rows = slice(data.offsets[i], data.offsets[i + 1])
        mean, std, _ = moments(suite.truth(), data.states[i], data.actions[i])
        assert np.abs((mean - means[rows][:, dynamic]) / stds[rows][:, dynamic]).max() < 5 / np.sqrt(DRAWS)
        assert np.abs(np.log(std / stds[rows][:, dynamic])).max() < 0.12


@suites
def test_tasks_are_the_same_every_time_and_differ(suite: Suite) -> None:
    tasks = [suite.task(i) for i in (0, 0, 1, COUNT - 1)]
    assert tasks[0].start == tasks[1].start
    assert tasks[0].start != tasks[2].start
    assert suite.truth is not None
    assert not any(suite.problem(suite.truth(), one.given).reached(one.start) for one in tasks)
    with pytest.raises(spare.UsageError, match="numbered 0 to 49"):
        suite.task(COUNT)


@pytest.mark.slow
def test_baselines_draw_what_they_predict() -> None:
    data = chain.generate(40, 0, objects=7)
    quick = spare.Training(hidden=(8, 8), phases=("joint",), steps=60, members=2)
    graph = fit_graph(chain.domain, data, seed=0, settings=GraphSettings(hidden=8, steps=60, members=2, framed=True))
    flat = fit_flat(chain.domain, data, seed=0, settings=dataclasses.replace(PETS, training=quick, framed=True))
    for model in (graph, flat):
        state, call = data.states[3], data.actions[3]
        said, (mean, std, _) = model.predict(state, call), moments(simulator_of(model), state, call)
        assert np.abs((mean - said.mean[:, :2]) / said.std[:, :2]).max() < 6 / np.sqrt(DRAWS)
        assert np.abs(np.log(std / said.std[:, :2])).max() < 0.12
