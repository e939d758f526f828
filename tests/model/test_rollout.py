"""Roll-outs: trajectories that keep their member, parts of the variance, wrapping, warnings, tables, plots."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.data.scene import Scene
from spare.model.model import Model, key_of, make_scene
from spare.model.rollout import padded, wrap
from spare.model.trajectories import Rollout
from spare.programs import PROGRAMS
from tests.oracle_heads import MEMBERS, domain, make_data, make_rule


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(domain, [make_rule(3)], np.full(2, 0.01))


@pytest.fixture(scope="module")
def state() -> spare.State:
    return make_data(1, 1, (5, 5)).states[0]


def calls(state: spare.State, *amounts: float) -> list[spare.ActionCall]:
    return [spare.ActionCall("poke", (state.ids[k % len(state)],), (d,)) for k, d in enumerate(amounts)]


@pytest.fixture(scope="module")
def many(model: Model, state: spare.State) -> Rollout:
    return model.rollout(state, calls(state, 0.4, -0.2, 0.3), samples=4096, seed=7)


def test_a_step_is_a_state_that_keeps_what_is_static(model: Model, state: spare.State) -> None:
    after = model.step(state, calls(state, 0.4)[0], seed=3)
    assert after.ids == state.ids
    assert np.array_equal(after.values[:, 2], state.values[:, 2])
    assert not np.array_equal(after.values[:, :2], state.values[:, :2])
    assert model.step(state, calls(state, 0.4)[0], seed=3) == after
    assert model.step(state, calls(state, 0.4)[0], seed=4) != after


def test_one_step_has_the_moments_that_are_predicted(model: Model, state: spare.State, many: Rollout) -> None:
    said = model.predict(state, calls(state, 0.4)[0])
    spread = np.maximum(said.std, 1e-9)
    assert np.abs((many.mean[1] - said.mean) / spread).max() < 5 / math.sqrt(4096)
    assert np.abs(np.log(many.std[1, :, :2] / said.std[:, :2])).max() < 0.15


def test_a_trajectory_is_what_its_member_draws_step_by_step(model: Model, state: spare.State, many: Rollout) -> None:
    draws, found = jax.jit(lambda *given: model.advance(*given)), many
    for sample in (0, 3):
        own, here = jax.random.fold_in(key_of(7), sample), state
        for step, call in enumerate(many.calls):
            scene = make_scene(domain, here, call)
            small = Scene(scene.values[:8], scene.valid[:8], scene.action, scene.objects, scene.parameters)
            after = draws(small, jax.random.fold_in(own, step), sample % MEMBERS)
            here = spare.State(state.ids, np.asarray(after)[: len(state)])
            assert np.allclose(here.values, found.values[sample, step + 1], atol=2e-5)


def test_members_differ_over_a_trajectory_and_the_parts_add_up(many: Rollout) -> None:
    found = many
    assert np.array_equal(found.members, np.arange(4096) % MEMBERS)
    assert np.allclose(found.std**2, found.aleatoric**2 + found.epistemic**2)
    assert np.all(found.std[..., 2] == 0)
    assert np.abs(np.log(found.std[1:, :, :2] / found.values.std(axis=0)[1:, :, :2])).max() < 0.05
    apart = np.abs(found.values[0::2].mean(axis=0) - found.values[1::2].mean(axis=0)) / 2
    clear = found.epistemic > 3 * found.aleatoric / math.sqrt(2048)
    assert clear.any()
    assert np.allclose(found.epistemic[clear], apart[clear], rtol=0.1)


def test_a_draw_depends_neither_on_how_many_there_are_nor_on_what_follows(
    model: Model, state: spare.State, many: Rollout
) -> None:
    few = model.rollout(state, calls(state, 0.4, -0.2, 0.6), samples=3, seed=7)
    assert np.allclose(few.values[:, :3], many.values[:3, :3], atol=1e-5)
    assert not np.allclose(few.values[:, 3], many.values[:3, 3], atol=1e-3)


def test_nothing_is_compiled_for_another_number_of_objects(model: Model) -> None:
    states = make_data(2, 12, (2, 8)).states
    model.rollout(states[0], calls(states[0], 0.1, 0.2, 0.3), samples=4, seed=0)
    model.predict(states[0], calls(states[0], 0.1, 0.2, 0.3))
    before = PROGRAMS.compiled
    for state in states:
        model.rollout(state, calls(state, 0.3, 0.2, 0.3), samples=4, seed=0)
        model.predict(state, calls(state, 0.3, 0.2, 0.3))
    assert PROGRAMS.compiled == before


def test_predictions_of_many_calls_are_those_of_each(model: Model, state: spare.State) -> None:
    plan = calls(state, 0.4, -0.2, 0.3)
    found = model.predict(state, plan)
    assert len(found) == 3
    assert found.mean.shape == found.std.shape == (3, 5, 3)
    for k, call in enumerate(plan):
        alone = model.predict(state, call)
        assert np.allclose(found.mean[k], alone.mean, atol=1e-5)
        assert np.allclose(found.std[k], alone.std, atol=1e-5)
        assert found[k].explain().splitlines()[0] == alone.explain().splitlines()[0]
    assert [one.action for one in found[1:]] == plan[1:]


def test_angles_wrap() -> None:
    turning = spare.Domain(
        "turning",
        properties=[spare.Property("yaw", resolution=0.01, period=360.0), spare.Property("x", resolution=0.01)],
        references=[],
        actions=[spare.Action("wait", (), ())],
    )
    low = [padded(turning, spare.State(("a",), np.array([[yaw, 0.0]]))).low[0] for yaw in (10.0, 200.0)]
    assert low == [-180.0, 0.0]
    for start, yaw in ((-180.0, -170.0), (0.0, 190.0)):
        found = wrap(turning, jnp.array([[190.0, 400.0]]), jnp.array([start, 0.0]))
        assert found.tolist() == [[yaw, 400.0]]
    values = np.zeros((4, 2, 1, 2))
    values[:, 1, 0, 0] = [179.0, -179.0, 178.0, -178.0]

    class Nothing:
        domain = turning

    found = Rollout(
        Nothing(), spare.State(("a",), np.zeros((1, 2))), (spare.ActionCall("wait", ()),), values, np.zeros(4, int)
    )
    assert abs(abs(found.mean[1, 0, 0]) - 180) < 1e-9
    assert found.std[1, 0, 0] == pytest.approx(np.std([-1, 1, -2, 2], ddof=1))


def test_tables_and_plots(model: Model, state: spare.State) -> None:
    found = model.rollout(state, calls(state, 0.4, 0.1, 0.2), samples=4, seed=5)
    table = found.table()
    assert {len(column) for column in table.values()} == {4 * 5 * 2}
    at = next(
        k for k in range(40) if (table["step"][k], table["object"][k], table["property"][k]) == (2, state.ids[3], "y")
    )
    assert table["mean"][at] == found.mean[2, 3, 1]
    assert table["p05"][at] <= table["p95"][at]
    figure = found.plot(objects=[state.ids[0]])
    assert [axes.get_title() for axes in figure.axes] == ["x", "y"]
    with pytest.raises(spare.UsageError, match="unknown property 'z'"):
        found.plot(["z"])
    data = found.experience()
    assert len(data) == 12
    assert np.array_equal(data.next_states[1].values, found.values[0, 2].astype(np.float32))


def test_what_cannot_be_rolled_out_is_said(model: Model, state: spare.State) -> None:
    with pytest.raises(spare.DataError, match="list of calls is empty"):
        model.rollout(state, [])
    with pytest.raises(spare.DataError, match="step 2 'poke': its target 'nobody' is not in the state"):
        model.rollout(state, [*calls(state, 0.1), spare.ActionCall("poke", ("nobody",), (0.1,))])
    with pytest.raises(spare.UsageError, match="samples"):
        model.rollout(state, calls(state, 0.1), samples=0)
    with pytest.raises(spare.DataError, match="list of actions is empty"):
        model.predict(state, [])
