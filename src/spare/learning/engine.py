"""The training engine: many small networks, one compiled program per phase, all cores.

1. Every candidate's numbers are padded to one `Capacity`, so a whole search compiles each program once.
2. A program trains one network of one candidate for one phase; what the other network says is fixed during it.
3. Candidates run side by side on a pool of threads, one each: XLA releases the interpreter lock, matrix products
   stay single-threaded, memory is bounded by the number of threads, and each result is the same whatever the
   number of threads.

`descend` is the loop of every network that is trained with early stopping, the graph network's included.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from spare.language.kinds import Leaf, Normal, by_leaf
from spare.learning.presets import Phase, Training
from spare.learning.threads import in_parallel
from spare.model.predictors import Network, bounded_variance
from spare.programs import PROGRAMS


class Capacity(NamedTuple):
    """The shape every candidate of a search is padded to: rows n, inputs D, output slots S, properties Q."""

    rows: int
    inputs: int
    slots: int
    quantities: int


class Rows(NamedTuple):
    """x (n, D); y, spread (n, S, Q): mean and variance of each slot's targets; coefficient (n, S): weight x members."""

    x: Any
    y: Any
    spread: Any
    coefficient: Any


class Problem(NamedTuple):
    """What one predictor is trained on, padded and normalised.

    rows: every transition; check: the validation ones again, closely packed; floor (S, Q): resolution² in units of
    y; usable (n,): which rows to train on; count: how many they are.
    """

    rows: Rows
    check: Rows
    floor: Any
    usable: Any
    count: Any


class Batches(NamedTuple):
    """Minibatches in the order they are trained on: rows (T, b), -1 where one is not full; the first `steps` count."""

    rows: Any
    steps: Any


class Nets(NamedTuple):
    """A mean network and a variance network, or a residual one for both, which is `mean`; then `variance` is None."""

    mean: Network
    variance: Network | None


class Moments(NamedTuple):
    """The state of Adam: steps taken, and running means of gradients and of their squares."""

    count: Any
    first: Any
    second: Any

    @classmethod
    def zero(cls, net: Any, kind: Any = np) -> Moments:
        """Before the first step; as NumPy arrays, or as traced ones with `kind=jnp`."""
        blank = [jax.tree.map(lambda leaf: kind.zeros(leaf.shape, leaf.dtype), net) for _ in range(2)]
        return cls(kind.zeros((), np.int32), *blank)


def adam(net: Any, gradients: Any, state: Moments, rate: Any, decay: Any = 0.0) -> tuple[Any, Moments]:
    """w - rate (m^ / (sqrt(v^) + 1e-7) + decay w): Adam as the paper's framework had it, or AdamW.

    `decay` is one number, or one for each array of the network.

    Optax divides each number three times; with the bias corrections moved into two scalars once is enough, and these
    networks are so small that divisions show: training takes a tenth less. A test compares the two.
    """
    count = state.count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state.second, gradients)
    root = jnp.sqrt(1.0 - 0.999 ** count.astype(jnp.result_type(float)))
    scale, small = rate * root / (1.0 - 0.9 ** count.astype(jnp.result_type(float))), 1e-7 * root
    none = isinstance(decay, float) and decay == 0
    alike = jax.tree.structure(decay) == jax.tree.structure(net)
    decays = decay if alike else jax.tree.map(lambda _: decay, net)

    def moved(w: Array, m: Array, v: Array, less: Any) -> Array:
        keep = 1.0 if none else 1.0 - rate * less
        return (keep * w - scale * m / (jnp.sqrt(v) + small)).astype(w.dtype)

    net = jax.tree.map(moved, net, first, second, decays)
    return net, Moments(count, first, second)


