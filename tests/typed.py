"""Random worlds with types, categories, links, relations, and things that come and go, for property tests."""

from __future__ import annotations

import random
from typing import Any

import spare

KINDS: dict[str, Any] = {
    "size": lambda: spare.Real(),
    "level": lambda: spare.Real(0.0, 1.0),
    "open": lambda: spare.Boolean(),
    "colour": lambda: spare.Categorical(["red", "green", "blue ü"]),
    "count": lambda: spare.Integer(0, 9),
    "yaw": lambda: spare.Angle(),
    "on": lambda: spare.Link(),
    "mark": lambda: spare.Boolean(),
}
VALUES: dict[str, Any] = {
    "size": lambda rnd: rnd.randrange(-8, 9) / 4,
    "level": lambda rnd: rnd.randrange(5) / 4,
    "open": lambda rnd: rnd.random() < 0.5,
    "colour": lambda rnd: rnd.choice(["red", "green", "blue ü"]),
    "count": lambda rnd: rnd.randrange(10),
    "yaw": lambda rnd: rnd.randrange(6) / 2,
    "mark": lambda rnd: rnd.random() < 0.5,
}
DYNAMIC = ("size", "open", "on", "count")


def typed_domain(rnd: random.Random) -> spare.Domain:
    """One to three types with properties of every kind, sometimes facts of the world and stored relations."""
    static = {name: name not in DYNAMIC and rnd.random() < 0.5 for name in KINDS}
    every = {
        n: spare.Property(n, kind=make(), static=static[n], resolution=0.25 if n == "size" else None)
        for n, make in KINDS.items()
    }
    types = []
    for name in ("thing", "place", "robot")[: rnd.randrange(1, 4)]:
        own = [one for one in every if one != "mark" and rnd.random() < 0.5] or ["size"]
        types.append(spare.Type(name, [every[one] for one in sorted({*own, "size"} if name == "thing" else own)]))
    world = [every["mark"]] if rnd.random() < 0.5 else []
    named = [one.name for one in types]
    relations = [spare.Edges("road", static=True)] if rnd.random() < 0.5 else []
    relations += [spare.Edges("likes", named[0], rnd.choice(named))] if rnd.random() < 0.5 else []
    gear = spare.Parameter("gear", spare.Categorical(["low", "high"]))
    actions = [
        spare.Action("use", objects={"first": named[0]}, parameters=("force", gear)),
        spare.Action("wait"),
        spare.Action("join", objects=("first", "second"), parameters=(spare.Parameter("fast", spare.Boolean()),)),
    ]
    chosen = [actions[0], *rnd.sample(actions[1:], rnd.randrange(3))]
    return spare.Domain("random", types=types, world=world, relations=relations, actions=chosen)


def _facts(rnd: random.Random, domain: spare.Domain, kind: str, before: dict[str, Any] | None) -> dict[str, Any]:
    """Properties of one object: new ones, or, where they can change, the next ones."""
    found: dict[str, Any] = {"type": kind}
    for column, prop in enumerate(domain.properties):
        if prop.name in VALUES and domain.has[domain.types.index(kind), column]:
            keep = before is not None and (prop.static or rnd.random() < 0.5)
            found[prop.name] = before[prop.name] if before is not None and keep else VALUES[prop.name](rnd)
    return found


def _state(rnd: random.Random, domain: spare.Domain, things: dict[str, Any], static: Any, what: str) -> spare.State:
    """Links and relations among those that are there."""
    ids, pairs = [one for one in things if one != "world"], {}
    for facts in things.values():
        if "on" in domain.property_names and domain.has[domain.types.index(facts["type"]), _column(domain, "on")]:
            facts["on"] = rnd.choice([None, *ids])
    for relation in domain.relations:
        if relation.static:
            pairs[relation.name] = [pair for pair in static if {*pair} <= {*ids}]
        else:
            first, second = (
                [one for one in ids if things[one]["type"] in side] for side in (relation.source, relation.target)
            )
            pairs[relation.name] = [(a, b) for a in first for b in second if rnd.random() < 0.3]
    return spare.make_state(domain, things, relations=pairs, what=what)


def _column(domain: spare.Domain, name: str) -> int:
    return domain.property_names.index(name)


def typed_experience(rnd: random.Random, domain: spare.Domain, count: int, *, steady: bool = False) -> spare.Experience:
    """`count` transitions; `steady`: nobody appears or vanishes, and nothing else is done."""
    builder = spare.Builder(domain)
    kinds = [one for one in domain.types if one != "world"]
    for i in range(count):
        things = {
            f"{k} ü": _facts(rnd, domain, kinds[0] if k == 0 else rnd.choice(kinds), None)
            for k in range(rnd.randrange(1, 6))
        }
        if domain.has_world:
            things["world"] = _facts(rnd, domain, "world", None)
        after = {one: _facts(rnd, domain, facts["type"], facts) for one, facts in things.items()}
        fixed = not steady and not any(one.static for one in domain.relations)
        for one in [one for one in things if one not in ("0 ü", "world") and fixed and rnd.random() < 0.3]:
            del after[one]
        if fixed and rnd.random() < 0.3:
            after["new"] = _facts(rnd, domain, rnd.choice(kinds), None)
        ids = [one for one in things if one != "world"]
        static = [(a, b) for a in ids for b in ids if rnd.random() < 0.3]
        state, following = (_state(rnd, domain, one, static, "state") for one in (things, after))
        calls = [_call(rnd, domain, ids, "0 ü") for _ in range(1 if steady else rnd.randrange(1, 3))]
        builder.add(state, calls[0], following, weight=rnd.randrange(1, 4) / 2, also=calls[1:], episode=i // 3, time=i)
    return builder.build(source="random")


def _call(rnd: random.Random, domain: spare.Domain, ids: list[str], first: str) -> spare.ActionCall:
    action = rnd.choice(domain.actions)
    objects = tuple(first if k == 0 else rnd.choice(ids) for k in range(len(action.objects)))
    values = {"force": rnd.randrange(-4, 5) / 4, "gear": rnd.choice(["low", "high"]), "fast": rnd.random() < 0.5}
    return spare.ActionCall(action.name, objects, tuple(values[name] for name in action.parameters))
