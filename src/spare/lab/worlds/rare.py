"""Rare: knocking at a thing usually does nothing; now and then it and its nearest neighbour jump.

    p(jump) = 0.3 where the ground is soft (softness > 0.9), 0.02 elsewhere: 5 % in all
    jump:     (x', y') = (x, y) + (dx, dy) for the target and 0.5 (dx, dy) for its nearest neighbour, with noise

So most samples say nothing about what happens when it happens, and even soft ground only makes it likelier.
"""

from __future__ import annotations

import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, either, scattered
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

SOFT, OFTEN, SELDOM = 0.9, 0.3, 0.02
JUMP, DRAGGED, REST = 0.01, 0.015, 0.002
SHARE = 0.5

domain = Domain(
    "rare",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("softness", static=True),
    ],
    references=[
        Reference.closest("nearest", distance),
        Reference("softer", lambda o, p: o.softness > p.softness),
        Reference("near", lambda o, p: distance(o, p) < 0.8),
    ],
    actions=[
        Action("knock", objects=("target",), parameters=("dx", "dy"), frame=Frame("target", positions=(("x", "y"),)))
    ],
)


def ends(scene: Drawn) -> Ends:
    """It jumps, or nothing happens."""
    (target,), here = scene.roles, scene.values[:, :2]
    far = np.hypot(*(here - here[target]).T)
    far[target] = np.inf
    near = int(np.argmin(far))
    rest = np.full(here.shape, REST)
    after, noise = here.copy(), rest.copy()
    after[target] += scene.parameters
    after[near] += SHARE * scene.parameters
    noise[target], noise[near] = JUMP, DRAGGED
    return either(OFTEN if scene.values[target, 2] > SOFT else SELDOM, (after, noise), (here, rest))


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """Things about 0.6 m apart on ground of any softness; a knock is at least 0.2 m strong."""
    values = np.concatenate([scattered(rng, count, 0.6), rng.uniform(0.0, 1.0, (count, 1))], axis=1)
    angle, size = rng.uniform(-np.pi, np.pi), rng.uniform(0.2, 0.5)
    return Drawn(values, (int(rng.integers(count)),), size * np.array([np.cos(angle), np.sin(angle)]))


WORLD = KnownWorld(domain, draw, ends, (4, 8), 6, named="stayed")
"""Things on soft ground."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
