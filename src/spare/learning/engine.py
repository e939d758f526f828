"""The training engine: many small networks, one compiled program per phase, all cores.

1. Every candidate's numbers are padded to one `Capacity`, so a whole search compiles each program once.
2. A program trains one network of one candidate for one phase; what the other network says is fixed during it.
3. Candidates run side by side on a pool of threads, one each: XLA releases the interpreter lock, matrix products
   stay single-threaded, memory is bounded by the number of threads, and each result is the same whatever the
   number of threads.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from spare.learning.presets import Phase, Training
from spare.learning.programs import PROGRAMS
from spare.learning.threads import in_parallel
from spare.model.predictors import Network, bounded_variance


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
    """Mean and variance network with the state of their optimisers; a shared one is `mean`, and `variance` is None."""

    mean: Network
    variance: Network | None
    mean_state: Any
    variance_state: Any


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

    Optax divides each number three times; with the bias corrections moved into two scalars once is enough, and these
    networks are so small that divisions show: training takes a tenth less. A test compares the two.
    """
    count = state.count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state.second, gradients)
    root = jnp.sqrt(1.0 - 0.999 ** count.astype(jnp.result_type(float)))
    scale, small = rate * root / (1.0 - 0.9 ** count.astype(jnp.result_type(float))), 1e-7 * root
    keep = 1.0 if isinstance(decay, float) and decay == 0 else 1.0 - rate * decay
    net = jax.tree.map(lambda w, m, v: keep * w - scale * m / (jnp.sqrt(v) + small), net, first, second)
    return net, Moments(count, first, second)


def initial_nets(training: Training, capacity: Capacity, sizes: tuple[int, int], rng: np.random.Generator) -> Nets:
    """Glorot-uniform weights for the real fan-in and fan-out (`sizes`), laid out in the padded shape."""
    outputs = capacity.slots * capacity.quantities
    heads = 2 if training.shared else 1

    def network() -> Any:
        widths = (capacity.inputs, *training.hidden, heads * outputs)
        fans = (sizes[0], *training.hidden, heads * sizes[1])
        weights = []
        for i in range(len(widths) - 1):
            limit = np.sqrt(6.0 / (fans[i] + fans[i + 1]))
            weight = np.zeros((widths[i], widths[i + 1]), np.float32)
            columns = real_outputs(widths[-1], sizes[1], heads) if i == len(widths) - 2 else slice(fans[i + 1])
            weight[: fans[i], columns] = rng.uniform(-limit, limit, (fans[i], fans[i + 1]))
            weights.append(weight)
        biases: Any = tuple(np.zeros(w, np.float32) for w in widths[1:])
        return Network(tuple(weights), biases, training.activation, training.shared)

    if training.shared:
        return Nets(network(), None, None, None)
    mean, variance = network(), network()
    return Nets(mean, variance, Moments.zero(mean), Moments.zero(variance))


def grown(nets: Nets, parent: Nets, known: tuple[int, int]) -> Nets:
    """Networks that first say what a parent says, which has the first `known` (inputs, outputs) of theirs.

    W = 0 from further inputs; the weights to further outputs stay fresh.
    """

    def network(fresh: Network, old: Network) -> Network:
        weights, biases = [np.array(one) for one in old.weights], [np.array(one) for one in old.biases]
        weights[0][known[0] :] = 0.0
        last = np.array(fresh.weights[-1])
        columns = real_outputs(last.shape[1], known[1], 2 if fresh.skips else 1)
        last[:, columns] = weights[-1][:, columns]
        end = np.array(fresh.biases[-1])
        end[columns] = biases[-1][columns]
        return Network((*weights[:-1], last), (*biases[:-1], end), fresh.activation, fresh.skips)

    mean = network(nets.mean, parent.mean)
    variance = network(nets.variance, parent.variance) if nets.variance and parent.variance else None
    return nets._replace(mean=mean, variance=variance)


