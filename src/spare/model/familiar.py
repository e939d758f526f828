"""What a rule has seen of its inputs, and how a state is told that it has not.

1. A `Gauge` is one number that could have entered x, dropped entries included: an entry of it, or the angle that two
   entries are the cosine and sine of. It is a number of the transition, or one of each object that a slot holds.
2. `Familiar` keeps the range of every gauge in the samples that a rule was learned from, with the slack beyond which a
   value counts as outside, and how far the members of the ensemble disagreed. `learning/familiar.py` chooses both
   so that few states like the samples are warned of.
3. A `Warned` says which gauge of a state is outside, in a form for people and programs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from spare.arrays import array_module
from spare.data.precision import digits
from spare.errors import DefinitionError
from spare.language.domain import Domain
from spare.language.kinds import Leaf, Periodic, by_leaf, wrapped
from spare.language.properties import Property
from spare.language.references import EVERYONE, Shell
from spare.model.features import Layout, Observed, origins_of
from spare.model.predictors import Take

DISAGREEMENT = "disagreement"
"""The name under which members that disagree are reported."""
LONGEST = 80
"""Slots with longer names are called `b1`, `b2`, ...: a list can nest without end."""


@dataclasses.dataclass(frozen=True)
class Gauge:
    """One number to look at: column (one) or cosine and sine (two) among the entries; `used` if the predictor sees it.

    `prop` is the property that it tells of, None for parameters and counts. A `given` gauge is a parameter or tells of
    the action's objects, so that it can be read whether the rule applies or not. Entries are counted from `origin`.
    With a `group` it is a number of each object of that group: the one farthest from the middle of its range counts.
    """

    name: str
    columns: tuple[int, ...]
    used: bool
    given: bool
    prop: str | None = None
    period: float | None = None
    origin: float = 0.0
    group: int | None = None

    def read(self, entries: Any) -> Any:
        """The number, of entries (..., E), those of the transition or of its objects."""
        if self.period is None:
            return entries[..., self.columns[0]]
        cos, sin = (entries[..., column] for column in self.columns)
        return array_module(entries).arctan2(sin, cos) * (self.period / (2 * math.pi))


@functools.lru_cache(maxsize=256)
def gauges(layout: Layout) -> tuple[Gauge, ...]:
    """All gauges of a rule: what it sees, and what it could see by the aggregators that references offer."""
    used, found, column = {*layout.names}, [], 0
    template = layout.domain.action(layout.action)
    slots = spelled(layout.gamma, template.objects)
    properties = [layout.domain.property(name) for name in layout.spec.inputs]
    origins = named_origins(layout.domain, layout.action, origins_of(layout.domain, layout.action, layout.spec))
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
        # A sum is as many origins away as there are objects: it is told as it is counted.
        known = {} if block.how == "sum" else origins
        seen = [entry in used for entry in block.names]
        first = Gauge(label, (column,), used=False, given=given)
        found += property_gauges(first, properties, seen, known, angles=plain)
        column += len(block.names)
    return tuple(found)


def property_gauges(
    first: Gauge, properties: Sequence[Property], used: Sequence[bool], origins: Mapping[str, float], *, angles: bool
) -> list[Gauge]:
    """A gauge for each property of an object or a set that `first` names, whose entries begin at its column.

    `used`: of each entry. With `angles` the cosine and sine of a periodic property are told as the angle.
    """
    found, column, position = [], first.columns[0], 0
    for prop in properties:
        parts = prop.kind.names(prop.name)
        seen, about = used[position : position + len(parts)], dataclasses.replace(first, prop=prop.name)
        if angles and isinstance(prop.kind, Periodic):
            name, columns = f"{first.name}.{prop.name}", (column + position, column + position + 1)
            found.append(
                dataclasses.replace(about, name=name, columns=columns, used=any(seen), period=prop.kind.period)
            )
        else:
            origin = origins.get(f".{prop.name}", 0.0)
            for k, part in enumerate(parts):
                name, columns = f"{first.name}.{part}", (column + position + k,)
                found.append(dataclasses.replace(about, name=name, columns=columns, used=seen[k], origin=origin))
        position += len(parts)
    return found


def named_origins(domain: Domain, action: str, origins: Observed | None) -> dict[str, float]:
    """What entries are counted from: `d` for a parameter, `.x` for a property."""
    if origins is None:
        return {}
    names = [f".{name}" for name in domain.property_names]
    names += domain.action(action).parameters
    return dict(zip(names, (*origins.values.tolist(), *origins.parameters.tolist()), strict=True))


def spelled(shell: Shell, roles: Sequence[str]) -> list[str]:
    """Each slot in full: `target`, `above*(target)`, `behind(behind(target))`; by its short name where that is long."""
    short = shell.slot_names(roles)
    names = list(short[: shell.roles])
    for pointer in shell:
        given = ", ".join(names[slot] for slot in pointer.arguments)
        full = EVERYONE if pointer.reference == EVERYONE else f"{pointer.reference}({given})"
        names.append(full if len(full) <= LONGEST else short[len(names)])
    return names


def disagreement(location: Any, variance: Any, leaves: tuple[Leaf, ...]) -> Any:
    """max over slots and values of sqrt(epistemic / aleatoric), of members' answers (M, ..., S, Q).

    With means mu_m and variances v_m of the members: aleatoric is the geometric mean of the variances, epistemic
    Var mu_m + mean v_m - aleatoric. 0 if there is one member.
    """
    means, variances = by_leaf(leaves, lambda leaf, *parts: leaf.moments(*parts), location, variance)
    return disagreements(means, variances).max(axis=(-2, -1))


def disagreements(means: Any, variances: Any) -> Any:
    """sqrt(epistemic / aleatoric) of every value (...), of members' means and variances (M, ...)."""
    xp = array_module(means)
    tiny = float(np.finfo(np.float32).tiny)
    variances = xp.maximum(variances, tiny)
    typical = xp.exp(xp.log(variances).mean(axis=0))
    rest = xp.maximum(variances.mean(axis=0) - typical, 0.0) + means.var(axis=0)
    return xp.sqrt(rest / typical)


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


