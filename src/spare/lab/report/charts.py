"""Charts as SVG for a page: colours come from the page's style sheet, so that one drawing suits light, dark and paper.

Each coloured element has its method's colour as the variable --c; the style sheet makes it lighter on a dark ground.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from html import escape

WIDTH, HEIGHT = 540.0, 330.0
TOP, BOTTOM, LEFT = 12.0, 48.0, 58.0


@dataclasses.dataclass(frozen=True)
class Scale:
    """From data to pixels on one axis; logarithmic if asked for."""

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high, at = (math.log(v) if self.logarithmic else v for v in (self.low, self.high, value))
        return self.begin + (at - low) / ((high - low) or 1.0) * (self.end - self.begin)


@dataclasses.dataclass(frozen=True)
class Line:
    """Points (x, y), with (low, high) around each where known; on the second axis if `right`."""

    label: str
    colour: str
    points: tuple[tuple[float, float], ...]
    bands: tuple[tuple[float, float, float], ...] = ()
    dashed: bool = False
    right: bool = False
    dots: bool = True


@dataclasses.dataclass(frozen=True)
class Axes:
    """Names, limits and ticks of a chart."""

    x: str
    y: str
    limits: tuple[float, float]
    ticks: tuple[float, ...]
    right: str = ""
    right_limits: tuple[float, float] = (0.0, 1.0)
    logarithmic: bool = False
    note: str = ""


def line_chart(lines: Sequence[Line], axes: Axes, diagonal: bool = False) -> str:
    """Lines with bands and dots; each dot tells its numbers when pointed at."""
    edge = WIDTH - (58.0 if axes.right else 14.0)
    pad = 0.0 if axes.logarithmic else 0.02 * (axes.ticks[-1] - axes.ticks[0] or 1.0)
    x = Scale(axes.ticks[0] - pad, axes.ticks[-1] + pad, LEFT, edge, axes.logarithmic)
    y = Scale(*axes.limits, HEIGHT - BOTTOM, TOP)
    second = Scale(*axes.right_limits, HEIGHT - BOTTOM, TOP)
    parts = frame(axes, x, y, edge)
    if diagonal:
        parts.append(
            f'<path class="level" d="M{x(axes.ticks[0]):.1f} {y(axes.ticks[0]):.1f}'
            f'L{x(axes.ticks[-1]):.1f} {y(axes.ticks[-1]):.1f}"/>'
        )
    if axes.right:
        parts += _right(axes, second, edge)
    # An inner picture cuts off what is outside; bands come first, so that no line is hidden by another's.
    box = f"{LEFT - 6} {TOP - 6} {edge - LEFT + 12} {HEIGHT - BOTTOM - TOP + 6}"
    x0, y0, wide, high = box.split()
    parts.append(f'<svg x="{x0}" y="{y0}" width="{wide}" height="{high}" viewBox="{box}">')
    parts += [_band(line, x, second if line.right else y) for line in lines if line.bands]
    for line in lines:
        parts += _line(line, x, second if line.right else y)
    return drawing([*parts, "</svg>"], f"{axes.y} by {axes.x}")


def drawing(parts: Sequence[str], label: str, height: float = HEIGHT) -> str:
    """The SVG element around its parts."""
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
    return head + "".join(parts) + "</svg>"


def frame(axes: Axes, x: Callable[[float], float], y: Scale, edge: float) -> list[str]:
    """Grid, ticks and names."""
    floor, parts = HEIGHT - BOTTOM, []
    for tick in nice(*axes.limits):
        at = y(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{edge}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {floor}H{edge}"/>')
    last = -math.inf
    for tick in axes.ticks:
        at, text = x(tick), number(tick)
        parts.append(f'<path class="axis" d="M{at:.1f} {floor}v4"/>')
        if at - last > 8 * len(text) + 6:  # a label that would touch the one before is left out
            parts.append(f'<text x="{at:.1f}" y="{floor + 18}" text-anchor="middle">{text}</text>')
            last = at
    parts.append(f'<text x="{(LEFT + edge) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(axes.x)}</text>')
    parts.append(_upright(axes.y, 14.0))
    if axes.note:
        parts.append(
            f'<text x="{edge}" y="{HEIGHT - 8}" text-anchor="end" font-style="italic">{escape(axes.note)}</text>'
        )
    return parts


def _upright(text: str, x: float) -> str:
    y = (TOP + HEIGHT - BOTTOM) / 2
    return f'<text transform="translate({x} {y}) rotate(-90)" text-anchor="middle">{escape(text)}</text>'


def _right(axes: Axes, scale: Scale, edge: float) -> list[str]:
    ticks = nice(*axes.right_limits)
    parts = [f'<text x="{edge + 8}" y="{scale(tick) + 4:.1f}">{number(tick)}</text>' for tick in ticks]
    return [*parts, _upright(axes.right, WIDTH - 4.0)]


def _band(line: Line, x: Scale, y: Scale) -> str:
    there = [f"{x(at):.1f} {y(high):.1f}" for at, _, high in line.bands]
    back = [f"{x(at):.1f} {y(low):.1f}" for at, low, _ in reversed(line.bands)]
    return f'<path class="band" style="--c:{line.colour}" d="M{"L".join([*there, *back])}Z"/>'


def _line(line: Line, x: Scale, y: Scale) -> list[str]:
    shown = [(at, value) for at, value in line.points if math.isfinite(value)]
    style = f'style="--c:{line.colour}"'
    kind = "curve dashed" if line.dashed else "curve"
    path = "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in shown)
    parts = [f'<path class="{kind}" {style} d="M{path}"/>'] if len(shown) > 1 else []
    if line.dots:
        for at, value in shown:
            told = escape(f"{line.label}: {value:.3g} at {number(at)}")
            place = f'cx="{x(at):.1f}" cy="{y(value):.1f}"'
            parts.append(f'<circle class="dot" {style} {place} r="3.6"><title>{told}</title></circle>')
    return parts


def number(value: float) -> str:
    """A tick's label: few digits, thousands apart, a true minus."""
    text = f"{value:,.0f}" if abs(value) >= 1000 or value == round(value) else f"{value:.6g}"
    return text.replace("-", "−")


def nice(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers between low and high, about `count` of them."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 10) for k in range(first, math.floor(high / step + 1e-9) + 1)]
