"""Experience one transition at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import spare
from spare.lab.worlds import queue as toy


def step(ids: tuple = (1, 2), after: tuple | None = None, **info: Any) -> tuple[tuple, dict]:
    values = np.arange(3 * len(ids), dtype=np.float32).reshape(-1, 3)
    order = [ids.index(one) for one in (after or ids)] if set(after or ids) == set(ids) else list(range(len(ids)))
    state, following = spare.State(ids, values), spare.State(after or ids, values[order] + np.array([1, 0, 0]))
    return (state, spare.ActionCall("usher", (ids[0],), (0.5,)), following), info


def test_objects_are_matched_by_id_and_arrays_are_copied() -> None:
    builder = spare.Builder(toy.domain)
    (state, call, following), _ = step((7, "b", 9), after=(9, 7, "b"))
    assert builder.add(state, call, following) is builder
    kept = state.values.copy()
    state.values[:] = 99
    following.values[:] = 99
    data = builder.build(source="loop")
    assert data.states[0].ids == ("7", "b", "9")
    np.testing.assert_array_equal(data.values, kept)
    np.testing.assert_array_equal(data.next_values, kept + np.array([1, 0, 0]))
    assert data.actions[0] == spare.ActionCall("usher", ("7",), (0.5,))
    assert data.metadata == {"source": "loop"}


def test_extending_gives_the_same_experience_back(data: spare.Experience) -> None:
    again = spare.Builder(data.domain).extend(data[i] for i in range(3)).build(**data.metadata)
    for name in ("values", "next_values", "offsets", "ids", "action", "objects", "parameters", "weights"):
        np.testing.assert_array_equal(getattr(again, name), getattr(data, name))
    assert {name: column.dtype for name, column in again.info.items()} == {
        name: column.dtype for name, column in data.info.items()
    }
    assert again.metadata == data.metadata


def test_a_bad_transition_is_refused_and_the_rest_stays() -> None:
    builder = spare.Builder(toy.domain)
    good, _ = step()
    builder.add(*good, weight=2.0, k=1)
    changed = spare.State((1, 2), good[2].values + np.array([0, 0, 1]))
    for attempt, message in (
        (lambda: builder.add(*step((1, 2), after=(1, 3))[0], k=1), r"transition 1: .*before: \[2\], only after: \[3\]"),
        (lambda: builder.add(*good), "info .* differs"),
        (lambda: builder.add(*good, other=1), "info .* differs"),
        (lambda: builder.add(*good, k=1, weight=-1.0), "transition 1: weight -1.0"),
        (lambda: builder.add(*good, k=1, weight=float("nan")), "transition 1: weight nan"),
        (lambda: builder.add(good[0], good[1], changed, k=1), "transition 1, object 1: static property 'mass' changes"),
        (lambda: builder.add(*step((1, "1"))[0], k=1), "transition 1.*'1' appears twice"),
    ):
        with pytest.raises(spare.DataError, match=message):
            attempt()
    assert len(builder) == 1
    assert builder.build().weights.tolist() == [2.0]


def test_dropping_is_counted() -> None:
    builder = spare.Builder(toy.domain, drop_invalid=True)
    (state, call, following), _ = step()
    builder.add(spare.State((1, 2), np.full((2, 3), np.nan)), call, following)
    builder.add(state, spare.ActionCall("usher", (1,), (float("inf"),)), following)
    builder.add(state, call, following)
    data = builder.build()
    assert (len(builder), len(data), data.dropped) == (1, 1, 2)
    with pytest.raises(spare.DataError, match="no transition was added"):
        spare.Builder(toy.domain).build()
