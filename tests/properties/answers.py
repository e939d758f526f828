"""Everything a model says about an experience, from the library (compiled once per structure) and from the oracle."""

from __future__ import annotations

import dataclasses
import functools
import random
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.data.scene import Batch, batches
from tests.oracle import OracleModel
from tests.strategies import Case, case, plain, plan, thorough


class Answers(NamedTuple):
    """One row per transition (log_prob, scores) or per object (the rest)."""

    log_prob: np.ndarray
    scores: np.ndarray
    log_values: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


@eqx.filter_jit
def _all(model: spare.Model, batch: Batch) -> Any:
    real = jnp.result_type(float)
    scene = batch.scene._replace(values=batch.scene.values.astype(real), parameters=batch.scene.parameters.astype(real))

    def one(scene: Any, after: Any) -> Any:
        found = model.distribution(scene)
        pairs = zip(model.rules, found.bindings, strict=True)
        scores = jnp.array([jnp.where(binding.applies, rule.score, 0) for rule, binding in pairs], int)
        after = after[:, np.array(model.domain.dynamic)]
        return found.log_prob(after), scores, found.log_values(after), *found.moments()

    return jax.vmap(one)(scene, batch.next_values.astype(real))


def of_library(model: spare.Model, data: spare.Experience) -> Answers:
    """Through the functions of one scene, all in one compilation."""
    quantities = len(model.domain.dynamic)
    shapes = [(len(data),), (len(data), len(model.rules)), *[(len(data.values), quantities)] * 3]
    result = Answers(*(np.full(shape, np.nan) for shape in shapes))
    for batch in batches(data):
        arrays = batch._replace(scene=jax.tree.map(jnp.asarray, batch.scene), index=None)
        found = _all(model, arrays._replace(next_values=jnp.asarray(batch.next_values)))
        rows = batch.index[batch.index >= 0]
        flat = np.concatenate([np.arange(*data.offsets[i : i + 2]) for i in rows])
        for k, part in enumerate(found):
            if k < 2:
                result[k][rows] = np.asarray(part)[: len(rows)]
            else:
                result[k][flat] = np.asarray(part)[batch.scene.valid]
    return result


def of_oracle(model: OracleModel, data: spare.Experience) -> Answers:
    """Through loops."""
    names = data.domain.dynamic_names
    result: list[list] = [[] for _ in Answers._fields]
    for i in range(len(data)):
        world, call, after = plain(data, i)
        values, moments = model.log_values(world, call, after), model.moments(world, call)
        result[0].append(model.log_prob(world, call, after))
        result[1].append(model.scores(world, call))
        for o in range(len(world)):
            result[2].append([values[o, name] for name in names])
            result[3].append([moments[o, name][0] for name in names])
            result[4].append([moments[o, name][1] for name in names])
    return Answers(*(np.array(part, float) for part in result))


def assert_close(mine: Answers, other: Answers, bound: float, hint: object = "") -> None:
    """|a - b| <= bound (1 + |b|), everywhere."""
    for name, a, b in zip(Answers._fields, mine, other, strict=True):
        error = np.abs(a - b) / (1 + np.abs(b))
        assert a.shape == b.shape
        assert np.all(error <= bound), f"{name}: {error.max()} {hint}"


HEIGHT = 96
"""Transitions in each case of the pool."""


def pool(*few: int) -> Any:
    """These cases of the pool by default; in `make properties` as many as hold 10,000 transitions.

    Tests of a case follow each other (see `conftest.py`), so that each structure is compiled once.
    """
    seeds = range(-(-10_000 // HEIGHT)) if thorough() else few
    return pytest.mark.parametrize("seed", [pytest.param(one, marks=pytest.mark.drawn(one)) for one in seeds])


@functools.cache
def pooled(seed: int) -> Case:
    """Cases that several tests share, so that each structure is compiled once; 5 objects leave room for a sixth."""
    structure = plan(random.Random(seed), ties=seed % 2 == 1)
    return case(structure, seed, transitions=HEIGHT, objects=(5, 5))


def each_for_itself(drawn: Case) -> Case:
    """The same models without common causes."""
    rules = [eqx.tree_at(lambda r: r.copula, rule, None, is_leaf=lambda x: x is None) for rule in drawn.model.rules]
    second = [dataclasses.replace(rule, copula=None) for rule in drawn.oracle.rules]
    model = eqx.tree_at(lambda m: m.rules, drawn.model, tuple(rules))
    return dataclasses.replace(drawn, model=model, oracle=dataclasses.replace(drawn.oracle, rules=second))