def initial_nets(training: Training, capacity: Capacity, sizes: tuple[int, int], rng: np.random.Generator) -> Nets:
    """Glorot-uniform weights for the real fan-in and fan-out (`sizes`), laid out in the padded shape."""
    heads = 2 if training.residual else 1

    def network() -> Network:
        fans = (sizes[0], *training.hidden, heads * sizes[1])
        weights: list[Any] = []
        for i in range(len(fans) - 1):
            limit = np.sqrt(6.0 / (fans[i] + fans[i + 1]))
            weights.append(rng.uniform(-limit, limit, (fans[i], fans[i + 1])).astype(np.float32))
        biases: list[Any] = [np.zeros(width, np.float32) for width in fans[1:]]
        return Network(tuple(weights), tuple(biases), training.activation, training.residual)

    first = padded_network(network(), capacity)
    return Nets(first, None if training.residual else padded_network(network(), capacity))


def padded_network(net: Network, capacity: Capacity) -> Network:
    """The network with weights of 0 from inputs and to outputs that it does not have."""
    columns, heads = _real_outputs(net, capacity), 2 if net.skips else 1
    weights, biases = [np.asarray(part) for part in net.weights], [np.asarray(part) for part in net.biases]
    first = np.zeros((capacity.inputs, weights[0].shape[1]), np.float32)
    first[: len(weights[0])] = weights[0]
    weights[0] = first
    last = np.zeros((len(weights[-1]), heads * capacity.slots * capacity.quantities), np.float32)
    last[:, columns] = weights[-1]
    weights[-1], biases[-1] = last, np.zeros(last.shape[1], np.float32)
    biases[-1][columns] = np.asarray(net.biases[-1])
    return Network(tuple(weights), tuple(biases), net.activation, net.skips)  # type: ignore[arg-type]


def cut_network(net: Network, inputs: int, outputs: int) -> Network:
    """A padded network without its padding: what `padded_network` was given."""
    weights, biases = list(net.weights), list(net.biases)
    weights[0] = weights[0][:inputs]
    heads = 2 if net.skips else 1
    width = len(biases[-1]) // heads
    columns = np.concatenate([head * width + np.arange(outputs) for head in range(heads)])
    weights[-1], biases[-1] = weights[-1][:, columns], biases[-1][columns]
    return Network(tuple(weights), tuple(biases), net.activation, net.skips)


def _real_outputs(net: Network, capacity: Capacity) -> np.ndarray:
    """Which columns of the padded last layer are the network's own: the first of each head."""
    heads, width = 2 if net.skips else 1, capacity.slots * capacity.quantities
    outputs = net.biases[-1].shape[-1] // heads
    return np.concatenate([head * width + np.arange(outputs) for head in range(heads)])


def answers(
    mean: Network, variance: Network | None, x: Any, shape: tuple[int, ...]
) -> tuple[Float[Array, "b S Q"], Float[Array, "b S Q"]]:
    """(means, raw variances) for many inputs x (b, D), each in that shape."""
    first = jax.vmap(mean)(x)
    if variance is None:
        first, second = jnp.split(first, 2, axis=1)
    else:
        second = jax.vmap(variance)(x)
    return first.reshape(shape), second.reshape(shape)


def outputs(nets: Nets, problem: Problem) -> tuple[Float[Array, "n S Q"], Float[Array, "n S Q"]]:
    """Mean and variance (with the resolution's share) of every row, in normalised units."""
    mean, raw = answers(nets.mean, nets.variance, problem.rows.x, problem.rows.y.shape)
    return mean, bounded_variance(raw) + problem.floor


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How values are trained: the schedule, and the leaf of each property."""

    training: Training
    leaves: tuple[Leaf, ...]


def row_losses(
    leaves: tuple[Leaf, ...], rows: Rows, mean: Float[Array, "b S Q"], variance: Float[Array, "b S Q"]
) -> Float[Array, "b S Q"]:
    """c times the loss of each value's leaf, but for constants; the variance contains resolution²."""
    terms = by_leaf(leaves, lambda leaf, *parts: leaf.loss(*parts), rows.y, rows.spread, mean, variance)
    return rows.coefficient[:, :, None] * terms


def joint_loss(
    nets: Nets, rows: Rows, floor: Float[Array, "S Q"], beta: float, leaves: tuple[Leaf, ...]
) -> Float[Array, " b"]:
    """sum of stop(var^beta) c loss; beta = 0 is the exact likelihood."""
    mean, raw = answers(nets.mean, nets.variance, rows.x, rows.y.shape)
    variance = bounded_variance(raw) + floor
    return (jax.lax.stop_gradient(variance**beta) * row_losses(leaves, rows, mean, variance)).sum(axis=(1, 2))


