"""Checks of columns on the way in: every error names the transition, the object, the property, and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spare.arguments import described
from spare.data.cells import EPOCH, numbers, whole_array
from spare.data.checks import check_id
from spare.data.columns import Columns
from spare.data.precision import Numbers, needs_double
from spare.data.ragged import owners, positions_within
from spare.data.state import ObjectId
from spare.errors import DataError, one_of
from spare.language.domain import Domain
from spare.names import shown


def check_finite(domain: Domain, columns: Columns, drop: bool) -> Columns:
    """The columns, if all numbers are finite and static properties stay; `drop` leaves out transitions with NaN.

    The number of transitions left out is `dropped` in the result.
    """
    bad = np.array(~np.isfinite(columns.parameters).all(axis=1))
    for values in (columns.values, columns.next_values):
        bad[columns.owner[~np.isfinite(values).all(axis=1)]] = True
    if bad.any():
        if not drop:
            raise DataError(_first_bad(domain, columns, int(np.argmax(bad))))
        columns = columns.take(np.flatnonzero(~bad))._replace(dropped=int(bad.sum()))
    _check_static(domain, columns)
    return columns


def _first_bad(domain: Domain, columns: Columns, i: int) -> str:
    """Where exactly the first NaN or infinity stands."""
    advice = "fix the row, or pass drop_invalid=True to leave such transitions out"
    start, stop = columns.offsets[i : i + 2]
    for values, label in ((columns.values, "state"), (columns.next_values, "next state")):
        rows, cols = np.nonzero(~np.isfinite(values[start:stop]))
        if len(rows):
            value = values[start + rows[0], cols[0]]
            who = columns.ids[start + rows[0]].item()
            prop = domain.property_names[cols[0]]
            return f"transition {i}, object {who!r}, property {prop!r}: {value} in the {label}; {advice}"
    template = domain.actions[columns.action[i]]
    position = int(np.argmax(~np.isfinite(columns.parameters[i])))
    value = columns.parameters[i, position]
    return f"transition {i}, action {template.name!r}, parameter {template.parameters[position]!r}: {value}; {advice}"


def static_moved(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Where a static property differs by more than rounding: far from 0, that is little of what 64-bit numbers tell."""
    rounding = 1e-5 * np.maximum(np.abs(before), 1e-30)
    if before.dtype == np.float64 and len(before) and np.ptp(before) > 0:
        rounding = np.minimum(rounding, np.ptp(before) / 1000)
    return np.abs(after - before) > rounding


def _check_static(domain: Domain, columns: Columns) -> None:
    for column, prop in enumerate(domain.properties):
        if not prop.static:
            continue
        before, after = columns.values[:, column], columns.next_values[:, column]
        moved = static_moved(before, after)
        if moved.any():
            row, digits = int(np.argmax(moved)), 6 if before.dtype == np.float32 else 15
            raise DataError(
                f"transition {columns.owner[row]}, object {columns.ids[row].item()!r}: "
                f"static property {prop.name!r} changes from {before[row]:.{digits}g} to {after[row]:.{digits}g}; "
                "declare it without static=True, or repair the data"
            )


def check_matrix(array: Any, what: str, rows: int, domain: Domain) -> tuple[np.ndarray, dict[str, str]]:
    """(real numbers of shape (rows, P), fresh, what is counted from where): dates become seconds since `EPOCH`."""
    array, dates = numbers(array, what)
    columns = len(domain.properties)
    if array.shape != (rows, columns):
        raise DataError(f"{what}: expected shape ({rows}, {columns}), one row per object, got {array.shape}")
    return array, dict(check_date(domain, domain.property_names[k]) for k in dates)


def check_date(domain: Domain, name: str) -> tuple[str, str]:
    """(name, `EPOCH`) of a property or parameter that was given as dates, if its unit allows that."""
    unit = domain.property(name).unit if name in domain.property_names else ""
    if unit not in ("", "s"):
        raise DataError(
            f"property {name!r}: dates become {EPOCH}, and its unit is {unit!r}; declare unit='s', or give numbers"
        )
    return name, EPOCH


def in_one_precision(domain: Domain, given: Numbers, precise: bool | None) -> Numbers:
    """All numbers in 64 bits if they are to be, or if `precise` is None and 32 would lose what matters; else in 32."""
    double = needs_double(domain, given) if precise is None else precise
    kind = np.float64 if double else np.float32
    with np.errstate(over="ignore"):
        values, next_values, parameters = (part.astype(kind, copy=False) for part in given[:3])
    return Numbers(values, next_values, parameters, given.action)


