"""Charges: every object is drawn to the charged one, or away from it, by how far it is: nothing here is sparse.

    (x', y') = (x, y) + s q (o - source) / |o - source| / (1 + |o - source|²) + N(0, 0.006²)      every o but the source

with q the object's own charge (from -1 to 1) and s the strength of the pulse. The source stays.
"""

from __future__ import annotations

import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, certain, scattered
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

NOISE, REST = 0.006, 0.002

domain = Domain(
    "charges",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("charge", static=True),
    ],
    references=[
        Reference.closest("nearest", distance),
        Reference("near", lambda o, p: distance(o, p) < 1.0),
        Reference("alike", lambda o, p: o.charge * p.charge > 0),
    ],
    actions=[
        Action("pulse", objects=("source",), parameters=("strength",), frame=Frame("source", positions=(("x", "y"),)))
    ],
)


def ends(scene: Drawn) -> Ends:
    """Everyone but the source moves."""
    (source,), (strength,), here = scene.roles, scene.parameters, scene.values[:, :2]
    away = here - here[source]
    far = np.maximum(np.hypot(*away.T), 1e-9)[:, None]
    after = here + strength * scene.values[:, 2:] * away / far / (1 + far**2)
    noise = np.full(here.shape, NOISE)
    after[source], noise[source] = here[source], REST
    return certain(after, noise)


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """Charges about 0.7 m apart."""
    values = np.concatenate([scattered(rng, count, 0.7), rng.uniform(-1.0, 1.0, (count, 1))], axis=1)
    return Drawn(values, (int(rng.integers(count)),), np.array([rng.uniform(0.1, 0.5)]))


WORLD = KnownWorld(domain, draw, ends, (4, 8), 6)
"""Charges in the plane."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
