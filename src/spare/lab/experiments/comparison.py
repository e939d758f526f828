"""The record of a comparison: a model that was learned, others beside it, scores of all on the same unseen transitions.

run.json holds it: format, kind "comparison", title, about, learned (see `learned.py`), methods, facts. A method has a
label, seconds, nats per value of moved objects, errors by name, ranks; failures, sentences on objects that change and
that nothing predicts; and by group of objects (see `Evaluation`) their number, nats and errors.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from spare.data.experience import Experience
from spare.lab.experiments.figures import Curve, Picture
from spare.lab.experiments.learned import LEVELS, coverage, ranks
from spare.lab.experiments.methods import LABELS, Scored
from spare.lab.experiments.statistics import Estimate
from spare.lab.experiments.store import circumstances, write_json
from spare.language.domain import Domain
from spare.model.evaluation import missing_rules, moved_rows, object_groups

FORMAT = 1
KIND = "comparison"


def scored(model: Scored, test: Experience, *, label: str, seconds: float | None = None) -> dict[str, Any]:
    """One method on unseen transitions; objects that moved by a resolution or less are not counted.

    Errors are root mean squares: where x, y and z are metres, of the distance in mm, otherwise property by property.
    """
    data = test.with_domain(model.domain)
    moved = moved_rows(data)
    rows = moved if moved.any() else np.ones(len(moved), bool)
    apart, values = (model.mean(data) - data.next_values).astype(np.float64), model.log_prob_values(data)
    groups = {
        name: {
            "objects": int(mine.sum()),
            "nats": float(values[mine].mean()) if mine.any() else None,
            "errors": _errors(model.domain, apart[mine]) if mine.any() else {},
        }
        for name, mine in object_groups(data).items()
    }
    return {
        "label": label,
        "seconds": None if seconds is None else round(seconds, 2),
        "failures": list(missing_rules(model, data)),
        "groups": groups,
        "nats": float(values[rows].mean()),
        "errors": _errors(model.domain, apart[rows]),
        "ranks": ranks(model, data, rows),
    }


def _errors(domain: Domain, apart: np.ndarray) -> dict[str, float]:
    units = {one.name: one.unit for one in domain.properties}
    if all(units.get(name) == "m" for name in ("x", "y", "z")):
        places = [domain.property_names.index(name) for name in ("x", "y", "z")]
        return {"error, mm": 1000 * float(np.sqrt(np.square(apart[:, places]).sum(axis=1).mean()))}
    found = {}
    for column, name in zip(domain.dynamic, domain.dynamic_names, strict=True):
        unit = f", {units[name]}" if units[name] else ""
        found[f"error of {name}{unit}"] = float(np.sqrt(np.square(apart[:, column]).mean()))
    return found


def calibration(ranks: Mapping[str, Sequence[int]]) -> Picture:
    """Coverage of central intervals by method, from ranks: on the diagonal if a model is calibrated."""

    def curve(label: str, values: Iterable[float], key: str) -> Curve:
        return Curve(label, LEVELS, [Estimate(value, -math.inf, math.inf, 1) for value in values], key)

    curves = [
        curve(LABELS.get(name, name), [100 * coverage(counts, level / 100) for level in LEVELS], name)
        for name, counts in ranks.items()
    ]
    curves.append(curve("calibrated", map(float, LEVELS), "noise")._replace(dashed=True))
    title, x, y = "Coverage of prediction intervals", "central interval of the prediction, %", "values inside, %"
    return Picture("calibration", title, x, y, tuple(curves), bounds=(0.0, 100.0))


def save_comparison(path: pathlib.Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Write run.json, whole or not at all, with when and with what it was made; what was written."""
    whole = {"format": FORMAT, "kind": KIND, **record, "made": circumstances()}
    write_json(path, whole)
    return whole
