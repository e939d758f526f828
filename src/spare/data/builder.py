"""Experience one transition at a time, for people with an environment loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from spare.arguments import check_flag, check_kind, described, is_finite, is_real
from spare.data.cells import as_array
from spare.data.checks import check_call, check_id, check_state
from spare.data.experience import Experience
from spare.data.intake import differing_ids, static_moved
from spare.data.state import ActionCall, State, Transition
from spare.errors import DataError, UsageError
from spare.language.domain import Domain, expect_domain
from spare.names import shown


class Builder:
    """Collects (s, a, s') one by one; objects of s' are matched to those of s by id, in any order.

    A bad transition is refused when it is added, and what was added before stays.
    """

    def __init__(self, domain: Domain, *, drop_invalid: bool = False) -> None:
        self.domain = expect_domain(domain)
        self.dropped = 0
        self._drop = check_flag("drop_invalid", drop_invalid)
        self._rows: list[tuple[Transition, int, list[int]]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, state: State, action: ActionCall, next_state: State, *, weight: float = 1.0, **info: Any) -> Builder:
        """Add one transition; keyword arguments are carried along as `info`, the same ones every time."""
        return self._add(Transition(state, action, next_state, weight, info))

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
        if set(state.ids) != set(next_state.ids):
            raise DataError(differing_ids(i, state.ids, next_state.ids))
        template, objects = check_call(self.domain, state, action, f"transition {i}, action")
        if self._rows and set(info) != set(self._rows[0][0].info):
            raise DataError(f"transition {i}: info {sorted(info)} differs from the first's")
        order = [next_state.ids.index(one) for one in state.ids]
        matched = State(state.ids, next_state.values[order].copy())
        held = State(state.ids, state.values.copy())
        self._check_static(i, held, matched)
        self._rows.append((Transition(held, action, matched, float(weight), info), template, objects))
        return self

    def _check_static(self, i: int, before: State, after: State) -> None:
        for column, prop in enumerate(self.domain.properties):
            moved = static_moved(before.values[:, column], after.values[:, column])
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
        transitions = [row[0] for row in self._rows]
        ids = [one for t in transitions for one in t.state.ids]
        n, names = len(transitions), list(transitions[0].info)
        objects = np.zeros((n, self.domain.roles), np.int64)
        parameters = np.zeros((n, self.domain.parameters))
        for i, (t, _, chosen) in enumerate(self._rows):
            objects[i, : len(chosen)] = chosen
            parameters[i, : len(t.action.parameters)] = t.action.parameters
        experience = Experience.from_arrays(
            self.domain,
            values=np.concatenate([t.state.values for t in transitions]),
            next_values=np.concatenate([t.next_state.values for t in transitions]),
            offsets=np.cumsum([0] + [len(t.state) for t in transitions]),
            ids=np.array(ids, object),
            action=np.array([row[1] for row in self._rows]),
            objects=objects,
            parameters=parameters,
            weights=np.array([t.weight for t in transitions]),
            info={name: as_array([t.info[name] for t in transitions], f"info {name!r}") for name in names},
            metadata=metadata,
        )
        return dataclasses.replace(experience, dropped=self.dropped)


def _is_finite(state: State, action: ActionCall, next_state: State) -> bool:
    numbers = [one if is_finite(one) else np.inf for one in action.parameters if is_real(one)]  # others: refused later
    parts = (state.values, next_state.values, np.asarray(numbers, np.float64))
    return all(bool(np.isfinite(part).all()) for part in parts)
