"""One transition in plain terms: a state, an action in it, and the state that follows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spare.errors import DataError

ObjectId = str | int


@dataclasses.dataclass(frozen=True)
class State:
    """s = [P_i(o_j)]: object ids and a float32 array of shape (objects, properties)."""

    ids: Sequence[ObjectId]
    values: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(self.ids))
        given = np.asarray(self.values)
        if given.dtype.kind not in "fiub":
            raise DataError(f"state: expected an array of real numbers, got {given.dtype}")
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused where it is used
            object.__setattr__(self, "values", np.asarray(given, np.float32))

    def __len__(self) -> int:
        return len(self.ids)


@dataclasses.dataclass(frozen=True)
class ActionCall:
    """a = A(alpha, o): a template's name, the ids of the objects it operates on, and its parameters."""

    action: str
    objects: tuple[ObjectId, ...]
    parameters: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Transition:
    """(s, a, s') with its weight and whatever else was recorded about it."""

    state: State
    action: ActionCall
    next_state: State
    weight: float = 1.0
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)
