"""Types, kinds and stored relations: what is declared, what is refused, what formulas see."""

from __future__ import annotations

import numpy as np
import pytest

import spare
from spare.errors import DefinitionError
from spare.learning.bindings import Bindings
from tests.house import PUT, domain, state


def refused(text: str, **parts: object) -> None:
    given: dict = {"actions": [spare.Action("go")], **parts}
    with pytest.raises(DefinitionError, match=text):
        spare.Domain("bad", **given)


def test_columns_are_the_union_of_types() -> None:
    assert domain.property_names == ("x", "colour", "on", "broken", "holding", "charge", "moves", "raining", "type")
    assert domain.types == ("block", "table", "robot", "world")
    assert domain.has.astype(int).tolist() == [
        [1, 1, 1, 1, 0, 0, 0, 0, 1],
        [1, 0, 0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 1, 1, 1, 0, 1],
        [0, 0, 0, 0, 0, 0, 0, 1, 1],
    ]


def test_references_for_free() -> None:
    names = [one.name for one in domain.references]
    assert names[:3] == ["left", "reds", "world"]
    assert {"on", "on-", "on*", "on-*", "holding", "holding-", "near", "near-", "near*", "near-*"} <= {*names}
    assert "holding*" not in names  # robots hold blocks, which hold nothing
    own = spare.Domain(
        "own",
        types=[spare.Type("block", [spare.Property("on", kind=spare.Link())])],
        references=[spare.Reference("on", lambda o, p: o.on == p.on)],
        actions=[spare.Action("go")],
    )
    assert [one.name for one in own.references] == ["on", "on-", "on*", "on-*"]
    assert own.reference("on").relation.describe() == "formula/1"


def test_whom_references_find() -> None:
    data = spare.Builder(domain).add(state(), PUT, state()).build()
    bindings, ids = Bindings(data, "put"), data.ids

    def found(name: str, *arguments: int) -> list[str]:
        return ids[bindings.mask((name, arguments))].tolist()

    assert found("left", 0) == ["t"]  # robots have no x: comparisons with them are false
    assert found("reds") == ["a"]
    assert found("world") == ["world"]
    assert found("everyone") == ["a", "b", "t", "r"]
    assert found("on", 0) == ["b"]
    assert found("on*", 0) == ["b", "t"]
    assert found("on-", 1) == ["b"]
    assert found("on-*", 1) == ["a", "b"]
    assert found("near", 0) == ["b"]
    assert found("near-", 0) == []


def test_what_networks_see() -> None:
    seen = domain.encode(
        [domain.property(name) for name in ("colour", "on", "broken", "charge", "type")], state().values
    )
    names = ["red", "green", "on", "broken", "charge", "block", "table", "robot", "world"]
    block, robot = (dict(zip(names, seen[row].tolist(), strict=True)) for row in (1, 3))
    assert block == {
        "red": 0,
        "green": 1,
        "on": 1,
        "broken": -1,
        "charge": 0,
        "block": 1,
        "table": 0,
        "robot": 0,
        "world": 0,
    }
    assert robot["red"] == robot["green"] == robot["broken"] == 0
    assert robot["charge"] == 0.5
    assert robot["robot"] == 1
    assert domain.action("put").inputs == ("d", "gear=low", "gear=high")
    np.testing.assert_array_equal(domain.action("put").encode(np.array([[0.5, 1.0]])), [[0.5, 0.0, 1.0]])


def test_definitions_that_make_no_sense() -> None:
    x, y = spare.Property("x"), spare.Property("x", unit="m")
    refused("property 'x' is defined in two ways", types=[spare.Type("a", [x]), spare.Type("b", [y])])
    refused("properties or types, not both", types=[spare.Type("a", [x])], properties=[x])
    refused("type 'a' appears twice", types=[spare.Type("a", [x]), spare.Type("a", [x])])
    refused("a property cannot be called 'type'", types=[spare.Type("a", [spare.Property("type")])])
    link = spare.Property("on", kind=spare.Link(to="blok"))
    refused("unknown type 'blok'", types=[spare.Type("block", [link])])
    refused("unknown type 'c'", types=[spare.Type("a", [x])], relations=[spare.Edges("r", "a", "c")])
    refused("unknown type 'c'", types=[spare.Type("a", [x])], actions=[spare.Action("go", objects={"who": "c"})])
    refused("'x' appears twice", types=[spare.Type("a", [x])], relations=[spare.Edges("x")])
    fails = spare.Reference("r", lambda o: o.isa("b"))
    refused("unknown value of 'type' 'b'", types=[spare.Type("a", [x])], references=[fails])
    with pytest.raises(DefinitionError, match="'red' appears twice"):
        spare.Categorical(["red", "red"])
    with pytest.raises(DefinitionError, match="low must be less than high"):
        spare.Integer(3, 1)
    with pytest.raises(DefinitionError, match="other than Link"):
        spare.Parameter("who", spare.Link())


def test_a_domain_of_one_type_is_what_it_was() -> None:
    plain = spare.Domain("plain", properties=[spare.Property("x")], actions=[spare.Action("go", ("who",))])
    assert plain.plain
    assert plain.types == ()
    assert plain.property_names == ("x",)
    assert {*plain.schema()} == {"name", "properties", "references", "actions"}
    assert plain.schema()["actions"] == [{"name": "go", "objects": ["who"], "parameters": []}]


def test_a_hundred_types_and_two_hundred_categories() -> None:
    kind = spare.Categorical([f"value {k}" for k in range(200)])
    types = [spare.Type(f"t{k}", [spare.Property(f"p{k}"), spare.Property("c", kind=kind)]) for k in range(100)]
    large = spare.Domain("large", types=types, actions=[spare.Action("go", objects={"who": "t7"})])
    assert large.has.shape == (100, 102)
    assert large.has.sum() == 300
    one = spare.make_state(large, {"a": {"type": "t7", "p7": 1.0, "c": "value 199"}})
    assert one.values[0, large.property_names.index("c")] == 199


def test_domains_travel_and_compare() -> None:
    import pickle

    assert pickle.loads(pickle.dumps(domain)) is domain
    other = domain.with_resolutions({"x": 0.5})
    assert other.types == domain.types
    assert other != domain
    assert other.fingerprint == domain.fingerprint
