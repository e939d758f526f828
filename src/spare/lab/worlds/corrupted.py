"""Corrupted: carts that are pushed along with those coupled to them; in 1 % of the transitions records are wrong.

    x' = x + d + N(0, 0.006²)                 the pushed cart
    x' = x + 0.9 d + N(0, 0.008²)             everything coupled before it
    wrong: N(same mean, 0.5²) instead         each row with probability 1/2, in one transition of a hundred

So a rule must not believe every row, and must not expect as much of the others either.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.properties import Property
from spare.language.references import Reference

FAULTS, ROWS, WIDE = 0.01, 0.5, 0.5
"""Share of transitions with a fault, share of rows that are wrong in them, deviation in m of wrong values."""
PUSHED, COUPLED, REST = 0.006, 0.008, 0.002
GAP, TRACK = 0.35, 1.0
"""Metres below which carts are coupled, and between tracks."""


def _coupled(o: Any, p: Any) -> Any:
    """f(o, p): o is the next cart before p, and near enough to be coupled to it."""
    return (jnp.abs(o.y - p.y) < TRACK / 2) & (o.x > p.x) & (o.x - p.x < GAP)


before = Reference("before", _coupled)

domain = Domain(
    "corrupted",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("mass", unit="kg", static=True),
    ],
    references=[
        before,
        before.closure("before*"),
        before.inverse("after"),
        Reference.closest("nearest", distance),
        Reference("track", lambda o, p: jnp.abs(o.y - p.y) < TRACK / 2),
    ],
    actions=[Action("push", objects=("cart",), parameters=("d",))],
)


def coupled(places: np.ndarray, cart: int) -> np.ndarray:
    """(N,) bool: all carts before this one that are coupled to it, one to the next."""
    found = np.zeros(len(places), bool)
    last = places[cart]
    for one in np.argsort(places[:, 0], kind="stable"):
        near = 0 < places[one, 0] - last[0] < GAP and abs(places[one, 1] - last[1]) < TRACK / 2
        if near:
            found[one], last = True, places[one]
    return found


def ends(scene: Drawn) -> Ends:
    """What happens, and whether it is a transition with a fault."""
    (cart,), (d,), here = scene.roles, scene.parameters, scene.values[:, :2]
    follow = coupled(here, cart)
    after, noise = here.copy(), np.full(here.shape, REST)
    after[cart, 0] += d
    after[follow, 0] += 0.9 * d
    noise[cart], noise[follow] = PUSHED, COUPLED
    lost = np.stack([np.zeros(len(here)), np.full(len(here), ROWS)])
    return Ends(np.array([1 - FAULTS, FAULTS]), np.stack([after, after]), np.stack([noise, noise]), lost)


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """Tracks with trains of coupled carts; the pushed one has one to three before it."""
    follow = int(rng.integers(1, 4))
    lengths = [min(follow + int(rng.integers(1, 3)), count)]
    while sum(lengths) < count:
        lengths.append(min(int(rng.integers(1, 4)), count - sum(lengths)))
    rows, track, x = [], 0, rng.uniform(-1, 1)
    for length in lengths:
        for _ in range(length):
            rows.append([x, TRACK * track + rng.uniform(-0.03, 0.03), rng.uniform(0.5, 2.0)])
            x += rng.uniform(0.2, 0.3)
        x += rng.uniform(0.4, 0.8)
        if rng.random() < 0.5:
            track, x = track + 1, rng.uniform(-1, 1)
    return Drawn(np.array(rows), (lengths[0] - 1 - follow,), np.array([rng.uniform(0.1, 0.4)]))


WORLD = KnownWorld(domain, draw, ends, (6, 10), 8, named="fault", wide=(WIDE, WIDE))
"""Carts on tracks."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
