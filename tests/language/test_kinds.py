"""Properties that come round again: angles in data, in networks' inputs, in frames, in files, and learned."""

from __future__ import annotations

import dataclasses
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spare
from spare.lab.baselines.flat import PETS, fit_flat
from spare.lab.baselines.graph import GraphSettings, fit_graph
from spare.lab.baselines.graph_data import encoded
from spare.language.frames import FrameColumns, FramePose, from_frame, mirrored, to_frame
from spare.language.kinds import wrapped
from spare.language.properties import encoded_names, nearest_images
from spare.learning.fit import make_dataset
from spare.learning.presets import PRESETS
from spare.testing import check_domain, check_model
from tests.learning.helpers import quick
from tests.rules import fresh_predictor, make_rule

TURN = 2 * math.pi
NOISE = 0.05


def world(period: float | None = TURN) -> spare.Domain:
    """Things that lie somewhere, turned somehow; a push turns the target by how it lies to the push, and moves it."""
    frame = spare.Frame(
        origin=lambda target, a: (target.x, target.y),
        heading=lambda target, a: a.towards,
        positions=(("x", "y"),),
        mirror=True,
        angles=("yaw",) if period else (),
    )
    return spare.Domain(
        "vanes",
        properties=[
            spare.Property("x", unit="m", resolution=1e-3),
            spare.Property("y", unit="m", resolution=1e-3),
            spare.Property("yaw", unit="rad", resolution=1e-3, period=period),
        ],
        references=[spare.Reference.closest("nearest", lambda o, p: (o.x - p.x) ** 2 + (o.y - p.y) ** 2)],
        actions=[spare.Action("push", objects=("target",), parameters=("towards",), frame=frame)],
    )


def vanes(domain: spare.Domain, count: int, seed: int) -> spare.Experience:
    """The target turns by 0.8 sin(2 (heading - yaw)), towards the line of the push, and moves 0.1 along it."""
    rng, builder = np.random.default_rng(seed), spare.Builder(domain)
    for _ in range(count):
        size = int(rng.integers(2, 5))
        before = np.column_stack([rng.uniform(-1, 1, (size, 2)), rng.uniform(-math.pi, math.pi, size)])
        towards, after = rng.uniform(-math.pi, math.pi), before.copy()
        after[0, :2] += 0.1 * np.array([math.cos(towards), math.sin(towards)]) + 0.002 * rng.standard_normal(2)
        after[0, 2] += 0.8 * math.sin(2 * (towards - before[0, 2])) + NOISE * rng.standard_normal()
        after[:, 2] = (after[:, 2] + math.pi) % TURN - math.pi
        call = spare.ActionCall("push", (0,), (towards,))
        builder.add(spare.State(range(size), before), call, spare.State(range(size), after))
    return builder.build()


@given(st.floats(-1e3, 1e3), st.sampled_from([1.0, 3.0, TURN, 360.0]))
def test_wrapped(difference: float, period: float) -> None:
    left = wrapped(difference, period)
    assert abs(left) <= period / 2 * (1 + 1e-9)
    whole = (difference - left) / period
    assert abs(whole - round(whole)) < 1e-9
    np.testing.assert_allclose(wrapped(jnp.asarray(difference), period), left, atol=1e-3)


def test_a_next_state_is_the_nearest_image() -> None:
    domain = world()
    before = np.array([[0.0, 0.0, 3.0], [9.0, 0.0, -3.0], [0.0, 0.0, 0.5]], np.float32)
    after = np.array([[0.0, 0.0, -3.1], [0.0, 0.0, 3.0], [0.0, 0.0, 0.6]], np.float32)
    found = nearest_images(domain.properties, before, after)
    np.testing.assert_allclose(found[:, 2], [TURN - 3.1, 3.0 - TURN, 0.6], atol=1e-6)
    np.testing.assert_array_equal(found[:, :2], after[:, :2])  # positions do not come round
    assert found[2, 2] == after[2, 2]  # what is near already keeps its bits
    assert nearest_images(domain.properties, before, before) is before


def test_data_are_kept_as_nearest_images(tmp_path: pathlib.Path) -> None:
    data = vanes(world(), 200, 0)
    change = data.next_values[:, 2] - data.values[:, 2]
    assert np.abs(change).max() < 1.1  # 0.8 and noise; without a period it is almost 2 pi
    assert np.abs(np.ptp(vanes(world(None), 200, 0).next_values[:, 2])) > 6
    data.save(tmp_path / "vanes.parquet")
    again = spare.Experience.load(tmp_path / "vanes.parquet", world())
    np.testing.assert_array_equal(again.next_values, data.next_values)
    assert again.fingerprint == data.fingerprint
    with pytest.raises(spare.SpareError, match="yaw"):
        spare.Experience.load(tmp_path / "vanes.parquet", world(None))


def test_a_network_sees_the_same_after_whole_periods() -> None:
    domain, rng = world(), np.random.default_rng(0)
    values = rng.uniform(-3, 3, (20, 3))
    turned = values + np.array([0, 0, TURN]) * rng.integers(-3, 4, (20, 1))
    names = encoded_names(domain.properties)
    assert names == ("x", "y", "cos(yaw)", "sin(yaw)")
    names = domain.property_names
    np.testing.assert_allclose(encoded(domain, names, values), encoded(domain, names, turned))
    np.testing.assert_allclose(
        encoded(domain, ("yaw", "x"), values), np.stack([np.cos(values[:, 2]), np.sin(values[:, 2]), values[:, 0]], 1)
    )


