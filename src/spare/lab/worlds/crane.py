"""Crane: a load is lifted with all that is stacked on it; or it slips, and nothing moves at all.

    p(slip)  = 1 / (1 + exp(-(4 (mass - 1) - 5 (roughness - 0.5) - 0.8)))        of the load's mass and roughness
    held:    x, y, z of the load and of everything on it change by (dx, dy, dz), each with its own noise
    slipped: everything stays

Two modes, and they are joint: the whole stack moves, or none of it does.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, either, scattered
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

SIDE = 0.1
"""A box's side in m."""
LOAD, STACKED, REST = 0.006, 0.01, 0.002
"""Deviations in m: of the load, of what is on it, of what stays."""


def _stands_on(o: Any, p: Any) -> Any:
    """f(o, p): o is one box higher than p, in the same place."""
    return (distance(o, p) < SIDE / 2) & (jnp.abs(o.z - p.z - SIDE) < SIDE / 2)


on = Reference("on", _stands_on)

domain = Domain(
    "crane",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("z", unit="m", resolution=1e-3),
        Property("mass", unit="kg", static=True),
        Property("roughness", static=True),
    ],
    references=[
        on,
        on.closure("on*"),
        on.inverse("under"),
        Reference.closest("nearest", lambda o, p: distance(o, p) + jnp.abs(o.z - p.z)),
        Reference("heavier", lambda o, p: o.mass > p.mass),
    ],
    actions=[
        Action(
            "lift",
            objects=("load",),
            parameters=("dx", "dy", "dz"),
            frame=Frame("load", positions=(("x", "y", "z"),)),
        )
    ],
)


def slips(mass: float, roughness: float) -> float:
    """The chance that a load slips."""
    return float(1 / (1 + np.exp(-(4 * (mass - 1) - 5 * (roughness - 0.5) - 0.8))))


def stacked(values: np.ndarray, load: int) -> np.ndarray:
    """(N,) bool: the load and everything on it, at any height."""
    found = np.zeros(len(values), bool)
    found[load] = True
    for i in np.argsort(values[:, 2], kind="stable"):
        near = np.hypot(*(values[i, :2] - values[:, :2]).T) < SIDE / 2
        found[i] |= bool((found & near & (np.abs(values[i, 2] - values[:, 2] - SIDE) < SIDE / 2)).any())
    return found


def ends(scene: Drawn) -> Ends:
    """It holds, or it slips."""
    (load,), here = scene.roles, scene.values[:, :3]
    moved = stacked(scene.values, load)
    rest = np.full(here.shape, REST)
    noise = np.where(moved[:, None], STACKED, rest)
    noise[load] = LOAD
    lifted = here + moved[:, None] * scene.parameters
    return either(1 - slips(*scene.values[load, 3:]), (lifted, noise), (here, rest))


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """Stacks of one to four boxes; the load is any box of the first stack but its top."""
    heights = [int(rng.integers(2, 5))]
    while sum(heights) < count:
        heights.append(min(int(rng.integers(1, 5)), count - sum(heights)))
    heights[0] = min(heights[0], count)
    places = scattered(rng, len(heights), 0.4)
    rows = [
        [*(place + rng.uniform(-0.015, 0.015, 2)), SIDE * (level + 0.5) + rng.uniform(-0.01, 0.01)]
        for place, height in zip(places, heights, strict=True)
        for level in range(height)
    ]
    more = np.stack([rng.uniform(0.5, 1.5, len(rows)), rng.uniform(0.2, 0.8, len(rows))], axis=1)
    load = int(rng.integers(heights[0] - 1))
    lift = np.array([*rng.uniform(-0.3, 0.3, 2), rng.uniform(0.1, 0.5)])
    return Drawn(np.concatenate([np.array(rows), more], axis=1), (load,), lift)


WORLD = KnownWorld(domain, draw, ends, (5, 9), 7, named="slipped")
"""Boxes in stacks."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
