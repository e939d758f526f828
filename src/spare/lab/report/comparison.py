"""The page of a comparison (`spare demo`, or a model file with data): the model, how it compares, its calibration."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from spare.errors import FileError
from spare.lab.experiments.comparison import FORMAT
from spare.lab.report import html
from spare.lab.report.html import Cell, Large, Page, Section
from spare.lab.report.learned import calibration_section, rules_section, scenes_section, search_section, told_first


def comparison_page(path: pathlib.Path, record: Mapping[str, Any]) -> Page:
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


def _document(record: Mapping[str, Any]) -> Page:
    learned, methods = record["learned"], record["methods"]
    rest = [*dict.fromkeys(learned.get("rest", []))]
    said = f"of all others it says: {'; '.join(rest)}." if rest else "all others are predicted to stay where they are."
    about = f"Objects that the rule points at are predicted; {said}"
    ranks = {name: one["ranks"] for name, one in methods.items()}
    sections = [
        told_first(next(iter(methods.values())).get("failures", []), learned.get("notes", [])),
        _compared(record, methods),
        rules_section(learned, about),
        scenes_section(learned.get("scenes", [])),
        search_section(learned),
        calibration_section(ranks, "Values of objects that moved, in unseen transitions."),
        _provenance(record),
    ]
    return Page(record["title"], record["about"], [one for one in sections if one is not None])


GROUPS = {
    "acted": "Objects of the action",
    "moved": "Other objects that moved",
    "bystanders": "Bystanders",
}


MEAN_OF_ALL = (
    "Errors are those of the mean of all outcomes, where no object need ever be; nats judge each outcome by itself."
)


def _compared(record: Mapping[str, Any], methods: Mapping[str, Any]) -> Section:
    """Scores by group of objects, so that a good number for one does not stand for all; of old records, all moved."""
    first = next(iter(methods.values()))
    groups = {name: one for name, one in first.get("groups", {}).items() if one["objects"]}
    figures = [Large(f"{one['nats']:.2f}", f"nats per value: {GROUPS[name].lower()}") for name, one in groups.items()]
    if not groups:
        figures = [Large(f"{first['nats']:.2f}", "nats per value of moved objects", "good")]
        figures += [Large(f"{value:.3g}", name, "good") for name, value in list(first["errors"].items())[:1]]
    figures += [Large(number, name) for number, name in record.get("figures", [])]
    tables = []
    for name, one in groups.items():
        title = f"{GROUPS[name]} ({one['objects']:,})"
        tables += [html.subtitle(title), _table({key: m | m["groups"][name] for key, m in methods.items()})]
    if not groups and len(methods) > 1:
        tables = [_table(methods)]
    said = [record["caption"]] if record.get("caption") and tables else []
    if "outcomes (" in record["learned"]["rules"]:
        said.append(MEAN_OF_ALL)
    caption = [html.note(" ".join(said))] if said else []
    return Section("scores", "How it compares", [html.headline(figures), *tables, *caption])


def _table(methods: Mapping[str, Any]) -> str:
    """One row for each method: nats, errors, and how long it learned."""
    names, nats = list(next(iter(methods.values()))["errors"]), [one["nats"] for one in methods.values()]
    span = max(nats) - min(0.0, max(min(nats), -3.0)) or 1.0
    timed = any(one["seconds"] is not None for one in methods.values())
    rows = []
    for one in methods.values():
        share = min(1.0, max(0.0, (one["nats"] - max(nats) + span) / span))
        cells: list[str | Cell] = [one["label"], html.bar(f"{one['nats']:.2f}", share, best=one["nats"] == max(nats))]
        for name in names:
            every, value = [other["errors"][name] for other in methods.values()], one["errors"][name]
            best, share = value == min(every), value / (max(every) or 1.0)
            cells.append(html.bar(f"{value:.3g}", share, best=best, cost=True))
        rows.append([*cells, *(["" if one["seconds"] is None else f"{one['seconds']:.0f} s"] if timed else [])])
    head = ("", "nats per value ↑", *(f"{name} ↓" for name in names), *(["learned in"] if timed else []))
    return html.table(head, rows)


def _provenance(record: Mapping[str, Any]) -> Section:
    made, facts = record["made"], record["learned"]["provenance"]
    pairs = [(name, str(value)) for name, value in record.get("facts", {}).items()]
    words = {"data": "training data", "transitions": "training transitions"}
    pairs += [(words.get(name, name), str(value)) for name, value in facts.items() if name not in {"spare", "jax"}]
    versions = {"SPARE": facts.get("spare", ""), "Python": made["python"], **made["versions"]}
    pairs.append(("with", ", ".join(f"{name} {version}" for name, version in versions.items() if version)))
    pairs += [("machine", made["machine"]), ("time", made["time"])]
    return Section("provenance", "How this was made", [html.facts(pairs)])
