"""Gaussian mixtures over single values, in log space (densities of 60 values underflow even in float64)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float

from spare.errors import DefinitionError

LOG_2PI = math.log(2 * math.pi)


def normal_log_density(
    value: Float[Array, " ..."], mean: Float[Array, " ..."], variance: Float[Array, " ..."]
) -> Float[Array, " ..."]:
    """log N(value; mean, variance) = -((value - mean)² / variance + log variance + log 2 pi) / 2."""
    return -0.5 * (jnp.square(value - mean) / variance + jnp.log(variance) + LOG_2PI)


def masked_log_mean_exp(
    terms: Float[Array, " K *n"], mask: Bool[Array, " K *n"], log_weight: Float[Array, " K *n"]
) -> Float[Array, "*n"]:
    """log(sum over chosen k of w_k exp(term_k) / sum over chosen k of w_k); -inf where nothing is chosen."""
    weighted = jnp.where(mask, terms + log_weight, -jnp.inf)
    total = jnp.where(mask, log_weight, -jnp.inf)
    chosen = mask.any(axis=0)
    top = jax.nn.logsumexp(jnp.where(chosen, weighted, 0.0), axis=0)
    bottom = jax.nn.logsumexp(jnp.where(chosen, total, 0.0), axis=0)
    return jnp.where(chosen, top - bottom, -jnp.inf)


class Still(NamedTuple):
    """What is expected of an object that stays: (1 - share) N(0, narrow) + share N(0, wide), for each of Q values.

    Variances include resolution². Without `share` and `wide` it is N(0, narrow), as in the paper.
    """

    narrow: Any
    share: Any = None
    wide: Any = None

    @property
    def variance(self) -> Any:
        """(1 - share) narrow + share wide."""
        return self.narrow if self.share is None else (1 - self.share) * self.narrow + self.share * self.wide


def still_log_density(moved: Float[Array, "*n Q"], still: Still) -> Float[Array, "*n Q"]:
    """log((1 - share) N(moved; 0, narrow) + share N(moved; 0, wide))."""
    zero = jnp.zeros_like(moved)
    narrow = normal_log_density(moved, zero, still.narrow)
    if still.share is None:
        return narrow
    wide = normal_log_density(moved, zero, still.wide)
    return jnp.logaddexp(jnp.log1p(-still.share) + narrow, jnp.log(still.share) + wide)


def object_log_density(
    after: Float[Array, " Q"],
    moved: Float[Array, " Q"],
    held: Bool[Array, " K"],
    components: tuple[Float[Array, " K"], Float[Array, "K Q"], Float[Array, "K Q"]],
    still: Still,
) -> Float[Array, " Q"]:
    """log p(s'[o, P]) of one object: a mixture of the components that hold it, or that of `still` if none does.

    `components` are (log weight, mean, variance) of the K Gaussians that a rule gives, in the coordinates of `after`
    (the world's or a frame's); `held` says which of their slots contain the object; `moved` is s' - s in the world.
    """
    log_weight, mean, variance = components
    terms = normal_log_density(after, mean, variance)
    mask = jnp.broadcast_to(held[:, None], terms.shape)
    mixed = masked_log_mean_exp(terms, mask, jnp.broadcast_to(log_weight[:, None], terms.shape))
    return jnp.where(held.any(), mixed, still_log_density(moved, still))


def rule_weights(fires: Bool[Array, " K"]) -> Float[Array, " K1"]:
    """Equal weight on the firing rules, or all of it on the default, which comes last."""
    every = jnp.append(fires, ~fires.any()).astype(float)
    return every / every.sum()


def mix_rules(fires: Bool[Array, " K"], terms: Float[Array, " K1 *n"]) -> Float[Array, "*n"]:
    """log of the weighted mean of exp(terms) over rules and default."""
    weight = rule_weights(fires).reshape(-1, *([1] * (terms.ndim - 1)))
    return jax.nn.logsumexp(jnp.where(weight > 0, terms, -jnp.inf), axis=0, b=weight)


def check_variances(variances: Float[Array, " Q"]) -> None:
    """Refuse default variances that are negative or not finite; values inside a trace cannot be looked at."""
    if isinstance(variances, Tracer):
        return
    values = np.asarray(variances)
    if not np.all((values >= 0) & np.isfinite(values)):
        raise DefinitionError(f"default_variance: values must be finite and not negative, got {variances}")


def check_surprises(surprises: tuple[Any, Any], quantities: int) -> None:
    """Refuse surprises of a wrong shape, shares outside (0, 1), and bad variances."""
    share, variance = surprises
    if share.shape != (quantities,) or variance.shape != (quantities,):
        raise DefinitionError(f"surprises: {quantities} shares and variances are needed")
    check_variances(variance)
    if not isinstance(share, Tracer) and not np.all((np.asarray(share) > 0) & (np.asarray(share) < 1)):
        raise DefinitionError(f"surprises: shares lie between 0 and 1, got {share}")
