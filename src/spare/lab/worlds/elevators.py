"""Elevators, of the planning competitions (RDDL): people wait, elevators open their doors and take them up or down.

    waiting'(f)   stays true unless an open elevator that goes their way is at f; otherwise somebody comes with `arrive`
    inside'(e)    stays until the top (or bottom) floor; somebody gets in if e is open, goes their way, and they wait
    closed'(e)    closed and not opened, or closed now;   up'(e) as the door was opened last
    at'(e)        one floor on in its direction, if it is closed and moves; it stays at the ends

Everything follows from the state before. Each elevator does one thing at a time; with several, all but the first are
`also` of a transition.
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
from spare.language.kinds import Real
from spare.language.properties import Property
from spare.language.types import Type

Facts = dict[str, dict[str, Any]]
NAMES = ("move", "open_up", "open_down", "close", "wait")


def _fact(name: str, *, static: bool = False) -> Property:
    return Property(name, kind=Boolean(), static=static)


domain = Domain(
    "elevators",
    types=[
        Type(
            "elevator",
            [
                *(_fact(name) for name in ("inside_up", "inside_down", "up", "closed")),
                Property("at", kind=Link(to="floor")),
            ],
        ),
        Type(
            "floor",
            [
                _fact("waiting_up"),
                _fact("waiting_down"),
                _fact("top", static=True),
                _fact("bottom", static=True),
                Property("arrive", kind=Real(0, 1), static=True),
                Property("above", kind=Link(to="floor", acyclic=True), static=True),
            ],
        ),
    ],
    actions=[Action(name, objects={"elevator": "elevator"}) for name in NAMES],
)


def probabilities(facts: Facts, calls: dict[str, str]) -> dict[str, dict[str, Any]]:
    """P(fact' = 1) of every Boolean that can change, and the floor `at'`, given what each elevator does."""
    floors = {one: own for one, own in facts.items() if own["type"] == "floor"}
    lifts = {one: own for one, own in facts.items() if own["type"] == "elevator"}
    found: dict[str, dict[str, Any]] = {}
    for one, own in floors.items():
        here = [lift for lift in lifts.values() if lift["at"] == one and not lift["closed"]]
        taken = {True: any(lift["up"] for lift in here), False: any(not lift["up"] for lift in here)}
        found[one] = {
            name: 1.0 if own[name] and not taken[way] else own["arrive"]
            for name, way in (("waiting_up", True), ("waiting_down", False))
        }
    for one, own in lifts.items():
        found[one] = _elevator(own, floors, calls.get(one, "wait"))
    return found


def _elevator(own: dict[str, Any], floors: Facts, doing: str) -> dict[str, Any]:
    floor, opened = floors[own["at"]], not own["closed"]
    inside = {
        "inside_up": not floor["top"] if own["inside_up"] else opened and own["up"] and floor["waiting_up"],
        "inside_down": not floor["bottom"]
        if own["inside_down"]
        else opened and not own["up"] and floor["waiting_down"],
    }
    opens = doing in ("open_up", "open_down")
    at = own["at"]
    if doing == "move" and own["closed"]:
        below = next((name for name, other in floors.items() if other["above"] == at), None)
        at = (floor["above"] if own["up"] else below) or at
    return {
        **{name: float(value) for name, value in inside.items()},
        "up": float(doing == "open_up" or (own["up"] and doing != "open_down")),
        "closed": float((own["closed"] and not opens) or doing == "close"),
        "at": at,
    }


def start(rng: np.random.Generator, elevators: int, floors: int) -> Facts:
    """Closed elevators at the bottom, nobody waiting; arrival rates between 0.01 and 0.2."""
    facts: Facts = {
        f"f{k}": {
            "type": "floor",
            "waiting_up": False,
            "waiting_down": False,
            "top": k == floors - 1,
            "bottom": k == 0,
            "arrive": round(float(rng.uniform(0.01, 0.2)), 3),
            "above": f"f{k + 1}" if k < floors - 1 else None,
        }
        for k in range(floors)
    }
    lift = {"type": "elevator", "inside_up": False, "inside_down": False, "up": True, "closed": True, "at": "f0"}
    return {**{f"e{k}": dict(lift) for k in range(elevators)}, **facts}


def generate(samples: int, seed: int, *, elevators: int = 1, floors: int = 4, steps: int = 40) -> Experience:
    """Random steps, `steps` in each episode; every elevator does something at random."""
    check_whole("samples", samples, 1)
    rng, builder, facts = np.random.default_rng(check_seed(seed)), Builder(domain), {}
    for i in range(samples):
        if i % steps == 0:
            facts = start(rng, elevators, floors)
        doing = {f"e{k}": NAMES[int(rng.integers(len(NAMES)))] for k in range(elevators)}
        after = {one: dict(own) for one, own in facts.items()}
        for one, chances in probabilities(facts, doing).items():
            for name, chance in chances.items():
                after[one][name] = chance if name == "at" else bool(rng.random() < chance)
        calls = [ActionCall(name, (one,)) for one, name in doing.items()]
        states = [make_state(domain, one) for one in (facts, after)]
        builder.add(states[0], calls[0], states[1], also=calls[1:], episode=i // steps, time=i % steps)
        facts = after
    return builder.build(seed=seed)
