"""Trays: one is slid to a place in a given time; what stands on it goes along, and some of it slips.

A tray that covers D in time T, speeding up and then slowing down evenly, does so with a = 4 D / T². A thing on it with
friction mu < a / g slips: it speeds up with only mu g, is overtaken by the slowing tray, and slides on. Altogether

    D_thing = D 4 k / (1 + k)²,   k = mu g / a    if k < 1,    and D otherwise,

and it speeds up and slows down evenly itself, with min(a, mu g): so the same holds for what stands on the thing (what
the upper does to the lower is left out: things are light). Noise: the tray stops short, goes astray and turns a little,
taking all with it; slips vary. Things beside the tray stay, and so do other trays with what they carry.
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

GRAVITY = 9.81
TRAY, THICK = 0.2, 0.02
"""A tray's radius and height in m."""
TOUCH = 0.005
ROOM = (2.4, 1.8)
LONGEST, HARDEST = 0.3, 6.0
"""The longest slide in m, the largest acceleration in m/s²."""
FRICTION = (0.12, 0.7)
"""From wet glass to rubber."""
ALONG, ACROSS, TURN, SLIP, MEASURED = 0.02, 0.01, 0.015, 0.2, 1e-3
"""Noise: share of the distance along and across, turn in radians, share of the slip, measurement in m."""


def _stands_on(o: Any, p: Any) -> Any:
    """f(o, p): the underside of o is at the top of p, and its centre is over p."""
    over = jnp.hypot(o.x - p.x, o.y - p.y) < p.radius
    return (jnp.abs(o.base - p.base - p.height) < TOUCH) & over


on = Reference("on", _stands_on)

domain = Domain(
    "tray",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("base", unit="m", static=True),  # height of the underside above the table
        Property("radius", unit="m", static=True),
        Property("height", unit="m", static=True),
        Property("friction", static=True),
    ],
    references=[
        on,
        on.closure("on*"),
        on.inverse("under"),
        Reference.closest("nearest", distance),
        Reference("near", lambda o, p: distance(o, p) < 2 * TRAY),
    ],
    actions=[
        Action(
            "slide",
            objects=("tray",),
            parameters=("x_to", "y_to", "seconds"),
            frame=Frame(
                lambda tray, slide: (tray.x, tray.y),
                lambda tray, slide: jnp.arctan2(slide.y_to - tray.y, slide.x_to - tray.x),
                positions=(("x", "y"), ("x_to", "y_to")),
                mirror=True,
            ),
        )
    ],
)


def ride(share: float, acceleration: float, friction: float) -> tuple[float, float]:
    """(share of the tray's way, acceleration) of a thing on something with these two: the module's formula."""
    ratio = friction * GRAVITY / acceleration
    if ratio >= 1:
        return share, acceleration
    return share * 4 * ratio / (1 + ratio) ** 2, friction * GRAVITY


def shares(values: np.ndarray, tray: int, acceleration: float) -> np.ndarray:
    """(N,) share of the tray's way that each object makes: 1 for the tray, NaN for what does not stand on it."""
    found = {tray: (1.0, acceleration)}
    x, y, base, radius, height, friction = values.T
    for i in np.argsort(base, kind="stable"):
        under = np.abs(base[i] - base - height) < TOUCH
        under &= np.hypot(x[i] - x, y[i] - y) < radius
        for p in np.flatnonzero(under):
            if int(p) in found and int(p) != i:
                found[int(i)] = ride(*found[int(p)], friction[i])
    return np.array([found[i][0] if i in found else np.nan for i in range(len(values))])


