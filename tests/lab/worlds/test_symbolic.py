"""Worlds of facts, types and relations: their rules, their probabilities, and published figures of their truth."""

from __future__ import annotations

import numpy as np
import pytest

import spare
from spare.lab.worlds import blocks, chemical, elevators, mouse, sysadmin, tireworld, totals

CALL = spare.ActionCall


def test_blocks_obey_their_conditions() -> None:
    facts = blocks.start(np.random.default_rng(0), 3, explodes=False)
    for one in ("b0", "b1", "b2"):
        facts[one] = {"type": "block", "on": None, "ontable": True, "clear": True, "holding": False}

    def after(*calls: spare.ActionCall) -> blocks.Facts:
        state = facts
        for call in calls:
            ((chance, state),) = blocks.outcomes(state, call, explodes=False)
            assert chance == 1.0
        return state

    pick, stack = CALL("pick_up", ("b0",)), CALL("stack", ("b0", "b1"))
    held = after(pick)
    assert held["b0"]["holding"]
    assert not held["world"]["handempty"]
    assert after(pick, CALL("pick_up", ("b1",))) == held  # the hand is full: nothing happens
    tower = after(pick, stack)
    assert tower["b0"]["on"] == "b1"
    assert not tower["b1"]["clear"]
    assert after(pick, stack, CALL("unstack", ("b0", "b1")), CALL("put_down", ("b0",))) == facts


def test_explosions_have_their_probability_and_their_consequences() -> None:
    data = blocks.generate(120, 1, explodes=True, useful=1.0)
    stacked = data.action == blocks.exploding.action_index("stack")
    column = blocks.exploding.property_names.index("destroyed")
    new = np.add.reduceat((data.next_values[:, column] > data.values[:, column]).astype(int), data.offsets[:-1])
    assert 0 < new[stacked].sum() < 0.4 * stacked.sum()
    assert not new[~stacked].any()
    facts = blocks.start(np.random.default_rng(0), 2, explodes=True)
    facts["b0"].update(on=None, ontable=True, clear=True, destroyed=True)
    assert blocks.outcomes(facts, CALL("pick_up", ("b0",)), explodes=True) == [(1.0, facts)]
    facts["b1"].update(on=None, ontable=False, clear=False, holding=True)
    facts["b0"]["destroyed"] = facts["world"]["handempty"] = False
    found = blocks.outcomes(facts, CALL("stack", ("b1", "b0")), explodes=True)
    assert [(chance, state["b0"]["destroyed"]) for chance, state in found] == [(0.9, False), (0.1, True)]


def test_tyres_are_flat_after_four_of_five_moves() -> None:
    facts = {"p0": {"type": "place", "spare": True}, "p1": {"type": "place", "spare": False}}
    facts["world"] = {"at": "p0", "flat": False, "loaded": False}
    roads = [("p0", "p1")]
    found = tireworld.outcomes(facts, roads, CALL("move", ("p0", "p1")))
    assert [chance for chance, _ in found] == pytest.approx([0.2, 0.8])
    assert [state["world"]["flat"] for _, state in found] == [False, True]
    assert tireworld.outcomes(facts, roads, CALL("move", ("p1", "p0"))) == [(1.0, facts)]
    ((_, loaded),) = tireworld.outcomes(facts, roads, CALL("load", ("p0",)))
    assert loaded["world"]["loaded"]
    assert not loaded["p0"]["spare"]
    data = tireworld.generate(60, 0)
    assert data.pairs["road"].total > 0
    assert {*data.info} == {"episode", "time"}


def test_computers_run_as_their_law_says() -> None:
    pairs = np.array([[0, 2], [1, 2]])
    chance = sysadmin.probabilities(np.array([1.0, 0.0, 1.0]), pairs)
    assert chance == pytest.approx([0.95, 0.05, 0.45 + 0.5 * 2 / 3])
    assert sysadmin.probabilities(np.array([0.0, 0.0, 0.0]), pairs, 1)[1] == 1.0
    data = sysadmin.generate(4000, 0)
    truth = sysadmin.true_probabilities(data)
    for low in (0.0, 0.5, 0.8):
        mine = (truth > low) & (truth <= low + 0.3)
        assert data.next_values[mine, 0].mean() == pytest.approx(truth[mine].mean(), abs=0.02)


