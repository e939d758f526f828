"""Two more charts: ranks of what happened among a model's draws, and the rounds of a search."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from spare.lab.report.charts import LEFT, TOP, WIDTH, Scale, drawing, nice, number


def rank_histogram(counts: Sequence[int], label: str, colour: str) -> str:
    """Bars; level with the dashed line if the model is calibrated, high at the ends if it is too sure of itself."""
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
        told = escape(f"{label}: {count} of {total} values, even would be {even:.0f}")
        parts.append(
            f'<rect class="block" style="--c:{colour}" x="{x + 1:.1f}" y="{at:.1f}" width="{wide - 2:.1f}" '
            f'height="{y(0.0) - at:.1f}"><title>{told}</title></rect>'
        )
    parts.append(f'<path class="level" d="M{LEFT} {y(1.0):.1f}H{WIDTH - 14}"/>')
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = LEFT + share * (WIDTH - 14 - LEFT)
        parts.append(f'<text x="{x}" y="{height - 8}" text-anchor="{anchor}">{share:.0%}</text>')
    return drawing(parts, f"ranks under {label}", height)


def search_chart(rounds: Sequence[dict[str, Any]], colour: str = "#0b6e4f") -> str:
    """One column a round: a ring for every candidate at its validation score, the kept one filled and joined."""
    scores = [[c["validation"] for c in r["explored"] if c["validation"] is not None] for r in rounds]
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
        trained = [c for c in round_["explored"] if c["validation"] is not None]
        ranked = sorted(trained, key=lambda c: -c["validation"])
        for i, candidate in enumerate(ranked):
            kept = bool(round_["kept"] and candidate["list"] == round_["best"] and i == 0)
            at = x + (0 if i == 0 else (i % 5 - 2) * min(6.0, step / 8))
            told = escape(f"round {k}: [{candidate['list']}] {candidate['validation']:.2f} nats")
            height_of = y(max(candidate["validation"], low - pad))
            place = f'style="--c:{colour}" cx="{at:.1f}" cy="{height_of:.1f}"'
            kind, radius = ("dot", 5.5) if kept else ("open", 3.8)
            parts.append(f'<circle class="{kind}" {place} r="{radius}"><title>{told}</title></circle>')
            if kept:
                path.append(f"{x:.1f} {y(candidate['validation']):.1f}")
    if len(path) > 1:
        parts.insert(0, f'<path class="curve" style="--c:{colour}" d="M{"L".join(path)}"/>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{height - 8}" text-anchor="middle">round of the search</text>')
    turned = f'transform="translate(14 {(TOP + floor) / 2}) rotate(-90)"'
    parts.append(f'<text {turned} text-anchor="middle">validation, nats per transition</text>')
    return drawing(parts, "validation score of every candidate by round", height)
