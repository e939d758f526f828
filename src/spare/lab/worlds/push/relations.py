"""The domain of section 5.1: blocks with positions and shapes, four references, one action.

above(p)    o stands on p: o's bottom is at p's top, and their footprints overlap
above*(p)   everything above p, however many blocks are between (closure)
below(p)    what p stands on (inverse)
nearest(p)  argmin over o of the distance between the centres of o and p
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

TOUCH = 0.005
"""Two faces within this distance, in m, are in contact."""


def _stands_on(o: Any, p: Any) -> Any:
    """f(o, p): the bottom of o is at the top of p, and their footprints overlap."""
    gap = (o.z - o.height / 2) - (p.z + p.height / 2)
    over_x = jnp.abs(o.x - p.x) < (o.width + p.width) / 2
    over_y = jnp.abs(o.y - p.y) < (o.length + p.length) / 2
    return (jnp.abs(gap) < TOUCH) & over_x & over_y


def _distance(o: Any, p: Any) -> Any:
    """Squared distance between two centres: smallest where the distance is."""
    return (o.x - p.x) ** 2 + (o.y - p.y) ** 2 + (o.z - p.z) ** 2


def _origin(target: Any, push: Any) -> tuple[Any, ...]:
    """The frame's origin: the target's centre."""
    return target.x, target.y, target.z


def _heading(target: Any, push: Any) -> Any:
    """The frame's x axis: the direction of the push, from the gripper to the target."""
    return jnp.arctan2(target.y - push.yg, target.x - push.xg)


above = Reference("above", _stands_on)

domain = Domain(
    "push",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("z", unit="m", resolution=1e-3),
        Property("width", unit="m", static=True),
        Property("length", unit="m", static=True),
        Property("height", unit="m", static=True),
    ],
    references=[above, above.closure("above*"), above.inverse("below"), Reference.closest("nearest", _distance)],
    actions=[
        Action(
            "push",
            objects=("target",),
            parameters=("xg", "yg", "zg", "d"),
            frame=Frame(
                _origin,
                _heading,
                positions=(("x", "y", "z"), ("xg", "yg", "zg")),
                mirror=True,
                extents=(("width", "length"),),
            ),
        )
    ],
)