def real_outputs(width: int, outputs: int, heads: int) -> np.ndarray:
    """Which columns of a padded last layer of that width are `outputs` real ones of each head."""
    return np.concatenate([head * (width // heads) + np.arange(outputs) for head in range(heads)])


def told(
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
    mean, raw = told(nets.mean, nets.variance, problem.rows.x, problem.rows.y.shape)
    return mean, bounded_variance(raw) + problem.floor


def mean_loss(net: Network, rows: Rows, variance: Float[Array, "b S Q"]) -> Float[Array, " b"]:
    """sum over slots and values of c (y - mu(x))² / (2 var), with the variance fixed."""
    mean = jax.vmap(net)(rows.x).reshape(rows.y.shape)
    return 0.5 * (rows.coefficient[:, :, None] * jnp.square(rows.y - mean) / variance).sum(axis=(1, 2))


def variance_loss(
    net: Network, rows: Rows, squared: Float[Array, "b S Q"], floor: Float[Array, "S Q"]
) -> Float[Array, " b"]:
    """sum of c (r² / var(x) + log var(x)) / 2, with the squared residuals r² = (y - mu)² + spread fixed."""
    variance = bounded_variance(jax.vmap(net)(rows.x).reshape(rows.y.shape)) + floor
    return 0.5 * (rows.coefficient[:, :, None] * (squared / variance + jnp.log(variance))).sum(axis=(1, 2))


def joint_loss(
    nets: tuple[Network, Network | None], rows: Rows, floor: Float[Array, "S Q"], beta: float
) -> Float[Array, " b"]:
    """sum of stop(var^beta) c (((y - mu)² + spread) / var + log var) / 2; beta = 0 is the exact likelihood."""
    mean, raw = told(*nets, rows.x, rows.y.shape)
    variance = bounded_variance(raw) + floor
    squared = jnp.square(rows.y - mean) + rows.spread
    terms = 0.5 * rows.coefficient[:, :, None] * (squared / variance + jnp.log(variance))
    return (jax.lax.stop_gradient(variance**beta) * terms).sum(axis=(1, 2))


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


def alternate(phase: Phase, training: Training, nets: Nets, problem: Problem, batches: Batches) -> Nets:
    """Minibatch Adam over the usable rows, for the one network that `phase` names."""
    mean, variance = outputs(nets, problem)
    learns_mean = phase == "mean"
    fixed = variance if learns_mean else jnp.square(problem.rows.y - mean) + problem.rows.spread

    def objective(net: Network, index: Array) -> Array:
        def losses(index: Array) -> Array:
            taken = _take(problem.rows, index)
            if learns_mean:
                return mean_loss(net, taken, fixed[index])
            return variance_loss(net, taken, fixed[index], problem.floor)

        return _mean_over(index, losses)

    def step(k: Array, carry: Any) -> Any:
        net, state = carry
        return adam(net, jax.grad(objective)(net, batches.rows[k]), state, training.learning_rate)

    start: Any = (nets.mean, nets.mean_state) if learns_mean else (nets.variance, nets.variance_state)
    net, state = jax.lax.fori_loop(0, batches.steps, step, start)
    if learns_mean:
        return nets._replace(mean=net, mean_state=state)
    return nets._replace(variance=net, variance_state=state)


def jointly(training: Training, nets: Nets, problem: Problem, batches: Batches) -> Nets:
    """`steps` minibatches of beta-NLL on both networks; the weights with the best validation likelihood are kept."""

    def rate(k: Array) -> Array:
        return 0.5 * training.learning_rate * (1.0 + jnp.cos(jnp.pi * k / batches.steps))

    checkable = problem.check.coefficient.sum() > 0
    decay = training.shrink / problem.count if training.shrink else 0.0

    def objective(pair: Any, index: Array) -> Array:
        return _mean_over(
            index, lambda index: joint_loss(pair, _take(problem.rows, index), problem.floor, training.beta)
        )

    def step(k: Array, carry: Any) -> Any:
        pair, state, best, lowest = carry
        gradients = jax.grad(objective)(pair, batches.rows[k])
        pair, state = adam(pair, gradients, state, rate(k), decay)

        def check() -> Any:
            loss = joint_loss(pair, problem.check, problem.floor, 0.0).sum()
            better = ~checkable | (loss < lowest)
            return jax.tree.map(lambda new, old: jnp.where(better, new, old), (pair, loss), (best, lowest))

        due = ((k + 1) % training.check_every == 0) | (k + 1 == batches.steps)
        best, lowest = jax.lax.cond(due, check, lambda: (best, lowest))
        return pair, state, best, lowest

    pair: Any = (nets.mean, nets.variance)
    start = (pair, Moments.zero(pair, jnp), pair, jnp.asarray(jnp.inf, problem.rows.x.dtype))
    best = jax.lax.fori_loop(0, batches.steps, step, start)[2]
    return nets._replace(mean=best[0], variance=best[1])


def run_phase(phase: Phase, training: Training, nets: Nets, problem: Problem, batches: Batches) -> Nets:
    """One phase of training."""
    if phase == "joint":
        return jointly(training, nets, problem, batches)
    return alternate(phase, training, nets, problem, batches)


def _phase_program(phase: Phase, training: Training, arguments: tuple[Any, ...]) -> Any:
    alone = dataclasses.replace(training, members=1, checked=0)  # ensembles of any size share their programs
    return PROGRAMS.get(phase, functools.partial(run_phase, phase, alone), arguments, alone)


def _compile_ahead(training: Training, nets: Nets, problem: Problem, draws: Sequence[Batches]) -> None:
    """Compile what the phases need side by side: the compiler uses one core per program."""
    drawn: dict[Phase, Batches] = dict(zip(training.phases, draws, strict=True))
    wanted = [functools.partial(_phase_program, phase, training, (nets, problem, drawn[phase])) for phase in drawn]
    wanted.append(functools.partial(PROGRAMS.get, "outputs", outputs, (nets, problem)))
    for _ in in_parallel(wanted):
        pass


def train(
    training: Training, nets: Nets, problem: Problem, seed: int, effort: float = 1.0
) -> tuple[Nets, np.ndarray, np.ndarray]:
    """All phases for one predictor: (trained nets, mean, variance of every row), in normalised units."""
    rng = np.random.default_rng(seed)
    draws = [shuffled(phase, training, problem, rng, effort) for phase in training.phases]
    _compile_ahead(training, nets, problem, draws)
    for phase, draw in zip(training.phases, draws, strict=True):
        arguments = (nets, problem, draw)
        nets = jax.block_until_ready(_phase_program(phase, training, arguments)(*arguments))
    mean, variance = PROGRAMS.get("outputs", outputs, (nets, problem))(nets, problem)
    return jax.tree.map(np.asarray, nets), np.asarray(mean), np.asarray(variance)
