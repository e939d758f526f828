"""Rules as pictures: Mermaid text and a self-contained SVG."""

from __future__ import annotations

import html
from collections.abc import Iterator

from spare.language.references import Shell
from spare.model.headrule import HeadRule
from spare.model.model import Model
from spare.model.rule import Rule

_BOX, _HIGH, _GAP_X, _GAP_Y, _EDGE = 116, 34, 96, 20, 16


def mermaid(model: Model) -> str:
    """A Mermaid flowchart: one subgraph per rule, an arrow per pointer, bold boxes for what changes."""
    lines = ["flowchart LR"]
    for k, rule in enumerate(model.rules):
        roles = rule.domain.action(rule.action).objects
        lines.append(f'  subgraph rule{k + 1}["rule {k + 1}: {rule.action}({", ".join(roles)})"]')
        for name, shell, label in _nodes(rule):
            shape = f'(["{label}"])' if name in roles else f'["{label}"]'
            lines.append(f"    r{k + 1}{shell}_{name}{shape}")
        for source, target, reference, shell in _edges(rule):
            lines.append(f'    r{k + 1}{shell}_{source} -- "{reference}" --> r{k + 1}{shell}_{target}')
        lines.append("  end")
    return "\n".join(lines)


def _shells(rule: Rule | HeadRule) -> Iterator[tuple[str, str, Shell]]:
    if rule.gamma == rule.delta:
        yield "s", "", rule.gamma
    else:
        yield "g", " (looked at)", rule.gamma
        yield "d", " (changed)", rule.delta


def _nodes(rule: Rule | HeadRule) -> Iterator[tuple[str, str, str]]:
    roles = rule.domain.action(rule.action).objects
    for tag, note, shell in _shells(rule):
        for name in shell.slot_names(roles):
            yield name, tag, f"{name}{note}"


def _edges(rule: Rule | HeadRule) -> Iterator[tuple[str, str, str, str]]:
    roles = rule.domain.action(rule.action).objects
    for tag, _, shell in _shells(rule):
        names = shell.slot_names(roles)
        for t, pointer in enumerate(shell):
            for slot in pointer.arguments:
                yield names[slot], names[shell.roles + t], pointer.reference, tag


def svg(model: Model) -> str:
    """The same as an SVG: action objects on the left, each pointer one column to the right of what it starts from."""
    parts: list[str] = []
    y, width = _EDGE, 320
    for k, rule in enumerate(model.rules):
        text, (right, y) = _rule(rule, k, y)
        parts += text
        width = max(width, right)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" '
        'font-family="system-ui, sans-serif" font-size="13">'
    )
    style = (
        "<style>.box{fill:#eef3fb;stroke:#3b6fb6}.role{fill:#fdeedd;stroke:#c8741b}.edge{stroke:#5b6470;fill:none}"
        "text{fill:#1c2530}.small{font-size:11px;fill:#5b6470}"
        "@media (prefers-color-scheme: dark){.box{fill:#1d2a3d}.role{fill:#3b2a17}text{fill:#e8edf4}"
        ".small{fill:#aab4c0}.edge{stroke:#aab4c0}}</style>"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#5b6470"/></marker></defs>'
    )
    return "\n".join([head, style, *parts, "</svg>"])


def _rule(rule: Rule | HeadRule, k: int, y: int) -> tuple[list[str], tuple[int, int]]:
    roles = rule.domain.action(rule.action).objects
    title = html.escape(f"rule {k + 1}: {rule.action}({', '.join(roles)})")
    parts, right = [f'<text x="{_EDGE}" y="{y + 12}" font-weight="600">{title}</text>'], 0
    y += 26
    for _, note, shell in _shells(rule):
        if note:
            parts.append(f'<text class="small" x="{_EDGE}" y="{y + 10}">{note.strip(" ()")}</text>')
            y += 18
        more, (edge, y) = _shell(shell, roles, y)
        parts, right = parts + more, max(right, edge)
    return parts, (right, y + 8)


def _shell(shell: Shell, roles: tuple[str, ...], top: int) -> tuple[list[str], tuple[int, int]]:
    names = shell.slot_names(roles)
    depth = [0] * shell.roles
    for pointer in shell:
        depth.append(1 + max((depth[slot] for slot in pointer.arguments), default=0))
    filled: dict[int, int] = {}
    place = []
    for level in depth:
        row = filled.get(level, 0)
        filled[level] = row + 1
        place.append((_EDGE + level * (_BOX + _GAP_X), top + row * (_HIGH + _GAP_Y)))
    parts = []
    for t, pointer in enumerate(shell):
        x2, y2 = place[shell.roles + t]
        for slot in pointer.arguments:
            x1, y1 = place[slot][0] + _BOX, place[slot][1] + _HIGH / 2
            parts.append(f'<path class="edge" marker-end="url(#tip)" d="M{x1} {y1}L{x2 - 2} {y2 + _HIGH / 2}"/>')
        label = html.escape(pointer.reference)
        parts.append(
            f'<text class="small" text-anchor="middle" x="{x2 - _GAP_X / 2}" y="{y2 + _HIGH / 2 - 5}">{label}</text>'
        )
    for position, (x, y) in enumerate(place):
        kind = "role" if position < shell.roles else "box"
        parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{_BOX}" height="{_HIGH}" rx="7"/>')
        parts.append(
            f'<text text-anchor="middle" x="{x + _BOX / 2}" y="{y + 22}">{html.escape(names[position])}</text>'
        )
    bottom = max(y for _, y in place) + _HIGH + 10
    return parts, (max(x for x, _ in place) + _BOX + _EDGE, bottom)
