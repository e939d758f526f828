"""The losses that training follows: their gradients, their minima, and what weights and sets mean in them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from spare.lab.worlds import queue as toy
from spare.language.kinds import Leaf, Normal
from spare.language.references import Pointer, Shell
from spare.learning.engine import Batches, Moments, Nets, Problem, Recipe, Rows, adam, alternate, joint_loss
from spare.learning.fit import make_dataset
from spare.learning.noise import default_variance
from spare.learning.presets import PRESETS, Phase, Training
from spare.learning.problems import padded_problem, take_scale
from spare.model.predictors import Network, bounded_variance
from tests.learning.helpers import SMALL, plan_for

B, D, S, Q = 5, 4, 3, 2
NORMAL = (Normal(),) * Q


def network(rng: np.random.Generator) -> Network:
    sizes = (D, 6, S * Q)
    weights = tuple(jnp.asarray(rng.normal(size=(i, o)) / 2) for i, o in itertools.pairwise(sizes))
    return Network(weights, tuple(jnp.asarray(rng.normal(size=o) / 4) for o in sizes[1:]), "tanh")


def random_rows(rng: np.random.Generator) -> Rows:
    x, y, spread = rng.normal(size=(B, D)), rng.normal(size=(B, S, Q)), rng.uniform(0, 1, (B, S, Q))
    return Rows(*map(jnp.asarray, (x, y, spread, rng.uniform(0, 3, (B, S)))))


def check_gradient(loss: Callable[[Any], Any], parameters: Any, rng: np.random.Generator) -> None:
    """Central differences along random directions of all parameters at once, and along single ones."""
    compare_gradient(jax.jit(jax.grad(loss))(parameters), loss, parameters, rng)


def compare_gradient(found: Any, loss: Callable[[Any], Any], parameters: Any, rng: np.random.Generator) -> None:
    leaves, tree = jax.tree.flatten(parameters)
    loss = jax.jit(loss)
    assert all(leaf.dtype == jnp.float64 for leaf in leaves)
    gradient = jax.tree.leaves(found)
    directions = [[rng.normal(size=leaf.shape) for leaf in leaves] for _ in range(4)]
    for k, leaf in enumerate(leaves):  # one entry of every leaf alone
        one = [np.zeros(part.shape) for part in leaves]
        one[k].flat[int(rng.integers(leaf.size))] = 1.0
        directions.append(one)
    step = 1e-5
    for direction in directions:
        ends = [
            float(loss(tree.unflatten([leaf + sign * step * d for leaf, d in zip(leaves, direction, strict=True)])))
            for sign in (1, -1)
        ]
        expected = sum(float(jnp.vdot(g, d)) for g, d in zip(gradient, direction, strict=True))
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(expected, rel=1e-6, abs=1e-8)


# A Gaussian that the engine does not know to be one: it goes the way of every other leaf.
Other: Any = type("Other", (Leaf,), {name: getattr(Normal, name) for name in Leaf.__abstractmethods__})


@pytest.mark.slow
@pytest.mark.parametrize("leaf", [Normal(), Other()], ids=["Gaussian", "any leaf"])
@pytest.mark.parametrize("phase", ["mean", "variance"])
def test_gradients_of_the_paper_losses(phase: Phase, leaf: Leaf) -> None:
    """What Adam is given in a phase is the slope of the paper's loss, written out here; half a batch is empty.

    c (y - mu)² / (2 var) for the mean, with the variance fixed; c (r² / var + log var) / 2 for the variance, with
    r² = (y - mu)² + spread fixed; the mean over the rows of a minibatch.
    """
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        rows, mean_net, variance_net = random_rows(rng), network(rng), network(rng)
        nets = Nets(mean_net, variance_net)
        floor = jnp.asarray(rng.uniform(0.01, 0.1, (S, Q)))
        problem = Problem(rows, rows, floor, np.ones(B, bool), np.int32(B))
        batches = Batches(jnp.array([[3, 0, 4, -1, -1]]), np.int32(1))
        used, learns_mean = np.array([3, 0, 4]), phase == "mean"
        learned = mean_net if learns_mean else variance_net

        def said(net: Network) -> Any:
            return jnp.stack([net(x) for x in rows.x[used]]).reshape(3, S, Q)

        def loss(net: Network) -> Any:
            mean, raw = said(net if learns_mean else mean_net), said(variance_net if learns_mean else net)
            variance, square = bounded_variance(raw) + floor, jnp.square(rows.y[used] - mean)
            terms = square / variance if learns_mean else (square + rows.spread[used]) / variance + jnp.log(variance)
            return 0.5 * (rows.coefficient[used][:, :, None] * terms).sum() / 3

        _, state = alternate(phase, Recipe(Training(), (leaf,) * Q), nets, Moments.zero(learned), problem, batches)
        assert int(state.count) == 1
        # After one step Adam's running mean is a tenth of the gradient.
        compare_gradient(jax.tree.map(lambda part: 10 * part, state.first), loss, learned, rng)


@pytest.mark.slow
def test_gradient_of_the_joint_loss() -> None:
    with jax.enable_x64(True):
        rng = np.random.default_rng(1)
        rows, nets = random_rows(rng), Nets(network(rng), network(rng))
        floor = jnp.asarray(rng.uniform(0.01, 0.1, (S, Q)))
        check_gradient(lambda pair: joint_loss(pair, rows, floor, 0.0, NORMAL).sum(), nets, rng)


def test_beta_scales_each_value_by_its_variance_and_nothing_else() -> None:
    """d/dmu of the beta loss is var^beta times that of the likelihood, value by value."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(2)
        floor = jnp.asarray(rng.uniform(0.01, 0.1, (S, Q)))
        zero = jnp.zeros((D, S * Q))
        mean_bias, raw = jnp.asarray(rng.normal(size=S * Q)), jnp.asarray(rng.normal(size=S * Q))

        def loss(biases: Any, beta: float) -> Any:
            mean, variance = (Network((zero,), (bias,), "tanh") for bias in biases)
            return joint_loss(Nets(mean, variance), rows, floor, beta, NORMAL).sum()

        rows = random_rows(rng)
        plain, weighted = (jax.jit(jax.grad(loss), static_argnums=1)((mean_bias, raw), beta) for beta in (0.0, 0.5))
        variance = bounded_variance(raw) + floor.reshape(-1)
        for one, other in zip(plain, weighted, strict=True):
            np.testing.assert_allclose(other, one * jnp.sqrt(variance), rtol=1e-10)


