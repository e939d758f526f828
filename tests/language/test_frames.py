"""Rules in the action's frame: moving and turning the world changes nothing; learned rules keep what they promise."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spare
from spare.lab.worlds import push
from spare.language.frames import (
    QUARTER,
    FrameColumns,
    FramePose,
    from_frame,
    harmonic_names,
    harmonics,
    mirrored,
    quarters,
    swapped,
    to_frame,
    variances_from_frame,
)
from spare.learning.fit import make_dataset
from spare.learning.presets import PRESETS
from spare.testing import check_domain
from tests.learning.helpers import quick
from tests.rules import make_rule

angles = st.floats(-3.2, 3.2)
places = st.floats(-5, 5)
PLANE = FrameColumns(((0, 1),), (), ())

domain = spare.Domain(
    "slide",
    properties=[
        spare.Property("x", resolution=1e-2),
        spare.Property("y", resolution=1e-2),
        spare.Property("size", static=True),
    ],
    references=[spare.Reference.closest("nearest", lambda o, p: (o.x - p.x) ** 2 + (o.y - p.y) ** 2)],
    actions=[
        spare.Action(
            "shove",
            objects=("target",),
            parameters=("xg", "yg", "d"),
            frame=spare.Frame(
                origin=lambda target, a: (target.x, target.y),
                heading=lambda target, a: jnp.arctan2(target.y - a.yg, target.x - a.xg),
                positions=(("x", "y"), ("xg", "yg")),
                mirror=True,
            ),
        )
    ],
)


def _world(samples: int, seed: int, turn: float = 0.0) -> spare.Experience:
    """The target slides along the push by 0.9 d, with more noise along than across; others rest."""
    rng = np.random.default_rng(seed)
    target = rng.uniform(-1, 1, (samples, 2))
    angle = rng.uniform(-np.pi, np.pi, samples)
    along = np.stack([np.cos(angle), np.sin(angle)], 1)
    d = rng.uniform(0.1, 0.5, samples)
    gripper = target - 0.3 * along
    noise = 0.05 * rng.standard_normal((samples, 1)) * along
    noise += 0.01 * rng.standard_normal((samples, 1)) * along[:, ::-1] * [-1, 1]
    other = target + rng.uniform(1, 2, (samples, 2))
    values = np.stack([target, other], 1)
    after = np.stack([target + 0.9 * d[:, None] * along + noise, other], 1)
    c, s = np.cos(turn), np.sin(turn)
    rotation = np.array([[c, -s], [s, c]])
    size = np.full((samples, 2, 1), 0.1)

    def table(points: np.ndarray) -> np.ndarray:
        return np.concatenate([points @ rotation.T, size], 2).reshape(-1, 3)

    return spare.Experience.from_arrays(
        domain,
        values=table(values),
        next_values=table(after),
        offsets=np.arange(0, 2 * samples + 1, 2),
        action=np.zeros(samples, int),
        objects=np.zeros(samples, int),
        parameters=np.concatenate([gripper @ rotation.T, d[:, None]], 1),
    )


@given(places, places, angles, places, places)
def test_from_frame_undoes_to_frame(x: float, y: float, heading: float, a: float, b: float) -> None:
    placed = FramePose(np.array([a, b, 0.0]), np.array(heading))
    point = np.array([[x, y, 7.0]])
    inside = to_frame(point, PLANE, placed)
    assert np.allclose(from_frame(inside, PLANE, placed), point, atol=1e-9)
    assert np.hypot(*inside[0, :2]) == pytest.approx(np.hypot(x - a, y - b), abs=1e-9)
    assert inside[0, 2] == 7.0


def test_groups_take_the_columns_that_are_there() -> None:
    solid = spare.Frame("target", positions=(("x", "y", "z"),))
    assert solid.columns(("z", "y", "x")).positions == ((2, 1, 0),)
    assert solid.columns(("x", "y")).positions == ((0, 1),)
    assert solid.columns(("x", "mass")).positions == ()
    assert mirrored(np.array([[1.0, 2.0]]), PLANE).tolist() == [[1.0, -2.0]]


def test_the_heading_enters_with_its_multiples() -> None:
    """The same numbers on the host and traced, in the order of their names."""
    heading = np.array([0.3, -2.0])
    found = harmonics(heading)
    assert found.shape == (2, len(harmonic_names()))
    assert harmonic_names()[:4] == ("cos(heading)", "sin(heading)", "cos(2 heading)", "sin(2 heading)")
    assert np.allclose(found[:, 7], np.sin(4 * heading))
    assert np.allclose(harmonics(jnp.asarray(heading)), found, atol=1e-6)


def test_variances_turn_as_a_covariance_does() -> None:
    heading = 0.7
    c, s = np.cos(heading), np.sin(heading)
    rotation = np.array([[c, -s], [s, c]])
    expected = np.diag(rotation @ np.diag([0.5, 2.0]) @ rotation.T)
    found = variances_from_frame(jnp.array([0.5, 2.0]), PLANE, FramePose(jnp.zeros(3), jnp.array(heading)))
    assert np.allclose(found, expected, atol=1e-6)


def _framed_model() -> spare.Model:
    """x' = 0.9 d along the push, in the frame; deviations 0.05 along and 0.02 across."""
    inputs = 3 + len(harmonic_names()) + 3
    weight = jnp.zeros((inputs, 2)).at[2, 0].set(0.9)
    predictor = spare.linear_predictor(weight, jnp.zeros(2), jnp.array([[0.05**2, 0.02**2]]))
    rule = make_rule(domain, "shove", spare.Shell(1), predictor, np.zeros(2), targets="change", framed=True)
    return spare.Model(domain, [rule], np.zeros(2))


