"""Parts of a page as HTML, and the page as one file that asks the network for nothing.

All text is escaped here; `code` in backticks is set as such. A content security policy forbids every request and every
script but ours, which it names by its hash; stored SVG is shown as an image, where scripts do not run.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import importlib.resources
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal, NamedTuple

from spare.errors import FileError
from spare.io.atomic import replacing

Tone = Literal["good", "bad", "open", "none"]


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page: name for links, title, its parts in HTML; `short` is its title among the links at the top."""

    name: str
    title: str
    parts: Sequence[str]
    short: str = ""

    def html(self) -> str:
        """The section."""
        inside = "\n".join(self.parts)
        return f'<section id="{escape(self.name)}"><h2>{escape(self.title)}</h2>\n{inside}</section>'


@dataclasses.dataclass(frozen=True)
class Page:
    """A page: title, what it is in a sentence, its sections."""

    title: str
    about: str
    sections: Sequence[Section]

    def write(self, path: pathlib.Path) -> None:
        """Write the page, whole or not at all."""
        with replacing(path) as target:
            target.write_text(self.html(), "utf-8")

    def html(self) -> str:
        """The whole page; a `FileError` if what should be text in it is not."""
        try:
            return self._html()
        except (TypeError, ValueError, AttributeError) as error:
            raise FileError(
                f"the page cannot be made: its record is damaged ({type(error).__name__}: {error})"
            ) from error

    def _html(self) -> str:
        script = _asset("solids.js") + _asset("viewer.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )
        links = "".join(f'<a href="#{escape(s.name)}">{escape(s.short or s.title)}</a>' for s in self.sections)
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f"<title>{escape(self.title)}</title><style>{_asset('page.css')}</style></head>\n<body>"
            f"<header><h1>{escape(self.title)}</h1><p>{escape(self.about)}</p><nav>{links}</nav></header>\n<main>"
            + "\n".join(section.html() for section in self.sections)
            + f"</main>\n<script>{script}</script></body></html>\n"
        )


@functools.cache
def _asset(name: str) -> str:
    return importlib.resources.files("spare.lab.report").joinpath(name).read_text("utf-8")


def text(plain: str) -> str:
    """Escaped, with `code` in backticks as such."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(plain))


def paragraph(plain: str, lead: str = "") -> str:
    """A paragraph; `lead` words are set in bold before it."""
    return f"<p>{f'<strong>{escape(lead)}</strong> ' if lead else ''}{text(plain)}</p>"


def warning(plain: str, lead: str, tone: Tone = "bad") -> str:
    """A paragraph that nobody overlooks."""
    return f'<p class="told {tone}"><strong>{escape(lead)}</strong> {text(plain)}</p>'


def subtitle(plain: str) -> str:
    """The title of a part of a section."""
    return f"<h3>{escape(plain)}</h3>"


def note(plain: str) -> str:
    """Small words below something."""
    return f'<p class="note">{text(plain)}</p>'


def code(plain: str) -> str:
    """Text as it is, in one width of letters."""
    return f"<pre>{escape(plain)}</pre>"


class Cell(NamedTuple):
    """A table's cell that is more than text: its CSS class, and the share (0 to 1) of a bar or of a dark ground."""

    text: str
    style: str
    share: float | None = None


def mark(word: str, tone: Tone = "none") -> Cell:
    """A word that stands out in a table, such as a verdict."""
    return Cell(word, f"mark {tone}")


def bar(number: str, share: float, *, best: bool, cost: bool = False) -> Cell:
    """A number with a bar behind it; `cost`: less is better."""
    return Cell(number, "bar" + " strong" * best + " cost" * cost, share)


def heat(number: str, share: float) -> Cell:
    """A number on a ground as dark as its share says."""
    return Cell(number, "heat dark" if share > 0.55 else "heat", share)


