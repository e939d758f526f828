"""The general learner on worlds of different kinds: who is pointed at, how many outcomes, what is said of failures."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import spare
from spare.lab.worlds.catalogue import KNOWN
from spare.learning.presets import Heads, Schedule, find_preset
from spare.model.headrule import HeadRule

QUICK = dataclasses.replace(
    find_preset("default"),
    heads=Heads(search=Schedule(steps=500), final=Schedule(steps=800), members=2),
)


def fit(name: str, transitions: int, **sizes: int) -> spare.FitResult:
    world = KNOWN[name]
    return spare.fit(world.domain, world.generate(transitions, 0, **sizes), seed=0, preset=QUICK, threads=2)


def below_truth(name: str, model: spare.Model, **sizes: int) -> float:
    """Nats per value that a model has less than the truth, over all values of unseen transitions."""
    world = KNOWN[name]
    test = world.generate(200, 1, **sizes)
    return float((world.truth.log_prob_values(test) - model.log_prob_values(test.with_domain(model.domain))).mean())


@pytest.mark.slow
def test_a_load_that_slips_has_one_outcome_for_the_whole_stack():
    found = fit("crane", 200)
    (rule,) = found.model.rules
    assert isinstance(rule, HeadRule)
    assert rule.show() == "lift(load): on*(load) -> b1"
    assert [(one.spec.outcomes, one.spec.pinned, one.spec.scope) for one in rule.heads] == [(2, True, "rule")] * 2
    assert not found.notes
    assert below_truth("crane", found.model) < 0.1
    assert "nothing changes or it changes" in str(found.model)


@pytest.mark.slow
def test_what_drifts_is_a_process_and_needs_no_pointer():
    found = fit("wind", 100)
    (rule,) = found.model.rules
    assert isinstance(rule, HeadRule)
    assert len(rule.gamma) == 0
    assert not rule.process.spec.pinned
    assert "drifts" in str(found.model)
    assert below_truth("wind", found.model) < 0.05
    assert below_truth("wind", found.model, objects=40) < 0.05


@pytest.mark.slow
def test_the_same_seed_gives_the_same_model_with_any_number_of_threads():
    data = KNOWN["wind"].generate(60, 0)
    one, two = (spare.fit(KNOWN["wind"].domain, data, seed=3, preset=QUICK, threads=k).model for k in (1, 2))
    assert one == two


def coin_world(follows: bool) -> spare.Experience:
    """Pushes after which nobody changes; or in which some bystander, whom nothing points at, jumps anywhere."""
    domain = spare.Domain(
        "coins",
        properties=[spare.Property("x", resolution=1e-2)],
        references=[],
        actions=[spare.Action("push", ("target",), ("d",))],
    )
    rng, n, size = np.random.default_rng(0), 80, 5
    values = rng.normal(size=(n * size, 1))
    after = values + 0.01 * rng.standard_normal(values.shape)
    if follows:
        rows = np.arange(n) * size + rng.integers(1, size, n)
        after[rows, 0] += rng.choice([-1.0, 1.0], n) * rng.uniform(1, 2, n)
        after[np.arange(n) * size, 0] += 0.5
    return spare.Experience.from_arrays(
        domain,
        values=values,
        next_values=after,
        offsets=np.arange(n + 1) * size,
        action=np.zeros(n, int),
        objects=np.zeros((n, 1), int),
        parameters=rng.uniform(size=(n, 1)),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("follows", "said"), [(False, "NOTHING WAS LEARNED"), (True, "NONE OF THEM IS PREDICTED")])
def test_a_failure_is_said_first(follows, said):
    data = coin_world(follows)
    found = spare.fit(data.domain, data, seed=0, preset=QUICK)
    assert said in found.notes[0]
    assert np.isfinite(found.model.log_prob(data)).all()


def test_a_setting_that_heads_do_not_have_is_named():
    data = coin_world(False)
    with pytest.raises(spare.UsageError, match="max_references"):
        spare.fit(data.domain, data, seed=0, preset="default", max_reference=2)


@pytest.mark.parametrize("transitions", [1, 2, 5])
def test_a_handful_of_transitions_gives_a_finite_model(transitions):
    data = coin_world(True)[:transitions]
    quick = dataclasses.replace(QUICK, heads=Heads(search=Schedule(steps=60), final=Schedule(steps=60), members=2))
    found = spare.fit(data.domain, data, seed=0, preset=quick)
    assert np.isfinite(found.model.log_prob(data)).all()
    assert np.isfinite(found.model.sample(data, 0)).all()


def rooms(n: int, seed: int, size: int) -> spare.Experience:
    """Rooms in a square, each of which comes closer to the mean of those beside it; a heated one gets more."""
    beside = spare.Reference("beside", lambda o, p: abs(o.x - p.x) + abs(o.y - p.y) < 1.1)
    domain = spare.Domain(
        "rooms",
        properties=[
            spare.Property("temp", resolution=1e-2),
            spare.Property("x", static=True),
            spare.Property("y", static=True),
        ],
        references=[beside],
        actions=[spare.Action("heat", ("room",), ("power",))],
    )
    rng, side = np.random.default_rng(seed), math.isqrt(size)
    places = np.stack(np.divmod(np.arange(size), side), axis=1).astype(float)
    near = np.abs(places[:, None] - places[None]).sum(-1) == 1
    temp = rng.uniform(10, 30, (n, size))
    power, room = rng.uniform(0, 5, n), rng.integers(0, size, n)
    after = temp + 0.2 * (temp @ near / near.sum(axis=0) - temp) + 0.03 * rng.standard_normal(temp.shape)
    after[np.arange(n), room] += power
    values = np.concatenate([temp.reshape(-1, 1), np.tile(places, (n, 1))], axis=1)
    return spare.Experience.from_arrays(
        domain,
        values=values,
        next_values=np.concatenate([after.reshape(-1, 1), values[:, 1:]], axis=1),
        offsets=np.arange(n + 1) * size,
        action=np.zeros(n, int),
        objects=room[:, None],
        parameters=power[:, None],
    )


@pytest.mark.slow
def test_what_flows_between_neighbours_is_a_process_that_looks_around():
    """The process sees an object's own temperature and that of its neighbours, nothing else; so it carries over."""
    found = spare.fit(rooms(1, 0, 9).domain, rooms(120, 0, 9), seed=0, preset=QUICK, threads=2)
    (rule,) = found.model.rules
    assert isinstance(rule, HeadRule)
    assert {*rule.process.spec.inputs} == {"own.temp", "mean(beside(own)).temp"}
    assert [head.spec.inputs for head in rule.heads] == [("power",)]
    truth = -0.5 * math.log(2 * math.pi * math.e * 0.03**2)
    for size in (9, 49):
        test = rooms(60, 1, size).with_domain(found.model.domain)
        assert found.model.log_prob_values(test).mean() > truth - 0.1


