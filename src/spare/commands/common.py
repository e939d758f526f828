"""What several commands share: loading, saving, seeds, the cache of compiled programs."""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spare.data.experience import Experience
    from spare.language.domain import Domain
    from spare.model.model import Model


def remember_programs() -> None:
    """Keep compiled programs between runs, in the user's cache folder; SPARE_CACHE=off turns it off."""
    import jax

    place = os.environ.get("SPARE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "spare"
    )
    if place != "off":
        jax.config.update("jax_compilation_cache_dir", place)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def named_domain(text: str | None) -> Domain | None:
    """The domain of `--domain`: `package.module:attribute`, or a name that is registered; None stays None."""
    from spare.errors import UsageError
    from spare.language.domain import Domain
    from spare.language.registry import domain_names, find_domain

    if text is None:
        return None
    if (known := find_domain(text)) is not None:
        return known
    module, colon, attribute = text.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"--domain {text!r}: write it as package.module:domain, or one of {', '.join(domain_names())}")
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


def load_data(path: pathlib.Path, domain: str | None) -> Experience:
    """The experience in a file, with the domain that the user names or that SPARE ships."""
    from spare.data.experience import Experience

    return Experience.load(path, named_domain(domain))


def load_model(path: pathlib.Path, domain: str | None) -> Model:
    """The model in a file, with the domain that the user names or that SPARE ships."""
    from spare.model.model import load

    return load(path, named_domain(domain))


def check_target(path: pathlib.Path) -> None:
    """Refuse, before hours of work, a file name that could not be written in the end."""
    from spare.errors import FileError

    if path.is_dir():
        raise FileError(f"{path}: this is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise FileError(f"{path}: the folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise FileError(f"{path}: the folder {path.parent} cannot be written to")
