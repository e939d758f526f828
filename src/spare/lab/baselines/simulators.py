"""Baselines as simulators for planners: what `graph.py` and `flat.py` compute on the host, for one padded scene in JAX.

    s' = s + change_m(s, a) + sqrt(variance_m(s, a) + resolution²) N(0, 1)       in the action's frame, or the world

A trajectory keeps one member m. Tests compare the moments with those of the models themselves.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from spare.data.scene import Scene
from spare.errors import UsageError
from spare.lab.baselines.flat import Flat
from spare.lab.baselines.gaussian import GaussianModel
from spare.lab.baselines.graph import Graph
from spare.lab.baselines.graph_net import Edges, GraphNet
from spare.language.domain import Domain
from spare.language.frames import from_frame
from spare.language.properties import encode
from spare.model.features import Observed, observe
from spare.model.predictors import Predictor, bounded_variance


class GaussianSimulator(eqx.Module):
    """A network that gives a Gaussian for every object; subclasses say which."""

    domain: Domain = eqx.field(static=True)
    action: str = eqx.field(static=True)
    framed: bool = eqx.field(static=True)

    @property
    def members(self) -> int:
        """M."""
        raise NotImplementedError

    def changes(self, scene: Scene, seen: Observed, member: Any) -> tuple[Any, Any]:
        """(change, variance) (N, Q) of the changeable properties, in the network's coordinates."""
        raise NotImplementedError

    def advance(self, scene: Scene, key: PRNGKeyArray, member: Any) -> Float[Array, "N P"]:
        """One draw of s'."""
        dynamic, template = np.array(self.domain.dynamic), self.domain.action(self.action)
        pose = None
        if self.framed and template.frame is not None:
            pose = self.domain.pose(template, scene.values[scene.objects], scene.parameters)
        seen = observe(self.domain, self.action, Observed(scene.values, scene.parameters), pose)
        change, variance = self.changes(scene, seen, member)
        resolutions = jnp.asarray(self.domain.resolutions, scene.values.dtype)
        noise = jax.random.normal(key, change.shape, scene.values.dtype)
        after = seen.values[:, dynamic] + change + jnp.sqrt(variance + jnp.square(resolutions)) * noise
        if pose is not None and template.frame is not None:
            after = from_frame(after, template.frame.columns(self.domain.dynamic_names), pose)
        after = jnp.where(scene.valid[:, None], after, scene.values[:, dynamic])
        return scene.values.at[:, dynamic].set(after)


class GraphSimulator(GaussianSimulator):
    """A graph network, or an ensemble of them; every pair of objects is an edge."""

    nets: GraphNet
    count: int = eqx.field(static=True)
    node_mean: Any
    node_scale: Any
    value_mean: Any
    value_scale: Any
    change_scale: Any

    @property
    def members(self) -> int:
        """M."""
        return self.count

    def changes(self, scene: Scene, seen: Observed, member: Any) -> tuple[Any, Any]:
        """One pass of one member."""
        size = scene.valid.shape[0]
        values = encode(self.domain.properties, range(len(self.domain.properties)), seen.values)
        parts = [values, jnp.broadcast_to(seen.parameters, (size, seen.parameters.shape[0]))]
        for role in range(len(self.domain.action(self.action).objects)):
            row = scene.objects[role]
            flag = (jnp.arange(size) == row)[:, None].astype(values.dtype)
            named, gap = jnp.broadcast_to(values[row], values.shape), values - values[row]
            parts += [flag, named, gap, jnp.sqrt(jnp.square(gap).sum(axis=1, keepdims=True) + 1e-20)]
        nodes = (jnp.concatenate(parts, axis=1) - self.node_mean) / self.node_scale
        to, by = np.divmod(np.arange(size * size), size)
        real = scene.valid[to] & scene.valid[by] & jnp.asarray(to != by)
        edges = Edges(jnp.asarray(by), jnp.asarray(to), real)
        net = jax.tree.map(lambda part: jax.lax.dynamic_index_in_dim(part, member, keepdims=False), self.nets)
        mean, raw = net(nodes, (values - self.value_mean) / self.value_scale, edges)
        return mean * self.change_scale, bounded_variance(raw) * jnp.square(self.change_scale)


class FlatSimulator(GaussianSimulator):
    """An ensemble of networks over all objects in a row: the action's first, then sorted by where they are."""

    predictor: Predictor
    names: tuple[str, ...] = eqx.field(static=True)
    relative: tuple[bool, ...] = eqx.field(static=True)

    @property
    def members(self) -> int:
        """M."""
        return self.predictor.members

    def changes(self, scene: Scene, seen: Observed, member: Any) -> tuple[Any, Any]:
        """One pass; answers go back to the rows that inputs came from."""
        count, size = self.predictor.y_mean.shape[0], scene.valid.shape[0]
        roles, dynamic = len(self.domain.action(self.action).objects), list(self.domain.dynamic)
        rank = jnp.where(scene.valid, 0, 1)
        for role in range(roles):
            rank = jnp.where(jnp.arange(size) == scene.objects[role], role - roles, rank)
        order = jnp.lexsort((*(scene.values[:, k] for k in reversed(dynamic)), rank))[:count]
        columns = [self.domain.property_names.index(name) for name in self.names]
        values = encode([self.domain.properties[k] for k in columns], columns, seen.values)[order]
        found = self.predictor(jnp.concatenate([seen.parameters, values.reshape(-1)]))
        mean, variance = (
            jax.lax.dynamic_index_in_dim(part, member, keepdims=False) for part in (found.location, found.variance)
        )
        mean = mean - jnp.where(jnp.array(self.relative), 0.0, seen.values[order][:, np.array(dynamic)])
        nothing = jnp.zeros((size, len(dynamic)), mean.dtype)
        return nothing.at[order].set(mean), nothing.at[order].set(variance)


def simulator_of(model: GaussianModel) -> GaussianSimulator:
    """The baseline as a simulator."""
    if isinstance(model, Graph):
        if model.settings.neighbours is not None:
            raise UsageError("a graph network of nearest neighbours cannot be planned in; use one of all pairs")
        nets = jax.tree.map(lambda *parts: np.stack([np.asarray(one) for one in parts]), *model.nets)
        scales = [np.asarray(part, np.float32) for part in vars(model.scales).values()]
        return GraphSimulator(model.domain, model.action, model.framed, nets, len(model.nets), *scales)
    if isinstance(model, Flat):
        settings, domain = model.settings, model.domain
        if settings.order == "stack":
            raise UsageError("a flat network that follows a reference cannot be planned in; use another order")
        names = domain.dynamic_names if settings.inputs == "dynamic" else domain.property_names
        relative = tuple(bool(one) for one in settings.changes(domain))
        return FlatSimulator(domain, model.action, model.framed, model.predictor, tuple(names), relative)
    raise UsageError(f"a {type(model).__name__} cannot be planned in; a graph network or a flat ensemble can")
