"""Properties P: object -> value, the columns of a state."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from spare.arguments import check_flag, described, is_finite, named
from spare.arrays import array_module
from spare.errors import DefinitionError
from spare.language.kinds import Kind, Periodic, Real
from spare.names import check_identifier

REAL = Real()


@named
@dataclasses.dataclass(frozen=True)
class Property:
    """P: object -> value. `resolution` is the smallest difference that matters; a static property never changes.

    Every variance in the system is sigma² + resolution². Without a resolution one is taken from the data (a
    thousandth of its spread). Static properties are inputs only and earn no likelihood.

    `kind` says what the values are: `Real`, `Integer`, `Boolean`, `Categorical`, `Link`, `Angle`. A `period` stands for
    `kind=Periodic(period)`: an angle has 2 pi (or 360, in degrees), an hour of the day 24.

    With `input=False` the property is for references only, such as an id: heads never see it.
    """

    name: str
    unit: str = ""
    resolution: float | None = None
    static: bool = False
    period: float | None = None
    kind: Kind = REAL
    input: bool = True

    def __post_init__(self) -> None:
        check_identifier("property", self.name)
        if not isinstance(self.unit, str) or not self.unit.isprintable() or len(self.unit) > 16:
            raise DefinitionError(f"property {self.name!r}: unit {self.unit!r} must be short printable text")
        for what in ("resolution", "period"):
            value = getattr(self, what)
            real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
            if value is not None and not (real and is_finite(value) and value > 0):
                raise DefinitionError(
                    f"property {self.name!r}: {what} must be a positive number, got {described(value)}"
                )
        for what in ("static", "input"):
            given = check_flag(f"property {self.name!r}: {what}", getattr(self, what), DefinitionError)
            object.__setattr__(self, what, given)
        if not isinstance(self.kind, Kind):
            raise DefinitionError(
                f"property {self.name!r}: kind must be a spare.Kind such as Real(), got {self.kind!r}"
            )
        if isinstance(self.kind, Periodic) and self.period is None:
            object.__setattr__(self, "period", self.kind.period)
        if self.period is not None:
            if self.kind not in (Real(), Periodic(self.period)):
                raise DefinitionError(f"property {self.name!r}: give a period or a kind, not both")
            object.__setattr__(self, "kind", Periodic(float(self.period)))
        if self.resolution is None and not self.static:
            object.__setattr__(self, "resolution", self.kind.resolution)


def encoded_names(properties: Sequence[Property]) -> tuple[str, ...]:
    """What a network sees of an object: `x` for most properties, `cos(yaw)` and `sin(yaw)` for periodic ones."""
    return tuple(name for prop in properties for name in prop.kind.names(prop.name))


def encode(properties: Sequence[Property], columns: Sequence[int], values: Any) -> Any:
    """The numbers of `encoded_names` along the last axis, for values (..., P) of which these columns are encoded."""
    if all(type(prop.kind) is Real for prop in properties):
        return values[..., np.array(columns, int)]
    parts = [part for prop, k in zip(properties, columns, strict=True) for part in prop.kind.encode(values[..., k])]
    return array_module(values).stack(parts, axis=-1)


def nearest_images(properties: Sequence[Property], before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Next values (total, P), each the image that its kind keeps, in the type that they have."""
    kept = after
    for column, prop in enumerate(properties):
        start, end = (part[:, column].astype(np.float64) for part in (before, after))
        finite = np.isfinite(start) & np.isfinite(end)
        image = prop.kind.image(np.where(finite, start, 0.0), np.where(finite, end, 0.0))
        moved = finite & (image != end)
        if moved.any():
            kept = kept.copy() if kept is after else kept
            kept[moved, column] = image[moved].astype(kept.dtype)
    return kept
