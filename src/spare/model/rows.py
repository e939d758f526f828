"""What a head sees of one object: the entries of x, row by row.

A head is applied to every member of its slot. A row of its x has entries of six kinds, each with a name:

    of the action      `d`, `cos(heading)`             parameters, and harmonics of the frame's heading
    of its objects     `target.x`, `thing-hand.x`      properties of the action's objects, how far they are apart
    of slots           `present(b1)`, `count(b1)`, `mean(b1).x`    a slot that holds nobody gives zeros
    of the row itself  `own.x`, `own-target.x`, `depth(b1)`        the object's own properties, how far it is from one
                                                       of the action's objects, how many steps of a closure away
    of the step before `previous(b1).x`                the change expected of those one step nearer in a closure
    around the row     `count(beside(own))`, `mean(beside(own)).x`     of whom a reference finds from the object

Everything is written for NumPy (all object rows of an experience, float64) and JAX (the objects of one scene) alike.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any, NamedTuple

from spare.arrays import array_module
from spare.errors import DefinitionError, one_of
from spare.language.domain import Domain
from spare.language.frames import harmonic_names
from spare.language.properties import encoded_names
from spare.language.references import Shell
from spare.language.relations import Closure
from spare.model.features import Observed, Slots

OF_SLOTS = ("slot", "depth", "previous")
"""What entries are about that belong to a slot of the list."""
AGGREGATES = ("mean", "max", "min", "sum")


class Entry(NamedTuple):
    """One entry of x: its name, what it is about, the slot or role, the aggregator, and a column."""

    name: str
    about: str
    slot: int = -1
    how: str = ""
    column: int = -1

    @property
    def common(self) -> bool:
        """Whether all rows of a transition have the same number."""
        return self.about in ("action", "role", "between", "slot")


@dataclasses.dataclass(frozen=True)
class RowLayout:
    """The entries that a head of an action with this list could see, and how they are computed."""

    domain: Domain
    action: str
    shell: Shell
    framed: bool

    @functools.cached_property
    def entries(self) -> dict[str, Entry]:
        """Every entry by name."""
        template, encoded = self.domain.action(self.action), self.encoded_names
        turned = self.framed and template.frame is not None and template.frame.heading is not None
        given = template.inputs + (harmonic_names() if turned else ())
        found = [Entry(name, "action", column=k) for k, name in enumerate(given)]
        for role, name in enumerate(template.objects):
            found += [Entry(f"{name}.{prop}", "role", role, column=k) for k, prop in enumerate(encoded)]
        for first, second in itertools.combinations(range(len(template.objects)), 2):
            label = f"{template.objects[second]}-{template.objects[first]}"
            found += [Entry(f"{label}.{encoded[k]}", "between", first, str(second), k) for k in self.plain_columns]
        names = self.shell.slot_names(template.objects)
        for slot in range(self.shell.roles, self.shell.slots):
            found += [Entry(f"{how}({names[slot]})", "slot", slot, how) for how in ("present", "count")]
            for how in AGGREGATES:
                found += [Entry(f"{how}({names[slot]}).{prop}", "slot", slot, how, k) for k, prop in enumerate(encoded)]
            found.append(Entry(f"depth({names[slot]})", "depth", slot))
            if self.closure(slot):
                dynamic = enumerate(self.domain.dynamic_names)
                found += [Entry(f"previous({names[slot]}).{prop}", "previous", slot, column=q) for q, prop in dynamic]
        found += [Entry(f"own.{prop}", "own", column=k) for k, prop in enumerate(encoded)]
        for role, name in enumerate(template.objects):
            found += [Entry(f"own-{name}.{encoded[k]}", "offset", role, column=k) for k in self.plain_columns]
        for number, reference in enumerate(self.domain.references):
            if reference.arity == 1:
                label = f"{reference.name}(own)"
                found += [Entry(f"{how}({label})", "around", number, how) for how in ("present", "count")]
                for how in AGGREGATES:
                    found += [
                        Entry(f"{how}({label}).{prop}", "around", number, how, k) for k, prop in enumerate(encoded)
                    ]
        return {entry.name: entry for entry in found}

    def closure(self, slot: int) -> bool:
        """Whether a slot is found by steps of one relation, as many as there are."""
        if slot < self.shell.roles:
            return False
        pointer = self.shell.pointers[slot - self.shell.roles]
        return isinstance(self.domain.reference(pointer.reference).relation, Closure)

    @functools.cached_property
    def inputs(self) -> tuple[Any, ...]:
        """The properties that enter x."""
        return tuple(p for p in self.domain.properties if p.input)

    @functools.cached_property
    def encoded_names(self) -> tuple[str, ...]:
        """What is seen of one object."""
        return encoded_names(self.inputs)

    def property_of(self, column: int) -> int:
        """The property, by its place among the inputs, that an encoded column tells of."""
        sizes = [len(p.kind.names(p.name)) for p in self.inputs]
        return next(k for k in range(len(sizes)) if column < sum(sizes[: k + 1]))

    @functools.cached_property
    def plain_columns(self) -> tuple[int, ...]:
        """Encoded columns whose difference means something: properties that are seen as they are."""
        names = {p.name for p in self.inputs if p.kind.names(p.name) == (p.name,)}
        return tuple(k for k, name in enumerate(self.encoded_names) if name in names)

    def chosen(self, names: tuple[str, ...]) -> tuple[Entry, ...]:
        """The entries of these names, if they exist, each once."""
        for name in names:
            if name not in self.entries:
                raise DefinitionError(one_of("input", name, self.entries))
        if len({*names}) != len(names):
            raise DefinitionError("inputs of a head: name each once")
        return tuple(self.entries[name] for name in names)

    def encoded(self, values: Any) -> Any:
        """What is seen of every object row, (R, E)."""
        return self.domain.encode(self.inputs, values)

    def x(self, names: tuple[str, ...], observed: Observed, slots: Slots, rows: Any = None) -> Any:
        """x (R, D) of these object rows (all of them if None)."""
        values = self.encoded(observed.values)
        own = values if rows is None else values[rows]
        blocks: dict[tuple[str, int, str], Any] = {}
        parts = []
        for entry in self.chosen(names):
            if entry.about == "own":
                part = own[..., entry.column]
            elif entry.about == "offset":
                part = own[..., entry.column] - slots.to_rows(slots.single(values, entry.slot), rows)[..., entry.column]
            elif entry.about == "depth":
                part = 1.0 / (1.0 + slots.depth(entry.slot, rows))
            elif entry.about == "previous":
                part = slots.previous(entry.slot, rows)[..., entry.column]
            elif entry.about == "around":
                part = self._around(entry, slots, values, rows, blocks)
            else:
                part = slots.to_rows(self._common(entry, observed, slots, values, blocks)[..., None], rows)[..., 0]
            parts.append(part)
        xp = array_module(observed.values)
        return xp.stack(parts, axis=-1) if parts else xp.zeros((*own.shape[:-1], 0), own.dtype)

    def common(self, names: tuple[str, ...], observed: Observed, slots: Slots) -> Any:
        """Entries that do not depend on the row, (..., D)."""
        values, blocks = self.encoded(observed.values), {}
        parts = [self._common(entry, observed, slots, values, blocks) for entry in self.chosen(names)]
        xp = array_module(observed.values)
        return xp.stack(parts, axis=-1) if parts else xp.zeros((*observed.parameters.shape[:-1], 0))

    def _common(self, entry: Entry, observed: Observed, slots: Slots, values: Any, blocks: dict) -> Any:
        if entry.about == "action":
            return observed.parameters[..., entry.column]
        if entry.about == "role":
            return slots.single(values, entry.slot)[..., entry.column]
        if entry.about == "between":
            pair = (slots.single(values, role)[..., entry.column] for role in (int(entry.how), entry.slot))
            return next(pair) - next(pair)
        if not entry.common:
            raise DefinitionError(f"input {entry.name!r} belongs to one object; this needs one of the whole transition")
        how = "count" if entry.how == "present" else entry.how
        if ("slot", entry.slot, how) not in blocks:
            blocks["slot", entry.slot, how] = slots.aggregate(values, entry.slot, how)
        return _read(entry, blocks["slot", entry.slot, how])

    def _around(self, entry: Entry, slots: Slots, values: Any, rows: Any, blocks: dict) -> Any:
        how = "count" if entry.how == "present" else entry.how
        if ("around", entry.slot, how) not in blocks:
            blocks["around", entry.slot, how] = slots.around(values, entry.slot, how, rows)
        return _read(entry, blocks["around", entry.slot, how])


def _read(entry: Entry, found: Any) -> Any:
    """One entry of what was aggregated, (..., F)."""
    return (found[..., 0] > 0) * 1.0 if entry.how == "present" else found[..., max(entry.column, 0)]
