"""The Gaussians that a rule gives for each object of a scene, and what follows from them value by value.

Everything here is about one value at a time: its moments, its distribution function and the inverse of that. What
values have to do with each other is in `together.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr, ndtri
from jaxtyping import Array, Bool, Float, PRNGKeyArray

FARTHEST = -80.0
"""The smallest logarithm of a tail that is told apart from 0: 12.4 deviations, the end of 32-bit numbers."""
HALVINGS = 24
"""Steps of a bisection: to a ten-millionth of the distance between components."""


class Components(NamedTuple):
    """All Gaussians that speak about each object: K = members x output slots components.

    mask (K, N) which of them hold the object; log_weight (K,); mean and variance (K, N, Q), variance with resolution².
    """

    mask: Bool[Array, "K N"]
    log_weight: Float[Array, " K"]
    mean: Float[Array, "K N Q"]
    variance: Float[Array, "K N Q"]

    @property
    def held(self) -> Bool[Array, " N"]:
        """Which objects some component speaks about."""
        return self.mask.any(axis=0)

    def weights(self) -> Float[Array, "K N 1"]:
        """The share of each component in what is said of an object; all 0 where none holds it."""
        weight = jnp.where(self.mask, jnp.exp(self.log_weight)[:, None], 0.0)
        total = weight.sum(axis=0)
        return (weight / jnp.where(total > 0, total, 1.0))[:, :, None]

    def moments(self) -> tuple[Float[Array, "N Q"], Float[Array, "N Q"]]:
        """Mean and variance of each value of the objects that are held; 0 for the others."""
        weight = self.weights()
        mean = (weight * self.mean).sum(axis=0)
        return mean, (weight * (self.variance + jnp.square(self.mean - mean))).sum(axis=0)

    def ignorance(self, members: int) -> Float[Array, "N Q"]:
        """Var mu_m + mean v_m - exp(mean log v_m) over members m with mean mu_m and variance v_m of each value.

        The components of a member stand together; 0 where none holds the object.
        """
        weight = jnp.where(self.mask, jnp.exp(self.log_weight)[:, None], 0.0)
        weight = weight.reshape(members, -1, weight.shape[1], 1)
        total = weight.sum(axis=1, keepdims=True)
        weight = weight / jnp.where(total > 0, total, 1.0)
        means, variances = (part.reshape(*weight.shape[:3], -1) for part in (self.mean, self.variance))
        mean = (weight * means).sum(axis=1)
        own = (weight * (variances + jnp.square(means - mean[:, None]))).sum(axis=1)
        typical = own.mean(axis=0)
        ratio = jnp.where(own > 0, own / jnp.where(typical > 0, typical, 1.0), 1.0)
        return mean.var(axis=0) - typical * jnp.expm1(jnp.minimum(jnp.log(ratio).mean(axis=0), 0.0))

    def draw(self, key: PRNGKeyArray, noise: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        """mean_c + deviation_c noise, with a component c drawn for each value by itself; the first for nobody's."""
        logits = jnp.where(self.held, jnp.where(self.mask, self.log_weight[:, None], -jnp.inf), 0.0)
        chosen = jax.random.categorical(key, logits[:, :, None], axis=0, shape=self.mean.shape[1:])[None]
        mean, variance = (jnp.take_along_axis(part, chosen, axis=0)[0] for part in (self.mean, self.variance))
        return mean + jnp.sqrt(variance) * noise

    def scores(self, value: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        """Phi⁻¹(F(value)): standard normal, if values have these distribution functions F; 0 for nobody's."""
        apart = (value - self.mean) / jnp.sqrt(self.variance)
        logs = jnp.where(self.mask, self.log_weight[:, None], -jnp.inf)
        logs = jnp.where(self.held, logs, 0.0)[:, :, None]
        total = jax.nn.logsumexp(logs, axis=0)
        low, high = (jax.nn.logsumexp(logs + log_ndtr(side * apart), axis=0) - total for side in (1.0, -1.0))
        below = low < high  # chosen, not a minimum: at the median that would average two opposite slopes
        score = jnp.where(below, 1.0, -1.0) * ndtri(jnp.exp(jnp.maximum(jnp.where(below, low, high), FARTHEST)))
        return jnp.where(self.held[:, None], score, 0.0)

    def values_at(self, score: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        """F⁻¹(Phi(score)), by bisection between the least and the most that a component says; 0 for nobody's."""
        weight, deviation = self.weights(), jnp.sqrt(self.variance)
        told, mask = self.mean + score * deviation, self.mask[:, :, None]
        least, most = jnp.where(mask, told, jnp.inf).min(axis=0), jnp.where(mask, told, -jnp.inf).max(axis=0)
        held = self.held[:, None]
        side = jnp.where(score <= 0, 1.0, -1.0)
        tail = ndtr(-jnp.abs(score))

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            mass = (weight * ndtr(side * (middle - self.mean) / deviation)).sum(axis=0)
            below = side * mass < side * tail
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = jax.lax.fori_loop(0, HALVINGS, halve, (jnp.where(held, least, 0.0), jnp.where(held, most, 0.0)))
        return 0.5 * (low + high)
