"""Sections about one learned model, from its stored record (see `experiments/learned.py`)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from spare.lab.experiments.figures import COLOURS
from spare.lab.experiments.learned import LEVELS, coverage
from spare.lab.experiments.methods import LABELS
from spare.lab.report.charts import Axes, Line, line_chart, rank_histogram, search_chart
from spare.lab.report.document import (
    Block,
    Cell,
    Chart,
    Code,
    Diagram,
    Fold,
    Key,
    Mark,
    Paragraph,
    Row,
    Scene,
    Section,
    Table,
)
from spare.names import tabled

MOVES = {"start": "empty", "grow": "longer", "drop": "shorter", "replace": "changed"}
"""Lists that a round tried, compared with what had been kept."""


def rules_section(record: Mapping[str, Any], about: str) -> Section:
    """The rules in words and as a diagram."""
    blocks: list[Block] = [Paragraph(about)]
    if record.get("diagram"):
        blocks.append(Diagram(record["diagram"], "The rules as a diagram: arrows are references, boxes what they find"))
    blocks.append(Code(record["rules"]))
    return Section("rules", "What was learned", tuple(blocks))


def search_section(record: Mapping[str, Any]) -> Section | None:
    """How each action's lists were found; None if the record does not say."""
    blocks: list[Block] = []
    for search in record.get("search", []):
        blocks += _rounds(search) if "rounds" in search else _iterations(search)
    return Section("search", "How the search went", tuple(blocks)) if blocks else None


def _rounds(search: Mapping[str, Any]) -> list[Block]:
    rounds: Sequence[dict[str, Any]] = search["rounds"]
    trained = sum(c["skipped"] is None for r in rounds for c in r["explored"])
    skipped = sum(len(r["explored"]) for r in rounds) - trained
    seconds = sum(r["seconds"] for r in rounds)
    text = (
        f"{trained} candidate lists of references were trained in {len(rounds)} rounds and {seconds:.0f} s, {skipped} "
        f"more skipped because they add nothing. It found {_shown(search['found'])}: {search['ended']}."
    )
    chart = Chart(
        search_chart(rounds),
        "Every candidate",
        "A ring is a candidate's score on validation samples; filled: kept. Point at one to see its list.",
    )
    rows = tuple(_round(k, one) for k, one in enumerate(rounds))
    head = ("round", "tried", "best list", "validation", "gain", "p", "verdict")
    table = Table(head, rows, many=True)
    folds = [_candidates(k, one) for k, one in enumerate(rounds) if len(one["explored"]) > 1]
    return [Paragraph(text, f"{search['action']}."), chart, table, Fold("All candidates of all rounds", tuple(folds))]


def _round(k: int, one: Mapping[str, Any]) -> tuple[Cell, ...]:
    trained = sum(c["skipped"] is None for c in one["explored"])
    verdict = Mark("start") if not k else Mark("kept", "good") if one["kept"] else Mark("not kept")
    tested = bool(k and trained)
    return (
        str(k),
        f"{trained} {MOVES[one['move']]}",
        _shown(one["best"]) if one["best"] is not None else "none",
        _score(one["loss"]),
        f"{one['gain']:+.2f}" if tested and one["gain"] is not None else "",
        _chance(one["p_value"]) if tested and one["p_value"] is not None else "",
        verdict,
    )


def _score(loss: float | None) -> str:
    """Mean log p of validation samples."""
    return "" if loss is None else f"{-loss:.2f}"


def _shown(shell: str) -> str:
    """A list as people write it; the arrow is one sign, so that no line breaks inside it."""
    return "[" + shell.replace("->", "→") + "]"


def _chance(p: float) -> str:
    return f"{p:.2g}" if p >= 1e-6 else "<1e‑6"  # a hyphen that does not break


def _candidates(k: int, one: Mapping[str, Any]) -> Table:
    rows = []
    for c in sorted(one["explored"], key=lambda c: math.inf if c["loss"] is None else c["loss"]):
        changes = "" if c["delta"] == c["gamma"] else f" changes {_shown(c['delta'])}"
        score = c["skipped"] or (f"{_score(c['loss'])} nats" if c["loss"] is not None else "-")
        rows.append((_shown(c["gamma"]) + changes, score, f"{c['applies']:.0%}" if not c["skipped"] else ""))
    return Table((f"round {k}: list", "validation, or why not trained", "applies to"), tuple(rows), many=True)


