"""Equality by content, for results that hold arrays: what comes back from another process equals what was sent."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np


def same(one: Any, other: Any) -> bool:
    """Whether two things are of one type and have the same content; NaN is the same as NaN.

    Arrays are compared number by number, of NumPy and of JAX alike, and dataclasses, modules, tuples, lists and
    dictionaries part by part; fields with `compare=False` do not count. Everything else has `==`. Real numbers of 32
    bits never equal those of 64, which are computed with in another way.
    """
    if one is other:
        return True
    if isinstance(one, np.ndarray | jax.Array) and isinstance(other, np.ndarray | jax.Array):
        return _same_arrays(np.asarray(one), np.asarray(other))
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if type(one) is dict:
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if dataclasses.is_dataclass(one):
        return same_fields(one, other)
    return bool(one == other)


def same_fields(one: Any, other: Any) -> bool:
    """Whether two dataclasses of one type have the same content."""
    names = [field.name for field in dataclasses.fields(one) if field.compare]
    return all(same(getattr(one, name), getattr(other, name)) for name in names)


def _same_arrays(one: np.ndarray, other: np.ndarray) -> bool:
    real = one.dtype.kind in "fc"
    if one.shape != other.shape or one.dtype.kind != other.dtype.kind or (real and one.dtype != other.dtype):
        return False
    return bool(np.array_equal(one, other, equal_nan=real))


class ByContent:
    """A dataclass, made with `eq=False`, whose instances are equal if their content is; see `same`."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or same_fields(self, other)

    __hash__ = None  # type: ignore[assignment]