@pytest.mark.slow
@given(angles)
def test_turning_the_world_changes_no_likelihood(turn: float) -> None:
    model = _framed_model()
    straight, turned = _world(4, 0), _world(4, 0, turn)
    rows = np.arange(0, 8, 2)
    a, b = (model.log_prob_values(data)[rows].sum(axis=1) for data in (straight, turned))
    assert np.allclose(a, b, atol=2e-2)


def test_the_density_is_that_of_the_rotated_gaussian() -> None:
    model, data = _framed_model(), _world(20, 1)
    for i in range(20):
        state, after = data.states[i].values, data.next_states[i].values
        gx, gy, d = data.parameters[i].astype(float)
        direction = state[0, :2] - np.array([gx, gy])
        direction /= np.hypot(*direction)
        across = np.array([-direction[1], direction[0]])
        cov = (0.05**2 + 1e-4) * np.outer(direction, direction) + (0.02**2 + 1e-4) * np.outer(across, across)
        error = after[0, :2] - state[0, :2] - 0.9 * d * direction
        expected = -0.5 * (error @ np.linalg.solve(cov, error) + np.log(np.linalg.det(2 * np.pi * cov)))
        rest = -np.log(2 * np.pi * 1e-4) - 0.5 * np.square(after[1, :2] - state[1, :2]).sum() / 1e-4
        assert model.log_prob(data[i : i + 1])[0] == pytest.approx(expected + rest, abs=1e-3)


@pytest.mark.slow
def test_samples_and_moments_are_in_the_world() -> None:
    model, data = _framed_model(), _world(1, 2)
    draws = np.stack([model.sample(data, seed)[0, :2] for seed in range(400)])
    mean, std = model.moments(data)
    assert np.allclose(draws.mean(axis=0), mean[0, :2], atol=4 * 0.05 / 20)
    assert np.allclose(draws.std(axis=0), std[0, :2], rtol=0.2)


@pytest.mark.slow
def test_a_learned_rule_in_the_frame_needs_fewer_samples_and_survives_a_file(tmp_path) -> None:
    train, test = _world(60, 3), _world(200, 4)
    # One member, so that the search judges every sample by the very network that the model has.
    default = PRESETS["shared"]
    alone = dataclasses.replace(default, training=dataclasses.replace(default.training, members=1), final=None)
    framed = spare.fit(domain, train, seed=0, max_references=1, preset=alone, folds=1)
    plain = spare.fit(domain, train, seed=0, max_references=1, preset=dataclasses.replace(framed.preset, framed=False))
    assert framed.model.log_prob(test).mean() > plain.model.log_prob(test).mean() + 0.5
    search = framed.history[0]
    assert np.allclose(search.fitted[0].log_prob, framed.model.log_prob(train), atol=5e-3)  # type: ignore[union-attr]
    framed.model.save(tmp_path / "m.spare")
    assert np.array_equal(spare.load(tmp_path / "m.spare", domain).log_prob(test), framed.model.log_prob(test))
    assert "sin(heading)" in {*framed.model.rules[0].input_names, *framed.model.rules[0].spec.features.dropped}


def test_a_frame_is_needed() -> None:
    from spare.lab.worlds import queue as toy

    rule = toy.true_model().rules[0]
    with pytest.raises(spare.DefinitionError, match="no frame"):
        make_rule(toy.domain, "usher", rule.gamma, rule.predictor, np.zeros(2), framed=True)


