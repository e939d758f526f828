"""Charts as SVG for a page: colours come from the page's style sheet, so that one drawing suits light, dark and paper.

Each coloured element has its method's colour as the variable --c; the style sheet makes it lighter on a dark ground.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from html import escape
from typing import Any

from spare.lab.experiments.figures import Curve, Picture

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


def line_chart(picture: Picture) -> str:
    """The picture's lines with bands and dots; each dot shows its numbers on hover."""
    ticks = sorted({float(x) for curve in picture.curves for x in curve.x})
    edge = WIDTH - (58.0 if picture.right else 14.0)
    pad = 0.0 if picture.logarithmic else 0.02 * (ticks[-1] - ticks[0] or 1.0)
    x = Scale(ticks[0] - pad, ticks[-1] + pad, LEFT, edge, picture.logarithmic)
    left, right = (Scale(*limits, HEIGHT - BOTTOM, TOP) for limits in picture.limits())
    parts = _frame(picture, ticks, x, left)
    if picture.right:
        marks = nice(right.low, right.high)
        parts += [f'<text x="{edge + 8}" y="{right(tick) + 4:.1f}">{number(tick)}</text>' for tick in marks]
        parts.append(_upright(picture.right, WIDTH - 4.0))
    # An inner picture cuts off what is outside; bands come first, so that no line is hidden by another's.
    box = f"{LEFT - 6} {TOP - 6} {edge - LEFT + 12} {HEIGHT - BOTTOM - TOP + 6}"
    x0, y0, wide, high = box.split()
    parts.append(f'<svg x="{x0}" y="{y0}" width="{wide}" height="{high}" viewBox="{box}">')
    sides = [right if curve.right else left for curve in picture.curves]
    for k, curve in enumerate(picture.curves):
        parts += _band(picture.band(curve), picture.colour(k), x, sides[k])
    for k, curve in enumerate(picture.curves):
        parts += _line(curve, picture.colour(k), x, sides[k])
    return drawing([*parts, "</svg>"], f"{picture.y} by {picture.x}")


def drawing(parts: Sequence[str], label: str, height: float = HEIGHT) -> str:
    """The SVG element around its parts."""
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
    return head + "".join(parts) + "</svg>"


