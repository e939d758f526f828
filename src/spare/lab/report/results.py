"""The page of a results folder (`spare reproduce`): claims, every figure and table, one model in detail, provenance."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping
from typing import Any

from spare.errors import FileError
from spare.lab.experiments.catalogue import EXPERIMENTS
from spare.lab.experiments.experiment import Experiment, Results, score_runs
from spare.lab.experiments.figures import Grid
from spare.lab.experiments.methods import METHODS
from spare.lab.experiments.runs import SIZES, Size
from spare.lab.experiments.statistics import Estimate
from spare.lab.experiments.store import FORMAT, read_json
from spare.lab.report import html
from spare.lab.report.html import Cell, Large, Page, Section, Tone
from spare.lab.report.learned import calibration_section, chart, rules_section, scenes_section, search_section

TONES: dict[str, Tone] = {"holds": "good", "does not hold": "bad", "not decided": "open", "no numbers": "none"}
_NUMBERS = ("mean", "low", "high")
PARTS = {"run", "command", "finished", "claims", "failed", "seconds", "runs"}


class Folder:
    """A results folder, read and checked; nothing is written."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path, self.run = path, read_json(path / "run.json")
        if self.run.get("format") != FORMAT or self.run.get("size") not in SIZES:
            raise FileError(
                f"{path}: these results are of format {self.run.get('format')!r} and size {self.run.get('size')!r}, "
                "which this version of SPARE does not read; run `spare reproduce` again into another folder"
            )
        if not (path / "claims.json").is_file():
            raise FileError(f"{path}: this run is not finished; run the same `spare reproduce` again to go on")
        self.found = read_json(path / "claims.json")
        if not set(self.found) >= PARTS or not isinstance(self.found["claims"], dict):
            raise FileError(f"{path / 'claims.json'}: not written by this version; run `spare reproduce` again")
        self.size: Size = SIZES[self.run["size"]]
        self.experiments = [one for name, one in EXPERIMENTS.items() if name in self.found["claims"]]
        self.results = Results(self.size, self._records())

    def _records(self) -> dict[str, dict[str, Any]]:
        keys = sorted({run.key for one in self.experiments for run in one.runs(self.size)})
        paths = {key: self.path / "runs" / f"{key}.json" for key in keys}
        return {key: read_json(path) for key, path in paths.items() if path.is_file()}

    @property
    def showcase(self) -> dict[str, Any] | None:
        """A run of ours that says how its rules were found, if there is one; else one as in the paper."""
        for method in ("spare", "spare-paper"):
            for extra in (self.size.usual, *self.size.extras):
                value = self.results.value(score_runs(self.size, method, extra=extra)[0])
                if value is not None and "learned" in value:
                    return value
        return None

    @property
    def ranks(self) -> dict[str, list[int]]:
        """Rank counts by method, all runs with the usual number of extra blocks together."""
        found: dict[str, list[int]] = {}
        for method in METHODS:
            values = [self.results.value(run) for run in score_runs(self.size, method, extra=self.size.usual)]
            counts = [one["ranks"] for one in values if one is not None and "ranks" in one]
            if counts:
                found[method] = [sum(column) for column in zip(*counts, strict=True)]
        return found


def results_page(path: pathlib.Path) -> Page:
    """The page of a results folder; a `FileError` if a part of it is missing or damaged."""
    folder = Folder(path)
    try:
        return _document(folder)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, StopIteration) as error:
        raise FileError(
            f"{path}: a result is damaged or of another version ({type(error).__name__}: {error}); run "
            "`spare reproduce` again into another folder"
        ) from error


def _document(folder: Folder) -> Page:
    sections = [_claims(folder)]
    shown = folder.showcase
    if shown is not None:
        record = shown["learned"]
        facts = record["provenance"]
        about = (
            f"One of the models behind the figures: {facts['transitions']:,} pushes of stacks of three among extra "
            f"blocks, preset {facts['preset']}, seed {facts['seed']}. Everything that the rule does not point at is "
            f"expected to stay. On unseen pushes it reaches {shown['stack']:.2f} nats per value of the stack, and its "
            f"expectation is {shown['error']:.1f} mm off."
        )
        parts = (rules_section(record, about), scenes_section(record.get("scenes", [])), search_section(record))
        sections += [one for one in parts if one is not None]
    sections += [_experiment(one, folder.results) for one in folder.experiments]
    about = (
        f"All blocks of the stack in {folder.size.test} unseen pushes of each run, {folder.size.usual} extra blocks."
    )
    calibration = calibration_section(folder.ranks, about)
    sections += [calibration] if calibration is not None else []
    sections.append(_provenance(folder))
    about = (
        "Learning sparse relational transition models, section 5 and appendix B, reproduced from scratch: every claim "
        "with its numbers, an interval and a verdict."
    )
    return Page("The paper's experiments, reproduced", about, sections)


