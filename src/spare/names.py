"""Names a user gives: checked once, at construction, so that they are safe to print, to file and to render."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from spare.errors import DefinitionError

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_.*+-]{0,63}\Z")


def check_identifier(kind: str, name: object) -> str:
    """A letter, then letters, digits or `_`, at most 64: read as an attribute in formulas (`o.x`)."""
    if not isinstance(name, str) or not _IDENTIFIER.match(name):
        raise DefinitionError(
            f"{kind} name {name!r}: use a letter followed by letters, digits or _ (at most 64 characters)"
        )
    return name


def check_label(kind: str, name: object) -> str:
    """A letter, then letters, digits or `_ . * + -`, at most 64: shown and filed, never evaluated."""
    if not isinstance(name, str) or not _LABEL.match(name):
        raise DefinitionError(
            f"{kind} name {name!r}: use a letter followed by letters, digits or _ . * + - (at most 64 characters)"
        )
    return name


def check_unique(kind: str, names: Iterable[str], owner: str) -> tuple[str, ...]:
    """The names as a tuple; two alike are refused, naming them and their owner."""
    if isinstance(names, str):
        raise DefinitionError(f"{owner}: give a tuple of {kind} names, not one text: ({names!r},)")
    single = getattr(names, "shape", None) == ()  # an array of one number
    if single or not isinstance(names, Iterable) or isinstance(names, set | frozenset):  # a set has no order
        raise DefinitionError(f"{owner}: give a tuple of {kind} names, such as ('a', 'b'), got {names!r}")
    names = tuple(names)
    for position, name in enumerate(names):
        if name in names[:position]:
            raise DefinitionError(f"{owner}: {kind} {name!r} appears twice; give each {kind} its own name")
    return names


def tabled(value: Any) -> Any:
    """A text as a spreadsheet shows it: one that would be read as a formula gets a quote before it."""
    return f"'{value}" if isinstance(value, str) and value[:1] in tuple("=+-@\t\r\n") else value


def shown(text: object, longest: int = 2000) -> str:
    """A text on one line of a terminal: what is not printable (escapes, line ends, reversed writing) is spelled out."""
    text = str(text)
    text = text if len(text) <= longest else f"{text[:longest]}..."
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
