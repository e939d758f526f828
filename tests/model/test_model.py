"""Rules and models: checks at construction, what they print, and what a prediction explains."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.lab.worlds import queue as toy
from spare.model.model import TransitionModel
from spare.model.predictors import bounded_variance
from tests.rules import fresh_predictor, make_rule

QUEUE = np.array([[3.0, 0.0, 60.0], [2.0, 0.0, 70.0], [1.0, 0.0, 80.0], [0.0, 6.0, 90.0]], np.float32)
STATE = spare.State(("ann", "bob", "cy", "dee"), QUEUE)
CALL = spare.ActionCall("usher", ("ann",), (0.5,))


@pytest.fixture(scope="module")
def model() -> spare.Model:
    """The true rule, and one that looks at nothing but its target."""
    true = toy.true_model().rules[0]
    weight = np.zeros((4, 2))
    weight[0, 0] = weight[1, 0] = weight[2, 1] = 1.0
    short = spare.linear_predictor(jnp.asarray(weight), jnp.zeros(2), jnp.full((1, 2), 1e-4))
    simple = make_rule(toy.domain, "usher", spare.Shell(1), short, np.full(2, 1e-4))
    return spare.Model(toy.domain, [simple, true], np.full(2, 1e-4))


def test_a_prediction_explains_itself(model: spare.Model) -> None:
    prediction = model.predict(STATE, CALL)
    text = prediction.explain()
    for line in (
        "usher(ann; d=0.5)",
        "rule 2 fires: usher(target): behind(target) -> b1, behind(b1) -> b2",
        "  looks at target = {ann}",
        "  looks at b1 = {bob}",
        "  looks at b2 = {cy}",
        "expected: 3 of 4 objects change",
        "  ann: x 3 -> 3.5 ± 0.02, y 0 -> 0 ± 0.01",
        "  bob: x 2 -> 2.4 ± 0.03, y 0 -> 0 ± 0.015",
        "expected to stay (x ± 0.004, y ± 0.004): {dee}",
        "rule 1 applies with a lower score (1) and would predict:",
        "  ann: x 3.5 ± 0.01, y 0 ± 0.01",
    ):
        assert line in text.splitlines(), text
    assert "inputs: d=0.5, target.x=3, target.y=0, target.mass=60, mean(b1).x=2" in text
    assert prediction.predicted.tolist() == [True, True, True, False]
    np.testing.assert_allclose(prediction.mean[:, 0], [3.5, 2.4, 1.3, 0.0], rtol=1e-5)
    np.testing.assert_array_equal(prediction.mean[:, 2], QUEUE[:, 2])
    after = spare.State(("dee", "cy", "bob", "ann"), QUEUE[::-1] + np.array([0.54, 0, 0], np.float32))
    assert "x 3 -> 3.5 ± 0.02 (observed 3.54, +2.0 sd)" in prediction.explain(after)


def test_a_prediction_tells_when_nothing_applies_and_when_rules_tie(model: spare.Model) -> None:
    lonely = spare.State(("dee",), QUEUE[3:])
    call = spare.ActionCall("usher", ("dee",), (0.5,))
    none = spare.Model(toy.domain, model.rules[1:], model.noise).predict(lonely, call).explain()
    assert "no rule applies: everything is expected to stay" in none
    assert "rule 1 does not apply" in none
    assert "expected to stay (x ± 0.01, y ± 0.01): {dee}" in none
    assert "rule 1 fires" in model.predict(lonely, call).explain()
    assert "rule 2 does not apply: usher(target): behind(target)" in model.predict(lonely, call).explain()
    twice = spare.Model(toy.domain, [model.rules[0]] * 2, model.noise).predict(lonely, call).explain()
    assert "2 rules tie; the prediction is their equal mixture" in twice


def test_explaining_beside_another_state_is_refused(model: spare.Model) -> None:
    with pytest.raises(spare.DataError, match="ann"):
        model.predict(STATE, CALL).explain(spare.State(("dee",), QUEUE[3:]))


def test_a_model_prints_as_rules(model: spare.Model) -> None:
    assert str(model).splitlines() == [
        "queue: 2 rules",
        "rule 1  usher(target): -",
        "    predicts x, y of target from 4 inputs",
        "    everything else stays: x ± 0.01, y ± 0.01",
        "rule 2  usher(target): behind(target) -> b1, behind(b1) -> b2",
        "    predicts x, y of target, b1, b2 from 10 inputs",
        "    everything else stays: x ± 0.004, y ± 0.004",
        "no rule applies: everything stays: x ± 0.01, y ± 0.01",
    ]
    assert isinstance(model, TransitionModel)


def test_rules_are_checked_at_construction() -> None:
    rule: Any = toy.true_model().rules[0]

    def make(**changes: Any) -> spare.Rule:
        parts = {
            "action": "usher",
            "shells": rule.gamma,
            "predictor": rule.predictor,
            "variance": np.ones(2),
            **changes,
        }
        rest = {k: parts.pop(k) for k in ("targets", "inputs") if k in parts}
        return make_rule(toy.domain, parts["action"], parts["shells"], parts["predictor"], parts["variance"], **rest)

    assert make().score == 5
    assert make(shells=(rule.gamma, rule.delta)).show() == rule.show()
    assert make(targets=("change", "absolute")).spec.targets == ("change", "absolute")
    for changes, message in (
        ({"action": "shove"}, "unknown action 'shove'; valid: usher"),
        ({"shells": spare.Shell(2)}, "has 1 objects, the shell was made for 2"),
        ({"shells": spare.Shell(1, (spare.Pointer("ahaed", (0,)),))}, "unknown reference 'ahaed'; valid: behind"),
        ({"shells": spare.Shell(1)}, "the predictor does not take the 4 inputs"),
        ({"shells": (rule.gamma, spare.Shell(1))}, r"outputs of shape \(3, 2\), the rule needs \(1 slots, 2"),
        ({"variance": np.ones(3)}, r"default variance: 2 values are needed"),
        ({"variance": np.array([1.0, -1.0])}, "default variance"),
        ({"variance": np.array([1.0, np.nan])}, "default variance"),
        ({"targets": "relative"}, "unknown target 'relative'; valid: absolute, change"),
        ({"targets": ("change",)}, "'absolute' or 'change'"),
        ({"inputs": ("x", "z")}, "unknown property 'z'"),
    ):
        with pytest.raises(spare.DefinitionError, match=message):
            make(**changes)


def test_models_are_checked_at_construction(tray: spare.Domain) -> None:
    rule = toy.true_model().rules[0]
    with pytest.raises(spare.DefinitionError, match="rule 0 belongs to Domain"):
        spare.Model(tray, [rule], np.ones(2))
    for wrong in (np.ones(3), np.array([0.1, -0.1]), np.array([np.inf, 1.0])):
        with pytest.raises(spare.DefinitionError, match="default variance"):
            spare.Model(toy.domain, [rule], wrong)
    unresolved = spare.Domain("d", properties=[spare.Property("x")], references=[], actions=tray.actions)
    with pytest.raises(spare.DefinitionError, match="no resolution for x"):
        spare.Model(unresolved, [], np.ones(1))
    with pytest.raises(spare.DataError, match="the model knows"):
        spare.Model(tray, [], np.ones(2)).log_prob(toy.generate(1, 0))


def test_linear_predictors_are_exact_or_refused() -> None:
    with jax.enable_x64(True):
        variance = jnp.array([[1e-6, 1e-3, 1.0, 50.0, 1000.0]])
        weight = jnp.arange(10.0).reshape(2, 5)
        found = spare.linear_predictor(weight, jnp.ones(5), variance)(jnp.array([0.5, -1.0]))
        np.testing.assert_allclose(found.location[0, 0], jnp.array([0.5, -1.0]) @ weight + 1, rtol=1e-12)
        np.testing.assert_allclose(found.variance[0], variance, rtol=1e-9)
    for wrong in (0.0, 1e-9, 1e4, -1.0):
        with pytest.raises(spare.DefinitionError, match="variance"):
            spare.linear_predictor(jnp.zeros((2, 1)), jnp.zeros(1), jnp.full((1, 1), wrong))


@pytest.mark.slow
def test_fresh_predictors_start_as_documented() -> None:
    predictor = fresh_predictor(jax.random.key(0), 4, (2, 3), hidden=(5,), members=3)
    found = predictor(jnp.ones(4))
    assert (predictor.members, found.location.shape, found.variance.shape) == (3, (3, 2, 3), (3, 2, 3))
    np.testing.assert_allclose(jnp.exp(found.log_weight).sum(), 1.0, rtol=1e-6)
    for weight, limit in zip(predictor.mean_net.weights, (np.sqrt(6 / 9), np.sqrt(6 / 11)), strict=True):
        assert float(jnp.abs(weight).max()) <= limit
        assert float(jnp.abs(weight).max()) > limit / 2
    assert not any(bias.any() for bias in predictor.mean_net.biases)
    raw = jnp.array([-1e6, -100.0, -5.0, 0.0, 5.0, 100.0, 1e6])
    found = bounded_variance(raw)
    assert bool(jnp.all((found >= np.exp(-18)) & (found <= np.exp(8) + 1e-3)))
    assert bool(jnp.all(jnp.diff(found) >= 0))
    softened = 8 - jax.nn.softplus(8 - raw)
    np.testing.assert_allclose(found, jnp.exp(-18 + jax.nn.softplus(softened + 18)), rtol=1e-5)
    assert bool(jnp.isfinite(jax.vmap(jax.grad(bounded_variance))(raw)).all())


def test_only_outliers_that_stand_out_are_shown() -> None:
    rule = toy.true_model().rules[0]
    spread = np.sqrt(np.asarray(rule.noise.resolved(rule.domain.resolutions).variance))
    wide = np.square([20 * spread[0], 1.1 * spread[1]])
    noise = spare.DefaultNoise(rule.noise.variance, np.array([0.01, 0.5]), wide)
    text = str(spare.Model(rule.domain, [spare.Rule(rule.domain, rule.spec, rule.predictor, noise)], np.ones(2)))
    names = rule.domain.dynamic_names
    assert f"with outliers: {names[0]} ±" in text
    assert "(1.00%)" in text
    assert f"{names[1]} ±" not in next(line for line in text.splitlines() if "with outliers" in line)
