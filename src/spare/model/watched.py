"""What a rule with heads looks at of a state to tell whether it has seen such a one: the gauges of its `Familiar`.

1. What is given: the action's parameters (and harmonics of the heading) and all properties of the action's objects.
2. Of every slot in the rule's list: how many objects it holds. Of slots that no head predicts the mean of each
   property, and whatever else some head sees of any slot.
3. Of every object that a head predicts: its own properties, how far it is from the action's objects, and its depth in
   a closure. An offset from the object that stands at the frame's origin is left out where the frame makes it the
   object's own place.
4. Of everyone else nothing, where it stays or drifts: nothing about it enters a network, and a bystander somewhere
   new changes no prediction. Where a process with a network moves it, its properties in the world, as `others.x`; and
   of objects whose head predicts changes beyond that process in a frame, where their place in the world would
   otherwise not be looked at.

Entries that a head could have seen and does without count like others, as in the paper's kind of rule; properties that
no head may see (`input=False`) do not.
"""

from __future__ import annotations

import dataclasses
import functools

from spare.language.relations import Closure
from spare.model.familiar import Gauge, named_origins, property_gauges, spelled
from spare.model.features import Observed, origins_of
from spare.model.heads import HeadSpec
from spare.model.rows import AGGREGATES, Entry, RowLayout
from spare.model.spec import FeatureSpec

OTHERS = "others"
"""What objects that no head holds are called."""


@dataclasses.dataclass(frozen=True)
class Watched:
    """Names of entries of the transition, of its objects, of its objects in the world, and the gauges over them.

    Columns of gauges of objects count through `rows`, then `world`. The group of head k is k, that of others the last.
    """

    common: tuple[str, ...]
    rows: tuple[str, ...]
    world: tuple[str, ...]
    gauges: tuple[Gauge, ...]


def origins_in(layout: RowLayout, origins: tuple[float, ...]) -> Observed | None:
    """What is subtracted from numbers that a layout's entries are computed from."""
    return origins_of(layout.domain, layout.action, FeatureSpec((), layout.framed, origins=origins))


@functools.lru_cache(maxsize=256)
def watched(
    layout: RowLayout,
    heads: tuple[HeadSpec, ...],
    process: HeadSpec,
    gate: tuple[str, ...] = (),
    origins: tuple[float, ...] = (),
) -> Watched:
    """What a rule of these parts looks at."""
    return _Making(layout, heads, process, gate, origins).made()


