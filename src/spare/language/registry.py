"""SPARE's own domains by name: a fixed table, so that nothing in a file can name code to import.

A user's domain is named by the user, on the command line: `--domain package.module:domain`.
"""

from __future__ import annotations

import importlib
import os
import sys

from spare.errors import UsageError
from spare.language.domain import Domain

_BUILTIN = {"push": "spare.lab.worlds.push", "queue": "spare.lab.worlds.queue"}


def builtin_domain(name: str) -> Domain | None:
    """The domain that SPARE ships under this name, or None."""
    module = _BUILTIN.get(name)
    return importlib.import_module(module).domain if module else None


def ships(name: str) -> bool:
    """Whether SPARE has a domain of this name; nothing is imported to find out."""
    return name in _BUILTIN


def named_domain(text: str | None) -> Domain | None:
    """`package.module:attribute` (or a shipped name) as given by a user; None stays None."""
    if text is None:
        return None
    shipped = builtin_domain(text)
    if shipped is not None:
        return shipped
    module, colon, attribute = text.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"--domain {text!r}: write it as package.module:domain, or one of {', '.join(_BUILTIN)}")
    if os.getcwd() not in sys.path:
        # A domain.py beside the data is the common case; last, so that no file there stands in for a package.
        sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, SyntaxError) as error:
        raise UsageError(f"--domain {text!r}: cannot import {module!r}: {error}") from error
    except AttributeError as error:
        raise UsageError(f"--domain {text!r}: {module!r} has no {attribute!r}") from error
    if not isinstance(found, Domain):
        raise UsageError(f"--domain {text!r}: that is a {type(found).__name__}, not a spare.Domain")
    return found
