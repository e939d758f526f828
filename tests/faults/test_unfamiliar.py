"""A prediction knows what it does not know: inputs outside the training data are named, and few others are."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib

import numpy as np
import pytest

import spare
from spare.lab.worlds import queue as toy
from spare.lab.worlds.catalogue import WORLDS
from spare.language.references import Shell
from spare.learning.familiar import learn_familiar
from spare.learning.fit import make_dataset, prepare
from spare.learning.presets import Heads, Schedule, find_preset
from spare.model.familiar import Familiar, gauges
from spare.model.headrule import HeadRule
from spare.model.heads import HeadSpec
from spare.model.rows import RowLayout
from spare.model.watched import watched
from tests.faults.helpers import refuses, run
from tests.learning.helpers import quick

QUICK = quick(max_references=1, training={"steps": 60, "hidden": (8,), "members": 3})
FEWEST = 0.9
"""The share of states with an input a quarter of its range outside that must be told."""


def data(count: int, seed: int) -> spare.Experience:
    return toy.generate(count, seed=seed, followers=1, lines=1, longest=4)


@pytest.fixture(scope="module")
def model() -> spare.Model:
    """Learned quickly, with mass dropped: it makes no difference in a queue."""
    learned = spare.fit(toy.domain, data(150, 1), seed=0, preset=QUICK, refine=True).model
    assert any("mass" in name for name in learned.rules[0].spec.features.dropped)
    return learned


def shifted(experience: spare.Experience, column: int, by: float) -> spare.Experience:
    """Everybody's property moved."""
    names = ("values", "next_values", "offsets", "action", "objects", "parameters")
    parts = {name: getattr(experience, name).copy() for name in names}
    for name in ("values", "next_values"):
        parts[name][:, column] += by
    return spare.Experience.from_arrays(experience.domain, **parts)


def test_states_like_the_training_data_are_familiar(model: spare.Model) -> None:
    """At most 5 % of unseen transitions of the same kind get a warning."""
    assert (~model.familiar(data(400, 2))).mean() <= 0.05


def test_inputs_outside_the_training_data_are_named(model: spare.Model) -> None:
    """A property a quarter of its range outside is told with its name, also where the rule has dropped it."""
    seen = data(150, 1)
    for column, name in ((0, "x"), (2, "mass")):
        low, high = seen.values[:, column].min(), seen.values[:, column].max()
        far = shifted(data(60, 3), column, 1.25 * float(high - low))
        warned = model.warnings(far)
        assert not model.familiar(far).any()
        assert all(any(one.name == f"target.{name}" for one in some) for some in warned)
        for some in warned:
            one = next(one for one in some if one.name == f"target.{name}")
            assert one.low >= low - 1e-3
            assert one.high <= high + 1e-3
            assert one.value > one.high + 0.2 * (one.high - one.low) or column == 0


def test_a_parameter_outside_the_training_data_is_named(model: spare.Model) -> None:
    """By its own name; `predict`, `explain` and the batched `warnings` say the same."""
    unseen = data(5, 4)
    call = dataclasses.replace(unseen.actions[0], parameters=(5.0,))
    prediction = model.predict(unseen.states[0], call)
    assert "d" in [one.name for one in prediction.warnings]
    text = prediction.explain()
    assert "unlike the training data: do not rely on it" in text
    assert "d = 5 was 0.2" in text
    plain = model.predict(unseen.states[0], unseen.actions[0])
    assert plain.warnings == model.warnings(unseen)[0]


def test_states_that_no_rule_applies_to_any_more(model: spare.Model) -> None:
    """Someone so far out that nobody is behind: no rule fires, and the action's object is named all the same."""
    state, call = data(5, 4).states[0], data(5, 4).actions[0]
    values = state.values.copy()
    values[state.ids.index(call.objects[0]), 0] = -50.0
    prediction = model.predict(spare.State(state.ids, values), call)
    assert not prediction.predicted.any()
    assert [one.name for one in prediction.warnings] == ["target.x"]
    builder = spare.Builder(toy.domain)
    builder.add(prediction.state, call, prediction.state)
    assert model.warnings(builder.build()) == (prediction.warnings,)


@pytest.mark.parametrize("world", ["queue", *WORLDS])
@pytest.mark.parametrize("count", [100, 300])
def test_ranges_are_calibrated(world: str, count: int) -> None:
    """Four worlds, 100 and 300 samples: few false alarms about others; every input a quarter outside is noticed."""
    generate = (lambda n, seed: toy.generate(n, seed=seed)) if world == "queue" else WORLDS[world].generate
    every, _ = prepare((made := generate(count + 500, 3)).domain, made)
    dataset = make_dataset(every, every.domain.actions[0].name, find_preset("shared"))
    gamma = Shell(len(every.domain.actions[0].objects))
    entries, layout = dataset.entries(gamma), dataset.layout(gamma)
    alarms = []
    for part in range(4):
        seen = np.random.default_rng(part).permutation(len(every)) < count
        known = learn_familiar(dataset, gamma, seen, None, seen)
        alarms.append(known.outside(known.values(gauges(layout), entries[~seen])).any(axis=1).mean())
        low, high = np.asarray(known.low), np.asarray(known.high)
        width = np.where(high > low, high - low, 0.01 + np.abs(high))
        assert known.outside(high + 0.26 * width).mean() >= FEWEST
        assert known.outside(low - 0.26 * width).mean() >= FEWEST
    assert np.mean(alarms) <= 0.04


