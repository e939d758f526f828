"""What formulas of users give back, checked, and what they raise, in words.

A formula is run once on values that stand for those of all objects at once and have no numbers yet (JAX traces it). So
Python's `if` and `and`, `math.sqrt` and NumPy fail in it, with errors that do not say what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from spare.arguments import described
from spare.errors import DefinitionError, SpareError
from spare.names import shown

_CHOICES = (
    "it asks whether a value is true, but has the values of all objects at once: write jnp.where(c, a, b) for `a if c "
    "else b`, & for `and`, | for `or`, ~ for `not` (each comparison in brackets), (0 < o.x) & (o.x < 1) for "
    "`0 < o.x < 1`, jnp.maximum for max"
)
_NUMPY = "it calls NumPy, which needs numbers: use jax.numpy, as in jnp.sqrt for np.sqrt"
_NUMBERS = "it turns a value into a Python number (math.sqrt, float, int): use jax.numpy, as in jnp.sqrt for math.sqrt"


class FormulaError(DefinitionError):
    """A formula raised something when it was asked; `reason` says what, in words."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.reason)


def asked(formula: Callable[..., Any], *given: Any) -> Any:
    """What a formula answers. Whatever it raises is told as its error, also where it would end the program."""
    try:
        return formula(*given)
    except (SpareError, KeyboardInterrupt):
        raise
    except BaseException as error:
        code, reason = getattr(formula, "__code__", None), in_words(error)
        place = f" in {shown(code.co_filename)}, line {code.co_firstlineno}," if code is not None else ""
        raise FormulaError(f"the formula{place} fails: {reason}", reason) from error


def in_words(error: BaseException) -> str:
    """What went wrong in a formula, in one line, and what to write instead."""
    text = str(error)
    if not isinstance(error, Exception):
        return f"it ends the program ({type(error).__name__}: {shown(text, 100) or 'no message'})"
    if isinstance(error, SpareError):
        return text
    if isinstance(error, jax.errors.TracerBoolConversionError) or "truth value of an array" in text:
        return _CHOICES
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return _NUMPY
    scalars = ("Only scalar arrays", "Only integer scalar arrays", "only length-1 arrays")
    if isinstance(error, jax.errors.ConcretizationTypeError) or text.startswith(scalars):
        return _NUMBERS
    if "'Objects'" in text:
        return f"it uses an object where a property of it is meant, such as o.x ({shown(text, 120)})"
    first = text.splitlines()[0] if text else "no message"
    return f"{type(error).__name__}: {shown(first, 200)}"


def per_object(found: Any, objects: int, what: str) -> Any:
    """What a formula gave, as an array with one entry per object, or one for all."""
    if found is None or isinstance(found, str | tuple | list | dict):
        raise DefinitionError(f"{what}, it gives {described(found)}; has it a `return`, and of one value?")
    array = jnp.asarray(found)
    if array.shape not in ((), (objects,)):
        raise DefinitionError(f"{what}, it gives an array of shape {list(array.shape)} for {objects} objects")
    return array


def check_mask(found: Any, objects: int) -> Any:
    """A Boolean per object."""
    what = "the formula must give one Boolean per object"
    if found is False:
        raise DefinitionError(f"{what}, it is always False; compare properties, such as o.x < p.x")
    array = per_object(found, objects, what)
    if array.dtype != jnp.bool_:
        raise DefinitionError(
            f"{what}, it gives {array.dtype}{list(array.shape)}; compare with < or >, or use Reference.closest"
        )
    return array


def check_key(found: Any, objects: int) -> Any:
    """A real number per object, to choose the smallest or largest."""
    what = "the key must give one number per object"
    array = per_object(found, objects, what)
    if array.dtype == jnp.bool_:
        raise DefinitionError(
            f"{what}, it gives Booleans; use Reference(name, formula) for those, or "
            "jnp.where(formula, distance, jnp.inf) for the closest of them"
        )
    if not (jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer)):
        raise DefinitionError(f"{what}, it gives {array.dtype}")
    return array


def check_place(found: Any) -> tuple[Any, ...]:
    """The coordinates that a frame's origin gave: up to three numbers."""
    if not isinstance(found, tuple | list) or not 1 <= len(found) <= 3:
        raise DefinitionError(
            f"the origin must give a tuple of 2 or 3 coordinates, such as (o.x, o.y), it gives {described(found)}"
        )
    return tuple(check_number(part, "a coordinate of the origin") for part in found)


def check_number(found: Any, what: str) -> Any:
    """A single number."""
    if found is None or isinstance(found, str | tuple | list | dict) or jnp.ndim(found):
        raise DefinitionError(f"{what} must be one number, it is {described(found)}")
    return found
