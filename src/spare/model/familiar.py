"""What a rule has seen of its inputs, and how a state is told that it has not.

1. A `Gauge` is one number that could have entered x, dropped entries included: an entry of it, or the angle that two
   entries are the cosine and sine of.
2. `Familiar` keeps the range of every gauge in the samples that a rule was learned from, with the slack beyond which a
   value counts as outside, and how far the members of the ensemble disagreed. `learning/familiar.py` chooses both
   so that few states like the samples are warned of.
3. A `Warned` says which gauge of a state is outside, in a form for people and programs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from spare.arrays import array_module
from spare.data.precision import digits
from spare.errors import DefinitionError
from spare.language.kinds import Leaf, Periodic, by_leaf, wrapped
from spare.model.features import Layout, origins_of

DISAGREEMENT = "disagreement"
"""The name under which members that disagree are reported."""
LONGEST = 80
"""Slots with longer names are called `b1`, `b2`, ...: a list can nest without end."""


@dataclasses.dataclass(frozen=True)
class Gauge:
    """One number to look at: column (one) or cosine and sine (two) among the entries; `used` if the predictor sees it.

    `prop` is the property that it tells of, None for parameters and counts. A `given` gauge is a parameter or tells of
    the action's objects, so that it can be read whether the rule applies or not. Entries are counted from `origin`.
    """

    name: str
    columns: tuple[int, ...]
    used: bool
    given: bool
    prop: str | None = None
    period: float | None = None
    origin: float = 0.0

    def read(self, entries: Any) -> Any:
        """The number, of entries (..., E)."""
        if self.period is None:
            return entries[..., self.columns[0]]
        cos, sin = (entries[..., column] for column in self.columns)
        return array_module(entries).arctan2(sin, cos) * (self.period / (2 * math.pi))


@functools.lru_cache(maxsize=256)
def gauges(layout: Layout) -> tuple[Gauge, ...]:
    """All gauges of a rule: what it sees, and what it could see by the aggregators that references offer."""
    used, found, column = {*layout.names}, [], 0
    slots = spelled(layout)
    properties = [layout.domain.property(name) for name in layout.spec.inputs]
    origins = _origins(layout)
    for block in layout.blocks:
        if block.slot is None or block.how == "count":
            for entry in block.names:
                name = entry if block.slot is None else f"count({slots[block.slot]})"
                origin = 0.0 if block.slot is not None else origins.get(entry, 0.0)
                found.append(Gauge(name, (column,), entry in used, block.slot is None, origin=origin))
                column += 1
            continue
        plain, given = block.how in (None, "mean"), block.slot < layout.gamma.roles
        label = slots[block.slot] if plain else f"{block.how}({slots[block.slot]})"
        position = 0
        for prop in properties:
            parts = prop.kind.names(prop.name)
            seen = [entry in used for entry in block.names[position : position + len(parts)]]
            if plain and isinstance(prop.kind, Periodic):
                columns = (column + position, column + position + 1)
                found.append(Gauge(f"{label}.{prop.name}", columns, any(seen), given, prop.name, prop.kind.period))
            else:
                # A sum is as many origins away as there are objects: it is told as it is counted.
                origin = 0.0 if block.how == "sum" else origins.get(f".{prop.name}", 0.0)
                for k, part in enumerate(parts):
                    columns = (column + position + k,)
                    found.append(Gauge(f"{label}.{part}", columns, seen[k], given, prop.name, origin=origin))
            position += len(parts)
        column += len(block.names)
    return tuple(found)


def _origins(layout: Layout) -> dict[str, float]:
    """What entries are counted from: `d` for a parameter, `.x` for a property."""
    found = origins_of(layout.domain, layout.action, layout.spec)
    if found is None:
        return {}
    names = [f".{name}" for name in layout.domain.property_names]
    names += layout.domain.action(layout.action).parameters
    return dict(zip(names, (*found.values.tolist(), *found.parameters.tolist()), strict=True))


def spelled(layout: Layout) -> list[str]:
    """Each slot in full: `target`, `above*(target)`, `behind(behind(target))`; by its short name where that is long."""
    short = layout.gamma.slot_names(layout.domain.action(layout.action).objects)
    names = list(short[: layout.gamma.roles])
    for pointer in layout.gamma:
        full = f"{pointer.reference}({', '.join(names[slot] for slot in pointer.arguments)})"
        names.append(full if len(full) <= LONGEST else short[len(names)])
    return names


def disagreement(location: Any, variance: Any, leaves: tuple[Leaf, ...]) -> Any:
    """max over slots and values of sqrt(epistemic / aleatoric), of members' answers (M, ..., S, Q).

    With means mu_m and variances v_m of the members: aleatoric is the geometric mean of the variances, epistemic
    Var mu_m + mean v_m - aleatoric. 0 if there is one member.
    """
    xp = array_module(location)
    means, variances = by_leaf(leaves, lambda leaf, *parts: leaf.moments(*parts), location, variance)
    tiny = float(np.finfo(np.float32).tiny)
    variances = xp.maximum(variances, tiny)
    typical = xp.exp(xp.log(variances).mean(axis=0))
    rest = xp.maximum(variances.mean(axis=0) - typical, 0.0) + means.var(axis=0)
    return xp.sqrt(rest / typical).max(axis=(-2, -1))


@dataclasses.dataclass(frozen=True)
class Warned:
    """An input of a firing rule that lies outside what the rule was learned from, from `low` to `high`.

    `name` is `above*(target).mass`, a parameter's name, or `disagreement`: that of the ensemble's members, in units of
    the noise. `used` is false for inputs that the rule does without. `rule` counts from 1.
    """

    name: str
    value: float
    low: float
    high: float
    rule: int
    used: bool

    def __str__(self) -> str:
        if self.name == DISAGREEMENT:
            return (
                f"the networks of rule {self.rule} disagree by {self.value:.2g} times the noise, "
                f"more than they do on states like those it has seen ({self.high:.2g})"
            )
        width, beyond = self.high - self.low, max(self.low - self.value, self.value - self.high)
        low, high = (digits(one, width or beyond) for one in (self.low, self.high))
        value = digits(self.value, max(width, beyond))
        seen = f"was always {low}" if self.low == self.high else f"was {low} to {high}"
        aside = "" if self.used else "; the rule does without it, since it made no difference there"
        return f"{self.name} = {value} {seen} in the training data{aside}"


class Familiar(NamedTuple):
    """What was seen: `low`, `high` and `slack` (G,) of each gauge; `most` (): how far members disagreed, at most.

    A value is outside if it is below low - slack or above high + slack. An angle's range may reach beyond the period.
    """

    low: Any
    high: Any
    slack: Any
    most: Any

    @classmethod
    def of(cls, low: Any, high: Any, slack: Any, most: Any) -> Familiar:
        """In 32-bit numbers; a range is never narrower for being rounded, by more than its slack."""
        return cls(*(jnp.asarray(part, jnp.float32) for part in (low, high, slack, most)))

    def checked(self, count: int) -> Familiar:
        """The same, if it has a finite range for each of so many gauges."""
        for name, part in zip(self._fields, self, strict=True):
            shape = () if name == "most" else (count,)
            if part.shape != shape:
                raise DefinitionError(f"range of inputs: {name} needs the shape {shape}, got {part.shape}")
            if isinstance(part, Tracer):
                return self
            if not np.isfinite(part).all() or (name in ("slack", "most") and (np.asarray(part) < 0).any()):
                raise DefinitionError(f"range of inputs: {name} must be finite, and slack not negative")
        if (np.asarray(self.low) > np.asarray(self.high)).any():
            raise DefinitionError("range of inputs: it begins above its end")
        return self

    def values(self, layout: Layout, entries: np.ndarray) -> np.ndarray:
        """The gauges (..., G) of entries (..., E); of angles the image nearest to the middle of the range."""
        middle = (np.asarray(self.low, np.float64) + np.asarray(self.high, np.float64)) / 2
        found = np.stack([gauge.read(entries) for gauge in gauges(layout)], axis=-1).astype(np.float64)
        for k, gauge in enumerate(gauges(layout)):
            if gauge.period is not None:
                found[..., k] = middle[k] + wrapped(found[..., k] - middle[k], gauge.period)
        return found

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Which gauges (..., G) are outside, bool."""
        low, high, slack = (np.asarray(part, np.float64) for part in self[:3])
        return (values < low - slack) | (values > high + slack)

    def odd(self, values: np.ndarray, doubts: np.ndarray) -> np.ndarray:
        """Which states, of gauges (n, G) and disagreements (n,), are to be warned of if the rule fires."""
        return self.outside(values).any(axis=-1) | (doubts > float(self.most))

    def warned(self, layout: Layout, values: np.ndarray, doubt: float, rule: int) -> tuple[Warned, ...]:
        """What is to be said about one state: gauges (G,) that are outside, used ones first, and the disagreement."""
        every = gauges(layout)
        found = []
        for k in np.flatnonzero(self.outside(values)):
            value, low, high = (float(part[k]) + every[k].origin for part in (values, self.low, self.high))
            found.append(Warned(every[k].name, value, low, high, rule, every[k].used))
        found.sort(key=lambda one: not one.used)
        if doubt > float(self.most):
            found.append(Warned(DISAGREEMENT, float(doubt), 0.0, float(self.most), rule, True))
        return tuple(found)


class Seen(NamedTuple):
    """What a rule, the k-th from 1, sees of one state: gauges (G,) and disagreement; and whether it fires."""

    familiar: Familiar
    layout: Layout
    values: np.ndarray
    doubt: float
    rule: int
    fires: bool

    def warned(self) -> tuple[Warned, ...]:
        """What there is to say, as if the rule fired."""
        return self.familiar.warned(self.layout, self.values, self.doubt, self.rule)


def warnings_of(rules: list[Seen]) -> tuple[Warned, ...]:
    """What is said about one state, by the rules of its action that know what they have seen.

    Those that fire speak for themselves. If none does, nobody knows why: then the action's parameters and objects are
    looked at, and what is outside for every rule is told.
    """
    firing = [one for one in rules if one.fires]
    if firing:
        return tuple(warned for one in firing for warned in one.warned())
    every = []
    for one in rules:
        given = {gauge.name for gauge in gauges(one.layout) if gauge.given}
        every.append({warned.name: warned for warned in one.warned() if warned.name in given})
    return tuple(said for name, said in every[0].items() if all(name in rest for rest in every)) if every else ()