def _claims(folder: Folder) -> Section:
    every = [claim for those in folder.found["claims"].values() for claim in those]
    verdicts = [claim["verdict"] for claim in every]
    counts = [Large(str(verdicts.count(name)), name, tone) for name, tone in TONES.items()]
    parts = [html.headline([one for one in counts if one.tone != "none" or one.number != "0"])]
    if folder.size.name == "quick":
        text = "Few runs on little data, trained briefly: these verdicts mean little."
        parts.append(html.paragraph(text, "A quick look."))
    if folder.found["failed"]:
        parts.append(html.paragraph("Some runs failed; claims that need them have no numbers."))
        parts.append(html.table(("run that failed", "why"), list(folder.found["failed"].items())))
    head = ("claim", "source", "measured", "required", "found", "verdict")
    parts.append(html.table(head, [_claim(one) for one in every], "Intervals are 95 % over runs.", cards=True))
    return Section("claims", "Claims", parts)


def _claim(claim: Mapping[str, Any]) -> tuple[str | Cell, ...]:
    mean, low, high = (math.nan if claim["estimate"][k] is None else claim["estimate"][k] for k in _NUMBERS)
    found = "-" if math.isnan(mean) else str(Estimate(mean, low, high, claim["estimate"]["runs"]))
    mark = html.mark(claim["verdict"], TONES.get(claim["verdict"], "none"))
    return claim["says"], claim["source"], claim["quantity"], claim["bound"], found, mark


def _experiment(one: Experiment, results: Results) -> Section:
    charts: list[str] = []
    tables: list[str] = []
    for picture in one.pictures(results):
        if isinstance(picture, Grid):
            charts += _grid(picture)
            continue
        charts.append(chart(picture))
        if not picture.name.endswith("-near"):
            every, rows = picture.table()
            tables.append(html.table((picture.x, *every), rows, picture.caption()))
    about = [html.paragraph(one.paper, "The paper."), html.paragraph(one.differs, "Here.")]
    parts = [*about, html.row(charts), html.fold("The numbers", tables)]
    return Section(one.name, f"{one.name}: {one.title}", parts, one.name)


def _grid(grid: Grid) -> list[str]:
    """Ours and the paper's beside each other."""
    tables = []
    means = tuple(tuple(one.mean for one in row) for row in grid.cells)
    caption = "mean membership of the samples of each height in each cluster"
    for numbers, where in ((means, "here"), (grid.paper, "the paper")):
        rows = [
            (name, *(html.heat("-", 0.0) if math.isnan(v) else html.heat(f"{v:.3f}", v) for v in row))
            for name, row in zip(grid.rows, numbers, strict=True)
        ]
        tables.append(html.table((where, *grid.columns), rows, caption))
    return tables


def _provenance(folder: Folder) -> Section:
    run, found, size = folder.run, folder.found, folder.size
    versions = ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())
    shown = folder.showcase
    pairs = [
        ("command", found["command"]),
        ("SPARE", str(run["spare"])),
        ("Python", str(run.get("python", ""))),
        ("with", versions),
        ("machine", str(run.get("machine", ""))),
        ("begun", str(run.get("time", ""))),
        ("finished", found["finished"]),
        ("runs", f"{found['runs']}, {len(found['failed'])} failed, {found['seconds'] / 60:.0f} min of processor time"),
        ("data", f"{size.samples:,} training and {size.test} test pushes in each run, simulated for it"),
        ("seeds", f"figures 0 to {size.seeds - 1}, tables 0 to {size.tables - 1}; test sets have their own"),
    ]
    if shown is not None and "data" in shown:
        pairs.append(("data of the model above", f"training {shown['data'][0]}, test {shown['data'][1]}"))
    text = "Every figure is also in the folder's figures/ as PNG, SVG and CSV; every run's numbers are in runs/."
    return Section("provenance", "How this was made", [html.facts(pairs), html.paragraph(text)])
