"""A world to plan in that compiles in no time: things are moved by (dx, dy), or swapped; members see it differently."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import spare
from spare.data.scene import Scene
from spare.language.domain import Domain

near = spare.Reference("near", lambda o, p: jnp.hypot(o.x - p.x, o.y - p.y) < 1.0)
domain = spare.Domain(
    "toy",
    properties=[
        spare.Property("x", resolution=1e-3),
        spare.Property("y", resolution=1e-3),
        spare.Property("turn", resolution=1e-2, period=360.0),
        spare.Property("weight", static=True),
    ],
    references=[near],
    actions=[
        spare.Action("move", objects=("thing",), parameters=("dx", "dy")),
        spare.Action("swap", objects=("first", "second")),
        spare.Action("wait", objects=()),
    ],
)


class Toy(eqx.Module):
    """x += dx + bias of the member + noise; a swap exchanges two things; each move turns a thing by 90 degrees."""

    noise: Any
    bias: Any
    domain: Domain = eqx.field(static=True, default=domain)

    @property
    def members(self) -> int:
        return self.bias.shape[0]

    def advance(self, scene: Scene, key: Any, member: Any) -> Any:
        rows = jnp.arange(scene.values.shape[0])
        one, two = scene.objects[0], scene.objects[1]
        noise = self.noise * jax.random.normal(key, (2,)) + jnp.asarray(self.bias)[member]
        shift = jnp.concatenate([scene.parameters[:2] + noise, jnp.array([90.0, 0.0])])
        moved = scene.values + jnp.where(rows[:, None] == one, shift, 0.0)
        other = jnp.where(rows == one, two, jnp.where(rows == two, one, rows))
        swapped = jnp.concatenate([scene.values[other, :2], scene.values[:, 2:]], axis=1)
        return jnp.where(scene.action == 0, moved, jnp.where(scene.action == 1, swapped, scene.values))


def toy(noise: float = 0.01, bias: tuple[float, ...] = (0.0,)) -> Toy:
    return Toy(np.float32(noise), np.array(bias, np.float32))


def state(count: int = 3) -> spare.State:
    """a at the origin, b, c, ... to the right of it."""
    values = np.zeros((count, 4), np.float32)
    values[:, 0], values[:, 3] = np.arange(count), 1.0 + np.arange(count)
    return spare.State(tuple("abcdefghijkl"[:count]), values)
