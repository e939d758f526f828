"""Billiards: a ball is struck towards a point beside or inside another one; it hits or misses, and what is hit rolls.

Balls of one size and different masses lie on a cloth, far from any cushion. A rolling ball loses speed evenly; two that
meet exchange momentum along the line between their centres, elastically. All is followed from event to event (a
collision, or a ball that comes to rest) until nothing moves:

    x(t) = x + v t - v/|v| A t² / 2,    v1' = v1 - 2 m2 / (m1 + m2) ((v1 - v2) . n) n,  and the same for v2

Noise: the speed and the direction of the strike. A collision magnifies it, and a grazing one decides at random: the
distribution of where a ball ends has two modes, which no single Gaussian fits.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.lab.worlds.world import Outcome, Scene, World, distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

RADIUS = 0.03
SLOWING = 0.5
"""A in m/s²: a ball of 1 m/s rolls for 1 m."""
SPEED, ANGLE, MEASURED = 0.02, 0.008, 1e-3
"""Noise: share of the speed, direction in radians, measurement in m."""
ROOM = (2.0, 1.5)


def _path(o: Any, p: Any, q: Any) -> tuple[Any, Any]:
    """Where o is from p, along the line from p to q and across it, and how far q is."""
    x, y = q.x - p.x, q.y - p.y
    far = jnp.maximum(jnp.hypot(x, y), 1e-6)
    return ((o.x - p.x) * x + (o.y - p.y) * y) / far, jnp.abs((o.y - p.y) * x - (o.x - p.x) * y) / far


def _between(o: Any, p: Any, q: Any) -> Any:
    """How far along the way from p to q, for what a ball on that way would touch."""
    along, across = _path(o, p, q)
    here = (along > 0) & (along < jnp.hypot(q.x - p.x, q.y - p.y)) & (across < 2 * RADIUS)
    return jnp.where(here, along, jnp.inf)


def _beyond(o: Any, p: Any, q: Any) -> Any:
    """How far behind q as seen from p, for what is within 45 degrees of that line."""
    along, across = _path(o, p, q)
    past = along - jnp.hypot(q.x - p.x, q.y - p.y)
    return jnp.where((past > 0) & (across < past), past, jnp.inf)


domain = Domain(
    "billiards",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("mass", unit="kg", static=True),
    ],
    references=[
        Reference.closest("in-the-way", _between),
        Reference.closest("beyond", _beyond),
        Reference.closest("nearest", distance),
        Reference("around", lambda o, p: distance(o, p) < 0.25),
    ],
    actions=[
        Action(
            "strike",
            objects=("cue", "aimed"),
            parameters=("x_to", "y_to", "speed"),
            frame=Frame(
                lambda cue, aimed, strike: (cue.x, cue.y),
                lambda cue, aimed, strike: jnp.arctan2(strike.y_to - cue.y, strike.x_to - cue.x),
                positions=(("x", "y"), ("x_to", "y_to")),
                mirror=True,
            ),
        )
    ],
)


def bounce(line: np.ndarray, velocities: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Velocities (2, 2) of two balls after they met; `line` leads from the first centre to the second."""
    normal = line / np.hypot(*line)
    push = 2 * np.prod(masses) / masses.sum() * np.dot(velocities[0] - velocities[1], normal) * normal
    return velocities + np.array([-push, push]) / masses[:, None]


