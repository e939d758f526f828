"""The page of a comparison (`spare demo`, or a model file with data): the model, how it compares, its calibration."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from spare.errors import FileError
from spare.lab.experiments.comparison import FORMAT
from spare.lab.report.document import Bar, Cell, Document, Facts, Figures, Section, Table
from spare.lab.report.learned import calibration_section, rules_section, scenes_section, search_section


def comparison_document(path: pathlib.Path, record: Mapping[str, Any]) -> Document:
    """The page of a record that was read from `path`."""
    if record.get("format") != FORMAT:
        raise FileError(
            f"{path}: this record is of format {record.get('format')!r}, this version reads {FORMAT}; make it again"
        )
    try:
        return _document(record)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, StopIteration) as error:
        raise FileError(
            f"{path}: damaged, or not the record of a comparison ({type(error).__name__}: {error}); make it again"
        ) from error


def _document(record: Mapping[str, Any]) -> Document:
    learned, methods = record["learned"], record["methods"]
    about = "Objects that the rule points at are predicted; all others are predicted to stay where they are."
    ranks = {name: one["ranks"] for name, one in methods.items()}
    sections = [
        _compared(record, methods),
        rules_section(learned, about),
        scenes_section(learned.get("scenes", [])),
        search_section(learned),
        calibration_section(ranks, "Values of objects that moved, in unseen transitions."),
        _provenance(record),
    ]
    return Document(record["title"], record["about"], tuple(one for one in sections if one is not None))


def _compared(record: Mapping[str, Any], methods: Mapping[str, Any]) -> Section:
    first = next(iter(methods.values()))
    figures = [(f"{first['nats']:.2f}", "nats per value of moved objects", "good")]
    figures += [(f"{value:.3g}", name, "good") for name, value in list(first["errors"].items())[:1]]
    figures += [(number, name, "none") for number, name in record.get("figures", [])]
    names = list(first["errors"])
    nats = [one["nats"] for one in methods.values()]
    span = max(nats) - min(0.0, max(min(nats), -3.0)) or 1.0
    rows = []
    for one in methods.values():
        share = (one["nats"] - max(nats) + span) / span
        cells: list[Cell] = [
            one["label"],
            Bar(f"{one['nats']:.2f}", min(1.0, max(0.0, share)), one["nats"] == max(nats)),
        ]
        for name in names:
            every = [other["errors"][name] for other in methods.values()]
            value = one["errors"][name]
            cells.append(Bar(f"{value:.3g}", value / (max(every) or 1.0), value == min(every), cost=True))
        cells.append("" if one["seconds"] is None else f"{one['seconds']:.0f} s")
        rows.append(tuple(cells))
    head = ("", "nats per value ↑", *(f"{name} ↓" for name in names), "learned in")
    table = Table(head, tuple(rows), record.get("caption", ""))
    blocks = (Figures(tuple(figures)), table) if len(methods) > 1 else (Figures(tuple(figures)),)  # type: ignore[arg-type]
    return Section("scores", "How it compares", blocks)


def _provenance(record: Mapping[str, Any]) -> Section:
    made, facts = record["made"], record["learned"]["provenance"]
    pairs = [(name, str(value)) for name, value in record.get("facts", {}).items()]
    words = {"data": "training data", "transitions": "training transitions"}
    pairs += [(words.get(name, name), str(value)) for name, value in facts.items() if name not in {"spare", "jax"}]
    versions = {"SPARE": facts.get("spare", ""), "Python": made["python"], **made["versions"]}
    pairs.append(("with", ", ".join(f"{name} {version}" for name, version in versions.items() if version)))
    pairs += [("machine", made["machine"]), ("time", made["time"])]
    return Section("provenance", "How this was made", (Facts(tuple(pairs)),))