class _Making:
    def __init__(
        self,
        layout: RowLayout,
        heads: tuple[HeadSpec, ...],
        process: HeadSpec,
        gate: tuple[str, ...],
        origins: tuple[float, ...],
    ) -> None:
        self.layout, self.heads, self.process, self.given = layout, heads, process, origins
        self.template = layout.domain.action(layout.action)
        self.slots = spelled(layout.shell, self.template.objects)
        self.short = layout.shell.slot_names(self.template.objects)
        self.used = {name for head in heads for name in head.inputs} | {*gate}
        self.origins = named_origins(layout.domain, layout.action, origins_in(layout, origins))
        self.common: list[str] = []
        self.rows: list[str] = []
        self.gauges: list[Gauge] = []

    def made(self) -> Watched:
        """All of it: what is given, slots, members, others."""
        self._action()
        for slot in range(self.layout.shell.slots):
            self._slot(slot)
        self._members()
        return Watched(tuple(self.common), tuple(self.rows), self._others(), tuple(self.gauges))

    def _about(self, *about: str, slot: int = -1) -> list[Entry]:
        return [e for e in self.layout.entries.values() if e.about in about and slot in (-1, e.slot)]

    def _action(self) -> None:
        for entry in self._about("action"):
            origin = self.origins.get(entry.name, 0.0)
            used = entry.name in self.used
            self.gauges.append(Gauge(entry.name, (len(self.common),), used, given=True, origin=origin))
            self.common.append(entry.name)

    def _slot(self, slot: int) -> None:
        roles, label = self.layout.shell.roles, self.slots[slot]
        if slot < roles:
            own = {name for head in self.heads if head.slot == slot for name in head.inputs}
            names = [entry.name for entry in self._about("role", slot=slot)]
            pairs = zip(names, self.layout.encoded_names, strict=True)
            used = [name in self.used or f"own.{part}" in own for name, part in pairs]
            self._properties(Gauge(label, (len(self.common),), used=False, given=True), names, used)
            return
        short, predicted = self.short[slot], any(head.slot == slot for head in self.heads)
        count = f"count({short})"
        used = not {count, f"present({short})"}.isdisjoint(self.used)
        self.gauges.append(Gauge(f"count({label})", (len(self.common),), used, given=False))
        self.common.append(count)
        for how in AGGREGATES:
            names = [f"{how}({short}).{part}" for part in self.layout.encoded_names]
            seen = [name in self.used for name in names]
            if any(seen) or (how == "mean" and not predicted):
                self._properties(Gauge(f"{how}({label})", (len(self.common),), used=False, given=False), names, seen)

    def _properties(self, first: Gauge, names: list[str], used: list[bool]) -> None:
        """Of a role, or of a set as a whole; a sum is told as it is counted, as many origins away as it has members."""
        how = first.name.split("(")[0]
        origins = {} if how == "sum" else self.origins
        plain = first.given or how == "mean"
        self.gauges += property_gauges(first, self.layout.inputs, used, origins, angles=plain)
        self.common += names

    def _members(self) -> None:
        shell = self.layout.shell
        self.rows = [entry.name for entry in self._about("own", "offset")]
        own = [entry.name for entry in self._about("own")]
        for k, head in enumerate(self.heads):
            member, label = head.slot >= shell.roles, self.slots[head.slot]
            if member and own:
                used = [name in head.inputs for name in own]
                first = Gauge(label, (self.rows.index(own[0]),), used=False, given=False, group=k)
                self.gauges += property_gauges(first, self.layout.inputs, used, self.origins, angles=True)
            for entry in self._about("offset"):
                if entry.name in head.inputs or (member and not self._at_origin(entry)):
                    prop = self.layout.encoded_names[entry.column]
                    name = f"{label}-{self.template.objects[entry.slot]}.{prop}"
                    column, used = (self.rows.index(entry.name),), entry.name in head.inputs
                    self.gauges.append(Gauge(name, column, used, given=False, prop=prop, group=k))
            for entry in self._about("previous"):
                if entry.name in head.inputs:
                    self.rows += [] if entry.name in self.rows else [entry.name]
                    prop = self.layout.domain.dynamic_names[entry.column]
                    name, column = f"previous({label}).{prop}", (self.rows.index(entry.name),)
                    self.gauges.append(Gauge(name, column, used=True, given=False, prop=prop, group=k))
            for entry in self._about("depth"):
                if entry.name in head.inputs or (entry.slot == head.slot and self._closure(entry.slot)):
                    self.rows += [] if entry.name in self.rows else [entry.name]
                    name, column = f"depth({self.slots[entry.slot]})", (self.rows.index(entry.name),)
                    self.gauges.append(Gauge(name, column, entry.name in head.inputs, given=False, group=k))

    def _closure(self, slot: int) -> bool:
        pointer = self.layout.shell.pointers[slot - self.layout.shell.roles]
        return isinstance(self.layout.domain.reference(pointer.reference).relation, Closure)

    def _at_origin(self, entry: Entry) -> bool:
        """Whether an offset is one of places from the object at the frame's origin: the place itself, in the frame."""
        frame = self.template.frame
        if not self.layout.framed or frame is None or frame.origin != self.template.objects[entry.slot]:
            return False
        names = self.layout.domain.property_names
        places = {names[column] for group in frame.columns(names).positions for column in group}
        return self.layout.encoded_names[entry.column] in places

    def _others(self) -> tuple[str, ...]:
        """The names of what is seen of others, if a network moves them."""
        if not self.process.inputs:
            return ()
        world = dataclasses.replace(self.layout, framed=False)
        origins = named_origins(world.domain, world.action, origins_in(world, self.given))
        names = tuple(entry.name for entry in self._about("own"))
        used = [name in self.process.inputs for name in names]
        first = Gauge(OTHERS, (len(self.rows),), used=False, given=False, group=len(self.heads))
        self.gauges += property_gauges(first, self.layout.inputs, used, origins, angles=True)
        return names
