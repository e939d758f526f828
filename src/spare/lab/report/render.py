"""A document as one HTML file that asks the network for nothing.

All text is escaped. A content security policy forbids every request and every script but ours, which it names by its
hash; stored SVG is shown as an image, where scripts do not run.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources
import json
import pathlib
import re
from collections.abc import Callable
from html import escape
from typing import Any

from spare.errors import FileError
from spare.io.atomic import replacing
from spare.lab.report.document import (
    Bar,
    Block,
    Cell,
    Chart,
    Code,
    Diagram,
    Document,
    Facts,
    Figures,
    Fold,
    Heat,
    Mark,
    Paragraph,
    Row,
    Scene,
    Section,
    Table,
)


def write(document: Document, path: pathlib.Path) -> None:
    """Write the page, whole or not at all."""
    with replacing(path) as target:
        target.write_text(html(document), "utf-8")


def html(document: Document) -> str:
    """The whole page; a `FileError` if what should be text or numbers in it is not."""
    try:
        return _page(document)
    except (TypeError, ValueError, AttributeError) as error:
        raise FileError(f"the page cannot be made: its record is damaged ({type(error).__name__}: {error})") from error


def _page(document: Document) -> str:
    script = _asset("solids.js") + _asset("viewer.js")
    mark = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{mark}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    links = "".join(f'<a href="#{escape(s.name)}">{escape(s.short or s.title)}</a>' for s in document.sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(document.title)}</title><style>{_asset('page.css')}</style></head>\n<body>"
        f"<header><h1>{escape(document.title)}</h1><p>{escape(document.about)}</p><nav>{links}</nav></header>\n<main>"
        + "\n".join(map(_section, document.sections))
        + f"</main>\n<script>{script}</script></body></html>\n"
    )


@functools.cache
def _asset(name: str) -> str:
    return importlib.resources.files("spare.lab.report").joinpath(name).read_text("utf-8")


def _section(section: Section) -> str:
    inside = "\n".join(map(_block, section.blocks))
    return f'<section id="{escape(section.name)}"><h2>{escape(section.title)}</h2>\n{inside}</section>'


def _block(block: Block) -> str:
    return _MAKERS[type(block)](block)


def _text(text: str) -> str:
    """Escaped, with `code` in backticks as such."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _paragraph(one: Paragraph) -> str:
    lead = f"<strong>{escape(one.lead)}</strong> " if one.lead else ""
    return f"<p>{lead}{_text(one.text)}</p>"


def _code(one: Code) -> str:
    return f"<pre>{escape(one.text)}</pre>"


def _table(one: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in one.head)
    rows = []
    for row in one.rows:
        cells = zip(one.head, row, strict=True)
        rows.append("<tr>" + "".join(_cell(cell, name) for name, cell in cells) + "</tr>")
    caption = f"<caption>{_text(one.caption)}</caption>" if one.caption else ""
    heated = any(isinstance(cell, Heat) for row in one.rows for cell in row)
    kind = "cards" if one.many else "heated" if heated else "plain"
    body = "\n".join(rows)
    return (
        f'<div class="scroll"><table class="{kind}">{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell, name: str) -> str:
    label = f' data-label="{escape(name)}"'
    if isinstance(cell, Mark):
        return f'<td{label}><span class="mark {cell.tone}">{escape(cell.text)}</span></td>'
    if isinstance(cell, Bar):
        kind = "bar" + " strong" * cell.strong + " cost" * cell.cost
        return f'<td{label} class="{kind}" style="--share:{100 * cell.share:.1f}%">{escape(cell.text)}</td>'
    if isinstance(cell, Heat):
        dark = " dark" if cell.share > 0.55 else ""
        return f'<td{label} class="heat{dark}" style="--share:{100 * cell.share:.0f}%">{escape(cell.text)}</td>'
    return f"<td{label}>{escape(cell)}</td>"


def _chart(one: Chart) -> str:
    keys = "".join(
        f'<li style="--c:{key.colour}"><i class="{"dashed" if key.dashed else "solid"}"></i>{escape(key.label)}</li>'
        for key in one.keys
    )
    legend = f'<ul class="legend">{keys}</ul>' if keys else ""
    caption = f'<p class="note">{_text(one.caption)}</p>' if one.caption else ""
    link = ""
    if one.numbers is not None:
        name, text = one.numbers
        code = base64.b64encode(text.encode()).decode()
        link = f'<a class="get" download="{escape(name)}" href="data:text/csv;base64,{code}">{escape(name)}</a>'
    return f"<figure><figcaption>{escape(one.title)}{link}</figcaption>{one.svg}{legend}{caption}</figure>"


def _diagram(one: Diagram) -> str:
    code = base64.b64encode(one.svg.encode()).decode()
    return f'<figure class="diagram"><img alt="{escape(one.label)}" src="data:image/svg+xml;base64,{code}"></figure>'


def _scene(one: Scene) -> str:
    title = f"<figcaption>{escape(one.title)}</figcaption>"
    words = f"<pre>{escape(one.explained)}</pre>" if one.explained is not None else ""
    if one.geometry is None:
        return f'<figure class="words">{title}{words}</figure>'
    words = words and f"<details><summary>The prediction in words</summary>{words}</details>"
    plain = json.dumps(one.geometry, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    label = escape(f"3-D view: {one.title}")
    return (
        f'<figure class="scene">{title}'
        f'<canvas tabindex="0" role="img" aria-label="{label}"></canvas><div class="controls"></div>'
        f'<script type="application/json">{plain}</script>{words}</figure>'
    )


def _facts(one: Facts) -> str:
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in one.pairs) + "</dl>"


def _figures(one: Figures) -> str:
    parts = [
        f'<div class="{tone}"><b>{escape(number)}</b><span>{escape(name)}</span></div>'
        for number, name, tone in one.items
    ]
    return f'<div class="figures">{"".join(parts)}</div>'


def _row(one: Row) -> str:
    return '<div class="row">' + "\n".join(map(_block, one.blocks)) + "</div>"


def _fold(one: Fold) -> str:
    inside = "\n".join(map(_block, one.blocks))
    return f"<details><summary>{escape(one.summary)}</summary>{inside}</details>"


_MAKERS: dict[type, Callable[[Any], str]] = {
    Paragraph: _paragraph,
    Code: _code,
    Table: _table,
    Chart: _chart,
    Diagram: _diagram,
    Scene: _scene,
    Facts: _facts,
    Figures: _figures,
    Row: _row,
    Fold: _fold,
}
