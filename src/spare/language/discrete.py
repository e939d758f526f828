"""Kinds of values that are not measured: Booleans, categories, whole numbers, and links to other objects.

All are stored as numbers: false and true as 0 and 1, a category as its place among the values, a link as the row of
the other object within its state. A link is a functional relation, `on(x) = y`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spare.arguments import check_sequence, described
from spare.arrays import array_module
from spare.errors import CellError, DefinitionError, suggestion
from spare.language.kinds import Kind, Leaf, Normal, check_bounds, outside, told_bounds
from spare.names import check_identifier, shown

NONE = -1
"""The stored value of a link to nobody."""
MOST_VALUES = 4096
RARE = 1e-6
"""The least probability of another value than before."""
_TRUE, _FALSE = ("true", "t", "yes", "1"), ("false", "f", "no", "0")


def _missing(one: Any) -> bool:
    return one is None or (isinstance(one, float) and math.isnan(one)) or (isinstance(one, str) and not one.strip())


@dataclasses.dataclass(frozen=True)
class Bernoulli(Leaf):
    """P(V = 1) = sigmoid(m); what no rule predicts flips with probability v. A variance says nothing else here."""

    continuous = False

    def log_density(self, value: Any, location: Any, variance: Any) -> Any:
        """log sigmoid(m) of a 1, log sigmoid(-m) of a 0."""
        return jax.nn.log_sigmoid(jnp.where(value > 0.5, location, -location))

    def loss(self, target: Any, spread: Any, location: Any, variance: Any) -> Any:
        """log(1 + exp(m)) - y m."""
        return jax.nn.softplus(location) - target * location

    def moments(self, location: Any, variance: Any) -> tuple[Any, Any]:
        """(p, p (1 - p))."""
        chance = jax.nn.sigmoid(location)
        return chance, chance * (1 - chance)

    def log_tails(self, value: Any, location: Any, variance: Any) -> tuple[Any, Any]:
        """(log P(V <= value), log P(V > value)); of a 1 the latter is as good as never."""
        one = value > 0.5
        return jnp.where(one, 0.0, jax.nn.log_sigmoid(-location)), jnp.where(one, -80.0, jax.nn.log_sigmoid(location))

    def quantile(self, score: Any, location: Any, variance: Any) -> Any:
        """1 where the score lies in the upper share p."""
        return (score > -jax.scipy.special.ndtri(jax.nn.sigmoid(location))).astype(location.dtype)

    def stay_log_density(self, change: Any, variance: Any) -> Any:
        """log v of a flip, log(1 - v) of none."""
        xp = array_module(change)
        flip = xp.clip(variance, RARE, 0.5)
        return xp.where(xp.abs(change) > 0.5, xp.log(flip), xp.log1p(-flip))

    def stay_moments(self, value: Any, variance: Any) -> tuple[Any, Any]:
        """(P(V = 1), its variance)."""
        flip = array_module(value).clip(variance, RARE, 0.5)
        return value + flip * (1 - 2 * value), flip * (1 - flip)

    def stay(self, value: Any, score: Any, variance: Any) -> Any:
        """The same, or with probability v the other."""
        flips = score > -jax.scipy.special.ndtri(jnp.clip(variance, RARE, 0.5))
        return jnp.where(flips, 1.0 - value, value)


@dataclasses.dataclass(frozen=True)
class Choice(Leaf):
    """One of `count` codes, the first of which is `first`; so far only what no rule predicts has a probability.

    It stays with probability 1 - v, and is any of the others with v / (count - 1). `count` 0: as many as there are.
    """

    count: int
    first: int = 0
    continuous = False

    def _refuse(self) -> Any:
        raise DefinitionError("no rule predicts categories or links yet: declare the property static, or leave it out")

    def log_density(self, value: Any, location: Any, variance: Any) -> Any:
        """Not yet."""
        return self._refuse()

    def loss(self, target: Any, spread: Any, location: Any, variance: Any) -> Any:
        """Not yet."""
        return self._refuse()

    def moments(self, location: Any, variance: Any) -> tuple[Any, Any]:
        """Not yet."""
        return self._refuse()

    def log_tails(self, value: Any, location: Any, variance: Any) -> tuple[Any, Any]:
        """Not yet."""
        return self._refuse()

    def quantile(self, score: Any, location: Any, variance: Any) -> Any:
        """Not yet."""
        return self._refuse()

    def stay_log_density(self, change: Any, variance: Any) -> Any:
        """log(v / (count - 1)) of another code, log(1 - v) of the same."""
        xp = array_module(change)
        flip = xp.clip(variance, RARE, 0.5)
        return xp.where(xp.abs(change) > 0.5, xp.log(flip / max(1, self.count - 1)), xp.log1p(-flip))

    def stay_moments(self, value: Any, variance: Any) -> tuple[Any, Any]:
        """(the code before, the probability of another)."""
        return value, array_module(value).clip(variance, RARE, 0.5)

    def stay(self, value: Any, score: Any, variance: Any) -> Any:
        """The same code: whoever draws another one must know the others."""
        return value


@dataclasses.dataclass(frozen=True)
class Boolean(Kind):
    """True or false, stored as 1 and 0; a rule predicts the new value. Networks see 1 and -1."""

    changes = False
    resolution = 0.01

    @property
    def leaf(self) -> Leaf:
        """P(V = 1)."""
        return Bernoulli()

    def encode(self, values: Any) -> tuple[Any, ...]:
        """2 v - 1."""
        return (2.0 * values - 1.0,)

    def units(self, mean: Any, deviation: Any) -> tuple[Any, Any]:
        """As they are."""
        return np.zeros_like(mean), np.ones_like(deviation)

    def read(self, cells: np.ndarray) -> np.ndarray | None:
        """Booleans, 0 and 1, and texts such as true and false."""
        if cells.dtype.kind in "fiub":
            return cells.astype(np.float64)
        result = np.full(len(cells), np.nan)
        for row, one in enumerate(cells.tolist()):
            word = str(one).strip().lower()
            if not _missing(one):
                if word not in (*_TRUE, *_FALSE) and not isinstance(one, int | float):
                    raise CellError(row, f"{shown(repr(one), 60)} is neither true nor false")
                result[row] = float(word in _TRUE) if word in (*_TRUE, *_FALSE) else float(one)
        return result

    def faults(self, values: np.ndarray) -> np.ndarray:
        """All but 0 and 1."""
        return (values != 0) & (values != 1)

    def fault(self, value: float) -> str:
        """What it is not."""
        return "is neither true (1) nor false (0)"

    def show(self, value: float) -> str:
        """`true` or `false`."""
        return "true" if value > 0.5 else "false"

    def plausible(self, numbers: np.ndarray) -> np.ndarray:
        """0 and 1, by parity."""
        return np.floor(np.abs(numbers)) % 2


@dataclasses.dataclass(frozen=True, init=False)
class Categorical(Kind):
    """One of a few named values, `Categorical(["red", "green"])`: stored by its place among them, seen as one-hot."""

    values: tuple[str, ...]
    changes = False
    resolution = 0.01

    def __init__(self, values: Any) -> None:
        given = check_sequence("categories", values, "['red', 'green']")
        if not 1 <= len(given) <= MOST_VALUES:
            raise DefinitionError(f"categories: give 1 to {MOST_VALUES} values, got {len(given)}")
        for one in given:
            if not isinstance(one, str) or not one.strip() or not one.isprintable() or len(one) > 64:
                raise DefinitionError(f"categories: each is a short printable text, got {described(one)}")
        if len({*given}) != len(given):
            twice = next(one for one in given if given.count(one) > 1)
            raise DefinitionError(f"categories: {twice!r} appears twice; name each once")
        object.__setattr__(self, "values", given)

    @property
    def leaf(self) -> Leaf:
        """Which of the values."""
        return Choice(len(self.values))

    def names(self, name: str) -> tuple[str, ...]:
        """`colour=red`, `colour=green`."""
        return tuple(f"{name}={one}"[:100] for one in self.values)

    def encode(self, values: Any) -> tuple[Any, ...]:
        """1 for the value that it is, 0 for the others."""
        xp = array_module(values)
        return tuple(xp.where(values == code, 1.0, 0.0).astype(values.dtype) for code in range(len(self.values)))

    def units(self, mean: Any, deviation: Any) -> tuple[Any, Any]:
        """As they are."""
        return np.zeros_like(mean), np.ones_like(deviation)

    def code(self, value: str) -> int:
        """The place of a value among the values; a `CellError` of row 0 names the nearest one."""
        return int(np.asarray(self.read(np.array([value], object)))[0])

    def read(self, cells: np.ndarray) -> np.ndarray | None:
        """Names, or codes where a whole column is made of numbers."""
        if cells.dtype.kind in "fiub":
            return cells.astype(np.float64)
        codes = {one: float(code) for code, one in enumerate(self.values)}
        result = np.full(len(cells), np.nan)
        for row, one in enumerate(cells.tolist()):
            if _missing(one):
                continue
            if str(one) not in codes:
                told = ", ".join(self.values[:12]) + (", ..." if len(self.values) > 12 else "")
                raise CellError(row, f"{shown(repr(one), 60)} is not one of {told}{suggestion(str(one), self.values)}")
            result[row] = codes[str(one)]
        return result

    def faults(self, values: np.ndarray) -> np.ndarray:
        """All that is not a code."""
        return (values != np.round(values)) | (values < 0) | (values >= len(self.values))

    def fault(self, value: float) -> str:
        """What codes there are."""
        return f"is not the code of a category, which are 0 to {len(self.values) - 1} ({', '.join(self.values[:12])})"

    def show(self, value: float) -> str:
        """The name."""
        return self.values[round(value)] if 0 <= round(value) < len(self.values) else f"{value:g}"

    def plausible(self, numbers: np.ndarray) -> np.ndarray:
        """Codes, by what is left after division."""
        return np.floor(np.abs(numbers)) % len(self.values)


@dataclasses.dataclass(frozen=True)
class Integer(Kind):
    """A whole number, such as a count or a position in a grid, with bounds or without."""

    low: int | None = None
    high: int | None = None
    resolution = 0.1

    def __post_init__(self) -> None:
        check_bounds(self.low, self.high)
        for name in ("low", "high"):
            if (bound := getattr(self, name)) is not None and bound != int(bound):
                raise DefinitionError(f"{name} must be a whole number or None, got {bound}")

    @property
    def leaf(self) -> Leaf:
        """N(m, v)."""
        return Normal()

    def faults(self, values: np.ndarray) -> np.ndarray:
        """Fractions, and what is outside the bounds."""
        return (values != np.round(values)) | outside(values, self.low, self.high)

    def fault(self, value: float) -> str:
        """Which of both it is."""
        return told_bounds(self.low, self.high) if value == round(value) else "is not a whole number"

    def plausible(self, numbers: np.ndarray) -> np.ndarray:
        """Whole numbers, within the bounds."""
        found = np.round(numbers)
        return found if self.low is None and self.high is None else np.clip(found, self.low, self.high)


@dataclasses.dataclass(frozen=True)
class Link(Kind):
    """Another object of the same state, or nobody: a functional relation such as `on(x) = y`.

    Stored as the other's row within its state, -1 for nobody. `to` names the type, or several, that it leads to; empty:
    any. With `acyclic`, data in which following it comes back to the start are refused.
    """

    to: str | tuple[str, ...] = ()
    acyclic: bool = False
    changes = False
    resolution = 0.01

    def __post_init__(self) -> None:
        given = (self.to,) if isinstance(self.to, str) else check_sequence("link, to", self.to, "('block', 'table')")
        for one in given:
            check_identifier("type", one)
        object.__setattr__(self, "to", given)

    @property
    def leaf(self) -> Leaf:
        """Which object."""
        return Choice(0, NONE)

    def names(self, name: str) -> tuple[str, ...]:
        """`on=some`: whom it leads to is for references."""
        return (f"{name}=some",)

    def encode(self, values: Any) -> tuple[Any, ...]:
        """1 if it leads to somebody, else 0."""
        return (array_module(values).where(values >= 0, 1.0, 0.0).astype(values.dtype),)

    def units(self, mean: Any, deviation: Any) -> tuple[Any, Any]:
        """As they are."""
        return np.zeros_like(mean), np.ones_like(deviation)

    def faults(self, values: np.ndarray) -> np.ndarray:
        """Fractions, and what is below -1; whether there is such an object depends on the state."""
        return (values != np.round(values)) | (values < NONE)

    def fault(self, value: float) -> str:
        """What it must be."""
        return "is neither the row of an object of the state nor -1 for nobody"

    def plausible(self, numbers: np.ndarray) -> np.ndarray:
        """Rows of small states, and nobody."""
        return np.floor(np.abs(numbers)) % 7 - 1
