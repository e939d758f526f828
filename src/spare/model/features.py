"""x, the input of a rule's predictor: computed by the same code in learning and in prediction.

1. `observe` moves values and parameters into the action's frame, if the rule works there, and counts what is far
   from 0 from an origin that is near.
2. `Layout` lists the entries of x: the action's parameters, harmonics of the heading, the encoded properties of the
   action's objects, and what aggregators make of each set; then those that the rule uses.
3. `Layout.features` fills them in, from a `Slots`: who is in each slot of one scene (JAX), or of all transitions of
   an experience (NumPy).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from spare.arrays import array_module
from spare.errors import DefinitionError, one_of
from spare.language.domain import Domain
from spare.language.frames import (
    QUARTER,
    FramePose,
    harmonic_names,
    harmonics,
    mirrored,
    quarters,
    swapped,
    to_frame,
)
from spare.language.properties import encoded_names
from spare.language.references import AGGREGATORS, Shell
from spare.model.spec import FeatureSpec, RuleSpec


class Observed(NamedTuple):
    """Values (rows, P) and parameters (..., d) in the predictor's coordinates; in a frame followed by harmonics."""

    values: Any
    parameters: Any


def origins_of(domain: Domain, action: str, spec: FeatureSpec) -> Observed | None:
    """What is subtracted from values (P,) and from the action's parameters (d,), float64; None if nothing is.

    A frame shifts positions, turns directions and angles and swaps extents itself: from those nothing is subtracted.
    """
    if not spec.origins:
        return None
    template = domain.action(action)
    parts = np.split(np.array(spec.origins, np.float64), [len(domain.properties)])
    if spec.framed and template.frame is not None:
        for part, names in zip(parts, (domain.property_names, template.parameters), strict=True):
            moved = (*template.frame.columns(names), template.frame.pairs(names))
            part[[column for groups in moved for group in groups for column in group]] = 0.0
    return Observed(*parts)


def observe(  # noqa: PLR0913 - the raw numbers, and each way of looking at them
    domain: Domain,
    action: str,
    observed: Observed,
    pose: FramePose | None,
    *,
    owner: np.ndarray | None = None,
    mirror: bool = False,
    origins: Observed | None = None,
) -> Observed:
    """What a predictor sees of raw values and parameters: in the world (no pose), the frame, or the frame's mirror.

    One scene has one pose; for many, `owner` says which pose belongs to each row of values. `origins` (`origins_of`)
    are subtracted.
    """
    template = domain.action(action)
    given = observed.parameters[..., : len(template.parameters)]
    if origins is not None:
        observed, given = observed._replace(values=observed.values - origins.values), given - origins.parameters
    if pose is None or template.frame is None:
        return Observed(observed.values, template.encode(given))
    columns, points = template.frame.columns(domain.property_names), template.frame.columns(template.parameters)
    here = pose if owner is None else pose.at(owner)
    values, given = to_frame(observed.values, columns, here), to_frame(given, points, pose)
    heading = pose.heading
    if heading is not None and (pairs := template.frame.pairs(domain.property_names)):
        turned = quarters(heading)
        values = swapped(values, turned if owner is None else turned[owner], pairs)
        heading = heading - QUARTER * turned
    if mirror:
        values, given = mirrored(values, columns), mirrored(given, points)
        heading = None if heading is None else -heading
    given = template.encode(given)
    if heading is None:
        return Observed(values, given)
    return Observed(values, array_module(given).concatenate([given, harmonics(heading)], axis=-1))


class Pairs(NamedTuple):
    """Whom a reference finds from every object row of an experience: (source, target) rows of each pair."""

    source: np.ndarray
    target: np.ndarray


class Slots(abc.ABC):
    """Who is in each slot, and how the values of slots become numbers."""

    @abc.abstractmethod
    def single(self, values: Any, role: int) -> Any:
        """The values of one of the action's objects, (..., F)."""

    @abc.abstractmethod
    def aggregate(self, values: Any, slot: int, how: str) -> Any:
        """g(set): one number per column (mean, max, min, sum), or the size of the set (count); 0 for an empty set."""

    @abc.abstractmethod
    def to_rows(self, common: Any, rows: Any = None) -> Any:
        """What all object rows of a transition have in common (..., F), once for each of these rows (all if None)."""

    @abc.abstractmethod
    def depth(self, slot: int, rows: Any = None) -> Any:
        """How many steps of a closure lead to each of these rows; 0 outside the slot, 1 if it is no closure."""

    def previous(self, slot: int, rows: Any = None) -> Any:
        """(R, Q): the change expected of those one step before each of these rows in a closure; see `rows.py`."""
        found = self.before[slot]
        return found if rows is None else found[rows]

    before: Mapping[int, Any]
    """What `previous` gives, by slot."""

    @abc.abstractmethod
    def around(self, values: Any, reference: int, how: str, rows: Any = None) -> Any:
        """g over the objects that a reference (of arity 1, by its number) finds from each of these rows, (R, F)."""


