"""Traced programs as a few hex digits: equal where they compute the same thing in the same way, in every process.

A formula is Python code, which can be neither compared nor put into a file. What it does to arrays can: JAX traces it
to a program of primitive operations. The digest covers every operation with its settings, the shapes and types that
flow between them, inner programs (loops, branches), and every constant bit for bit, so a threshold of 0.5 and one of
0.51 differ. Names of variables, lines of code and addresses are left out.

The same formula has the same digest in every process with the same JAX: it is traced in 32-bit numbers and in 64-bit
ones, whatever the process uses, since 5,400,002.1 and 5,400,002.2 are one threshold in 32 bits and two in 64. Another
version of JAX may spell an operation differently; whoever compares digests of two versions must expect that
(`versions`). A formula is taken to be a function: what it reads besides its arguments counts as it was when the formula
was traced. Host callbacks are compared by their byte code, which depends on the version of Python.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import platform
import re
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_DEEPEST = 24
DIGITS = 16


def versions() -> dict[str, str]:
    """What the digest of a program depends on besides the formula: the versions of JAX and of Python."""
    return {"jax": jax.__version__, "python": ".".join(platform.python_version_tuple()[:2])}


def digest_of(*parts: str) -> str:
    """16 hex digits of a SHA-256 over texts."""
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:DIGITS]


def trace(function: Callable[..., Any], *shapes: Any) -> tuple[str, Any]:
    """(digest of the program of `function` for arguments of these shapes, shapes of what it gives)."""
    program, found = _program(function, shapes, double=False)
    digest = hashlib.sha256()
    writer = _Writer(digest.update)
    writer.closed(program)
    try:
        writer.closed(_program(function, [_widened(one) for one in shapes], double=True)[0])
    except Exception:  # a formula that insists on 32 bits is no less of one
        writer.text("32 bits alone")
    return digest.hexdigest()[:DIGITS], found


def _program(function: Callable[..., Any], shapes: Sequence[Any], *, double: bool) -> tuple[core.ClosedJaxpr, Any]:
    with warnings.catch_warnings(), jax.enable_x64(double):
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)  # said where 64 bits are in use
        # A function of its own each time: JAX remembers traces, and what the formula reads may have changed.
        return jax.make_jaxpr(lambda *given: function(*given), return_shape=True)(*shapes)


def _widened(shape: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """The same of 64-bit numbers, if it is one of real numbers."""
    return jax.ShapeDtypeStruct(shape.shape, np.float64) if shape.dtype == np.float32 else shape


class _Writer:
    """Says a program in a canonical way, piece by piece, to `say`."""

    def __init__(self, say: Callable[[bytes], None]) -> None:
        self._say = say

    def text(self, *parts: object) -> None:
        self._say("".join(f"{part}\x00" for part in parts).encode())

    def array(self, value: Any) -> None:
        numbers = np.asarray(value)
        self.text("array", numbers.dtype, numbers.shape)
        self._say(np.ascontiguousarray(numbers).tobytes())

    def closed(self, program: core.ClosedJaxpr) -> None:
        """A program and its constants."""
        self.inner(program.jaxpr)
        for constant in program.consts:
            self.array(constant)

    def inner(self, program: core.Jaxpr) -> None:
        """Operations in order; variables are numbered by where they appear first."""
        numbers: dict[Any, int] = {}

        def variable(one: Any) -> None:
            if isinstance(one, core.Literal):
                self.array(one.val)
            else:
                self.text(numbers.setdefault(one, len(numbers)), one.aval)

        for group in (program.constvars, program.invars):
            self.text("(")
            for one in group:
                variable(one)
        for operation in program.eqns:
            self.text(operation.primitive.name)
            self.value(dict(operation.params))
            for group in (operation.invars, operation.outvars):
                self.text("(")
                for one in group:
                    variable(one)
        self.text("gives")
        for one in program.outvars:
            variable(one)

    def value(self, value: Any, depth: int = 0) -> None:
        """A setting of an operation: numbers, texts, arrays, programs, functions, and whatever holds such."""
        parts = _parts(value) if depth < _DEEPEST else None
        if isinstance(value, core.ClosedJaxpr):
            self.closed(value)
        elif isinstance(value, core.Jaxpr):
            self.inner(value)
        elif isinstance(value, np.ndarray | jax.Array):
            self.array(value)
        elif isinstance(value, types.FunctionType) and depth < _DEEPEST:
            self.function(value, depth)
        elif parts is None:
            self.text(type(value).__qualname__, _ADDRESS.sub("", repr(value)))
        else:
            self.text(type(value).__qualname__, len(parts))
            for one in parts:
                self.value(one, depth + 1)

    def function(self, function: types.FunctionType, depth: int = 0) -> None:
        """A Python function by its code, its defaults and what it closes over."""
        self.code(function.__code__)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        self.value((function.__defaults__, function.__kwdefaults__, cells), depth + 1)

    def code(self, code: types.CodeType) -> None:
        """Byte code, names and constants, those of inner functions included."""
        self._say(code.co_code)
        self.text(*code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.code(constant)
            else:
                self.text(_ADDRESS.sub("", repr(constant)))


def _parts(value: Any) -> list[Any] | None:
    """What a setting is made of, in order; None for what is said as a whole."""
    if isinstance(value, Mapping):
        return [part for key in sorted(value, key=str) for part in (str(key), value[key])]
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__func__, type(value.__self__).__qualname__]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return None


@functools.lru_cache(maxsize=256)
def code_digest(thing: type) -> str:
    """16 hex digits over the byte code of a class's own methods: for what cannot be traced."""
    digest = hashlib.sha256(thing.__qualname__.encode())
    writer = _Writer(digest.update)
    for one in thing.__mro__[:-1]:
        for name, member in sorted(vars(one).items()):
            found = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if isinstance(found, types.FunctionType):
                writer.text(name)
                writer.function(found)
    return digest.hexdigest()[:DIGITS]