def table(head: Sequence[str], rows: Sequence[Sequence[str | Cell]], caption: str = "", *, cards: bool = False) -> str:
    """Rows under a head; with `cards`, each row becomes a small card on a narrow screen."""
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = [
        "<tr>" + "".join(_cell(cell, name) for name, cell in zip(head, row, strict=True)) + "</tr>" for row in rows
    ]
    heated = any(isinstance(cell, Cell) and cell.style.startswith("heat") for row in rows for cell in row)
    kind, body = "cards" if cards else "heated" if heated else "plain", "\n".join(lines)
    below = f"<caption>{text(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table class="{kind}">{below}<thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(cell: str | Cell, name: str) -> str:
    label = f' data-label="{escape(name)}"'
    if isinstance(cell, str):
        return f"<td{label}>{escape(cell)}</td>"
    if cell.share is None:
        return f'<td{label}><span class="{cell.style}">{escape(cell.text)}</span></td>'
    return f'<td{label} class="{cell.style}" style="--share:{100 * cell.share:.1f}%">{escape(cell.text)}</td>'


class Key(NamedTuple):
    """One entry of a chart's legend."""

    label: str
    colour: str
    dashed: bool = False


def figure(
    svg: str, title: str, caption: str = "", keys: Sequence[Key] = (), csv: Mapping[str, str] | None = None
) -> str:
    """A chart of our own (see `charts.py`) with a legend, and its numbers for download by file name."""
    legend = "".join(
        f'<li style="--c:{key.colour}"><i class="{"dashed" if key.dashed else "solid"}"></i>{escape(key.label)}</li>'
        for key in keys
    )
    links = "".join(
        f'<a class="get" download="{escape(name)}" href="data:text/csv;base64,'
        f'{base64.b64encode(numbers.encode()).decode()}">{escape(name)}</a>'
        for name, numbers in (csv or {}).items()
    )
    below = (f'<ul class="legend">{legend}</ul>' if legend else "") + (
        f'<p class="note">{text(caption)}</p>' if caption else ""
    )
    return f"<figure><figcaption>{escape(title)}{links}</figcaption>{svg}{below}</figure>"


def diagram(svg: str, label: str) -> str:
    """An SVG document that was stored, as an image, so that nothing in it can run."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<figure class="diagram"><img alt="{escape(label)}" src="data:image/svg+xml;base64,{data}"></figure>'


def scene(one: Mapping[str, Any]) -> str:
    """A transition in 3-D, the prediction in words, or both; see `experiments/scenes.py`."""
    title = f"<figcaption>{escape(one['title'])}</figcaption>"
    words = code(one["explained"]) if one["explained"] is not None else ""
    if "objects" not in one:
        return f'<figure class="words">{title}{words}</figure>'
    words = words and f"<details><summary>The prediction in words</summary>{words}</details>"
    data = json.dumps(dict(one), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    label = escape(f"3-D view: {one['title']}")
    return (
        f'<figure class="scene">{title}'
        f'<canvas tabindex="0" role="img" aria-label="{label}"></canvas><div class="controls"></div>'
        f'<script type="application/json">{data}</script>{words}</figure>'
    )


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Names with values, such as versions and seeds."""
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in pairs) + "</dl>"


class Large(NamedTuple):
    """A number in large letters, with its unit or name."""

    number: str
    name: str
    tone: Tone = "none"


def headline(items: Sequence[Large]) -> str:
    """A few numbers in large letters."""
    parts = [f'<div class="{tone}"><b>{escape(n)}</b><span>{escape(name)}</span></div>' for n, name, tone in items]
    return f'<div class="figures">{"".join(parts)}</div>'


def row(parts: Sequence[str]) -> str:
    """Parts beside each other where there is room."""
    return '<div class="row">' + "\n".join(parts) + "</div>" if parts else ""


def fold(summary: str, parts: Sequence[str]) -> str:
    """Parts that open on demand; printed, they are open."""
    return f"<details><summary>{escape(summary)}</summary>{''.join(parts)}</details>" if parts else ""
