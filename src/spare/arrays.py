"""Code that runs on NumPy arrays (float64, on the host) and on JAX arrays (compiled) alike.

Formulas of the model are written once. Learning evaluates them over all object rows of an experience with NumPy,
prediction over the objects of one scene inside a compiled program: `array_module(x)` is the module to write them with.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special


def array_module(*values: Any) -> Any:
    """`numpy` if all are NumPy arrays or Python numbers, `jax.numpy` otherwise."""
    return np if all(isinstance(one, np.ndarray | np.generic | float | int) for one in values) else jnp


def special_functions(*values: Any) -> Any:
    """`scipy.special` or `jax.scipy.special`, by the same rule: `ndtr`, `log_ndtr`, `ndtri`, `logsumexp`."""
    return scipy.special if array_module(*values) is np else jax.scipy.special
