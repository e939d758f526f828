"""What the values of a property are: the seam at which numbers, angles, and kinds of your own come in.

A `Kind` owns three things:

1. the encoding: which numbers a network sees of a value;
2. the target: whether a head predicts the new value or the change, and which image of a next value is kept;
3. the leaf: the distribution of one value, given a location and a variance from a head (`Leaf`).

Everything works on arrays of NumPy and of JAX alike.
"""

from __future__ import annotations

import abc
import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spare.arguments import described, is_finite, is_real
from spare.arrays import array_module, special_functions
from spare.errors import DefinitionError
from spare.language.traces import code_digest, digest_of, trace

LOG_2PI = math.log(2 * math.pi)
Bound = float | int | None
"""A bound of numbers, or none."""


class Leaf(abc.ABC):
    """p(value | location m, variance v), each argument an array; v contains resolution²."""

    continuous = True
    """Whether values of several objects can share a factor (`OneFactorCopula`)."""
    shifts = False
    """Whether p(value + c | m + c, v) is the same for every c: learning then works with changes, which keep digits."""

    @abc.abstractmethod
    def log_density(self, value: Any, location: Any, variance: Any) -> Any:
        """log p(value | m, v) in nats."""

    @abc.abstractmethod
    def loss(self, target: Any, spread: Any, location: Any, variance: Any) -> Any:
        """Mean of -log p over the members of a set, but for a constant: targets with mean `target`, variance `spread`.

        In the normalised units of training, where `variance` contains resolution².
        """

    @abc.abstractmethod
    def moments(self, location: Any, variance: Any) -> tuple[Any, Any]:
        """(mean, variance) of the value."""

    @abc.abstractmethod
    def log_tails(self, value: Any, location: Any, variance: Any) -> tuple[Any, Any]:
        """(log P(V <= value), log P(V > value))."""

    def tail(self, side: Any, value: Any, location: Any, variance: Any) -> Any:
        """P(V <= value) where `side` is 1, P(V > value) where it is -1."""
        low, high = self.log_tails(value, location, variance)
        xp = array_module(low)
        return xp.exp(xp.where(side > 0, low, high))

    @abc.abstractmethod
    def quantile(self, score: Any, location: Any, variance: Any) -> Any:
        """F⁻¹(Phi(score)); of a standard normal score it is a draw."""

    @abc.abstractmethod
    def stay_log_density(self, change: Any, variance: Any) -> Any:
        """log p(change) of a value that no rule predicts; `variance` is the expected squared change."""

    def stay_moments(self, value: Any, variance: Any) -> tuple[Any, Any]:
        """(mean, variance) of the next value of what no rule predicts: the value itself, and its expected change²."""
        return value, variance

    @abc.abstractmethod
    def stay(self, value: Any, score: Any, variance: Any) -> Any:
        """A draw of the next value of what no rule predicts, from a standard normal score."""


@dataclasses.dataclass(frozen=True)
class Normal(Leaf):
    """N(value; m, v)."""

    shifts = True

    def log_density(self, value: Any, location: Any, variance: Any) -> Any:
        """-((value - m)² / v + log v + log 2 pi) / 2."""
        xp = array_module(value, location, variance)
        return -0.5 * (xp.square(value - location) / variance + xp.log(variance) + LOG_2PI)

    def loss(self, target: Any, spread: Any, location: Any, variance: Any) -> Any:
        """(((y - m)² + s²) / v + log v) / 2."""
        xp = array_module(target, location, variance)
        return 0.5 * ((xp.square(target - location) + spread) / variance + xp.log(variance))

    def moments(self, location: Any, variance: Any) -> tuple[Any, Any]:
        """(m, v)."""
        return location, variance

    def log_tails(self, value: Any, location: Any, variance: Any) -> tuple[Any, Any]:
        """log Phi(z) and log Phi(-z), z = (value - m) / sqrt(v)."""
        apart = (value - location) / array_module(value, location, variance).sqrt(variance)
        log_ndtr = special_functions(value, location, variance).log_ndtr
        return log_ndtr(apart), log_ndtr(-apart)

    def tail(self, side: Any, value: Any, location: Any, variance: Any) -> Any:
        """Phi(side z)."""
        apart = (value - location) / array_module(value, location, variance).sqrt(variance)
        return special_functions(value, location, variance).ndtr(side * apart)

    def quantile(self, score: Any, location: Any, variance: Any) -> Any:
        """m + sqrt(v) score."""
        return location + array_module(variance, score).sqrt(variance) * score

    def stay_log_density(self, change: Any, variance: Any) -> Any:
        """log N(change; 0, v)."""
        return self.log_density(change, array_module(change).zeros_like(change), variance)

    def stay(self, value: Any, score: Any, variance: Any) -> Any:
        """value + sqrt(v) score."""
        return self.quantile(score, value, variance)


