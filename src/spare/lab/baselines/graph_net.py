"""A Gaussian interaction network over flat nodes: objects are nodes, pairs of objects are edges.

    h_i  = encode(node_i)
    m_i  = sum over edges j -> i of message(h_j, h_i, v_j - v_i, |v_j - v_i|)       a segment sum, once per round
    h_i <- h_i + update(h_i, m_i)
    mean_i, variance_i = decode(h_i)

The message's hidden layer is a sum of terms of the sender, the receiver and the pair, and its output layer is linear,
so both are applied to nodes and not to edges: the same function, at a fraction of the cost.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from spare.model.predictors import Network


class Edges(NamedTuple):
    """Directed pairs of node rows, sorted by receiver; `real` is false on padding, which no node receives."""

    senders: Int[Array, " E"]
    receivers: Int[Array, " E"]
    real: Bool[Array, " E"]


class Round(eqx.Module):
    """One exchange of messages."""

    sender: Network
    receiver: Network
    pair: Network
    message: Network
    update: Network

    def __call__(self, h: Float[Array, "R H"], gaps: Float[Array, "E G"], edges: Edges) -> Float[Array, "R H"]:
        """h after one message from every neighbour."""
        sent, received = jax.vmap(self.sender)(h), jax.vmap(self.receiver)(h)
        hidden = jax.nn.silu(sent[edges.senders] + received[edges.receivers] + jax.vmap(self.pair)(gaps))
        hidden = jnp.where(edges.real[:, None], hidden, 0.0)
        total = jax.ops.segment_sum(hidden, edges.receivers, len(h), indices_are_sorted=True)
        return h + jax.vmap(self.update)(jnp.concatenate([h, jax.vmap(self.message)(total)], axis=1))


class GraphNet(eqx.Module):
    """Encoder, rounds of messages, decoder; for nodes (R, F) and the values v (R, P) whose gaps edges carry."""

    encode: Network
    rounds: tuple[Round, ...]
    decode: Network

    def __call__(
        self, nodes: Float[Array, "R F"], values: Float[Array, "R P"], edges: Edges
    ) -> tuple[Float[Array, "R Q"], Float[Array, "R Q"]]:
        """(mean, raw variance) of each value of each node, in normalised units."""
        gap = values[edges.senders] - values[edges.receivers]
        gaps = jnp.concatenate([gap, jnp.sqrt(jnp.square(gap).sum(axis=1, keepdims=True) + 1e-12)], axis=1)
        h = jax.vmap(self.encode)(nodes)
        for one in self.rounds:
            h = one(h, gaps, edges)
        mean, raw = jnp.split(jax.vmap(self.decode)(h), 2, axis=1)
        return mean, raw


def glorot_network(key: PRNGKeyArray, sizes: tuple[int, ...], activation: str) -> Network:
    """Glorot-uniform weights U(-a, a) with a = sqrt(6 / (in + out)), zero biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    weights = tuple(
        jax.random.uniform(k, (i, o), minval=-1.0, maxval=1.0) * jnp.sqrt(6.0 / (i + o))
        for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
    )
    return Network(weights, tuple(jnp.zeros(o) for o in sizes[1:]), activation)


def fresh_net(key: PRNGKeyArray, sizes: tuple[int, int, int], hidden: int, rounds: int) -> GraphNet:
    """An untrained network for (node features F, values P, outputs Q), Glorot weights, SiLU."""
    features, values, outputs = sizes
    keys = iter(jax.random.split(key, 2 + 5 * rounds))

    def net(*widths: int) -> Network:
        return glorot_network(next(keys), widths, "silu")

    def one() -> Round:
        parts = (net(hidden, hidden), net(hidden, hidden), net(values + 1, hidden), net(hidden, hidden))
        return Round(*parts, net(2 * hidden, hidden, hidden))

    encode, passes = net(features, hidden, hidden), tuple(one() for _ in range(rounds))
    return GraphNet(encode, passes, net(hidden, hidden, 2 * outputs))
