"""A few unseen pushes for a report to draw: what stood where, what was expected, what happened, who was pointed at.

Lengths are in m, rounded to 0.1 mm. A scene is

    title, explained     a line, and the prediction in words
    objects              name, role (target, stack, extra), size, pose before; expected centre and covariance or None
    frames, moving       poses of the `moving` objects at even times from before to after
    gripper              its size, its heading and where it is at each frame (None when it is gone)
    push                 start and end of the push that was asked for
    arrows               (from object, to object, reference), as the rule that fired points
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spare.data.experience import Experience
from spare.errors import DataError
from spare.lab.worlds.push.engines import GRIPPER, STEP
from spare.lab.worlds.push.episode import CHUNK, speeds
from spare.lab.worlds.push.figures import Scenario, describe, representative, simulate_again
from spare.lab.worlds.push.generation import settings_of
from spare.lab.worlds.push.scene import draw
from spare.model.explain import Prediction
from spare.model.model import Model

FRAMES = 28
DRAWS = 200
"""Draws from which the covariance of an expected position is estimated."""


def scenes(model: Model, data: Experience, count: int = 3) -> list[dict[str, Any]]:
    """`count` pushes of the data, from little motion to much; none if this engine plays them otherwise."""
    chosen = representative(data, count)
    drawn = _draws(model, data, chosen)
    try:
        return [_scene(model, data, index, drawn[k]) for k, index in enumerate(chosen)]
    except DataError:
        return []


def _draws(model: Model, data: Experience, chosen: Sequence[int]) -> list[np.ndarray]:
    """(draws, objects, 3) positions after each chosen action; all are drawn, in the shape that is compiled already."""
    rows = [slice(data.offsets[index], data.offsets[index + 1]) for index in chosen]
    every = [[drawn[part, :3] for part in rows] for drawn in (model.sample(data, k) for k in range(DRAWS))]
    return [np.stack(part).astype(np.float64) for part in zip(*every, strict=True)]


def _scene(model: Model, data: Experience, index: int, drawn: np.ndarray) -> dict[str, Any]:
    scenario, info = simulate_again(data, index), data[index].info
    order = draw(settings_of(data), info["index"], info["attempt"]).order
    expected = model.predict(data.states[index], data.actions[index])
    outcome = scenario.outcome
    roles = ["target", *["stack"] * (scenario.scene.stack - 1)]
    roles += ["extra"] * (len(scenario.scene) - scenario.scene.stack)
    objects = []
    for i, k in enumerate(order):
        held = bool(expected.predicted[i])
        objects.append(
            {
                "name": str(expected.state.ids[i]),
                "role": roles[k],
                "size": _plain(scenario.scene.sizes[k]),
                "pose": _plain(outcome.before[k]),
                "expected": _plain(expected.mean[i, :3]) if held else None,
                "covariance": [_plain(row, 9) for row in np.cov(drawn[:, i].T)] if held else None,
            }
        )
    step = np.abs(outcome.after[:, :3] - outcome.before[:, :3]).max(axis=1)
    moving = [i for i, k in enumerate(order) if step[k] > 5e-4]
    push, heading = scenario.push, scenario.heading
    along = push.d * np.array([np.cos(heading), np.sin(heading), 0.0])
    start = np.array([push.xg, push.yg, push.zg])
    poses, gripper = _frames(scenario, order[moving])
    return {
        "title": describe(scenario),
        "explained": expected.explain(data.next_states[index]),
        "objects": objects,
        "moving": moving,
        "frames": poses,
        "gripper": gripper,
        "push": [_plain(start), _plain(start + along)],
        "arrows": _arrows(expected),
    }


def _frames(scenario: Scenario, rows: np.ndarray) -> tuple[list[Any], dict[str, Any]]:
    """Poses of the rows, and the gripper, at `FRAMES` times; the last is the end."""
    executed = scenario.outcome.executed
    heading = executed.heading(scenario.outcome.before[0])
    travelled = np.concatenate([[0.0], np.cumsum(speeds(executed.d)) * CHUNK * STEP])
    pushing = [poses for phase, poses in scenario.frames if phase == "push"]
    resting = [poses for phase, poses in scenario.frames if phase == "rest"]
    every = [scenario.outcome.before, *pushing, *resting, scenario.outcome.after]
    chosen = np.unique(np.linspace(0, len(every) - 1, FRAMES).round().astype(int))
    along = np.array([np.cos(heading), np.sin(heading), 0.0])
    start = np.array([executed.xg, executed.yg, executed.zg])
    places = [_plain(start + travelled[k] * along) if k <= len(pushing) else None for k in chosen]
    poses = [[_plain(every[k][row]) for row in rows] for k in chosen]
    return poses, {"size": _plain(GRIPPER), "heading": round(float(heading), 4), "places": places}


def _arrows(expected: Prediction) -> list[list[Any]]:
    """From each argument's objects to what a reference of the firing rule finds."""
    found: list[list[Any]] = []
    for answer in expected.rules:
        if not answer.fires:
            continue
        shell = answer.rule.gamma
        for t, pointer in enumerate(shell):
            for slot in pointer.arguments:
                pairs = [(a, b) for a in _held(answer.inputs[slot]) for b in _held(answer.inputs[shell.roles + t])]
                found += [[a, b, pointer.reference] for a, b in pairs if [a, b, pointer.reference] not in found]
    return found


def _held(mask: np.ndarray) -> list[int]:
    return [int(i) for i in np.flatnonzero(mask)]


def _plain(values: Sequence[float] | np.ndarray, digits: int = 4) -> list[float]:
    return [round(float(value), digits) for value in values]
