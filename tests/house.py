"""A small world with everything in it: types, categories, links, relations, the world itself."""

from __future__ import annotations

from typing import Any

import spare

X = spare.Property("x", resolution=0.01)
domain = spare.Domain(
    "house",
    types=[
        spare.Type(
            "block",
            [
                X,
                spare.Property("colour", kind=spare.Categorical(["red", "green"]), static=True),
                spare.Property("on", kind=spare.Link(to=("block", "table"), acyclic=True)),
                spare.Property("broken", kind=spare.Boolean()),
            ],
        ),
        spare.Type("table", [X]),
        spare.Type(
            "robot",
            [
                spare.Property("holding", kind=spare.Link(to="block")),
                spare.Property("charge", kind=spare.Real(0, 1), resolution=0.01),
                spare.Property("moves", kind=spare.Integer(low=0)),
            ],
        ),
    ],
    world=[spare.Property("raining", kind=spare.Boolean())],
    relations=[
        spare.Edges("near", "block", "block"),
        spare.Edges("leads", "table", "table", static=True, acyclic=True),
    ],
    references=[
        spare.Reference("left", lambda o, p: o.x < p.x),
        spare.Reference("reds", lambda o: o.isa("colour=red") & o.isa("block")),
    ],
    actions=[
        spare.Action(
            "put",
            objects={"block": "block", "to": ("table", "block")},
            parameters=("d", spare.Parameter("gear", spare.Categorical(["low", "high"]))),
        ),
        spare.Action("wait"),
    ],
)


def things() -> dict[str, dict[str, Any]]:
    """Two blocks on each other on a table, and a robot."""
    return {
        "a": {"type": "block", "x": 1.0, "colour": "red", "on": "b", "broken": False},
        "b": {"type": "block", "x": 1.5, "colour": "green", "on": "t", "broken": False},
        "t": {"type": "table", "x": 0.0},
        "r": {"type": "robot", "holding": None, "charge": 0.5, "moves": 3},
    }


def state(**changes: Any) -> spare.State:
    """That state, with some properties changed: `state(a={"on": "t"})`."""
    found = things()
    for one, facts in changes.items():
        found.setdefault(one, {}).update(facts)
    return spare.make_state(domain, found, world={"raining": True}, relations={"near": [("a", "b")]})


PUT = spare.ActionCall("put", ("a", "t"), (0.1, "high"))
