"""Properties that come round again, such as angles: v and v + period are the same.

1. Of the values that a next state could have, the one nearest to the state's is kept, so a change is never more than
   half a period, and densities are those of the change.
2. A network sees cos and sin of 2 pi v / period in the place of v, so that it sees the same at both ends.

Everything here works on arrays of numpy and of JAX alike.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.language.domain import Domain


def wrapped(difference: Any, period: float) -> Any:
    """The same difference between -period / 2 and period / 2: what is left of it after whole periods."""
    module = np if isinstance(difference, np.ndarray | float | int) else jnp
    return difference - period * module.round(difference / period)


def nearest_images(domain: Domain, values: np.ndarray, next_values: np.ndarray) -> np.ndarray:
    """Next values (total, P), each periodic one shifted by whole periods to be as near to the value as it can."""
    shifted = next_values
    for column, prop in enumerate(domain.properties):
        if prop.period is not None:
            before, after = (part[:, column].astype(np.float64) for part in (values, next_values))
            finite = np.isfinite(before) & np.isfinite(after)
            change = np.where(finite, after, 0.0) - np.where(finite, before, 0.0)
            far = finite & (np.abs(change) > prop.period / 2)
            if far.any():
                shifted = shifted.copy() if shifted is next_values else shifted
                shifted[far, column] = (before[far] + wrapped(change[far], prop.period)).astype(shifted.dtype)
    return shifted


def shown_names(domain: Domain, inputs: tuple[str, ...]) -> tuple[str, ...]:
    """What a network sees of an object: `x` for most properties, `cos(yaw)` and `sin(yaw)` for periodic ones."""
    found: list[str] = []
    for name in inputs:
        found += [name] if domain.property(name).period is None else [f"cos({name})", f"sin({name})"]
    return tuple(found)


def show(domain: Domain, inputs: tuple[str, ...], values: Any) -> Any:
    """The numbers of `shown_names` for values (..., P), along the last axis."""
    columns = [domain.property_names.index(name) for name in inputs]
    if all(domain.properties[column].period is None for column in columns):
        return values[..., np.array(columns, int)]
    module, parts = np if isinstance(values, np.ndarray) else jnp, []
    for column in columns:
        period, value = domain.properties[column].period, values[..., column]
        if period is None:
            parts.append(value)
        else:
            turn = (2 * math.pi / period) * value
            parts += [module.cos(turn), module.sin(turn)]
    return module.stack(parts, axis=-1)
