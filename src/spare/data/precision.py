"""How many digits numbers need: 32 bits where those resolve what matters, 64 where they do not.

Unix times, map coordinates and counters are far from 0 and change by little: at 1.7e9 neighbouring 32-bit numbers are
128 apart, at 5,400,000 half a unit. 32 bits are enough if neighbours are `FINER` times closer than what matters of a
number: its resolution, or a thousandth of its spread for what has none and is an input alone (static properties,
parameters of actions).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spare.language.domain import Domain
from spare.language.kinds import Real

FINER = 64
"""Rounding then adds less than a thousandth to the variance of a change, which contains resolution²."""
LARGEST = float(np.finfo(np.float32).max)


class Numbers(NamedTuple):
    """The numbers of n transitions: values, next_values (total, P), parameters (n, d), action (n,) template indices."""

    values: np.ndarray
    next_values: np.ndarray
    parameters: np.ndarray
    action: np.ndarray

    def properties(self) -> list[np.ndarray]:
        """All that is seen of each property, before and after."""
        pairs = zip(self.values.T, self.next_values.T, strict=True)
        return [np.concatenate(pair) for pair in pairs]

    def of_action(self, index: int, count: int) -> list[np.ndarray]:
        """All that is seen of each parameter of an action template that has `count` of them."""
        return list(self.parameters[self.action == index, :count].T)


def holds(array: np.ndarray) -> bool:
    """Whether 32 bits hold every number exactly, as they do all that came from 32-bit numbers; no matter what is not
    finite."""
    if array.dtype == np.float32:
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(((array.astype(np.float32) == array) | ~np.isfinite(array)).all())


def bounded(array: np.ndarray) -> np.ndarray:
    """The same numbers; infinite, and so refused, where they leave the range of 32 bits, in which networks compute."""
    if array.dtype == np.float32:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.abs(array) > LARGEST, array.astype(np.float32), array)


def spacing(seen: np.ndarray, kind: type[np.floating]) -> float:
    """How far apart neighbouring numbers of this kind are at the largest of those seen."""
    finite = np.abs(seen[np.isfinite(seen)])
    return float(np.spacing(kind(min(float(finite.max(initial=0.0)), LARGEST))))


def _coarse(seen: np.ndarray, matters: float) -> bool:
    """Whether 32-bit numbers are too far apart for these."""
    return spacing(seen, np.float32) > matters / FINER


def _spread(seen: np.ndarray) -> float:
    """What matters of an input without a resolution.

    What never varies, as in a single transition, does not tell: then 32 bits must be a thousandth of a unit apart.
    """
    finite = seen[np.isfinite(seen)].astype(np.float64)
    if not len(finite):
        return np.inf
    return float(np.ptp(finite)) / 1000 if np.ptp(finite) > 0 else FINER / 1000


def coarse_properties(domain: Domain, numbers: Numbers) -> list[bool]:
    """For which properties 32 bits are too few; all that can change and have no resolution yet are among them."""
    found = []
    for prop, seen in zip(domain.properties, numbers.properties(), strict=True):
        open_yet = _spread(seen) if prop.static else 0.0
        found.append(_coarse(seen, open_yet if prop.resolution is None else prop.resolution))
    return found


def coarse_parameters(domain: Domain, numbers: Numbers, index: int) -> list[bool]:
    """For which parameters of an action template 32 bits are too few."""
    count = len(domain.actions[index].parameters)
    return [_coarse(seen, _spread(seen)) for seen in numbers.of_action(index, count)]


def needs_double(domain: Domain, numbers: Numbers) -> bool:
    """Whether some property or parameter loses digits that matter when it is rounded to 32 bits."""
    if holds(numbers.values) and holds(numbers.next_values) and holds(numbers.parameters):
        return False
    if any(
        coarse and not holds(seen)
        for coarse, seen in zip(coarse_properties(domain, numbers), numbers.properties(), strict=True)
    ):
        return True
    return any(
        coarse and not holds(seen)
        for index, action in enumerate(domain.actions)
        for coarse, seen in zip(
            coarse_parameters(domain, numbers, index), numbers.of_action(index, len(action.parameters)), strict=True
        )
    )


def origins(domain: Domain, numbers: Numbers, index: int) -> tuple[float, ...]:
    """What predictors of an action subtract from each property, then from each of its parameters; () if 32 bits do.

    It is 0 where 32 bits are enough, and a round number amid those seen where they are not. Only real numbers are
    counted from elsewhere: those of other kinds mean something by themselves, such as an angle.
    """
    if numbers.values.dtype != np.float64:
        return ()
    seen = [*numbers.properties(), *numbers.of_action(index, len(domain.actions[index].parameters))]
    coarse = [*coarse_properties(domain, numbers), *coarse_parameters(domain, numbers, index)]
    real = [type(prop.kind) is Real for prop in domain.properties] + [True] * (len(seen) - len(domain.properties))
    found = tuple(_amid(one) if far and may else 0.0 for one, far, may in zip(seen, coarse, real, strict=True))
    return found if any(coarse) else ()


def _amid(seen: np.ndarray) -> float:
    """The middle of those seen, rounded to the power of ten below their spread: a number that people can read."""
    low, high = float(seen.min()), float(seen.max())
    middle, spread = low + 0.5 * (high - low), high - low
    if spread == 0:
        return low
    digits = -int(np.floor(np.log10(spread)))
    return float(round(middle, digits))


FEW_DIGITS, SINGLE_DIGITS = 4, 7
"""Digits that are enough to read, and as many as 32-bit numbers have."""


def digits(value: float | np.floating, step: float | np.floating = np.inf) -> str:
    """The number in four digits; in as many as a deviation or a step asks for, where those are more than 32 bits hold.

    Without a step it has those that are there, if it is so large that four would not tell it from another.
    """
    value = float(value)
    if np.isinf(step):
        return f"{value:.4g}" if abs(value) < 10**SINGLE_DIGITS else f"{value:.15g}"
    needed = int(np.ceil(np.log10(max(abs(value), 1e-300) / max(float(step), 1e-300)))) + 2
    if needed <= SINGLE_DIGITS:
        return f"{value:.{FEW_DIGITS}g}"
    return f"{value:.{min(max(needed, len(f'{abs(value):.0f}')), 17)}g}"  # all before the point: no exponent
