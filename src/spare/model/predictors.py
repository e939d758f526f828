"""Predictors phi_theta: x -> location and variance of every output value (sections 3.2 and 4.1 of the paper).

A predictor is a seam: anything that maps x to `Predicted` can stand in a rule, and anything that `register_predictor`
knows can be saved in a model file. `Predictor` is the paper's: a mean net and a variance net, here with normalisation
inside and an ensemble axis (one member is the paper's case), or one residual network for both. How a family of
predictors is trained is in `learning/families.py`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from spare.errors import DefinitionError, one_of
from spare.names import check_label

ACTIVATIONS = {"relu": jax.nn.relu, "silu": jax.nn.silu, "tanh": jnp.tanh}
LOWEST_LOG_VARIANCE, HIGHEST_LOG_VARIANCE = -18.0, 8.0
NORMALISATION = ("x_mean", "x_scale", "y_mean", "y_scale")
MOST_LAYERS = 64


class Predicted(NamedTuple):
    """sum over c of exp(log_weight_c) p(value | location_c, variance_c), for each of S output slots and Q values."""

    log_weight: Float[Array, " C"]
    location: Float[Array, "C S Q"]
    variance: Float[Array, "C S Q"]


class AbstractPredictor(eqx.Module):
    """phi: x -> `Predicted`, with S output slots of Q values; variances exclude the resolution's square."""

    @property
    def members(self) -> int:
        """M, the number of predictors in an ensemble; the components of each are contiguous, all M weigh the same."""
        return 1

    @abc.abstractmethod
    def __call__(self, x: Float[Array, " D"]) -> Predicted:
        """The predicted components for one input vector."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """What a file must know beside the arrays, as JSON values."""

    @abc.abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers by name, float32."""

    @classmethod
    @abc.abstractmethod
    def from_arrays(cls, description: Mapping[str, Any], take: Take) -> AbstractPredictor:
        """The predictor that `describe` and `arrays` came from; a `DefinitionError` says what does not fit."""


Take = Callable[[str], np.ndarray]
"""Gives the array of a name, or refuses with an error that names it."""

PREDICTORS: dict[str, type[AbstractPredictor]] = {}
"""The predictors that model files can hold, by name."""


def register_predictor(name: str, predictor: type[AbstractPredictor]) -> None:
    """Let model files hold predictors of this class under a name; a name belongs to one class."""
    if PREDICTORS.setdefault(check_label("predictor", name), predictor) is not predictor:
        raise DefinitionError(f"predictor {name!r} is registered already; choose another name")


def predictor_name(predictor: AbstractPredictor) -> str:
    """The name under which a predictor's class is registered."""
    for name, kind in PREDICTORS.items():
        if type(predictor) is kind:
            return name
    raise DefinitionError(f"predictors of type {type(predictor).__name__} cannot be saved; see register_predictor")


class Network(eqx.Module):
    """A fully connected net h -> W h + b with `activation` between layers; no hidden layer makes it linear.

    With `skips`, layers come in pairs B(h) = W' activation(W h + b) + b': h1 = B1(x), then h <- h + B(h) for the pairs
    between, and the last pair gives the outputs.
    """

    weights: tuple[Float[Array | np.ndarray, " ..."], ...]
    biases: tuple[Float[Array | np.ndarray, " ..."], ...]
    activation: str = eqx.field(static=True)
    skips: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        if self.skips and not may_skip([weight.shape[-1] for weight in self.weights[:-1]]):
            raise DefinitionError("a network with skips has pairs of layers, at least two, and equal hidden widths")

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, " O"]:
        """One input vector through one member's layers."""
        if self.skips:
            return self._in_pairs(x)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = ACTIVATIONS[self.activation](x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]

    def _in_pairs(self, x: Float[Array, " D"]) -> Float[Array, " O"]:
        act, last = ACTIVATIONS[self.activation], len(self.weights) - 2
        for k in range(0, last + 1, 2):
            hidden = act(x @ self.weights[k] + self.biases[k])
            answer = hidden @ self.weights[k + 1] + self.biases[k + 1]
            x = x + answer if 0 < k < last else answer
        return x


