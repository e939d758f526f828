"""Rules and predictors that tests make by hand."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import spare
from spare.lab.baselines.graph_net import glorot_network
from spare.model.predictors import Network, Predictor


def make_rule(
    domain: spare.Domain,
    action: str,
    shells: spare.Shell | tuple[spare.Shell, spare.Shell],
    predictor: Any,
    variance: Any,
    *,
    outliers: tuple[Any, Any] | None = None,
    copula: tuple[Any, Any] | None = None,
    **features: Any,
) -> spare.Rule:
    """A rule from its parts; keywords as `RuleSpec.of` takes them."""
    gamma, delta = (shells, shells) if isinstance(shells, spare.Shell) else shells
    noise = spare.DefaultNoise(variance, *(outliers or ()))
    joint = None if copula is None else spare.OneFactorCopula(*copula)
    return spare.Rule(domain, spare.RuleSpec.of(domain, action, gamma, delta, **features), predictor, noise, joint)


def fresh_predictor(
    key: Any,
    inputs: int,
    outputs: tuple[int, int],
    hidden: tuple[int, ...] = (150, 150),
    members: int = 1,
    *,
    residual: bool = False,
) -> Predictor:
    """An untrained predictor: Glorot weights, ReLU, unit normalisation."""
    sizes = (inputs, *hidden, outputs[0] * outputs[1] * (1 + residual))

    def make(k: Any) -> tuple[Network, Network | None]:
        first, second = jax.random.split(k)
        mean = glorot_network(first, sizes, "relu")
        if residual:
            return Network(mean.weights, mean.biases, "relu", True), None
        return mean, glorot_network(second, sizes, "relu")

    mean_net, variance_net = eqx.filter_vmap(make)(jax.random.split(key, members))
    return Predictor(mean_net, variance_net, jnp.zeros(inputs), jnp.ones(inputs), jnp.zeros(outputs), jnp.ones(outputs))
