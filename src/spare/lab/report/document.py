"""What a page is made of. Text is plain, but for `code` in backticks; `render.py` alone knows HTML."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

Tone = Literal["good", "bad", "open", "none"]


class Mark(NamedTuple):
    """A word that stands out in a table, such as a verdict."""

    text: str
    tone: Tone = "none"


class Bar(NamedTuple):
    """A number in a table with a bar of this share (0 to 1) behind it; `strong`: the best; `cost`: less is better."""

    text: str
    share: float
    strong: bool = False
    cost: bool = False


class Heat(NamedTuple):
    """A number in a table on a ground as dark as `share` (0 to 1) says."""

    text: str
    share: float


Cell = str | Mark | Bar | Heat


class Key(NamedTuple):
    """One entry of a chart's legend."""

    label: str
    colour: str
    dashed: bool = False


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """A paragraph; `lead` words are set in bold before it."""

    text: str
    lead: str = ""


@dataclasses.dataclass(frozen=True)
class Code:
    """Text as it is, in one width of letters."""

    text: str


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of cells under a head. On a narrow screen each row becomes a small card if there are `many` columns."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    many: bool = False


@dataclasses.dataclass(frozen=True)
class Chart:
    """A chart of our own (see `charts.py`), with a legend, and its numbers for download under a file name."""

    svg: str
    title: str
    caption: str = ""
    keys: tuple[Key, ...] = ()
    numbers: tuple[str, str] | None = None


@dataclasses.dataclass(frozen=True)
class Diagram:
    """An SVG document that was stored; it is shown as an image, so that nothing in it can run."""

    svg: str
    label: str


@dataclasses.dataclass(frozen=True)
class Scene:
    """A transition in 3-D (see `experiments/scenes.py`), a prediction in words, or both."""

    title: str
    explained: str | None
    geometry: dict[str, Any] | None


@dataclasses.dataclass(frozen=True)
class Facts:
    """Names with values, such as a run's circumstances."""

    pairs: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Figures:
    """A few numbers in large letters: (number, unit or name, tone)."""

    items: tuple[tuple[str, str, Tone], ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """Blocks beside each other where there is room."""

    blocks: tuple[Block, ...]


@dataclasses.dataclass(frozen=True)
class Fold:
    """Blocks that open on demand; printed, they are open."""

    summary: str
    blocks: tuple[Block, ...]


Block = Paragraph | Code | Table | Chart | Diagram | Scene | Facts | Figures | Row | Fold


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page with a title and a name for links; `short` is its title among the links at the top."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    short: str = ""


@dataclasses.dataclass(frozen=True)
class Document:
    """A page: title, what it is in a sentence, its sections."""

    title: str
    about: str
    sections: tuple[Section, ...]
