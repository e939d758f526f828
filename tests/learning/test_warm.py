"""Warm heats: candidates begin with the networks of the list that they extend."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from spare.lab.worlds import queue as toy
from spare.language.references import Pointer, Shell
from spare.learning.engine import grown, initial_nets, outputs
from spare.learning.fit import fit
from spare.learning.problems import take_scale
from spare.learning.train import fit_predictors, grows_from, member_problem
from tests.learning.helpers import fit_shell, quick

SHORT = Shell(1, (Pointer("behind", (0,)),))
LONG = SHORT.extend(Pointer("behind", (1,)))


@pytest.mark.parametrize("more", [{}, {"shared": True, "hidden": (16,) * 3}], ids=["plain", "shared"])
def test_a_grown_network_first_says_what_its_parent_says(more: dict[str, Any]) -> None:
    data = toy.generate(80, seed=0, followers=2)
    preset = quick(training=more)
    parent, dataset, plan = fit_shell(data, SHORT, preset, longest=3)
    table = dataset.matrix(LONG, LONG)
    own = take_scale(table, np.where(table.applies, plan.training, 0.0), data.domain.resolutions)
    scaling = parent.scaling.extended(own)
    problem = member_problem(dataset, table, plan, scaling, 0)
    known = (parent.matrix.x.shape[1], parent.matrix.y.shape[1] * parent.matrix.y.shape[2])
    sizes = (table.x.shape[1], table.y.shape[1] * table.y.shape[2])
    fresh = initial_nets(preset.training, plan.capacity, sizes, np.random.default_rng(0))
    nets = grown(fresh, parent.nets[0], known)
    before = outputs(parent.nets[0], member_problem(dataset, parent.matrix, plan, parent.scaling, 0))
    rows = np.flatnonzero(table.applies)
    assert len(rows) > 20
    for mine, theirs in zip(outputs(nets, problem), before, strict=True):
        np.testing.assert_allclose(np.asarray(mine)[rows, :2], np.asarray(theirs)[rows, :2], rtol=1e-4, atol=1e-5)


def test_only_lists_with_one_pointer_more_grow_from_others() -> None:
    _, dataset, _ = fit_shell(toy.generate(20, seed=0), SHORT, quick(training={"steps": 25}), longest=3)
    longest = LONG.extend(Pointer("behind", (2,)))
    other = Shell(1, (Pointer("nearest", (0,)), Pointer("behind", (1,))))

    def table(shell: Shell) -> Any:
        return dataset.matrix(shell, shell)

    assert grows_from(table(LONG), table(SHORT))
    assert grows_from(table(SHORT), table(Shell(1)))
    for shell in (longest, other):
        assert not grows_from(table(shell), table(SHORT))
    assert not grows_from(table(SHORT), table(LONG))


def test_a_warm_start_is_ahead_of_a_cold_one_after_little_training() -> None:
    """A twentieth of the schedule: what the parent knew need not be learned again."""
    data = toy.generate(300, seed=1, followers=2)
    parent, dataset, plan = fit_shell(data, SHORT, quick(training={"hidden": (32, 32), "steps": 1000}), longest=2)
    short = dataclasses.replace(plan, effort=0.05)
    cold, warm = (
        fit_predictors(dataset, [(LONG, LONG)], dataclasses.replace(short, parent=one))[0] for one in (None, parent)
    )
    held = (plan.validation > 0) & warm.matrix.applies
    assert warm.log_prob[held].mean() > cold.log_prob[held].mean() + 0.5


def test_a_warm_search_finds_the_queue() -> None:
    data = toy.generate(300, seed=0, followers=1)
    preset = quick(training={"hidden": (32, 32), "steps": 1000}, max_references=2, halving=1 / 3, folds=2)
    found = [fit(data.domain, data, seed=0, preset=preset, warm=warm).history[0] for warm in (False, True)]
    assert found[0].best.gamma == found[1].best.gamma == toy.true_shell(1)  # type: ignore[union-attr]
