"""The true step of three known worlds as simulators for planners: the numbers of `lab/worlds`, written for JAX.

Planning in these is the limit for every learned model. Tests compare them with the worlds' own densities.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from spare.data.scene import Scene
from spare.lab.worlds import chain, crane, vehicle
from spare.language.domain import Domain


class TrueWorld(eqx.Module):
    """s' = mean(s, a) + deviation(s, a) N(0, 1): one member, since nothing about it is unknown."""

    @property
    def domain(self) -> Domain:
        """The world's."""
        raise NotImplementedError

    @property
    def members(self) -> int:
        """1."""
        return 1

    def ends(self, scene: Scene, coin: Any) -> tuple[Any, Any]:
        """(mean, deviation) (N, Q) of the changeable properties; `coin` is uniform from 0 to 1."""
        raise NotImplementedError

    def advance(self, scene: Scene, key: PRNGKeyArray, member: Any) -> Float[Array, "N P"]:
        """One draw of s'."""
        one, two = jax.random.split(key)
        mean, deviation = self.ends(scene, jax.random.uniform(one))
        drawn = mean + deviation * jax.random.normal(two, mean.shape, mean.dtype)
        drawn = jnp.where(scene.valid[:, None], drawn, scene.values[:, : mean.shape[1]])
        return scene.values.at[:, : mean.shape[1]].set(drawn)


class TrueVehicle(TrueWorld):
    """A car drives, its trailer follows."""

    @property
    def domain(self) -> Domain:
        """Cars and trailers."""
        return vehicle.domain

    def ends(self, scene: Scene, coin: Any) -> tuple[Any, Any]:
        """As in `vehicle.ends`."""
        here, car = scene.values[:, :5], scene.objects[0]
        steer, accelerate = scene.parameters[0], scene.parameters[1]
        x, y, vx, vy, yaw = here[car]
        speed = vx * jnp.cos(yaw) + vy * jnp.sin(yaw)
        turned, faster = yaw + speed * steer * vehicle.TIME, speed + accelerate * vehicle.TIME
        middle, way = (yaw + turned) / 2, vehicle.TIME * faster
        place = jnp.stack([x + way * jnp.cos(middle), y + way * jnp.sin(middle)])
        own = jnp.stack([*place, faster * jnp.cos(turned), faster * jnp.sin(turned), turned])
        swing = here[:, 4] + faster * vehicle.TIME / vehicle.HITCH * jnp.sin(turned - here[:, 4])
        pulled = faster * jnp.cos(turned - swing)
        behind = [place[0] - vehicle.HITCH * jnp.cos(swing), place[1] - vehicle.HITCH * jnp.sin(swing)]
        trailer = jnp.stack([*behind, pulled * jnp.cos(swing), pulled * jnp.sin(swing), swing], axis=1)
        apart = jnp.abs(jnp.hypot(here[:, 0] - x, here[:, 1] - y) - vehicle.HITCH)
        hitched = ((scene.values[:, 5] > 0.5) & (apart < 0.1))[:, None]
        driven = (jnp.arange(len(here)) == car)[:, None]
        mean = jnp.where(driven, own, jnp.where(hitched, trailer, here))
        noise = jnp.array([vehicle.PLACE, vehicle.PLACE, vehicle.SPEED, vehicle.SPEED, vehicle.ANGLE])
        return mean, jnp.where(driven | hitched, noise, vehicle.REST)


class TrueCrane(TrueWorld):
    """A load is lifted with all that is on it, or it slips."""

    @property
    def domain(self) -> Domain:
        """Boxes in stacks."""
        return crane.domain

    def ends(self, scene: Scene, coin: Any) -> tuple[Any, Any]:
        """As in `crane.ends`."""
        here, load, domain = scene.values[:, :3], scene.objects[0], crane.domain
        view = domain.view(domain.actions[0], scene.values, scene.valid, scene.parameters)
        own = (jnp.arange(len(here)) == load)[:, None]
        moved = own | domain.reference("on*").relation.pick(view, (load,))[:, None]
        mass, roughness = scene.values[load, 3], scene.values[load, 4]
        slip = jax.nn.sigmoid(4 * (mass - 1) - 5 * (roughness - 0.5) - 0.8)
        moved = moved & (coin >= slip)
        noise = jnp.where(own, crane.LOAD, crane.STACKED)
        return here + moved * scene.parameters[:3], jnp.where(moved, noise, crane.REST) * jnp.ones((1, 3))


class TrueChain(TrueWorld):
    """A link is pulled, and each behind it follows by a little less."""

    @property
    def domain(self) -> Domain:
        """Chains."""
        return chain.domain

    def ends(self, scene: Scene, coin: Any) -> tuple[Any, Any]:
        """As in `chain.ends`: a link's depth is how many of its chain lie between it and the head."""
        here, head = scene.values[:, :2], scene.objects[0]
        line = (jnp.abs(here[:, 1] - here[head, 1]) < chain.APART / 2) & scene.valid
        mine = line & (here[:, 0] <= here[head, 0])
        depth = (mine & (here[:, 0] > here[:, :1])).sum(axis=1)
        way = jnp.where(mine, chain.DECAY**depth * scene.parameters[0], 0.0)
        mean = here + jnp.stack([way, jnp.zeros_like(way)], axis=1)
        return mean, jnp.where(mine[:, None], chain.NOISE, chain.REST) * jnp.ones((1, 2))