@given(st.floats(-3, 3), st.floats(-2, 2), st.floats(-2, 2))
def test_angles_enter_and_leave_a_frame(heading: float, x: float, y: float) -> None:
    columns, placed = FrameColumns(((0, 1),), (), ((2,),)), FramePose(np.array([x, y, 0.0]), np.array(heading))
    values = np.array([0.3, -0.7, 1.1])
    inside = to_frame(values, columns, placed)
    assert inside[2] == pytest.approx(1.1 - heading)
    np.testing.assert_allclose(from_frame(inside, columns, placed), values, atol=1e-9)
    direction = to_frame(np.array([x + math.cos(1.1), y + math.sin(1.1), 0.0]), columns, placed)[:2]
    np.testing.assert_allclose(direction, [math.cos(inside[2]), math.sin(inside[2])], atol=1e-9)
    mirror = mirrored(np.array([*direction, inside[2]]), columns)
    np.testing.assert_allclose(mirror[:2], [math.cos(mirror[2]), math.sin(mirror[2])], atol=1e-9)


@pytest.mark.slow
def test_rule_and_dataset_see_the_same() -> None:
    data = vanes(world(), 40, 3)
    shell = spare.Shell(1).extend(spare.Pointer("nearest", (0,)))
    dataset = make_dataset(data, "push", PRESETS["shared"])
    table = dataset.matrix(shell, shell)
    phi = fresh_predictor(jax.random.key(0), table.x.shape[1], (2, 3))
    rule = make_rule(data.domain, "push", shell, phi, np.ones(3), targets="change", framed=True)
    assert rule.input_names == dataset.layout(shell).names
    model = spare.Model(data.domain, [rule], np.ones(3))
    for i in range(0, 40, 7):
        answer = model.predict(data.states[i], data.actions[i]).rules[0]
        np.testing.assert_allclose(answer.x, table.x[i], rtol=1e-4, atol=1e-5)


def learn(period: float | None) -> tuple[spare.Model, spare.Experience, float]:
    """(model of 600 transitions, 300 others, nats per yaw of their targets)."""
    domain = world(period)
    data = vanes(domain, 300, 2)
    chosen = quick(training={"hidden": (64, 64), "steps": 2000}, max_references=0)
    model = spare.fit(domain, vanes(domain, 600, 1), seed=0, preset=chosen).model
    target = data.offsets[:-1] + data.objects[:, 0]
    return model, data, float(model.log_prob_values(data)[target, 2].mean())


@pytest.mark.slow
def test_learned_from_few_and_equal_after_a_turn() -> None:
    """With a period the rule comes close to the truth; without one it cannot; a whole turn changes nothing."""
    learned, data, score = learn(TURN)
    truth = -0.5 * math.log(TURN * math.e * NOISE**2)
    assert score > truth - 0.15
    assert learn(None)[2] < score - 0.5
    turned = spare.Experience.from_arrays(
        data.domain,
        values=data.values + np.array([0, 0, TURN], np.float32),
        next_values=data.next_values,
        offsets=data.offsets,
        action=data.action,
        objects=data.objects,
        parameters=data.parameters,
    )
    np.testing.assert_allclose(learned.log_prob(turned), learned.log_prob(data), atol=0.05)
    check_model(learned, data[:60]).require()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flat", "graph"])
def test_baselines_know_periods(kind: str) -> None:
    data = vanes(world(), 60, 5)
    data = data[np.flatnonzero(data.counts == 3)]
    if kind == "flat":
        training = dataclasses.replace(PETS.training, steps=50, members=1)
        settings = dataclasses.replace(PETS, training=training)
        model = fit_flat(data.domain, data, seed=0, settings=settings)
    else:
        model = fit_graph(data.domain, data, seed=0, settings=GraphSettings(framed=True, steps=50))
    shifted = spare.State(data.states[0].ids, data.states[0].values + np.array([0, 0, TURN], np.float32))
    here, there = (model.predict(state, data.actions[0]).mean for state in (data.states[0], shifted))
    np.testing.assert_allclose(there - here, np.broadcast_to([0, 0, TURN], here.shape), atol=1e-3)


def test_model_file(tmp_path: pathlib.Path) -> None:
    domain = world()
    phi = fresh_predictor(jax.random.key(0), 1 + 8 + 4, (1, 3))
    rule = make_rule(domain, "push", spare.Shell(1), phi, np.ones(3), framed=True)
    assert rule.spec.targets == ("absolute", "absolute", "change")
    spare.Model(domain, [rule], np.ones(3)).save(tmp_path / "vanes.spare")
    again = spare.load(tmp_path / "vanes.spare", domain=domain)
    assert again.rules[0].spec.targets == rule.spec.targets
    with pytest.raises(spare.SpareError, match="yaw"):
        spare.load(tmp_path / "vanes.spare", domain=world(None))


@pytest.mark.parametrize("period", [0.0, -1.0, math.inf, math.nan])
def test_a_period_is_a_positive_number(period: float) -> None:
    with pytest.raises(spare.DefinitionError, match="period"):
        spare.Property("yaw", period=period)


def test_periodic_properties_are_predicted_as_changes() -> None:
    domain, phi = world(), fresh_predictor(jax.random.key(0), 1 + 4, (1, 3))
    with pytest.raises(spare.DefinitionError, match="yaw"):
        make_rule(domain, "push", spare.Shell(1), phi, np.ones(3), targets=("change", "change", "absolute"))


def test_angles_of_a_frame_are_in_radians() -> None:
    with pytest.raises(spare.DefinitionError, match="2 pi"):
        world(360.0)


def test_a_forgotten_period_is_noticed() -> None:
    findings = check_domain(world(None), vanes(world(None), 300, 1)).findings
    assert any("period=6.28319" in one.advice for one in findings)
    assert not any("period" in one.advice for one in check_domain(world(), vanes(world(), 300, 1)).findings)
