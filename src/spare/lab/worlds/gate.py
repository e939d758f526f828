"""Gate: a lever opens the nearest gate if a key lies near it and a plate near it is pressed; else it stays shut.

    z'(gate) = z + h + N(0, 0.006²)     if near the gate (0.6 m) there is a key and also a pressed plate
    everything else, and the gate otherwise, stays; the lever goes down by 0.1 either way

Neither a key alone nor a plate alone does anything, so no reference gains anything until both are read.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, certain, scattered
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.properties import Property
from spare.language.references import Reference

NEAR, DOWN = 0.6, 0.1
"""Metres within which a key or a plate counts, and that a lever goes down."""
NOISE, REST = 0.006, 0.002
LEVER, GATE, KEY, PLATE = range(4)
SPACING = 2.5

domain = Domain(
    "gate",
    properties=[
        Property("x", unit="m", static=True),
        Property("y", unit="m", static=True),
        Property("z", unit="m", resolution=1e-3),
        Property("gate", static=True),
        Property("key", static=True),
        Property("plate", static=True),
        Property("pressed", static=True),
    ],
    references=[
        Reference.closest("gate", lambda o, p: jnp.where(o.gate > 0.5, distance(o, p), jnp.inf)),
        Reference("key-near", lambda o, p: (o.key > 0.5) & (distance(o, p) < NEAR)),
        Reference("pressed-near", lambda o, p: (o.pressed > 0.5) & (distance(o, p) < NEAR)),
        Reference.closest("nearest", distance),
        Reference("plates", lambda o, p: o.plate > 0.5),
    ],
    actions=[Action("pull", objects=("lever",), parameters=("h",))],
)


def opens(values: np.ndarray, gate: int) -> bool:
    """Whether a key and a pressed plate are near this gate."""
    near = np.hypot(*(values[:, :2] - values[gate, :2]).T) < NEAR
    return bool((near & (values[:, 4] > 0.5)).any() and (near & (values[:, 6] > 0.5)).any())


def ends(scene: Drawn) -> Ends:
    """The gate opens, or not: which of them is in the scene, not in the noise."""
    (lever,), (h,), values = scene.roles, scene.parameters, scene.values
    far = np.where(values[:, 3] > 0.5, np.hypot(*(values[:, :2] - values[lever, :2]).T), np.inf)
    gate = int(np.argmin(far))
    after, noise = values[:, 2:3].copy(), np.full((len(values), 1), REST)
    after[lever] -= DOWN
    noise[lever] = NOISE
    if opens(values, gate):
        after[gate] += h
        noise[gate] = NOISE
    return certain(after, noise)


def _thing(rng: np.random.Generator, place: Any, what: int, pressed: float = 0.0) -> list[float]:
    marks = [float(what == one) for one in (GATE, KEY, PLATE)]
    return [*place, rng.uniform(0.0, 1.0), *marks, pressed]


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """A gate with its lever; often a key, often a plate, often pressed; the rest lies around other gates."""
    centres = scattered(rng, max(1, count // 4) + 1, SPACING)
    rows = [_thing(rng, centres[0] + _around(rng, 0.3, 0.5), LEVER), _thing(rng, centres[0], GATE)]
    wanted = [(KEY, 0.0)] * (rng.random() < 0.75) + [(PLATE, float(rng.random() < 0.75))] * (rng.random() < 0.85)
    rows += [_thing(rng, centres[0] + _around(rng, 0.1, 0.5), *one) for one in wanted][: count - 2]
    while len(rows) < count:
        what = (GATE, KEY, PLATE)[int(rng.integers(3))]
        pressed = float(what == PLATE and rng.random() < 0.5)
        centre = centres[1 + int(rng.integers(len(centres) - 1))]
        rows.append(_thing(rng, centre + _around(rng, 0.0, 0.5), what, pressed))
    return Drawn(np.array(rows), (0,), np.array([rng.uniform(0.2, 1.0)]))


def _around(rng: np.random.Generator, near: float, far: float) -> np.ndarray:
    """An offset that is so far away, in any direction."""
    angle, out = rng.uniform(-np.pi, np.pi), rng.uniform(near, far)
    return out * np.array([np.cos(angle), np.sin(angle)])


WORLD = KnownWorld(domain, draw, ends, (5, 9), 7)
"""Levers, gates, keys and plates."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
