"""What a transition may have beside its objects and its action: objects that vanish or appear, and further actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spare.arguments import described
from spare.data import intake
from spare.data.cells import whole_array
from spare.data.columns import Columns, none_empty, some
from spare.data.ragged import Ragged, owners
from spare.data.state import State
from spare.data.structure import (
    check_kinds,
    check_links,
    check_pairs,
    check_parameter_kinds,
    check_roles,
    check_world,
    emptied,
    with_types,
)
from spare.errors import DataError
from spare.language.domain import Domain


def check_vanished(domain: Domain, vanished: Any, rows: int) -> np.ndarray | None:
    """Which object rows are not in the next state, (rows,) bool, or None if all are."""
    if vanished is None:
        return None
    array = whole_array(vanished, "vanished")
    if array.shape != (rows,) or array.dtype.kind != "b":
        raise DataError(f"vanished: expected {rows} Booleans, one for each object row, got {array.dtype}{array.shape}")
    if array.any() and not domain.types:
        raise DataError(one_type(domain))
    return some(array.copy())


def one_type(domain: Domain) -> str:
    """The message for objects that come and go in a domain without types."""
    return (
        f"objects of the domain {domain.name!r} neither appear nor vanish; declare it with "
        "types=[spare.Type('object', [...])] if they do"
    )


def _parts(what: str, given: Any, names: tuple[str, ...], n: int) -> tuple[dict[str, Any], np.ndarray]:
    """(the parts by name, offsets) of a list for each transition."""
    if isinstance(given, Ragged):
        given = {"offsets": given.offsets, **given.columns}
    if not isinstance(given, Mapping) or not {"offsets", *names} <= {*given}:
        raise DataError(f"{what}: expected a dictionary of offsets, {', '.join(names)}, got {described(given)}")
    offsets = whole_array(given["offsets"], f"{what}, offsets")
    if offsets.shape != (n + 1,) or offsets.dtype.kind not in "iu" or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise DataError(f"{what}: offsets are {n + 1} whole numbers that start with 0 and never fall")
    return dict(given), offsets.astype(np.int64)


def check_arrivals(domain: Domain, given: Any, ids: np.ndarray, offsets: np.ndarray) -> Ragged | None:
    """Objects that are in the next state alone: ids and values (rows, P), as many bits as they came with."""
    if given is None:
        return None
    n = len(offsets) - 1
    parts, starts = _parts("arrivals", given, ("ids", "values"), n)
    total, owner = int(starts[-1]), owners(starts)
    if not total:
        return None
    if not domain.types:
        raise DataError(one_type(domain))
    values = with_types(domain, parts["values"], parts.get("types"), total, "values of arrivals")
    values, _ = intake.check_matrix(values, "values of arrivals", total, domain)
    counts, mine = np.diff(offsets), np.asarray(whole_array(parts["ids"], "ids of arrivals"))
    if mine.shape != (total,):
        raise DataError(f"arrivals: expected {total} ids, got shape {mine.shape}")
    both = np.concatenate([ids.astype(object), mine.astype(object)])
    order = np.argsort(np.concatenate([owners(offsets), owner]), kind="stable")
    ends = np.concatenate([[0], np.cumsum(counts + np.diff(starts))])
    checked = intake.check_ids(both[order], ends)
    back = np.empty_like(checked)
    back[order] = checked
    if back.dtype.kind != ids.dtype.kind:
        raise DataError(f"arrivals: their ids are {back.dtype}, those of the states {ids.dtype}; use one kind")
    return Ragged(starts, {"ids": back[len(ids) :], "values": values})


def check_calls(domain: Domain, given: Any, columns: Columns) -> Ragged | None:
    """Further actions of each transition: template indices, local rows of objects, parameters."""
    if given is None:
        return None
    parts, starts = _parts("calls", given, ("action", "objects", "parameters"), len(columns.action))
    owner = owners(starts)
    try:
        action = intake.check_actions(domain, parts["action"], int(starts[-1]))
        sizes = np.concatenate([[0], np.cumsum(columns.counts[owner])])
        objects = intake.check_objects(domain, parts["objects"], action, sizes)
        parameters, _ = intake.check_parameters(domain, parts["parameters"], action)
        check_parameter_kinds(domain, action, parameters)
        check_roles(domain, action, columns.offsets[owner][:, None] + objects, columns)
    except DataError as error:
        raise DataError(f"calls, counted one by one instead of transitions: {error}") from error
    if not np.isfinite(parameters).all():
        raise DataError("calls: a parameter is not finite")
    parameters = parameters.astype(columns.parameters.dtype)
    return none_empty(Ragged(starts, {"action": action, "objects": objects, "parameters": parameters}))


def settled(domain: Domain, columns: Columns) -> Columns:
    """The columns with 0 for what objects do not have, and their last values for those that vanished."""
    where = (columns.owner, columns.ids)
    values = emptied(domain, columns.values, where, "state")
    after = columns.next_values
    if columns.vanished is not None:
        after = np.where(columns.vanished[:, None], values, after)
    if domain.types and not np.array_equal(after[:, -1], values[:, -1]):
        after = after.copy()
        empty = ~np.isfinite(after[:, -1])
        after[empty, -1] = values[empty, -1]
    after = emptied(domain, after, where, "next state")
    new = columns.arrivals
    if new is not None:
        found = emptied(domain, new.columns["values"], (new.owner, new.columns["ids"]), "next state")
        new = Ragged(new.offsets, {**new.columns, "values": found.astype(values.dtype, copy=False)})
        if not np.isfinite(found).all():
            row, k = (int(one) for one in np.argwhere(~np.isfinite(found))[0])
            raise DataError(
                f"transition {new.owner[row]}, object {new.columns['ids'][row].item()!r}, property "
                f"{domain.property_names[k]!r}: {found[row, k]} in the next state"
            )
    return columns._replace(values=values, next_values=after, arrivals=new)


def check_structure(domain: Domain, columns: Columns) -> Columns:
    """The columns, all finite, if values, links, roles and the world itself are what the domain declares."""
    where = (columns.owner, columns.ids)
    check_kinds(domain, columns.values, where, "state")
    check_kinds(domain, columns.next_values, where, "next state")
    new = columns.arrivals
    if new is not None:
        check_kinds(domain, new.columns["values"], (new.owner, new.columns["ids"]), "next state")
    check_parameter_kinds(domain, columns.action, columns.parameters)
    if domain.types:
        check_roles(domain, columns.action, columns.offsets[:-1, None] + columns.objects, columns)
        check_world(domain, columns)
    if len(columns.action):
        check_links(domain, columns)
    return columns


def with_pairs(domain: Domain, columns: Columns, pairs: Any, next_pairs: Any) -> Columns:
    """The columns with the domain's stored relations, checked."""
    return columns._replace(
        pairs=check_pairs(domain, pairs, columns, after=False),
        next_pairs=check_pairs(domain, next_pairs, columns, after=True),
    )


def ragged_pairs(state: State) -> dict[str, Ragged]:
    """The pairs of one state as lists for one transition."""
    return {
        name: Ragged(np.array([0, len(one)]), {"source": one[:, 0], "target": one[:, 1]})
        for name, one in state.pairs.items()
    }


def check_stored(domain: Domain, state: State, what: str) -> State:
    """A checked state, if types, values, links and pairs are what the domain declares; 0 for what objects lack."""
    if domain.plain:
        return state
    count = len(state)
    blank = np.zeros((1, domain.parameters), state.values.dtype)
    columns = Columns(
        state.values,
        state.values,
        np.array([0, count]),
        np.array(state.ids, object),
        np.full(1, -1, np.int32),
        np.zeros((1, domain.roles), np.int32),
        blank,
        np.ones(1),
        {},
        {},
        0,
    )
    try:
        columns = settled(domain, columns)
        check_structure(domain, columns)
        pairs = check_pairs(domain, ragged_pairs(state), columns, after=False)
    except DataError as error:
        raise DataError(f"{what}{str(error).removeprefix('transition 0')}") from error
    kept = {name: np.stack([one.columns["source"], one.columns["target"]], axis=1) for name, one in pairs.items()}
    return State(state.ids, columns.values, kept)