@dataclasses.dataclass(frozen=True)
class SceneSlots(Slots):
    """One scene: objects (roles,) are rows, masks (S, N) say who is in each slot."""

    objects: Any
    masks: Any
    depths: Any = None
    found: Callable[[int, Any], Any] | None = None
    """(number of a reference, row) -> whom it finds from there, (N,) bool."""
    before: Mapping[int, Any] = dataclasses.field(default_factory=dict)

    def to_rows(self, common: Any, rows: Any = None) -> Any:
        """The same for every object of the scene."""
        return jnp.broadcast_to(common, (self.masks.shape[1], *common.shape))

    def depth(self, slot: int, rows: Any = None) -> Any:
        """As found by `follow`."""
        return self.depths[slot]

    def single(self, values: Any, role: int) -> Any:
        """The row of the role's object."""
        return values[self.objects[role]]

    def aggregate(self, values: Any, slot: int, how: str) -> Any:
        """Over the objects of the scene that the slot holds."""
        return _of_set(values, self.masks[slot], how)

    def around(self, values: Any, reference: int, how: str, rows: Any = None) -> Any:
        """Object by object: time grows with N squared, memory does not."""
        found = self.found
        assert found is not None
        return jax.lax.map(lambda row: _of_set(values, found(reference, row), how), jnp.arange(values.shape[0]))


def _of_set(values: Any, mask: Any, how: str) -> Any:
    """g of the rows of values (N, F) that a mask holds: (F,), or (1,) if it is their count."""
    chosen, count = mask[:, None], mask.sum()
    if how == "count":
        return count[None].astype(values.dtype)
    if how == "max":
        return jnp.where(count > 0, jnp.where(chosen, values, -jnp.inf).max(axis=0), 0.0)
    if how == "min":
        return jnp.where(count > 0, jnp.where(chosen, values, jnp.inf).min(axis=0), 0.0)
    total = jnp.where(chosen, values, 0.0).sum(axis=0)
    return total if how == "sum" else total / jnp.maximum(count, 1)


@dataclasses.dataclass(frozen=True)
class ExperienceSlots(Slots):
    """n transitions: objects (n, roles) are rows of all values, masks (S, R), starts (n,) the first row of each."""

    objects: np.ndarray
    masks: np.ndarray
    starts: np.ndarray
    owner: np.ndarray | None = None
    depths: np.ndarray | None = None
    found: Callable[[int], Pairs] | None = None
    """Number of a reference -> whom it finds from every row."""
    before: Mapping[int, Any] = dataclasses.field(default_factory=dict)

    def to_rows(self, common: Any, rows: Any = None) -> Any:
        """Each row has its transition's."""
        assert self.owner is not None
        return common[self.owner if rows is None else self.owner[rows]]

    def depth(self, slot: int, rows: Any = None) -> Any:
        """As found by `Bindings`."""
        assert self.depths is not None
        return self.depths[slot] if rows is None else self.depths[slot][rows]

    def around(self, values: Any, reference: int, how: str, rows: Any = None) -> Any:
        """Over the pairs that `Bindings` found."""
        assert self.found is not None
        pairs, size = self.found(reference), len(values)
        count = np.bincount(pairs.source, minlength=size)[:, None]
        if how == "count":
            found = count.astype(np.float64)
        elif how in ("max", "min"):
            worst, reduce = (-np.inf, np.maximum) if how == "max" else (np.inf, np.minimum)
            found = np.full(values.shape, worst)
            reduce.at(found, pairs.source, values[pairs.target])
            found = np.where(count > 0, found, 0.0)
        else:
            parts = [np.bincount(pairs.source, column[pairs.target], minlength=size) for column in values.T]
            total = np.stack(parts, axis=1)
            found = total if how == "sum" else total / np.maximum(count, 1)
        return found if rows is None else found[rows]

    def single(self, values: Any, role: int) -> Any:
        """The rows of the role's objects."""
        return values[self.objects[:, role]]

    def aggregate(self, values: Any, slot: int, how: str) -> Any:
        """Over the rows of each transition that the slot holds."""
        mask = self.masks[slot]
        count = np.add.reduceat(mask, self.starts, dtype=np.int64)[:, None]
        if how == "count":
            return count.astype(np.float64)
        if how in ("max", "min"):
            worst, reduce = (-np.inf, np.maximum) if how == "max" else (np.inf, np.minimum)
            found = reduce.reduceat(np.where(mask[:, None], values, worst), self.starts, axis=0)
            return np.where(count > 0, found, 0.0)
        total = np.add.reduceat(np.where(mask[:, None], values, 0.0), self.starts, axis=0)
        return total if how == "sum" else total / np.maximum(count, 1)


