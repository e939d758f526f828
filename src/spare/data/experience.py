"""Experience E = {(s, a, s')}: transitions with any number of objects, as flat values and offsets.

Row k of `values` is one object of one transition; transition i owns the rows offsets[i] to offsets[i + 1].
Everything is checked once, in `from_arrays`, whatever way the data came in.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from spare.arguments import check_flag, check_seed, described, is_real, is_whole
from spare.content import ByContent
from spare.data import extras, intake
from spare.data.columns import Columns, some
from spare.data.files import read_file, write_file
from spare.data.named import named_value, present
from spare.data.precision import Numbers, needs_double
from spare.data.ragged import Ragged, joined, owners
from spare.data.state import ActionCall, State, Transition
from spare.data.structure import with_types
from spare.data.tables import read_table, write_table
from spare.data.typed_tables import read_typed
from spare.data.typed_writing import write_pairs, write_typed
from spare.errors import DataError, UsageError, one_of
from spare.io.parquet import errors_of
from spare.language.domain import Domain, expect_domain
from spare.language.properties import nearest_images

Item = TypeVar("Item")


class _View(Sequence[Item]):
    """A sequence read from an experience one item at a time; it travels to other processes with the experience."""

    def __init__(self, owner: Experience, read: Callable[[Experience, int], Item]) -> None:
        self._owner, self._read = owner, read

    def __len__(self) -> int:
        return len(self._owner)

    def __getitem__(self, index: Any) -> Any:
        length = len(self)
        if isinstance(index, slice):
            return [self[i] for i in range(*_bounds(index, length))]
        if not is_whole(index):
            raise UsageError(f"give the number of a transition, or a slice of them, got {described(index)}")
        if not -length <= index < length:
            raise IndexError(f"transition {described(index)} of {length}")
        return self._read(self._owner, int(index) % length)


def _bounds(index: slice, length: int) -> tuple[int, int, int]:
    """Start, stop and step of a slice of so many transitions."""
    try:
        return index.indices(length)
    except (TypeError, ValueError) as error:
        raise UsageError(f"there are {length} transitions: {error}; write a slice such as [10:20] or [::2]") from error


@dataclasses.dataclass(frozen=True, eq=False)
class Experience(ByContent):
    """E: n transitions of one domain. Make it with `from_arrays`, `from_table`, a `Builder`, or `load`.

    values, next_values  (total, P) float32, or float64 where that would lose digits: properties before and after
                         (after: of a property with a period, the image nearest to the value before)
    offsets              (n + 1,) int64: transition i owns rows offsets[i]:offsets[i + 1]
    ids                  (total,) int64 or text: object ids, unique within a transition
    action               (n,) int32: index of the action template
    objects              (n, roles) int32: local indices of the action's objects, -1 where a template has fewer
    parameters           (n, parameters), of the same type: the action's parameters, 0 where a template has fewer
    weights              (n,) float64: 2 counts as two transitions, 0 as none
    info                 one array of n numbers or texts per name, carried along
    metadata             facts about the whole set (JSON values), carried along
    dropped              how many transitions were left out because they were not finite
    vanished             (total,) bool: objects that are not in the next state; their next values repeat the last ones.
                         None if all are
    arrivals             objects that are in the next state alone: `ids` and `values` for each transition; None: nobody
    pairs, next_pairs    of each stored relation, by name: `source` and `target`, local rows, for each transition;
                         static relations are in `pairs` alone, and next rows count on to the arrivals
    calls                what else was done in each transition: `action`, `objects`, `parameters`; None: nothing
    """

    domain: Domain
    values: np.ndarray
    next_values: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    action: np.ndarray
    objects: np.ndarray
    parameters: np.ndarray
    weights: np.ndarray
    info: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dropped: int = 0
    vanished: np.ndarray | None = None
    arrivals: Ragged | None = None
    pairs: Mapping[str, Ragged] = dataclasses.field(default_factory=dict)
    next_pairs: Mapping[str, Ragged] = dataclasses.field(default_factory=dict)
    calls: Ragged | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value.flags.writeable = False
        object.__setattr__(self, "info", {name: _read_only(column) for name, column in self.info.items()})
        for lists in (self.arrivals, self.calls, *self.pairs.values(), *self.next_pairs.values()):
            if lists is not None:
                lists.frozen()

    def __reduce__(self) -> tuple[Any, ...]:
        """Made again where it is sent or copied, so that the copy can be written to as little as this one."""
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    def __hash__(self) -> int:
        return int(self.fingerprint[:15], 16)

    @classmethod
    def from_arrays(  # noqa: PLR0913 - one name for each column
        cls,
        domain: Domain,
        *,
        values: Any,
        next_values: Any,
        offsets: Any,
        action: Any,
        objects: Any,
        parameters: Any = None,
        ids: Any = None,
        next_ids: Any = None,
        weights: Any = None,
        info: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        types: Any = None,
        vanished: Any = None,
        arrivals: Any = None,
        pairs: Any = None,
        next_pairs: Any = None,
        calls: Any = None,
        drop_invalid: bool = False,
        precise: bool | None = None,
    ) -> Experience:
        """Flat arrays in, checked experience out; inputs of any real dtype and layout, never changed.

        values, next_values (total, P); offsets (n + 1,); action (n,) template indices or names; objects (n, roles)
        local indices; parameters (n, d); ids (total,), and next_ids (total,) if next rows come in another order;
        weights (n,). `drop_invalid` leaves out transitions with NaN or infinity and counts them in `dropped`.

        In a domain with types the last column is the type, or `types` (total,) has them by name or number, and values
        one column less. Categories are codes, links are local rows (-1: nobody). Lists for each transition are
        dictionaries with `offsets` (n + 1,): `pairs` and `next_pairs` of each stored relation have `source` and
        `target`, local rows; `arrivals` have `ids` and `values` (and `types`); `calls` have `action`, `objects` and
        `parameters`. `vanished` (total,) says who is not in the next state.

        Numbers of 64 bits are kept as they are where 32 would lose what matters, by the domain's resolutions (see
        `spare.data.precision`), or always, if `precise`; others become float32. Missing cells count as NaN, and dates
        become seconds, which `metadata["times"]` says.
        """
        expect_domain(domain)
        check_flag("drop_invalid", drop_invalid)
        if precise is not None:
            check_flag("precise", precise)
        offsets = intake.check_offsets(offsets)
        total, n = int(offsets[-1]), len(offsets) - 1
        values = with_types(domain, values, types, total, "values")
        next_values = with_types(domain, next_values, types, total, "next_values")
        values, times = intake.check_matrix(values, "values", total, domain)
        next_values, later = intake.check_matrix(next_values, "next_values", total, domain)
        ids = intake.check_ids(ids, offsets)
        if next_ids is not None:
            next_values = next_values[intake.match_rows(ids, next_ids, offsets)]
        action = intake.check_actions(domain, action, n)
        parameters, given_as_dates = intake.check_parameters(domain, parameters, action)
        given = Numbers(values, next_values, parameters, action)
        values, next_values, parameters, _ = intake.in_one_precision(domain, given, precise)
        metadata = intake.check_metadata({} if metadata is None else metadata)
        if times := times | later | given_as_dates:
            metadata = {"times": times, **metadata}
        columns = Columns(
            values,
            nearest_images(domain.properties, values, next_values),
            offsets,
            ids,
            action,
            intake.check_objects(domain, objects, action, offsets),
            parameters,
            intake.check_weights(weights, n),
            intake.check_info({} if info is None else info, n),
            metadata,
            0,
            extras.check_vanished(domain, vanished, total),
            extras.check_arrivals(domain, arrivals, ids, offsets),
        )
        columns = extras.settled(domain, columns)
        columns = extras.with_pairs(domain, columns, pairs, next_pairs)
        columns = columns._replace(calls=extras.check_calls(domain, calls, columns))
        return cls(domain, *extras.check_structure(domain, intake.check_finite(domain, columns, drop_invalid)))

    @classmethod
    def from_table(
        cls,
        domain: Domain,
        table: Any,
        *,
        relations: Mapping[str, Any] | None = None,
        next_relations: Mapping[str, Any] | None = None,
        drop_invalid: bool = False,
    ) -> Experience:
        """A long table in, one row per transition and object; see `spare.data.tables` for its columns.

        `table` is a pandas or polars frame, a pyarrow table, or a dictionary of columns; in a domain with types also a
        dictionary of tables, one for each (`spare.data.typed_tables`). `relations` and `next_relations` are tables of
        pairs by name, for the states and the next states.
        """
        if expect_domain(domain).plain:
            if relations or next_relations:
                raise DataError(f"relations: the domain {domain.name!r} declares none")
            return cls.from_arrays(domain, **read_table(domain, table), drop_invalid=drop_invalid)
        given = read_typed(domain, table, relations, next_relations)
        return cls.from_arrays(domain, **given, drop_invalid=drop_invalid)

    def to_table(self, library: str = "pandas") -> Any:
        """The long table that `from_table` reads; `library` is pandas, polars, pyarrow, or dict (of arrays)."""
        write = write_table if self.domain.plain else write_typed
        return write(self.domain, self.columns, library)

    def to_pairs(self, relation: str, library: str = "pandas", *, after: bool = False) -> Any:
        """The table of a stored relation that `from_table` reads, of the states or, if `after`, of the next ones."""
        known = self.next_pairs if after and relation in self.next_pairs else self.pairs
        if relation not in known:
            raise UsageError(one_of("relation", relation, known))
        return write_pairs(known[relation], self.columns, library)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one Parquet file, whole or not at all; `load` gives the same bits back."""
        write_file(path, self.domain, self.columns)

    @classmethod
    def load(cls, path: str | os.PathLike[str], domain: Domain | None = None, drop_invalid: bool = False) -> Experience:
        """Read a Parquet file; the domain may be left out if it is registered or installed under its name."""
        return concatenate(cls._read(path, domain, drop_invalid, whole=True))

    @classmethod
    def stream(
        cls, path: str | os.PathLike[str], domain: Domain | None = None, drop_invalid: bool = False
    ) -> Iterator[Experience]:
        """Read a Parquet file one row group at a time, for files larger than memory."""
        return cls._read(path, domain, drop_invalid, whole=False)

    @classmethod
    def _read(
        cls, path: str | os.PathLike[str], domain: Domain | None, drop_invalid: bool, whole: bool
    ) -> Iterator[Experience]:
        check_flag("drop_invalid", drop_invalid)
        known = None if domain is None else expect_domain(domain)
        for found, arrays in read_file(path, known, whole=whole):
            with errors_of(path):
                part = cls.from_arrays(found, **arrays, drop_invalid=drop_invalid)
            if len(part) or part.dropped:  # a group that was dropped whole still counts
                yield part

    @property
    def owner(self) -> np.ndarray:
        """The transition that each object row belongs to."""
        return owners(self.offsets)

    @property
    def double(self) -> bool:
        """Whether its numbers have 64 bits: what is computed from them then has as many."""
        return self.values.dtype == np.float64

    @property
    def numbers(self) -> Numbers:
        """Values, next values and parameters, and the action that each of those belongs to."""
        return Numbers(self.values, self.next_values, self.parameters, self.action)

    def rounded(self) -> Experience:
        """The same transitions in 32-bit numbers."""
        if not self.double:
            return self
        parts = {name: getattr(self, name).astype(np.float32) for name in ("values", "next_values", "parameters")}
        for name, column in (("arrivals", "values"), ("calls", "parameters")):
            lists: Ragged | None = getattr(self, name)
            if lists is not None:
                single = lists.columns[column].astype(np.float32)
                parts[name] = Ragged(lists.offsets, {**lists.columns, column: single})
        return dataclasses.replace(self, **parts)

    def as_precise_as(self, domain: Domain) -> Experience:
        """The same transitions in 32-bit numbers, if those are enough for the resolutions of this domain."""
        return self.rounded() if self.double and not needs_double(domain, self.numbers) else self

    @property
    def columns(self) -> Columns:
        """All columns, without the domain."""
        return Columns(*(getattr(self, name) for name in Columns._fields))

    def __len__(self) -> int:
        return len(self.action)

    @property
    def counts(self) -> np.ndarray:
        """The number of objects in each transition."""
        return np.diff(self.offsets)

    @property
    def types(self) -> np.ndarray:
        """The type of every object row, as its number among `domain.types`; all 0 in a domain without types."""
        return self.domain.types_of(self.values)

    def arrivals_types(self) -> np.ndarray:
        """The types of all objects that arrive."""
        empty = np.zeros(0, np.int32)
        return empty if self.arrivals is None else self.domain.types_of(self.arrivals.columns["values"])

    @property
    def held(self) -> np.ndarray:
        """Which properties every object row has, (total, P) bool."""
        return self.domain.held(self.values)

    @overload
    def __getitem__(self, index: int | np.integer) -> Transition: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> Experience: ...
    def __getitem__(self, index: Any) -> Transition | Experience:
        if is_whole(index):
            return self._transition(int(index))
        if isinstance(index, slice):
            _bounds(index, len(self))
        if isinstance(index, bool | np.bool_) or (isinstance(index, np.ma.MaskedArray) and np.ma.is_masked(index)):
            raise UsageError(self._how_to_choose(index))
        try:
            rows = np.arange(len(self))[index]
        except IndexError as error:
            raise UsageError(self._how_to_choose(index)) from error
        if rows.ndim != 1:
            raise UsageError(self._how_to_choose(index))
        return Experience(self.domain, *self.columns.take(rows))

    def _how_to_choose(self, index: Any) -> str:
        n = len(self)
        return (
            f"there are {n} transitions: choose by a number, a slice, a list of numbers from 0 to {n - 1}, or {n} "
            f"Booleans, not by {described(index)}"
        )

    def _transition(self, i: int) -> Transition:
        return Transition(
            self.states[i],
            self.actions[i],
            self.next_states[i],
            float(self.weights[i]),
            self._info_of(i % len(self)),
            self._also(i % len(self)),
        )

    def _also(self, i: int) -> tuple[ActionCall, ...]:
        if self.calls is None:
            return ()
        mine = self.calls.at(i)
        parts = zip(mine["action"], mine["objects"], mine["parameters"], strict=True)
        return tuple(_call_of(self, i, *part) for part in parts)

    def _info_of(self, i: int) -> dict[str, Any]:
        return {name: column[i].item() for name, column in self.info.items()}

    @property
    def states(self) -> Sequence[State]:
        """s, one per transition."""
        return _View(self, _state_of)

    @property
    def next_states(self) -> Sequence[State]:
        """s', one per transition, with the objects in the order of s."""
        return _View(self, _next_state_of)

    @property
    def actions(self) -> Sequence[ActionCall]:
        """a, one per transition."""
        return _View(self, _action_of)

    def shuffle(self, seed: int) -> Experience:
        """The same transitions in an order drawn from `seed`."""
        return self[np.random.default_rng(check_seed(seed)).permutation(len(self))]

    def split(self, test: int | float, seed: int, *, by: str | None = "episode") -> tuple[Experience, Experience]:
        """(train, test): `test` transitions (or that share of them, below 1) drawn without replacement by `seed`.

        Where there is information of the name `by`, whole episodes are drawn until there are as many; None: never.
        """
        share = is_real(test) and not is_whole(test) and 0 < test < 1
        count = round(float(test) * len(self)) if share else test
        if not is_whole(count) or not 0 < count < len(self):
            raise DataError(
                f"cannot split {len(self)} transitions by {described(test)}: give how many are for the test, such as "
                "100, or their share between 0 and 1, such as 0.2; both parts need at least one"
            )
        rng = np.random.default_rng(check_seed(seed))
        if by is None or by not in self.info:
            order = rng.permutation(len(self))
            return self[np.sort(order[count:])], self[np.sort(order[:count])]
        names, whose = np.unique(self.info[by], return_inverse=True)
        if len(names) < 2:
            raise DataError(f"cannot split one {by} in two; pass by=None to take its transitions apart")
        order = rng.permutation(len(names))
        sizes = np.cumsum(np.bincount(whose)[order])
        enough = min(int(np.searchsorted(sizes, count)) + 1, len(names) - 1)
        chosen = np.isin(whose, order[:enough])
        return self[np.flatnonzero(~chosen)], self[np.flatnonzero(chosen)]

    def weighted(self, weights: Any) -> Experience:
        """The same transitions with other weights: finite, not negative."""
        return dataclasses.replace(self, weights=intake.check_weights(weights, len(self)))

    def with_domain(self, domain: Domain) -> Experience:
        """The same transitions seen through a domain with the same properties and actions."""
        if expect_domain(domain).fingerprint != self.domain.fingerprint:
            raise DataError(f"these transitions belong to {self.domain!r}, not to {domain!r}")
        return dataclasses.replace(self, domain=domain)

    def resolved(self) -> tuple[Experience, dict[str, float]]:
        """(experience, filled): resolutions that the domain leaves open, a thousandth of each property's spread.

        A property that never varies gets a thousandth of its size, or of 1. `filled` reports what was chosen. Numbers
        of 64 bits become 32-bit ones, if those are enough for the resolutions.
        """
        for data in (self.rounded(), self):
            filled = data._open_resolutions()
            domain = self.domain.with_resolutions(filled) if filled else self.domain
            if data is self or not needs_double(domain, self.numbers):
                break
        return (data.with_domain(domain) if filled else data), filled

    def _open_resolutions(self) -> dict[str, float]:
        """A thousandth of the spread of every property whose resolution is open."""
        filled: dict[str, float] = {}
        for column in self.domain.dynamic:
            prop = self.domain.properties[column]
            if prop.resolution is None:
                mine = self.held[:, column] if self.domain.types else slice(None)
                seen = np.concatenate([self.values[mine, column], self.next_values[mine, column]]).astype(np.float64)
                spread = float(np.ptp(seen)) if len(seen) else 0.0
                spread = spread or float(np.abs(seen).max(initial=0.0)) or 1.0
                filled[prop.name] = float(np.float32(spread / 1000))
        return filled

    @property
    def fingerprint(self) -> str:
        """16 hex digits of a SHA-256 over the domain and every number in the experience."""
        digest = hashlib.sha256(self.domain.fingerprint.encode())
        for part in (self.values, self.next_values, self.offsets, self.action, self.objects, self.parameters):
            digest.update(np.ascontiguousarray(part).tobytes())
        digest.update(self.weights.tobytes())
        for name, part in self._extras():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()[:16]

    def _extras(self) -> Iterator[tuple[str, np.ndarray]]:
        """Everything that only domains with types or relations have, by name."""
        if self.vanished is not None:
            yield "vanished", self.vanished
        lists = {"arrivals": self.arrivals, "calls": self.calls}
        lists |= {f"pairs.{k}": v for k, v in self.pairs.items()} | {f"next.{k}": v for k, v in self.next_pairs.items()}
        for name, one in lists.items():
            if one is not None:
                yield from ((f"{name}.{key}", part) for key, part in one.columns.items())
                yield f"{name}.offsets", one.offsets

    def __repr__(self) -> str:
        counts = self.counts
        objects = f"{counts.min()} to {counts.max()} objects" if len(self) else "no objects"
        return f"Experience({self.domain.name!r}: {len(self)} transitions, {objects})"


