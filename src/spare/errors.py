"""One small tree of errors: each says what was expected, what came, and what to do.

    SpareError
    ├── DefinitionError   a domain, reference, shell, rule or preset that makes no sense
    ├── DataError         a transition, table or array that does not fit its domain
    ├── FileError         a file that cannot be read or written, or is not what it should be
    ├── FitError          learning that cannot start or cannot go on
    ├── ForkError         a process that was forked after JAX had started, where nothing can be computed
    └── UsageError        a command line that asks for something impossible

Every command turns a `SpareError` into one sentence on standard error and exit code 2.
"""

from __future__ import annotations

from collections.abc import Iterable


class SpareError(Exception):
    """Base of every error that SPARE raises on purpose."""


class DefinitionError(SpareError, ValueError):
    """A domain, reference, shell, rule or preset is not well formed."""


class DataError(SpareError, ValueError):
    """A transition, table or array does not fit the domain it is said to come from."""


class CellError(DataError):
    """A cell of a column makes no sense; whoever has the column says where that is."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row, self.reason = row, reason

    def __reduce__(self) -> tuple[type[CellError], tuple[int, str]]:
        return CellError, (self.row, self.reason)


class FileError(SpareError, OSError):
    """A file cannot be read or written, or does not hold what it should."""


class FitError(SpareError, RuntimeError):
    """Learning cannot start, or cannot go on, with this data and these settings."""


class ForkError(SpareError, RuntimeError):
    """This process was forked after JAX had started: programs would wait forever in it."""


class UsageError(SpareError, ValueError):
    """A call or command line asks for something that cannot be done."""


def one_of(kind: str, name: object, valid: Iterable[str]) -> str:
    """`unknown <kind> <name>; valid: a, b, c`, in the order given; a name that is almost right is suggested."""
    names, told = [*valid], repr(name) if isinstance(name, str) else " ".join(repr(name).split())[:100]
    return f"unknown {kind} {told}; valid: {', '.join(names) or '(none)'}{suggestion(name, names)}"


def suggestion(name: object, valid: Iterable[str]) -> str:
    """` (did you mean 'a'?)` for the valid name that comes nearest, or nothing."""
    import difflib  # only here, where something went wrong already

    near = {one.lower(): one for one in reversed([*valid])}
    close = difflib.get_close_matches(name.lower(), near, 1, 0.7) if isinstance(name, str) and len(name) < 100 else []
    return f" (did you mean {near[close[0]]!r}?)" if close else ""
