"""Figures as PNG and SVG, with the numbers in them as CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from spare.io.atomic import replacing
from spare.lab.experiments.methods import COLOURS
from spare.lab.experiments.statistics import Estimate
from spare.names import tabled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST = 4
"""Runs below which no band is drawn: Student's interval of two or three hides the chart. The CSV has it anyhow."""
CYCLE = ("#0b6e4f", "#2b59c3", "#c1440e", "#7b4ea3", "#b8860b", "#8a8a8a")


class Curve(NamedTuple):
    """Estimates over x, with a label; `key` chooses the colour, `dashed` the line; `right` uses the second axis."""

    label: str
    x: Sequence[float]
    y: Sequence[Estimate]
    key: str = ""
    dashed: bool = False
    right: bool = False

    @classmethod
    def level(cls, label: str, x: Sequence[int | float], at: Estimate) -> Curve:
        """The noise of a world as a dashed line, without a band."""
        return cls(label, x, tuple(at._replace(low=at.mean, high=at.mean) for _ in x), "noise", dashed=True)


@dataclasses.dataclass(frozen=True)
class Picture:
    """A chart of curves with 95 % bands; `floor` cuts off what is far below, and the chart says so.

    The axis follows the means: a band that is much wider is cut. `bounds` are those of what is drawn, such as (0, 1).
    """

    name: str
    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    right: str = ""
    logarithmic: bool = False
    floor: float | None = None
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def near(self, floor: float) -> Picture:
        """The same, from `floor` up."""
        return dataclasses.replace(self, name=f"{self.name}-near", floor=floor)

    def save(self, folder: pathlib.Path) -> list[pathlib.Path]:
        """Write <name>.png, .svg and .csv; the paths."""
        return _write(self._draw(), folder, self.name, self.csv())

    def csv(self) -> str:
        """All numbers; limits that do not exist are empty."""
        head = ["curve", self.x, "mean", "low", "high", "runs"]
        rows = [
            [curve.label, x, *(one if math.isfinite(one) else "" for one in point[:3]), point.runs]
            for curve in self.curves
            for x, point in zip(curve.x, curve.y, strict=True)
        ]
        return _csv([head, *rows])

    def table(self) -> tuple[list[str], list[list[str]]]:
        """(every x as text, a row of text for each curve: its label, then its estimate at each x)."""
        every = sorted({x for curve in self.curves for x in curve.x})
        rows = []
        for curve in self.curves:
            known = dict(zip(curve.x, curve.y, strict=True))
            rows.append([curve.label, *(known[x].short() if x in known else "" for x in every)])
        return [f"{x:,}" for x in every], rows

    def caption(self) -> str:
        """What the table shows."""
        return f"{self.y}, by {self.x}" + (f"; {self.right}" if self.right else "")

    def colour(self, k: int) -> str:
        """The colour of the k-th curve."""
        return COLOURS.get(self.curves[k].key, CYCLE[k % len(CYCLE)])

    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """What the left and the right axis show."""
        sides = [[curve for curve in self.curves if curve.right == right] for right in (False, True)]
        return self._limits(sides[0]), self._limits(sides[1])

    def _draw(self) -> Figure:
        figure, axes = _blank()
        second = axes.twinx() if self.right else None
        for k, curve in enumerate(self.curves):
            side = second if curve.right and second is not None else axes
            _line(side, curve, self.band(curve), self.colour(k))
        axes.set_title(self.title, loc="left", fontsize=12, fontweight="bold")
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        if self.logarithmic:
            axes.set_xscale("log")
            axes.minorticks_off()
        ticks = sorted({x for curve in self.curves for x in curve.x})
        slanted: dict[str, Any] = {"fontsize": 8, "rotation": 45} if self.logarithmic else {}
        axes.set_xticks(ticks, [f"{x:,.0f}" for x in ticks], **slanted)
        if second is not None:
            second.set_ylabel(self.right)
            second.spines[["top"]].set_visible(False)
            second.set_ylim(*self.limits()[1])
        axes.set_ylim(*self.limits()[0])
        if self.cut():
            axes.text(0.99, 0.01, "lower values are cut off: see the table", transform=axes.transAxes, **_SMALL)
        lines = [*axes.get_lines(), *(second.get_lines() if second is not None else [])]
        axes.legend(
            handles=lines, frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.12 if second else 1.01, 0.5)
        )
        return figure

    def band(self, curve: Curve) -> list[tuple[float, float, float]]:
        """(x, low, high) where an interval is drawn: of enough runs, and around a mean that is itself shown."""
        floor = -math.inf if self.floor is None else self.floor
        pairs = [(float(x), y) for x, y in zip(curve.x, curve.y, strict=True)]
        return [(x, y.low, y.high) for x, y in pairs if math.isfinite(y.low) and y.runs >= FEWEST and y.mean >= floor]

    def cut(self) -> bool:
        """Whether something is below what is shown."""
        lowest = min((one.mean for curve in self.curves for one in curve.y if math.isfinite(one.mean)), default=0.0)
        return self.floor is not None and lowest < self.floor

    def _limits(self, curves: Sequence[Curve]) -> tuple[float, float]:
        """From the lowest to the highest mean that is shown, and as much of the bands as half of that again."""
        floor = -math.inf if self.floor is None else self.floor
        points = [one for curve in curves for one in curve.y if one.mean >= floor]
        if not points:
            return 0.0, 1.0
        low, high = min(one.mean for one in points), max(one.mean for one in points)
        span = (high - low) or max(1.0, abs(high))
        banded = [one for one in points if math.isfinite(one.low) and one.runs >= FEWEST]
        bottom = max(min([low, *(one.low for one in banded)]), low - span / 2)
        top = min(max([high, *(one.high for one in banded)]), high + span / 2)
        bottom, top = max(bottom, floor, self.bounds[0]) - 0.04 * span, min(top, self.bounds[1]) + 0.04 * span
        return bottom, top