def check_offsets(offsets: Any) -> np.ndarray:
    """Offsets from 0 to the number of object rows, int64; every transition has at least one object."""
    array = whole_array(offsets, "offsets")
    if array.ndim != 1 or len(array) < 1 or array.dtype.kind not in "iu" or array[0] != 0:
        raise DataError("offsets: expected whole numbers that start with 0, one more than there are transitions")
    array = array.astype(np.int64)
    empty = np.diff(array) <= 0
    if empty.any():
        raise DataError(f"transition {int(np.argmax(empty))}: it has no objects; a state needs at least one")
    return array


def check_ids(ids: Any, offsets: np.ndarray) -> np.ndarray:
    """Ids as int64 or text, unique within each transition; 0, 1, 2, ... when none are given."""
    owner = owners(offsets)
    if ids is None:
        return positions_within(np.diff(offsets))
    array = whole_array(ids, "ids")
    if array.shape != (int(offsets[-1]),):
        raise DataError(f"ids: expected {int(offsets[-1])} ids, one per object row, got shape {array.shape}")
    if array.dtype.kind in "iu":
        if array.dtype == np.uint64 and array.max(initial=0) >= 2**63:
            raise DataError(f"ids: {array.max()} does not fit in 64 bits with a sign; use text")
        array = array.astype(np.int64)
    elif array.dtype.kind in "OTU":
        texts = [check_id(one, int(i)) for one, i in zip(array.tolist(), owner, strict=True)]
        whole = bool(texts) and all(isinstance(one, int) for one in texts)
        array = np.array(texts, np.int64) if whole else np.array([str(one) for one in texts], np.str_)
    else:
        raise DataError(f"ids: expected text or whole numbers, got {array.dtype}")
    order = np.lexsort((array, owner))
    same = (array[order][1:] == array[order][:-1]) & (owner[order][1:] == owner[order][:-1])
    if same.any():
        row = order[1:][same].min()
        raise DataError(f"transition {owner[row]}: object id {array[row].item()!r} appears twice; ids must differ")
    return array


def match_rows(ids: Any, next_ids: Any, offsets: np.ndarray) -> np.ndarray:
    """Rows of the next state in the order of the state, matched by id within each transition; ids are checked."""
    ids, next_ids, owner = check_ids(ids, offsets), check_ids(next_ids, offsets), owners(offsets)
    if ids.dtype.kind != next_ids.dtype.kind:
        raise DataError(f"ids are {ids.dtype} in the state and {next_ids.dtype} in the next state; use one kind")
    here, there = np.lexsort((ids, owner)), np.lexsort((next_ids, owner))
    differ = ids[here] != next_ids[there]
    if differ.any():
        i = int(owner[here[np.argmax(differ)]])
        rows = slice(offsets[i], offsets[i + 1])
        raise DataError(differing_ids(i, ids[rows].tolist(), next_ids[rows].tolist()))
    result = np.empty_like(here)
    result[here] = there
    return result


def differing_ids(i: int, before: Sequence[ObjectId], after: Sequence[ObjectId]) -> str:
    """The message for objects that appear or vanish."""
    gone = [one for one in before if one not in after]
    new = [one for one in after if one not in before]
    return (
        f"transition {i}: state and next state hold different objects (only before: {gone[:5]}, "
        f"only after: {new[:5]}); the set of objects must stay the same"
    )


def check_actions(domain: Domain, action: Any, n: int) -> np.ndarray:
    """n template indices, int32, from indices or names."""
    array = whole_array(action, "action")
    if array.shape != (n,):
        raise DataError(f"action: expected {n} entries, one per transition, got shape {array.shape}")
    if array.dtype.kind in "OTU":
        names = [template.name for template in domain.actions]
        for i, name in enumerate(array.tolist()):
            if name not in names:
                raise DataError(f"transition {i}: {one_of('action', name, names)}")
        return np.array([names.index(name) for name in array.tolist()], np.int32)
    if array.dtype.kind not in "iu":
        raise DataError(f"action: expected template names or indices, got {array.dtype}")
    wrong = (array < 0) | (array >= len(domain.actions))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise DataError(f"transition {i}: action {array[i]} is not one of the {len(domain.actions)} templates")
    return array.astype(np.int32)


