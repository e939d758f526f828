"""Tireworld, with the semantics of PDDL: a car on roads, of which four of five moves flatten a tyre.

    move(from, to)    the car is at `from`, a road leads to `to`, no tyre is flat   -> it is at `to`; flat with 0.8
    load(place)       the car and a spare are at `place`                            -> it has the spare
    change            it has a spare                                                -> no tyre is flat, no spare is left

Where the car is, whether a tyre is flat and whether it has a spare are facts of the world itself.
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
from spare.language.types import Edges, Type

FLAT = 0.8
Facts = dict[Any, dict[str, Any]]
Roads = list[tuple[str, str]]
domain = Domain(
    "tireworld",
    types=[Type("place", [Property("spare", kind=Boolean())])],
    world=[
        Property("at", kind=Link(to="place")),
        Property("flat", kind=Boolean()),
        Property("loaded", kind=Boolean()),
    ],
    relations=[Edges("road", "place", "place", static=True)],
    actions=[
        Action("move", objects={"start": "place", "end": "place"}),
        Action("load", objects={"place": "place"}),
        Action("change"),
    ],
)


def outcomes(facts: Facts, roads: Roads, call: ActionCall) -> list[tuple[float, Facts]]:
    """(probability, next state) of everything that can happen."""
    after = {one: dict(own) for one, own in facts.items()}
    car = after["world"]
    if call.action == "move" and car["at"] == call.objects[0] and not car["flat"] and tuple(call.objects) in roads:
        car["at"] = call.objects[1]
        worse = {one: dict(own) for one, own in after.items()}
        worse["world"]["flat"] = True
        return [(1 - FLAT, after), (FLAT, worse)]
    if call.action == "load" and car["at"] == call.objects[0] and after[call.objects[0]]["spare"]:
        after[call.objects[0]]["spare"], car["loaded"] = False, True
    elif call.action == "change" and car["loaded"]:
        car["loaded"], car["flat"] = False, False
    return [(1.0, after)]


def start(rng: np.random.Generator, count: int) -> tuple[Facts, Roads]:
    """Places on a ring with some roads across, both ways, and spares at half of them."""
    names = [f"p{k}" for k in range(count)]
    ring = [(names[k], names[(k + 1) % count]) for k in range(count)]
    across = [(a, b) for a in names for b in names if a < b and rng.random() < 0.2]
    roads = sorted({*ring, *((b, a) for a, b in ring), *across, *((b, a) for a, b in across)})
    facts: Facts = {one: {"type": "place", "spare": bool(rng.random() < 0.5)} for one in names}
    facts["world"] = {"at": names[int(rng.integers(count))], "flat": False, "loaded": bool(rng.random() < 0.5)}
    return facts, roads


def random_call(rng: np.random.Generator, facts: Facts, roads: Roads, useful: float) -> ActionCall:
    """A random action; with probability `useful` one whose condition holds, where there is one."""
    names = [one for one in facts if one != "world"]
    calls = [ActionCall("move", pair) for pair in roads] + [ActionCall("load", (one,)) for one in names]
    calls.append(ActionCall("change"))
    good = [call for call in calls if outcomes(facts, roads, call) != [(1.0, facts)]]
    pool = good if good and rng.random() < useful else calls
    return pool[int(rng.integers(len(pool)))]


def generate(
    samples: int, seed: int, *, places: tuple[int, int] = (3, 7), steps: int = 10, useful: float = 0.7
) -> Experience:
    """Random steps on random maps, `steps` in each episode."""
    check_whole("samples", samples, 1)
    rng, builder = np.random.default_rng(check_seed(seed)), Builder(domain)
    facts, roads = start(rng, places[0])
    for i in range(samples):
        if i % steps == 0:
            facts, roads = start(rng, int(rng.integers(places[0], places[1] + 1)))
        call = random_call(rng, facts, roads, useful)
        found = outcomes(facts, roads, call)
        after = found[int(rng.choice(len(found), p=[p for p, _ in found]))][1]
        states = [make_state(domain, one, relations={"road": roads}) for one in (facts, after)]
        builder.add(states[0], call, states[1], episode=i // steps, time=i % steps)
        facts = after
    return builder.build(seed=seed)
