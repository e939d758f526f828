"""Experience: slices, splits, views, weights, resolutions; and one result from any layout of arrays."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spare
from spare.lab.worlds import queue as toy
from tests.strategies import examples, experience, plan, seeds

ARRAYS = ("values", "next_values", "offsets", "ids", "action", "objects", "parameters", "weights")


def same(one: spare.Experience, other: spare.Experience) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert {n: c.tolist() for n, c in one.info.items() if n != "gain"} == {
        n: c.tolist() for n, c in other.info.items() if n != "gain"
    }


def test_views_give_back_what_went_in(data: spare.Experience) -> None:
    assert len(data) == 3
    assert data.counts.tolist() == [2, 3, 1]
    assert data.states[1].ids == ("c", "a", "long name")
    np.testing.assert_array_equal(data.states[1].values, data.values[2:5])
    np.testing.assert_array_equal(data.next_states[-1].values, data.next_values[5:])
    assert data.actions[0] == spare.ActionCall("slide", ("a",), (0.5, -0.25))
    assert data.actions[1] == spare.ActionCall("swap", ("long name", "a"))
    assert [state.ids for state in data.states[1:]] == [("c", "a", "long name"), ("b",)]
    one = data[-2]
    assert (one.weight, one.info["episode"], one.info["note"], one.info["good"]) == (2.5, 7, "ü", False)
    assert (data[1].state.ids, data[np.int64(1)].state.ids) == (one.state.ids, one.state.ids)
    assert repr(data) == "Experience('tray': 3 transitions, 1 to 3 objects)"
    for wrong in (3, -4):
        with pytest.raises(IndexError):
            data.states[wrong]
        with pytest.raises(IndexError):
            data[wrong]


@pytest.mark.parametrize(
    "index", [slice(1, None), slice(None, None, -1), [2, 0, 2], np.array([True, False, True]), [], slice(0, 0)]
)
def test_slices_keep_everything_together(data: spare.Experience, index: Any) -> None:
    part = data[index]
    rows = np.arange(3)[index].tolist()
    assert len(part) == len(rows)
    for k, i in enumerate(rows):
        assert part.states[k].ids == data.states[i].ids
        np.testing.assert_array_equal(part.states[k].values, data.states[i].values)
        np.testing.assert_array_equal(part.next_states[k].values, data.next_states[i].values)
        assert part.actions[k] == data.actions[i]
        assert (part[k].weight, part[k].info["note"]) == (data[i].weight, data[i].info["note"])
    assert part.metadata == data.metadata


@examples(40)
@given(st.integers(0, 7), seeds, st.integers(1, 9))
def test_cutting_and_joining_gives_the_whole(structure: int, seed: int, cut: int) -> None:
    domain = _domains(structure)
    whole = experience(domain, random.Random(seed), 10, (1, 5)).weighted(np.arange(10) / 7)
    same(spare.concatenate([whole[:cut], whole[cut:]]), whole)
    same(spare.concatenate([whole[i : i + 1] for i in range(10)]), whole)
    order = np.random.default_rng(seed).permutation(10)
    same(whole[order][np.argsort(order)], whole)
    assert whole[order].weights.tolist() == whole.weights[order].tolist()


_CACHE: dict[int, spare.Domain] = {}


def _domains(structure: int) -> spare.Domain:
    if structure not in _CACHE:
        _CACHE[structure] = plan(random.Random(structure)).domain
    return _CACHE[structure]


def test_splits_and_shuffles_follow_the_seed() -> None:
    data = toy.generate(40, 0).weighted(np.arange(40.0))
    train, test = data.split(test=10, seed=3)
    assert (len(train), len(test)) == (30, 10)
    assert sorted([*train.weights, *test.weights]) == list(range(40))
    same(data.split(test=10, seed=3)[1], test)
    assert data.split(test=10, seed=4)[1].weights.tolist() != test.weights.tolist()
    assert len(data.split(test=0.25, seed=0)[1]) == 10
    same(data.shuffle(1), data.shuffle(1))
    assert data.shuffle(1).weights.tolist() != data.shuffle(2).weights.tolist()
    assert sorted(data.shuffle(1).weights) == list(range(40))
    for wrong in (0, 40, 50, -1, 0.0, 0.001):
        with pytest.raises(spare.DataError, match="need at least one"):
            data.split(test=wrong, seed=0)


def test_concatenation_of_what_does_not_fit(data: spare.Experience, tray: spare.Domain, columns: dict) -> None:
    with pytest.raises(spare.DataError, match="nothing to concatenate"):
        spare.concatenate([])
    with pytest.raises(spare.DataError, match="cannot concatenate"):
        spare.concatenate([data, toy.generate(2, 0)])
    numbered = spare.Experience.from_arrays(tray, **columns, metadata={"source": "by hand"})
    both = spare.concatenate([data, numbered])
    assert both.states[3].ids == ("0", "1")
    assert (dict(both.info), both.metadata) == ({}, {"source": "by hand"})


def test_weights(data: spare.Experience) -> None:
    again = data.weighted([3, 0, 1])
    assert again.weights.tolist() == [3.0, 0.0, 1.0]
    assert data.weights.tolist() == [1.0, 2.5, 0.0]
    assert again.fingerprint != data.fingerprint
    for wrong, message in (
        ([1.0, -1.0, 1.0], "transition 1: weight -1.0"),
        ([1.0, 1.0, float("nan")], "transition 2: weight nan"),
        ([float("inf"), 1.0, 1.0], "transition 0: weight inf"),
        ([1.0, 1.0], "expected 3 numbers"),
        (["a", "b", "c"], "expected 3 numbers"),
    ):
        with pytest.raises(spare.DataError, match=message):
            data.weighted(wrong)


def test_resolutions_are_taken_from_the_data_and_reported() -> None:
    domain = spare.Domain(
        "open",
        properties=[
            spare.Property("wide"),
            spare.Property("still"),
            spare.Property("zero"),
            spare.Property("given", resolution=0.5),
            spare.Property("static", static=True),
        ],
        references=[],
        actions=[spare.Action("a", objects=("t",))],
    )
    values = np.array([[0.0, -3.0, 0.0, 1.0, 1.0], [10.0, -3.0, 0.0, 2.0, 5.0]])
    after = values + np.array([10.0, 0.0, 0.0, 1.0, 0.0])
    data = spare.Experience.from_arrays(
        domain, values=values, next_values=after, offsets=[0, 2], action=[0], objects=[[0]]
    )
    resolved, filled = data.resolved()
    assert filled == pytest.approx({"wide": 0.02, "still": 0.003, "zero": 0.001})
    assert resolved.domain.resolutions.tolist() == pytest.approx([0.02, 0.003, 0.001, 0.5])
    assert not data.domain.resolved
    same(resolved, data)
    assert resolved.resolved() == (resolved, {})


LAYOUTS = {
    "float64": lambda a: a.astype(np.float64) if a.dtype.kind == "f" else a,
    "lists": lambda a: a.tolist(),
    "fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "small whole numbers": lambda a: a.astype(np.int16) if a.dtype.kind == "i" and a.min() >= 0 else a,
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_any_layout_gives_the_same_experience(tray: spare.Domain, columns: dict, layout: str) -> None:
    expected = spare.Experience.from_arrays(tray, **columns)
    changed = {name: LAYOUTS[layout](column) for name, column in columns.items()}
    before = {name: np.array(column) for name, column in changed.items()}
    for column in changed.values():
        if isinstance(column, np.ndarray):
            column.flags.writeable = False
    same(spare.Experience.from_arrays(tray, **changed), expected)
    for name, column in changed.items():
        np.testing.assert_array_equal(column, before[name])


def test_whole_number_values_are_as_good(tray: spare.Domain, columns: dict) -> None:
    whole = {"values": np.arange(18).reshape(6, 3), "next_values": np.arange(18, dtype=np.uint8).reshape(6, 3)}
    one = spare.Experience.from_arrays(tray, **{**columns, **whole})
    floats = {name: column.astype(np.float32) for name, column in whole.items()}
    same(one, spare.Experience.from_arrays(tray, **{**columns, **floats}))


def test_inputs_stay_writeable_and_apart(tray: spare.Domain, columns: dict) -> None:
    extra = {"ids": np.arange(6), "weights": np.ones(3), "info": {"k": np.arange(3)}}
    data = spare.Experience.from_arrays(tray, **columns, **extra)
    kept = data.values.copy()
    for column in [*columns.values(), extra["ids"], extra["weights"], extra["info"]["k"]]:
        assert column.flags.writeable
        column[...] = 99
    np.testing.assert_array_equal(data.values, kept)
    assert (data.ids.tolist(), data.weights.tolist()) == ([0, 1, 2, 3, 4, 5], [1, 1, 1])
    assert data.info["k"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        data.values[0, 0] = 1


def test_the_same_data_through_another_domain(data: spare.Experience, tray: spare.Domain) -> None:
    finer = tray.with_resolutions({"x": 1e-5})
    assert data.with_domain(finer).domain is finer
    with pytest.raises(spare.DataError, match="belong to"):
        data.with_domain(toy.domain)


def test_fingerprints_see_every_number(data: spare.Experience, tray: spare.Domain, columns: dict) -> None:
    seen = {spare.Experience.from_arrays(tray, **columns).fingerprint}
    for name, position in (("values", (0, 0)), ("next_values", (5, 1)), ("parameters", (2, 1)), ("objects", (1, 0))):
        changed = {key: column.copy() for key, column in columns.items()}
        changed[name][position] = 1 if name == "objects" else changed[name][position] + 1e-3
        seen.add(spare.Experience.from_arrays(tray, **changed).fingerprint)
    assert len(seen) == 5
    assert data.fingerprint == data[:].fingerprint