def test_mirrored_training_doubles_rows_but_not_validation() -> None:
    from spare.learning.fit import Task, make_dataset
    from spare.learning.presets import find_preset
    from spare.learning.problems import with_reflection

    data, preset = _world(20, 0), find_preset("shared")
    dataset = make_dataset(data, "shove", preset)
    plan = Task(preset, 0).plan(data, dataset)
    table, (training, validation) = with_reflection(
        dataset, dataset.matrix(spare.Shell(1), spare.Shell(1)), (plan.training, plan.validation)
    )
    assert len(table.x) == 40
    assert training.sum() == 2 * plan.training.sum()
    assert validation.sum() == plan.validation.sum()
    assert np.allclose(table.y[20:, :, 1], -table.y[:20, :, 1])
    assert np.allclose(table.y[20:, :, 0], table.y[:20, :, 0])
    assert jax.numpy.isfinite(table.x).all()


def test_quarter_turns_are_taken_out_where_sizes_lie_along_the_axes() -> None:
    """A quarter turn of a scene, its boxes' sizes swapped, gives a predictor the same inputs."""
    values, heading = np.array([[1.0, 2.0, 5.0]]), np.array([0.2])
    turned = np.array([[2.0, 1.0, 5.0]])
    for more, seen in ((1, turned), (2, values), (-1, turned), (3, turned)):
        angle = heading + more * QUARTER
        assert np.allclose(swapped(seen, quarters(angle), ((0, 1),)), values)
        assert np.allclose(angle - QUARTER * quarters(angle), heading)
    assert np.allclose(swapped(jnp.asarray(turned), quarters(jnp.array([0.2 + QUARTER])), ((0, 1),)), values)


@pytest.mark.slow
def test_a_quarter_turn_of_pushed_boxes_changes_no_likelihood() -> None:
    """Through a whole rule, on real pushes: turn positions and gripper by 90 degrees, swap width and length."""
    data = push.generate(12, stack=2, extra=1, seed=3)
    rule = spare.fit(push.domain, data, seed=0, preset=quick(max_references=0)).model
    turned = [
        np.stack([-v[:, 1], v[:, 0], v[:, 2], v[:, 4], v[:, 3], v[:, 5]], axis=1).astype(np.float32)
        for v in (data.values, data.next_values)
    ]
    parameters = np.stack(
        [-data.parameters[:, 1], data.parameters[:, 0], data.parameters[:, 2], data.parameters[:, 3]], axis=1
    )
    other = spare.Experience.from_arrays(
        push.domain,
        values=turned[0],
        next_values=turned[1],
        offsets=data.offsets,
        action=data.action,
        objects=data.objects,
        parameters=parameters,
    )
    rows = data.offsets[:-1]  # the target, which the rule predicts, is listed first
    found, expected = (rule.log_prob_values(one)[rows].sum(axis=1) for one in (other, data))
    assert np.allclose(found, expected, atol=0.02)


# -- positions and directions ----------------------------------------------------------------------------------------


def vehicles(wrong: bool = False) -> spare.Domain:
    """Vehicles with velocities that are kicked along the way they go; `wrong` declares the velocity as a position."""
    groups: dict = {"positions": (("x", "y"),), "directions": (("vx", "vy"),)}
    groups = {"positions": (("x", "y"), ("vx", "vy"))} if wrong else groups
    return spare.Domain(
        "vehicles",
        properties=[spare.Property(name, resolution=1e-2) for name in ("x", "y", "vx", "vy")],
        references=[],
        actions=[
            spare.Action(
                "kick",
                ("car",),
                ("force",),
                spare.Frame("car", lambda car, a: jnp.arctan2(car.vy, car.vx), mirror=True, **groups),
            )
        ],
    )


def kicked(domain: spare.Domain, samples: int, seed: int) -> spare.Experience:
    """A kick multiplies the speed by 1 + `force`; the car then drives for a tenth of a second."""
    rng = np.random.default_rng(seed)
    place, speed = rng.uniform(-50, 50, (samples, 2)), rng.uniform(1, 3, samples)
    heading, force = rng.uniform(-np.pi, np.pi, samples), rng.uniform(0.5, 2, samples)
    along = np.stack([np.cos(heading), np.sin(heading)], 1)
    velocity = along * (speed * (1 + force))[:, None] + 0.05 * rng.standard_normal((samples, 2))
    after = place + 0.1 * velocity + 0.01 * rng.standard_normal((samples, 2))
    return spare.Experience.from_arrays(
        domain,
        values=np.concatenate([place, along * speed[:, None]], 1),
        next_values=np.concatenate([after, velocity], 1),
        offsets=np.arange(samples + 1),
        action=np.zeros(samples, int),
        objects=np.zeros((samples, 1), int),
        parameters=force[:, None],
    )


