"""Swap: two books on a shelf change places, and those between them shift by the difference of their widths.

    left and right, widths l and r:  x'(right) = x(left) + (r - l) / 2,   x'(left) = x(right) + (r - l) / 2
    between them:                    x' = x + r - l
    others, and other shelves:       stay

Books stand side by side, so the row is as long afterwards as before.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.lab.worlds.known import Drawn, Ends, KnownWorld, certain
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

SHELF, LONGEST = 0.4, 7
"""Metres between shelves, books on one."""
PUT, SHIFTED, REST = 0.006, 0.003, 0.002
"""Deviations in m: of the two, of those between, of those that stay."""


def _shelf(o: Any, p: Any) -> Any:
    return jnp.abs(o.y - p.y) < SHELF / 2


def _between(o: Any, p: Any, q: Any) -> Any:
    """f(o, p, q): o stands between p and q, on their shelf."""
    return _shelf(o, p) & _shelf(o, q) & ((o.x - p.x) * (o.x - q.x) < 0)


def _right(o: Any, p: Any) -> Any:
    return jnp.where(_shelf(o, p) & (o.x > p.x), o.x - p.x, jnp.inf)


domain = Domain(
    "swap",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("width", unit="m", static=True),
    ],
    references=[
        Reference("between", _between),
        Reference("shelf", _shelf),
        Reference.closest("right", _right),
        Reference.closest("left", lambda o, p: _right(p, o)),
        Reference.closest("nearest", distance),
    ],
    actions=[
        Action(
            "swap",
            objects=("first", "second"),
            frame=Frame(
                "first",
                lambda first, second, swap: jnp.arctan2(second.y - first.y, second.x - first.x),
                positions=(("x", "y"),),
                mirror=True,
            ),
        )
    ],
)


def ends(scene: Drawn) -> Ends:
    """The two change places, and those between make room."""
    here, width = scene.values[:, :2], scene.values[:, 2]
    left, right = sorted(scene.roles, key=lambda one: here[one, 0])
    more = width[right] - width[left]
    inside = (np.abs(here[:, 1] - here[left, 1]) < SHELF / 2) & (here[:, 0] > here[left, 0])
    inside &= here[:, 0] < here[right, 0]
    after, noise = here.copy(), np.full(here.shape, REST)
    after[inside, 0] += more
    noise[inside] = SHIFTED
    after[right, 0], after[left, 0] = here[left, 0] + more / 2, here[right, 0] + more / 2
    noise[[left, right]] = PUT
    return certain(after, noise)


def draw(rng: np.random.Generator, count: int) -> Drawn:
    """Shelves of two to seven books; two of the first shelf are swapped, in either order."""
    lengths = [min(int(rng.integers(4, LONGEST + 1)), count)]
    while sum(lengths) < count:
        lengths.append(min(int(rng.integers(2, LONGEST + 1)), count - sum(lengths)))
    shelves = rng.permutation(len(lengths))
    rows = []
    for shelf, length in zip(shelves, lengths, strict=True):
        width = rng.uniform(0.02, 0.12, length)
        x = rng.uniform(-0.2, 0.2) + np.cumsum(width) - width / 2
        rows.append(np.stack([x, SHELF * shelf + rng.uniform(-0.02, 0.02, length), width], axis=1))
    first, second = rng.permutation(lengths[0])[:2].tolist()
    return Drawn(np.concatenate(rows), (first, second), np.zeros(0))


WORLD = KnownWorld(domain, draw, ends, (6, 12), 9)
"""Books on shelves."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