class Kind(abc.ABC):
    """What the values of a property are; frozen and hashable, so that domains can be compared."""

    changes: bool | None = None
    """Whether heads predict the change (True) or the new value (False); None: either, as validation decides."""
    resolution: float | None = None
    """The smallest difference that matters, where the kind itself implies one: properties need not give it."""

    @property
    @abc.abstractmethod
    def leaf(self) -> Leaf:
        """The distribution of one value."""

    def names(self, name: str) -> tuple[str, ...]:
        """What the numbers are called that a network sees of the property `name`."""
        return (name,)

    def encode(self, values: Any) -> tuple[Any, ...]:
        """Those numbers, one array for each name."""
        return (values,)

    def image(self, before: Any, after: Any) -> Any:
        """Of the values that mean the same as `after`, the one that is kept: NumPy, float64."""
        return after

    def units(self, mean: Any, deviation: Any) -> tuple[Any, Any]:
        """(offset, scale) by which targets are normalised for training."""
        return mean, deviation

    def read(self, cells: np.ndarray) -> np.ndarray | None:
        """Cells of a table as stored numbers, NaN where empty; None: they are numbers, dates and the like already.

        A cell that makes no sense raises a `CellError`.
        """
        return None

    def faults(self, values: np.ndarray) -> np.ndarray:
        """Which of these finite stored numbers the property cannot have."""
        return np.zeros(np.shape(values), bool)

    def fault(self, value: float) -> str:
        """What is wrong with a number that `faults` found, as the end of a sentence that begins with the number."""
        return "is not a value that it can have"

    def show(self, value: float) -> str:
        """A stored number as people write it."""
        return f"{value:g}"

    def plausible(self, numbers: np.ndarray) -> np.ndarray:
        """Stored numbers that a property could have, made of any numbers: for probes of formulas."""
        return numbers

    def schema(self) -> dict[str, Any]:
        """What a file says about the kind, as JSON values: its name and its parameters."""
        return json.loads(json.dumps({**vars(self), "name": type(self).__name__.strip("_").lower()}))


def check_bounds(low: Any, high: Any) -> None:
    """Refuse bounds that are not numbers, or in the wrong order; None is no bound."""
    for name, bound in (("low", low), ("high", high)):
        if bound is not None and not (is_real(bound) and is_finite(bound)):
            raise DefinitionError(f"{name} must be a number or None, got {described(bound)}")
    if low is not None and high is not None and not low < high:
        raise DefinitionError(f"low must be less than high, got {low} and {high}")


def outside(values: np.ndarray, low: Bound, high: Bound) -> np.ndarray:
    """Which values lie outside bounds, by more than 32-bit numbers round."""
    room = 1e-6 * (1.0 + np.abs(values))
    below = np.zeros(np.shape(values), bool) if low is None else values < low - room
    return below if high is None else below | (values > high + room)


def told_bounds(low: Bound, high: Bound) -> str:
    """`is not between 0 and 1`, `is below 0`, `is above 7`."""
    if low is not None and high is not None:
        return f"is not between {low:g} and {high:g}"
    return f"is below {low:g}" if low is not None else f"is above {high:g}"


@dataclasses.dataclass(frozen=True)
class Real(Kind):
    """A real number; a rule predicts its new value or its change as a Gaussian. Data must keep to `low` and `high`."""

    low: Bound = None
    high: Bound = None

    def __post_init__(self) -> None:
        check_bounds(self.low, self.high)

    def faults(self, values: np.ndarray) -> np.ndarray:
        """Numbers outside the bounds."""
        return outside(values, self.low, self.high)

    def fault(self, value: float) -> str:
        """Which bound it breaks."""
        return told_bounds(self.low, self.high)

    @property
    def leaf(self) -> Leaf:
        """N(m, v)."""
        return Normal()