def test_elevators_take_people_up() -> None:
    facts = elevators.start(np.random.default_rng(0), 1, 3)
    facts["f0"]["waiting_up"] = True
    facts["e0"].update(closed=False)
    found = elevators.probabilities(facts, {"e0": "close"})
    assert found["e0"] == {"inside_up": 1.0, "inside_down": 0.0, "up": 1.0, "closed": 1.0, "at": "f0"}
    assert found["f0"]["waiting_up"] == facts["f0"]["arrive"]  # they were taken; others may come
    facts["e0"].update(closed=True, inside_up=True)
    assert elevators.probabilities(facts, {"e0": "move"})["e0"]["at"] == "f1"
    facts["e0"]["at"] = "f2"
    moved = elevators.probabilities(facts, {"e0": "move"})["e0"]
    assert (moved["at"], moved["inside_up"]) == ("f2", 0.0)
    assert elevators.generate(60, 0, elevators=2).calls is not None


@pytest.mark.parametrize(("floor", "published"), [(1e-5, 99.4), (1e-3, 56.9), (1e-2, 35.7)])
def test_the_true_mouse_scores_what_was_published(floor: float, published: float) -> None:
    data = mouse.generate(4000, 0)
    assert mouse.score(data, *mouse.expected(data), floor) == pytest.approx(published, abs=0.3)


def test_the_mouse_keeps_its_rules() -> None:
    assert (len(mouse.tasks(seen=True)), len(mouse.tasks(seen=False))) == (47, 53)
    data = mouse.generate(2000, 3, counts=mouse.tasks(seen=True))
    mean, spread = mouse.expected(data)
    exact = data.held & (spread == 0)
    np.testing.assert_allclose(data.next_values[exact], mean[exact], atol=1e-9)
    assert {*np.unique(data.counts).tolist()} <= {*range(6, 18)}
    rng, state = np.random.default_rng(0), mouse.start(np.random.default_rng(0), (1, 1, 1))
    at = {name: k for k, name in enumerate(mouse.domain.property_names)}
    state[:, [at["x"], at["y"]]] = [[3, 3], [3, 3], [0, 0], [3, 3]]
    state[0, at["hunger"]], state[1, at["amount"]], state[3, at["duration"]] = 20.0, 30.0, 1
    after = mouse.step(rng, state, 1)
    assert after[0, [at["x"], at["y"]]].tolist() == [3, 3]  # trapped
    assert after[0, at["hunger"]] == pytest.approx(48.0)
    assert after[0, at["health"]] == 9
    assert after[1, at["amount"]] == 0
    assert after[3, at["duration"]] == 0


def test_the_true_totals_score_what_was_published() -> None:
    assert [totals.true_score(floor) for floor in (1e-5, 1e-3, 1e-2)] == pytest.approx([44.5, 30.7, 23.8], abs=0.05)
    data = totals.generate(300, 0, blocks=4)
    column = [totals.domain.property_names.index(f"x{k}") for k in (1, 2, 3)]
    values, after = (part.reshape(300, 5, -1)[:, :, column] for part in (data.values, data.next_values))
    np.testing.assert_allclose(after[:, 4], 0.5 * values[:, 4] + 0.5 * values[:, :4].max(axis=1), atol=1e-12)


@pytest.mark.parametrize(
    ("local", "accuracy", "red", "copy"), [("fork", 0.841, 0.989, 0.91), ("chain", 0.798, 0.685, 0.55)]
)
def test_chemistry_is_as_predictable_as_was_published(local: str, accuracy: float, red: float, copy: float) -> None:
    """Most likely colours of the true model with random actions: all nodes, and those scored where node 0 stays red."""
    world = chemical.Chemistry.of(0, local)  # type: ignore[arg-type]
    data = chemical.generate(900, 1, local=local)  # type: ignore[arg-type]
    before, after = (part[:, 1].reshape(-1, 10).astype(int) for part in (data.values, data.next_values))
    told = np.stack(
        [
            world.marginals(before[i], int(data.objects[i, 0]), int(data.parameters[i, 0]), 100).argmax(axis=1)
            for i in range(len(data))
        ]
    )
    assert (told == after).mean() == pytest.approx(accuracy, abs=0.03)
    stays = (before[:, 0] == 0) & (after[:, 0] == 0)
    scored = [0, *range(3, 10)]
    assert (told == after)[stays][:, scored].mean() == pytest.approx(red, abs=0.05)
    assert (before == after)[stays][:, scored].mean() == pytest.approx(copy, abs=0.05)
