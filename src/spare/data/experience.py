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

from spare.data import intake
from spare.data.columns import Columns, owners
from spare.data.files import read_file, write_file
from spare.data.state import ActionCall, State, Transition
from spare.data.tables import read_table, write_table
from spare.errors import DataError
from spare.io.parquet import errors_of
from spare.language.domain import Domain
from spare.language.properties import nearest_images

Item = TypeVar("Item")


class _View(Sequence[Item]):
    """A sequence read from an experience one item at a time."""

    def __init__(self, length: int, read: Callable[[int], Item]) -> None:
        self._length, self._read = length, read

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(f"transition {index} of {self._length}")
        return self._read(int(index) % self._length)


@dataclasses.dataclass(frozen=True, eq=False)
class Experience:
    """E: n transitions of one domain. Make it with `from_arrays`, `from_table`, a `Builder`, or `load`.

    values, next_values  (total, P) float32: properties of every object before and after
                         (after: of a property with a period, the image nearest to the value before)
    offsets              (n + 1,) int64: transition i owns rows offsets[i]:offsets[i + 1]
    ids                  (total,) int64 or text: object ids, unique within a transition
    action               (n,) int32: index of the action template
    objects              (n, roles) int32: local indices of the action's objects, -1 where a template has fewer
    parameters           (n, parameters) float32: the action's parameters, 0 where a template has fewer
    weights              (n,) float64: 2 counts as two transitions, 0 as none
    info                 one array of n numbers or texts per name, carried along
    metadata             facts about the whole set (JSON values), carried along
    dropped              how many transitions were left out because they were not finite
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

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value.flags.writeable = False

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
        drop_invalid: bool = False,
    ) -> Experience:
        """Flat arrays in, checked experience out; inputs of any real dtype and layout, never changed.

        values, next_values (total, P); offsets (n + 1,); action (n,) template indices or names; objects (n, roles)
        local indices; parameters (n, d); ids (total,), and next_ids (total,) if next rows come in another order;
        weights (n,). `drop_invalid` leaves out transitions with NaN or infinity and counts them in `dropped`.
        """
        offsets = intake.check_offsets(offsets)
        total, n = int(offsets[-1]), len(offsets) - 1
        values = intake.check_matrix(values, "values", total, len(domain.properties))
        next_values = intake.check_matrix(next_values, "next_values", total, len(domain.properties))
        ids = intake.check_ids(ids, offsets)
        if next_ids is not None:
            next_values = next_values[intake.match_rows(ids, next_ids, offsets)]
        action = intake.check_actions(domain, action, n)
        columns = Columns(
            values,
            nearest_images(domain.properties, values, next_values),
            offsets,
            ids,
            action,
            intake.check_objects(domain, objects, action, offsets),
            intake.check_parameters(domain, parameters, action),
            intake.check_weights(weights, n),
            intake.check_info(info or {}, n),
            intake.check_metadata(metadata or {}),
            dropped=0,
        )
        return cls(domain, *intake.check_finite(domain, columns, drop_invalid))

    @classmethod
    def from_table(cls, domain: Domain, table: Any, *, drop_invalid: bool = False) -> Experience:
        """A long table in, one row per transition and object; see `spare.data.tables` for its columns.

        `table` is a pandas or polars frame, a pyarrow table, or a dictionary of columns.
        """
        return cls.from_arrays(domain, **read_table(domain, table), drop_invalid=drop_invalid)

    def to_table(self, library: str = "pandas") -> Any:
        """The long table that `from_table` reads; `library` is pandas, polars, pyarrow, or dict (of arrays)."""
        return write_table(self.domain, self.columns, library)

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
        for found, arrays in read_file(path, domain, whole=whole):
            with errors_of(path):
                part = cls.from_arrays(found, **arrays, drop_invalid=drop_invalid)
            if len(part) or part.dropped:  # a group that was dropped whole still counts
                yield part

    @property
    def owner(self) -> np.ndarray:
        """The transition that each object row belongs to."""
        return owners(self.offsets)

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

    @overload
    def __getitem__(self, index: int | np.integer) -> Transition: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> Experience: ...
    def __getitem__(self, index: Any) -> Transition | Experience:
        if isinstance(index, int | np.integer):
            return self._transition(int(index))
        return Experience(self.domain, *self.columns.take(np.arange(len(self))[index]))

    def _transition(self, i: int) -> Transition:
        return Transition(
            self.states[i],
            self.actions[i],
            self.next_states[i],
            float(self.weights[i]),
            self._info_of(i % len(self)),
        )

    def _info_of(self, i: int) -> dict[str, Any]:
        return {name: column[i].item() for name, column in self.info.items()}

    def _state(self, i: int, values: np.ndarray) -> State:
        rows = slice(self.offsets[i], self.offsets[i + 1])
        return State(tuple(self.ids[rows].tolist()), values[rows])

    @property
    def states(self) -> Sequence[State]:
        """s, one per transition."""
        return _View(len(self), lambda i: self._state(i, self.values))

    @property
    def next_states(self) -> Sequence[State]:
        """s', one per transition, with the objects in the order of s."""
        return _View(len(self), lambda i: self._state(i, self.next_values))

    @property
    def actions(self) -> Sequence[ActionCall]:
        """a, one per transition."""

        def read(i: int) -> ActionCall:
            template = self.domain.actions[self.action[i]]
            chosen = self.objects[i, : len(template.objects)] + self.offsets[i]
            parameters = self.parameters[i, : len(template.parameters)]
            return ActionCall(template.name, tuple(self.ids[chosen].tolist()), tuple(parameters.tolist()))

        return _View(len(self), read)

    def shuffle(self, seed: int) -> Experience:
        """The same transitions in an order drawn from `seed`."""
        return self[np.random.default_rng(seed).permutation(len(self))]

    def split(self, test: int | float, seed: int) -> tuple[Experience, Experience]:
        """(train, test): `test` transitions (or that share of them, below 1) drawn without replacement by `seed`."""
        count = round(test * len(self)) if isinstance(test, float) and test < 1 else int(test)
        if not 0 < count < len(self):
            raise DataError(
                f"cannot split {len(self)} transitions into {len(self) - count} and {count}: both need at least one"
            )
        order = np.random.default_rng(seed).permutation(len(self))
        return self[np.sort(order[count:])], self[np.sort(order[:count])]

    def weighted(self, weights: Any) -> Experience:
        """The same transitions with other weights: finite, not negative."""
        return dataclasses.replace(self, weights=intake.check_weights(weights, len(self)))

    def with_domain(self, domain: Domain) -> Experience:
        """The same transitions seen through a domain with the same properties and actions."""
        if domain.fingerprint != self.domain.fingerprint:
            raise DataError(f"these transitions belong to {self.domain!r}, not to {domain!r}")
        return dataclasses.replace(self, domain=domain)

    def resolved(self) -> tuple[Experience, dict[str, float]]:
        """(experience, filled): resolutions that the domain leaves open, a thousandth of each property's spread.

        A property that never varies gets a thousandth of its size, or of 1. `filled` reports what was chosen.
        """
        filled: dict[str, float] = {}
        for column in self.domain.dynamic:
            prop = self.domain.properties[column]
            if prop.resolution is None:
                seen = np.concatenate([self.values[:, column], self.next_values[:, column]]).astype(np.float64)
                spread = float(np.ptp(seen)) or float(np.abs(seen).max(initial=0.0)) or 1.0
                filled[prop.name] = float(np.float32(spread / 1000))
        return (self.with_domain(self.domain.with_resolutions(filled)) if filled else self), filled

    @property
    def fingerprint(self) -> str:
        """16 hex digits of a SHA-256 over the domain and every number in the experience."""
        digest = hashlib.sha256(self.domain.fingerprint.encode())
        for part in (self.values, self.next_values, self.offsets, self.action, self.objects, self.parameters):
            digest.update(np.ascontiguousarray(part).tobytes())
        digest.update(self.weights.tobytes())
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        counts = self.counts
        objects = f"{counts.min()} to {counts.max()} objects" if len(self) else "no objects"
        return f"Experience({self.domain.name!r}: {len(self)} transitions, {objects})"


def concatenate(parts: Iterable[Experience]) -> Experience:
    """All transitions of all parts, in order. Info and metadata survive where every part has them (alike)."""
    parts = list(parts)
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
    )
