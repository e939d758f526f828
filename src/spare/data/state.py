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
    """s = [P_i(o_j)]: object ids and an array (objects, properties), float32, or float64 where that holds more.

    `pairs` has the stored relations by name, rows of objects (E, 2) each. `spare.make_state` makes one from names.
    """

    ids: Sequence[ObjectId]
    values: np.ndarray
    pairs: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.pairs, Mapping):
            raise DataError(f"state, pairs: expected a dictionary of arrays (E, 2), got {described(self.pairs)}")
        given = {name: _rows(name, one) for name, one in self.pairs.items()}
        object.__setattr__(self, "pairs", given)
        object.__setattr__(self, "ids", check_sequence("state, ids", self.ids, "('a', 'b')", DataError))
        if isinstance(self.values, np.ndarray) and self.values.dtype == np.float32 and not np.ma.isMA(self.values):
            return
        given, _ = numbers(self.values, "state")  # what is too large becomes infinite, and is refused where it is used
        object.__setattr__(self, "values", given.astype(np.float32) if holds(given) else given)

    def __len__(self) -> int:
        return len(self.ids)


def _rows(name: str, pairs: Any) -> np.ndarray:
    """Pairs of rows, (E, 2) int32."""
    array = np.asarray(pairs)
    array = array.reshape(0, 2) if array.size == 0 else array
    if array.ndim != 2 or array.shape[1] != 2 or (array.size and array.dtype.kind not in "iu"):
        raise DataError(f"state, pairs of {name!r}: expected rows of objects (E, 2), got {array.dtype}{array.shape}")
    return array.astype(np.int32)


@dataclasses.dataclass(frozen=True)
class ActionCall:
    """a = A(alpha, o): a template's name, the ids of the objects it operates on, and its parameters.

    A parameter that is a category is its name, one that is a Boolean True or False.
    """

    action: str
    objects: tuple[ObjectId, ...] = ()
    parameters: tuple[Any, ...] = ()

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
    """(s, a, s') with its weight, whatever else was recorded about it, and whatever else was done in it (`also`)."""

    state: State
    action: ActionCall
    next_state: State
    weight: float = 1.0
    info: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    also: tuple[ActionCall, ...] = ()