class Looked(NamedTuple):
    """What gauges are read from: `common` (..., E), and of N objects `rows` (..., N, F); `held` (..., B, N): groups."""

    common: Any
    rows: Any = None
    held: Any = None


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

    def values(self, every: Sequence[Gauge], entries: Looked | np.ndarray) -> np.ndarray:
        """These gauges (..., G) of what a rule looked at; of angles the image nearest to the middle of the range.

        Of the objects of a group the one farthest from that middle; the middle itself where there is none.
        """
        looked = entries if isinstance(entries, Looked) else Looked(entries)
        middles = (np.asarray(self.low, np.float64) + np.asarray(self.high, np.float64)) / 2
        found = np.empty((*looked.common.shape[:-1], len(every)))
        for k, (gauge, middle) in enumerate(zip(every, middles, strict=True)):
            numbers = np.asarray(gauge.read(looked.common if gauge.group is None else looked.rows), np.float64)
            if gauge.period is not None:
                numbers = middle + wrapped(numbers - middle, gauge.period)
            if gauge.group is not None:
                held = looked.held[..., gauge.group, :]
                away = np.where(held, np.abs(numbers - middle), -1.0)
                farthest = np.take_along_axis(numbers, away.argmax(axis=-1)[..., None], axis=-1)[..., 0]
                numbers = np.where(held.any(axis=-1), farthest, middle)
            found[..., k] = numbers
        return found

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Which gauges (..., G) are outside, bool."""
        low, high, slack = (np.asarray(part, np.float64) for part in self[:3])
        return (values < low - slack) | (values > high + slack)

    def odd(self, values: np.ndarray, doubts: np.ndarray) -> np.ndarray:
        """Which states, of gauges (n, G) and disagreements (n,), are to be warned of if the rule fires."""
        return self.outside(values).any(axis=-1) | (doubts > float(self.most))

    def warned(self, every: Sequence[Gauge], values: np.ndarray, doubt: float, rule: int) -> tuple[Warned, ...]:
        """What is to be said about one state: gauges (G,) that are outside, used ones first, and the disagreement."""
        found = []
        for k in np.flatnonzero(self.outside(values)).tolist():
            value, low, high = (float(part[k]) + every[k].origin for part in (values, self.low, self.high))
            found.append(Warned(every[k].name, value, low, high, rule, every[k].used))
        found.sort(key=lambda one: not one.used)
        if doubt > float(self.most):
            found.append(Warned(DISAGREEMENT, float(doubt), 0.0, float(self.most), rule, True))
        return tuple(found)

    def pack(self, every: Sequence[Gauge]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a rule's file holds of it: an entry with the names of the gauges, and arrays by name."""
        arrays = {f"familiar.{name}": part for name, part in self._asdict().items()}
        return {"familiar": [gauge.name for gauge in every]}, arrays

    @classmethod
    def unpack(cls, entry: Mapping[str, Any], take: Take) -> Familiar | None:
        """What `pack` wrote, if the file says: files of an earlier version do not."""
        return cls(*(take(f"familiar.{name}") for name in cls._fields)) if "familiar" in entry else None


def check_names(entry: Mapping[str, Any], every: Sequence[Gauge]) -> None:
    """Refuse ranges of other gauges than these."""
    if "familiar" in entry and [*entry["familiar"]] != [gauge.name for gauge in every]:
        raise DefinitionError("the ranges of its inputs are those of other inputs")


class Seen(NamedTuple):
    """What a rule, the k-th from 1, sees of one state: gauges (G,) and disagreement; and whether it fires."""

    familiar: Familiar
    gauges: Sequence[Gauge]
    values: np.ndarray
    doubt: float
    rule: int
    fires: bool

    def warned(self) -> tuple[Warned, ...]:
        """What there is to say, as if the rule fired."""
        return self.familiar.warned(self.gauges, self.values, self.doubt, self.rule)


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
        given = {gauge.name for gauge in one.gauges if gauge.given}
        every.append({warned.name: warned for warned in one.warned() if warned.name in given})
    return tuple(said for name, said in every[0].items() if all(name in rest for rest in every)) if every else ()
