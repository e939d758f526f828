"""Drag: every object flies on with its velocity and is slowed by its own drag; one gets an impulse.

    v' = (v + [o is the target] j / m) exp(-c / m) + noise,      c = 0.3 kg
    x' = x + T (v + v') / 2 + noise                              (v' without its noise), T = 1 s

So each moves by itself, as its velocity and mass say, and the impulse counts the less the heavier the target is.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, certain, scattered
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

DRAG = 0.3
"""c in kg: a body of 1 kg keeps exp(-0.3) of its speed."""
PLACE, SPEED = 0.02, 0.02
"""Deviations of places in m and of velocities in m/s."""

domain = Domain(
    "drag",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("vx", unit="m/s", resolution=1e-3),
        Property("vy", unit="m/s", resolution=1e-3),
        Property("mass", unit="kg", static=True),
    ],
    references=[
        Reference.closest("nearest", distance),
        Reference("near", lambda o, p: distance(o, p) < 1.5),
        Reference("heavier", lambda o, p: o.mass > p.mass),
    ],
    actions=[
        Action(
            "hit",
            objects=("target",),
            parameters=("jx", "jy"),
            frame=Frame(
                "target",
                lambda target, hit: jnp.arctan2(hit.jy, hit.jx),
                positions=(("x", "y"),),
                directions=(("vx", "vy"), ("jx", "jy")),
                mirror=True,
            ),
        )
    ],
)


def ends(scene: Drawn) -> Ends:
    """Everyone flies on."""
    place, speed, mass = scene.values[:, :2], scene.values[:, 2:4].copy(), scene.values[:, 4:]
    speed[scene.roles[0]] += scene.parameters / mass[scene.roles[0]]
    later = speed * np.exp(-DRAG / mass)
    after = np.concatenate([place + (speed + later) / 2, later], axis=1)
    return certain(after, np.broadcast_to([PLACE, PLACE, SPEED, SPEED], after.shape).copy())


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """Bodies with velocities in every direction and masses from 0.3 to 2 kg."""
    speed = 0.5 * rng.standard_normal((count, 2))
    values = np.concatenate([scattered(rng, count, 1.5), speed, rng.uniform(0.3, 2.0, (count, 1))], axis=1)
    angle, size = rng.uniform(-np.pi, np.pi), rng.uniform(0.2, 1.0)
    return Drawn(values, (int(rng.integers(count)),), size * np.array([np.cos(angle), np.sin(angle)]))


WORLD = KnownWorld(domain, draw, ends, (3, 7), 5)
"""Pucks on ice."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