_SMALL: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 8, "color": "#555555"}


@dataclasses.dataclass(frozen=True)
class Grid:
    """A table of means and deviations, coloured by mean, beside the paper's."""

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Estimate, ...], ...]
    paper: tuple[tuple[float, ...], ...]

    def save(self, folder: pathlib.Path) -> list[pathlib.Path]:
        """Write <name>.png, .svg and .csv; the paths."""
        figure, pair = _blank(1, 2, (9.0, 3.4))
        means = [[one.mean for one in row] for row in self.cells]
        for axes, numbers, label in zip(pair, (means, self.paper), ("here", "the paper"), strict=True):
            axes.imshow(numbers, cmap="Greens", vmin=0, vmax=1.2)
            axes.set_xticks(range(len(self.columns)), self.columns)
            axes.set_yticks(range(len(self.rows)), self.rows)
            axes.set_title(label, fontsize=10)
            axes.grid(visible=False)
            for i, row in enumerate(numbers):
                for j, value in enumerate(row):
                    colour = "white" if value > 0.7 else "black"
                    axes.text(j, i, f"{value:.3f}", ha="center", va="center", color=colour)
        figure.suptitle(self.title, x=0.02, ha="left", fontsize=12, fontweight="bold")
        rows = [
            [row, column, *(one if math.isfinite(one) else "" for one in self.cells[i][j][:3]), self.paper[i][j]]
            for i, row in enumerate(self.rows)
            for j, column in enumerate(self.columns)
        ]
        head = ["cluster", "stack", "mean", "low", "high", "paper"]
        return _write(figure, folder, self.name, _csv([head, *rows]))


def _blank(rows: int = 1, columns: int = 1, size: tuple[float, float] = (8.4, 4.4)) -> tuple[Figure, Any]:
    """A figure and its axes, made without touching global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(rows, columns)
    for one in axes.flat if rows * columns > 1 else (axes,):
        one.grid(visible=True, alpha=0.25)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _line(axes: Axes, curve: Curve, band: list[tuple[float, float, float]], colour: str) -> None:
    known = [(x, one) for x, one in zip(curve.x, curve.y, strict=True) if math.isfinite(one.mean)]
    x = [at for at, _ in known]
    style = "--" if curve.dashed else "-"
    marker = "" if curve.key == "noise" else "o"
    axes.plot(x, [one.mean for _, one in known], style, marker=marker, ms=4, color=colour, label=curve.label)
    if band:
        at, low, high = zip(*band, strict=True)
        axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)


def _write(figure: Figure, folder: pathlib.Path, name: str, numbers: str) -> list[pathlib.Path]:
    import matplotlib

    paths = [folder / f"{name}.{kind}" for kind in ("png", "svg", "csv")]
    for path, metadata in zip(paths, ({"Software": None}, {"Date": None, "Creator": None}), strict=False):
        # Names inside an SVG are random, unless salted: the same numbers shall give the same file.
        with replacing(path) as target, matplotlib.rc_context({"svg.hashsalt": name}):
            figure.savefig(target, format=path.suffix[1:], dpi=160, metadata=metadata, facecolor="white")
    with replacing(paths[-1]) as target:
        target.write_text(numbers, "utf-8")
    return paths


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([tabled(one) for one in row] for row in rows)
    return text.getvalue()
