"""Bad input in worlds with types: every sentence names the transition, the object, the property, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pytest

import spare
from spare.errors import DataError
from spare.testing import check_domain
from tests.house import PUT, domain, state, things


def said(call: Callable[[], Any]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


def built(before: spare.State, after: spare.State | None = None, call: spare.ActionCall = PUT) -> spare.Experience:
    return spare.Builder(domain).add(before, call, before if after is None else after).build()


def test_a_category_that_is_not_one_names_the_nearest() -> None:
    text = said(lambda: state(a={"colour": "gren"}))
    assert "object 'a', property 'colour': 'gren' is not one of red, green (did you mean 'green'?)" in text
    text = said(lambda: built(state(), call=spare.ActionCall("put", ("a", "t"), (0.1, "hig"))))
    assert "parameter 'gear': 'hig' is not one of low, high (did you mean 'high'?)" in text


def test_a_boolean_of_0_3() -> None:
    assert "object 'b', property 'broken': 0.3 is neither true (1) nor false (0)" in said(
        lambda: state(b={"broken": 0.3})
    )
    good = built(state())
    values = good.values.copy()
    values[1, domain.property_names.index("broken")] = 0.3
    text = said(lambda: _again(good, values=values))
    assert "transition 0, object 'b', property 'broken': 0.3 is neither true (1) nor false (0) (in the state)" in text


def _again(data: spare.Experience, **changes: Any) -> spare.Experience:
    names = ("values", "next_values", "offsets", "ids", "action", "objects", "parameters", "pairs", "next_pairs")
    return spare.Experience.from_arrays(data.domain, **{**{name: getattr(data, name) for name in names}, **changes})


def test_bounds_and_whole_numbers() -> None:
    assert "'charge': 1.5 is not between 0 and 1" in said(lambda: state(r={"charge": 1.5}))
    assert "'moves': -1 is below 0" in said(lambda: state(r={"moves": -1}))
    assert "'moves': 0.5 is not a whole number" in said(lambda: state(r={"moves": 0.5}))


def test_facts_about_unknown_objects() -> None:
    assert "object 'a', link 'on': 'z' is not in the state" in said(lambda: state(a={"on": "z"}))
    text = said(lambda: spare.make_state(domain, things(), world={"raining": 1}, relations={"near": [("a", "z")]}))
    assert "relation 'near': 'z' is not in the state" in text
    text = said(lambda: spare.make_state(domain, things(), world={"raining": 1}, relations={"nere": []}))
    assert "unknown relation 'nere'" in text
    assert "did you mean 'near'" in text
    assert "no property 'x'" in said(lambda: state(r={"x": 1.0}))
    assert "unknown type 'blok'" in said(lambda: state(a={"type": "blok"}))
    assert "property 'raining' is missing" in said(lambda: spare.make_state(domain, things()))


def test_relations_between_wrong_types() -> None:
    text = said(lambda: built(state(a={"on": "r"})))
    assert "object 'a', link 'on': it leads to 'r', which is a robot, not a block or table" in text
    wrong = spare.make_state(domain, things(), world={"raining": 1}, relations={"near": [("a", "t")]})
    assert "relation 'near': its target 't' is a table, not a block" in said(lambda: built(wrong))
    call = spare.ActionCall("put", ("t", "a"), (0.1, "low"))
    assert "'put': its block 't' is a table, not a block" in said(lambda: built(state(), call=call))


def test_a_link_with_two_values() -> None:
    pairs = {"on": [("b", "a")]}
    text = said(lambda: spare.make_state(domain, things(), world={"raining": 1}, relations=pairs))
    assert "object 'b', link 'on': it leads to 't' and to 'a'; a link has one value" in text


def test_circles_where_none_may_be() -> None:
    text = said(lambda: built(state(b={"on": "a"})))
    assert "following link 'on' from it leads back to it" in text
    assert "acyclic" in text
    two = {**things(), "u": {"type": "table", "x": 1.0}}
    ring = {"leads": [("t", "u"), ("u", "t")]}
    text = said(lambda: built(spare.make_state(domain, two, world={"raining": 1}, relations=ring)))
    assert "following relation 'leads' from it leads back to it" in text
    near = {"near": [("a", "b"), ("b", "a")]}  # there circles are allowed, and closures end
    assert len(built(spare.make_state(domain, things(), world={"raining": 1}, relations=near)))


def test_a_type_without_objects() -> None:
    report = check_domain(domain, built(state()))
    assert not any("type" in one.subject for one in report.findings)
    lonely = spare.make_state(domain, {"t": things()["t"]}, world={"raining": 0})
    text = str(check_domain(domain, built(lonely, call=spare.ActionCall("wait"))))
    assert "type 'robot': there is no object of it in these data" in text
    tables = {"block": pandas.DataFrame({"transition": [], "object": [], "x": []})}
    assert "table 'block': it has no rows" in said(lambda: spare.Experience.from_table(domain, tables))


def test_links_and_pairs_lead_to_what_is_there() -> None:
    after = things()
    del after["b"]
    after["a"]["on"] = "t"
    gone = spare.make_state(domain, after, world={"raining": 1})
    data = built(state(), gone)
    assert data.vanished is not None
    assert data.vanished.tolist() == [False, True, False, False, False]
    values = data.next_values.copy()
    values[0, domain.property_names.index("on")] = 1
    text = said(lambda: _again(data, next_values=values, vanished=data.vanished))
    assert "object 'a', link 'on': it leads to 'b', which is not in the next state" in text
    values = data.values.copy()
    values[0, domain.property_names.index("on")] = 9
    assert "it leads to row 9 of the state, which has 5 objects" in said(lambda: _again(data, values=values))


def test_one_type_keeps_its_objects() -> None:
    plain = spare.Domain("plain", properties=[spare.Property("x")], actions=[spare.Action("go", ("who",))])
    call = spare.ActionCall("go", ("a",))
    one, two = spare.State(("a", "b"), np.zeros((2, 1))), spare.State(("a",), np.zeros((1, 1)))
    assert "state and next state hold different objects" in said(lambda: spare.Builder(plain).add(one, call, two))


def test_bad_cells_of_tables_name_their_place() -> None:
    table = built(state()).to_table()
    pairs = {"near": built(state()).to_pairs("near")}
    none = {"leads": {"source": [], "target": []}}
    for column, value, text in (
        ("colour", "grean", "object 'a', column 'colour': 'grean' is not one of red, green (did you mean 'green'?)"),
        ("type", "blok", "row 0, object 'a': unknown type 'blok'"),
        ("on", "z", "object 'a', link 'on': there is no object 'z' in this transition"),
        ("broken", "maybe", "object 'a', column 'broken': 'maybe' is neither true nor false"),
        ("charge", 0.25, "object 'a': it is of type 'block', which has no property 'charge', but 0.25 is there"),
    ):
        bad = table.copy()
        bad[column] = bad[column].astype(object)
        bad.loc[0, column] = value
        for frame in (bad, polars.from_pandas(bad)) if column in ("colour", "on") else (bad,):
            told = said(lambda frame=frame: spare.Experience.from_table(domain, frame, relations={**pairs, **none}))
            assert text in told
    odd = {"near": {"transition": [0], "source": ["a"], "target": ["z"]}, **none}
    told = said(lambda: spare.Experience.from_table(domain, table, relations=odd))
    assert "relation 'near', row 0: there is no object 'z' in transition 0" in told


def test_a_million_pairs() -> None:
    """Cost grows with the pairs alone: intake, a batch, and references with their closures."""
    import time

    from spare.learning.bindings import Bindings

    count, edges = 20_000, 1_000_000
    cities = spare.Domain(
        "cities",
        properties=[spare.Property("x", resolution=0.1)],
        relations=[spare.Edges("road", static=True)],
        actions=[spare.Action("go", ("who",))],
    )
    rng = np.random.default_rng(0)
    begin = time.perf_counter()
    data = spare.Experience.from_arrays(
        cities,
        values=np.zeros((count, 1)),
        next_values=np.zeros((count, 1)),
        offsets=[0, count],
        action=["go"],
        objects=[[0]],
        pairs={
            "road": {
                "offsets": [0, edges],
                "source": rng.integers(0, count, edges),
                "target": rng.integers(0, count, edges),
            }
        },
    )
    bindings = Bindings(data, "go")
    assert 20 < bindings.mask(("road", (0,))).sum() < 90
    assert bindings.mask(("road*", (0,))).sum() == count - 1
    assert time.perf_counter() - begin < 30
