"""What a dataset says of all transitions is what a rule says of each scene, for any lists."""

from __future__ import annotations

import dataclasses
import functools
import random
import re
from typing import Any

import jax
import numpy as np
import pytest

import spare
from spare.data.scene import batches
from spare.language.references import Pointer, Shell, next_pointers
from spare.learning.bindings import Bindings, expressions
from spare.learning.dataset import Dataset, DesignMatrix
from spare.learning.fit import make_dataset
from spare.learning.presets import PRESETS
from tests.learning.helpers import SMALL, fit_shell, quick
from tests.rules import fresh_predictor

AGGREGATORS = ("mean", ("max", "min", "sum"), ("count", "mean"), "count")


@functools.cache
def domain() -> spare.Domain:
    """Two templates with one and two roles; references of arity 1 and 2, single and set-valued."""
    return spare.Domain(
        "yard",
        properties=[
            spare.Property("x", resolution=1e-3),
            spare.Property("w", static=True),
            spare.Property("y", resolution=2e-3),
        ],
        references=[
            spare.Reference("near", lambda o, p: abs(o.x - p.x) < 0.75, aggregator=AGGREGATORS[1]),
            spare.Reference("row", lambda o, p: o.y == p.y, aggregator=AGGREGATORS[2]),
            spare.Reference.closest("next", lambda o, p: (o.x - p.x) ** 2 + (o.y - p.y) ** 2),
            spare.Reference("between", lambda o, p, q: (o.x - p.x) * (o.x - q.x) < 0, aggregator=AGGREGATORS[3]),
        ],
        actions=[
            spare.Action("push", ("target",), ("d", "e")),
            spare.Action("swap", ("first", "second"), ("d",)),
        ],
    )


def random_data(action: int, seed: int, count: int = 40) -> spare.Experience:
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 8, count)
    total = int(counts.sum())
    values = (rng.integers(-6, 7, (total, 3)) / 4).astype(np.float32)  # on a grid, so ties and rows do occur
    after = values.copy()
    after[:, [0, 2]] += rng.normal(size=(total, 2)).astype(np.float32)
    roles = len(domain().actions[action].objects)
    objects = np.full((count, 2), -1)
    objects[:, :roles] = [rng.permutation(n)[:roles] for n in counts]
    return spare.Experience.from_arrays(
        domain(),
        values=values,
        next_values=after,
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        action=np.full(count, action),
        objects=objects,
        parameters=rng.normal(size=(count, 2)) * [1, action == 0],
        weights=rng.uniform(0.5, 2, count),
    )


def random_shell(roles: int, length: int, seed: int) -> Shell:
    rng, shell = random.Random(seed), Shell(roles)
    for _ in range(length):
        shell = shell.extend(rng.choice(next_pointers(domain().references, shell.slots)))
    return shell