@pytest.mark.slow
def test_an_action_without_objects_has_a_rule():
    """A belt runs: whatever lies on it moves by speed times time, whoever that is."""
    domain = spare.Domain(
        "belt",
        properties=[spare.Property("x", resolution=1e-3), spare.Property("y", resolution=1e-3)],
        references=[spare.Reference("on-belt", lambda o: abs(o.y) < 0.3)],
        actions=[spare.Action("run", (), ("speed", "time"))],
    )

    def made(n: int, seed: int, size: int) -> spare.Experience:
        rng = np.random.default_rng(seed)
        values = rng.uniform(-1, 1, (n, size, 2))
        given = np.stack([rng.uniform(-0.5, 0.5, n), rng.uniform(0.2, 1, n)], axis=1)
        after = values + 0.002 * rng.standard_normal(values.shape)
        after[..., 0] += np.where(np.abs(values[..., 1]) < 0.3, given.prod(axis=1)[:, None], 0.0)
        return spare.Experience.from_arrays(
            domain,
            values=values.reshape(-1, 2),
            next_values=after.reshape(-1, 2),
            offsets=np.arange(n + 1) * size,
            action=np.zeros(n, int),
            objects=np.zeros((n, 0), int),
            parameters=given,
        )

    found = spare.fit(domain, made(120, 0, 6), seed=0, preset=QUICK, threads=2)
    assert found.model.rules[0].show() == "run(): on-belt() -> b1"
    assert not found.notes
    test = made(50, 1, 25)
    mean = found.model.mean(test.with_domain(found.model.domain))
    assert np.abs(mean - test.next_values).max() < 0.05
    assert found.model.predict(test.states[0], test.actions[0]).predicted.any()
