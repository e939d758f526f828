"""Transitions as plain values that a page can draw in 3-D, or tell in words where a domain has no geometry.

A domain can be drawn if its objects have the properties x and y. Their height above the ground is z (of the centre) or
base (of the underside); width, length and height make a box, radius makes a cylinder. A scene is

    title, explained   a line; with a model, its prediction in words
    objects            name, role (acted, moved, other), round, size, centre before and after; for objects that the
                       model predicts or moves, the expected centre and its covariance, and `outcomes`: what may happen
                       to it, each with name, probability, expected centre and covariance
    floor              height of the ground
    arrow              start and end of the action where it has a frame with a point, else None
    references         (from object, to object, reference), as the rules that fire point

Lengths are rounded to five digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spare.data.experience import Experience, Transition
from spare.language.domain import Domain
from spare.model.evaluation import moved_rows
from spare.model.explain import Prediction
from spare.model.headrule import HeadRule
from spare.model.model import Model

DRAWS = 200
"""Draws from which the covariance of an expected position is estimated."""
SMALL = 0.04
"""Side of an object of unknown size, as a share of the scene."""

VISIBLE = 0.05
"""An object counts as moved if it goes more than this share of the longest way in the scene, observed or expected."""


def drawable(domain: Domain) -> bool:
    """Whether objects of the domain have a place."""
    return {"x", "y"} <= {*domain.property_names}


def representative(data: Experience, count: int) -> list[int]:
    """Indices of `count` transitions: evenly spaced by the largest change of a value, the most lively first."""
    data = data.resolved()[0]
    change = np.abs(data.next_values - data.values)[:, list(data.domain.dynamic)] / data.domain.resolutions
    ranked = np.argsort(-np.maximum.reduceat(change.max(axis=1), data.offsets[:-1]), kind="stable")
    count = min(count, len(data))
    return ranked[((np.arange(count) + 0.5) / count * len(data)).astype(int)].tolist()


def scenes(data: Experience, chosen: Sequence[int], model: Model | None = None) -> list[dict[str, Any]]:
    """The chosen transitions, with what the model predicts if there is one."""
    data = data.resolved()[0] if model is None else data.with_domain(model.domain)
    drawn = _draws(model, data, chosen) if model is not None and drawable(data.domain) else None
    found = []
    for k, index in enumerate(chosen):
        one, prediction = data[index], None
        scene: dict[str, Any] = {"title": _title(data.domain, one, index), "explained": None}
        if model is not None:
            prediction = model.predict(one.state, one.action)
            scene["explained"] = prediction.explain(one.next_state)
        if drawable(data.domain):
            scene |= _geometry(data[index : index + 1], prediction, None if drawn is None else drawn[k])
        found.append(scene)
    return found


def _title(domain: Domain, one: Transition, index: int) -> str:
    """`#7  push(target 0; xg 0.12, d 0.1)`."""
    action = domain.action(one.action.action)
    roles = [f"{role} {name}" for role, name in zip(action.objects, one.action.objects, strict=True)]
    given = [f"{name} {value:.3g}" for name, value in zip(action.parameters, one.action.parameters, strict=True)]
    return f"#{index}  {action.name}({', '.join(roles)}{'; ' * bool(given)}{', '.join(given)})"


def _draws(model: Model, data: Experience, chosen: Sequence[int]) -> list[np.ndarray]:
    """(draws, objects, P): next states drawn for each chosen transition."""
    repeated = data[np.repeat(np.asarray(chosen, np.int64), DRAWS)]
    parts = np.split(model.sample(repeated, 0), repeated.offsets[DRAWS:-1:DRAWS])
    return [part.reshape(DRAWS, -1, part.shape[-1]).astype(np.float64) for part in parts]


def _geometry(data: Experience, prediction: Prediction | None, drawn: np.ndarray | None) -> dict[str, Any]:
    """The fields of the one transition in `data` that are drawn."""
    state, values = data.states[0], data.values.astype(np.float64)
    round_, sizes = sizes_of(data.domain.property_names, values)
    before, after = (centres_of(data.domain.property_names, part, sizes) for part in (values, data.next_values))
    way = np.linalg.norm(after - before, axis=1)
    far = way.max()
    for choice in () if prediction is None else prediction.outcomes:  # what might have moved is a measure, too
        rows = list(choice.objects)
        for one in choice.outcomes:
            gone = np.linalg.norm(centres_of(data.domain.property_names, one.mean, sizes[rows]) - before[rows], axis=1)
            far = max(far, float(gone.max()))
    roles = np.where(moved_rows(data) & (way > VISIBLE * far), "moved", "other")
    roles[data.objects[0][data.objects[0] >= 0]] = "acted"
    objects = []
    fired = [] if prediction is None else [answer.rule for answer in prediction.rules if answer.fires]
    moving = any(isinstance(rule, HeadRule) and rule.process.spec.free for rule in fired)
    for i, name in enumerate(state.ids):
        one = {"name": str(name), "role": str(roles[i]), "round": round_, "expected": None, "covariance": None}
        one |= {"size": plain(sizes[i]), "before": plain(before[i]), "after": plain(after[i])}
        if prediction is not None and drawn is not None and (prediction.predicted[i] or moving):
            one["expected"] = plain(centres_of(data.domain.property_names, prediction.mean, sizes)[i])
            spread = np.cov(centres_of(data.domain.property_names, drawn, sizes)[:, i].T)
            one["covariance"] = [plain(row, 12) for row in spread]
            one["outcomes"] = _outcomes(prediction, i, sizes)
        objects.append(one)
    return {
        "objects": objects,
        "floor": round(float((before[:, 2] - sizes[:, 2] / 2).min()), 5),
        "arrow": _arrow(data),
        "references": [] if prediction is None else _references(prediction),
    }


def _outcomes(prediction: Prediction, i: int, sizes: np.ndarray) -> list[dict[str, Any]]:
    """What may happen to an object: name, probability, expected centre, covariance; empty if a rule does not say."""
    names = prediction.domain.property_names
    places = [names.index(name) if name in names else -1 for name in ("x", "y", "z" if "z" in names else "base")]
    found = []
    for choice in prediction.outcomes:
        if i not in choice.objects:
            continue
        at = choice.objects.index(i)
        for one in choice.outcomes:
            whole = np.pad(one.covariance[at], (0, 1))  # the last row and column: of a height that nothing tells
            centre = centres_of(prediction.domain.property_names, one.mean[[at]], sizes[[i]])[0]
            found.append(
                {
                    "name": one.name,
                    "probability": round(one.probability, 4),
                    "expected": plain(centre),
                    "covariance": [plain(row, 12) for row in whole[np.ix_(places, places)]],
                }
            )
    return found


def sizes_of(names: Sequence[str], values: np.ndarray) -> tuple[bool, np.ndarray]:
    """(whether objects are round, (N, 3) their sizes along x, y and z)."""
    column = {name: values[:, k] for k, name in enumerate(names)}
    small = np.full(len(values), SMALL * max(np.ptp(column["x"]), np.ptp(column["y"]), 1e-6))
    if "radius" in column:
        column |= {"width": 2 * column["radius"], "length": 2 * column["radius"]}
    found = [column.get(name, small) for name in ("width", "length", "height")]
    return "width" not in names, np.stack(found, axis=1)


def centres_of(names: Sequence[str], values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(..., N, 3) centres of objects."""
    x, y = (values[..., names.index(name)] for name in ("x", "y"))
    if "z" in names:
        return np.stack([x, y, values[..., names.index("z")]], axis=-1)
    base = values[..., names.index("base")] if "base" in names else np.zeros_like(x)
    return np.stack([x, y, base + sizes[:, 2] / 2], axis=-1)


