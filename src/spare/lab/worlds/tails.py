"""Tails: a thing is slid and its nearest neighbour is dragged along; how far is uncertain with Student's t.

    (x', y') = (x, y) + (dx, dy) + 0.008 t_3          the target
    (x', y') = (x, y) + 0.6 (dx, dy) + 0.012 t_3      its nearest neighbour
    everyone else stays, with Gaussian noise

t_3 has no fourth moment: one value in seventy is five scales away, and a mean of squares is ruled by a few of them.
"""

from __future__ import annotations

import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, certain, scattered
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

DEGREES = 3.0
TARGET, DRAGGED, REST = 0.008, 0.012, 0.002
"""Scales of noise in m."""
SHARE = 0.6

domain = Domain(
    "tails",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("mass", unit="kg", static=True),
    ],
    references=[
        Reference.closest("nearest", distance),
        Reference.farthest("farthest", distance),
        Reference("heavier", lambda o, p: o.mass > p.mass),
    ],
    actions=[
        Action("slide", objects=("target",), parameters=("dx", "dy"), frame=Frame("target", positions=(("x", "y"),)))
    ],
)


def ends(scene: Drawn) -> Ends:
    """Two move, with heavy tails."""
    (target,), here = scene.roles, scene.values[:, :2]
    far = np.hypot(*(here - here[target]).T)
    far[target] = np.inf
    near = int(np.argmin(far))
    after, noise, degrees = here.copy(), np.full(here.shape, REST), np.full(len(here), np.inf)
    after[target] += scene.parameters
    after[near] += SHARE * scene.parameters
    noise[target], noise[near] = TARGET, DRAGGED
    degrees[[target, near]] = DEGREES
    return certain(after, noise)._replace(degrees=degrees)


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """Things about half a metre apart."""
    values = np.concatenate([scattered(rng, count, 0.5), rng.uniform(0.5, 2.0, (count, 1))], axis=1)
    return Drawn(values, (int(rng.integers(count)),), rng.uniform(-0.4, 0.4, 2))


WORLD = KnownWorld(domain, draw, ends, (4, 8), 6)
"""Things on a rug."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
