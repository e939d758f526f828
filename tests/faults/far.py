"""A queue far from the origin (map coordinates, a clock, a counter), and the same one with the offsets subtracted."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import spare
from spare.lab.worlds import queue

SHIFT = np.array([5.4e6, 500_000.0, 1.7e9, 1e9, 0.0])
"""m, m, s, ticks, kg."""
BORDER = 2.0
"""Where the east begins, in m from the shift."""


def make_domain(shift: np.ndarray, border: float = BORDER) -> spare.Domain:
    """The queue's references, and one that compares with a place of the world."""

    def east(o: Any, p: Any) -> Any:
        return (o.x > border + shift[0]) & (jnp.abs(o.y - p.y) < queue.LINE_GAP / 2)

    return spare.Domain(
        "far",
        properties=[
            spare.Property("x", unit="m", resolution=1e-3),
            spare.Property("y", unit="m", resolution=1e-3),
            spare.Property("t", unit="s", resolution=1e-3),
            spare.Property("ticks", resolution=1.0),
            spare.Property("mass", unit="kg", static=True),
        ],
        references=[*queue.domain.references, spare.Reference("east", east)],
        actions=queue.domain.actions,
    )


near_domain, domain = make_domain(np.zeros(5)), make_domain(SHIFT)


def columns(samples: int, seed: int, shift: np.ndarray = SHIFT) -> dict[str, Any]:
    """Arguments of `from_arrays` in 64-bit numbers: all share a clock, and who moves turns a counter.

    The clock stands between 0 and 100 s in a transition and goes on by 0.01 s and a little, the counter by 250 ticks
    for each metre.
    """
    data, rng = queue.generate(samples, seed), np.random.default_rng([seed, 9])
    x, y, mass = data.values.astype(np.float64).T
    after = data.next_values.astype(np.float64).T
    t = rng.uniform(0, 100, samples)[data.owner]
    later = (0.01 * (1 + data.parameters[:, 0].astype(np.float64)) + 0.001 * rng.standard_normal(samples))[data.owner]
    ticks = rng.integers(0, 1000, len(x)).astype(np.float64)
    turned = ticks + np.round(250 * (after[0] - x))
    return {
        "values": np.stack([x, y, t, ticks, mass], 1) + shift,
        "next_values": np.stack([after[0], after[1], t + later, turned, mass], 1) + shift,
        "offsets": data.offsets,
        "action": data.action,
        "objects": data.objects,
        "parameters": data.parameters,
    }


def generate(samples: int, seed: int) -> tuple[spare.Experience, spare.Experience]:
    """(near the origin, far from it): the same transitions, to the bits that 64-bit numbers have there."""
    far = columns(samples, seed)
    near = {**far, "values": far["values"] - SHIFT, "next_values": far["next_values"] - SHIFT}
    return (
        spare.Experience.from_arrays(near_domain, **near),
        spare.Experience.from_arrays(domain, **far),
    )
