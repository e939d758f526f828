"""What values have to do with each other: objects that a rule predicts move together.

The blocks of a stack are pushed by one gripper: what the rule gets wrong about one it gets wrong about the others. The
paper's density is a product over values and cannot say so. Here the values of one property share a cause: with scores
z = Phi⁻¹(F(s'[o, P])), standard normal if F is the distribution function of each value,

    z_o = a_o u + sqrt(1 - a_o²) e_o        u, e_o standard normal, u the same for all objects,

or, in a share of cases (`apart`), z_o = e_o for all objects: now and then everyone goes its own way. Every value keeps
its own density; only their joint density changes (a mixture of two Gaussian copulas). The cost is linear in the number
of objects.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from spare.errors import DefinitionError

LARGEST = 0.99
"""The largest loading: beyond it 32-bit numbers cannot tell the density."""


class Together(NamedTuple):
    """loading (S, Q): a of each output slot and property; apart (Q,): the share of cases in which each goes its way."""

    loading: Float[Array, "S Q"]
    apart: Float[Array, " Q"]


def loadings(
    together: Together,
    outputs: Bool[Array, "S N"],
    variance: Float[Array, "N Q"],
    resolutions: Float[Array, " Q"],
) -> Float[Array, "N Q"]:
    """a of each object: the mean over the slots that hold it, times sqrt(1 - resolution² / variance); 0 for nobody's.

    Every variance contains the square of a resolution, which is each value's own: nothing is shared of that part, and
    values that never vary have nothing to do with each other.
    """
    held = outputs.astype(together.loading.dtype)
    own = held.T @ together.loading / jnp.maximum(held.sum(axis=0), 1.0)[:, None]
    part = 1.0 - jnp.square(resolutions) / jnp.where(variance > 0, variance, 1.0)
    free = (part > 0) & (variance > 0)
    return own * jnp.where(free, jnp.sqrt(jnp.where(free, part, 1.0)), 0.0)  # no root of 0: its slope is infinite


def shared_log_density(score: Float[Array, "N Q"], loading: Float[Array, "N Q"]) -> Float[Array, " Q"]:
    """log N(z; 0, diag(1 - a²) + a a') - log N(z; 0, I), for each property.

    log det = sum log(1 - a²) + log t and z' C⁻¹ z = sum (z - a u)² / (1 - a²) + u², with t = 1 + sum a² / (1 - a²) and
    u = sum (a z / (1 - a²)) / t, the expected cause. An object with a = 0 adds nothing.
    """
    own = 1.0 - jnp.square(loading)
    total = 1.0 + (jnp.square(loading) / own).sum(axis=0)
    cause = (loading * score / own).sum(axis=0) / total
    square = (jnp.square(score - loading * cause) / own - jnp.square(score)).sum(axis=0) + jnp.square(cause)
    return -0.5 * (jnp.log(own).sum(axis=0) + jnp.log(total) + square)


def together_log_density(
    score: Float[Array, "N Q"], loading: Float[Array, "N Q"], apart: Float[Array, " Q"]
) -> Float[Array, ""]:
    """sum over properties of log((1 - apart) exp(shared) + apart): what joint scores are worth beyond single ones."""
    return jnp.logaddexp(jnp.log1p(-apart) + shared_log_density(score, loading), jnp.log(apart)).sum()


def draw_scores(key: PRNGKeyArray, loading: Float[Array, "N Q"], apart: Float[Array, " Q"]) -> Float[Array, "N Q"]:
    """One draw of all scores."""
    common, own, which = jax.random.split(key, 3)
    shared = jnp.where(jax.random.bernoulli(which, apart), 0.0, loading)
    cause = jax.random.normal(common, apart.shape, loading.dtype)
    return shared * cause + jnp.sqrt(1.0 - jnp.square(shared)) * jax.random.normal(own, loading.shape, loading.dtype)


def check_together(together: Together, shape: tuple[int, int]) -> None:
    """Refuse loadings of a wrong shape or beyond 0.99, and shares outside (0, 1)."""
    loading, apart = together
    if loading.shape != shape or apart.shape != shape[1:]:
        raise DefinitionError(f"together: loadings of shape {shape} and {shape[1]} shares are needed")
    if isinstance(loading, Tracer) or isinstance(apart, Tracer):
        return
    if not np.all(np.abs(loading) <= LARGEST + 1e-6) or not np.all((np.asarray(apart) > 0) & (np.asarray(apart) < 1)):
        raise DefinitionError(f"together: loadings lie between -{LARGEST} and {LARGEST}, shares between 0 and 1")
