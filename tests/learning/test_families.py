"""The seam of predictors: a family of our own, in closed form, goes through everything that networks go through.

The family is linear-Gaussian: weighted ridge regression of y on x for the mean, and for each output one variance, that
of its residuals. In the queue world it can be exactly right.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

import spare
from spare.lab.worlds import queue as toy
from spare.learning.cache import open_run
from spare.learning.engine import Capacity, Problem, Recipe
from spare.learning.families import FAMILIES, Family, find_family, register_family
from spare.learning.fit import FitResult, fit
from spare.learning.many import ManyResult
from spare.learning.mixing import Mixing
from spare.learning.presets import PRESETS, Preset, Training
from spare.learning.problems import Scaling
from spare.learning.train import member_problem
from spare.model.predictors import PREDICTORS, AbstractPredictor, Predicted, register_predictor
from tests.learning import many_worlds
from tests.learning.helpers import fit_shell
from tests.learning.worlds import searches

pytestmark = pytest.mark.slow

NAME = "ridge"
PENALTY, SMALLEST = 1e-3, 1e-8


class Line(NamedTuple):
    """One member, padded, in normalised units: y = x weight + bias ± sqrt(variance); weight (D, O), variance (S, Q)."""

    weight: np.ndarray
    bias: np.ndarray
    variance: np.ndarray


class LinearPredictor(AbstractPredictor):
    """N(x W + b, diag v) of every member, on normalised x and y."""

    weight: Float[Array, "M D O"]
    bias: Float[Array, "M O"]
    variance: Float[Array, "M S Q"]
    x_mean: Float[Array, " D"]
    x_scale: Float[Array, " D"]
    y_mean: Float[Array, "S Q"]
    y_scale: Float[Array, "S Q"]

    @property
    def members(self) -> int:
        return len(self.weight)

    def __call__(self, x: Float[Array, " D"]) -> Predicted:
        mean = ((x - self.x_mean) / self.x_scale) @ self.weight + self.bias
        location = self.y_mean + self.y_scale * mean.reshape(self.variance.shape)
        weight = jnp.full(self.members, -jnp.log(self.members))
        return Predicted(weight, location, jnp.square(self.y_scale) * self.variance)

    def describe(self) -> dict[str, Any]:
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        fields = dataclasses.fields(self)
        return {field.name: np.asarray(getattr(self, field.name), np.float32) for field in fields}

    @classmethod
    def from_arrays(cls, description: Mapping[str, Any], take: Any) -> LinearPredictor:
        parts = {field.name: take(field.name) for field in dataclasses.fields(cls)}
        members, inputs, outputs = parts["weight"].shape
        slots = parts["y_mean"].shape
        shapes = [(members, outputs), (members, *slots), (inputs,), (inputs,), slots, slots]
        if [part.shape for part in list(parts.values())[1:]] != shapes or np.prod(slots) != outputs:
            raise spare.DefinitionError("its arrays do not fit each other")
        return cls(**{name: jnp.asarray(part) for name, part in parts.items()})


class RidgeFamily(Family[Line, LinearPredictor]):
    """Ridge regression: nothing to draw, nothing to stop early."""

    def init(self, training: Training, capacity: Capacity, sizes: tuple[int, int], rng: np.random.Generator) -> Line:
        outputs = capacity.slots * capacity.quantities
        shape = (capacity.slots, capacity.quantities)
        return Line(np.zeros((capacity.inputs, outputs)), np.zeros(outputs), np.ones(shape))

    def train(self, recipe: Recipe, member: Line, problem: Problem, seed: int, effort: float) -> Line:
        rows, shape = problem.rows, member.variance.shape
        x = np.append(rows.x, np.ones((len(rows.x), 1)), axis=1).astype(np.float64)
        found, variance = np.zeros((x.shape[1], *shape)), np.ones(shape)
        for slot in range(shape[0]):
            weight = np.where(problem.usable, rows.coefficient[:, slot], 0.0).astype(np.float64)[:, None]
            if not weight.any():
                continue  # padding
            inside = x.T @ (weight * x) + PENALTY * np.eye(x.shape[1])
            found[:, slot] = np.linalg.solve(inside, x.T @ (weight * rows.y[:, slot]))
            squares = np.square(rows.y[:, slot] - x @ found[:, slot]) + rows.spread[:, slot]
            total = (weight * squares).sum(axis=0) / weight.sum()
            variance[slot] = np.maximum(total - problem.floor[slot], SMALLEST)
        flat = found.reshape(len(found), -1)
        return Line(flat[:-1], flat[-1], variance)

    def outputs(self, member: Line, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        mean = (problem.rows.x @ member.weight + member.bias).reshape(problem.rows.y.shape)
        return mean, np.broadcast_to(member.variance + problem.floor, mean.shape)

    def predictor(self, members: Sequence[Line], scaling: Scaling) -> LinearPredictor:
        (inputs,), shape, outputs = scaling.x_mean.shape, scaling.y_mean.shape, scaling.y_mean.size
        parts = (
            np.stack([one.weight[:inputs, :outputs] for one in members]),
            np.stack([one.bias[:outputs] for one in members]),
            np.stack([one.variance[: shape[0]] for one in members]),
            *(scaling.x_mean, scaling.x_scale, scaling.y_mean, scaling.y_scale),
        )
        return LinearPredictor(*(jax.device_put(part.astype(np.float32)) for part in parts))

    def members(self, predictor: LinearPredictor, capacity: Capacity) -> list[Line]:
        found, (_, inputs, outputs) = [], predictor.weight.shape
        for weight, bias, variance in zip(predictor.weight, predictor.bias, predictor.variance, strict=True):
            one = self.init(Training(), capacity, (inputs, outputs), np.random.default_rng(0))
            one.weight[:inputs, :outputs], one.bias[:outputs] = weight, bias
            one.variance[: len(variance)] = variance
            found.append(one)
        return found


register_predictor(NAME, LinearPredictor)
register_family(NAME, RidgeFamily())
SHELL = toy.true_shell(2)


def preset() -> Preset:
    """All that the preset `default` does, with the family in the place of its networks."""
    base = PRESETS["shared"]
    training = Training(family=NAME, outliers=True)
    final = dataclasses.replace(training, members=5, copula=True, most_held_out=50)
    return dataclasses.replace(base, name="ridge", training=training, final=final)


@functools.cache
def queue(samples: int = 300, seed: int = 0) -> spare.Experience:
    return toy.generate(samples, seed, followers=2)


@functools.cache
def result() -> FitResult:
    return fit(toy.domain, queue(), seed=0, preset=preset())


def test_the_true_list_is_found_and_held_out_likelihood_is_the_true_one() -> None:
    assert searches(result())[0].best.gamma == SHELL
    model, held_out = result().model, queue(400, 99)
    predictor = model.rules[0].predictor
    assert isinstance(predictor, LinearPredictor)
    assert predictor.members == 5
    gap = toy.true_model(2).log_prob(held_out).mean() - model.log_prob(held_out).mean()
    assert -0.05 < gap < 0.25
    assert model.sample(held_out, 0).shape == held_out.values.shape


def test_it_is_asked_which_inputs_matter() -> None:
    """How far everyone goes depends on d; nothing depends on how heavy they are."""
    rule = result().model.rules[0]
    assert "d" in rule.input_names
    assert {"target.mass", "mean(b1).mass", "mean(b2).mass"} <= {*rule.spec.features.dropped}


def test_a_file_brings_it_back_bit_for_bit(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the class that reads it is known; elsewhere the file is refused with what to do."""
    model, data = result().model, queue(50, 3)
    model.save(tmp_path / "m.spare")
    again = spare.load(tmp_path / "m.spare", model.domain)
    np.testing.assert_array_equal(model.log_prob(data), again.log_prob(data))
    np.testing.assert_array_equal(model.sample(data, 1), again.sample(data, 1))
    assert str(again) == str(model)
    monkeypatch.delitem(PREDICTORS, NAME)
    with pytest.raises(spare.FileError, match=r"ridge.*import the package that registers it"):
        spare.load(tmp_path / "m.spare", model.domain)


