"""What several commands share: loading, saving, seeds, the cache of compiled programs."""

from __future__ import annotations

import contextlib
import importlib
import os
import pathlib
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn, TypeVar

from spare.commands.interrupts import leaving
from spare.names import shown

if TYPE_CHECKING:
    from spare.data.experience import Experience
    from spare.language.domain import Domain
    from spare.model.model import Model

Number = TypeVar("Number", int, float)


def program_cache() -> str | None:
    """The folder that keeps compiled programs between commands, in the user's cache; None with SPARE_CACHE=off."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    place = os.environ.get("SPARE_CACHE") or os.path.join(home, "spare")
    return None if place == "off" else place


def remember_programs() -> None:
    """Keep this command's compiled programs for the next one."""
    from spare.lab import workers

    if (folder := program_cache()) is not None:
        workers.remember_programs(folder)
        leaving(lambda: workers.forget_torn(folder))


def named_domain(text: str | None) -> Domain | None:
    """The domain of `--domain`: `package.module:attribute`, or a name that is registered; None stays None."""
    from spare.errors import UsageError, suggestion
    from spare.language.domain import Domain
    from spare.language.registry import domain_names, find_domain

    if text is None:
        return None
    if (known := find_domain(text)) is not None:
        return known
    known = f", or one of {', '.join(domain_names())}{suggestion(text, domain_names())}"
    found = imported("domain", text, known)
    if not isinstance(found, Domain):
        raise UsageError(f"--domain {text!r}: that is a {type(found).__name__}, not a spare.Domain")
    return found


def imported(option: str, text: str, known: str = "") -> object:
    """What `--option package.module:name` names; whatever goes wrong in the user's module is told as theirs."""
    from spare.errors import UsageError

    module, colon, attribute = text.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(f"--{option} {text!r}: write it as package.module:{option}{known}")

    if os.getcwd() not in sys.path:
        # A domain.py beside the data is the common case; last, so that no file there stands in for a package. Worker
        # processes of joblib are given the same places in the same order.
        sys.path.append(os.getcwd())
    try:
        with _no_way_out():
            home = importlib.import_module(module)
            if hasattr(home, attribute):
                return getattr(home, attribute)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a module that ends the program is no domain
        what = shown("".join(traceback.format_exception_only(error)[-1:]).strip() or type(error).__name__, 400)
        what = what.removeprefix(f"{type(error).__module__}.")
        place = _place_in_theirs(error)
        where = f"cannot import {module!r}" if place is None else f"an error in {place[0]}, line {place[1]}"
        raise UsageError(f"--{option} {text!r}: {where}: {what}") from error
    raise UsageError(f"--{option} {text!r}: {module!r} has no {attribute!r}")


@contextlib.contextmanager
def _no_way_out() -> Iterator[None]:
    """In the block `os._exit` raises, as `sys.exit` does: a command that is ended by it would look like one that
    worked. Other threads, such as the one that hears of Ctrl-C, and forked processes end as they want."""
    leave, process = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process or threading.current_thread() is not threading.main_thread():
            leave(status)
        raise SystemExit(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = leave


def _place_in_theirs(error: BaseException) -> tuple[str, int] | None:
    """(file, line) of an error in the user's code: the last line there that was run. None if there is no such line."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return error.filename, error.lineno or 1
    ours = (__file__, importlib.__file__)
    run = [one for one in traceback.extract_tb(error.__traceback__) if one.filename not in ours]
    run = [one for one in run if not one.filename.startswith("<frozen ")]
    if not run:
        return None
    theirs = os.path.dirname(run[0].filename)
    last = [one for one in run if os.path.dirname(one.filename) == theirs][-1]
    return last.filename, last.lineno or 1


def load_data(path: pathlib.Path, domain: str | None) -> Experience:
    """The experience in a file, with the domain that the user names or that SPARE ships."""
    from spare.data.experience import Experience

    return Experience.load(path, named_domain(domain))


def load_model(path: pathlib.Path, domain: str | None) -> Model:
    """The model in a file, with the domain that the user names or that SPARE ships."""
    from spare.model.model import load

    return load(path, named_domain(domain))


def in_words(model: Model) -> str:
    """Notes of the fit, failures to learn first; then the rules, with each one's share of the data if that is known."""
    lines = [*(f"note: {note}" for note in model.notes), str(model)]
    for k, one in enumerate(model.provenance.get("rules", [])):
        lines.append(f"rule {k + 1}: {one['share']:.0%} of the samples, typical sample: {one['typical']}")
    return "\n".join(lines)


def check_target(path: pathlib.Path) -> None:
    """Refuse, before hours of work, a file name that could not be written in the end."""
    from spare.errors import FileError

    try:
        os.lstat(path)
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        raise FileError(f"{path}: the folder {path.parent} does not exist; create it first") from None
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL in it
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{shown(path, 200)}: cannot be written: {reason}; choose another name") from error
    if path.is_dir():
        raise FileError(f"{path}: this is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise FileError(f"{path}: the folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise FileError(f"{path}: the folder {path.parent} cannot be written to")


def check_index(index: int, data: Experience, path: pathlib.Path) -> None:
    """Refuse the number of a transition that the data do not have."""
    from spare.errors import UsageError

    if not 0 <= index < len(data):
        raise UsageError(f"--index {index}: {path} holds transitions 0 to {len(data) - 1}")


def numbers(option: str, text: str, kind: type[Number]) -> tuple[Number, ...]:
    """`2,3,4` as numbers, or a sentence that names the option."""
    from spare.errors import UsageError

    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"--{option} {text!r}: give one number, or several separated by commas") from error
