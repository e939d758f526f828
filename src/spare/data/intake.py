"""Checks on the way in: every error names the transition, the object, the property, and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spare.data.checks import check_id
from spare.data.experience import Experience, ObjectId
from spare.errors import DataError, one_of
from spare.language.domain import Domain
from spare.language.properties import nearest_images


def check_arrays(
    domain: Domain,
    *,
    values: Any,
    next_values: Any,
    offsets: Any,
    action: Any,
    objects: Any,
    **optional: Any,
) -> Experience:
    """Flat columns in, checked `Experience` out. See `Experience.from_arrays` for each column."""
    parameters = optional.pop("parameters", None)
    ids, next_ids, weights = (optional.pop(name, None) for name in ("ids", "next_ids", "weights"))
    info, metadata = (optional.pop(name, None) or {} for name in ("info", "metadata"))
    drop = optional.pop("drop_invalid", False)
    if optional:
        raise TypeError(f"from_arrays got unknown columns: {', '.join(sorted(optional))}")
    offsets = _check_offsets(offsets)
    total, n = int(offsets[-1]), len(offsets) - 1
    values = _matrix(values, "values", total, len(domain.properties))
    next_values = _matrix(next_values, "next_values", total, len(domain.properties))
    identifiers = _check_ids(ids, offsets)
    if next_ids is not None:
        next_values = next_values[_match(identifiers, _check_ids(next_ids, offsets), offsets)]
    indices = _check_actions(domain, action, n)
    columns = {
        "values": values,
        "next_values": nearest_images(domain.properties, values, next_values),
        "offsets": offsets,
        "ids": identifiers,
        "action": indices,
        "objects": _check_objects(domain, objects, indices, offsets),
        "parameters": _check_parameters(domain, parameters, indices, n),
        "weights": check_weights(weights, n) if weights is not None else np.ones(n),
        "info": _check_info(info, n),
        "metadata": _check_metadata(metadata),
    }
    return _finite(domain, columns, drop)


def _finite(domain: Domain, columns: dict[str, Any], drop: bool) -> Experience:
    """Refuse, or drop and count, transitions with NaN or infinity; then hold static properties still."""
    offsets = columns["offsets"]
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    bad = np.zeros(len(offsets) - 1, bool)
    with np.errstate(invalid="ignore"):
        for name in ("values", "next_values"):
            bad[owner[~np.isfinite(columns[name]).all(axis=1)]] = True
        bad |= ~np.isfinite(columns["parameters"]).all(axis=1)
    if bad.any() and not drop:
        raise DataError(_first_bad(domain, columns, int(np.argmax(bad))))
    experience = Experience(domain, **columns)
    if bad.any():
        experience = experience[np.flatnonzero(~bad)]
        object.__setattr__(experience, "dropped", int(bad.sum()))
    _check_static(experience)
    return experience


def _first_bad(domain: Domain, columns: dict[str, Any], i: int) -> str:
    """Where exactly the first NaN or infinity stands."""
    advice = "fix the row, or pass drop_invalid=True to leave such transitions out"
    start, stop = columns["offsets"][i : i + 2]
    for name, label in (("values", "state"), ("next_values", "next state")):
        rows, cols = np.nonzero(~np.isfinite(columns[name][start:stop]))
        if len(rows):
            value = columns[name][start + rows[0], cols[0]]
            who = columns["ids"][start + rows[0]].item()
            prop = domain.property_names[cols[0]]
            return f"transition {i}, object {who!r}, property {prop!r}: {value} in the {label}; {advice}"
    template = domain.actions[columns["action"][i]]
    position = int(np.argmax(~np.isfinite(columns["parameters"][i])))
    value = columns["parameters"][i, position]
    return f"transition {i}, action {template.name!r}, parameter {template.parameters[position]!r}: {value}; {advice}"


def static_moved(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Where a static property differs by more than rounding."""
    return np.abs(after - before) > 1e-5 * np.maximum(np.abs(before), 1e-30)


