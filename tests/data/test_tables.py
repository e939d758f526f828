"""Long tables of every library, there and back."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import spare
from spare.lab.worlds import queue as toy

FRAMES = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "pyarrow": pa.table, "dict": dict}
libraries = pytest.mark.parametrize("library", [*FRAMES])


def same(one: spare.Experience, other: spare.Experience) -> None:
    for name in ("values", "next_values", "offsets", "ids", "action", "objects", "parameters", "weights"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name, strict=name != "ids")
    assert one.ids.dtype.kind == other.ids.dtype.kind


@libraries
def test_round_trip_with_text_ids_and_two_templates(data: spare.Experience, tray: spare.Domain, library: str) -> None:
    table = data.to_table(library)
    assert isinstance(table, {"pyarrow": pa.Table}.get(library, FRAMES[library]))
    same(spare.Experience.from_table(tray, table), data)


@libraries
def test_round_trip_of_whole_number_ids(library: str) -> None:
    data = toy.generate(6, 4)
    same(spare.Experience.from_table(toy.domain, data.to_table(library)), data)


@libraries
def test_templates_that_share_role_and_parameter_names(library: str) -> None:
    domain = spare.Domain(
        "shared",
        properties=[spare.Property("x", resolution=0.1)],
        references=[],
        actions=[
            spare.Action("push", objects=("target",), parameters=("d",)),
            spare.Action("pull", objects=("tool", "target"), parameters=("a", "d")),
        ],
    )
    data = spare.Experience.from_arrays(
        domain,
        values=np.arange(6.0)[:, None],
        next_values=np.arange(6.0)[:, None] + 1,
        offsets=[0, 3, 6],
        ids=["a", "b", "c", "d", "e", "f"],
        action=["push", "pull"],
        objects=[[2, 0], [1, 2]],
        parameters=[[0.5, 0.0], [0.25, 0.75]],
    )
    same(spare.Experience.from_table(domain, data.to_table(library)), data)
    assert spare.Experience.from_table(domain, data.to_table(library)).actions[0].objects == ("c",)


@libraries
def test_rows_in_any_order_and_transitions_by_first_appearance(tray: spare.Domain, library: str) -> None:
    rows = {
        "transition": ["second", "first", "second", "first"],
        "object": [1, 5, 2, 6],
        "x": [0, 1, 2, 3],
        "y": [0.0, 0.0, 0.0, 0.0],
        "width": [1.0, 1.0, 2.0, 2.0],
        "next_x": [0, 1, 2, 4],
        "next_y": [0.0, 0.0, 0.0, 1.0],
        "action": ["swap", "slide", "swap", "slide"],
        "tray": [0, 6, 0, 6],
        "first": [2, 0, 2, 0],
        "second": [1, 0, 1, 0],
        "dx": [0.0, 0.5, 0.0, 0.5],
        "dy": [0.0, 0.25, 0.0, 0.25],
    }
    data = spare.Experience.from_table(tray, FRAMES[library](rows))
    assert [state.ids for state in data.states] == [(1, 2), (5, 6)]
    assert list(data.actions) == [
        spare.ActionCall("swap", (2, 1)),
        spare.ActionCall("slide", (6,), (0.5, 0.25)),
    ]
    np.testing.assert_array_equal(data.next_states[1].values, [[1, 0, 1], [4, 1, 2]])
    np.testing.assert_array_equal(data.weights, [1, 1])


@libraries
def test_next_objects_in_another_order(data: spare.Experience, tray: spare.Domain, library: str) -> None:
    table = data.to_table("pandas")
    table["next_object"] = table["object"]
    moved = table.loc[[0, 1, 4, 2, 3, 5], ["next_object", "next_x", "next_y"]].reset_index(drop=True)
    table[["next_object", "next_x", "next_y"]] = moved
    assert table["next_object"].tolist() != table["object"].tolist()
    frame: Any = table if library == "pandas" else polars.DataFrame({name: table[name].tolist() for name in table})
    np.testing.assert_array_equal(spare.Experience.from_table(tray, frame).next_values, data.next_values)


def test_nullable_and_missing_cells(data: spare.Experience, tray: spare.Domain) -> None:
    table = data.to_table("pandas").astype({"x": "Float64", "transition": "Int64"})
    same(spare.Experience.from_table(tray, table), data)
    table.loc[3, "next_y"] = float("nan")
    with pytest.raises(spare.DataError, match="transition 1, object 'a', property 'y': nan in the next state"):
        spare.Experience.from_table(tray, table)
    assert spare.Experience.from_table(tray, table, drop_invalid=True).dropped == 1
    frame = polars.DataFrame({name: table[name].tolist() for name in table if name not in ("x", "transition")})
    frame = frame.with_columns(
        polars.Series("x", [None, 1.0, 1.0, 1.0, 1.0, 1.0]), polars.Series("transition", [0, 0, 1, 1, 1, 2])
    )
    with pytest.raises(spare.DataError, match="transition 0, object 'a', property 'x': nan in the state"):
        spare.Experience.from_table(tray, frame)


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("action", 3, "slide", "transition 1, object 'a': column 'action' is 'slide' here and 'swap'"),
        ("weight", 3, 9.0, "transition 1, object 'a': column 'weight' is "),
        ("tray", 0, "zz", "transition 0.*column 'tray'"),
        ("object", 2, "a", "transition 1: object id 'a' appears twice"),
        ("x", 2, "tall", "column 'x', row 2: 'tall' is not a number"),
    ],
)
def test_cells_that_make_no_sense(
    data: spare.Experience, tray: spare.Domain, column: str, row: int, value: object, message: str
) -> None:
    table = data.to_table("pandas").astype({column: object})
    table.loc[row, column] = value
    with pytest.raises(spare.DataError, match=message):
        spare.Experience.from_table(tray, table)


def test_whole_columns_that_make_no_sense(data: spare.Experience, tray: spare.Domain) -> None:
    table = data.to_table("pandas")
    with pytest.raises(spare.DataError, match="columns missing: next_x, dy; it has transition, object"):
        spare.Experience.from_table(tray, table.drop(columns=["next_x", "dy"]))
    with pytest.raises(spare.DataError, match="no rows"):
        spare.Experience.from_table(tray, table[:0])
    with pytest.raises(spare.DataError, match="unknown action 'fly'; valid: slide, swap"):
        spare.Experience.from_table(tray, table.assign(action="fly"))
    with pytest.raises(spare.DataError, match="transition 0, action 'slide': its tray 'q' is not in the state"):
        spare.Experience.from_table(tray, table.assign(tray="q"))
    with pytest.raises(
        spare.DataError,
        match="expected a pandas or polars frame, a pyarrow table or a dictionary of columns, got a list",
    ):
        spare.Experience.from_table(tray, [1])
    with pytest.raises(spare.UsageError, match="unknown library 'excel'; valid: pandas, polars, pyarrow, dict"):
        data.to_table("excel")


def test_columns_of_a_dictionary(data: spare.Experience, tray: spare.Domain) -> None:
    columns = data.to_table("dict")
    same(spare.Experience.from_table(tray, {name: column.tolist() for name, column in columns.items()}), data)
    for wrong, message in (
        ({"x": [1.0]}, r"column 'x' has shape \(1,\), column 'transition' has 6 rows"),
        ({"x": np.ones((6, 2))}, r"column 'x' has shape \(6, 2\)"),
        ({"x": [[1], [1, 2], 3, 4, 5, 6]}, "column 'x': expected an array, got lists of different lengths"),
    ):
        with pytest.raises(spare.DataError, match=message):
            spare.Experience.from_table(tray, {**columns, **wrong})
    twice = pa.table([*data.to_table("pyarrow").columns, pa.array([1.0] * 6)], [*columns, "x"])
    with pytest.raises(spare.DataError, match="2 columns are called 'x'"):
        spare.Experience.from_table(tray, twice)


def test_a_library_that_is_not_installed(data: spare.Experience, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(spare.UsageError, match=r"polars is not installed; pip install 'spare-models\[tables\]'"):
        data.to_table("polars")


def test_the_table_is_never_changed(data: spare.Experience, tray: spare.Domain) -> None:
    table = data.to_table("pandas")
    before = table.copy(deep=True)
    spare.Experience.from_table(tray, table)
    pandas.testing.assert_frame_equal(table, before)


@libraries
def test_names_that_would_share_a_column_are_refused(library: str) -> None:
    domain = spare.Domain(
        "clash",
        properties=[spare.Property("x", resolution=0.1)],
        references=[],
        actions=[spare.Action("move", objects=("target",), parameters=("x",))],
    )
    data = spare.Experience.from_arrays(
        domain, values=[[1.0]], next_values=[[2.0]], offsets=[0, 1], action=[0], objects=[[0]], parameters=[[3.0]]
    )
    with pytest.raises(spare.SpareError, match="'x'"):
        data.to_table(library)
    with pytest.raises(spare.SpareError, match="'x'"):
        spare.Experience.from_table(domain, FRAMES[library]({"x": [1.0]}))
