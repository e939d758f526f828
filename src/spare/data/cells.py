"""Real numbers from whatever arrays and tables hold: missing cells, dates and durations included.

    missing cells    NaN: masked entries, None, pandas' NA and NaT, nulls of polars and pyarrow
    dates            seconds since 1970-01-01T00:00:00Z (`EPOCH`); a time without a zone counts as UTC
    durations        seconds

Of a date today, 64-bit numbers keep a quarter of a microsecond.
"""

from __future__ import annotations

import datetime
import fractions
from typing import Any

import numpy as np

from spare.arguments import described
from spare.data.precision import bounded
from spare.errors import DataError
from spare.names import shown

EPOCH = "seconds since 1970-01-01T00:00:00Z"
_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MISSING = {"NoneType", "NAType", "NaTType", "MaskedConstant"}
_TICKS = {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}


def as_array(given: Any, what: str) -> np.ndarray:
    """A column or matrix of any library as an array that shows what is missing, and in which instants are UTC.

    Lists of different lengths are refused.
    """
    if getattr(getattr(given, "dtype", None), "tz", None) is not None:  # pandas, with a zone: else Python objects
        return np.asarray(given, "datetime64[ns]")
    if not isinstance(given, np.ma.MaskedArray):
        try:
            return np.asarray(given)
        except ValueError as error:
            raise DataError(f"{what}: expected an array, got lists of different lengths or nested unevenly") from error
    if not np.ma.is_masked(given):
        return np.asarray(given.data)
    kind = given.dtype.kind
    whole = np.array(given.data, np.float64 if kind in "iub" else given.dtype if kind in "fMm" else object)
    whole[np.ma.getmaskarray(given)] = np.nan if kind in "iubf" else "NaT" if kind in "Mm" else None
    return whole


def none_missing(array: np.ndarray) -> np.ndarray:
    """The same array; None for every missing one of its Python objects, since some of those have no truth value."""
    if array.dtype.kind != "O":
        return array
    result = array.copy()
    result[np.array([type(one).__name__ in _MISSING for one in array.flat], bool).reshape(array.shape)] = None
    return result


def whole_array(given: Any, what: str) -> np.ndarray:
    """The same where nothing may be missing: ids, offsets, indices."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        row = int(np.argmax(np.ma.getmaskarray(given)))
        raise DataError(f"{what}: entry {row} is masked; none may be missing here")
    return as_array(given, what)


def numbers(given: Any, what: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """(real numbers, which of the last axis's columns are dates): 32-bit what came so or is a small whole number.

    A column of dates is one column, whatever its shape.
    """
    array = as_array(given, what)
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "O" and not array.ndim:
        raise DataError(f"{what}: expected an array of numbers, got {described(given)}")
    if kind in "fiub":
        narrow = size <= (4 if kind == "f" else 2)
        with np.errstate(over="ignore"):
            return bounded(np.array(array, np.float32 if narrow else np.float64, order="C")), ()
    if kind == "O":
        return _of_objects(array, what)
    if kind in "Mm":
        every = range(array.shape[-1] if array.ndim > 1 else 1)
        return _seconds(array), tuple(every) if kind == "M" else ()
    raise DataError(f"{what}: expected real numbers, got {array.dtype}")


def _of_objects(array: np.ndarray, what: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """Python objects, one column at a time: numbers, dates, durations, and what is missing."""
    columns = array.reshape(-1, array.shape[-1]).T if array.ndim > 1 else [array]
    found, dates = [], []
    for k, column in enumerate(columns):
        cells = [np.nan if type(one).__name__ in _MISSING else one for one in column.tolist()]
        times = [one for one in cells if isinstance(one, datetime.date | np.datetime64)]
        if times:
            dates.append(k)
            cells = _instants(cells, what)
        cells = [_duration(one) if isinstance(one, datetime.timedelta | np.timedelta64) else one for one in cells]
        cells = [_within_floats(one) for one in cells]
        try:
            found.append(np.array(cells, object).astype(np.float64).reshape(column.shape))
        except (TypeError, ValueError) as error:
            row, value = next((k, one) for k, one in enumerate(cells) if not _is_number(one))
            raise DataError(
                f"{what}, row {row}: {shown(repr(value), 80)} is not a number; repair it, or give texts numbers of "
                "their own"
            ) from error
    result = np.stack(found, axis=-1).reshape(array.shape) if found else np.zeros(array.shape)
    return bounded(result), tuple(dates)


def _within_floats(one: Any) -> Any:
    """The same; infinite, and so refused, if it is a whole number or a fraction that no 64-bit number comes near."""
    if not isinstance(one, int | fractions.Fraction):
        return one
    try:
        return float(one)
    except OverflowError:
        return np.inf if one > 0 else -np.inf


def _is_number(value: Any) -> bool:
    cell = np.empty(1, object)
    cell[0] = value  # a list is one cell too
    try:
        cell.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _instants(cells: list[Any], what: str) -> list[Any]:
    """Dates as seconds since `EPOCH`; those with a zone and those without do not go together."""
    times = [one for one in cells if isinstance(one, datetime.date | np.datetime64)]
    zoned = {getattr(one, "tzinfo", None) is not None for one in times}
    if len(zoned) > 1:
        raise DataError(f"{what} holds times with a zone and times without; give all of them in UTC")
    rest = [one for one in cells if not isinstance(one, datetime.date | np.datetime64 | float) or one == one]
    if len(rest) > len(times):
        raise DataError(f"{what} holds dates beside other values; give dates alone, or seconds")
    return [_instant(one) if isinstance(one, datetime.date | np.datetime64) else one for one in cells]


def _instant(one: Any) -> float:
    if isinstance(one, np.datetime64):
        return float(_seconds(np.array([one]))[0])
    if not isinstance(one, datetime.datetime):  # a day begins at midnight
        one = datetime.datetime(one.year, one.month, one.day)
    return _duration((one if one.tzinfo is not None else one.replace(tzinfo=datetime.UTC)) - _START)


def _duration(one: Any) -> float:
    if isinstance(one, np.timedelta64):
        return float(_seconds(np.array([one]))[0])
    part = one.microseconds / 1e6 + getattr(one, "nanoseconds", 0) / 1e9
    return one.days * 86400 + one.seconds + part


def _seconds(array: np.ndarray) -> np.ndarray:
    """datetime64 since 1970, or timedelta64, in seconds; NaT is NaN. Whole seconds and the rest are added last."""
    unit, count = np.datetime_data(array.dtype)
    if unit not in _TICKS:
        whole = array.astype(f"{array.dtype.kind}8[s]").astype(np.int64).astype(np.float64)
        return np.where(np.isnat(array), np.nan, whole)
    ticks = array.astype(f"{array.dtype.kind}8[{unit}]").astype(np.int64) if count != 1 else array.astype(np.int64)
    whole, rest = np.divmod(ticks, _TICKS[unit])
    return np.where(np.isnat(array), np.nan, whole + rest / _TICKS[unit])