def _iterations(search: Mapping[str, Any]) -> list[Block]:
    rows = []
    for one in search["iterations"]:
        heaviest = [next(iter(shells.items())) for shells in one["shells"]]
        rules = "; ".join(
            f"{share:.0%} of samples, {_shown(shell)} weighs {weight:.0%}"
            for share, (shell, weight) in zip(one["shares"], heaviest, strict=True)
        )
        score = "" if one["log_likelihood"] is None else f"{one['log_likelihood']:.2f}"
        rows.append((str(one["iteration"]), score, rules))
    text = "Several rules were learned together by EM; one row is one iteration."
    return [Paragraph(text, f"{search['action']}."), Table(("iteration", "nats", "rules"), tuple(rows), many=True)]


def calibration_section(ranks: Mapping[str, Sequence[int]], about: str) -> Section | None:
    """Coverage of central intervals, and rank histograms, by method."""
    known = {name: counts for name, counts in ranks.items() if sum(counts)}
    if not known:
        return None
    lines, keys, numbers = [], [], io.StringIO()
    writer = csv.writer(numbers, lineterminator="\n")
    writer.writerow(["method", "level", "covered"])
    for name, counts in known.items():
        label, colour = LABELS.get(name, name), COLOURS.get(name, COLOURS["spare"])
        points = tuple((float(level), 100 * coverage(counts, level / 100)) for level in LEVELS)
        lines.append(Line(label, colour, points))
        keys.append(Key(label, colour))
        writer.writerows([tabled(label), level / 100, f"{covered / 100:.4f}"] for level, covered in points)
    axes = Axes("central interval of the prediction, %", "values inside, %", (0.0, 100.0), tuple(map(float, LEVELS)))
    chart = Chart(
        line_chart(lines, axes, diagonal=True),
        "Coverage of prediction intervals",
        "On the dashed line, a 90 % interval covers 90 % of the observations; below it a model is overconfident.",
        tuple(keys),
        ("calibration.csv", numbers.getvalue()),
    )
    histograms = [
        Chart(
            rank_histogram(counts, LABELS.get(name, name), COLOURS.get(name, COLOURS["spare"])),
            LABELS.get(name, name),
        )
        for name, counts in known.items()
    ]
    note = Paragraph(
        "The rank of each observed value among the model's own draws (0 %: below all of them). Level bars: calibrated; "
        "high at both ends: overconfident; high in the middle: underconfident. Values that hardly change gather in the "
        "middle, since every variance includes the square of the resolution."
    )
    return Section("calibration", "Calibration", (Paragraph(about), chart, note, Row(tuple(histograms))))


def scenes_section(stored: Sequence[Mapping[str, Any]], title: str = "Unseen transitions") -> Section | None:
    """Transitions as `experiments/scenes.py` stores them, in pairs, an odd one first and large; None without any."""
    if not stored:
        return None
    scenes = [Scene(one["title"], one["explained"], dict(one) if "objects" in one else None) for one in stored]
    odd = len(scenes) % 2
    rows = (Row(tuple(scenes[odd:])),) if scenes[odd:] else ()
    return Section("transitions", title, (Paragraph(_legend([s.geometry for s in scenes])), *scenes[:odd], *rows))


def _legend(geometries: Sequence[Mapping[str, Any] | None]) -> str:
    """What colours and marks mean, as far as they are there."""
    drawn = [one for one in geometries if one is not None]
    if not drawn:
        return "What was predicted, and what was observed."
    text = "Red: the object that is acted on; yellow: other objects that moved. Dashed lines show where they stood."
    if any(one["arrow"] for one in drawn):
        text += " The blue arrow is the action."
    if any(one["expected"] for scene in drawn for one in scene["objects"]):
        text += (
            " Violet ellipses show where the centre of an object is predicted to be, one and two standard deviations "
            "wide; the white dot is where it was observed. Green arrows are the references of the rule."
        )
    return text + " Drag to turn; Ctrl and wheel, or + and -, to zoom."