def _arrow(data: Experience) -> list[list[float]] | None:
    """Between the frame's origin and the first point among the parameters, along the frame's heading."""
    action = data.domain.actions[data.action[0]]
    points = [] if action.frame is None else [one for one in action.frame.positions if one[0] in action.parameters]
    if not points:
        return None
    roles, given = data.values[data.objects[:, : len(action.objects)]], data.parameters[:, : len(action.parameters)]
    pose = data.domain.poses(action, roles, given)
    point = [float(given[0, action.parameters.index(name)]) for name in points[0]]
    origin, point = pose.origin[0], np.array([*point, *pose.origin[0][len(point) :]])
    heading = np.array([np.cos(pose.heading[0]), np.sin(pose.heading[0])])
    ends = (origin, point) if (point - origin)[:2] @ heading > 0 else (point, origin)
    return [plain(end) for end in ends]


def _references(prediction: Prediction) -> list[list[Any]]:
    """From each argument's objects to what a reference of a firing rule finds."""
    found: list[list[Any]] = []
    for answer in prediction.rules:
        if not answer.fires:
            continue
        shell = answer.rule.gamma
        for t, pointer in enumerate(shell):
            for slot in pointer.arguments:
                start, end = (np.flatnonzero(answer.inputs[k]).tolist() for k in (slot, shell.roles + t))
                found += [[a, b, pointer.reference] for a in start for b in end]
    return [one for k, one in enumerate(found) if one not in found[:k]]


def plain(values: Sequence[float] | np.ndarray, digits: int = 5) -> list[float]:
    """Numbers for a file, rounded."""
    return [round(float(value), digits) for value in values]
