"""JSON from untrusted files: bounded in size and depth, every key once, no NaN; the writer keeps the same rules.

Python's own reader takes the last of two equal keys, reads NaN, and nests as deep as its stack allows. A file that
means different things to different readers is damaged or made to deceive, so it is refused here.
"""

from __future__ import annotations

import json
from typing import Any

from spare.errors import FileError

LARGEST_TEXT = 1 << 21
DEEPEST = 24
LONGEST_STRING = 4096


def parse(text: bytes | str, what: str, longest: int = LONGEST_STRING) -> Any:
    """The value of a JSON text, or a `FileError` that says what is wrong with `what`."""
    if len(text) > LARGEST_TEXT:
        raise FileError(f"{what} is {len(text)} bytes long, more than {LARGEST_TEXT}")
    try:
        value = json.loads(
            text.decode("utf-8") if isinstance(text, bytes) else text,
            object_pairs_hook=_distinct,
            parse_constant=_refuse,
        )
    except RecursionError:
        raise FileError(f"{what} is nested more than {DEEPEST} deep") from None
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, numbers of thousands of digits
        raise FileError(f"{what} is not JSON: {str(error).splitlines()[0][:120]}") from None
    check(value, what, longest)
    return value


def write(value: Any, what: str) -> str:
    """The JSON text of a value that `parse` will read back, with sorted keys."""
    try:
        text = json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise FileError(f"{what} cannot be written as JSON: {error}") from error
    if len(text) > LARGEST_TEXT:
        raise FileError(f"{what} is {len(text)} bytes long, more than {LARGEST_TEXT}")
    check(json.loads(text), what)
    return text


def check(value: Any, what: str, longest: int = LONGEST_STRING) -> None:
    """Refuse values that are nested too deeply, strings that are too long, and half characters."""
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            raise FileError(f"{what} is nested more than {DEEPEST} deep")
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                for key in one:
                    _check_text(key, what, longest)
                below += one.values()
            elif isinstance(one, list):
                below += one
            elif isinstance(one, str):
                _check_text(one, what, longest)
        level, depth = below, depth + 1


def _check_text(text: str, what: str, longest: int) -> None:
    if len(text) > longest:
        raise FileError(f"{what} holds a text of {len(text)} characters, more than {longest}")
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise FileError(f"{what} holds half a character (an unpaired surrogate)")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"key {twice[:64]!r} appears twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")