def roll(places: np.ndarray, velocities: np.ndarray, masses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(places (N, 2) when all is at rest, who was ever in motion (N,) bool)."""
    places, velocities = places.copy(), velocities.copy()
    touched = np.asarray(velocities.any(axis=1))
    while True:
        speed = np.hypot(*velocities.T)
        moving = np.flatnonzero(speed > 0)
        if not len(moving):
            return places, touched
        pull = np.where(speed[:, None] > 0, -SLOWING * velocities / np.maximum(speed, 1e-12)[:, None], 0.0)
        stops = speed[moving] / SLOWING
        first = int(np.argmin(stops))
        time, pair = _next_collision(places, velocities, pull, float(stops[first]))
        places += velocities * time + pull * time**2 / 2
        velocities += pull * time
        if pair is None:
            velocities[moving[first]] = 0.0
            continue
        which = list(pair)
        velocities[which] = bounce(places[pair[1]] - places[pair[0]], velocities[which], masses[which])
        touched[which] = True


def _next_collision(
    places: np.ndarray, velocities: np.ndarray, pull: np.ndarray, until: float
) -> tuple[float, tuple[int, int] | None]:
    """The first meeting of two balls before the time `until`, or that time and None."""
    time, pair = until, None
    moving = np.flatnonzero(velocities.any(axis=1))
    for i in moving:
        still = np.flatnonzero(~velocities.any(axis=1))
        for j, at in zip(still, _meets_resting(places[still] - places[i], velocities[i]), strict=True):
            if at < time:
                time, pair = float(at), (int(i), int(j))
        for j in moving[moving > i]:
            parts = (places[j] - places[i], velocities[j] - velocities[i], (pull[j] - pull[i]) / 2)
            at = _meets_moving(*parts, time)
            if at < time:
                time, pair = at, (int(i), int(j))
    return time, pair


def _meets_resting(away: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """When a ball meets those at rest that are so far away (M, 2); infinity if it does not."""
    speed = float(np.hypot(*velocity))
    along = away @ velocity / speed
    room = 4 * RADIUS**2 - np.square(away).sum(axis=1) + along**2
    far = np.where((along > 0) & (room > 0), along - np.sqrt(np.maximum(room, 0.0)), np.inf)
    left = speed**2 - 2 * SLOWING * np.maximum(far, 0.0)
    return np.where(left > 0, (speed - np.sqrt(np.maximum(left, 0.0))) / SLOWING, np.inf)


def _meets_moving(away: np.ndarray, velocity: np.ndarray, half: np.ndarray, until: float) -> float:
    """The first time at which |away + velocity t + half t²| falls to 2 r; infinity if not before `until`."""
    if np.hypot(*away) - np.hypot(*velocity) * until - np.hypot(*half) * until**2 > 2 * RADIUS:
        return np.inf
    quartic = [half @ half, 2 * half @ velocity, velocity @ velocity + 2 * half @ away, 2 * velocity @ away]
    roots = np.roots([*quartic, away @ away - 4 * RADIUS**2])
    times = np.sort(roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real >= 0)])
    for at in times:
        if (away + velocity * at + half * at**2) @ (velocity + 2 * half * at) < 0:
            return float(at)
    return np.inf


def execute(scene: Scene, rng: np.random.Generator) -> Outcome:
    """What a strike does, before it is measured."""
    cue, (x_to, y_to, speed) = scene.roles[0], scene.parameters
    angle = np.arctan2(y_to - scene.values[cue, 1], x_to - scene.values[cue, 0]) + ANGLE * rng.standard_normal()
    velocities = np.zeros((len(scene.values), 2))
    velocities[cue] = speed * (1 + SPEED * rng.standard_normal()) * np.array([np.cos(angle), np.sin(angle)])
    after = scene.values.copy()
    after[:, :2], moved = roll(scene.values[:, :2], velocities, scene.values[:, 2])
    return Outcome(after, moved)


def draw(rng: np.random.Generator, count: int) -> Scene:
    """Balls anywhere, half a radius apart or more; one is aimed at, from 0.3 to 1 m, at its middle or past it."""
    places = np.zeros((0, 2))
    while len(places) < count:
        one = rng.uniform(0, ROOM)
        if len(places) == 0 or np.hypot(*(places - one).T).min() > 2.5 * RADIUS:
            places = np.concatenate([places, one[None]])
    way = places[:, None] - places
    near = np.hypot(way[..., 0], way[..., 1])
    pairs = np.argwhere((near > 0.3) & (near < 1.0))
    if not len(pairs):
        return draw(rng, count)
    aimed, cue = (int(k) for k in pairs[rng.integers(len(pairs))])
    line = way[aimed, cue] / near[aimed, cue]
    target = places[aimed] + rng.uniform(-3.0, 3.0) * RADIUS * np.array([-line[1], line[0]])
    values = np.concatenate([places, rng.uniform(0.12, 0.2, (count, 1))], axis=1)
    return Scene(values, (cue, aimed), np.array([*target, rng.uniform(0.8, 1.5)]))


WORLD = World(domain, draw, execute, MEASURED, (4, 12), 8)
"""Balls, 4 to 12 of them; 8 where a fixed number is needed."""
generate, moved = WORLD.generate, WORLD.moved
