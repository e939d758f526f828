"""Wind: all objects drift by the same constant, whatever is done; one is kicked as well.

    x' = x + 0.15 + N(0, 0.02²),   y' = y - 0.08 + N(0, 0.02²)      for everyone, and for the kicked one + (dx, dy)

Nothing stays, so `stays put` is wrong for everybody, and the kick is all that the action does.
"""

from __future__ import annotations

import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, certain, scattered
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

DRIFT = np.array([0.15, -0.08])
"""Metres of drift in a step."""
NOISE = 0.02

domain = Domain(
    "wind",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("size", unit="m", static=True),
    ],
    references=[
        Reference.closest("nearest", distance),
        Reference("near", lambda o, p: distance(o, p) < 1.0),
    ],
    actions=[
        Action("kick", objects=("target",), parameters=("dx", "dy"), frame=Frame("target", positions=(("x", "y"),)))
    ],
)


def ends(scene: Drawn) -> Ends:
    """Everyone drifts, one is kicked."""
    after = scene.values[:, :2] + DRIFT
    after[scene.roles[0]] += scene.parameters
    return certain(after, np.full(after.shape, NOISE))


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """Objects anywhere, about a metre apart."""
    values = np.concatenate([scattered(rng, count, 1.0), rng.uniform(0.1, 0.3, (count, 1))], axis=1)
    return Drawn(values, (int(rng.integers(count)),), rng.uniform(-0.5, 0.5, 2))


WORLD = KnownWorld(domain, draw, ends, (3, 7), 5)
"""Leaves in the wind."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
