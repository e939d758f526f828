"""Bad input: each error names the transition, the object, the property, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spare
from spare.lab.worlds import queue as toy


def refuse(domain: spare.Domain, columns: dict, message: str, **changes: Any) -> None:
    with pytest.raises(spare.DataError, match=message):
        spare.Experience.from_arrays(domain, **{**columns, **changes})


def with_cell(array: np.ndarray, position: tuple[int, ...], value: float) -> np.ndarray:
    array = array.copy()
    array[position] = value
    return array


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite(tray: spare.Domain, columns: dict, value: float) -> None:
    ids = {"ids": ["a", "b", "c", "a", "d", "b"]}
    advice = "pass drop_invalid=True"
    for name, label in (("values", "state"), ("next_values", "next state")):
        wrong = with_cell(columns[name], (3, 1), value)
        message = f"transition 1, object 'a', property 'y': -?(nan|inf) in the {label}; .*{advice}"
        refuse(tray, columns, message, **{name: wrong}, **ids)
        kept = spare.Experience.from_arrays(tray, **{**columns, name: wrong}, drop_invalid=True)
        assert (len(kept), kept.dropped, kept.counts.tolist()) == (2, 1, [2, 1])
    wrong = with_cell(columns["parameters"], (2, 1), value)
    refuse(tray, columns, f"transition 2, action 'slide', parameter 'dy': -?(nan|inf); .*{advice}", parameters=wrong)
    assert spare.Experience.from_arrays(tray, **{**columns, "parameters": wrong}, drop_invalid=True).dropped == 1


def test_numbers_too_large_for_float32_count_as_infinite(tray: spare.Domain, columns: dict) -> None:
    wrong = with_cell(columns["values"].astype(np.float64), (0, 0), 1e39)
    refuse(tray, columns, "transition 0, object 0, property 'x': inf in the state", values=wrong)


def test_everything_dropped_leaves_an_empty_experience(tray: spare.Domain, columns: dict) -> None:
    wrong = np.full((6, 3), np.nan)
    none = spare.Experience.from_arrays(tray, **{**columns, "values": wrong}, drop_invalid=True)
    assert (len(none), none.dropped) == (0, 3)
    assert "0 transitions" in repr(none)


def test_parameters_that_an_action_does_not_take_are_ignored(tray: spare.Domain, columns: dict) -> None:
    odd = with_cell(columns["parameters"], (1, 0), np.nan)
    data = spare.Experience.from_arrays(tray, **{**columns, "parameters": odd})
    assert data.parameters[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offsets": [0, 2, 2, 6]}, "transition 1: it has no objects"),
        ({"offsets": [0, 4, 3, 6]}, "transition 1: it has no objects"),
        ({"offsets": [1, 2, 5, 6]}, "start with 0"),
        ({"offsets": [0.0, 2.0, 5.0, 6.0]}, "whole numbers"),
        ({"offsets": []}, "start with 0"),
        ({"offsets": [0, 2, 5, 7]}, r"values: expected shape \(7, 3\)"),
        ({"values": np.zeros((6, 2))}, r"values: expected shape \(6, 3\), one row per object, got \(6, 2\)"),
        ({"next_values": np.zeros(18)}, "next_values: expected shape"),
        ({"values": np.zeros((6, 3), complex)}, "values: expected real numbers, got complex128"),
        ({"values": np.full((6, 3), "a")}, "values: expected real numbers"),
        ({"ids": ["a", "b", "c", "c", "d", "e"]}, "transition 1: object id 'c' appears twice"),
        ({"ids": [3, 3, 1, 2, 3, 1]}, "transition 0: object id 3 appears twice"),
        ({"ids": ["a", "b"]}, "expected 6 ids, one per object row"),
        ({"ids": ["a", "b", "", "c", "d", "e"]}, "transition 1: object id '' must be 1 to 256 printable"),
        ({"ids": ["a", "b", "a\x1b[2J", "c", "d", "e"]}, "transition 1: object id .* printable"),
        ({"ids": ["a", "b", "x" * 257, "c", "d", "e"]}, "transition 1: object id"),
        ({"ids": np.arange(6.0)}, "ids: expected text or whole numbers, got float64"),
        ({"ids": np.array([None] * 6, object)}, "transition 0: object id None is neither text nor a whole number"),
        ({"action": [0, 2, 0]}, "transition 1: action 2 is not one of the 2 templates"),
        ({"action": [0, -1, 0]}, "transition 1: action -1"),
        ({"action": ["slide", "jump", "slide"]}, "transition 1: unknown action 'jump'; valid: slide, swap"),
        ({"action": [0.0, 1.0, 0.0]}, "action: expected template names or indices, got float64"),
        ({"action": [0, 1]}, "action: expected 3 entries"),
        ({"objects": [[2, 0], [0, 1], [0, 0]]}, "transition 0, action 'slide': its tray is object 2, but .* 0 to 1"),
        ({"objects": [[0, 0], [0, -1], [0, 0]]}, "transition 1, action 'swap': its second is object -1"),
        ({"objects": [[0], [0], [0]]}, "action 'swap' names 2 objects, got 1"),
        ({"objects": [[0.0, 0.0]] * 3}, "local object indices"),
        ({"objects": [[0, 0]] * 2}, "local object indices"),
        ({"parameters": None}, r"transition 0, action 'slide': it takes 2 parameters \(dx, dy\), got 0"),
        ({"parameters": np.zeros((3, 1))}, "it takes 2 parameters"),
        ({"parameters": np.zeros((3, 3))}, "parameters .*got 3"),
        ({"parameters": np.zeros((2, 2))}, r"parameters: expected shape \(3, parameters\)"),
        ({"weights": [1.0, -1.0, 1.0]}, "transition 1: weight -1.0 must be finite and not negative"),
        ({"info": {"k": [1, 2]}}, "info 'k': expected 3 numbers or texts"),
        ({"metadata": {"k": object()}}, "metadata must be made of JSON values"),
        ({"metadata": {"k": float("nan")}}, "metadata must be made of JSON values"),
    ],
)
def test_columns_that_make_no_sense(tray: spare.Domain, columns: dict, changes: dict, message: str) -> None:
    refuse(tray, columns, message, **changes)


def test_unknown_columns(tray: spare.Domain, columns: dict) -> None:
    columns["colour"] = [1]
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        spare.Experience.from_arrays(tray, **columns)


def test_static_properties_must_not_change(tray: spare.Domain, columns: dict) -> None:
    wrong = with_cell(columns["next_values"], (4, 2), 1.1)
    refuse(tray, columns, r"transition 1, object 2: static property 'width' changes from 1 to 1\.1", next_values=wrong)


def test_next_ids_in_any_order(tray: spare.Domain, columns: dict) -> None:
    ids = np.array(["a", "b", "c", "d", "e", "a"])
    order = np.array([1, 0, 4, 2, 3, 5])
    data = spare.Experience.from_arrays(
        tray, **{**columns, "next_values": columns["next_values"][order]}, ids=ids, next_ids=ids[order]
    )
    np.testing.assert_array_equal(data.next_values, columns["next_values"])
    with pytest.raises(spare.DataError, match=r"transition 1: .*only before: \['e'\], only after: \['f'\]"):
        spare.Experience.from_arrays(tray, **columns, ids=ids, next_ids=["a", "b", "c", "d", "f", "a"])
    with pytest.raises(spare.DataError, match="use one kind"):
        spare.Experience.from_arrays(tray, **columns, ids=ids, next_ids=np.arange(6))
    with pytest.raises(spare.DataError, match="transition 0: object id 'a' appears twice"):
        spare.Experience.from_arrays(tray, **columns, ids=ids, next_ids=["a", "a", "c", "d", "e", "a"])


# -- one state, one action --------------------------------------------------------------------------------------------


def _state(ids: tuple = (1, 2), **cells: float) -> spare.State:
    values = np.ones((len(ids), 3), np.float32)
    for column, value in cells.items():
        values[-1, ("x", "y", "mass").index(column)] = value
    return spare.State(ids, values)


GOOD = spare.ActionCall("usher", (1,), (0.5,))


@pytest.mark.parametrize(
    ("state", "call", "message"),
    [
        (lambda: _state(x=np.nan), GOOD, "object 2, property 'x': nan; values must be finite"),
        (lambda: _state(mass=np.inf), GOOD, "object 2, property 'mass': inf"),
        (lambda: _state(ids=()), GOOD, "it has no objects"),
        (lambda: _state(ids=(1, 1)), GOOD, "object id 1 appears twice"),
        (lambda: spare.State((1,), np.zeros((1, 2))), GOOD, r"expected 1 objects x 3 properties \(x, y, mass\)"),
        (lambda: spare.State((1, 2), np.zeros((1, 3))), GOOD, "expected 2 objects x 3 properties"),
        (_state, spare.ActionCall("usher", (7,), (0.5,)), r"'usher': its target 7 is not in the state \(\[1, 2\]\)"),
        (_state, spare.ActionCall("usher", (1,), ()), r"it takes 1 parameters \(d\), got 0"),
        (_state, spare.ActionCall("usher", (1,), (0.5, 0.5)), "it takes 1 parameters"),
        (_state, spare.ActionCall("usher", (1, 2), (0.5,)), "it names 1 objects, got 2"),
        (_state, spare.ActionCall("usher", (1,), (float("nan"),)), "parameter 'd': nan"),
        (_state, spare.ActionCall("usher", (1,), (1e39,)), r"parameter 'd': 1e\+39"),
        (_state, spare.ActionCall("shove", (1,), (0.5,)), "unknown action 'shove'; valid: usher"),
    ],
)
def test_bad_states_and_actions(state: Callable[[], spare.State], call: spare.ActionCall, message: str) -> None:
    model = spare.Model(toy.domain, [], np.ones(2))
    with pytest.raises(spare.DataError, match=message):
        model.predict(state(), call)
    with pytest.raises(spare.DataError, match=f"transition 0, .*{message}"):
        spare.Builder(toy.domain).add(state(), call, state())


def test_a_state_is_made_of_numbers() -> None:
    for values in (np.array([["a", "b", "c"]]), np.array([[1j, 0, 0]]), np.array([[{}, 1, 2]])):
        with pytest.raises(
            spare.DataError, match=r"state: expected real numbers, got |state, row 0: .* is not a number"
        ):
            spare.State((1,), values)
    with pytest.raises(spare.DataError, match="object 1, property 'x': inf"):
        spare.Model(toy.domain, [], np.ones(2)).predict(spare.State((1,), np.array([[1e39, 0, 0]])), GOOD)
