"""Checks of single things: an object's id, one state, one action in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from spare.arguments import check_kind, is_real
from spare.data.state import ActionCall, ObjectId, State
from spare.errors import DataError, one_of
from spare.language.actions import Action
from spare.language.domain import Domain
from spare.language.kinds import Real
from spare.names import shown

LARGEST_ID = 256


def check_id(one: Any, where: int | str) -> ObjectId:
    """One object id: a whole number, or short printable text; `where` is a transition's number, or says more."""
    place = where if isinstance(where, str) else f"transition {where}"
    if isinstance(one, bool) or not isinstance(one, str | int | np.integer):
        raise DataError(f"{place}: object id {shown(repr(one), 80)} is neither text nor a whole number")
    if isinstance(one, str):
        if not one or len(one) > LARGEST_ID or not one.isprintable():
            raise DataError(f"{place}: object id {one[:300]!r} must be 1 to {LARGEST_ID} printable characters")
        return one
    if not -(2**63) <= int(one) < 2**63:
        raise DataError(f"{place}: object id {shown(one, 80)} does not fit in 64 bits")
    return int(one)


def check_state(domain: Domain, state: State, what: str = "state") -> State:
    """One state of the domain: at least one object, distinct ids, finite values of the right width."""
    advice = "make one with spare.State(ids, values), one row of values per object"
    if isinstance(state, ActionCall):
        advice = "the state comes first, then the action"
    check_kind(what, state, State, advice, DataError)
    if state.values.shape != (len(state.ids), len(domain.properties)):
        raise DataError(
            f"{what}: expected {len(state.ids)} objects x {len(domain.properties)} properties "
            f"({', '.join(domain.property_names)}), got {state.values.shape}"
        )
    if not len(state):
        raise DataError(f"{what}: it has no objects; a state needs at least one")
    if len({check_id(one, what) for one in state.ids}) != len(state.ids):
        twice = next(one for one in state.ids if state.ids.count(one) > 1)
        raise DataError(f"{what}: object id {twice!r} appears twice; ids must differ")
    rows, columns = np.nonzero(~np.isfinite(state.values))
    if len(rows):
        raise DataError(
            f"{what}, object {state.ids[rows[0]]!r}, property {domain.property_names[columns[0]]!r}: "
            f"{state.values[rows[0], columns[0]]}; values must be finite"
        )
    return state


def check_call(domain: Domain, state: State, call: ActionCall, what: str = "action") -> tuple[int, list[int]]:
    """(template index, local object indices) of an action instance in a state; see `named.parameters_of` for kinds."""
    check_kind(what, call, ActionCall, "write it as spare.ActionCall('push', ('a',), (0.1,))", DataError)
    if call.action not in [template.name for template in domain.actions]:
        raise DataError(f"{what}: {one_of('action', call.action, (a.name for a in domain.actions))}")
    template = domain.action(call.action)
    if len(call.objects) != len(template.objects):
        raise DataError(f"{what} {call.action!r}: it names {len(template.objects)} objects, got {len(call.objects)}")
    if len(call.parameters) != len(template.parameters):
        raise DataError(
            f"{what} {call.action!r}: it takes {len(template.parameters)} parameters "
            f"({', '.join(template.parameters)}), got {len(call.parameters)}"
        )
    _check_numbers(template, call, what)
    for role, one in zip(template.objects, call.objects, strict=True):
        given: Any = one
        check_id(given.item() if getattr(given, "shape", None) == () else given, f"{what} {call.action!r}, {role}")
        if one not in state.ids:
            raise DataError(f"{what} {call.action!r}: its {role} {one!r} is not in the state ({list(state.ids)[:8]})")
    rows = [state.ids.index(one) for one in call.objects]
    for role, row, allowed in zip(template.objects, rows, template.role_types, strict=True):
        if allowed and (mine := domain.types[domain.types_of(state.values[row])]) not in allowed:
            raise DataError(
                f"{what} {call.action!r}: its {role} {state.ids[row]!r} is a {mine}, not a {' or '.join(allowed)}"
            )
    return domain.action_index(call.action), rows


def _check_numbers(template: Action, call: ActionCall, what: str) -> None:
    """Refuse real parameters that are no finite numbers."""
    for name, value, own in zip(template.parameters, call.parameters, template.kinds, strict=True):
        if type(own) is not Real:  # `named.parameters_of` reads those
            continue
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if not is_real(value) and not (getattr(value, "shape", None) == () and kind in "fiu"):  # one number is one
            raise DataError(f"{what} {call.action!r}, parameter {name!r}: {shown(repr(value), 80)} is not a number")
        if not abs(value) <= float(np.finfo(np.float32).max):
            raise DataError(
                f"{what} {call.action!r}, parameter {name!r}: {shown(value, 80)}; values must be finite, and at most "
                "3.4e38"
            )