def _state_of(experience: Experience, i: int) -> State:
    rows = slice(experience.offsets[i], experience.offsets[i + 1])
    return State(tuple(experience.ids[rows].tolist()), experience.values[rows], _pairs_of(experience.pairs, i))


def _pairs_of(pairs: Mapping[str, Ragged], i: int) -> dict[str, np.ndarray]:
    return {name: np.stack([*lists.at(i).values()], axis=1) for name, lists in pairs.items()}


def _next_state_of(experience: Experience, i: int) -> State:
    rows = slice(experience.offsets[i], experience.offsets[i + 1])
    ids, values = experience.ids[rows].tolist(), experience.next_values[rows]
    pairs = _pairs_of({**experience.pairs, **experience.next_pairs}, i)
    if experience.vanished is None and experience.arrivals is None:
        return State(tuple(ids), values, pairs)
    there = np.ones(len(ids), bool) if experience.vanished is None else ~experience.vanished[rows]
    if experience.arrivals is not None:
        new = experience.arrivals.at(i)
        ids, values = [*ids, *new["ids"].tolist()], np.concatenate([values, new["values"]])
        there = np.concatenate([there, np.ones(len(new["ids"]), bool)])
    return present(experience.domain, State(tuple(ids), values, pairs), there)


def _action_of(experience: Experience, i: int) -> ActionCall:
    return _call_of(experience, i, experience.action[i], experience.objects[i], experience.parameters[i])