@dataclasses.dataclass(frozen=True)
class Periodic(Kind):
    """A number that comes round again: v and v + period are the same, such as an angle or an hour of the day.

    Networks see cos and sin of 2 pi v / period. Of the next values that mean the same the one nearest to the value
    before is kept, so that a change is at most half a period and its density one on the line. Without a period it is an
    angle in radians.
    """

    period: float = 2 * math.pi
    changes = True

    def __post_init__(self) -> None:
        real = isinstance(self.period, int | float) and not isinstance(self.period, bool)
        if not (real and is_finite(self.period) and self.period > 0):
            raise DefinitionError(f"period must be a positive number, got {described(self.period)}")

    @property
    def leaf(self) -> Leaf:
        """N(m, v) of the change."""
        return Normal()

    def names(self, name: str) -> tuple[str, ...]:
        """`cos(yaw)`, `sin(yaw)`."""
        return f"cos({name})", f"sin({name})"

    def encode(self, values: Any) -> tuple[Any, ...]:
        """cos and sin of 2 pi v / period."""
        xp, turn = array_module(values), (2 * math.pi / self.period) * values
        return xp.cos(turn), xp.sin(turn)

    def image(self, before: Any, after: Any) -> Any:
        """after + k period with the whole number k that brings it nearest to `before`."""
        change = after - before
        far = abs(change) > self.period / 2
        return array_module(after).where(far, before + wrapped(change, self.period), after)


def Angle(period: float = 2 * math.pi) -> Periodic:  # noqa: N802 - it reads as a kind
    """The usual kind with a period: `Angle()` is in radians, `Angle(360)` in degrees."""
    return Periodic(period)


_STEPS = {"encode": 1, "image": 2, "units": 2}
_LEAF_STEPS = {
    **{"log_density": 3, "loss": 4, "moments": 2, "log_tails": 3, "tail": 4, "quantile": 3},
    **{"stay_log_density": 2, "stay_moments": 2, "stay": 3},
}
"""How many arrays the functions of a kind and of a leaf take."""


def kind_program(kind: Kind) -> str:
    """16 hex digits of what a kind and its leaf compute, for kinds that are not SPARE's own; empty for those that are.

    What works on NumPy arrays alone is compared by its byte code and by what it gives for a few numbers.
    """
    if type(kind).__module__.startswith("spare.language."):
        return ""
    leaf, numbers = kind.leaf, np.array([0.25, 1.0, 3.0])
    parts = [type(leaf).__qualname__, str(leaf.continuous), str(leaf.shifts), str(kind.changes), *kind.names("value")]
    for owner, steps in ((kind, _STEPS), (leaf, _LEAF_STEPS)):
        for name, arguments in steps.items():
            try:
                parts.append(trace(getattr(owner, name), *[jax.ShapeDtypeStruct((3,), jnp.float32)] * arguments)[0])
            except Exception:  # the user's code, which need not run on both kinds of arrays everywhere
                parts.append(code_digest(type(owner)))
    for found in (kind.image(numbers, numbers[::-1]), *kind.units(numbers, numbers)):
        parts.append(np.asarray(found, np.float64).tobytes().hex())
    return digest_of(*parts)


def wrapped(difference: Any, period: float) -> Any:
    """The same difference between -period / 2 and period / 2: what is left of it after whole periods."""
    return difference - period * array_module(difference).round(difference / period)


def by_leaf(leaves: Sequence[Leaf], function: Callable[..., Any], *arrays: Any) -> Any:
    """function(leaf, *arrays) along the last axis, of which entry q belongs to leaf q; one call if all are the same.

    The function may give one array or a tuple of them.
    """
    if len(set(leaves)) == 1:
        return function(leaves[0], *arrays)
    parts = [function(leaf, *(part[..., q] for part in arrays)) for q, leaf in enumerate(leaves)]
    if isinstance(parts[0], tuple):
        return tuple(array_module(found[0]).stack(found, axis=-1) for found in zip(*parts, strict=True))
    return array_module(parts[0]).stack(parts, axis=-1)
