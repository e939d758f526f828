"""LearnDist: it recovers known generators, and the preset `paper` trains exactly as the paper says."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from spare.lab.worlds import queue as toy
from spare.language.references import Pointer, Shell
from spare.learning import engine
from spare.learning.engine import Recipe, initial_nets
from spare.learning.families import find_family
from spare.learning.fit import Task, fit, make_dataset
from spare.learning.presets import PRESETS
from spare.learning.problems import capacity_for
from spare.learning.train import Fitted, Plan, fit_predictors, member_problem
from spare.model.model import Model
from spare.programs import PROGRAMS
from tests.learning.helpers import fit_shell, flat, networks, plan_for, quick
from tests.learning.worlds import searches

TRUE = toy.true_shell(1)
LINE = Shell(1, (Pointer("line", (0,)),))


@functools.cache
def trained(name: str) -> tuple[Fitted, Model]:
    """The true lists of the queue with one follower, trained in full on 1,000 transitions."""
    preset = PRESETS[name]
    data = toy.generate(1000, seed=0, followers=1)
    dataset = make_dataset(data, "usher", preset)
    fitted = fit_predictors(dataset, [(TRUE, TRUE)], plan_for(dataset, preset, 1))[0]
    return fitted, Model(data.domain, [fitted.rule(dataset)], np.ones(2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "shared"])
def test_a_known_generator_is_recovered(name: str) -> None:
    """Means within a fraction of the noise, deviations within a third, and the density near the true one."""
    _, model = trained(name)
    held_out = toy.generate(300, seed=99, followers=1)
    truth = toy.true_model(1)
    moved = np.abs(truth.mean(held_out) - held_out.values).max(axis=1) > 0.1
    assert moved.sum() == 600
    (mean, std), (true_mean, true_std) = model.moments(held_out), truth.moments(held_out)
    noise = true_std[moved][:, :2]
    error = np.abs(mean - true_mean)[moved][:, :2] / noise
    limit = {"paper": 2.5, "shared": 0.6}[name]  # absolute targets far from the origin are harder than changes
    assert np.median(error) < limit
    ratio = np.median(std[moved][:, :2] / noise, axis=0)
    assert (ratio > 0.75).all()
    assert (ratio < {"paper": 4.0, "shared": 1.3}[name]).all()
    rest = np.sqrt(np.asarray(model.rules[0].noise.resolved(toy.domain.resolutions).variance))
    np.testing.assert_allclose(rest, toy.REST, rtol=0.1)
    gap = truth.log_prob(held_out).mean() - model.log_prob(held_out).mean()
    assert -0.1 < gap < {"paper": 8.0, "shared": 0.8}[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "shared"])
def test_a_predictor_beats_the_best_constant_gaussian(name: str) -> None:
    """On held-out data, against the Gaussian whose mean and variance are fitted to those very data."""
    fitted, model = trained(name)
    held_out = toy.generate(300, seed=98, followers=1)
    dataset = make_dataset(held_out, "usher", PRESETS[name])
    table = dataset.matrix(TRUE, TRUE)
    variance = table.y.var(axis=0)
    constant = -0.5 * (np.log(2 * np.pi * variance) + 1).sum()
    values = model.log_prob_values(held_out)
    learned = values[table.outputs.any(axis=0)].sum() / len(held_out)
    assert learned > constant + 2.0
    assert np.isfinite(fitted.log_prob).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "shared"])
def test_every_output_slot_is_trained(name: str) -> None:
    """Each slot's own rows of the last layers have left their start, and each slot follows its own target."""
    fitted, model = trained(name)
    assert len(networks(fitted)) == 2
    for net in networks(fitted):
        bias = np.asarray(net.biases[-1])
        assert bias.shape == (1, 4)
        assert (bias != 0).all()
    data = toy.generate(200, seed=97, followers=1)
    follower = make_dataset(data, "usher", PRESETS[name]).matrix(TRUE, TRUE).outputs[1]
    residual = (data.next_values - model.mean(data))[follower, 0]
    assert residual.std() < 0.5 * (data.next_values - data.values)[follower, 0].std() + 0.06