def _check_static(experience: Experience) -> None:
    for column, prop in enumerate(experience.domain.properties):
        if not prop.static:
            continue
        before, after = experience.values[:, column], experience.next_values[:, column]
        moved = static_moved(before, after)
        if moved.any():
            row = int(np.argmax(moved))
            i = int(np.searchsorted(experience.offsets, row, side="right")) - 1
            raise DataError(
                f"transition {i}, object {experience.ids[row].item()!r}: static property {prop.name!r} changes from "
                f"{before[row]:g} to {after[row]:g}; declare it without static=True, or repair the data"
            )


def _real(array: Any, what: str) -> np.ndarray:
    """Any real array as a fresh float32 one."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what}: expected real numbers, got {array.dtype}")
    with np.errstate(over="ignore"):
        return np.array(array, np.float32, order="C")


def _matrix(array: Any, what: str, rows: int, columns: int) -> np.ndarray:
    array = _real(array, what)
    if array.shape != (rows, columns):
        raise DataError(f"{what}: expected shape ({rows}, {columns}), one row per object, got {array.shape}")
    return array


def _check_offsets(offsets: Any) -> np.ndarray:
    array = np.asarray(offsets)
    if array.ndim != 1 or len(array) < 1 or array.dtype.kind not in "iu" or array[0] != 0:
        raise DataError("offsets: expected whole numbers that start with 0, one more than there are transitions")
    array = array.astype(np.int64)
    empty = np.diff(array) <= 0
    if empty.any():
        raise DataError(f"transition {int(np.argmax(empty))}: it has no objects; a state needs at least one")
    return array


def _check_ids(ids: Any, offsets: np.ndarray) -> np.ndarray:
    """Ids as int64 or text, unique within each transition; 0, 1, 2, ... when none are given."""
    counts = np.diff(offsets)
    owner = np.repeat(np.arange(len(counts)), counts)
    if ids is None:
        return np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], counts)
    array = np.asarray(ids)
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
        raise DataError(f"transition {owner[row]}: object id {array[row].item()!r} is there twice; ids must differ")
    return array


def match_rows(ids: Any, next_ids: Any, offsets: np.ndarray) -> np.ndarray:
    """Where each object's next state stands, when the next states come in another order; ids are checked."""
    return _match(_check_ids(ids, offsets), _check_ids(next_ids, offsets), offsets)


def _match(ids: np.ndarray, next_ids: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Rows of the next state in the order of the state, matched by id within each transition."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
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


def _check_actions(domain: Domain, action: Any, n: int) -> np.ndarray:
    array = np.asarray(action)
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


def _check_objects(domain: Domain, objects: Any, action: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    array = np.asarray(objects)
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


def _check_parameters(domain: Domain, parameters: Any, action: np.ndarray, n: int) -> np.ndarray:
    array = np.zeros((n, 0), np.float32) if parameters is None else _real(parameters, "parameters")
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
    result = np.zeros((n, domain.parameters), np.float32)
    for index, template in enumerate(domain.actions):
        rows, width = action == index, len(template.parameters)
        result[rows, :width] = array[rows, :width]
    return result


def check_weights(weights: Any, n: int) -> np.ndarray:
    """n finite weights that are not negative, float64."""
    array = np.asarray(weights)
    if array.shape != (n,) or array.dtype.kind not in "fiub":
        raise DataError(f"weights: expected {n} numbers, one per transition, got {array.dtype}{array.shape}")
    array = np.array(array, np.float64)
    wrong = ~np.isfinite(array) | (array < 0)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise DataError(f"transition {i}: weight {array[i]} must be finite and not negative")
    return array


def _check_info(info: Mapping[str, Any], n: int) -> dict[str, np.ndarray]:
    result = {}
    for name, column in info.items():
        array = np.asarray(column)
        check_id(str(name), "info names are like ids")
        if array.shape != (n,) or array.dtype.kind not in "fiubOU" or array.dtype == np.uint64:
            raise DataError(f"info {name!r}: expected {n} numbers or texts, got {array.dtype}{array.shape}")
        kind = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}.get(array.dtype.kind, np.str_)
        result[str(name)] = array.astype(kind)
    return result


def _check_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(dict(metadata), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"metadata must be made of JSON values: {error}") from error