def test_angles_constants_and_counts_have_ranges() -> None:
    """An angle's range is an arc, a constant's its resolution, a count's is one of whole numbers."""
    domain = spare.Domain(
        "compass",
        properties=[
            spare.Property("x", resolution=0.01),
            spare.Property("yaw", resolution=0.01, period=2 * math.pi),
            spare.Property("size", static=True),
        ],
        references=[spare.Reference("near", lambda o, p: abs(o.x - p.x) < 1.0, aggregator=("mean", "count"))],
        actions=[spare.Action("turn", objects=("target",))],
    )
    rng, builder = np.random.default_rng(0), spare.Builder(domain)
    for _ in range(200):
        yaw = math.pi + rng.uniform(-2.5, 2.5)  # all but an arc of 1.28 around 0
        state = spare.State(("a", "b", "c"), np.array([[0.0, yaw, 2.0], [0.5, 1.0, 2.0], [0.25, 1.0, 2.0]]))
        builder.add(state, spare.ActionCall("turn", ("a",), ()), state)
    every, _ = prepare(domain, builder.build())
    dataset = make_dataset(every, "turn", find_preset("shared"))
    gamma = Shell(1, (spare.Pointer("near", (0,)),))
    known = learn_familiar(dataset, gamma, np.ones(200, bool), None, np.ones(200, bool))
    names = [gauge.name for gauge in gauges(dataset.layout(gamma))]
    entries = dataset.entries(gamma)[0]

    def outside(name: str, *numbers: float) -> list[str]:
        moved, place = entries.copy(), dataset.layout(gamma).names.index(name)
        moved[place : place + len(numbers)] = numbers
        return [names[k] for k in np.flatnonzero(known.outside(known.values(gauges(dataset.layout(gamma)), moved)))]

    def turned(yaw: float) -> list[str]:
        return outside("target.cos(yaw)", math.cos(yaw), math.sin(yaw))

    yaw = names.index("target.yaw")
    assert np.asarray(known.high)[yaw] - np.asarray(known.low)[yaw] == pytest.approx(5.0, abs=0.2)
    assert [turned(math.pi + by) for by in (-2.4, 0.0, 2.4)] == [[], [], []]
    assert turned(0.0) == ["target.yaw"]
    assert outside("target.x", 0.02) == ["target.x"]
    assert outside("target.x", 0.005) == []
    assert outside("target.size", 2.01) == ["target.size"]
    assert outside("count(b1)", 3.0) == ["count(near(target))"]
    assert outside("count(b1)", 2.0) == []


def test_models_without_ranges_still_load(model: spare.Model, tmp_path: pathlib.Path) -> None:
    """A rule that nobody trained, or that an earlier version saved, knows no ranges and gives no warning."""
    plain = toy.true_model()
    plain.save(tmp_path / "plain.spare")
    assert spare.load(tmp_path / "plain.spare").familiar(toy.generate(5, seed=0)).all()
    model.save(tmp_path / "m.spare")
    unseen = data(40, 5)
    assert spare.load(tmp_path / "m.spare").warnings(unseen) == model.warnings(unseen)


def test_ranges_that_lie(model: spare.Model) -> None:
    """Ranges of other inputs, of the wrong number, upside down or not finite are refused."""
    rule = model.rules[0]
    known = rule.familiar
    assert known is not None
    parts = (rule.domain, rule.spec, rule.predictor, rule.noise, rule.copula)
    wrong = [
        known._replace(low=known.low[:-1]),
        known._replace(low=known.high + 1),
        known._replace(slack=-known.slack - 1),
        known._replace(most=np.float32(np.inf)),
    ]
    for one in wrong:
        refuses(lambda one=one: spare.Rule(*parts, Familiar(*one)), "range of inputs")
    manifest, tensors = model.pack()
    manifest["rules"][0]["familiar"][0] = "something.else"
    refuses(lambda: spare.Model.unpack(manifest, tensors, model.domain), "ranges of its inputs are those of other")