def test_preset_paper_is_what_the_paper_says() -> None:
    preset = PRESETS["paper"]
    assert preset.training.phases == ("mean", "variance", "mean", "variance", "mean")
    assert (preset.training.epochs, preset.training.batch, preset.training.learning_rate) == (25, 32, 1e-3)
    assert (preset.training.hidden, preset.training.activation) == ((150, 150), "relu")
    assert (preset.training.set_targets, preset.training.members) == ("mean", 1)
    assert (preset.targets, preset.inputs) == ("absolute", "dynamic")
    assert (preset.search.validation, preset.search.stop, preset.search.delta) == (0.15, "paper", "same")
    assert not preset.search.prune


@pytest.mark.slow
def test_preset_paper_takes_the_steps_that_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """By turns 3 x 25 epochs for the mean and 2 x 25 for the variance, each with one Adam that goes on counting."""
    steps: list[tuple[str, int]] = []
    program = engine._program

    def counted(phase: Any, *given: Any) -> Any:
        def run(*arguments: Any) -> Any:
            net, state = compiled(*arguments)
            steps.append((phase, int(state.count)))
            return net, state

        compiled = program(phase, *given)
        return run

    monkeypatch.setattr(engine, "_program", counted)
    fit_shell(toy.generate(100, seed=0, followers=1), TRUE, PRESETS["paper"])
    epoch = -(-85 // 32)
    assert steps == [
        (phase, 25 * epoch * times)
        for phase, times in zip(PRESETS["paper"].training.phases, (1, 1, 2, 2, 3), strict=True)
    ]


@pytest.mark.slow
def test_preset_paper_does_what_it_says() -> None:
    """Shapes, inputs and targets are the paper's."""
    fitted, model = trained("paper")
    rule = model.rules[0]
    assert rule.input_names == ("d", "target.x", "target.y", "mean(b1).x", "mean(b1).y")
    assert rule.spec.targets == ("absolute", "absolute")
    assert len(networks(fitted)) == 2
    for net in networks(fitted):
        assert [w.shape for w in net.weights] == [(1, 5, 150), (1, 150, 150), (1, 150, 4)]
        assert net.activation == "relu"


def test_glorot_limits_are_those_of_the_real_sizes() -> None:
    data = toy.generate(20, seed=0)
    dataset = make_dataset(data, "usher", PRESETS["paper"])
    capacity = capacity_for(dataset, 4)
    nets = initial_nets(PRESETS["paper"].training, capacity, (3, 2), np.random.default_rng(0))
    for net in (nets.mean, nets.variance):
        assert net is not None
        fans = (3, 150, 150, 2)
        for k, weight in enumerate(net.weights):
            limit, real = np.sqrt(6 / (fans[k] + fans[k + 1])), weight[: fans[k], : fans[k + 1]]
            assert np.abs(real).max() <= limit
            assert np.abs(real).max() > 0.95 * limit
            assert np.asarray(real).std() == pytest.approx(limit / np.sqrt(3), rel=0.1)
            assert np.count_nonzero(weight) == real.size  # padding stays 0
        assert all((bias == 0).all() for bias in net.biases)


@pytest.mark.slow
def test_padding_changes_nothing() -> None:
    """The same candidate in a wider padded shape gives the same networks, up to rounding."""
    preset = quick("paper")
    data = toy.generate(40, seed=1)
    dataset = make_dataset(data, "usher", preset)
    plan = plan_for(dataset, preset, 0)
    wide = dataclasses.replace(plan, capacity=capacity_for(dataset, 3))
    shell = Shell(1)
    narrow, padded = (fit_predictors(dataset, [(shell, shell)], p)[0] for p in (plan, wide))
    np.testing.assert_allclose(narrow.log_prob, padded.log_prob, rtol=1e-4, atol=1e-3)
    family = find_family(preset.training.family)
    member = family.init(preset.training, wide.capacity, (3, 2), np.random.default_rng(0))
    problem = member_problem(dataset, padded.matrix, wide, padded.scaling, 0)
    member = family.train(Recipe(preset.training, data.domain.leaves), member, problem, 0, 1.0)
    for net in member:
        assert net.weights[0].shape[0] > 3
        assert np.count_nonzero(net.weights[0][3:]) == 0  # padding stays 0
        assert np.count_nonzero(net.weights[-1][:, 2:]) == np.count_nonzero(net.biases[-1][2:]) == 0


@pytest.mark.slow
def test_weight_0_equals_leaving_out() -> None:
    """A whole fit, bit for bit: the same shells, and the same networks."""
    preset = quick(max_references=1)
    data = toy.generate(40, seed=2, followers=1)
    keep = np.arange(40) % 4 != 1
    zeroed = data.weighted(np.where(keep, 1.5, 0.0))
    results = [fit(toy.domain, d, seed=3, preset=preset, threads=1) for d in (zeroed, zeroed[np.flatnonzero(keep)])]
    first, second = (searches(result)[0] for result in results)
    assert [e.gamma for e in first.explored] == [e.gamma for e in second.explored]
    assert [e.loss for e in first.explored] == [e.loss for e in second.explored]
    for one, other in zip(flat(first.fitted[0]), flat(second.fitted[0]), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_training_weights_of_0_leave_rows_out_of_one_fit() -> None:
    """LearnDist itself: rows without training weight do not touch scaling, networks or default variances."""
    preset = quick("paper")
    data = toy.generate(30, seed=4)
    changed = data.next_values.copy()
    changed[data.offsets[5] : data.offsets[6]] += 3.0
    other = dataclasses.replace(data, next_values=changed)
    weights = np.where(np.arange(30) == 5, 0.0, 1.0)
    results = []
    for one in (data, other):
        dataset = make_dataset(one, "usher", preset)
        plan = Plan(preset, weights, np.zeros(30), capacity_for(dataset, 1), 0, 1)
        results.append(fit_predictors(dataset, [(Shell(1), Shell(1))], plan)[0])
    np.testing.assert_array_equal(results[0].noise.variance, results[1].noise.variance)
    np.testing.assert_array_equal(results[0].scaling.y_mean, results[1].scaling.y_mean)
    for one, two in zip(flat(results[0]), flat(results[1]), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_a_set_is_trained_on_every_member_or_on_its_mean() -> None:
    """`exact` learns the members' spread; `mean`, as the paper, only that of their mean."""
    deviations = {}
    for how in ("exact", "mean"):
        preset = quick("shared", {"set_targets": how, "steps": 400})
        fitted, dataset, _ = fit_shell(toy.generate(120, seed=6, followers=0), LINE, preset)
        model = Model(toy.domain, [fitted.rule(dataset)], np.ones(2))
        several = fitted.matrix.size[:, 1] >= 3
        owner = np.repeat(several & fitted.matrix.applies, dataset.experience.counts)
        deviations[how] = np.median(model.moments(dataset.experience)[1][owner & fitted.matrix.outputs[1], 0])
    assert deviations["exact"] == pytest.approx(toy.REST, rel=0.3)
    assert deviations["mean"] < 0.8 * deviations["exact"]


@pytest.mark.slow
def test_each_sample_is_judged_by_the_members_that_were_not_trained_on_it() -> None:
    preset = quick(training={"members": 3}, folds=3)
    data = toy.generate(60, seed=2, followers=1)
    dataset = make_dataset(data, "usher", preset)
    plan = Task(preset, seed=4, threads=1).plan(data, dataset)
    assert plan.folds is not None
    assert plan.folds.shape == (3, 60)
    assert plan.folds.sum(axis=0).max() == 1  # three folds of nine samples do not overlap
    fitted = fit_predictors(dataset, [(TRUE, TRUE)], plan)[0]
    family = find_family(preset.training.family)
    for held, member in zip(plan.folds, family.members(fitted.predictor, plan.capacity), strict=True):
        single = dataclasses.replace(fitted, predictor=family.predictor([member], fitted.scaling))
        alone = Model(toy.domain, [single.rule(dataset)], fitted.noise.variance)
        own = held & fitted.matrix.applies
        np.testing.assert_allclose(fitted.log_prob[own], alone.log_prob(data)[own], atol=2e-3)
    every = Model(toy.domain, [fitted.rule(dataset)], fitted.noise.variance).log_prob(data)
    rest = ~plan.folds.any(axis=0) & fitted.matrix.applies
    np.testing.assert_allclose(fitted.log_prob[rest], every[rest], atol=2e-3)


@pytest.mark.parametrize(("samples", "folds"), [(10, 5), (30, 6), (300, 4), (600, 2), (1000, 1), (50_000, 1)])
def test_few_samples_are_judged_in_several_folds(samples: int, folds: int) -> None:
    assert PRESETS["shared"].search.folds_for(samples) == folds
    assert PRESETS["paper"].search.folds_for(samples) == 1


@pytest.mark.slow
def test_less_effort_is_the_same_program_and_fewer_steps() -> None:
    preset = quick()
    data = toy.generate(60, seed=2, followers=1)
    dataset = make_dataset(data, "usher", preset)
    plan = plan_for(dataset, preset, 1)
    whole = fit_predictors(dataset, [(TRUE, TRUE)], plan)[0]
    before = PROGRAMS.compiled
    half = fit_predictors(dataset, [(TRUE, TRUE)], dataclasses.replace(plan, effort=0.5))[0]
    assert PROGRAMS.compiled == before
    assert not np.array_equal(flat(whole)[0], flat(half)[0])


@pytest.mark.slow
def test_a_warm_start_is_ahead_of_a_cold_one_after_little_training() -> None:
    """A twentieth of the schedule: what an earlier training of the same lists has learned need not be learned again."""
    data = toy.generate(300, seed=1, followers=1)
    earlier, dataset, plan = fit_shell(data, TRUE, quick(training={"hidden": (32, 32), "steps": 1000}))
    short = dataclasses.replace(plan, effort=0.05)
    cold, warm = (
        fit_predictors(dataset, [(TRUE, TRUE)], dataclasses.replace(short, warm=start))[0]
        for start in ({}, {(TRUE, TRUE): earlier})
    )
    held = (plan.validation > 0) & warm.matrix.applies
    assert warm.log_prob[held].mean() > cold.log_prob[held].mean() + 0.5
    np.testing.assert_array_equal(warm.scaling.y_scale, earlier.scaling.y_scale)


@pytest.mark.slow
def test_members_are_padded_again_as_they_were() -> None:
    """A trained predictor gives back networks that say the same of every row, in a wider shape too."""
    data = toy.generate(60, seed=3, followers=1)
    for more in ({}, {"family": "residual", "hidden": (16,) * 3}):
        fitted, dataset, plan = fit_shell(data, TRUE, quick(training={**more, "members": 2}))
        wide = dataclasses.replace(plan, capacity=capacity_for(dataset, 3))
        family = find_family(plan.preset.training.family)
        for number in range(2):
            narrow, wider = (
                family.outputs(
                    family.members(fitted.predictor, one.capacity)[number],
                    member_problem(dataset, fitted.matrix, one, fitted.scaling, number),
                )
                for one in (plan, wide)
            )
            for small, large in zip(narrow, wider, strict=True):
                np.testing.assert_allclose(small[:60], large[:60, :2], rtol=1e-5, atol=1e-6)
