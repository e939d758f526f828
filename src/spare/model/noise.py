"""What is expected of values that no rule predicts: they stay, but for noise and outliers.

    p(s' - s) = (1 - share) stay(0, variance) + share stay(0, outlier variance),   value by value,

with the `stay` density of each property's kind, a Gaussian for numbers. Without outliers it is the paper's N(s, v).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from spare.arrays import array_module
from spare.errors import DefinitionError
from spare.language.kinds import Leaf, by_leaf


class DefaultNoise(NamedTuple):
    """v_default (Q,), and share and variance of outliers, (Q,) each or None.

    Variances exclude resolution². `resolved` adds it; densities, moments and draws are those of a resolved noise.
    """

    variance: Any
    outlier_share: Any = None
    outlier_variance: Any = None

    @classmethod
    def of(cls, noise: Any) -> DefaultNoise:
        """A noise from variances alone, or the noise itself, in JAX's default float type."""
        parts = noise if isinstance(noise, DefaultNoise) else cls(noise)
        real = jnp.result_type(float)
        try:
            return cls(*(None if part is None else jnp.asarray(part, real) for part in parts))
        except (TypeError, ValueError, OverflowError) as error:
            raise DefinitionError(
                f"noise: expected variances, one for each property that can change: {error}"
            ) from error

    def checked(self, quantities: int) -> DefaultNoise:
        """The noise, if it has so many variances, not negative, and shares between 0 and 1."""
        for name, part in zip(("default variance", "outlier share", "outlier variance"), self, strict=True):
            if part is None and name == "default variance":
                raise DefinitionError(f"{name}: {quantities} values are needed, got None")
            if part is None:
                continue
            if part.shape != (quantities,):
                raise DefinitionError(f"{name}: {quantities} values are needed, got shape {part.shape}")
            if isinstance(part, Tracer):
                continue
            numbers = np.asarray(part)
            if "variance" in name and not np.all((numbers >= 0) & np.isfinite(numbers)):
                raise DefinitionError(f"{name}: values must be finite and not negative, got {numbers}")
            if "share" in name and not np.all((numbers > 0) & (numbers < 1)):
                raise DefinitionError(f"{name}: shares lie between 0 and 1, got {numbers}")
        if (self.outlier_share is None) != (self.outlier_variance is None):
            raise DefinitionError("outliers need a share and a variance")
        return self

    def resolved(self, resolutions: Any) -> DefaultNoise:
        """The same with resolution² in every variance."""
        floor = array_module(self.variance).square(resolutions)
        wide = None if self.outlier_variance is None else self.outlier_variance + floor
        return DefaultNoise(self.variance + floor, self.outlier_share, wide)

    @property
    def total(self) -> Any:
        """(1 - share) variance + share outlier variance: the expected squared change."""
        if self.outlier_share is None:
            return self.variance
        return (1 - self.outlier_share) * self.variance + self.outlier_share * self.outlier_variance

    def moments(self, values: Any, leaves: Sequence[Leaf]) -> tuple[Any, Any]:
        """Mean and variance of the next values (..., Q)."""
        spread = array_module(values).broadcast_to(self.total, values.shape)
        return by_leaf(leaves, lambda leaf, v, s: leaf.stay_moments(v, s), values, spread)

    def arrays(self) -> dict[str, Any]:
        """Its parts by name, those that are there."""
        return {f"noise.{name}": part for name, part in self._asdict().items() if part is not None}

    def log_density(self, change: Any, leaves: Sequence[Leaf]) -> Any:
        """log p of changes (..., Q), value by value."""
        xp = array_module(change)

        def stay(variance: Any) -> Any:
            spread = xp.broadcast_to(variance, change.shape)
            return by_leaf(leaves, lambda leaf, c, v: leaf.stay_log_density(c, v), change, spread)

        narrow = stay(self.variance)
        if self.outlier_share is None:
            return narrow
        share, wide = self.outlier_share, stay(self.outlier_variance)
        return xp.logaddexp(xp.log1p(-share) + narrow, xp.log(share) + wide)

    def draw(self, chance: Any, values: Any, scores: Any, leaves: Sequence[Leaf]) -> Any:
        """Next values (..., Q) from standard normal `scores`; a uniform `chance` decides who is an outlier."""
        spread = jnp.broadcast_to(self.variance, values.shape)
        if self.outlier_share is not None:
            spread = jnp.where(chance < self.outlier_share, self.outlier_variance, spread)
        return by_leaf(leaves, lambda leaf, v, z, s: leaf.stay(v, z, s), values, scores, spread)
