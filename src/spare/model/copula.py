"""What the values of several objects have in common: a Gaussian copula with one factor for each property.

The blocks of a stack are pushed by one gripper: what the rule gets wrong about one it gets wrong about the others. The
paper's density is a product over values and cannot say so. Here the values of one property share a factor: with scores
z = Phi⁻¹(F(s'[o, P])), standard normal if F is the distribution function of each value,

    z_o = a_o u + sqrt(1 - a_o²) e_o        u, e_o standard normal, u the same for all objects,

or, in a share of cases (`apart`), z_o = e_o for all objects: now and then each moves independently. Every value keeps
its own density; only their joint density changes (a mixture of two Gaussian copulas). The cost is linear in the number
of objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from spare.arrays import array_module
from spare.errors import DefinitionError

LARGEST_LOADING = 0.99
"""Beyond it 32-bit numbers cannot tell the density."""


class OneFactorCopula(NamedTuple):
    """loading (S, Q): a of each output slot and property; apart (Q,): the share of cases without a common factor."""

    loading: Any
    apart: Any

    def checked(self, slots: int, quantities: int) -> OneFactorCopula:
        """The copula, if its shapes fit, loadings are at most 0.99 in size and shares lie between 0 and 1."""
        if self.loading.shape != (slots, quantities) or self.apart.shape != (quantities,):
            raise DefinitionError(f"copula: loadings of shape {(slots, quantities)} and {quantities} shares are needed")
        if not isinstance(self.loading, Tracer) and not isinstance(self.apart, Tracer):
            loading, apart = np.asarray(self.loading), np.asarray(self.apart)
            if np.abs(loading).max(initial=0) > LARGEST_LOADING + 1e-6 or not np.all((apart > 0) & (apart < 1)):
                raise DefinitionError(
                    f"copula: loadings lie between -{LARGEST_LOADING} and {LARGEST_LOADING}, shares between 0 and 1"
                )
        return self

    def of_objects(
        self, outputs: Bool[Array, "S N"], variance: Float[Array, "N Q"], resolutions: Float[Array, " Q"]
    ) -> Float[Array, "N Q"]:
        """a of each object: the mean over the slots that hold it, times `common_part`; 0 for objects in no slot."""
        held = outputs.astype(self.loading.dtype)
        own = held.T @ self.loading / jnp.maximum(held.sum(axis=0), 1.0)[:, None]
        return own * common_part(variance, resolutions)

    def log_density(self, score: Float[Array, "N Q"], loading: Float[Array, "N Q"]) -> Float[Array, ""]:
        """sum over properties of log((1 - apart) exp(factor) + apart): what joint scores add to single ones."""
        factor = factor_log_density(score, loading, lambda part: part.sum(axis=0), lambda total: total)
        return mixed_with_apart(factor, self.apart).sum()

    def draw(self, key: PRNGKeyArray, loading: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        """One draw of all scores."""
        common, own, which = jax.random.split(key, 3)
        shared = jnp.where(jax.random.bernoulli(which, self.apart), 0.0, loading)
        factor = jax.random.normal(common, self.apart.shape, loading.dtype)
        noise = jax.random.normal(own, loading.shape, loading.dtype)
        return shared * factor + jnp.sqrt(1.0 - jnp.square(shared)) * noise


def common_part(variance: Any, resolutions: Any) -> Any:
    """sqrt(1 - resolution² / variance): the part of a deviation that can have a common factor.

    Every variance contains the square of a resolution, which is each value's own; values that never vary have nothing
    in common.
    """
    xp = array_module(variance)
    part = 1.0 - xp.square(resolutions) / xp.where(variance > 0, variance, 1.0)
    free = (part > 0) & (variance > 0)
    return xp.where(free, xp.sqrt(xp.where(free, part, 1.0)), 0.0)  # no root of 0: its slope is infinite


def factor_log_density(score: Any, loading: Any, total: Callable[[Any], Any], back: Callable[[Any], Any]) -> Any:
    """log N(z; 0, diag(1 - a²) + a a') - log N(z; 0, I) of each transition and property.

    log det = sum log(1 - a²) + log t and z' C⁻¹ z = sum (z - a u)² / (1 - a²) + u², with t = 1 + sum a² / (1 - a²) and
    u = sum (a z / (1 - a²)) / t, the expected factor. `total` sums over the objects of a transition, `back` gives
    every object its transition's number. An object with a = 0 adds nothing.
    """
    xp = array_module(score)
    own = 1.0 - xp.square(loading)
    both = 1.0 + total(xp.square(loading) / own)
    factor = total(loading * score / own) / both
    square = total(xp.square(score - loading * back(factor)) / own - xp.square(score)) + xp.square(factor)
    return -0.5 * (total(xp.log(own)) + xp.log(both) + square)


def mixed_with_apart(factor: Any, apart: Any) -> Any:
    """log((1 - apart) exp(factor) + apart)."""
    xp = array_module(factor)
    return xp.logaddexp(xp.log1p(-apart) + factor, xp.log(apart))