def _call_of(experience: Experience, i: int, action: Any, objects: np.ndarray, parameters: np.ndarray) -> ActionCall:
    template = experience.domain.actions[action]
    chosen = objects[: len(template.objects)] + experience.offsets[i]
    given = zip(template.kinds, parameters[: len(template.parameters)].tolist(), strict=True)
    told = tuple(named_value(kind, value) for kind, value in given)
    return ActionCall(template.name, tuple(experience.ids[chosen].tolist()), told)


def _read_only(column: np.ndarray) -> np.ndarray:
    """A view that cannot be written to; the array itself may be the caller's."""
    found = column.view()
    found.flags.writeable = False
    return found


def expect_experience(given: Any, what: str = "experience") -> Experience:
    """What was given, if it is an experience; otherwise a sentence that says how to make one of it."""
    if isinstance(given, Experience):
        return given
    if isinstance(given, str | os.PathLike):
        advice = "read the file with spare.Experience.load(path)"
    elif isinstance(given, Domain):
        advice = "are the arguments in the wrong order?"
    elif isinstance(given, Mapping) or hasattr(given, "columns"):
        advice = "make one with spare.Experience.from_table(domain, table)"
    elif isinstance(given, Transition | list | tuple):
        advice = "make one with spare.Builder(domain).extend(transitions).build()"
    elif hasattr(given, "build"):
        advice = "call its build()"
    else:
        advice = "make one with spare.Experience.from_table, from_arrays or load, or with a spare.Builder"
    raise UsageError(f"{what}: expected a spare.Experience, got {described(given)}; {advice}")


