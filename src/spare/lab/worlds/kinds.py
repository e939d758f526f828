"""Hidden kinds: a push sends a ball far and astray, a box a little way, a wall nowhere; nothing shows which it is.

    ball (0.4): (0.9 d, 0) along and across the push, deviations (0.05 d, 0.12 d)
    box  (0.35): (0.25 d, 0), deviations (0.01, 0.006)
    wall (0.25): stays

What stands on the pushed thing goes along with it, a little less surely. A kind belongs to an object for good, but
every transition is of fresh objects: there is nothing to remember, so a model can only know the shares.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, scattered
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

KINDS = ("ball", "box", "wall")
SHARES = (0.4, 0.35, 0.25)
REST, RIDING = 0.002, 0.006
"""Deviations in m: of what stays, and what is added for what goes along."""
WIDE = 0.06


def _stands_on(o: Any, p: Any) -> Any:
    """f(o, p): o is over p, one level up."""
    return (distance(o, p) < WIDE) & (jnp.abs(o.level - p.level - 1) < 0.5)


domain = Domain(
    "kinds",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("level", static=True),
        Property("size", unit="m", static=True),
    ],
    references=[
        Reference("on", _stands_on),
        Reference.closest("nearest", distance),
        Reference("near", lambda o, p: distance(o, p) < 0.5),
    ],
    actions=[
        Action(
            "push",
            objects=("target",),
            parameters=("angle", "d"),
            frame=Frame("target", lambda target, push: push.angle, positions=(("x", "y"),), mirror=True),
        )
    ],
)


def ends(scene: Drawn) -> Ends:
    """One end for each kind that the pushed thing may be."""
    (target,), (angle, d), here = scene.roles, scene.parameters, scene.values[:, :2]
    rides = np.hypot(*(here - here[target]).T) < WIDE
    rides &= np.abs(scene.values[:, 2] - scene.values[target, 2] - 1) < 0.5
    moved = rides.copy()
    moved[target] = True
    way = d * np.array([np.cos(angle), np.sin(angle)])
    rest = np.full(here.shape, REST)
    means, deviations = [], []
    for share, along, across in ((0.9, 0.05 * d, 0.12 * d), (0.25, 0.01, 0.006)):
        means.append(here + share * np.where(moved[:, None], way, 0.0))
        noise = np.where(moved[:, None], np.array([along, across]), rest)
        deviations.append(np.hypot(noise, np.where(rides[:, None], RIDING, 0.0)))
    return Ends(np.array(SHARES), np.stack([*means, here]), np.stack([*deviations, rest]))


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """Things here and there, some with others on them; one of those on the floor is pushed, with one or two on it."""
    on = [int(rng.integers(1, 3))]
    while sum(on) + len(on) < count:
        on.append(min(int(rng.integers(0, 3)), count - sum(on) - len(on) - 1))
    places = scattered(rng, len(on), 0.5)
    rows = []
    for place, riders in zip(places, on, strict=True):
        rows.append([*place, 0.0, rng.uniform(0.05, 0.1)])
        rows += [[*(place + rng.uniform(-0.03, 0.03, 2)), 1.0, rng.uniform(0.02, 0.05)] for _ in range(riders)]
    return Drawn(np.array(rows), (0,), np.array([rng.uniform(-np.pi, np.pi), rng.uniform(0.3, 0.6)]))


WORLD = KnownWorld(domain, draw, ends, (4, 8), 6, named="kind")
"""Balls, boxes and walls; `info["kind"]` is the number of the pushed thing's in `KINDS`."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
