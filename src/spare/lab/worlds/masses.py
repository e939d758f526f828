"""Masses: a belt is jolted and each thing on it slides by as much as its own mass allows; or the belt is raised.

    jolt(belt; j):   x' = x + j / mass + N(0, 0.008²)    each thing on the belt, of any number;  x'(belt) = x + 0.05 j
    raise(belt; h):  z' = z + h + N(0, 0.004²)           the belt and everything on it

One mean for the whole set on the belt is wrong for each of its members. Other belts, with what is on them, stay.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, certain, scattered
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.properties import Property
from spare.language.references import Reference

LENGTH, TOUCH = 1.6, 0.05
"""Length of a belt in m; a thing lies less than this above it."""
SLID, RAISED, REST = 0.008, 0.004, 0.002


def _lies_on(o: Any, p: Any) -> Any:
    """f(o, p): p is a belt and o a thing on it."""
    over = (jnp.abs(o.x - p.x) < LENGTH / 2) & (jnp.abs(o.y - p.y) < 0.3)
    return over & (o.belt < 0.5) & (p.belt > 0.5) & (jnp.abs(o.z - p.z) < TOUCH)


domain = Domain(
    "masses",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", static=True),
        Property("z", unit="m", resolution=1e-3),
        Property("belt", static=True),
        Property("mass", unit="kg", static=True),
    ],
    references=[
        Reference("on", _lies_on),
        Reference.closest("nearest", distance),
        Reference("belts", lambda o, p: o.belt > 0.5),
        Reference("near", lambda o, p: distance(o, p) < 1.0),
    ],
    actions=[
        Action("jolt", objects=("belt",), parameters=("j",)),
        Action("raise", objects=("belt",), parameters=("h",)),
    ],
)


def on(values: np.ndarray, belt: int) -> np.ndarray:
    """(N,) bool: the things on a belt."""
    away = np.abs(values - values[belt])
    return (away[:, 0] < LENGTH / 2) & (away[:, 1] < 0.3) & (away[:, 2] < TOUCH) & (values[:, 3] < 0.5)


def ends(scene: Drawn) -> Ends:
    """Things slide by their masses, or all goes up."""
    (belt,), (much,), values = scene.roles, scene.parameters, scene.values
    mine = on(values, belt)
    after, noise = values[:, [0, 2]].copy(), np.full((len(values), 2), REST)
    if scene.action == 0:
        after[mine, 0] += much / values[mine, 4]
        after[belt, 0] += 0.05 * much
        noise[mine, 0] = SLID
    else:
        mine[belt] = True
        after[mine, 1] += much
        noise[mine, 1] = RAISED
    return certain(after, noise)


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """Belts with two to five things each, at different heights; every third transition raises one."""
    loads = [min(int(rng.integers(2, 6)), count - 1)]
    while sum(loads) + len(loads) < count:
        loads.append(min(int(rng.integers(1, 6)), count - sum(loads) - len(loads) - 1))
    rows = []
    for place, load in zip(scattered(rng, len(loads), 6.0), loads, strict=True):
        height = rng.uniform(0.2, 1.0)
        rows.append([*place, height, 1.0, rng.uniform(5.0, 10.0)])
        for _ in range(load):
            spot = place[0] + rng.uniform(-0.6, 0.6), place[1] + rng.uniform(-0.2, 0.2)
            rows.append([*spot, height + rng.uniform(0.0, 0.02), 0.0, rng.uniform(0.5, 3.0)])
    action = int(rng.random() < 1 / 3)
    much = rng.uniform(0.1, 0.4) if action == 0 else rng.uniform(0.1, 0.5)
    return Drawn(np.array(rows), (0,), np.array([much]), action)


WORLD = KnownWorld(domain, draw, ends, (6, 10), 8)
"""Things on belts; two actions."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