def may_skip(hidden: Sequence[int]) -> bool:
    """Whether hidden layers of these widths can be the pairs of a residual network: 3, 5, 7, ... of one width."""
    return len(hidden) >= 3 and len(hidden) % 2 == 1 and len({*hidden}) == 1


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
    Without a `variance_net`, `mean_net` is a residual network that gives both: means, then raw variances.
    Members are mixed with equal weight, value by value.
    """

    mean_net: Network
    variance_net: Network | None
    x_mean: Float[Array, " D"]
    x_scale: Float[Array, " D"]
    y_mean: Float[Array, "S Q"]
    y_scale: Float[Array, "S Q"]

    def __check_init__(self) -> None:
        if self.mean_net.skips != (self.variance_net is None) or (self.variance_net and self.variance_net.skips):
            raise DefinitionError("a predictor has a mean net and a variance net, or one net with skips for both")

    @property
    def members(self) -> int:
        """M, the number of ensemble members."""
        return self.mean_net.biases[-1].shape[0]

    def __call__(self, x: Float[Array, " D"]) -> Predicted:
        """One leaf per member, output slot and value."""
        normal = (x - self.x_mean) / self.x_scale
        shape = (self.members, *self.y_mean.shape)
        mean = eqx.filter_vmap(lambda net: net(normal))(self.mean_net)
        if self.variance_net is None:
            mean, raw = jnp.split(mean, 2, axis=1)
        else:
            raw = eqx.filter_vmap(lambda net: net(normal))(self.variance_net)
        variance = jnp.square(self.y_scale) * bounded_variance(raw.reshape(shape))
        weight = jnp.full(self.members, -jnp.log(self.members))
        return Predicted(weight, self.y_mean + self.y_scale * mean.reshape(shape), variance)

    @property
    def networks(self) -> dict[str, Network]:
        """The networks by name: two, or one for both."""
        if self.variance_net is None:
            return {"both": self.mean_net}
        return {"mean": self.mean_net, "variance": self.variance_net}

    def describe(self) -> dict[str, Any]:
        """`networks`: the activation and the number of layers of each network."""
        nets = self.networks.items()
        return {"networks": {name: {"activation": net.activation, "layers": len(net.weights)} for name, net in nets}}

    def arrays(self) -> dict[str, np.ndarray]:
        """Normalisation, and `<network>.<layer>.weight` and `.bias`."""
        found = {name: np.asarray(getattr(self, name), np.float32) for name in NORMALISATION}
        for label, net in self.networks.items():
            for layer, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
                found[f"{label}.{layer}.weight"] = np.asarray(weight, np.float32)
                found[f"{label}.{layer}.bias"] = np.asarray(bias, np.float32)
        return found

    @classmethod
    def from_arrays(cls, description: Mapping[str, Any], take: Take) -> Predictor:
        """The predictor, if its networks and its normalisation fit each other."""
        described = description.get("networks")
        if not isinstance(described, dict) or {*described} not in ({"both"}, {"mean", "variance"}):
            raise DefinitionError("its networks are neither 'mean' and 'variance' nor 'both'")
        nets = {name: load_network(name, described[name], take) for name in described}
        first = nets.get("both") or nets["mean"]
        x_mean, x_scale, y_mean, y_scale = (take(name) for name in NORMALISATION)
        inputs = (first.weights[0].shape[1],)
        if (x_mean.shape, x_scale.shape) != (inputs, inputs) or y_mean.ndim != 2 or y_mean.shape != y_scale.shape:
            raise DefinitionError(f"the normalisation does not fit the network's {inputs[0]} inputs or its outputs")
        if (x_scale == 0).any():
            raise DefinitionError("a scale of its inputs is zero")
        return cls(first, nets.get("variance"), *map(jnp.asarray, (x_mean, x_scale, y_mean, y_scale)))


def load_network(name: str, described: Any, take: Take, *, constant: bool = False) -> Network:
    """The network of that name; a `DefinitionError` says what does not fit. A `constant` one may have no inputs."""
    activation, layers = described.get("activation"), described.get("layers")
    if activation not in ACTIVATIONS:
        raise DefinitionError(one_of("activation", activation, ACTIVATIONS))
    if type(layers) is not int or not 1 <= layers <= MOST_LAYERS:
        raise DefinitionError(f"a network of {str(layers)[:32]!r} layers")
    weights = tuple(jnp.asarray(take(f"{name}.{k}.weight")) for k in range(layers))
    biases = tuple(jnp.asarray(take(f"{name}.{k}.bias")) for k in range(layers))
    for k, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        empty = 0 in (weight.shape[::2] if constant and k == 0 else weight.shape)
        if weight.ndim != 3 or bias.shape != (weight.shape[0], weight.shape[2]) or empty:
            raise DefinitionError(f"the {name} network has layers of shapes {weight.shape} and {bias.shape}")
    return Network(weights, biases, activation, name == "both")


register_predictor("networks", Predictor)


def linear_predictor(weight: Float[Array, "D O"], bias: Float[Array, " O"], variance: Float[Array, "S Q"]) -> Predictor:
    """N(W x + b, diag variance): the exact predictor of a linear-Gaussian world."""
    try:
        weight, bias, variance = (jnp.asarray(part) for part in (weight, bias, variance))
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"linear predictor: weight, bias and variance are arrays of numbers: {error}") from error
    if weight.ndim != 2 or variance.ndim != 2 or bias.shape != weight.shape[1:] or variance.size != weight.shape[1]:
        raise DefinitionError(
            "linear predictor: weight is (inputs, outputs), bias (outputs,) and variance (slots, properties), with "
            f"outputs = slots x properties; got shapes {weight.shape}, {bias.shape} and {variance.shape}"
        )
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
