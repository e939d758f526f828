"""Blocks and exploding blocks, with the semantics of PDDL: an action whose condition fails does nothing.

    pick_up(b)     b is clear and on the table, the hand is empty      -> the hand holds b
    put_down(b)    the hand holds b                                    -> b is clear and on the table
    stack(b, c)    the hand holds b, c is clear                        -> b is on c and clear, c is not
    unstack(b, c)  b is on c and clear, the hand is empty              -> the hand holds b, c is clear

In the exploding world put_down destroys the table with probability 0.1, stack the block below with probability 0.1;
what is destroyed can be neither used nor picked up. `outcomes` has the exact distribution of the next state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spare.arguments import check_seed, check_whole
from spare.data.builder import Builder
from spare.data.experience import Experience
from spare.data.named import make_state
from spare.data.state import ActionCall
from spare.language.actions import Action
from spare.language.discrete import Boolean, Link
from spare.language.domain import Domain
from spare.language.properties import Property
from spare.language.types import Type

EXPLODES = 0.1
Facts = dict[Any, dict[str, Any]]
Outcomes = list[tuple[float, Facts]]
_FACTS = [
    Property("on", kind=Link(to="block", acyclic=True)),
    *(Property(name, kind=Boolean()) for name in ("ontable", "clear", "holding")),
]
_ACTIONS = [
    Action("pick_up", objects={"block": "block"}),
    Action("put_down", objects={"block": "block"}),
    Action("stack", objects={"block": "block", "below": "block"}),
    Action("unstack", objects={"block": "block", "below": "block"}),
]
_HAND = Property("handempty", kind=Boolean())
domain = Domain("blocks", types=[Type("block", _FACTS)], world=[_HAND], actions=_ACTIONS)
exploding = Domain(
    "exploding",
    types=[Type("block", [*_FACTS, Property("destroyed", kind=Boolean())])],
    world=[_HAND, Property("table_destroyed", kind=Boolean())],
    actions=_ACTIONS,
)


def outcomes(facts: Facts, call: ActionCall, *, explodes: bool) -> Outcomes:
    """(probability, next state) of everything that can happen; states as `make_state` takes them."""
    changed = _applied(facts, call, explodes)
    if changed is None:
        return [(1.0, facts)]
    victim = None if not explodes else {"put_down": "world", "stack": call.objects[-1]}.get(call.action)
    if victim is None:
        return [(1.0, changed)]
    worse = {one: dict(own) for one, own in changed.items()}
    worse[victim]["table_destroyed" if victim == "world" else "destroyed"] = True
    return [(1 - EXPLODES, changed), (EXPLODES, worse)]


def _applied(facts: Facts, call: ActionCall, explodes: bool) -> Facts | None:
    """What the action does unless something explodes; None if its condition fails."""
    after = {one: dict(own) for one, own in facts.items()}
    first, hand = after[call.objects[0]], after["world"]
    whom = call.objects[-1]
    second = after[whom]
    if explodes and (
        _broken(first, second, hand, call.action) or (hand.get("table_destroyed") and call.action == "put_down")
    ):
        return None
    if call.action == "pick_up" and first["clear"] and first["ontable"] and hand["handempty"]:
        first.update(clear=False, ontable=False, holding=True)
        hand["handempty"] = False
    elif call.action == "put_down" and first["holding"]:
        first.update(clear=True, ontable=True, holding=False)
        hand["handempty"] = True
    elif call.action == "stack" and first["holding"] and second["clear"] and first is not second:
        first.update(clear=True, on=whom, holding=False)
        second["clear"], hand["handempty"] = False, True
    elif call.action == "unstack" and first["on"] == whom and first["clear"] and hand["handempty"]:
        first.update(clear=False, on=None, holding=True)
        second["clear"], hand["handempty"] = True, False
    else:
        return None
    return after


def _broken(first: dict[str, Any], second: dict[str, Any], hand: dict[str, Any], action: str) -> bool:
    """Whether something that is destroyed stands in the way."""
    if action in ("pick_up", "unstack"):
        return bool(first["destroyed"])
    return bool(second["destroyed"]) if action == "stack" else False


def start(rng: np.random.Generator, count: int, *, explodes: bool) -> Facts:
    """Blocks in random towers, the hand empty."""
    order = [f"b{k}" for k in rng.permutation(count)]
    facts: Facts = {}
    below: str | None = None
    for one in order:
        below = None if below is None or rng.random() < 0.5 else below
        facts[one] = {"type": "block", "on": below, "ontable": below is None, "clear": True, "holding": False}
        if below is not None:
            facts[below]["clear"] = False
        below = one
    facts["world"] = {"handempty": True}
    if explodes:
        for one in order:
            facts[one]["destroyed"] = False
        facts["world"]["table_destroyed"] = False
    return facts


def random_call(rng: np.random.Generator, facts: Facts, *, useful: float, explodes: bool) -> ActionCall:
    """A random action; with probability `useful` one that does something, where there is one."""
    names = [one for one in facts if one != "world"]
    calls = [ActionCall(name, (one,)) for name in ("pick_up", "put_down") for one in names]
    calls += [ActionCall(n, (a, b)) for n in ("stack", "unstack") for a in names for b in names if a != b]
    good = [call for call in calls if _applied(facts, call, explodes) is not None]
    pool = good if good and rng.random() < useful else calls
    return pool[int(rng.integers(len(pool)))]


def generate(
    samples: int,
    seed: int,
    *,
    blocks: tuple[int, int] = (3, 6),
    explodes: bool = False,
    steps: int = 10,
    useful: float = 0.5,
) -> Experience:
    """Random steps from random towers of this many blocks, `steps` in each episode."""
    check_whole("samples", samples, 1)
    rng, world = np.random.default_rng(check_seed(seed)), exploding if explodes else domain
    builder, facts = Builder(world), {}
    for i in range(samples):
        if i % steps == 0:
            facts = start(rng, int(rng.integers(blocks[0], blocks[1] + 1)), explodes=explodes)
        call = random_call(rng, facts, useful=useful, explodes=explodes)
        found = outcomes(facts, call, explodes=explodes)
        after = found[int(rng.choice(len(found), p=[p for p, _ in found]))][1]
        builder.add(make_state(world, facts), call, make_state(world, after), episode=i // steps, time=i % steps)
        facts = after
    return builder.build(world=world.name, seed=seed)
