"""The graph network as a transition model: settings, training, and what it says of each object.

1. `graph_data` turns experience into padded graphs; in the action's frame, training data are mirrored.
2. Minibatches of beta-NLL with Adam at a rate that falls along a cosine; the weights with the best validation
   likelihood are kept.
3. Members of an ensemble differ in their initial weights and minibatches, and are mixed value by value.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from spare.data.experience import Experience
from spare.data.scene import round_up
from spare.errors import DataError, DefinitionError, FitError
from spare.lab.baselines.gaussian import GaussianModel, Part, RowGaussians
from spare.lab.baselines.graph_data import Graphs, Scales, make_graphs, node_features, take_scales
from spare.lab.baselines.graph_net import Edges, GraphNet, fresh_net
from spare.language.domain import Domain
from spare.learning.dataset import ObservedRows, observe_rows
from spare.learning.engine import Batches, Descent, descend
from spare.learning.fit import prepare
from spare.learning.folds import split_weights
from spare.learning.threads import in_parallel
from spare.model.features import Observed
from spare.model.predictors import bounded_variance
from spare.programs import PROGRAMS


@dataclasses.dataclass(frozen=True)
class GraphSettings:
    """How a graph network is built and trained.

    `neighbours`  None: every pair of objects is an edge; k: each object hears its k nearest
    `framed`      use the action's frame, where it has one, and its mirror, as our preset `default` does
    `beta`        weigh each value's loss by variance^beta (gradients stopped); 0 is the likelihood itself
    """

    hidden: int = 64
    rounds: int = 1
    neighbours: int | None = None
    framed: bool = False
    steps: int = 3000
    batch: int = 32
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    beta: float = 0.5
    check_every: int = 50
    members: int = 1
    validation: float = 0.15

    def __post_init__(self) -> None:
        counts = (self.hidden, self.rounds, self.steps, self.batch, self.check_every, self.members)
        if min(counts) < 1 or (self.neighbours is not None and self.neighbours < 1):
            raise DefinitionError("graph network: sizes, rounds, steps, members and neighbours must be at least 1")
        if not 0 < self.learning_rate < 1:
            raise DefinitionError(f"graph network: learning_rate must be between 0 and 1, got {self.learning_rate}")


class Graph(GaussianModel):
    """The trained network (or ensemble) of one action; any number of objects."""

    def __init__(
        self, domain: Domain, action: str, settings: GraphSettings, nets: tuple[GraphNet, ...], scales: Scales
    ) -> None:
        super().__init__(domain, settings.framed and domain.action(action).frame is not None)
        self.action, self.settings, self.nets, self.scales = action, settings, nets, scales

    def answer(self, part: Part) -> RowGaussians:
        """What every member says of every object, a few hundred states at a time."""
        if part.action != self.action:
            raise DataError(f"this network was trained on action {self.action!r}, not on {part.action!r}")
        data, shape = part.data, (len(self.nets), len(part.rows), len(self.domain.dynamic))
        change, variance = np.empty(shape), np.empty(shape)
        for chosen in _similar(data.counts):
            mine, ones = data[chosen], np.ones(len(chosen))
            rows = np.flatnonzero(np.isin(data.owner, chosen))
            seen = ObservedRows(Observed(part.seen.values[rows], part.seen.parameters[chosen]), part.seen.after[rows])
            graphs = make_graphs(mine, part.action, seen, self.scales, self.settings.neighbours, ones)
            padded = jax.tree.map(functools.partial(_lengthen, size=round_up(len(mine))), graphs)
            for k, net in enumerate(self.nets):
                found = PROGRAMS.call("graph answers", _answers, (net, padded))
                mean, raw = (np.asarray(one, np.float64)[: len(mine)][graphs.valid] for one in found)
                change[k, rows] = mean * self.scales.change_scale
                variance[k, rows] = raw * np.square(self.scales.change_scale)
        return RowGaussians(change, variance)


def _similar(counts: np.ndarray, cells: int = 1 << 14) -> list[np.ndarray]:
    """Groups of transitions with about as many objects, so that padding and shapes stay few; each in order."""
    capacity = np.array([round_up(int(count)) for count in counts])
    groups: list[np.ndarray] = []
    for size in np.unique(capacity):
        rows = np.flatnonzero(capacity == size)
        step = max(1, cells // int(size))
        groups += [rows[start : start + step] for start in range(0, len(rows), step)]
    return groups


def _lengthen(leaf: np.ndarray, size: int) -> np.ndarray:
    """The array with its last row repeated: padding that is as tame as the data."""
    return np.concatenate([leaf, np.repeat(leaf[-1:], size - len(leaf), axis=0)])


def _answers(net: GraphNet, graphs: Graphs) -> tuple[Array, Array]:
    """Mean and variance (n, N, Q) in normalised units: n graphs as one, their nodes and edges laid end to end."""
    n, size, features = graphs.nodes.shape
    base = (jnp.arange(n) * size)[:, None]
    real = graphs.senders >= 0
    last = jnp.where(real, graphs.receivers, size - 1)  # padding stays in the order of receivers
    edges = Edges(*(part.reshape(-1) for part in (jnp.maximum(graphs.senders, 0) + base, last + base, real)))
    mean, raw = net(graphs.nodes.reshape(-1, features), graphs.values.reshape(n * size, -1), edges)
    return mean.reshape(n, size, -1), bounded_variance(raw).reshape(n, size, -1)


def _losses(net: GraphNet, graphs: Graphs, floor: Any, beta: float) -> Array:
    """sum over objects and values of stop(var^beta) ((y - mu)² / var + log var) / 2, one per graph."""
    mean, variance = _answers(net, graphs)
    variance = variance + floor
    terms = 0.5 * (jnp.square(graphs.change - mean) / variance + jnp.log(variance))
    terms = jax.lax.stop_gradient(variance**beta) * terms
    return graphs.weights * jnp.where(graphs.valid[:, :, None], terms, 0.0).sum(axis=(1, 2))


def _train(settings: GraphSettings, net: GraphNet, data: tuple[Graphs, Graphs], floor: Any, rows: Any) -> GraphNet:
    """`steps` minibatches (rows, (T, b), of the training graphs); the best weights on the validation graphs."""
    graphs, check = data

    def objective(net: GraphNet, index: Array) -> Array:
        taken = jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], graphs)
        return _losses(net, taken, floor, settings.beta).mean()

    def validate(net: GraphNet) -> Array:
        return _losses(net, check, floor, 0.0).sum()

    how = Descent(settings.learning_rate, settings.weight_decay, settings.check_every)
    return descend(net, objective, validate, Batches(rows, settings.steps), how)


def fit_graph(
    domain: Domain,
    experience: Experience,
    *,
    seed: int,
    settings: GraphSettings | None = None,
    threads: int | None = None,
) -> Graph:
    """Train the graph network on the transitions of one action, with any numbers of objects."""
    settings = settings or GraphSettings()
    data, _ = prepare(domain, experience)
    actions = sorted({int(index) for index in data.action})
    if len(actions) != 1:
        raise FitError(f"a graph network learns one action at a time; these data have {len(actions)}")
    template = data.domain.actions[actions[0]]
    framed = settings.framed and template.frame is not None
    training, validation = split_weights(data.weights, settings.validation, seed)
    scales, graphs = _graphs(data, template.name, settings, framed, training)
    held = np.flatnonzero(validation > 0)
    check = jax.tree.map(lambda leaf: leaf[held], graphs)
    floor = np.square(data.domain.resolutions / scales.change_scale).astype(np.float32)
    used = np.flatnonzero(graphs.weights * np.concatenate([training] * (len(graphs.weights) // len(data))) > 0)
    sizes = (graphs.nodes.shape[2], graphs.values.shape[2], graphs.change.shape[2])

    def member(k: int) -> GraphNet:
        rng = np.random.default_rng([seed, 47, k])
        net = fresh_net(jax.random.key(int(rng.integers(2**31))), sizes, settings.hidden, settings.rounds)
        net = jax.tree.map(np.asarray, net)
        arguments = (net, (graphs, check), floor, _minibatches(used, settings, rng))
        program = PROGRAMS.get("graph", functools.partial(_train, settings), arguments, settings)
        found = jax.block_until_ready(program(*arguments))
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found)):
            raise FitError("graph network: training gave numbers that are not finite; check the data's scale")
        return found

    nets = tuple(in_parallel([functools.partial(member, k) for k in range(settings.members)], threads))
    return Graph(data.domain, template.name, settings, nets, scales)


def _graphs(
    data: Experience, action: str, settings: GraphSettings, framed: bool, training: np.ndarray
) -> tuple[Scales, Graphs]:
    """Scales from the training rows, and all graphs, followed by their mirror images where the frame has them."""
    frame = data.domain.action(action).frame
    views = [observe_rows(data, action, framed)]
    if framed and frame is not None and frame.mirror:
        views.append(observe_rows(data, action, framed, mirror=True))
    scales = take_scales(data, node_features(data, action, views[0]), views[0], training)
    weights = data.weights / data.weights.mean()
    parts = [make_graphs(data, action, seen, scales, settings.neighbours, weights) for seen in views]
    return scales, jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _minibatches(used: np.ndarray, settings: GraphSettings, rng: np.random.Generator) -> np.ndarray:
    """(steps, batch) rows: epoch after epoch of the training graphs in random order."""
    needed = settings.steps * settings.batch
    epochs = [rng.permutation(used) for _ in range(-(-needed // len(used)))]
    return np.concatenate(epochs)[:needed].reshape(settings.steps, settings.batch).astype(np.int32)
