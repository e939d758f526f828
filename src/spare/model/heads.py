"""Heads: what is expected of every member of a slot, as a small mixture of outcomes.

For an object o with inputs x the change y of its properties (beyond what its process expects) has the density

    p(y | x) = sum over outcomes k of w_k(x) p_k(y | x)
    p_k(y | x) = (1 - e) prod_q N(y_q; m_kq(x), v_kq(x)) + e prod_q N(y_q; m_kq(x), a_q² v_kq(x) + b_q²)

The first outcome may be pinned: m = 0, "nothing changes". The second term is a small wide component around the same
mean, against corrupted rows and heavy tails: one coin for all properties of an object. Every variance contains
resolution². The scope of an outcome is one object, or the whole rule: then w_k is the rule's, and all its heads with
that scope take the same outcome.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from spare.arrays import array_module
from spare.errors import DefinitionError
from spare.language.kinds import LOG_2PI
from spare.model.predictors import Network, Take, bounded_variance, load_network

Scope = Literal["object", "rule"]
MOST_OUTCOMES = 4
LARGEST_TAIL = 0.3
"""The wide component is a correction: it has at most this share."""


@dataclasses.dataclass(frozen=True)
class HeadSpec:
    """One head apart from its numbers: the slot whose members it predicts, its inputs, and its outcomes.

    `outcomes` counts the pinned one; one outcome that is pinned is "stays, with noise" and has no network. A `relative`
    head predicts changes beyond what an object's process expects of it, another one the changes themselves.
    """

    slot: int
    inputs: tuple[str, ...] = ()
    outcomes: int = 1
    pinned: bool = False
    scope: Scope = "object"
    relative: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.outcomes <= MOST_OUTCOMES:
            raise DefinitionError(f"a head has 1 to {MOST_OUTCOMES} outcomes, got {self.outcomes}")
        if self.scope not in ("object", "rule"):
            raise DefinitionError(f"the scope of outcomes is 'object' or 'rule', got {self.scope!r}")

    @property
    def free(self) -> int:
        """How many outcomes a network predicts."""
        return self.outcomes - self.pinned

    def outputs(self, quantities: int) -> int:
        """How many numbers its network gives: gate (if there is one), means, raw variances."""
        gate = self.outcomes if self.outcomes > 1 and self.scope == "object" else 0
        return gate + 2 * self.free * quantities

    def to_json(self) -> dict[str, Any]:
        """As a model file holds it."""
        return {**dataclasses.asdict(self), "inputs": list(self.inputs)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> HeadSpec:
        """What `to_json` wrote."""
        return cls(**{**entry, "inputs": tuple(entry["inputs"])})


class HeadWeights(NamedTuple):
    """What is trained of one member: answers are net(x) + linear x; raw variances of the pinned outcome, raw tail.

    linear (D, O), or None without a network; stay (Q,), tail (1 + 2 Q,).
    """

    net: Network | None
    linear: Any
    stay: Any
    tail: Any


class Said(NamedTuple):
    """What a head says of rows, leading axes ...: log_gate (..., K), mean, variance, wide (..., K, Q), log_tail ().

    `wide` is the variance of the wide component, exp(log_tail) its share; variances contain resolution².
    """

    log_gate: Any
    mean: Any
    variance: Any
    wide: Any
    log_tail: Any

    def hiding(self, held: Any, y: Any) -> Said:
        """The same where objects have a property (`held`, (..., Q)), and log density 0 at y (..., Q) where not."""
        mine, at = held[..., None, :], y[..., None, :]
        variance, wide = (jnp.where(mine, part, 0.5 / jnp.pi) for part in (self.variance, self.wide))
        return Said(self.log_gate, jnp.where(mine, self.mean, at), variance, wide, self.log_tail)

    def log_parts(self, y: Any) -> Any:
        """(log density of the narrow part, of the wide part), (..., K) each, of all properties of a row together."""
        y = y[..., None, :]
        return gauss(y, self.mean, self.variance).sum(-1), gauss(y, self.mean, self.wide).sum(-1)

    def log_outcomes(self, y: Any) -> Any:
        """log p_k(y) of every outcome, (..., K)."""
        narrow, wide = self.log_parts(y)
        tail = self.log_tail[..., None, None] if jnp.ndim(self.log_tail) else self.log_tail
        return jnp.logaddexp(jnp.log1p(-jnp.exp(tail)) + narrow, tail + wide)

    def log_density(self, y: Any) -> Any:
        """log p(y) of every row, (...), where outcomes have the scope of an object."""
        return jax.nn.logsumexp(self.log_gate + self.log_outcomes(y), axis=-1)

    def log_values(self, y: Any, log_weight: Any) -> Any:
        """log p of each value alone, (..., Q), given log weights of the outcomes, (..., K)."""
        tail = self.log_tail[..., None, None, None] if jnp.ndim(self.log_tail) else self.log_tail
        narrow, wide = gauss(y[..., None, :], self.mean, self.variance), gauss(y[..., None, :], self.mean, self.wide)
        both = jnp.logaddexp(jnp.log1p(-jnp.exp(tail)) + narrow, tail + wide)
        return jax.nn.logsumexp(log_weight[..., None] + both, axis=-2)

    def moments(self, log_weight: Any) -> tuple[Any, Any]:
        """Mean and variance of each value, (..., Q), given log weights of the outcomes."""
        weight = jnp.exp(log_weight)[..., None]
        tail = jnp.exp(self.log_tail[..., None, None, None] if jnp.ndim(self.log_tail) else self.log_tail)
        mean = (weight * self.mean).sum(-2)
        own = (1 - tail) * self.variance + tail * self.wide
        return mean, (weight * (own + jnp.square(self.mean - mean[..., None, :]))).sum(-2)

    def narrow(self, log_weight: Any) -> tuple[Any, Any]:
        """The same without the wide component."""
        return narrow_moments(log_weight, self.mean, self.variance)


def narrow_moments(log_weight: Any, mean: Any, variance: Any) -> tuple[Any, Any]:
    """Mean and variance (..., Q) of a mixture of K outcomes: log weights (..., K), means and variances (..., K, Q)."""
    weight = array_module(log_weight).exp(log_weight)[..., None]
    middle = (weight * mean).sum(-2)
    return middle, (weight * (variance + (mean - middle[..., None, :]) ** 2)).sum(-2)


def gauss(y: Any, mean: Any, variance: Any) -> Any:
    """log N(y; mean, variance)."""
    return -0.5 * (jnp.square(y - mean) / variance + jnp.log(variance) + LOG_2PI)


class Units(NamedTuple):
    """y = y_mean + y_scale * normalised y (Q,), floor (Q,) = (resolution / y_scale)²."""

    mean: Any
    scale: Any
    floor: Any


def say(spec: HeadSpec, weights: HeadWeights, x: Any, units: Units, wider: Any = 1.0) -> Said:
    """What one member says of rows with normalised inputs x (R, D), in normalised units of y."""
    quantities = weights.stay.shape[-1]
    rows, outcomes, free = x.shape[0], spec.outcomes, spec.free
    gate = jnp.zeros((rows, outcomes), weights.stay.dtype)
    means, variances = [], []
    if spec.pinned:
        still = jnp.broadcast_to(-units.mean / units.scale, (rows, 1, quantities))
        means.append(still.astype(weights.stay.dtype))
        variances.append(jnp.broadcast_to(jnp.exp(weights.stay), (rows, 1, quantities)))
    if free:
        assert weights.net is not None
        answer = jax.vmap(weights.net)(x) + x @ weights.linear
        gates = answer.shape[1] - 2 * free * quantities
        if gates:
            gate = jax.nn.log_softmax(answer[:, :gates], axis=-1)
        mean, raw = jnp.split(answer[:, gates:].reshape(rows, 2 * free, quantities), 2, axis=1)
        means.append(mean)
        variances.append(bounded_variance(raw))
    variance = jnp.concatenate(variances, axis=1) * jnp.square(wider) + units.floor
    log_tail, grown, added = tail_of(weights.tail)
    return Said(
        gate, jnp.concatenate(means, axis=1), variance, variance * jnp.square(grown) + jnp.square(added), log_tail
    )


def take_member(parts: Any, member: Any) -> Any:
    """Arrays with a leading axis M, cut down to one member: the axis stays, with length 1."""
    return jax.tree.map(lambda part: jax.lax.dynamic_slice_in_dim(part, member, 1), parts)


PROBES = 64
"""Inputs at which members are compared: normal ones, the same in every process."""


def matching(heads: Sequence[Head]) -> Any:
    """(M, K): for every member, which of its outcomes is the k-th of the first member, of all these heads together.

    Members learn their free outcomes in any order: the order is the one in which their means differ least, in units of
    y and over normal inputs. A pinned outcome stays where it is.
    """
    spec, members = heads[0].spec, heads[0].members
    if spec.free < 2:
        return jnp.broadcast_to(jnp.arange(spec.outcomes), (members, spec.outcomes))
    free = range(int(spec.pinned), spec.outcomes)
    orders = jnp.array([(*range(int(spec.pinned)), *one) for one in itertools.permutations(free)])
    apart = jnp.zeros((members, spec.outcomes, spec.outcomes))
    for head in heads:
        normal = np.random.default_rng(0).standard_normal((PROBES, head.x_mean.shape[0]))
        means = head(head.x_mean + head.x_scale * jnp.asarray(normal, head.x_mean.dtype), head.y_scale).mean
        means = means / head.y_scale
        far = jnp.square(means[:, :, :, None] - means[:1, :, None]).sum(axis=-1)
        apart = apart + jnp.sqrt(far).mean(axis=1)
    total = apart[:, orders, jnp.arange(spec.outcomes)].sum(axis=-1)
    return orders[jnp.argmin(total, axis=1)]


def tail_of(raw: Any) -> tuple[Any, Any, Any]:
    """(log share, factor a >= 1, added deviation b >= 0) of the wide component."""
    quantities = (raw.shape[-1] - 1) // 2
    grown, added = raw[..., 1 : 1 + quantities], raw[..., 1 + quantities :]
    return (
        jnp.log(LARGEST_TAIL) + jax.nn.log_sigmoid(raw[..., 0]),
        1.0 + jax.nn.softplus(grown),
        jnp.exp(jnp.clip(added, -20.0, 20.0)),
    )


class Head(eqx.Module):
    """A trained head: M members, normalisation, and what was calibrated on held-out samples.

    `wider` (Q,)     by what deviations are multiplied
    `loading` (Q,)   of the factor that the objects of a rule share (see `headrule.py`)
    """

    spec: HeadSpec = eqx.field(static=True)
    net: Network | None
    linear: Float[Array, "M D O"] | None
    stay: Float[Array, "M Q"]
    tail: Float[Array, "M T"]
    x_mean: Float[Array, " D"]
    x_scale: Float[Array, " D"]
    y_mean: Float[Array, " Q"]
    y_scale: Float[Array, " Q"]
    wider: Float[Array, " Q"]
    loading: Float[Array, " Q"]

    def __check_init__(self) -> None:
        quantities = self.y_mean.shape[-1]
        if (self.net is None) != (self.spec.free == 0):
            raise DefinitionError("a head has a network exactly if it has an outcome that is not pinned")
        if self.x_mean.shape != (len(self.spec.inputs),) or self.tail.shape[1] != 1 + 2 * quantities:
            raise DefinitionError("a head's numbers do not fit its inputs or its properties")
        if self.net is not None:
            shapes = (self.net.weights[0].shape[-2], self.net.biases[-1].shape[-1])
            wanted = (len(self.spec.inputs), self.spec.outputs(quantities))
            if shapes != wanted or self.linear is None or self.linear.shape[1:] != wanted:
                raise DefinitionError(
                    f"a head's network has {shapes[0]} inputs and {shapes[1]} outputs: it does not fit"
                )

    @property
    def members(self) -> int:
        """M, the number of ensemble members."""
        return self.stay.shape[0]

    def __call__(self, x: Float[Array, "R D"], resolutions: Any) -> Said:
        """What every member says of rows, with a leading axis M, in the units of the properties."""
        units = Units(self.y_mean, self.y_scale, jnp.square(resolutions / self.y_scale))
        normal = (x - self.x_mean) / self.x_scale

        def one(net: Network | None, linear: Any, stay: Any, tail: Any) -> Said:
            return say(self.spec, HeadWeights(net, linear, stay, tail), normal, units, self.wider)

        found = eqx.filter_vmap(one)(self.net, self.linear, self.stay, self.tail)
        square = jnp.square(self.y_scale)
        return Said(
            found.log_gate,
            self.y_mean + self.y_scale * found.mean,
            square * found.variance,
            square * found.wide,
            found.log_tail,
        )

    def alone(self, member: Any) -> Head:
        """The same with one member of the ensemble, which may be a traced number."""
        net, linear, stay, tail = take_member((self.net, self.linear, self.stay, self.tail), member)
        units = (self.x_mean, self.x_scale, self.y_mean, self.y_scale)
        return Head(self.spec, net, linear, stay, tail, *units, self.wider, self.loading)

    def describe(self) -> dict[str, Any]:
        """What a file must know beside the arrays, as JSON values."""
        layers = None if self.net is None else {"activation": self.net.activation, "layers": len(self.net.weights)}
        return {**self.spec.to_json(), "network": layers}

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers by name, float32."""
        names = ("stay", "tail", "x_mean", "x_scale", "y_mean", "y_scale", "wider", "loading")
        found = {name: np.asarray(getattr(self, name), np.float32) for name in names}
        if self.net is not None:
            found["linear"] = np.asarray(self.linear, np.float32)
            for layer, (weight, bias) in enumerate(zip(self.net.weights, self.net.biases, strict=True)):
                found[f"both.{layer}.weight"] = np.asarray(weight, np.float32)
                found[f"both.{layer}.bias"] = np.asarray(bias, np.float32)
        return found

    @classmethod
    def from_arrays(cls, description: Mapping[str, Any], take: Take) -> Head:
        """The head that `describe` and `arrays` came from; a `DefinitionError` says what does not fit."""
        spec = HeadSpec.from_json({k: v for k, v in description.items() if k != "network"})
        net = (
            None
            if description["network"] is None
            else load_network("both", description["network"], take, constant=True)
        )
        names = ("stay", "tail", "x_mean", "x_scale", "y_mean", "y_scale", "wider", "loading")
        linear = None if net is None else jnp.asarray(take("linear"))
        return cls(spec, net, linear, *(jnp.asarray(take(name)) for name in names))