class StopError(Exception):
    """In the middle of a run."""


class Stops:
    """A listener that ends a run after its second candidate."""

    def __init__(self) -> None:
        self.heard = 0

    def candidate_done(self, explored: object) -> None:
        self.heard += 1
        if self.heard == 2:
            raise StopError

    def round_started(self, number: int, candidates: int) -> None: ...

    def round_ended(self, number: int, round_: object) -> None: ...

    def step_started(self, text: str) -> None: ...

    def step_ended(self, outcome: str, seconds: float) -> None: ...


def test_a_resumed_run_gives_the_same_model(tmp_path: pathlib.Path) -> None:
    cache = open_run(tmp_path / "run", {})
    with pytest.raises(StopError):
        fit(toy.domain, queue(), seed=0, preset=preset(), cache=cache, listener=lambda _: Stops())
    kept = len(cache)
    assert kept > 0
    cache.close(finished=False)
    cache = open_run(tmp_path / "run", {})
    resumed = fit(toy.domain, queue(), seed=0, preset=preset(), cache=cache)
    assert cache.reused >= kept
    assert len(cache) > kept
    cache.close(finished=True)
    for rule, other in zip(resumed.model.rules, result().model.rules, strict=True):
        assert rule.spec == other.spec
        for name, array in rule.pack()[1].items():
            assert array.tobytes() == other.pack()[1][name].tobytes()
    np.testing.assert_array_equal(resumed.model.log_prob(queue()), result().model.log_prob(queue()))