class Block(NamedTuple):
    """Entries of x that are computed together: of a slot (None for the action itself), by an aggregator.

    `offered` entries belong to x unless the rule drops them, others only if it asks for them.
    """

    slot: int | None
    how: str | None
    names: tuple[str, ...]
    offered: bool = True


@dataclasses.dataclass(frozen=True)
class Layout:
    """The entries of x of a rule with input list Gamma, in order."""

    domain: Domain
    action: str
    gamma: Shell
    spec: FeatureSpec

    @classmethod
    def of(cls, domain: Domain, spec: RuleSpec) -> Layout:
        """The layout of a rule, if the entries that it names exist and some are left."""
        layout = cls(domain, spec.action, spec.gamma, spec.features)
        offered = [name for block in layout.every for name in block.names if block.offered]
        others = [name for block in layout.every for name in block.names if not block.offered]
        for chosen, known in ((spec.features.dropped, offered), (spec.features.extra, others)):
            for name in chosen:
                if name not in known:
                    raise DefinitionError(one_of("input", name, known))
            if len({*chosen}) != len(chosen):
                raise DefinitionError("dropped and extra features: name each once")
        if not layout.names:
            raise DefinitionError("dropped features: leave at least one input")
        return layout

    @functools.cached_property
    def every(self) -> tuple[Block, ...]:
        """All that could enter x: what references offer, and every other aggregator of every pointer."""
        template, domain = self.domain.action(self.action), self.domain
        slots, encoded = self.gamma.slot_names(template.objects), self.encoded_names
        framed = self.spec.framed and template.frame is not None and template.frame.heading is not None
        blocks = [Block(None, None, template.inputs + (harmonic_names() if framed else ()))]
        for role, name in enumerate(template.objects):
            blocks.append(Block(role, None, tuple(f"{name}.{prop}" for prop in encoded)))
        for t, pointer in enumerate(self.gamma, start=self.gamma.roles):
            offered = domain.reference(pointer.reference).aggregators
            for how in (*offered, *(how for how in AGGREGATORS if how not in offered)):
                names = (f"count({slots[t]})",) if how == "count" else tuple(f"{how}({slots[t]}).{p}" for p in encoded)
                blocks.append(Block(t, how, names, how in offered))
        return tuple(blocks)

    @functools.cached_property
    def encoded_names(self) -> tuple[str, ...]:
        """What is seen of one object."""
        return encoded_names([self.domain.property(name) for name in self.spec.inputs])

    @functools.cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks that are computed: those offered, and those of which an entry is asked for."""
        extra = {*self.spec.extra}
        return tuple(block for block in self.every if block.offered or extra & {*block.names})

    @functools.cached_property
    def _entries(self) -> tuple[tuple[str, int | None], ...]:
        """(name, slot) of every entry that is computed."""
        return tuple((name, block.slot) for block in self.blocks for name in block.names)

    @functools.cached_property
    def _used(self) -> np.ndarray:
        """Which of the computed entries are x."""
        dropped, extra = {*self.spec.dropped}, {*self.spec.extra}
        flags = [(n not in dropped) if b.offered else (n in extra) for b in self.blocks for n in b.names]
        return np.flatnonzero(flags)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """What each entry of x is: `d`, `cos(heading)`, `target.x`, `mean(b1).x`, `count(b2)`."""
        return tuple(self._entries[k][0] for k in self._used)

    @functools.cached_property
    def slots(self) -> np.ndarray:
        """Which slot each entry of x describes; -1 for the action itself."""
        return np.array([-1 if (slot := self._entries[k][1]) is None else slot for k in self._used], int)

    def features(self, observed: Observed, slots: Slots) -> Any:
        """x along the last axis: of one scene (D,), or of every transition (n, D)."""
        return self.chosen(self.entries(observed, slots))

    def chosen(self, entries: Any) -> Any:
        """x, of all entries that are computed."""
        return entries if len(self._used) == len(self._entries) else entries[..., self._used]

    def entries(self, observed: Observed, slots: Slots) -> Any:
        """All entries that are computed, those among them that the rule drops, along the last axis."""
        inputs = [self.domain.property(name) for name in self.spec.inputs]
        values, parts = self.domain.encode(inputs, observed.values), []
        for block in self.blocks:
            if block.slot is None:
                parts.append(observed.parameters)
            elif block.how is None:
                parts.append(slots.single(values, block.slot))
            else:
                parts.append(slots.aggregate(values, block.slot, block.how))
        return array_module(observed.values).concatenate(parts, axis=-1)
