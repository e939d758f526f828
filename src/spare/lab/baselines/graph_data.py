"""From experience to graphs: node features, edges and targets, as arrays padded to the largest state.

A node knows its own properties, whether and in which role the action names it, the properties of the action's
objects and its distance from them, and the action's parameters. Numbers are normalised by training statistics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spare.data.experience import Experience
from spare.data.ragged import positions_within
from spare.language.domain import Domain
from spare.language.properties import encode
from spare.learning.dataset import ObservedRows


class Graphs(NamedTuple):
    """n states of at most N nodes and E edges, padded: what a graph network reads and is trained on.

    nodes (n, N, F), values (n, N, P), change (n, N, Q), valid (n, N); senders and receivers (n, E) are positions
    within the state, -1 on padding; weights (n,).
    """

    nodes: Any
    values: Any
    change: Any
    valid: Any
    senders: Any
    receivers: Any
    weights: Any


@dataclasses.dataclass(frozen=True)
class Scales:
    """Means and deviations of node features and values, and the scale of changes, from training rows in float64."""

    node_mean: np.ndarray
    node_scale: np.ndarray
    value_mean: np.ndarray
    value_scale: np.ndarray
    change_scale: np.ndarray


def encoded(domain: Domain, names: Sequence[str], values: np.ndarray) -> np.ndarray:
    """What a network sees of these properties, for values (..., P)."""
    columns = [domain.property_names.index(name) for name in names]
    return encode([domain.properties[k] for k in columns], columns, values)


def _nodes(data: Experience, seen: ObservedRows) -> np.ndarray:
    return encoded(data.domain, data.domain.property_names, seen.values)


def node_features(data: Experience, action: str, seen: ObservedRows) -> np.ndarray:
    """(total, F) float64, in the predictor's coordinates."""
    roles = len(data.domain.action(action).objects)
    owner, values = data.owner, _nodes(data, seen)
    parts = [values, seen.parameters[owner]]
    for role in range(roles):
        row = (data.offsets[:-1] + data.objects[:, role])[owner]
        flag = (row == np.arange(len(row)))[:, None].astype(np.float64)
        named, gap = values[row], values - values[row]
        parts += [flag, named, gap, np.linalg.norm(gap, axis=1, keepdims=True)]
    return np.concatenate(parts, axis=1)


def edge_list(
    data: Experience, seen: ObservedRows, neighbours: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(senders, receivers, edges per state): positions within each state, by receiver.

    Every other object is a sender, or the `neighbours` nearest ones by distance over the changeable properties.
    """
    places = encoded(data.domain, data.domain.dynamic_names, seen.values)
    senders, receivers, counts = [], [], np.zeros(len(data), np.int64)
    for i, (start, stop) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        size = int(stop - start)
        if neighbours is None or neighbours >= size - 1:
            to, by = np.divmod(np.arange(size * max(size - 1, 0)), max(size - 1, 1))
            by = by + (by >= to)
        else:
            near = nearest(places[start:stop], neighbours)
            to, by = np.repeat(np.arange(size), neighbours), near.reshape(-1)
        senders.append(by)
        receivers.append(to)
        counts[i] = len(to)
    return np.concatenate(senders), np.concatenate(receivers), counts


def nearest(points: np.ndarray, count: int) -> np.ndarray:
    """(N, count): the rows nearest to each row, itself left out, nearest first."""
    from scipy.spatial import KDTree

    found: Any = KDTree(points).query(points, count + 1)[1]
    mine = found == np.arange(len(points))[:, None]
    mine[~mine.any(axis=1), -1] = True  # of several objects in one place it may not find itself: drop the last
    return found[~mine].reshape(len(points), count)


def take_scales(data: Experience, nodes: np.ndarray, seen: ObservedRows, weights: np.ndarray) -> Scales:
    """Weighted statistics over the object rows of transitions with weight; a constant gets scale 1."""
    share = np.repeat(weights, data.counts)
    share = share / share.sum()
    node_mean = share @ nodes
    node_scale = np.sqrt(share @ np.square(nodes - node_mean))
    values = _nodes(data, seen)
    value_mean = share @ values
    value_scale = np.sqrt(share @ np.square(values - value_mean))
    change = seen.after - seen.values[:, list(data.domain.dynamic)]
    change_scale = np.maximum(np.sqrt(share @ np.square(change)), data.domain.resolutions)

    def tame(scale: np.ndarray, size: np.ndarray) -> np.ndarray:
        return np.where(scale > 1e-6 * np.maximum(np.abs(size), 1e-6), scale, 1.0)

    return Scales(node_mean, tame(node_scale, node_mean), value_mean, tame(value_scale, value_mean), change_scale)


def make_graphs(
    data: Experience, action: str, seen: ObservedRows, scales: Scales, neighbours: int | None, weights: np.ndarray
) -> Graphs:
    """Everything normalised, padded to the largest state, float32."""
    dynamic = list(data.domain.dynamic)
    nodes = (node_features(data, action, seen) - scales.node_mean) / scales.node_scale
    values = (_nodes(data, seen) - scales.value_mean) / scales.value_scale
    change = (seen.after - seen.values[:, dynamic]) / scales.change_scale
    senders, receivers, counts = edge_list(data, seen, neighbours)
    size, most = int(data.counts.max()), max(1, int(counts.max()))
    owner, place = data.owner, positions_within(data.counts)
    at, slot = np.repeat(np.arange(len(data)), counts), positions_within(counts)

    def spread(flat: np.ndarray) -> np.ndarray:
        result = np.zeros((len(data), size, flat.shape[1]), np.float32)
        result[owner, place] = flat
        return result

    def edges(flat: np.ndarray) -> np.ndarray:
        result = np.full((len(data), most), -1, np.int32)
        result[at, slot] = flat
        return result

    valid = np.zeros((len(data), size), bool)
    valid[owner, place] = True
    return Graphs(
        spread(nodes), spread(values), spread(change), valid, edges(senders), edges(receivers), weights.astype("f4")
    )
