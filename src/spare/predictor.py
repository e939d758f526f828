"""Predictors phi_theta: x -> a Gaussian for every output value (sections 3.2 and 4.1 of the paper).

A predictor is a seam: anything that maps x to `Gaussians` can stand in a rule. `Predictor` is the paper's: a mean
net and a variance net, here with normalisation inside and an ensemble axis (one member is the paper's case).
"""

from __future__ import annotations

import abc
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from spare.errors import DefinitionError

ACTIVATIONS = {"relu": jax.nn.relu, "silu": jax.nn.silu, "tanh": jnp.tanh}
LOWEST_LOG_VARIANCE, HIGHEST_LOG_VARIANCE = -18.0, 8.0


class Gaussians(NamedTuple):
    """sum over c of exp(log_weight_c) N(mean_c, variance_c), for each of S output slots and Q values."""

    log_weight: Float[Array, " C"]
    mean: Float[Array, "C S Q"]
    variance: Float[Array, "C S Q"]


class AbstractPredictor(eqx.Module):
    """phi: x -> `Gaussians`, with `outputs` slots of values; variances exclude the resolution's square."""

    @property
    def members(self) -> int:
        """M, the number of predictors in an ensemble; the components of each stand together, all M weigh the same."""
        return 1

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " D"]) -> Gaussians:
        """The predicted components for one input vector."""


class Network(eqx.Module):
    """A fully connected net h -> W h + b with `activation` between layers; no hidden layer makes it linear."""

    weights: tuple[Float[Array | np.ndarray, " ..."], ...]
    biases: tuple[Float[Array | np.ndarray, " ..."], ...]
    activation: str = eqx.field(static=True)

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, " O"]:
        """One input vector through one member's layers."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = ACTIVATIONS[self.activation](x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]


def glorot_network(key: PRNGKeyArray, sizes: tuple[int, ...], activation: str) -> Network:
    """Glorot-uniform weights U(-a, a) with a = sqrt(6 / (in + out)), zero biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    weights = tuple(
        jax.random.uniform(k, (i, o), minval=-1.0, maxval=1.0) * jnp.sqrt(6.0 / (i + o))
        for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
    )
    return Network(weights, tuple(jnp.zeros(o) for o in sizes[1:]), activation)


def bounded_variance(raw: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """e^L + 1 / (e^-H + e^-raw): exp(raw) between smooth bounds e^L and e^H, so that no step of training can blow up.

    The same as two softplus clamps of the logarithm, with one exponential instead of five transcendental functions.
    """
    # Beyond these limits the result is at a bound anyhow, and its gradient 0.
    tame = jnp.clip(raw, -60.0, 60.0)
    return math.exp(LOWEST_LOG_VARIANCE) + 1.0 / (math.exp(-HIGHEST_LOG_VARIANCE) + jnp.exp(-tame))


class Predictor(AbstractPredictor):
    """N(mu(x), diag sigma²(x)): mean and variance nets on normalised x and y; leaves carry a member axis M.

    mu = y_mean + y_scale * mean_net((x - x_mean) / x_scale)
    sigma² = y_scale² * bounded_variance(variance_net(...))
    Members are mixed with equal weight, value by value.
    """

    mean_net: Network
    variance_net: Network
    x_mean: Float[Array, " D"]
    x_scale: Float[Array, " D"]
    y_mean: Float[Array, "S Q"]
    y_scale: Float[Array, "S Q"]

    @property
    def members(self) -> int:
        """M, the number of ensemble members."""
        return self.mean_net.biases[-1].shape[0]

    def __call__(self, x: Float[Array, " D"]) -> Gaussians:
        """One Gaussian per member, output slot and value."""
        normal = (x - self.x_mean) / self.x_scale
        shape = (self.members, *self.y_mean.shape)
        mean = eqx.filter_vmap(lambda net: net(normal))(self.mean_net).reshape(shape)
        raw = eqx.filter_vmap(lambda net: net(normal))(self.variance_net).reshape(shape)
        variance = jnp.square(self.y_scale) * bounded_variance(raw)
        weight = jnp.full(self.members, -jnp.log(self.members))
        return Gaussians(weight, self.y_mean + self.y_scale * mean, variance)


def fresh_predictor(
    key: PRNGKeyArray,
    inputs: int,
    outputs: tuple[int, int],
    hidden: tuple[int, ...] = (150, 150),
    members: int = 1,
) -> Predictor:
    """An untrained predictor with the paper's nets: Glorot weights, ReLU, unit normalisation."""
    sizes = (inputs, *hidden, outputs[0] * outputs[1])

    def make(k: PRNGKeyArray) -> tuple[Network, Network]:
        first, second = jax.random.split(k)
        return glorot_network(first, sizes, "relu"), glorot_network(second, sizes, "relu")

    mean_net, variance_net = eqx.filter_vmap(make)(jax.random.split(key, members))
    return Predictor(mean_net, variance_net, jnp.zeros(inputs), jnp.ones(inputs), jnp.zeros(outputs), jnp.ones(outputs))


def linear_predictor(weight: Float[Array, "D O"], bias: Float[Array, " O"], variance: Float[Array, "S Q"]) -> Predictor:
    """N(W x + b, diag variance): the exact predictor of a linear-Gaussian world."""
    shape = variance.shape
    lowest, highest = math.exp(LOWEST_LOG_VARIANCE), math.exp(HIGHEST_LOG_VARIANCE)
    if not bool(jnp.all((variance > lowest) & (variance < highest))):
        raise DefinitionError(f"variance: a predictor can say {lowest:.2g} to {highest:.4g}, got {variance}")
    inputs, outputs = weight.shape
    mean_net = Network((weight[None],), (bias[None],), "relu")
    # Solve bounded_variance(raw) = variance for raw.
    raw = -jnp.log(1.0 / (variance - lowest) - 1.0 / highest)
    variance_net = Network((jnp.zeros((1, inputs, outputs)),), (raw.reshape(1, outputs),), "relu")
    return Predictor(mean_net, variance_net, jnp.zeros(inputs), jnp.ones(inputs), jnp.zeros(shape), jnp.ones(shape))
