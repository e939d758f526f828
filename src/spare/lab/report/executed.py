"""The page about an executed plan: the record of `control`, read without a model.

Each step is drawn as a transition: where objects stood, where the plan expected them, with ellipses of one and two
deviations, and where they were observed.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spare.errors import FileError
from spare.lab.experiments.scenes import VISIBLE, centres_of, plain, sizes_of
from spare.lab.experiments.store import read_json
from spare.lab.report import html
from spare.lab.report.html import Page, Section
from spare.lab.report.learned import scenes_section

MOST_SCENES = 12
"""Steps that are drawn; of longer records they are spread evenly, the last one included."""


def executed_page(path: pathlib.Path) -> Page:
    """The page about `record.json`."""
    record = read_json(path)
    try:
        drawn = scenes_section(_scenes(record), "What was expected, and what happened") if record["steps"] else None
        sections = [_table(record), *([drawn] if drawn else [])]
        about = f"{len(record['steps'])} actions in the world {record['domain']}: {record['words']}."
        return Page(f"Control in {record['domain']}", about, sections)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FileError(f"{path}: this is not a record of control ({type(error).__name__}: {error})") from error


def _table(record: Mapping[str, Any]) -> Section:
    """One row per step."""
    head = ("step", "action", "cost after it", "the plan expected", "chance of success", "seconds")
    rows = []
    for k, step in enumerate(record["steps"]):
        success = "" if step["success"] is None else f"{step['success']:.0%}"
        cost = "" if step["cost"] is None else f"{step['cost']:.4g}"
        rows.append((str(k + 1), _title(step), cost, f"{step['expected cost']:.4g}", success, f"{step['seconds']:.3f}"))
    warned = [f"step {k + 1}: {one}" for k, step in enumerate(record["steps"]) for one in step["unlike the data"]]
    parts = [html.warning(one, "Unlike the data.", tone="open") for one in warned[:3]]
    note = "What the plan expected is the cost of its whole horizon; the cost after a step is of that state alone."
    return Section("steps", "Step by step", [*parts, html.table(head, rows, note, cards=True)])


def _title(step: Mapping[str, Any]) -> str:
    given = ", ".join(f"{value:.3g}" for value in step["parameters"])
    objects = ", ".join(map(str, step["objects"]))
    return f"{step['action']}({objects}{'; ' if given and objects else ''}{given})"


def _scenes(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Steps as `experiments/scenes.py` stores transitions."""
    steps, names = record["steps"], record["properties"]
    chosen = np.unique(np.linspace(0, len(steps) - 1, min(MOST_SCENES, len(steps))).round().astype(int)).tolist()
    found = []
    for k in chosen:
        before = record["start"] if k == 0 else steps[k - 1]["observed"]
        scene: dict[str, Any] = {"title": f"{k + 1}. {_title(steps[k])}", "explained": None}
        if {"x", "y"} <= {*names}:
            scene |= _geometry(names, record["ids"], np.array(before, float), steps[k])
        found.append(scene)
    return found


def _geometry(names: Sequence[str], ids: Sequence[Any], values: np.ndarray, step: Mapping[str, Any]) -> dict[str, Any]:
    round_, sizes = sizes_of(names, values)
    observed, expected, std = (np.array(step[name], float) for name in ("observed", "expected", "std"))
    before, after, hoped = (centres_of(names, part, sizes) for part in (values, observed, expected))
    spread = centres_of(names, std, np.zeros_like(sizes))
    way = np.linalg.norm(after - before, axis=1)
    meant = np.linalg.norm(hoped - before, axis=1)
    far = max(float(way.max()), float(meant.max()), 1e-9)
    objects = []
    for i, name in enumerate(ids):
        acted = name in step["objects"]
        moved = way[i] > VISIBLE * far or meant[i] > VISIBLE * far
        one = {"name": str(name), "role": "acted" if acted else "moved" if moved else "other", "round": round_}
        one |= {"size": plain(sizes[i]), "before": plain(before[i]), "after": plain(after[i])}
        one |= {"expected": None, "covariance": None}
        if acted or moved:
            one["expected"] = plain(hoped[i])
            one["covariance"] = [plain(row, 12) for row in np.diag(np.square(spread[i]))]
        objects.append(one)
    floor = round(float((before[:, 2] - sizes[:, 2] / 2).min()), 5)
    return {"objects": objects, "floor": floor, "arrow": None, "references": []}