def execute(scene: Scene, rng: np.random.Generator) -> Outcome:
    """What a slide does, before it is measured."""
    (tray,), (x_to, y_to, seconds) = scene.roles, scene.parameters
    here = scene.values[:, :2]
    way = np.array([x_to, y_to]) - here[tray]
    far = float(np.hypot(*way))
    share = shares(scene.values, tray, 4 * far / seconds**2)
    moved = np.isfinite(share)
    slip = (1 - share[moved]) * (1 + SLIP * rng.standard_normal(moved.sum()))
    along, across = 1 + ALONG * rng.standard_normal(), ACROSS * rng.standard_normal()
    executed = along * way + across * np.array([-way[1], way[0]])
    arm = here[moved] - here[tray]
    turned = TURN * rng.standard_normal() * np.stack([-arm[:, 1], arm[:, 0]], axis=1)
    after = scene.values.copy()
    after[moved, :2] += (1 - slip)[:, None] * executed + turned
    return Outcome(after, moved)


def draw(rng: np.random.Generator, count: int) -> Scene:
    """Two or three trays with up to four things each, some with another on top; the rest stand on the table."""
    trays = _apart(rng, int(rng.integers(2, 4)))
    rows = [[*centre, 0.0, TRAY, THICK, rng.uniform(*FRICTION)] for centre in trays]
    left = count - len(rows) - 1
    for centre in trays:
        things = _load(rng, centre)[:left]
        rows += things
        left -= len(things)
    heading, far = rng.uniform(-np.pi, np.pi), rng.uniform(0.05, LONGEST)
    chosen = int(rng.integers(len(trays)))
    end = trays[chosen] + far * np.array([np.cos(heading), np.sin(heading)])
    while len(rows) < count:
        centre, radius = rng.uniform(0, ROOM), rng.uniform(0.03, 0.05)
        gaps = [np.hypot(*(centre - row[:2])) - row[3] for row in rows if row[2] == 0]
        if min(*gaps, _gap(centre, trays[chosen], end) - TRAY) > radius + 0.03:
            rows.append([*centre, 0.0, radius, rng.uniform(0.05, 0.15), rng.uniform(*FRICTION)])
    seconds = np.sqrt(4 * far / rng.uniform(1.0, HARDEST))
    return Scene(np.array(rows), (chosen,), np.array([*end, seconds]))


def _apart(rng: np.random.Generator, count: int) -> np.ndarray:
    """Centres of trays that have room to slide without touching another."""
    while True:
        centres = rng.uniform(0, ROOM, (count, 2))
        gaps = np.hypot(*(centres[:, None] - centres).T)[np.triu_indices(count, 1)]
        if gaps.min() > 2 * TRAY + LONGEST + 0.05:
            return centres


def _load(rng: np.random.Generator, centre: np.ndarray) -> list[list[float]]:
    """The things on one tray, side by side, each followed by what stands on it."""
    rows: list[list[float]] = []
    beside: list[np.ndarray] = []
    for _ in range(int(rng.integers(0, 5))):
        radius, height = rng.uniform(0.03, 0.05), rng.uniform(0.05, 0.15)
        angle, out = rng.uniform(-np.pi, np.pi), (TRAY - radius) * np.sqrt(rng.random())
        place = centre + out * np.array([np.cos(angle), np.sin(angle)])
        if any(np.hypot(*(place - other[:2])) < radius + other[2] for other in beside):
            continue
        beside.append(np.array([*place, radius]))
        rows.append([*place, THICK, radius, height, rng.uniform(*FRICTION)])
        if rng.random() < 0.35:
            top = place + rng.uniform(-0.01, 0.01, 2)
            rows.append(
                [*top, THICK + height, rng.uniform(0.02, radius), rng.uniform(0.05, 0.1), rng.uniform(*FRICTION)]
            )
    return rows


def _gap(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    """Distance of a point from a segment."""
    way = end - start
    part = np.clip(np.dot(point - start, way) / np.dot(way, way), 0.0, 1.0)
    return float(np.hypot(*(point - start - part * way)))


WORLD = World(domain, draw, execute, MEASURED, (8, 16), 12)
"""Trays, 8 to 16 objects; 12 where a fixed number is needed."""
generate, moved = WORLD.generate, WORLD.moved
