"""Code that runs on NumPy arrays (float64, on the host) and on JAX arrays (compiled) alike.

Formulas of the model are written once. Learning evaluates them over all object rows of an experience with NumPy,
prediction over the objects of one scene inside a compiled program: `array_module(x)` is the module to write them with.
"""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special


def array_module(*values: Any) -> Any:
    """`numpy` if all are NumPy arrays or Python numbers, `jax.numpy` otherwise."""
    return np if all(isinstance(one, np.ndarray | np.generic | float | int) for one in values) else jnp


def precision(*, double: bool) -> contextlib.AbstractContextManager[Any]:
    """What is compiled and run inside computes in 64-bit numbers if `double`, and in JAX's default type otherwise.

    It holds for the thread that enters it alone; programs of either kind are kept side by side.
    """
    return jax.enable_x64(True) if double else contextlib.nullcontext()


def special_functions(*values: Any) -> Any:
    """`scipy.special` or `jax.scipy.special`, by the same rule: `ndtr`, `log_ndtr`, `ndtri`, `logsumexp`."""
    return scipy.special if array_module(*values) is np else jax.scipy.special