def test_directions_turn_and_never_shift() -> None:
    columns = vehicles().actions[0].frame.columns(("x", "y", "vx", "vy"))  # type: ignore[union-attr]
    pose = FramePose(np.array([10.0, 20.0, 0.0]), np.array(np.pi / 2))
    inside = to_frame(np.array([10.0, 21.0, 0.0, 2.0]), columns, pose)
    np.testing.assert_allclose(inside, [1.0, 0.0, 2.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(from_frame(inside, columns, pose), [10.0, 21.0, 0.0, 2.0], atol=1e-12)
    np.testing.assert_allclose(mirrored(np.array([1.0, 2.0, 3.0, 4.0]), columns), [1.0, -2.0, 3.0, -4.0])
    spread = variances_from_frame(np.array([1.0, 4.0, 9.0, 16.0]), columns, pose)
    np.testing.assert_allclose(spread, [4.0, 1.0, 16.0, 9.0], atol=1e-12)


@pytest.mark.slow
def test_a_velocity_declared_as_a_direction_is_learned_better_and_the_mistake_is_noticed() -> None:
    scores = {}
    for wrong in (False, True):
        domain = vehicles(wrong)
        chosen = quick(training={"hidden": (32, 32), "steps": 1500}, max_references=0)
        model = spare.fit(domain, kicked(domain, 80, 0), seed=0, preset=chosen).model
        test = kicked(domain, 200, 1)
        scores[wrong] = float(model.log_prob_values(test).mean())
        advice = [one.advice for one in check_domain(domain, kicked(domain, 80, 0)).findings]
        assert any("directions" in one for one in advice) == wrong
    assert scores[False] > scores[True] + 0.5, scores


@pytest.mark.slow
def test_a_frame_that_only_shifts_is_one_word() -> None:
    """Its origin is at the object of that role; there is no heading, and none among the inputs."""
    shifted = spare.Domain(
        "slide",
        properties=domain.properties,
        references=domain.references,
        actions=[spare.Action("shove", ("target",), ("xg", "yg", "d"), spare.Frame("target", positions=(("x", "y"),)))],
    )
    data = _world(30, 0)
    offset = np.array([3.0, -2.0, 0.0], np.float32)
    there = spare.Experience.from_arrays(
        shifted,
        values=data.values + offset,
        next_values=data.next_values + offset,
        offsets=data.offsets,
        action=data.action,
        objects=data.objects,
        parameters=data.parameters,
    )
    dataset = make_dataset(data.with_domain(shifted), "shove", PRESETS["shared"])
    names = dataset.layout(spare.Shell(1)).names
    assert names == ("xg", "yg", "d", "target.x", "target.y", "target.size")
    matrix = dataset.matrix(spare.Shell(1), spare.Shell(1))
    assert np.abs(matrix.x[:, 3:5]).max() == 0
    model = spare.fit(shifted, data.with_domain(shifted), seed=0, preset=quick(max_references=0)).model
    np.testing.assert_allclose(model.log_prob(there), model.log_prob(data.with_domain(shifted)), atol=0.05)
    with pytest.raises(spare.DefinitionError, match="this frame has none"):
        spare.Frame("target", positions=(("x", "y"),), angles=("yaw",))
    with pytest.raises(spare.DefinitionError, match="unknown role 'box'"):
        spare.Action("shove", ("target",), (), spare.Frame("box", positions=(("x", "y"),)))


def test_frames_are_traced_when_a_domain_is_made_and_need_no_parameters() -> None:
    def make(origin: Any) -> spare.Domain:
        frame = spare.Frame(origin, lambda t, a: jnp.arctan2(t.vy, t.vx), positions=(("x", "y"),))
        action = spare.Action("kick", ("t",), frame=frame)
        return spare.Domain("one", properties=vehicles().properties, references=[], actions=[action])

    assert make("t").actions[0].parameters == ()
    data = kicked(vehicles(), 30, 0)
    plain = dataclasses.replace(data, domain=make("t"), parameters=np.zeros((30, 0), np.float32))
    assert np.isfinite(spare.fit(make("t"), plain, seed=0, preset=quick(max_references=0)).model.log_prob(plain)).all()
    with pytest.raises(spare.DefinitionError, match="the formulas of its frame fail"):
        make(lambda t, a: (t.nope, 0.0))
