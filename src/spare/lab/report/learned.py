"""Sections about one learned model, from its stored record (see `experiments/learned.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from spare.lab.experiments.comparison import calibration
from spare.lab.experiments.figures import Picture
from spare.lab.experiments.methods import COLOURS, LABELS
from spare.lab.report import html
from spare.lab.report.charts import line_chart, rank_histogram, search_chart
from spare.lab.report.html import Cell, Key, Section

MOVES = {"start": "empty", "grow": "longer", "drop": "shorter", "replace": "changed"}
"""Lists that a round tried, compared with what had been kept."""


def chart(picture: Picture, note: str = "") -> str:
    """A picture for the page, with its legend and its numbers."""
    keys = [Key(curve.label, picture.colour(k), curve.dashed) for k, curve in enumerate(picture.curves)]
    title = picture.title + ", close up" * picture.name.endswith("-near")
    return html.figure(line_chart(picture), title, note, keys, {f"{picture.name}.csv": picture.csv()})


def told_first(failures: Sequence[str], notes: Sequence[str]) -> Section | None:
    """What a reader must know before any number: what is not predicted, and what the fit said; None if nothing."""
    if not failures and not notes:
        return None
    parts = [html.warning(one, "Not predicted.") for one in failures]
    parts += [html.warning(one, "From the fit.", tone="open") for one in notes]
    return Section("notes", "Read this first", parts)


def rules_section(record: Mapping[str, Any], about: str) -> Section:
    """The rules in words and as a diagram."""
    parts = [html.paragraph(about)]
    if record.get("diagram"):
        label = "The rules as a diagram: arrows are references, boxes what they find"
        parts.append(html.diagram(record["diagram"], label))
    return Section("rules", "What was learned", [*parts, html.code(record["rules"])])


def search_section(record: Mapping[str, Any]) -> Section | None:
    """How each action's lists were found; None if the record does not say."""
    parts: list[str] = []
    for search in record.get("search", []):
        parts += _rounds(search) if "rounds" in search else _iterations(search)
    return Section("search", "How the search went", parts) if parts else None


def _rounds(search: Mapping[str, Any]) -> list[str]:
    rounds: Sequence[dict[str, Any]] = search["rounds"]
    trained = sum(c["skipped"] is None for r in rounds for c in r["explored"])
    skipped = sum(len(r["explored"]) for r in rounds) - trained
    seconds = sum(r["seconds"] for r in rounds)
    text = (
        f"{trained} candidate lists of references were trained in {len(rounds)} rounds and {seconds:.0f} s, {skipped} "
        f"more skipped because they add nothing. It found {_shown(search['found'])}: {search['ended']}."
    )
    every = html.figure(
        search_chart(rounds),
        "Every candidate",
        "A ring is a candidate's score on validation samples; filled: kept. Point at one to see its list.",
    )
    rows = tuple(_round(k, one) for k, one in enumerate(rounds))
    head = ("round", "tried", "best list", "validation", "gain", "p", "verdict")
    folds = [_candidates(k, one) for k, one in enumerate(rounds) if len(one["explored"]) > 1]
    about, table = html.paragraph(text, f"{search['action']}."), html.table(head, rows, cards=True)
    return [about, every, table, html.fold("All candidates of all rounds", folds)]


def _round(k: int, one: Mapping[str, Any]) -> tuple[str | Cell, ...]:
    trained = sum(c["skipped"] is None for c in one["explored"])
    verdict = html.mark("start") if not k else html.mark("kept", "good") if one["kept"] else html.mark("not kept")
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


def _candidates(k: int, one: Mapping[str, Any]) -> str:
    rows = []
    for c in sorted(one["explored"], key=lambda c: math.inf if c["loss"] is None else c["loss"]):
        changes = "" if c["delta"] == c["gamma"] else f" changes {_shown(c['delta'])}"
        score = c["skipped"] or (f"{_score(c['loss'])} nats" if c["loss"] is not None else "-")
        rows.append((_shown(c["gamma"]) + changes, score, f"{c['applies']:.0%}" if not c["skipped"] else ""))
    return html.table((f"round {k}: list", "validation, or why not trained", "applies to"), rows, cards=True)


def _iterations(search: Mapping[str, Any]) -> list[str]:
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
    about = html.paragraph(text, f"{search['action']}.")
    return [about, html.table(("iteration", "nats", "rules"), rows, cards=True)]


def calibration_section(ranks: Mapping[str, Sequence[int]], about: str) -> Section | None:
    """Coverage of central intervals, and rank histograms, by method."""
    known = {name: counts for name, counts in ranks.items() if sum(counts)}
    if not known:
        return None
    note = "On the dashed line, a 90 % interval covers 90 % of the observations; below it a model is overconfident."
    histograms = [
        html.figure(
            rank_histogram(counts, LABELS.get(name, name), COLOURS.get(name, COLOURS["spare"])), LABELS.get(name, name)
        )
        for name, counts in known.items()
    ]
    words = (
        "The rank of each observed value among the model's own draws (0 %: below all of them). Level bars: calibrated; "
        "high at both ends: overconfident; high in the middle: underconfident. Values that hardly change gather in the "
        "middle, since every variance includes the square of the resolution."
    )
    parts = [html.paragraph(about), chart(calibration(known), note), html.paragraph(words), html.row(histograms)]
    return Section("calibration", "Calibration", parts)


def scenes_section(stored: Sequence[Mapping[str, Any]], title: str = "Unseen transitions") -> Section | None:
    """Transitions as `experiments/scenes.py` stores them, in pairs, an odd one first and large; None without any."""
    if not stored:
        return None
    odd = len(stored) % 2
    drawn = [html.scene(one) for one in stored]
    return Section("transitions", title, [html.paragraph(_legend(stored)), *drawn[:odd], html.row(drawn[odd:])])


def _legend(stored: Sequence[Mapping[str, Any]]) -> str:
    """What colours and marks mean, as far as they are there."""
    drawn = [one for one in stored if "objects" in one]
    if not drawn:
        return "What was predicted, and what was observed."
    text = "Red: the object that is acted on; yellow: other objects that moved. Dashed lines show where they stood."
    if any(one["arrow"] for one in drawn):
        text += " The blue arrow is the action."
    if any(one["expected"] for scene in drawn for one in scene["objects"]):
        text += (
            " Violet ellipses show where the centre of an object is predicted to be, one and two standard deviations "
            "wide; the white dot is where it was observed."
        )
    if any(len(one.get("outcomes", [])) > 1 for scene in drawn for one in scene["objects"]):
        text += " Where several things may happen, each has its ellipses, the fainter the less probable."
    if any(scene["references"] for scene in drawn):
        text += " Green arrows are the references of the rule."
    return text + " Drag to turn; Ctrl and wheel, or + and -, to zoom."