def concatenate(parts: Iterable[Experience]) -> Experience:
    """All transitions of all parts, in order. Info and metadata survive where every part has them (alike)."""
    if isinstance(parts, Experience) or not isinstance(parts, Iterable) or getattr(parts, "shape", None) == ():
        raise UsageError(f"concatenate: expected several experiences, got {described(parts)}; give a list")
    parts = [expect_experience(part) for part in parts]
    if not parts:
        raise DataError("nothing to concatenate: give at least one experience")
    first = parts[0]
    for part in parts[1:]:
        if part.domain != first.domain:
            raise DataError(f"cannot concatenate experience of {first.domain!r} and of {part.domain!r}")
    shifts = np.cumsum([0] + [part.offsets[-1] for part in parts[:-1]])
    offsets = [part.offsets[:-1] + shift for part, shift in zip(parts, shifts, strict=True)]

    def join(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    def lists(name: str) -> Ragged | None:
        return joined([getattr(part, name) for part in parts], [len(part) for part in parts])

    def relations(name: str) -> dict[str, Ragged]:
        found = {key: [getattr(part, name)[key] for part in parts] for key in getattr(first, name)}
        pairs = {key: joined(several, [len(part) for part in parts]) for key, several in found.items()}
        return {key: one for key, one in pairs.items() if one is not None}

    gone = [np.zeros(len(p.values), bool) if p.vanished is None else p.vanished for p in parts]
    texts = {part.ids.dtype.kind for part in parts}
    ids = join("ids") if len(texts) == 1 else np.concatenate([part.ids.astype(str) for part in parts])
    shared = [name for name in first.info if all(name in part.info for part in parts)]
    return dataclasses.replace(
        first,
        **{name: join(name) for name in ("values", "next_values", "action", "objects", "parameters", "weights")},
        offsets=np.concatenate([*offsets, [shifts[-1] + parts[-1].offsets[-1]]]).astype(np.int64),
        ids=ids,
        info={name: np.concatenate([part.info[name] for part in parts]) for name in shared},
        metadata={k: v for k, v in first.metadata.items() if all(p.metadata.get(k) == v for p in parts)},
        dropped=sum(part.dropped for part in parts),
        vanished=some(np.concatenate(gone)),
        arrivals=lists("arrivals"),
        calls=lists("calls"),
        pairs=relations("pairs"),
        next_pairs=relations("next_pairs"),
    )
