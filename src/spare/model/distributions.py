"""What a rule says about one scene: a distribution that is computed once, and from which everything is read off.

1. `Components` are the leaves that predict each object: members of the ensemble times output slots.
2. `RuleDistribution` adds what surrounds them: the frame, the default noise of everyone else, the copula. Its log
   density, marginals, moments, epistemic part, draws and inputs are methods.

Learning uses `Components` for the object rows of a whole experience, prediction for the objects of one scene.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from spare.arrays import array_module, special_functions
from spare.language.domain import Domain
from spare.language.frames import FrameColumns, FramePose, from_frame, to_frame, variances_from_frame
from spare.language.kinds import Leaf, by_leaf
from spare.model.copula import OneFactorCopula
from spare.model.noise import DefaultNoise

SMALLEST_LOG_TAIL = -80.0
"""The smallest logarithm of a tail that is told apart from 0: 12.4 deviations, the end of 32-bit numbers."""
BISECTIONS = 24
"""To a ten-millionth of the distance between components."""


def log_mixture(terms: Any, log_weight: Any, chosen: Any) -> Any:
    """log(sum over chosen k of w_k exp(term_k) / sum over chosen k of w_k), along axis 0; -inf where none is chosen."""
    xp, logsumexp = array_module(terms), special_functions(terms).logsumexp
    some = chosen.any(axis=0)
    weighted, total = xp.where(chosen, terms + log_weight, -xp.inf), xp.where(chosen, log_weight, -xp.inf)
    top, bottom = (logsumexp(xp.where(some, part, 0.0), axis=0) for part in (weighted, total))
    return xp.where(some, top - bottom, -xp.inf)


class Components(eqx.Module):
    """K = members x output slots leaves, and which of them predict each of N objects (or object rows).

    mask (K, N) which of them hold the object; log_weight (K,); location and variance (K, N, Q), with resolution²;
    leaves (Q,) the distribution of each property.
    """

    mask: Any
    log_weight: Any
    location: Any
    variance: Any
    leaves: tuple[Leaf, ...] = eqx.field(static=True)

    @property
    def held(self) -> Any:
        """Which objects some component predicts, (N,)."""
        return self.mask.any(axis=0)

    @property
    def continuous(self) -> np.ndarray:
        """Which properties have a density, (Q,); others take no part in a copula."""
        return np.array([leaf.continuous for leaf in self.leaves], bool)

    def log_values(self, value: Any, change: Any, noise: DefaultNoise) -> Any:
        """log p of values (N, Q): a mixture of the components that hold the object, or the noise of `change` if none.

        `value` is in the coordinates of the components (the world's or a frame's), `change` = s' - s in the world.
        """
        xp = array_module(value)
        value = xp.broadcast_to(value, self.location.shape)
        terms = by_leaf(self.leaves, lambda leaf, *parts: leaf.log_density(*parts), value, self.location, self.variance)
        chosen = xp.broadcast_to(self.mask[:, :, None], terms.shape)
        weight = xp.broadcast_to(self.log_weight[:, None, None], terms.shape)
        mixed = log_mixture(terms, weight, chosen)
        return xp.where(self.held[:, None], mixed, noise.log_density(change, self.leaves))

    def weights(self) -> Any:
        """The share of each component in what is said of an object, (K, N, 1); 0 where none holds it."""
        xp = array_module(self.location)
        weight = xp.where(self.mask, xp.exp(self.log_weight)[:, None], 0.0)
        total = weight.sum(axis=0)
        return (weight / xp.where(total > 0, total, 1.0))[:, :, None]

    def leaf_moments(self) -> tuple[Any, Any]:
        """(mean, variance) of every component, (K, N, Q)."""
        return by_leaf(self.leaves, lambda leaf, *parts: leaf.moments(*parts), self.location, self.variance)

    def moments(self) -> tuple[Any, Any]:
        """Mean and variance of each value of the objects that are held; 0 for the others."""
        xp, weight = array_module(self.location), self.weights()
        means, variances = self.leaf_moments()
        mean = (weight * means).sum(axis=0)
        return mean, (weight * (variances + xp.square(means - mean))).sum(axis=0)

    def epistemic(self, members: int) -> Float[Array, "N Q"]:
        """Var mu_m + mean v_m - exp(mean log v_m) over members m with mean mu_m and variance v_m of each value.

        The components of a member are contiguous; 0 where none holds the object.
        """
        weight = jnp.where(self.mask, jnp.exp(self.log_weight)[:, None], 0.0)
        weight = weight.reshape(members, -1, weight.shape[1], 1)
        total = weight.sum(axis=1, keepdims=True)
        weight = weight / jnp.where(total > 0, total, 1.0)
        means, variances = (part.reshape(*weight.shape[:3], -1) for part in self.leaf_moments())
        mean = (weight * means).sum(axis=1)
        own = (weight * (variances + jnp.square(means - mean[:, None]))).sum(axis=1)
        typical = own.mean(axis=0)
        ratio = jnp.where(own > 0, own / jnp.where(typical > 0, typical, 1.0), 1.0)
        return mean.var(axis=0) - typical * jnp.expm1(jnp.minimum(jnp.log(ratio).mean(axis=0), 0.0))

    def draw(self, chance: Float[Array, "N Q"], scores: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        """A component for each value by itself (the first, where none holds the object), then a draw of it.

        The component whose share of the line from 0 to 1 holds the `chance`; the last, where rounding leaves a gap.
        """
        count = len(self.log_weight)
        rank, upper = jnp.arange(count)[:, None, None], jnp.tri(count, dtype=chance.dtype) @ self.weights()[:, :, 0]
        place = jnp.where(chance < upper[:, :, None], 2 * count - rank, rank)
        chosen = jnp.argmax(jnp.where(self.mask[:, :, None], place, -1), axis=0)[None]
        location, variance = (jnp.take_along_axis(part, chosen, axis=0)[0] for part in (self.location, self.variance))
        return by_leaf(self.leaves, lambda leaf, *parts: leaf.quantile(*parts), scores, location, variance)

    def scores(self, value: Any) -> Any:
        """Phi⁻¹(F(value)): standard normal, if values have these distribution functions F; 0 where none holds one."""
        xp, special = array_module(value), special_functions(value)
        value = xp.broadcast_to(value, self.location.shape)
        tails = by_leaf(self.leaves, lambda leaf, *parts: leaf.log_tails(*parts), value, self.location, self.variance)
        logs = xp.where(self.held, xp.where(self.mask, self.log_weight[:, None], -xp.inf), 0.0)[:, :, None]
        total = special.logsumexp(logs, axis=0)
        low, high = (special.logsumexp(logs + tail, axis=0) - total for tail in tails)
        below = low < high  # chosen, not a minimum: at the median that would average two opposite slopes
        tail = xp.maximum(xp.where(below, low, high), SMALLEST_LOG_TAIL)
        score = xp.where(below, 1.0, -1.0) * special.ndtri(xp.exp(tail))
        return xp.where(self.held[:, None] & self.continuous, score, 0.0)

    def values_at(self, score: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        """F⁻¹(Phi(score)), by bisection between the least and the most that a component says; 0 where none does."""
        weight, mask, held = self.weights(), self.mask[:, :, None], self.held[:, None]
        scores = jnp.broadcast_to(score, self.location.shape)
        said = by_leaf(self.leaves, lambda leaf, *parts: leaf.quantile(*parts), scores, self.location, self.variance)
        least, most = jnp.where(mask, said, jnp.inf).min(axis=0), jnp.where(mask, said, -jnp.inf).max(axis=0)
        tail, side = jax.scipy.special.ndtr(-jnp.abs(score)), jnp.where(score <= 0, 1.0, -1.0)
        sides = jnp.broadcast_to(side, self.location.shape)

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            values = jnp.broadcast_to(middle, self.location.shape)
            parts = (sides, values, self.location, self.variance)
            mass = (weight * by_leaf(self.leaves, lambda leaf, *given: leaf.tail(*given), *parts)).sum(axis=0)
            below = side * mass < side * tail
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        start = (jnp.where(held, least, 0.0), jnp.where(held, most, 0.0))
        low, high = jax.lax.fori_loop(0, BISECTIONS, halve, start)
        return 0.5 * (low + high)


class RuleDistribution(eqx.Module):
    """p(s' | s, a; T) of one scene with N objects and Q properties that can change, as if the rule applied.

    `values` (N, Q) are the values before, in the world; `components` are in the predictor's coordinates, the frame's or
    the world's, counted from `origin`; `x` is what the predictor saw, `entries` that and what the rule drops; `doubt`
    is how far members disagree; `outputs` (S, N) who is in each output slot.
    """

    domain: Domain = eqx.field(static=True)
    columns: FrameColumns | None = eqx.field(static=True)
    members: int = eqx.field(static=True)
    valid: Bool[Array, " N"]
    values: Float[Array, "N Q"]
    x: Float[Array, " D"]
    entries: Float[Array, " E"]
    doubt: Float[Array, ""]
    pose: FramePose | None
    origin: Float[Array, " Q"] | None
    components: Components
    noise: DefaultNoise
    copula: OneFactorCopula | None
    outputs: Bool[Array, "S N"]

    def _inside(self, values: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        values = values if self.origin is None else values - self.origin
        return values if self.pose is None or self.columns is None else to_frame(values, self.columns, self.pose)

    def _outside(self, values: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        values = values if self.origin is None else values + self.origin
        return values if self.pose is None or self.columns is None else from_frame(values, self.columns, self.pose)

    def _variances(self, variances: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        if self.pose is None or self.columns is None:
            return variances
        return variances_from_frame(variances, self.columns, self.pose)

    def log_values(self, after: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        """log p(s'[o, P]) for every object and changeable property, each value alone; 0 on padding."""
        found = self.components.log_values(self._inside(after), after - self.values, self.noise)
        return jnp.where(self.valid[:, None], found, 0.0)

    def log_prob(self, after: Float[Array, "N Q"]) -> Float[Array, ""]:
        """log p(s' | s, a; T): the sum of `log_values`, and what the copula adds to it."""
        total = self.log_values(after).sum()
        if self.copula is None:
            return total
        scores = self.components.scores(self._inside(after))
        return total + self.copula.log_density(scores, self._loadings(self.copula))

    def _loadings(self, copula: OneFactorCopula) -> Float[Array, "N Q"]:
        resolutions = jnp.asarray(self.domain.resolutions, self.values.dtype)
        return copula.of_objects(self.outputs, self.components.moments()[1], resolutions)

    def moments(self) -> tuple[Float[Array, "N Q"], Float[Array, "N Q"]]:
        """Mean and variance of p(s'[o, P]) for every object and changeable property."""
        mean, variance = self.components.moments()
        held = self.components.held[:, None]
        stays, spread = self.noise.moments(self.values, self.domain.leaves)
        return jnp.where(held, self._outside(mean), stays), jnp.where(held, self._variances(variance), spread)

    def epistemic(self) -> Float[Array, "N Q"]:
        """The part of the variance that is disagreement of the ensemble, about the mean or about the noise.

        Far from all data members are as far apart on the one as on the other.
        """
        return self._variances(self.components.epistemic(self.members))

    def alone(self, member: Any) -> RuleDistribution:
        """What one member of the ensemble says: draws of it, not its moments apart."""
        count = self.components.mask.shape[0]
        mine = jnp.arange(count) // (count // self.members) == member
        return eqx.tree_at(lambda one: one.components.mask, self, self.components.mask & mine[:, None])

    def sample(self, key: PRNGKeyArray) -> Float[Array, "N Q"]:
        """One draw of s': every (object, property) for itself, or all of a property with their common factor."""
        return self.draw(key, Chances.of(key, self.values))

    def draw(self, key: PRNGKeyArray, given: Chances) -> Float[Array, "N Q"]:
        """The draw that belongs to these random numbers, and to those that the key gives a common factor."""
        if self.copula is None:
            drawn = self.components.draw(given.component, given.scores)
        else:
            joint = self.copula.draw(jax.random.fold_in(key, 1), self._loadings(self.copula))
            drawn = self.components.values_at(joint)
            if not self.components.continuous.all():
                apart = self.components.draw(given.component, given.scores)
                drawn = jnp.where(self.components.continuous, drawn, apart)
        stayed = self.noise.draw(given.outlier, self.values, given.scores, self.domain.leaves)
        return jnp.where(self.components.held[:, None], self._outside(drawn), stayed)


class Chances(NamedTuple):
    """All that chance decides about each of N x Q values: one call of the generator, which is most of a draw.

    `component` and `outlier` are uniform from 0 to 1, `scores` standard normal. An object's numbers depend on the key
    and on its place alone, not on how many others, or how much padding, come after it.
    """

    component: Float[Array, "N Q"]
    outlier: Float[Array, "N Q"]
    scores: Float[Array, "N Q"]

    @classmethod
    def of(cls, key: PRNGKeyArray, values: Float[Array, "N Q"]) -> Chances:
        """Those of a key, as many as there are values."""
        least = np.nextafter(np.array(-1.0, values.dtype), np.array(0.0, values.dtype))
        shape = (len(values), 3, values.shape[1])
        drawn = jax.random.uniform(key, shape, values.dtype, minval=least, maxval=1.0)
        component, outlier = (0.5 * (drawn[:, k] + 1.0) for k in range(2))
        return cls(component, outlier, np.sqrt(2).astype(values.dtype) * jax.scipy.special.erfinv(drawn[:, 2]))


def mix_rules(fires: Any, terms: Any) -> Any:
    """log of the mean of exp(terms) over the rules that fire, or the last term, the default, where none does.

    fires (K, *n) bool and terms (K + 1, *n), along axis 0.
    """
    xp = array_module(terms)
    every = xp.concatenate([fires, ~fires.any(axis=0, keepdims=True)]) if len(fires) else xp.ones((1,), bool)
    every = every.reshape(every.shape + (1,) * (terms.ndim - every.ndim))
    every = xp.broadcast_to(every, terms.shape)
    return log_mixture(terms, xp.zeros_like(terms), every)


def firing(scores: Any) -> Any:
    """Which rules fire, along axis 0: those with the highest score, if that is above 0."""
    return (scores > 0) & (scores == scores.max(axis=0)) if len(scores) else scores > 0


def rule_weights(fires: Bool[Array, " K"]) -> Float[Array, " K1"]:
    """Equal weight on the firing rules, or all of it on the default, which comes last."""
    every = jnp.append(fires, ~fires.any()).astype(float)
    return every / every.sum()
