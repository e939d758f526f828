"""Learning in worlds with types: nobody is scored on what its type does not have; what is not learned is said."""

from __future__ import annotations

import dataclasses
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.errors import FitError
from spare.learning.presets import Heads, Schedule, find_preset
from spare.model.heads import Said
from tests.house import PUT, domain, state

QUICK = dataclasses.replace(
    find_preset("default"), heads=Heads(search=Schedule(steps=300), final=Schedule(steps=400), members=2)
)
CARTS = spare.Domain(
    "carts",
    types=[
        spare.Type("cart", [spare.Property("x", resolution=0.01), spare.Property("mass", static=True)]),
        spare.Type("wall", [spare.Property("height", resolution=0.01)]),
    ],
    actions=[spare.Action("push", objects={"cart": "cart"}, parameters=(spare.Parameter("hard", spare.Boolean()),))],
)


def carts(count: int, seed: int) -> tuple[spare.Experience, np.ndarray]:
    """A push moves a cart by 0.5 or 1 over its mass; walls sink by 0.1. Everything else stays; nats of the truth."""
    rng, builder, truth = np.random.default_rng(seed), spare.Builder(CARTS), []
    for _ in range(count):
        before = {f"c{k}": {"type": "cart", "x": rng.uniform(0, 5), "mass": rng.uniform(1, 2)} for k in range(2)}
        before |= {f"w{k}": {"type": "wall", "height": rng.uniform(0, 3)} for k in range(int(rng.integers(1, 3)))}
        after = {one: dict(facts) for one, facts in before.items()}
        hard, noise = bool(rng.random() < 0.5), 0.03 * rng.standard_normal(len(before) - 1)
        after["c0"]["x"] += (1.0 if hard else 0.5) / before["c0"]["mass"] + noise[0]
        for k, one in enumerate(one for one in after if one.startswith("w")):
            after[one]["height"] += -0.1 + noise[k + 1]
        variance = 0.03**2 + 0.01**2
        noisy = -0.5 * (np.square(noise) / variance + np.log(2 * np.pi * variance)).sum()
        truth.append(noisy - np.log(0.01) - 0.5 * np.log(2 * np.pi))  # the other cart stays
        builder.add(before, spare.ActionCall("push", ("c0",), (hard,)), after)
    return builder.build(), np.array(truth)


def test_what_an_object_does_not_have_has_no_density() -> None:
    shape = (2, 3, 2)
    said = Said(jnp.zeros((2, 3)), jnp.ones(shape), jnp.full(shape, 0.5), jnp.full(shape, 2.0), jnp.log(0.1))
    y, held = jnp.array([[0.3, 7.0], [0.1, 0.2]]), jnp.array([[True, False], [True, True]])
    heard = said.hiding(held, y)
    narrow, wide = heard.log_parts(y)
    alone = -0.5 * (jnp.square(0.7) / 0.5 + jnp.log(0.5) + jnp.log(2 * jnp.pi))
    np.testing.assert_allclose(narrow[0], alone, rtol=1e-5)
    np.testing.assert_allclose(heard.log_values(y, jnp.zeros((2, 3)))[0, 1], jnp.log(3), atol=1e-5)  # of 3 weights of 1
    np.testing.assert_allclose(said.log_parts(y)[1][1], wide[1])


@pytest.mark.slow
def test_types_with_other_properties_are_learned_together(tmp_path: pathlib.Path) -> None:
    (train, _), (test, truth) = carts(120, 0), carts(100, 1)
    result = spare.fit(CARTS, train, seed=0, preset=QUICK, threads=2)
    model = result.model
    values = model.log_prob_values(test)
    assert not values[~test.held[:, list(CARTS.dynamic)]].any()
    assert model.log_prob(test).mean() > truth.mean() - 0.4  # over four or five values
    mean, std = model.moments(test)
    lacks = ~test.held
    assert not mean[lacks].any()
    assert not std[lacks].any()
    assert not model.sample(test, 0)[lacks].any()
    model.save(tmp_path / "carts.spare")
    assert spare.load(tmp_path / "carts.spare", CARTS) == model
    assert "push(cart)" in str(model)


def test_what_cannot_be_learned_yet_is_said() -> None:
    data = spare.Builder(domain).add(state(), PUT, state()).build()
    with pytest.raises(FitError, match="property 'on' is a link that can change, and no rule predicts those yet"):
        spare.fit(domain, data, seed=0)
