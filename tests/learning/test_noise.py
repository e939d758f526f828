"""Default noise with outliers: EM for two Gaussians, and rules that are learned and scored with it."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest

import spare
from spare.language.references import Shell
from spare.learning.fit import Task, make_dataset, prepare
from spare.learning.noise import changes, fit_noise
from spare.learning.presets import PRESETS, Preset
from spare.learning.train import fit_predictors
from spare.model.model import Model
from spare.model.noise import DefaultNoise

DOMAIN = spare.Domain(
    "crowd",
    properties=[spare.Property("x", resolution=0.01), spare.Property("y", resolution=0.01)],
    references=[],
    actions=[spare.Action("shout", objects=("target",), parameters=("a",))],
)


def crowd(count: int, seed: int, share: float = 0.1) -> spare.Experience:
    """The target moves by a; of the four others each stays (± 0.02), or with `share` jumps in x (± 1)."""
    rng, builder = np.random.default_rng(seed), spare.Builder(DOMAIN)
    for _ in range(count):
        a, before = rng.uniform(-1, 1), rng.uniform(-5, 5, (5, 2))
        moved = rng.normal(0, 0.02, (5, 2))
        moved[:, 0] += np.where(rng.random(5) < share, rng.normal(0, 1, 5), 0.0)
        moved[0] += (a, -a)
        states = [spare.State(tuple(range(5)), values) for values in (before, before + moved)]
        builder.add(states[0], spare.ActionCall("shout", (0,), (float(a),)), states[1])
    return builder.build()


def others(data: spare.Experience) -> np.ndarray:
    """Everyone but the target."""
    return np.arange(len(data.values)) % 5 != 0


def test_shares_and_variances_are_recovered() -> None:
    """A tenth jumps by ± 1 in x; in y the share is the prior's alone."""
    data = crowd(2000, 0)
    found = fit_noise(data, others(data), data.weights, outliers=True)
    assert found.outlier_share is not None
    share, wide = found.outlier_share, found.outlier_variance
    assert share[0] == pytest.approx(0.1, rel=0.1)
    assert np.sqrt(wide[0]) == pytest.approx(1.0, rel=0.1)
    assert np.sqrt(found.variance[0] + 1e-4) == pytest.approx(0.02, rel=0.1)
    assert np.sqrt(found.variance[1] + 1e-4) == pytest.approx(0.02, rel=0.1)
    assert share[1] < 0.02


def test_it_is_the_maximum_of_the_posterior() -> None:
    """No small change of any number raises the likelihood with its two imagined objects."""
    data = crowd(300, 1)
    moved, resolutions = changes(data)[others(data)], DOMAIN.resolutions
    overall = np.square(changes(data)).mean(axis=0)
    found = fit_noise(data, others(data), data.weights, outliers=True)
    assert found.outlier_share is not None

    def posterior(noise: DefaultNoise) -> np.ndarray:
        whole = noise.resolved(resolutions)
        imagined = np.log(whole.outlier_share)
        imagined -= 0.5 * (overall / whole.outlier_variance + np.log(whole.outlier_variance))
        imagined += np.log1p(-whole.outlier_share) - 0.5 * np.log(whole.variance)
        return whole.log_density(moved, DOMAIN.leaves).sum(axis=0) + imagined

    best = posterior(found)[0]  # in x; in y the two Gaussians are the same, and the top is flat
    for factor in (0.9, 1.1):
        for name in DefaultNoise._fields:
            assert posterior(found._replace(**{name: getattr(found, name) * factor}))[0] < best


def test_weights_of_2_equal_repeating_but_for_the_imagined_objects() -> None:
    """Weighted by 2 or there twice: the same, up to the prior, whose two objects weigh as much as a sample does."""
    data = crowd(500, 2)
    twice = spare.concatenate([data, data])
    first = fit_noise(data, others(data), 2 * data.weights, outliers=True)
    second = fit_noise(twice, others(twice), twice.weights, outliers=True)
    np.testing.assert_allclose(first.variance, second.variance, rtol=0.02)


def with_outliers(**more: bool) -> Preset:
    """The default preset, small, with outliers."""
    chosen = PRESETS["shared"]
    training = dataclasses.replace(chosen.training, hidden=(16,), steps=300, outliers=True, members=2)
    return dataclasses.replace(chosen, training=training, final=None, **more)


@pytest.mark.slow
def test_rules_are_learned_and_scored_with_outliers() -> None:
    """What training says of each sample is what the model says; held-out samples are explained far better for it."""
    data, unseen = crowd(200, 3), crowd(200, 4)
    seen, _ = prepare(DOMAIN, data)
    scores = []
    for chosen in (with_outliers(), with_outliers().for_many()):
        chosen = dataclasses.replace(chosen, training=dataclasses.replace(chosen.training, members=1))
        dataset = make_dataset(seen, "shout", chosen)
        plan = Task(chosen, 0, 1).plan(seen, dataset, 1)
        fitted = fit_predictors(dataset, [(Shell(1), Shell(1))], plan)[0]
        model = Model(seen.domain, [fitted.rule(dataset)], fitted.noise.variance)
        np.testing.assert_allclose(model.log_prob(seen), fitted.log_prob, rtol=1e-4, atol=1e-3)
        scores.append(model.log_prob(unseen).mean())
    assert scores[0] > scores[1] + 4
    assert model.rules[0].noise.outlier_share is None
    assert "with outliers" not in str(model)


@pytest.mark.slow
def test_outliers_survive_a_file_and_a_checkpoint(tmp_path: pathlib.Path) -> None:
    """Saved and loaded, or learned again from the trainings of an earlier run: the same bits."""
    from spare.learning.cache import open_run

    data, models = crowd(80, 5), []
    for _ in range(2):
        cache = open_run(tmp_path / "run", {})
        models.append(spare.fit(DOMAIN, data, seed=0, preset=with_outliers(), threads=1, cache=cache).model)
        cache.close(finished=False)
    np.testing.assert_array_equal(models[0].log_prob(data), models[1].log_prob(data))
    models[0].save(tmp_path / "m.spare")
    again = spare.load(tmp_path / "m.spare", models[0].domain)
    np.testing.assert_array_equal(models[0].log_prob(data), again.log_prob(data))
    assert "with outliers: x ± " in str(again)