def _frame(picture: Picture, ticks: Sequence[float], x: Scale, y: Scale) -> list[str]:
    """Grid, ticks and names."""
    floor, edge, parts = HEIGHT - BOTTOM, x.end, []
    for tick in nice(y.low, y.high):
        at = y(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{edge}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {floor}H{edge}"/>')
    last = -math.inf
    for tick in ticks:
        at, label = x(tick), number(tick)
        parts.append(f'<path class="axis" d="M{at:.1f} {floor}v4"/>')
        if at - last > 8 * len(label) + 6:  # a label that would touch the one before is left out
            parts.append(f'<text x="{at:.1f}" y="{floor + 18}" text-anchor="middle">{label}</text>')
            last = at
    parts.append(f'<text x="{(LEFT + edge) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(picture.x)}</text>')
    parts.append(_upright(picture.y, 14.0))
    if picture.cut():
        words = "lower values are cut off"
        parts.append(f'<text x="{edge}" y="{HEIGHT - 8}" text-anchor="end" font-style="italic">{words}</text>')
    return parts


def _upright(text: str, x: float) -> str:
    y = (TOP + HEIGHT - BOTTOM) / 2
    return f'<text transform="translate({x} {y}) rotate(-90)" text-anchor="middle">{escape(text)}</text>'


def _band(band: Sequence[tuple[float, float, float]], colour: str, x: Scale, y: Scale) -> list[str]:
    there = [f"{x(at):.1f} {y(high):.1f}" for at, _, high in band]
    back = [f"{x(at):.1f} {y(low):.1f}" for at, low, _ in reversed(band)]
    return [f'<path class="band" style="--c:{colour}" d="M{"L".join([*there, *back])}Z"/>'] if band else []


def _line(curve: Curve, colour: str, x: Scale, y: Scale) -> list[str]:
    points = [(float(at), one.mean) for at, one in zip(curve.x, curve.y, strict=True) if math.isfinite(one.mean)]
    style, kind = f'style="--c:{colour}"', "curve dashed" if curve.dashed else "curve"
    path = "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in points)
    parts = [f'<path class="{kind}" {style} d="M{path}"/>'] if len(points) > 1 else []
    for at, value in points if curve.key != "noise" else []:
        hint = escape(f"{curve.label}: {value:.3g} at {number(at)}")
        place = f'cx="{x(at):.1f}" cy="{y(value):.1f}"'
        parts.append(f'<circle class="dot" {style} {place} r="3.6"><title>{hint}</title></circle>')
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


def rank_histogram(counts: Sequence[int], label: str, colour: str) -> str:
    """Bars; level with the dashed line if the model is calibrated, high at the ends if it is overconfident."""
    total, bins, height = max(1, sum(counts)), len(counts), 170.0
    even = total / bins
    top = max(2.0, max(counts) / even) * 1.05
    y = Scale(0.0, top, height - 26.0, 8.0)
    wide = (WIDTH - LEFT - 14) / bins
    parts = [f'<path class="axis" d="M{LEFT} {y(0.0)}H{WIDTH - 14}"/>']
    for tick in nice(0.0, top, 3):
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{number(tick)}×</text>')
    for k, count in enumerate(counts):
        x, at = LEFT + k * wide, y(count / even)
        hint = escape(f"{label}: {count} of {total} values, even would be {even:.0f}")
        parts.append(
            f'<rect class="block" style="--c:{colour}" x="{x + 1:.1f}" y="{at:.1f}" width="{wide - 2:.1f}" '
            f'height="{y(0.0) - at:.1f}"><title>{hint}</title></rect>'
        )
    parts.append(f'<path class="level" d="M{LEFT} {y(1.0):.1f}H{WIDTH - 14}"/>')
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = LEFT + share * (WIDTH - 14 - LEFT)
        parts.append(f'<text x="{x}" y="{height - 8}" text-anchor="{anchor}">{share:.0%}</text>')
    return drawing(parts, f"ranks under {label}", height)


def search_chart(rounds: Sequence[dict[str, Any]], colour: str = "#0b6e4f") -> str:
    """One column a round: a ring for every candidate at its validation score, the kept one filled and joined."""
    scores = [[-c["loss"] for c in r["explored"] if c["loss"] is not None] for r in rounds]
    every = sorted(value for column in scores for value in column)
    if not every:
        return ""
    height, floor = 300.0, 254.0
    # A failed candidate can be thousands of nats below: the axis begins at the worst one that a round chose.
    best, low = every[-1], min(max(column) for column in scores if column)
    pad = 0.06 * max(best - low, 1.0)
    y = Scale(low - pad, best + pad, floor, TOP)
    step = (WIDTH - LEFT - 14) / len(rounds)
    parts, path = [], []
    for tick in nice(low - pad, best + pad, 5):
        parts.append(f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{WIDTH - 14}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    for k, round_ in enumerate(rounds):
        x = LEFT + (k + 0.5) * step
        parts.append(f'<text x="{x:.1f}" y="{floor + 18}" text-anchor="middle">{k}</text>')
        ranked = sorted((c for c in round_["explored"] if c["loss"] is not None), key=lambda c: c["loss"])
        for i, candidate in enumerate(ranked):
            score = -candidate["loss"]
            kept = bool(round_["kept"] and candidate["gamma"] == round_["best"] and i == 0)
            at = x + (0 if i == 0 else (i % 5 - 2) * min(6.0, step / 8))
            hint = escape(f"round {k}: [{candidate['gamma']}] {score:.2f} nats")
            place = f'style="--c:{colour}" cx="{at:.1f}" cy="{y(max(score, low - pad)):.1f}"'
            kind, radius = ("dot", 5.5) if kept else ("open", 3.8)
            parts.append(f'<circle class="{kind}" {place} r="{radius}"><title>{hint}</title></circle>')
            if kept:
                path.append(f"{x:.1f} {y(score):.1f}")
    if len(path) > 1:
        parts.insert(0, f'<path class="curve" style="--c:{colour}" d="M{"L".join(path)}"/>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{height - 8}" text-anchor="middle">round of the search</text>')
    turned = f'transform="translate(14 {(TOP + floor) / 2}) rotate(-90)"'
    parts.append(f'<text {turned} text-anchor="middle">validation, nats per transition</text>')
    return drawing(parts, "validation score of every candidate by round", height)
