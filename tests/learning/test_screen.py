"""The closed-form look at candidates: exact where it can be, and a good guide to what training finds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from spare.lab.worlds import queue as toy
from spare.language.references import Pointer, Shell
from spare.learning.fit import Task, fit, make_dataset
from spare.learning.presets import PRESETS
from spare.learning.screen import PENALTIES, RidgeScreen, left_out, ridge_losses
from tests.learning.helpers import quick


def test_rows_left_out_are_as_if_each_had_been() -> None:
    """Beside one regression for each row without it, by the normal equations; each output has its own penalty."""
    rng = np.random.default_rng(0)
    features, weight = rng.normal(size=(25, 6)), rng.uniform(0.5, 2, 25)
    y = np.stack([features @ rng.normal(size=6) + 0.1 * rng.normal(size=25), rng.normal(size=25)], axis=1)

    def wrong(penalty: float) -> np.ndarray:
        found = np.zeros_like(y)
        for i in range(25):
            rest = np.arange(25) != i
            left = features[rest].T @ (weight[rest, None] * features[rest]) + penalty * np.eye(6)
            found[i] = y[i] - features[i] @ np.linalg.solve(left, features[rest].T @ (weight[rest, None] * y[rest]))
        return found

    tried = [wrong(penalty) for penalty in PENALTIES]
    sizes = np.array([(weight[:, None] * one**2).sum(axis=0) for one in tried])
    expected = np.stack([tried[k][:, q] for q, k in enumerate(sizes.argmin(axis=0))], axis=1)
    assert sizes[:, 0].argmin() != sizes[:, 1].argmin()
    np.testing.assert_allclose(left_out(features, y, weight), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_losses_of_a_linear_world_are_those_of_the_true_model() -> None:
    """Where ridge regression can be right it is, within 5 %; samples that a rule does not cover have none."""
    data = toy.generate(400, 0, followers=2)
    dataset = make_dataset(data, data.domain.actions[0].name, PRESETS["shared"])
    table = dataset.matrix(toy.true_shell(2), toy.true_shell(2))
    losses = ridge_losses(dataset, table, data.weights, outliers=True)
    np.testing.assert_array_equal(np.isnan(losses), ~table.applies)
    true = -toy.true_model(2).log_prob(data)
    covered = table.applies
    assert losses[covered].mean() == pytest.approx(true[covered].mean(), rel=0.05)


@pytest.mark.slow
def test_the_true_list_has_the_best_ridge_loss_and_only_the_best_are_trained() -> None:
    """Step by step along the true list; a search that trains two candidates a round finds what the full one finds."""
    data = toy.generate(300, 1, followers=2)
    chosen = quick(training={"steps": 600}, ridge=2, max_references=3)
    dataset = make_dataset(data, data.domain.actions[0].name, chosen)
    screen = RidgeScreen(dataset, Task(chosen, 0, 1).plan(data, dataset))
    shells = [Shell(1, tuple(toy.true_shell(2))[:k]) for k in range(3)]
    losses = [screen.loss((one, one)) for one in shells]
    assert losses[0] > losses[1] > losses[2]
    wrong = shells[1].extend(Pointer(data.domain.references[-1].name, (0,)))
    if wrong != shells[2]:
        assert screen.loss((wrong, wrong)) > losses[2]
    few, every = (
        fit(data.domain, data, seed=0, preset=dataclasses.replace(chosen, search=search)).history[0]
        for search in (chosen.search, dataclasses.replace(chosen.search, ridge=0))
    )
    assert few.best.gamma == every.best.gamma == toy.true_shell(2)  # type: ignore[union-attr]
    assert 2 * len(few.explored) < len(every.explored)  # type: ignore[union-attr]
    notes = [one.note for round_ in few.rounds for one in round_.explored]  # type: ignore[union-attr]
    assert any(note.endswith("nats behind the best by ridge regression") for note in notes)
