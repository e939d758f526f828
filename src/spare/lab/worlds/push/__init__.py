"""The push world (section 5.1 of the paper): a robot pushes stacks of blocks on a cluttered table.

    domain               properties, references and the action `push`
    generate(...)        experience from a physics engine, the same for the same seed
    replay(data, i)      transition i again, many times, with fresh action noise
    noise_floor(data)    the best log-likelihood that a diagonal Gaussian could reach
    stack_mask(data)     which rows are blocks of the pushed stack

Engines, pictures and JAX are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spare.lab.worlds.push.generation import generate as generate
    from spare.lab.worlds.push.relations import domain as domain
    from spare.lab.worlds.push.repeats import NoiseFloor as NoiseFloor
    from spare.lab.worlds.push.repeats import noise_floor as noise_floor
    from spare.lab.worlds.push.repeats import replay as replay
    from spare.lab.worlds.push.repeats import stack_mask as stack_mask

_HOME = {
    "domain": "relations",
    "generate": "generation",
    "replay": "repeats",
    "noise_floor": "repeats",
    "NoiseFloor": "repeats",
    "stack_mask": "repeats",
}

__all__ = ["NoiseFloor", "domain", "generate", "noise_floor", "replay", "stack_mask"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