def test_joint_loss_without_beta_is_the_likelihood_of_every_member() -> None:
    """m ((ybar - mu)² + s²) / var + m log var equals the sum over the m members, and log 2 pi is left out."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(3)
        members = [rng.normal(size=(int(m), Q)) for m in rng.integers(1, 5, S)]
        y = jnp.asarray(np.stack([m.mean(axis=0) for m in members]))[None]
        spread = jnp.asarray(np.stack([m.var(axis=0) for m in members]))[None]
        size = jnp.asarray([[float(len(m)) for m in members]])
        mean_net, variance_net = network(rng), network(rng)
        nets = Nets(mean_net, variance_net)
        x, floor = jnp.asarray(rng.normal(size=(1, D))), jnp.full((S, Q), 0.05)
        mean = np.asarray(mean_net(x[0])).reshape(S, Q)
        variance = np.asarray(bounded_variance(variance_net(x[0]))).reshape(S, Q) + 0.05
        terms = [
            0.5 * np.square(one - mean[s]) / variance[s] + 0.5 * np.log(variance[s])
            for s in range(S)
            for one in members[s]
        ]
        found = joint_loss(nets, Rows(x, y, spread, size), floor, 0.0, NORMAL)
        np.testing.assert_allclose(float(found[0]), np.sum(terms), rtol=1e-12)


def test_default_variance_is_the_minimum() -> None:
    data = toy.generate(30, seed=3)
    rng = np.random.default_rng(3)
    weights = rng.uniform(0, 2, len(data))
    still = rng.uniform(size=len(data.values)) < 0.7
    v = default_variance(data, still, weights)
    moved = data.next_values[:, :2].astype(np.float64) - data.values[:, :2]
    each = np.repeat(weights, data.counts)[still, None]

    def loss(variance: np.ndarray) -> np.ndarray:
        total = variance + data.domain.resolutions**2
        return (each * (np.square(moved[still]) / total + np.log(total))).sum(axis=0)

    best = loss(v)
    for factor in (0.5, 0.9, 0.999, 1.001, 1.1, 2.0):
        assert (loss(v * factor) > best).all()


def test_default_variance_is_never_negative_and_0_without_rows() -> None:
    data = toy.generate(5, seed=0)
    nothing = np.zeros(len(data.values), bool)
    assert (default_variance(data, nothing, data.weights) == 0).all()
    resting = dataclasses.replace(data, next_values=data.values)
    assert (default_variance(resting, ~nothing, data.weights) == 0).all()
    # the boundary is still the minimum: a larger variance is worse
    total = data.domain.resolutions**2
    assert (np.log(total * 1.01) > np.log(total)).all()


SHELL = Shell(1, (Pointer("line", (0,)), Pointer("behind", (0,))))


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["paper", "shared"])
def test_weight_2_equals_repeating(preset: str) -> None:
    """Scaling, default variance, and every row's share of loss and gradient."""
    chosen = dataclasses.replace(PRESETS[preset], training=dataclasses.replace(PRESETS[preset].training, **SMALL))
    data = toy.generate(20, seed=5)
    twice = np.arange(20) % 3 == 0
    doubled = data.weighted(np.where(twice, 2.0, 1.0))
    repeated = data[np.sort(np.concatenate([np.arange(20), np.flatnonzero(twice)]))]
    results = []
    for one in (doubled, repeated):
        dataset = make_dataset(one, "usher", chosen)
        table = dataset.matrix(SHELL, SHELL)
        weights = np.where(table.applies, one.weights, 0.0)
        scaling = take_scale(table, weights, one.domain)
        plan = plan_for(dataset, chosen)
        exact = plan.preset.training.set_targets == "exact"
        problem = padded_problem(table, (weights, one.weights), scaling, plan.capacity, one.domain.resolutions, exact)
        problem = jax.tree.map(jnp.asarray, problem)
        still = ~table.outputs.any(axis=0) & np.repeat(table.applies, one.counts)
        rest = default_variance(one, still, weights)
        net = np.random.default_rng(0)
        nets = Nets(*(_padded_net(net, problem) for _ in range(2)))

        def total(pair: Any, problem: Any = problem) -> Any:
            losses = joint_loss(pair, problem.rows, problem.floor, 0.5, NORMAL)
            return losses.sum() / problem.rows.coefficient.sum()

        results.append((scaling, rest, *jax.jit(jax.value_and_grad(total))(nets)))
    (scaling, rest, loss, gradient), (scaling2, rest2, loss2, gradient2) = results
    for part, part2 in zip(dataclasses.astuple(scaling), dataclasses.astuple(scaling2), strict=True):
        np.testing.assert_allclose(part, part2, rtol=1e-12)
    np.testing.assert_allclose(rest, rest2, rtol=1e-12)
    assert float(loss) == pytest.approx(float(loss2), rel=1e-5)
    for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(gradient2), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def _padded_net(rng: np.random.Generator, problem: Any) -> Network:
    inputs, outputs = problem.rows.x.shape[1], int(np.prod(problem.rows.y.shape[1:]))
    weights = (rng.normal(size=(inputs, 8)) / 4, rng.normal(size=(8, outputs)) / 4)
    return Network(tuple(jnp.asarray(w, jnp.float32) for w in weights), (jnp.zeros(8), jnp.zeros(outputs)), "tanh")


def test_adam_is_the_one_of_optax() -> None:
    """With the same gradients, and with and without weight decay."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(4)
        gradients = [
            jax.tree.map(jnp.asarray, {"w": rng.normal(size=(3, 2)), "b": rng.normal(size=2)}) for _ in range(9)
        ]
        for decay, theirs in ((0.0, optax.adam(0.03, eps=1e-7)), (0.2, optax.adamw(0.03, eps=1e-7, weight_decay=0.2))):
            ours, other = gradients[0], gradients[0]
            state, their_state = Moments.zero(ours), theirs.init(other)
            for gradient in gradients:
                ours, state = adam(ours, gradient, state, 0.03, decay)
                updates, their_state = theirs.update(gradient, their_state, other)
                other = optax.apply_updates(other, updates)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), ours, other)