def check_objects(domain: Domain, objects: Any, action: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Local indices of the objects of each action, (n, roles) int32, -1 where a template has fewer."""
    array = whole_array(objects, "objects")
    n = len(action)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] != n or array.dtype.kind not in "iu":
        raise DataError(f"objects: expected local object indices of shape ({n}, roles), got {array.dtype}{array.shape}")
    result = np.full((n, domain.roles), -1, np.int32)
    counts = np.diff(offsets)
    for index, template in enumerate(domain.actions):
        rows, width = np.flatnonzero(action == index), len(template.objects)
        if not len(rows):
            continue
        if array.shape[1] < width:
            raise DataError(f"action {template.name!r} names {width} objects, got {array.shape[1]}")
        given = array[rows, :width]
        absent = (given < 0) | (given >= counts[rows][:, None])
        if absent.any():
            row, role = np.argwhere(absent)[0]
            raise DataError(
                f"transition {rows[row]}, action {template.name!r}: its {template.objects[role]} is object "
                f"{given[row, role]}, but the state has objects 0 to {counts[rows[row]] - 1}"
            )
        result[rows, :width] = given
    return result


def check_parameters(domain: Domain, parameters: Any, action: np.ndarray) -> tuple[np.ndarray, dict[str, str]]:
    """(the parameters of each action, (n, parameters), 0 where a template has fewer; which are counted from where)."""
    n = len(action)
    array, dates = (np.zeros((n, 0), np.float32), ()) if parameters is None else numbers(parameters, "parameters")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] != n:
        raise DataError(f"parameters: expected shape ({n}, parameters), got {array.shape}")
    for index in np.unique(action):
        template = domain.actions[index]
        if array.shape[1] < len(template.parameters) or array.shape[1] > domain.parameters:
            raise DataError(
                f"transition {int(np.argmax(action == index))}, action {template.name!r}: it takes "
                f"{len(template.parameters)} parameters ({', '.join(template.parameters)}), got {array.shape[1]}"
            )
    result = np.zeros((n, domain.parameters), array.dtype)
    for index, template in enumerate(domain.actions):
        rows, width = action == index, len(template.parameters)
        result[rows, :width] = array[rows, :width]
    named = [one.parameters[k] for one in domain.actions for k in dates if k < len(one.parameters)]
    return result, dict.fromkeys(named, EPOCH)


def check_weights(weights: Any, n: int) -> np.ndarray:
    """n finite weights that are not negative, float64; 1 each when none are given."""
    array = np.ones(n) if weights is None else whole_array(weights, "weights")
    if array.dtype.kind == "O":
        array = numbers(array, "weights")[0] if array.ndim else array
    if array.shape != (n,) or array.dtype.kind not in "fiub":
        raise DataError(f"weights: expected {n} numbers, one per transition, got {array.dtype}{array.shape}")
    array = np.array(array, np.float64)
    wrong = ~np.isfinite(array) | (array < 0)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise DataError(f"transition {i}: weight {array[i]} must be finite and not negative")
    return array


def check_info(info: Mapping[str, Any], n: int) -> dict[str, np.ndarray]:
    """Columns of n numbers or texts, as float64, int64, bool or text."""
    if not isinstance(info, Mapping):
        raise DataError(f"info: expected a dictionary of columns, got {described(info)}")
    result = {}
    for name, column in info.items():
        check_id(name, "info names are like ids")
        array = _info_column(whole_array(column, f"info {name!r}"), f"info {name!r}")
        if array.shape != (n,) or array.dtype.kind not in "fiubOU" or array.dtype == np.uint64:
            raise DataError(f"info {name!r}: expected {n} numbers or texts, got {array.dtype}{array.shape}")
        kind = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}.get(array.dtype.kind, np.str_)
        result[str(name)] = array.astype(kind)
    return result


def _info_column(array: np.ndarray, what: str) -> np.ndarray:
    """The column, if a file keeps each of its texts as it is; of Python objects, if all are texts or all numbers."""
    if array.dtype.kind not in "OU" or not array.ndim:
        return array
    cells = array.tolist()
    if array.dtype.kind == "O" and all(isinstance(one, int | float) for one in cells):
        return np.array(cells)
    for row, one in enumerate(cells):
        if not isinstance(one, str):
            raise DataError(f"{what}, entry {row}: {shown(repr(one), 80)}; give a column of texts or one of numbers")
        if one.endswith("\0") or any("\ud800" <= c <= "\udfff" for c in one):
            raise DataError(f"{what}, entry {row}: {shown(one, 80)!r} ends with a NUL or holds half a character")
    return array


def check_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy made of JSON values alone."""
    if not isinstance(metadata, Mapping):
        raise DataError(f"metadata: expected a dictionary, got {described(metadata)}")
    try:
        return json.loads(json.dumps(dict(metadata), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"metadata must be made of JSON values: {error}") from error
