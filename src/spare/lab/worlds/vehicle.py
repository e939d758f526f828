"""Vehicle: a car is steered for a second and pulls its trailer along; other cars, with or without one, are parked.

    car:      v' = v + a T,  yaw' = yaw + v steer T,  place' = place + T v' (cos, sin) of the middle of yaw and yaw'
    trailer:  yaw'_t = yaw_t + (v' T / L) sin(yaw' - yaw_t),  place'_t = place' - L (cos yaw'_t, sin yaw'_t)

T = 0.5 s, L the distance of the trailer behind the car. Both have a velocity (vx, vy) along their own yaw. All but the
driven car and its trailer stay. Noise is along and across the car's heading.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, certain, scattered
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

TIME, HITCH = 0.5, 1.0
"""Seconds of a step, metres from a car to its trailer."""
PLACE, SPEED, ANGLE, REST = 0.008, 0.012, 0.006, 0.002
"""Deviations: metres, metres per second, radians; and what stays, in each of these."""


def _hitched(o: Any, p: Any) -> Any:
    """f(o, p): o is a trailer and p the car before it."""
    return (o.trailer > 0.5) & (p.trailer < 0.5) & (jnp.abs(distance(o, p) - HITCH) < 0.1)


domain = Domain(
    "vehicle",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("vx", unit="m/s", resolution=1e-3),
        Property("vy", unit="m/s", resolution=1e-3),
        Property("yaw", unit="rad", resolution=1e-3, period=2 * math.pi),
        Property("trailer", static=True),
    ],
    references=[
        Reference("hitched", _hitched),
        Reference.closest("nearest", distance),
        Reference("near", lambda o, p: distance(o, p) < 4.0),
    ],
    actions=[
        Action(
            "drive",
            objects=("car",),
            parameters=("steer", "accelerate"),
            frame=Frame(
                "car",
                lambda car, drive: car.yaw,
                positions=(("x", "y"),),
                directions=(("vx", "vy"),),
                angles=("yaw",),
            ),
        )
    ],
)


def _along(angle: float) -> np.ndarray:
    return np.array([np.cos(angle), np.sin(angle)])


def ends(scene: Drawn) -> Ends:
    """The car drives on, and its trailer follows."""
    (car,), (steer, accelerate), here = scene.roles, scene.parameters, scene.values
    after, noise = here[:, :5].copy(), np.full((len(here), 5), REST)
    yaw, speed = here[car, 4], here[car, 2:4] @ _along(here[car, 4])
    turned, faster = yaw + speed * steer * TIME, speed + accelerate * TIME
    place = here[car, :2] + TIME * faster * _along((yaw + turned) / 2)
    after[car] = [*place, *(faster * _along(turned)), turned]
    apart = np.abs(np.hypot(*(here[:, :2] - here[car, :2]).T) - HITCH)
    for one in np.flatnonzero((here[:, 5] > 0.5) & (apart < 0.1)):
        swing = here[one, 4] + faster * TIME / HITCH * np.sin(turned - here[one, 4])
        after[one] = [*(place - HITCH * _along(swing)), *(faster * np.cos(turned - swing) * _along(swing)), swing]
        noise[one] = [PLACE, PLACE, SPEED, SPEED, ANGLE]
    noise[car] = [PLACE, PLACE, SPEED, SPEED, ANGLE]
    return certain(after, noise)


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """A car with a trailer drives; of the others, which are parked, half have one."""
    rows: list[list[float]] = []
    places = scattered(rng, count, 6.0)
    for place in places:
        left, driven = count - len(rows), not rows
        if not left:
            break
        yaw = rng.uniform(-np.pi, np.pi)
        speed = rng.uniform(0.5, 2.0) if driven else 0.0
        rows.append([*place, *(speed * _along(yaw)), yaw, 0.0])
        if left > 1 and (driven or rng.random() < 0.5):
            swing = yaw + rng.uniform(-0.6, 0.6)
            behind = place - HITCH * _along(swing)
            turned = (swing + np.pi) % (2 * np.pi) - np.pi
            rows.append([*behind, *(speed * np.cos(yaw - swing) * _along(swing)), turned, 1.0])
    return Drawn(np.array(rows), (0,), np.array([rng.uniform(-0.6, 0.6), rng.uniform(-0.5, 1.0)]))


WORLD = KnownWorld(domain, draw, ends, (4, 7), 6)
"""Cars and trailers."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
