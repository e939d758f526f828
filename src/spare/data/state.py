"""One transition in plain terms: a state, an action in it, and the state that follows."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spare.arguments import check_sequence, described
from spare.content import ByContent
from spare.data.cells import numbers
from spare.data.precision import holds
from spare.errors import DataError

ObjectId = str | int
TIMES = (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)


@dataclasses.dataclass(frozen=True, eq=False)
class State(ByContent):
    """s = [P_i(o_j)]: object ids and an array (objects, properties), float32, or float64 where that holds more."""

    ids: Sequence[ObjectId]
    values: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", check_sequence("state, ids", self.ids, "('a', 'b')", DataError))
        if isinstance(self.values, np.ndarray) and self.values.dtype == np.float32 and not np.ma.isMA(self.values):
            return
        given, _ = numbers(self.values, "state")  # what is too large becomes infinite, and is refused where it is used
        object.__setattr__(self, "values", given.astype(np.float32) if holds(given) else given)

    def __len__(self) -> int:
        return len(self.ids)


@dataclasses.dataclass(frozen=True)
class ActionCall:
    """a = A(alpha, o): a template's name, the ids of the objects it operates on, and its parameters."""

    action: str
    objects: tuple[ObjectId, ...]
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        example = "ActionCall('push', ('a',), (0.1,))"
        if not isinstance(self.action, str):
            raise DataError(f"action: expected the name of a template, as in {example}, got {described(self.action)}")
        for name, one in (("objects", "('a',)"), ("parameters", "(0.1,)")):
            given = getattr(self, name)
            if type(given) is not tuple:
                object.__setattr__(self, name, check_sequence(f"action {self.action!r}, {name}", given, one, DataError))
        if any(isinstance(one, TIMES) for one in self.parameters):
            object.__setattr__(self, "parameters", tuple(map(_seconds, self.parameters)))


def _seconds(one: Any) -> Any:
    """A date or a duration as the seconds that data have for it."""
    return float(numbers(np.array([one], object), "parameters")[0][0]) if isinstance(one, TIMES) else one


@dataclasses.dataclass(frozen=True, eq=False)
class Transition(ByContent):
    """(s, a, s') with its weight and whatever else was recorded about it."""

    state: State
    action: ActionCall
    next_state: State
    weight: float = 1.0
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)