def random_case(seed: int) -> tuple[Dataset, DesignMatrix, spare.Rule]:
    """Lists, data and targets drawn by seed, seen by the dataset and by a rule."""
    rng = random.Random(seed)
    action = rng.randrange(2)
    gamma = random_shell(action + 1, rng.randrange(3), seed)
    delta = gamma if rng.random() < 0.5 else random_shell(action + 1, rng.randrange(3), seed + 100)
    preset = PRESETS[rng.choice(("paper", "shared"))]
    dataset = make_dataset(random_data(action, seed), domain().actions[action].name, preset)
    every = [(name, block.offered) for block in dataset.layout(gamma).every for name in block.names]
    dropped = tuple(name for name, offered in every if offered and rng.random() < 0.2)
    extra = tuple(name for name, offered in every if not offered and rng.random() < 0.5)
    chosen = dataclasses.replace(dataset.feature_spec(gamma), dropped=dropped, extra=extra)
    dataset = dataset.with_features(gamma, chosen)
    table = dataset.matrix(gamma, delta)
    phi = fresh_predictor(jax.random.key(seed), table.x.shape[1], (delta.slots, 2), hidden=(4,))
    return dataset, table, spare.Rule(domain(), dataset.spec(gamma, delta), phi, np.ones(2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_all_transitions_at_once_and_one_scene_at_a_time_give_the_same(seed: int) -> None:
    """One featuriser: over an experience in NumPy and over a scene in JAX; targets beside plain loops."""
    dataset, table, rule = random_case(seed)
    data = dataset.experience

    def one(scene: Any) -> Any:
        binding = rule.bind(scene)
        return binding, rule.features(scene, binding)

    padded = list(batches(data))
    assert len(padded) == 1
    batch = padded[0]
    binding, x = jax.jit(jax.vmap(one))(batch.scene)
    rows = batch.index >= 0
    order = batch.index[rows]
    np.testing.assert_array_equal(np.asarray(binding.applies)[rows], table.applies[order])
    applies = np.asarray(binding.applies) & rows
    index = batch.index[applies]
    np.testing.assert_allclose(np.asarray(x)[applies], table.x[index], rtol=1e-6, atol=1e-6)
    assert (table.x[~table.applies] == 0).all()
    assert (table.y[~table.applies] == 0).all()
    outputs = np.asarray(binding.outputs)
    for k in np.flatnonzero(applies):
        i = batch.index[k]
        span = slice(data.offsets[i], data.offsets[i + 1])
        held = outputs[k][:, : data.counts[i]]
        np.testing.assert_array_equal(held, table.outputs[:, span])
        target = data.next_values[span][:, [0, 2]].astype(np.float64)
        target -= np.where(dataset.changes, data.values[span][:, [0, 2]], 0)
        for slot, members in enumerate(held):
            assert table.size[i, slot] == members.sum()
            np.testing.assert_allclose(table.y[i, slot], target[members].mean(axis=0), atol=1e-12)
            np.testing.assert_allclose(table.spread[i, slot], target[members].var(axis=0), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_entries_of_x_are_what_their_names_say(seed: int) -> None:
    """In plain loops, read off the names."""
    dataset, table, _ = random_case(seed)
    data, names = dataset.experience, dataset.layout(table.gamma).names
    template, masks = domain().action(dataset.action), dataset.bindings.masks(table.gamma)
    slots = table.gamma.slot_names(template.objects)
    how: dict[str, Any] = {"mean": np.mean, "max": np.max, "min": np.min, "sum": np.sum, "count": np.size, "": np.sum}
    assert table.x.shape == (len(data), len(names))
    for i in np.flatnonzero(table.applies):
        span = slice(data.offsets[i], data.offsets[i + 1])
        for name, found in zip(names, table.x[i], strict=True):
            if name in template.parameters:
                assert found == data.parameters[i, template.parameters.index(name)]
                continue
            parts = re.fullmatch(r"(\w*?)\(?(\w+)\)?(?:\.(\w+))?", name)
            assert parts is not None
            aggregator, slot, prop = parts.groups()
            column = domain().property_names.index(prop or "x")
            members = data.values[span][masks[slots.index(slot)][span], column].astype(np.float64)
            assert found == pytest.approx(how[aggregator](members), abs=1e-12)


@pytest.mark.slow
def test_the_cases_above_cover_what_they_should() -> None:
    cases = [random_case(seed) for seed in range(8)]
    shells = [shell for _, table, _ in cases for shell in (table.gamma, table.delta)]
    used = {pointer.reference for shell in shells for pointer in shell}
    assert used == {"near", "row", "next", "between"}
    assert {bool(dataset.changes[0]) for dataset, _, _ in cases} == {True, False}
    assert {dataset.action for dataset, _, _ in cases} == {"push", "swap"}
    assert any(table.gamma != table.delta for _, table, _ in cases)
    seen = [dataset.feature_spec(table.gamma) for dataset, table, _ in cases]
    assert any(spec.dropped for spec in seen)
    assert {name.split("(")[0] for spec in seen for name in spec.extra} == {"mean", "max", "min", "sum"}
    assert any((table.size > 1).any() for _, table, _ in cases)
    assert any(not table.applies.all() and table.applies.any() for _, table, _ in cases)


def test_expressions_name_slots_by_what_they_stand_for() -> None:
    shell = Shell(1, (Pointer("next", (0,)), Pointer("between", (0, 1))))
    assert expressions(shell) == (0, ("next", (0,)), ("between", (0, ("next", (0,)))))
    data = random_data(0, 0, 12)
    bindings = Bindings(data, "push")
    again = Shell(1, (Pointer("row", (0,)), Pointer("next", (0,)), Pointer("between", (0, 2))))
    assert bindings.masks(shell)[2] is not None
    np.testing.assert_array_equal(bindings.masks(shell)[2], bindings.masks(again)[3])
    assert bindings.mask(expressions(shell)[2]) is bindings.mask(expressions(again)[3])
    np.testing.assert_array_equal(bindings.after(Shell(1), Pointer("next", (0,))), bindings.masks(shell)[1])


def test_values_too_large_for_32_bits_are_refused() -> None:
    data = random_data(0, 0, 12)
    big = data.values.copy()
    big[data.offsets[:-1] + data.objects[:, 0], 0] = 1e30
    dataset = make_dataset(dataclasses.replace(data, values=big), "push", PRESETS["shared"])
    with pytest.raises(spare.FitError, match="rescale"):
        dataset.matrix(Shell(1), Shell(1))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "members", "seed"), [("shared", 1, 2), ("paper", 1, 5), ("shared", 3, 4)])
def test_log_prob_of_a_fit_is_that_of_its_rule(name: str, members: int, seed: int) -> None:
    """On every transition, sets and overlapping slots included, and after the padding is cut away."""
    preset = quick(name, {**SMALL, "members": members, "steps": 60})
    gamma = Shell(1, (Pointer("near", (0,)), Pointer("row", (0,))))
    delta = Shell(1, (Pointer("row", (0,)),)) if seed == 4 else gamma
    fitted, dataset, _ = fit_shell(random_data(0, seed), gamma, preset, delta)
    applies = fitted.matrix.applies
    assert applies.any()
    assert not applies.all()
    model = spare.Model(domain(), [fitted.rule(dataset)], np.ones(2))
    expected = model.log_prob(dataset.experience)
    np.testing.assert_allclose(fitted.log_prob[applies], expected[applies], rtol=2e-5, atol=2e-4)
    assert np.isnan(fitted.log_prob[~applies]).all()
    assert model.rules[0].predictor.members == members


# -- in an action's frame --------------------------------------------------------------------------------------------


@functools.cache
def framed_domain() -> spare.Domain:
    """Places, velocities, an angle and extents; the action names a place and a heading."""
    frame = spare.Frame(
        origin="target",
        heading=lambda t, a: a.h,
        positions=(("x", "y"), ("px", "py")),
        directions=(("u", "v"),),
        angles=("yaw", "h"),
        mirror=True,
        extents=(("width", "length"),),
    )
    return spare.Domain(
        "ice",
        properties=[
            *(spare.Property(name, resolution=1e-3) for name in ("x", "y", "u", "v")),
            spare.Property("yaw", resolution=1e-3, period=2 * np.pi),
            *(spare.Property(name, static=True) for name in ("width", "length")),
        ],
        references=[
            spare.Reference("near", lambda o, p: (o.x - p.x) ** 2 + (o.y - p.y) ** 2 < 1, aggregator=("mean", "max"))
        ],
        actions=[spare.Action("shove", ("target",), ("px", "py", "h"), frame=frame)],
    )


def framed_data(count: int = 40, seed: int = 0) -> spare.Experience:
    rng = np.random.default_rng(seed)
    counts = rng.integers(3, 8, count)
    before, after = (rng.normal(size=(int(counts.sum()), 7)).astype(np.float32) for _ in range(2))
    after[:, 5:] = before[:, 5:]
    return spare.Experience.from_arrays(
        framed_domain(),
        values=before,
        next_values=after,
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        action=np.zeros(count, np.int64),
        objects=np.array([[rng.integers(n)] for n in counts]),
        parameters=np.column_stack([rng.normal(size=(count, 2)), rng.uniform(-4, 4, count)]),
    )


NEAR = Shell(1, (Pointer("near", (0,)),))


@pytest.mark.slow
def test_a_frame_is_the_same_for_all_transitions_and_for_one_scene() -> None:
    data = framed_data()
    dataset = make_dataset(data, "shove", PRESETS["shared"])
    table = dataset.matrix(NEAR, NEAR)
    assert 10 < table.applies.sum() < len(data)
    phi = fresh_predictor(jax.random.key(0), table.x.shape[1], (2, 5), hidden=(4,))
    rule = spare.Rule(framed_domain(), dataset.spec(NEAR, NEAR), phi, np.ones(5))
    assert rule.spec.features.framed
    (batch,) = batches(data)
    x = jax.jit(jax.vmap(lambda scene: rule.features(scene, rule.bind(scene))))(batch.scene)
    own = (batch.index >= 0) & table.applies[batch.index]
    np.testing.assert_allclose(np.asarray(x)[own], table.x[batch.index[own]], rtol=1e-4, atol=1e-5)


def test_the_reflection_is_what_the_mirrored_world_looks_like() -> None:
    data = framed_data()
    sign = np.array([1, -1, 1, -1, -1, 1, 1], np.float32)
    image = dataclasses.replace(
        data,
        values=data.values * sign,
        next_values=data.next_values * sign,
        parameters=data.parameters * np.array([1, -1, -1], np.float32),
    )
    first, second = (make_dataset(one, "shove", PRESETS["shared"]) for one in (data, image))
    assert first.reflection is not None
    found, expected = first.reflection.matrix(NEAR, NEAR), second.matrix(NEAR, NEAR)
    assert found.applies.any()
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.y, expected.y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.spread, expected.spread, rtol=1e-5, atol=1e-6)
