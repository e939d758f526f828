"""How what holds formulas travels to other processes: by the name that a module has for it, or by value.

Nothing here reads a file. Pickles are what multiprocessing, joblib, Dask and Ray send between processes of one program;
SPARE's own files hold none and are never unpickled.
"""

from __future__ import annotations

import importlib.metadata
import pickle
import sys
from typing import Any


def place_of(thing: object, before: str | None = None) -> str | None:
    """`module:attribute` of an object that is an attribute of an imported module; `__main__` only if no other is.

    As `pickle` does for functions, the modules that are loaded are looked through, that of `before`, where it was found
    the last time, first. One that the user sends by value (`cloudpickle.register_pickle_by_value`) does not count.
    """
    sent, found = _sent_by_value(), None
    first = before.partition(":")[0] if before else ""
    modules = [(first, sys.modules[first])] if first in sys.modules else []
    for name, module in [*modules, *sys.modules.items()]:
        if name == "__mp_main__" or any(name == one or name.startswith(f"{one}.") for one in sent):
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is thing and attribute.isidentifier():
                if name != "__main__":
                    return f"{name}:{attribute}"
                found = f"{name}:{attribute}"
    return found


def _sent_by_value() -> set[str]:
    cloudpickle = sys.modules.get("cloudpickle")
    return cloudpickle.list_registry_pickle_by_value() if cloudpickle is not None else set()


def load_place(place: str) -> Any:
    """What `place_of` found, in this process."""
    return importlib.metadata.EntryPoint("place", place, "spare").load()


def by_value(parts: tuple[Any, ...]) -> bytes | None:
    """Objects with functions of any kind, lambdas too, as bytes; None if that takes cloudpickle and there is none."""
    try:
        import cloudpickle
    except ImportError:
        try:
            return pickle.dumps(parts)
        except (pickle.PicklingError, AttributeError, TypeError):
            return None
    return cloudpickle.dumps(parts)


def from_value(content: bytes) -> tuple[Any, ...]:
    """What `by_value` was given; called while a pickle is loaded, of which `content` is a part."""
    return pickle.loads(content)
