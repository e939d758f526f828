"""The page of a run: the command, every claim with its numbers and verdict, every figure as a table."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from html import escape

from spare.io.atomic import replacing
from spare.lab.experiments.catalogue import BEYOND, EXPERIMENTS
from spare.lab.experiments.claims import Claim, Summary
from spare.lab.experiments.experiment import Experiment
from spare.lab.experiments.figures import Grid, Picture
from spare.lab.experiments.runs import Size
from spare.names import shown

PLURAL = {
    "holds": "hold",
    "does not hold": "do not hold",
    "not decided": "are not decided",
    "no numbers": "have no numbers",
}


def write_page(
    path: pathlib.Path,
    experiments: Sequence[Experiment],
    pictures: Mapping[str, Sequence[Picture | Grid]],
    summary: Summary,
    size: Size,
) -> None:
    """Write the page, whole or not at all."""
    with replacing(path) as target:
        target.write_text(page(experiments, pictures, summary, size), "utf-8")


def page(
    experiments: Sequence[Experiment], pictures: Mapping[str, Sequence[Picture | Grid]], summary: Summary, size: Size
) -> str:
    """The page as Markdown."""
    papers = any(one.name not in BEYOND for one in experiments)
    title = "The paper's experiments, reproduced" if papers else "How many samples are needed"
    lines = [f"# {title}", "", *_head(experiments, summary, size)]
    lines += ["", "## Claims", "", *_tally(summary), "", *_claims([c for v in summary.claims.values() for c in v])]
    if summary.failed:
        lines += ["", "## Runs that failed", ""]
        lines += [f"- {escape(shown(f'{name}: {reason}'), quote=False)}" for name, reason in summary.failed.items()]
    for one in experiments:
        paper = [f"**The paper.** {one.paper}", ""] if one.name not in BEYOND else []
        lines += ["", f"## {one.name}: {one.title}", "", *paper, f"**Here.** {one.differs}"]
        for picture in [picture for picture in pictures[one.name] if not picture.name.endswith("-near")]:
            lines += ["", *(_grid(picture) if isinstance(picture, Grid) else _table(picture))]
    return "\n".join(lines) + "\n"


def command(experiments: Sequence[Experiment], size: Size) -> str:
    """What to type to make the run again."""
    chosen = [one.name for one in experiments]
    quick = " --quick" * (size.name == "quick")
    if chosen == list(BEYOND):
        return f"spare bench samples{quick}"
    return f"spare reproduce {'all' if chosen == list(EXPERIMENTS) else ' '.join(chosen)}{quick}"


def _head(experiments: Sequence[Experiment], summary: Summary, size: Size) -> list[str]:
    papers = any(one.name not in BEYOND for one in experiments)
    report = "; `spare report results` makes one to look at" if papers else ""
    lines = [f"`{command(experiments, size)}` wrote this page{report}."]
    if size.name == "quick":
        lines += [
            "",
            f"**A quick look**: few runs on little data, trained for {size.effort:.0%} of the time. Its verdicts",
        ]
        lines += ["mean little; a run without `--quick` is what counts."]
    runs = f"{size.test} unseen ones in each run; {size.seeds} runs, if nothing else is said"
    if papers:
        runs = f"{size.samples:,} training pushes (at most 15 % held out) and {runs}, {size.tables} of each table"
    else:
        runs = f"As many training pushes as is said (at most 15 % held out), the same for every learner, and {runs}"
    lines += [
        "",
        f"{runs}. All likelihoods are true nats, every variance "
        f"includes the square of 1 mm, intervals are 95 % over runs. {summary.runs} runs took "
        f"{summary.seconds / 60:.0f} minutes of processor time in all, the simulation of data not counted.",
    ]
    return lines


def _tally(summary: Summary) -> list[str]:
    lines = []
    for source, name in (("paper", "The paper's"), ("ours", "Our own")):
        verdicts = [c.verdict for those in summary.claims.values() for c in those if c.source == source]
        counts = ", ".join(f"{verdicts.count(v)} {PLURAL[v]}" for v in dict.fromkeys(sorted(verdicts)))
        lines.append(f"- {name} claims: {len(verdicts)}; {counts or 'none'}.")
    return lines


def _claims(claims: Sequence[Claim]) -> list[str]:
    lines = ["| claim | source | what was measured | required | found | verdict |", "|---|---|---|---|---|---|"]
    for one in claims:
        verdict = one.verdict if one.verdict == "holds" else f"**{one.verdict}**"
        found = "-" if math.isnan(one.estimate.mean) else str(one.estimate)
        lines.append(f"| {one.says} | {one.source} | {one.quantity} | {one.bound} | {found} | {verdict} |")
    return lines


def _table(picture: Picture) -> list[str]:
    """Curves as rows, x as columns."""
    every, rows = picture.table()
    lines = [f"*{picture.name}: {picture.caption()}*", "", "| |" + "".join(f" {x} |" for x in every)]
    return [*lines, "|---" * (len(every) + 1) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def _grid(grid: Grid) -> list[str]:
    """Ours, and the paper's number in parentheses."""
    lines = [f"*{grid.name}: here (the paper)*", "", "| | " + " | ".join(grid.columns) + " |", "|---|---|---|---|"]
    for i, row in enumerate(grid.rows):
        cells = [f"{grid.cells[i][j].short()} ({grid.paper[i][j]:.3f})" for j in range(len(grid.columns))]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return lines
