"""What a caller gives, checked where it comes in: each error says what came instead, and what to give."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

from spare.errors import DefinitionError, SpareError, UsageError, one_of
from spare.names import shown

Thing = TypeVar("Thing")
LARGEST_SEED = 2**64 - 1


def described(value: object) -> str:
    """What somebody gave, in a few words: `None`, `the class Domain`, `a pandas DataFrame`, `the text 'push'`."""
    if value is None:
        return "None"
    if isinstance(value, str):
        return f"the text {shown(value, 60)!r}"
    if isinstance(value, bool | numbers.Number):
        return shown(repr(value), 60)
    if isinstance(value, type):
        return f"the class {value.__name__}, not an instance of it"
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    if inspect.isroutine(value):
        return "a function"
    if type(value).__name__.endswith(("Tracer", "ArrayImpl")):
        return "an array"
    package, name = type(value).__module__.partition(".")[0], type(value).__name__
    name = f"{package} {name}" if package in ("pandas", "polars", "pyarrow", "numpy") else name
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def check_kind(what: str, value: Any, kind: type[Thing], advice: str, error: type[SpareError] = UsageError) -> Thing:
    """The value, if it is a `kind`; `advice` says how to get one."""
    if not isinstance(value, kind):
        raise error(f"{what}: expected a spare.{kind.__name__}, got {described(value)}; {advice}")
    return value


def is_whole(value: Any) -> bool:
    """Whether it is a whole number, Python's or NumPy's; True and False are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Whether it is a real number, Python's or NumPy's; True and False are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_whole(what: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number (NumPy's too, True and False not) of at least `least`, as an int."""
    if not is_whole(value) or value < least or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise UsageError(f"{what} must be a whole number of at least {least}{upper}, got {described(value)}")
    return int(value)


def check_seed(seed: Any, what: str = "seed") -> int:
    """A seed: a whole number from 0 to 2**64 - 1, as an int."""
    if not is_whole(seed) or not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"{what} must be a whole number from 0 to 2**64 - 1, such as 0, got {described(seed)}")
    return int(seed)


def check_path(path: Any) -> str | os.PathLike[str]:
    """The name of a file: text or a path that is not empty."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"expected the name of a file (text or a path), got {described(path)}")
    if not os.fspath(path):
        raise UsageError("expected the name of a file, got an empty text")
    return path


def check_sequence(what: str, values: Any, example: str, error: type[SpareError] = DefinitionError) -> tuple[Any, ...]:
    """The values as a tuple; one text, a dictionary, a set (which has no order) and the like are refused."""
    one = isinstance(values, str | bytes | dict | set | frozenset) or getattr(values, "shape", None) == ()
    if one or not isinstance(values, Iterable):
        raise error(f"{what}: expected a tuple or a list, such as {example}, got {described(values)}")
    return tuple(values)


def check_flag(what: str, value: Any, error: type[SpareError] = UsageError) -> bool:
    """True or False, Python's or NumPy's: what else counts as true, such as the text 'no', is not what was meant."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):  # NumPy's
        raise error(f"{what} must be True or False, got {described(value)}")
    return bool(value)


def is_finite(value: Any) -> bool:
    """Whether a real number is finite as a 64-bit one: whole numbers of Python's can be too large for that."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


# -- settings: frozen dataclasses whose fields are numbers, texts and other settings ----------------------------------


def named(cls: type[Thing]) -> type[Thing]:
    """A dataclass that refuses unknown names, with a suggestion."""
    plain = cls.__init__
    names = [field.name for field in dataclasses.fields(typing.cast(Any, cls))]

    @functools.wraps(plain)
    def init(self: Any, *values: Any, **named: Any) -> None:
        for name in named:
            if name not in names:
                raise DefinitionError(f"{cls.__name__}: {one_of('setting', name, names)}")
        plain(self, *values, **named)

    setattr(cls, "__init__", init)  # noqa: B010 - for the type checker
    return cls


def settings(cls: type[Thing]) -> type[Thing]:
    """A dataclass that refuses unknown names, and values of another kind than its annotations say."""
    inspected = typing.cast(Any, cls).__post_init__

    def checked(self: Any) -> None:
        for name, hint in _hints(cls).items():
            value, told = getattr(self, name), _fits(getattr(self, name), hint)
            if told is not None:
                raise DefinitionError(f"{cls.__name__}: {name} must be {told}, got {described(value)}")
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))
        inspected(self)

    setattr(cls, "__post_init__", checked)  # noqa: B010 - for the type checker
    return named(cls)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _fits(value: Any, hint: Any) -> str | None:
    """None if the value is of that kind, otherwise what it must be; choices of words are checked by their owner."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        told = [_words(part) if _no_word(value, part) else _fits(value, part) for part in parts]
        return None if None in told else " or ".join(one for one in told if one)
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return f"a tuple, each entry {_words(parts[0])}"
        return None if all(_fits(one, parts[0]) is None for one in value) else f"a tuple, each entry {_words(parts[0])}"
    if origin is Literal:
        return None if isinstance(value, str) else _words(hint)
    known: dict[Any, Callable[[], bool]] = {
        int: lambda: is_whole(value),
        float: lambda: is_real(value) and is_finite(value),
        type(None): lambda: value is None,
    }
    fits = known.get(hint, lambda: not isinstance(hint, type) or isinstance(value, hint))
    return None if fits() else _words(hint)


def _no_word(value: Any, hint: Any) -> bool:
    return typing.get_origin(hint) is Literal and not (isinstance(value, str) and value in typing.get_args(hint))


def _words(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return f"one of {', '.join(repr(one) for one in typing.get_args(hint))}"
    words = {int: "a whole number", float: "a finite number", bool: "True or False", str: "a text", type(None): "None"}
    return words.get(hint) or f"a {getattr(hint, '__name__', hint)}"
