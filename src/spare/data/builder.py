"""Experience one transition at a time, for people with an environment loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spare.arguments import check_flag, check_kind, check_sequence, described, is_finite, is_real
from spare.data.cells import as_array
from spare.data.checks import check_call, check_id, check_state
from spare.data.experience import Experience
from spare.data.extras import check_stored
from spare.data.intake import differing_ids, static_moved
from spare.data.named import make_state, parameters_of
from spare.data.ragged import Ragged
from spare.data.state import ActionCall, State, Transition
from spare.errors import DataError, UsageError
from spare.language.discrete import Link
from spare.language.domain import Domain, expect_domain
from spare.names import shown


class Builder:
    """Collects (s, a, s') one by one; objects of s' are matched to those of s by id, in any order.

    A state is a `State`, or a dictionary of objects as `make_state` takes it. In a domain with types objects may appear
    and vanish. A bad transition is refused when it is added, and what was added before stays.
    """

    def __init__(self, domain: Domain, *, drop_invalid: bool = False) -> None:
        self.domain = expect_domain(domain)
        self.dropped = 0
        self._drop = check_flag("drop_invalid", drop_invalid)
        self._rows: list[_Added] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        state: State | Mapping[Any, Any],
        action: ActionCall,
        next_state: State | Mapping[Any, Any],
        *,
        weight: float = 1.0,
        also: Sequence[ActionCall] = (),
        **info: Any,
    ) -> Builder:
        """Add one transition; keyword arguments are carried along as `info`, the same ones every time.

        `also` is what else was done in it, by others or at the same time.
        """
        i = len(self._rows) + self.dropped
        before, after = (
            make_state(self.domain, one, what=f"transition {i}, {what}") if isinstance(one, Mapping) else one
            for what, one in (("state", state), ("next state", next_state))
        )
        calls = check_sequence(f"transition {i}, also", also, "[spare.ActionCall('wait')]", DataError)
        return self._add(Transition(before, action, after, weight, info, calls))

    def _add(self, new: Transition) -> Builder:
        state, action, next_state, weight, info = new.state, new.action, new.next_state, new.weight, new.info
        i = len(self._rows) + self.dropped
        for what, one in (("state", state), ("next state", next_state)):
            advice = "make one with spare.State(ids, values); the order is add(state, action, next_state)"
            check_kind(f"transition {i}, {what}", one, State, advice, DataError)
        advice = "write it as spare.ActionCall('push', ('a',), (0.1,))"
        check_kind(f"transition {i}, action", action, ActionCall, advice, DataError)
        if not is_real(weight) or not is_finite(weight) or weight < 0:
            told = shown(repr(weight), 80)
            raise DataError(f"transition {i}: weight {told} must be a number, finite and not negative")
        if not isinstance(info, Mapping):
            raise DataError(f"transition {i}: info: expected a dictionary, got {described(info)}")
        if self._drop and not _is_finite(state, action, next_state):
            self.dropped += 1
            return self
        check_state(self.domain, state, f"transition {i}, state")
        texts = [str(check_id(one, i)) for one in state.ids]
        if len(set(texts)) != len(texts):  # 1 and "1" are one id once they are texts
            twice = next(one for one in texts if texts.count(one) > 1)
            raise DataError(f"transition {i}: object id {twice!r} appears twice; ids must differ")
        check_state(self.domain, next_state, f"transition {i}, next state")
        if set(state.ids) != set(next_state.ids) and not self.domain.types:
            raise DataError(differing_ids(i, state.ids, next_state.ids))
        if self._rows and set(info) != set(self._rows[0].info):
            raise DataError(f"transition {i}: info {sorted(info)} differs from the first's")
        state = check_stored(self.domain, state, f"transition {i}, state")
        next_state = check_stored(self.domain, next_state, f"transition {i}, next state")
        calls = [self._call(state, one, f"transition {i}, action") for one in (action, *new.also)]
        held, matched = State(state.ids, state.values.copy(), state.pairs), merged(self.domain, state, next_state)
        self._check_static(i, held, matched)
        there = {*next_state.ids}
        gone = np.array([one not in there for one in state.ids], bool)
        self._rows.append(_Added(held, matched, gone, calls[0], calls[1:], float(weight), info))
        return self

    def _call(self, state: State, action: ActionCall, what: str) -> _Call:
        template, objects = check_call(self.domain, state, action, what)
        return _Call(template, objects, parameters_of(self.domain, action, f"{what} {action.action!r}"))

    def _check_static(self, i: int, before: State, after: State) -> None:
        for column, prop in enumerate(self.domain.properties):
            moved = static_moved(before.values[:, column], after.values[: len(before), column])
            if prop.static and moved.any():
                one = before.ids[int(np.argmax(moved))]
                raise DataError(
                    f"transition {i}, object {one!r}: static property {prop.name!r} changes; "
                    "declare it without static=True, or repair the data"
                )

    def extend(self, transitions: Iterable[Transition]) -> Builder:
        """Add many transitions."""
        try:
            many = iter(transitions)
        except TypeError as error:
            raise UsageError(f"extend: expected a list of transitions, got {described(transitions)}") from error
        for one in many:
            check_kind("extend", one, Transition, "make one with spare.Transition(state, action, next_state)")
            self._add(one)
        return self

    def build(self, **metadata: Any) -> Experience:
        """Everything added so far as one `Experience`."""
        if not self._rows:
            raise DataError("no transition was added; call add(state, action, next_state) first")
        rows = self._rows
        ids = [one for row in rows for one in row.state.ids]
        names, counts = list(rows[0].info), [len(row.state) for row in rows]
        calls = [(i, call) for i, row in enumerate(rows) for call in row.also]
        new = [row.matched.values[count:] for row, count in zip(rows, counts, strict=True)]
        arrived = [one for row, count in zip(rows, counts, strict=True) for one in row.matched.ids[count:]]
        action, objects, parameters = self._columns([row.call for row in rows])
        experience = Experience.from_arrays(
            self.domain,
            values=np.concatenate([row.state.values for row in rows]),
            next_values=np.concatenate([row.matched.values[:k] for row, k in zip(rows, counts, strict=True)]),
            offsets=np.cumsum([0, *counts]),
            ids=np.array(ids, object),
            action=action,
            objects=objects,
            parameters=parameters,
            weights=np.array([row.weight for row in rows]),
            info={name: as_array([row.info[name] for row in rows], f"info {name!r}") for name in names},
            metadata=metadata,
            vanished=np.concatenate([row.gone for row in rows]) if self.domain.types else None,
            arrivals={
                "offsets": np.cumsum([0, *map(len, new)]),
                "ids": np.array(arrived, object),
                "values": np.concatenate(new),
            }
            if arrived
            else None,
            pairs=self._pairs(after=False),
            next_pairs=self._pairs(after=True),
            calls=self._calls(calls),
        )
        return dataclasses.replace(experience, dropped=self.dropped)

    def _columns(self, calls: list[_Call]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(template, objects, parameters) of calls."""
        objects = np.zeros((len(calls), self.domain.roles), np.int64)
        parameters = np.zeros((len(calls), self.domain.parameters))
        for i, call in enumerate(calls):
            objects[i, : len(call.objects)] = call.objects
            parameters[i, : len(call.parameters)] = call.parameters
        return np.array([call.template for call in calls], int), objects, parameters

    def _calls(self, calls: list[tuple[int, _Call]]) -> Ragged | None:
        if not calls:
            return None
        parts = zip(("action", "objects", "parameters"), self._columns([one for _, one in calls]), strict=True)
        return Ragged.of(np.array([i for i, _ in calls]), dict(parts), len(self._rows))

    def _pairs(self, *, after: bool) -> dict[str, Ragged] | None:
        found = {}
        for one in self.domain.relations:
            if not (after and one.static):
                states = [row.matched if after else row.state for row in self._rows]
                each = [state.pairs.get(one.name, np.zeros((0, 2), np.int32)) for state in states]
                flat = np.concatenate(each).astype(np.int64)
                offsets = np.cumsum([0, *map(len, each)])
                found[one.name] = Ragged(offsets, {"source": flat[:, 0], "target": flat[:, 1]})
        return found or None


class _Call(NamedTuple):
    """Template index, local rows of objects, parameters as stored."""

    template: int
    objects: list[int]
    parameters: tuple[float, ...]


class _Added(NamedTuple):
    """One transition: `matched` has the objects of the state in its order, then those that arrived."""

    state: State
    matched: State
    gone: np.ndarray
    call: _Call
    also: list[_Call]
    weight: float
    info: Mapping[str, Any]


def merged(domain: Domain, state: State, after: State) -> State:
    """The next state with rows in the order of the state, those that vanished as they were, and then the arrivals."""
    there, before = {one: row for row, one in enumerate(after.ids)}, {*state.ids}
    new = [row for row, one in enumerate(after.ids) if one not in before]
    order = [there.get(one, -1) for one in state.ids]
    if -1 not in order and not new and domain.plain:
        return State(state.ids, after.values[order].copy())
    values = np.concatenate([after.values[order], after.values[new]])
    gone = np.array([row < 0 for row in order], bool)
    place = np.full(len(after) + 1, -1)
    for row, old in enumerate([*order, *new]):
        place[old] = row if old >= 0 else place[old]
    place[-1] = -1
    for column, prop in enumerate(domain.properties):
        if isinstance(prop.kind, Link):
            mine = domain.held(values)[:, column]
            values[mine, column] = place[values[mine, column].astype(int)]
    values[: len(state)][gone] = state.values[gone]
    pairs = {name: place[one] for name, one in after.pairs.items()}
    return State((*state.ids, *(after.ids[row] for row in new)), values, pairs)


def _is_finite(state: State, action: ActionCall, next_state: State) -> bool:
    numbers = [one if is_finite(one) else np.inf for one in action.parameters if is_real(one)]  # others: refused later
    parts = (state.values, next_state.values, np.asarray(numbers, np.float64))
    return all(bool(np.isfinite(part).all()) for part in parts)