def shuffled(
    phase: Phase, training: Training, problem: Problem, rng: np.random.Generator, effort: float = 1.0
) -> Batches:
    """Epoch after epoch of all usable rows in random order: `epochs` of them, or as many as `steps` batches take.

    An `effort` below 1 is that share of them, in a table of the same size, so that nothing is compiled anew.

    Drawn here and not in the compiled program: a sort costs half a second to compile, and a table nothing to read.
    """
    usable, size = np.flatnonzero(problem.usable), training.batch
    per_epoch = -(-len(usable) // size)
    joint = phase == "joint"
    wanted = max(1, round(effort * training.steps))
    epochs = -(-wanted // per_epoch) if joint else max(1, round(effort * training.epochs))
    rows = np.full((epochs, per_epoch * size), -1, np.int32)
    for epoch in rows:
        epoch[: len(usable)] = rng.permutation(usable)
    steps = wanted if joint else epochs * per_epoch
    room = training.steps if joint else training.epochs * -(-len(problem.usable) // size)
    table = np.full((room, size), -1, np.int32)
    table[:steps] = rows.reshape(-1, size)[:steps]
    return Batches(table, np.int32(steps))


def _take(rows: Rows, index: Array) -> Rows:
    return Rows(*(part[index] for part in rows))


def _mean_over(index: Array, losses: Callable[[Array], Array]) -> Array:
    """The mean loss of a minibatch over the rows that are real."""
    real = (index >= 0).astype(jnp.result_type(float))
    return (real * losses(jnp.maximum(index, 0))).sum() / jnp.maximum(real.sum(), 1.0)


def alternate(
    phase: Phase, recipe: Recipe, nets: Nets, state: Moments, problem: Problem, batches: Batches
) -> tuple[Network, Moments]:
    """Minibatch Adam over the usable rows, for the one network that `phase` names; the other's answers are fixed.

    Gaussians have the paper's losses, without what is constant: c (y - mu)² / (2 var) for the mean, and
    c (r² / var + log var) / 2 for the variance, with squared residuals r² = (y - mu)² + spread.
    """
    mean, variance = outputs(nets, problem)
    squared = jnp.square(problem.rows.y - mean) + problem.rows.spread
    leaves, learns_mean = recipe.leaves, phase == "mean"
    gaussian = all(isinstance(leaf, Normal) for leaf in leaves)

    def objective(net: Network, index: Array) -> Array:
        def losses(index: Array) -> Array:
            rows = _take(problem.rows, index)
            answer, weight = jax.vmap(net)(rows.x).reshape(rows.y.shape), rows.coefficient[:, :, None]
            own = answer if learns_mean else bounded_variance(answer) + problem.floor
            if gaussian and learns_mean:
                return 0.5 * (weight * jnp.square(rows.y - own) / variance[index]).sum(axis=(1, 2))
            if gaussian:
                return 0.5 * (weight * (squared[index] / own + jnp.log(own))).sum(axis=(1, 2))
            pair = (own, variance[index]) if learns_mean else (mean[index], own)
            return row_losses(leaves, rows, *pair).sum(axis=(1, 2))

        return _mean_over(index, losses)

    def step(k: Array, carry: Any) -> Any:
        net, state = carry
        return adam(net, jax.grad(objective)(net, batches.rows[k]), state, recipe.training.learning_rate)

    return jax.lax.fori_loop(0, batches.steps, step, (nets.mean if learns_mean else nets.variance, state))


Parameters = TypeVar("Parameters")


class Descent(NamedTuple):
    """How `descend` trains: learning rate at its start, weight decay, steps between two looks at validation."""

    learning_rate: float
    decay: Any
    check_every: int


def descend(
    start: Parameters,
    objective: Callable[[Parameters, Array], Array],
    validate: Callable[[Parameters], Array],
    batches: Batches,
    how: Descent,
) -> Parameters:
    """Adam on `objective(parameters, rows of a minibatch)` at a rate that falls along a cosine.

    `validate(parameters)` is looked at every so often, and the parameters with the smallest are the result; NaN stands
    for "nothing to validate on": then the last ones are.
    """

    def rate(k: Array) -> Array:
        return 0.5 * how.learning_rate * (1.0 + jnp.cos(jnp.pi * k / batches.steps))

    def step(k: Array, carry: Any) -> Any:
        now, state, best, lowest = carry
        now, state = adam(now, jax.grad(objective)(now, batches.rows[k]), state, rate(k), how.decay)

        def check() -> Any:
            loss = validate(now)
            better = jnp.isnan(loss) | (loss < lowest)
            return jax.tree.map(lambda new, old: jnp.where(better, new, old), (now, loss), (best, lowest))

        due = ((k + 1) % how.check_every == 0) | (k + 1 == batches.steps)
        best, lowest = jax.lax.cond(due, check, lambda: (best, lowest))
        return now, state, best, lowest

    worst = jnp.full((), jnp.inf, jax.eval_shape(validate, start).dtype)
    carry = (start, Moments.zero(start, jnp), start, worst)
    return jax.lax.fori_loop(0, batches.steps, step, carry)[2]


def jointly(recipe: Recipe, nets: Nets, problem: Problem, batches: Batches) -> Nets:
    """`steps` minibatches of beta-NLL on both networks; the weights with the best validation likelihood are kept."""
    training, leaves = recipe.training, recipe.leaves
    checkable = problem.check.coefficient.sum() > 0
    decay = training.weight_decay / problem.count if training.weight_decay else 0.0

    def objective(nets: Nets, index: Array) -> Array:
        def losses(index: Array) -> Array:
            return joint_loss(nets, _take(problem.rows, index), problem.floor, training.beta, leaves)

        return _mean_over(index, losses)

    def validate(nets: Nets) -> Array:
        loss = joint_loss(nets, problem.check, problem.floor, 0.0, leaves).sum()
        return jnp.where(checkable, loss, jnp.nan)

    return descend(nets, objective, validate, batches, Descent(training.learning_rate, decay, training.check_every))


def _program(phase: Phase, recipe: Recipe, arguments: tuple[Any, ...]) -> Any:
    # Ensembles of any size share their programs.
    alone = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, members=1, most_held_out=0))
    function = jointly if phase == "joint" else functools.partial(alternate, phase)
    return PROGRAMS.get(phase, functools.partial(function, alone), arguments, alone)


def train_nets(recipe: Recipe, nets: Nets, problem: Problem, seed: int, effort: float = 1.0) -> Nets:
    """All phases for one predictor; an `effort` below 1 is that share of each phase."""
    training, rng = recipe.training, np.random.default_rng(seed)
    draws = [shuffled(phase, training, problem, rng, effort) for phase in training.phases]
    states = {"mean": Moments.zero(nets.mean), "variance": Moments.zero(nets.variance)}

    def arguments(phase: Phase, draw: Batches) -> tuple[Any, ...]:
        return (nets, problem, draw) if phase == "joint" else (nets, states[phase], problem, draw)

    first: dict[Phase, Batches] = dict(zip(training.phases, draws, strict=True))
    wanted = [functools.partial(_program, phase, recipe, arguments(phase, first[phase])) for phase in first]
    for _ in in_parallel([*wanted, functools.partial(PROGRAMS.get, "outputs", outputs, (nets, problem))]):
        pass  # compiled side by side: the compiler uses one core per program
    for phase, draw in zip(training.phases, draws, strict=True):
        given = arguments(phase, draw)
        found = jax.block_until_ready(_program(phase, recipe, given)(*given))
        if phase == "joint":
            nets = found
        else:
            net, states[phase] = found
            nets = nets._replace(**{phase: net})
    return jax.tree.map(np.asarray, nets)


def net_outputs(nets: Nets, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """`outputs`, compiled."""
    mean, variance = PROGRAMS.get("outputs", outputs, (nets, problem))(nets, problem)
    return np.asarray(mean), np.asarray(variance)
