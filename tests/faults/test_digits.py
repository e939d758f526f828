"""Numbers far from 0, dates and missing cells: nothing is lost on the way in, in learning, or on the way out."""

from __future__ import annotations

import dataclasses
import datetime
import json
import pathlib
import pickle
import warnings
from typing import Any

import jax
import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import spare
from spare.data import files
from spare.io import manifest as manifests
from spare.lab.worlds import queue, tray
from spare.language.references import Pointer, Shell
from spare.learning.bindings import Bindings
from spare.learning.familiar import learn_familiar
from spare.learning.fit import FitResult, make_dataset, prepare
from spare.learning.general.rows import action_rows
from spare.learning.presets import Heads, Schedule, find_preset
from spare.model.headrule import HeadRule
from spare.model.model import Model
from spare.testing import check_domain, check_model
from tests import oracle_heads as heads
from tests.faults import far
from tests.faults.helpers import one_sentence, refuses, run, sealed
from tests.learning.helpers import quick
from tests.rules import fresh_predictor, make_rule

NEAR, FAR = far.generate(220, 0)
HELD_NEAR, HELD_FAR = far.generate(120, 1)
LIBRARIES = ("pandas", "polars", "pyarrow", "dict")


def assert_same(found: spare.Experience, expected: spare.Experience) -> None:
    """The same bits in the same type."""
    for name in ("values", "next_values", "parameters"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def per_value(model: Model, data: spare.Experience) -> float:
    """Mean log density of a value."""
    return float(model.log_prob(data).sum() / (len(data.values) * len(data.domain.dynamic)))


@pytest.mark.parametrize("which", range(4))
def test_digits_of_float64_are_kept(which: int) -> None:
    """Map coordinates in mm, a clock in 10 ms, a counter at 1e9: 64-bit input whose changes need 64 bits keeps them."""
    arrays = far.columns(5, 0, np.where(np.arange(5) == which, far.SHIFT, 0.0))
    data = spare.Experience.from_arrays(far.domain, **arrays)
    np.testing.assert_array_equal(data.values, arrays["values"])
    np.testing.assert_array_equal(data.next_values, arrays["next_values"])
    assert data.double
    one = data.states[0]
    np.testing.assert_array_equal(spare.State(one.ids, arrays["values"][: len(one)]).values, one.values)


def test_digits_of_whole_numbers_are_kept() -> None:
    """Counts near 1e9 as 64-bit integers: none becomes its neighbour."""
    domain = spare.Domain(
        "counter",
        properties=[spare.Property("ticks", resolution=1.0)],
        references=[],
        actions=[spare.Action("turn", objects=("wheel",))],
    )
    counts = 1_000_000_000 + np.arange(10, dtype=np.int64)[:, None]
    given: dict[str, Any] = {"offsets": np.arange(11), "action": np.zeros(10, int), "objects": np.zeros((10, 1), int)}
    data = spare.Experience.from_arrays(domain, values=counts, next_values=counts + 1, **given)
    np.testing.assert_array_equal(data.values.astype(np.int64), counts)
    np.testing.assert_array_equal((data.next_values - data.values), 1)
    small = spare.Experience.from_arrays(domain, values=counts - 10**9, next_values=counts - 10**9, **given)
    assert small.values.dtype == np.float32


def test_digits_that_32_bits_hold_cost_nothing() -> None:
    """64-bit input near the origin becomes the same 32-bit numbers as before, and the same file."""
    arrays = far.columns(20, 0, np.zeros(5))
    wide = spare.Experience.from_arrays(far.domain, **arrays)
    single = {name: np.float32(arrays[name]) for name in ("values", "next_values")}
    narrow = spare.Experience.from_arrays(far.domain, **{**arrays, **single})
    assert wide.values.dtype == np.float32
    assert wide.fingerprint == narrow.fingerprint
    assert_same(wide, narrow)


def test_digits_of_properties_without_a_resolution() -> None:
    """Kept until learning takes resolutions from the data; then 32 bits, where those are enough for them."""
    open_domain = spare.Domain(
        "far",
        properties=[spare.Property(p.name, unit=p.unit, static=p.static) for p in far.domain.properties],
        references=far.domain.references,
        actions=far.domain.actions,
    )
    arrays = far.columns(20, 0)
    data = spare.Experience.from_arrays(open_domain, **arrays)
    np.testing.assert_array_equal(data.values, arrays["values"])
    resolved, filled = data.resolved()
    assert resolved.double
    arrays = far.columns(20, 0, np.zeros(5))
    data = spare.Experience.from_arrays(open_domain, **arrays)
    np.testing.assert_array_equal(data.values, arrays["values"])
    again, near = data.resolved()
    assert again.values.dtype == np.float32
    assert near["x"] == pytest.approx(filled["x"], rel=1e-6)


def test_digits_through_files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet gives back the same bits, also of row groups that 32 bits would do for by themselves."""
    monkeypatch.setattr(files, "ROW_GROUP", 16)
    calm = far.columns(16, 2, np.zeros(5))
    mixed = spare.concatenate([spare.Experience.from_arrays(far.domain, **calm, precise=True), HELD_FAR])
    mixed.save(tmp_path / "far.parquet")
    assert_same(spare.Experience.load(tmp_path / "far.parquet", far.domain), mixed)
    parts = list(spare.Experience.stream(tmp_path / "far.parquet", far.domain))
    assert len(parts) > 2
    assert_same(spare.concatenate(parts), mixed)


@pytest.mark.parametrize("library", LIBRARIES)
def test_digits_through_tables(library: str) -> None:
    """to_table and from_table of every library give back the same bits."""
    table = HELD_FAR.to_table(library)
    np.testing.assert_array_equal(np.asarray(table["t"]), far.columns(120, 1)["values"][:, 2])
    assert_same(spare.Experience.from_table(far.domain, table), HELD_FAR)


def test_digits_through_builder_and_pickles() -> None:
    """States, builders, slices, concatenation and pickles carry the same bits."""
    built = spare.Builder(far.domain).extend(HELD_FAR[i] for i in range(len(HELD_FAR))).build()
    assert_same(built, HELD_FAR)
    state = HELD_FAR.states[3]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(state)).values, state.values)
    np.testing.assert_array_equal(spare.State(state.ids, state.values.astype(object)).values, state.values)
    kept = pickle.loads(pickle.dumps(HELD_FAR.columns))
    assert kept.values.dtype == np.float64
    np.testing.assert_array_equal(kept.values, HELD_FAR.values)
    assert_same(spare.concatenate([HELD_FAR[:50], HELD_FAR[50:]]), HELD_FAR)
    assert HELD_FAR.fingerprint == HELD_FAR[np.arange(len(HELD_FAR))].fingerprint != HELD_FAR.rounded().fingerprint


def test_digits_count_when_things_are_compared() -> None:
    """Copies and pickles of 64-bit experience and states equal the original; the same rounded to 32 bits does not."""
    for one in (HELD_FAR, HELD_FAR.states[3], HELD_FAR[3]):
        assert pickle.loads(pickle.dumps(one)) == one
    assert pickle.loads(pickle.dumps(HELD_FAR)).values.dtype == np.float64
    assert hash(pickle.loads(pickle.dumps(HELD_FAR))) == hash(HELD_FAR)
    assert HELD_FAR.rounded() != HELD_FAR
    calm = far.columns(5, 2, np.zeros(5))
    parts = {name: np.float32(calm[name]) for name in ("values", "next_values", "parameters")}
    wide, narrow = (spare.Experience.from_arrays(far.domain, **{**calm, **parts}, precise=one) for one in (True, False))
    np.testing.assert_array_equal(wide.values, narrow.values)
    assert (wide == narrow) == (hash(wide) == hash(narrow)) == (wide.fingerprint == narrow.fingerprint)


def test_digits_of_thresholds_in_formulas(tmp_path: pathlib.Path) -> None:
    """A border on a map that moves by 10 cm is another formula: domains differ, whom it finds too, and files tell."""
    moved = far.make_domain(far.SHIFT, far.BORDER + 0.1)
    assert moved != far.domain
    assert moved == far.make_domain(far.SHIFT, far.BORDER + 0.1)
    here, there = (Bindings(FAR.with_domain(one), "usher").mask(("east", (0,))) for one in (far.domain, moved))
    between = (FAR.values[:, 0] > far.BORDER + far.SHIFT[0]) & (FAR.values[:, 0] <= far.BORDER + 0.1 + far.SHIFT[0])
    assert (here != there).any()
    assert between[here != there].all()
    shell = Shell(1, (Pointer("east", (0,)),))
    predictor = fresh_predictor(jax.random.key(0), 1 + 2 * len(far.domain.properties), (2, 4), (4,))
    rule = make_rule(far.domain, "usher", shell, predictor, np.ones(4))
    spare.Model(far.domain, [rule], np.ones(4)).save(tmp_path / "m.spare")
    refuses(lambda: spare.load(tmp_path / "m.spare", moved), "reference 'east'")


def test_digits_in_references() -> None:
    """Differences between objects and thresholds of the world are exact: who is found is whom it would be near 0."""
    here, there = Bindings(NEAR, "usher"), Bindings(FAR, "usher")
    for reference in far.domain.references:
        expression = (reference.name, (0,))
        np.testing.assert_array_equal(here.mask(expression), there.mask(expression))
        assert here.mask(expression).any()


def test_digits_under_a_model_made_by_hand() -> None:
    """Scores, means and draws of the true model of a world do not change when the world is somewhere else."""
    data, model, shift = queue.generate(20, 0), queue.true_model(), np.array([5.4e6, 500_000.0, 0.0])
    parts = {name: getattr(data, name).astype(np.float64) + shift for name in ("values", "next_values")}
    others = {name: getattr(data, name) for name in ("offsets", "action", "objects", "parameters")}
    there = spare.Experience.from_arrays(queue.domain, **parts, **others)
    np.testing.assert_allclose(model.log_prob(there), model.log_prob(data), atol=0.02)
    mean, std = model.moments(there)
    np.testing.assert_allclose(mean - shift, model.mean(data), atol=1e-5)
    assert (np.abs(model.sample(there, 0) - mean) <= 6 * std + 1e-9).all()
    said = model.predict(there.states[0], there.actions[0])
    np.testing.assert_allclose(said.mean, mean[: len(said.mean)], rtol=0, atol=1e-8)


def test_digits_of_static_properties() -> None:
    """A static place that moves by a metre on a map is refused as moving: rounding there is less than a micrometre."""
    arrays = far.columns(5, 0, np.array([0, 0, 0, 0, 5.4e6]))
    arrays["next_values"][3, 4] += 1.0
    refuses(lambda: spare.Experience.from_arrays(far.domain, **arrays), "static property 'mass' changes from 54000")


@pytest.fixture(scope="module")
def learned() -> tuple[FitResult, FitResult]:
    """What is learned near the origin and far from it, with the same settings; no rare outliers, whose draws vary."""
    chosen = quick(training={"steps": 400, "outliers": False}, max_references=2)
    return (
        spare.fit(far.near_domain, NEAR, seed=0, preset=chosen),
        spare.fit(far.domain, FAR, seed=0, preset=chosen),
    )


@pytest.mark.slow
def test_digits_in_learning(learned: tuple[FitResult, FitResult]) -> None:
    """With offsets or without them the same lists and, within 0.01 nats per value, the same score on unseen data."""
    near, found = learned
    assert not [note for note in found.notes if "apart" in note]
    assert found.model.rules[0].show() == near.model.rules[0].show()
    assert len(found.model.rules[0].gamma) == 2
    assert per_value(found.model, HELD_FAR) == pytest.approx(per_value(near.model, HELD_NEAR), abs=0.01)


@pytest.mark.slow
def test_digits_of_absolute_targets() -> None:
    """The paper's preset predicts new values, not changes: of these, too, nothing is lost."""
    chosen, scores, lists = quick("paper", max_references=1), [], []
    for domain, train, held in ((far.near_domain, NEAR, HELD_NEAR), (far.domain, FAR, HELD_FAR)):
        model = spare.fit(domain, train, seed=0, preset=chosen).model
        assert set(model.rules[0].spec.targets) == {"absolute"}
        scores.append(per_value(model, held))
        lists.append(model.rules[0].show())
    assert lists[0] == lists[1]
    assert scores[0] == pytest.approx(scores[1], abs=0.01)


@pytest.mark.slow
def test_digits_in_warnings(learned: tuple[FitResult, FitResult]) -> None:
    """Far from 0 as near it, few states like the data are warned of; others with numbers as they are in the world."""
    model = learned[1].model
    assert (~model.familiar(HELD_FAR)).mean() <= 0.08
    columns = far.columns(20, 3)
    for name in ("values", "next_values"):
        columns[name][:, 2] += 500.25
    late = spare.Experience.from_arrays(far.domain, **columns)
    for i, some in enumerate(model.warnings(late)):
        one = next(one for one in some if one.name == "target.t")
        target = late.offsets[i] + late.objects[i, 0]
        assert one.value == pytest.approx(late.values[target, 2], abs=1e-3)
        assert one.low == pytest.approx(FAR.values[:, 2].min(), abs=1.0)
        assert one.high == pytest.approx(FAR.values[:, 2].max(), abs=1.0)
    said = model.predict(late.states[0], late.actions[0])
    assert {one.name for one in said.warnings} == {one.name for one in model.warnings(late)[0]}
    assert f"target.t = {late.values[late.objects[0, 0], 2]:.0f}"[:-1] in said.explain()


@pytest.mark.slow
def test_digits_in_predictions(learned: tuple[FitResult, FitResult], tmp_path: pathlib.Path) -> None:
    """Moments, draws, quantiles and explanations are those of the same data near 0, and come back from a file."""
    near, model = learned[0].model, learned[1].model
    mean, std = model.moments(HELD_FAR)
    expected, spread = near.moments(HELD_NEAR)
    assert mean.dtype == np.float64
    assert (np.abs(mean - far.SHIFT - expected) <= 0.2 * spread + 1e-5)[:, :4].all()
    np.testing.assert_allclose(std, spread, rtol=0.1, atol=1e-5)
    draws = np.stack([model.sample(HELD_FAR, k) - mean for k in range(60)])
    np.testing.assert_allclose(np.sqrt(np.square(draws[:, :, :4] / std[:, :4]).mean(axis=(0, 1))), 1.0, atol=0.05)
    state, action = HELD_FAR.states[0], HELD_FAR.actions[0]
    said = model.predict(state, action)
    np.testing.assert_allclose(said.mean, mean[: len(state)], rtol=0, atol=1e-6)
    text = said.explain(HELD_FAR.next_states[0])
    moved = int(np.flatnonzero(said.predicted)[0])
    assert f"t {state.values[moved, 2]:.3f}"[:-1] in text
    assert "inputs count x from 540000" in text
    model.save(tmp_path / "m.spare")
    again = spare.load(tmp_path / "m.spare", far.domain)
    np.testing.assert_array_equal(again.log_prob(HELD_FAR), model.log_prob(HELD_FAR))
    again.save(tmp_path / "again.spare")
    assert (tmp_path / "m.spare").read_bytes() == (tmp_path / "again.spare").read_bytes()
    whole = spare.State(state.ids, np.round(state.values / 128) * 128)  # 32 bits hold these, and the model needs more
    assert whole.values.dtype == np.float32
    assert np.isfinite(again.predict(whole, action).std).all()
    assert again.predict(whole, action).mean.dtype == np.float64


@pytest.mark.slow
def test_digits_in_the_contract_of_models(learned: tuple[FitResult, FitResult]) -> None:
    """`check_model` and `check_domain` find nothing wrong: draws follow the density far from 0 as well."""
    check_model(learned[1].model, HELD_FAR[:12]).require()
    assert not [one for one in check_domain(far.domain, HELD_FAR).findings if one.serious or "apart" in one.problem]


def shifted(data: spare.Experience, shift: tuple[float, float]) -> spare.Experience:
    """Trays somewhere else on a map."""
    places, ends = np.array([*shift, 0, 0, 0, 0]), np.array([*shift, 0])
    return spare.Experience.from_arrays(
        tray.domain,
        values=data.values.astype(np.float64) + places,
        next_values=data.next_values.astype(np.float64) + places,
        offsets=data.offsets,
        action=data.action,
        objects=data.objects,
        parameters=data.parameters.astype(np.float64) + ends,
    )


def test_digits_of_ranges_in_frames() -> None:
    """What a rule in a frame has seen is as narrow on a map as at the origin: rounding is no excuse in 64 bits."""
    found = []
    for shift in ((0.0, 0.0), (500_000.0, 5.4e6)):
        data, _ = prepare(tray.domain, shifted(tray.generate(60, 0), shift))
        action = data.domain.actions[0]
        dataset = make_dataset(data, action.name, quick())
        assert dataset.features.framed
        seen = np.ones(len(data), bool)
        found.append(learn_familiar(dataset, Shell(len(action.objects), ()), seen, None, seen))
    for near, there in zip(*found, strict=True):
        np.testing.assert_allclose(there, near, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_digits_in_frames() -> None:
    """Trays on a map: places that an action names, frames and their mirrors lose nothing either."""
    preset, scores, lists = quick(max_references=2), [], []
    for shift in ((0.0, 0.0), (500_000.0, 5.4e6)):
        result = spare.fit(tray.domain, shifted(tray.generate(120, 0), shift), seed=0, preset=preset)
        scores.append(per_value(result.model, shifted(tray.generate(60, 1), shift)))
        lists.append(result.model.rules[0].show())
    assert lists[0] == lists[1]
    assert scores[0] == pytest.approx(scores[1], abs=0.01)


@pytest.mark.slow
def test_digits_on_the_command_line(learned: tuple[FitResult, FitResult], tmp_path: pathlib.Path) -> None:
    """evaluate, predict and inspect, each in a process of its own: the scores of the same data near 0."""
    found = {}
    for name, result, held in zip(("near_domain", "domain"), learned, (HELD_NEAR, HELD_FAR), strict=True):
        model, data = tmp_path / f"{name}.spare", tmp_path / f"{name}.parquet"
        result.model.save(model)
        held[:12].save(data)
        which = ("--domain", f"tests.faults.far:{name}")
        scored = run("evaluate", model, data, "--json", "--draws", 10, *which, folder=tmp_path)
        said = run("predict", model, data, "--json", *which, folder=tmp_path)
        assert (scored.returncode, said.returncode) == (0, 0), scored.stderr + said.stderr
        found[name] = (json.loads(scored.stdout), json.loads(said.stdout))
    near, there = found["near_domain"], found["domain"]
    assert there[0]["per_value"] == pytest.approx(near[0]["per_value"], abs=0.01)
    assert there[0]["rmse"] == pytest.approx(near[0]["rmse"], rel=0.05)
    for one, other in zip(there[1]["objects"], near[1]["objects"], strict=True):
        for name, shift in zip(far.domain.dynamic_names, far.SHIFT, strict=False):
            assert abs(one["mean"][name] - shift - other["mean"][name]) < 0.2 * other["std"][name] + 1e-5
            assert abs(one["observed"][name] - shift - other["observed"][name]) < 1e-4
    assert "counts x from 540000" in str(learned[1].model)
    assert "counts" not in str(learned[0].model)
    assert "64-bit numbers" in run("inspect", tmp_path / "domain.spare", folder=tmp_path).stdout


@pytest.mark.slow
def test_digits_that_even_64_bits_lack() -> None:
    """At 1.7e9 s 64-bit numbers are 0.24 us apart: learning says so if the resolution is finer, and is finite."""
    fine = spare.Domain(
        "far",
        properties=[spare.Property(p.name, p.unit, 1e-8, p.static) for p in far.domain.properties],
        references=(),
        actions=far.domain.actions,
    )
    data = FAR[:24].with_domain(fine)
    result = spare.fit(fine, data, seed=0, preset=quick(max_references=0))
    assert [note for note in result.notes if "64-bit numbers are 2.4e-07 apart, more than its resolution 1e-08" in note]
    assert np.isfinite(result.model.log_prob(data)).all()


HEADS = dataclasses.replace(
    find_preset("default"),
    heads=Heads(search=Schedule(steps=60), final=Schedule(steps=100), members=2, max_references=1),
)


def exact(samples: int, seed: int) -> tuple[spare.Experience, spare.Experience]:
    """(near the origin, far from it): the same numbers but for the offsets, to the last bit of 32."""
    near = far.columns(samples, seed, np.zeros(5))
    near |= {name: np.round(near[name] * 1024) / 1024 for name in ("values", "next_values")}
    there = near | {name: near[name] + far.SHIFT for name in ("values", "next_values")}
    return (
        spare.Experience.from_arrays(far.near_domain, **near),
        spare.Experience.from_arrays(far.domain, **there),
    )


@pytest.fixture(scope="module")
def headed() -> tuple[FitResult, FitResult]:
    """Rules with heads, learned near the origin and far from it with the same settings."""
    near, there = exact(80, 0)
    return (
        spare.fit(far.near_domain, near, seed=0, preset=HEADS),
        spare.fit(far.domain, there, seed=0, preset=HEADS),
    )


def test_digits_that_heads_see() -> None:
    """Inputs and changes of rules with heads are those of the same data near 0, but for what they are counted from."""
    maps = tuple(shifted(tray.generate(30, 0), one) for one in ((0.0, 0.0), (500_000.0, 5.4e6)))
    for pair in (exact(30, 0), maps):
        found = []
        for data in pair:
            rows = action_rows(data, 0, np.zeros((len(data.values), len(data.domain.dynamic))))
            assert bool(rows.origins) == data.double
            shell = Shell(len(rows.roles), (Pointer(data.domain.references[0].name, (0,)),))
            names = [name for name, one in rows.layout(shell).entries.items() if one.about not in ("slot", "around")]
            x = rows.x(shell, names, np.arange(len(rows.owner)))
            found.append((x - x.mean(axis=0), rows.changes(relative=True)))
        for near, there in zip(*found, strict=True):
            np.testing.assert_allclose(there, near, rtol=0, atol=2e-5)


@pytest.mark.slow
def test_digits_in_learning_of_heads(headed: tuple[FitResult, FitResult], tmp_path: pathlib.Path) -> None:
    """With offsets or without them the same heads and, within 0.001 nats per value, the same score on unseen data."""
    near, there = (one.model for one in headed)
    assert isinstance(there.rules[0], HeadRule)
    assert isinstance(near.rules[0], HeadRule)
    assert headed[1].notes == headed[0].notes  # nothing about digits
    assert [one.spec for one in there.rules[0].heads] == [one.spec for one in near.rules[0].heads]
    assert there.rules[0].show() == near.rules[0].show()
    here, held = exact(60, 1)
    assert per_value(there, held) == pytest.approx(per_value(near, here), abs=1e-3)
    mean, std = there.moments(held)
    expected, spread = near.moments(here)
    assert mean.dtype == np.float64
    assert (np.abs(mean - far.SHIFT - expected) <= 0.02 * spread + 1e-5)[:, :4].all()
    draws = np.stack([there.sample(held, k) - mean for k in range(40)])
    assert (np.abs(draws[:, :, :4]) <= 40 * std[:, :4] + 1e-9).all()
    assert "counts x from 540000" in str(there)
    assert "counts" not in str(near)
    there.save(tmp_path / "m.spare")
    again = spare.load(tmp_path / "m.spare", far.domain)
    assert again == there
    np.testing.assert_array_equal(again.log_prob(held), there.log_prob(held))
    said = again.predict(held.states[0], held.actions[0])
    np.testing.assert_allclose(said.mean, mean[: len(said.mean)], rtol=0, atol=1e-6)
    assert "inputs count x from 540000" in said.explain()


@pytest.mark.slow
def test_digits_in_warnings_of_heads(headed: tuple[FitResult, FitResult]) -> None:
    """Far from 0 as near it the same states are warned of, with numbers as they are in the world."""
    near, there = (one.model for one in headed)
    here, held = exact(60, 1)
    np.testing.assert_array_equal(there.familiar(held), near.familiar(here))
    columns = far.columns(20, 3)
    for name in ("values", "next_values"):
        columns[name][:, 2] += 500.25
    late = spare.Experience.from_arrays(far.domain, **columns)
    for i, some in enumerate(there.warnings(late)):
        one = next(one for one in some if one.name == "target.t")
        assert one.value == pytest.approx(late.values[late.offsets[i] + late.objects[i, 0], 2], abs=1e-3)
        assert one.low == pytest.approx(far.SHIFT[2], abs=10.0)


def test_head_rules_with_origins_that_lie() -> None:
    """Refused: a rule with heads whose origins are not numbers, or not one for each property and parameter."""
    manifest, tensors = make_data_model().pack()
    for origins, message in (
        (["x"], "one of its origins is 'x'"),
        ([1e300] * 4, "one of its origins is '1e[+]300'"),
        ({}, "origins is not a list"),
        ([1.0], "origins: 4 numbers are needed, got 1"),
    ):
        changed = {**manifest, "rules": [{**manifest["rules"][0], "origins": origins}]}
        refuses(lambda m=changed: Model.unpack(*manifests.decode(sealed(m, tensors)), heads.domain), message)


def make_data_model() -> Model:
    """A model with a rule with heads, with drawn numbers."""
    return Model(heads.domain, [heads.make_rule(0)], np.ones(2))


def test_model_with_origins_that_lie() -> None:
    """Refused: origins that are not numbers, or not one for each property and parameter."""
    manifest, tensors = queue.true_model().pack()
    for origins, message in (
        (["x"], "one of its origins is 'x'"),
        ([1e300] * 4, "one of its origins is '1e[+]300'"),
        ([True] * 4, "one of its origins is 'True'"),
        ({}, "origins is not a list"),
        ([1.0], "origins: 4 numbers are needed, got 1"),
    ):
        changed = {**manifest, "rules": [{**manifest["rules"][0], "origins": origins}]}
        refuses(lambda m=changed: Model.unpack(*manifests.decode(sealed(m, tensors)), queue.domain), message)


def clock(unit: str = "s") -> spare.Domain:
    """Objects with a clock and a place."""
    return spare.Domain(
        "clock",
        properties=[spare.Property("t", unit=unit, resolution=1e-3), spare.Property("x", resolution=1e-3)],
        references=[],
        actions=[spare.Action("wait", objects=("who",), parameters=("until",))],
    )


TIMES = np.array(["2024-03-01T12:00:00.010", "2024-03-01T12:00:00.020", "2024-03-01T12:00:01.5"], "datetime64[ms]")
SECONDS = np.array([1709294400.01, 1709294400.02, 1709294401.5])


def timed(times: Any = TIMES, x: Any = (0.1, 0.2, 0.3), **more: Any) -> dict[str, Any]:
    """A long table of three transitions of one object."""
    later = times if not isinstance(times, np.ndarray) else times.copy()
    ids = {"transition": [0, 1, 2], "object": ["a"] * 3, "who": ["a"] * 3}
    return {**ids, "t": times, "next_t": later, "x": x, "next_x": [0.1, 0.2, 0.3], "until": [1.0, 2.0, 3.0], **more}


def tables(columns: dict[str, Any]) -> dict[str, Any]:
    """The same columns in every library."""
    return {
        "dict": columns,
        "pandas": pandas.DataFrame(columns),
        "polars": polars.DataFrame(columns),
        "pyarrow": pa.table(columns),
    }


@pytest.mark.parametrize("library", LIBRARIES)
def test_dates_become_seconds(library: str) -> None:
    """datetime64 columns of every library count from 1970-01-01T00:00:00Z, which the metadata say."""
    data = spare.Experience.from_table(clock(), tables(timed(until=TIMES))[library])
    np.testing.assert_array_equal(data.values[:, 0], SECONDS)
    np.testing.assert_array_equal(data.parameters[:, 0], SECONDS)
    assert data.metadata["times"] == dict.fromkeys(("t", "until"), "seconds since 1970-01-01T00:00:00Z")


def test_dates_with_a_zone() -> None:
    """Instants with a zone are the same in UTC; with and without a zone in one column is refused."""
    berlin = pandas.to_datetime(TIMES).tz_localize("UTC").tz_convert("Europe/Berlin")
    for times in (
        pandas.Series(berlin),
        polars.Series(TIMES).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
        pa.array(TIMES).cast(pa.timestamp("ms", "UTC")),
        np.array(list(berlin), object),
        [one.to_pydatetime() for one in berlin],
        TIMES.astype("datetime64[ns]"),
    ):
        data = spare.Experience.from_table(clock(), timed(times))
        np.testing.assert_array_equal(data.values[:, 0], SECONDS)
    plain = datetime.datetime(2024, 3, 1)
    refuses(
        lambda: spare.Experience.from_table(clock(), timed([plain, plain, berlin[0]])),
        "column 'next_t' holds times with a zone and times without; give all of them in UTC",
    )
    refuses(
        lambda: spare.Experience.from_table(clock(), timed([plain, plain, 3.0])),
        "column 'next_t' holds dates beside other values",
    )
    refuses(
        lambda: spare.Experience.from_table(clock("h"), timed()),
        "property 't': dates become seconds since 1970-01-01T00:00:00Z, and its unit is 'h'",
    )


def test_dates_that_are_missing() -> None:
    """NaT counts as missing: named, or left out."""
    times = TIMES.copy()
    times[1] = "NaT"
    for library, table in tables(timed(times)).items():
        refuses(
            lambda table=table: spare.Experience.from_table(clock(), table),
            "transition 1, object 'a', property 't': nan in the state",
        )
        left = spare.Experience.from_table(clock(), table, drop_invalid=True)
        assert (len(left), left.dropped) == (2, 1), library


def test_missing_cells() -> None:
    """Masked arrays, None, pandas' NA, nulls of polars and pyarrow: the transition, object and property are named."""
    masked = np.ma.array([0.1, 777.0, 0.3], mask=[False, True, False])
    counted = np.ma.array([1, 777, 3], mask=[False, True, False])
    nothing = [0.1, None, 0.3]
    for x in (
        masked,
        counted,
        np.array(nothing, object),
        pandas.Series([0.1, pandas.NA, 0.3], dtype="Float64"),
        pandas.Series([1, pandas.NA, 3], dtype="Int64"),
        pandas.Series([0.1, pandas.NA, 0.3], dtype=object),
        polars.Series(nothing),
        polars.Series([1, None, 3]),
        pa.array(nothing),
        pa.array([1, None, 3]),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = timed(SECONDS, x)
            refuses(
                lambda table=table: spare.Experience.from_table(clock(), table),
                "transition 1, object 'a', property 'x': nan in the state; fix the row, or pass drop_invalid=True",
            )
            assert spare.Experience.from_table(clock(), table, drop_invalid=True).dropped == 1
    refuses(
        lambda: spare.Experience.from_table(clock(), timed(SECONDS, until=pandas.array([1, None, 3], "Int64"))),
        "transition 1, action 'wait', parameter 'until': nan",
    )
    refuses(
        lambda: spare.Experience.from_table(clock(), timed(SECONDS, transition=pandas.array([0, None, 2], "Int64"))),
        "table: row 1 has no transition",
    )


def test_masked_arrays_in_flat_arrays_and_states() -> None:
    """What a mask hides is never read: missing values are named, masked ids and indices refused."""
    arrays = far.columns(3, 0)
    hidden = np.ma.array(arrays["values"], mask=False)
    hidden[1, 0] = np.ma.masked
    given = {**arrays, "values": hidden}
    refuses(lambda: spare.Experience.from_arrays(far.domain, **given), "transition 0, object 1, property 'x': nan")
    assert spare.Experience.from_arrays(far.domain, **given, drop_invalid=True).dropped == 1
    objects = np.ma.array(arrays["objects"], mask=[[True], [False], [False]])
    refuses(
        lambda: spare.Experience.from_arrays(far.domain, **{**arrays, "objects": objects}),
        "objects: entry 0 is masked; none may be missing here",
    )
    state = spare.State(range(3), hidden[:3])
    model = spare.Model(far.domain, [], np.ones(4))
    refuses(lambda: model.predict(state, spare.ActionCall("usher", (0,), (0.5,))), "object 1, property 'x': nan")


def test_dates_that_cannot_be_read_on_the_command_line(tmp_path: pathlib.Path) -> None:
    """A Parquet file with timestamps where numbers belong is refused with a sentence."""
    import pyarrow.parquet as pq

    HELD_FAR[:4].save(tmp_path / "far.parquet")
    table = pq.read_table(tmp_path / "far.parquet")
    times = pa.array([datetime.datetime(2024, 3, 1)] * 4, pa.timestamp("us"))
    pq.write_table(table.set_column(table.column_names.index("weight"), "weight", times), tmp_path / "far.parquet")
    result = run("fit", "far.parquet", "--out", "m.spare", "--domain", "tests.faults.far:domain", folder=tmp_path)
    assert "column 'weight' is timestamp[us], expected double" in one_sentence(result)


def test_digits_of_a_single_transition():
    """What never varies, as in a single transition, keeps its digits too: 1700000000.7 stays what it is."""
    domain = spare.Domain(
        "one",
        properties=[spare.Property("x", resolution=0.01)],
        references=[],
        actions=[spare.Action("wait", ("who",), ("until",))],
    )
    call = spare.ActionCall("wait", ("a",), (1700000000.7,))
    before, after = (spare.State(("a",), np.array([[x]])) for x in (0.0, 1.0))
    built = spare.Builder(domain).add(before, call, after).build()
    assert built.actions[0].parameters == (1700000000.7,)
    again = spare.Experience.from_table(domain, built.to_table("dict"))
    assert again.actions[0].parameters == (1700000000.7,)


def test_dates_as_parameters() -> None:
    """In flat arrays they are the same seconds as in a table, and the metadata say so too."""
    parts = {"values": [[0.0, 0.1]] * 3, "next_values": [[0.0, 0.2]] * 3, "offsets": range(4), "action": [0] * 3}
    data = spare.Experience.from_arrays(clock(), **parts, objects=[[0]] * 3, parameters=TIMES)
    np.testing.assert_array_equal(data.parameters[:, 0], SECONDS)
    assert data.metadata["times"] == {"until": "seconds since 1970-01-01T00:00:00Z"}