def test_what_was_trained_is_what_the_rule_says() -> None:
    """Padded, cut, padded again: one density."""
    one = dataclasses.replace(preset(), training=Training(family=NAME))
    fitted, dataset, plan = fit_shell(queue(), SHELL, one, longest=4)
    assert plan.capacity.slots > SHELL.slots
    model = spare.Model(toy.domain, [fitted.rule(dataset)], np.ones(2))
    applies = fitted.matrix.applies
    np.testing.assert_allclose(fitted.log_prob[applies], model.log_prob(queue())[applies], rtol=1e-4, atol=1e-3)
    family = find_family(NAME)
    problem = member_problem(dataset, fitted.matrix, plan, fitted.scaling, 0)
    (member,) = family.members(fitted.predictor, plan.capacity)
    again = family.predictor([member], fitted.scaling)
    for name, array in again.arrays().items():
        np.testing.assert_array_equal(array, fitted.predictor.arrays()[name])
    mean, variance = family.outputs(member, problem)
    assert mean.shape == variance.shape == problem.rows.y.shape


def test_several_rules_are_learned_with_it() -> None:
    """EM trains again from earlier members; this family starts anew, and finds the same."""
    acts = many_worlds.WORLDS["two"]
    data, _ = many_worlds.generate(acts, 300, seed=3)
    chosen = dataclasses.replace(preset(), final=None)
    found = fit(many_worlds.domain, data, seed=0, preset=chosen, rules=Mixing(2), max_references=1)
    (many,) = found.history
    assert isinstance(many, ManyResult)
    assert {share.shell for share in many.shares} == {act.shell for act in acts}
    held_out, _ = many_worlds.generate(acts, 200, seed=4)
    gap = many_worlds.true_model(acts).log_prob(held_out).mean() - found.model.log_prob(held_out).mean()
    assert gap < 1.0


def test_names_belong_to_one_family() -> None:
    register_family(NAME, FAMILIES[NAME])
    with pytest.raises(spare.DefinitionError, match="'ridge' is registered already"):
        register_family(NAME, RidgeFamily())
    with pytest.raises(spare.DefinitionError, match="'ridge' is registered already"):
        register_predictor(NAME, spare.Predictor)
    register_predictor(NAME, LinearPredictor)
    with pytest.raises(spare.DefinitionError, match=r"unknown family 'spline'.*networks, residual"):
        fit(toy.domain, queue(), seed=0, preset=dataclasses.replace(preset(), training=Training(family="spline")))


def test_a_predictor_of_an_unknown_class_cannot_be_saved(tmp_path: pathlib.Path) -> None:
    class Stranger(LinearPredictor):
        pass

    rule = result().model.rules[0]
    parts = [getattr(rule.predictor, field.name) for field in dataclasses.fields(LinearPredictor)]
    model = spare.Model(toy.domain, [spare.Rule(toy.domain, rule.spec, Stranger(*parts), np.ones(2))], np.ones(2))
    with pytest.raises(spare.FileError, match="Stranger cannot be saved; see register_predictor"):
        model.save(tmp_path / "m.spare")