@pytest.fixture(scope="module")
def headed() -> spare.Model:
    """A rule with heads, learned quickly."""
    heads = Heads(search=Schedule(steps=60), final=Schedule(steps=100), members=2, max_references=1)
    preset = dataclasses.replace(find_preset("default"), heads=heads)
    learned = spare.fit(toy.domain, data(150, 1), seed=0, preset=preset).model
    (rule,) = learned.rules
    assert isinstance(rule, HeadRule)
    assert len(rule.heads) == 2
    return learned


def test_heads_know_what_they_have_seen(headed: spare.Model, tmp_path: pathlib.Path) -> None:
    """Rules with heads: few false alarms, inputs outside by a quarter are named, and a file keeps the ranges."""
    unseen, rule = data(200, 2), headed.rules[0]
    assert (~headed.familiar(unseen)).mean() <= 0.05
    follower = next(gauge.name for gauge in rule.gauges if gauge.group == 1)
    slot = follower.removesuffix(".x")
    assert {"d", "target.mass", f"count({slot})", f"{slot}.mass", f"{slot}-target.x"} <= {g.name for g in rule.gauges}
    seen = data(150, 1)
    for column, name in ((0, "x"), (2, "mass")):
        far = shifted(data(30, 3), column, 1.25 * float(np.ptp(seen.values[:, column])))
        assert all({f"target.{name}"} <= {one.name for one in some} for some in headed.warnings(far))
    call = dataclasses.replace(unseen.actions[0], parameters=(5.0,))
    assert "d = 5 was 0.2" in headed.predict(unseen.states[0], call).explain()
    headed.save(tmp_path / "m.spare")
    again = spare.load(tmp_path / "m.spare")
    assert again.warnings(far) == headed.warnings(far)
    assert again.predict(far.states[0], far.actions[0]).warnings == headed.warnings(far)[0]


def test_heads_know_members_and_not_bystanders(headed: spare.Model) -> None:
    """A single member of a slot with another mass is named; an object that no head holds may have any."""
    one = data(40, 4)
    for i in range(len(one)):
        state, call = one.states[i], one.actions[i]
        told = headed.predict(state, call)
        held = told.rules[0].outputs
        for mask, named in ((held[1], True), (~held.any(axis=0), False)):
            if not mask.any() or told.warnings:
                continue
            values = state.values.copy()
            values[np.flatnonzero(mask)[0], 2] += 500.0
            names = {w.name for w in headed.predict(spare.State(state.ids, values), call).warnings}
            assert bool(names) == named
            assert not named or any(name.endswith(").mass") for name in names)


def test_ranges_of_heads_that_lie(headed: spare.Model) -> None:
    """Ranges of heads that are of other inputs, of the wrong number or upside down are refused."""
    rule = headed.rules[0]
    known = rule.familiar
    assert known is not None
    for wrong in (known._replace(low=known.low[:-1]), known._replace(low=known.high + 1)):
        refuses(lambda wrong=wrong: dataclasses.replace(rule, familiar=wrong), "range of inputs")
    manifest, tensors = headed.pack()
    manifest["rules"][0]["familiar"][0] = "something.else"
    refuses(lambda: spare.Model.unpack(manifest, tensors, headed.domain), "ranges of its inputs are those of other")
    del manifest["rules"][0]["familiar"]
    kept = {name: tensor for name, tensor in tensors.items() if ".familiar." not in name}
    assert spare.Model.unpack(manifest, kept, headed.domain).familiar(shifted(data(5, 3), 2, 500.0)).all()


def test_a_network_that_moves_others_looks_at_them() -> None:
    """Where a process has a network, what no head holds is looked at in the world, as others; else it is not."""
    layout = RowLayout(toy.domain, toy.domain.actions[0].name, Shell(1), False)
    heads = (HeadSpec(0, ("d",)),)
    still = watched(layout, heads, HeadSpec(0, (), 1, True))
    moved = watched(layout, heads, HeadSpec(0, ("own.x", "own.mass")))
    assert {one.name for one in still.gauges} == {"d", "target.x", "target.y", "target.mass"}
    others = [one for one in moved.gauges if one.group == 1]
    assert [(one.name, one.used) for one in others] == [
        ("others.x", True),
        ("others.y", False),
        ("others.mass", True),
    ]


@pytest.mark.slow
def test_spare_predict_warns(model: spare.Model, tmp_path: pathlib.Path) -> None:
    """`spare predict` names inputs that are outside, in words and in JSON."""
    far = shifted(data(3, 6), 2, 500.0)
    model.save(tmp_path / "m.spare")
    far.save(tmp_path / "d.parquet")
    words = run("predict", "m.spare", "d.parquet", folder=tmp_path)
    assert "unlike the training data: do not rely on it\n  target.mass = " in words.stdout, words.stderr
    found = json.loads(run("predict", "m.spare", "d.parquet", "--json", folder=tmp_path).stdout)
    one = next(one for one in found["warnings"] if one["name"] == "target.mass")
    assert one["value"] > one["high"] > one["low"]
    assert not one["used"]
