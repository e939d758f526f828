"""SPARE learns how a world of objects changes when you act on it: a few readable rules from little data.

Names are loaded on first use, so that `import spare` is immediate.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spare.builder import Builder
    from spare.domain import Action, Domain, Frame, Property
    from spare.errors import DataError, DefinitionError, FileError, FitError, SpareError, UsageError
    from spare.experience import ActionCall, Experience, State, Transition, concatenate
    from spare.model import Model, TransitionModel
    from spare.predictor import Predictor, fresh_predictor, linear_predictor
    from spare.references import Pointer, Reference, Shell
    from spare.rule import Rule

__version__ = "0.1.0"

_HOMES = {
    "Action": "domain",
    "ActionCall": "experience",
    "Builder": "builder",
    "DataError": "errors",
    "DefinitionError": "errors",
    "Domain": "domain",
    "Experience": "experience",
    "FileError": "errors",
    "FitError": "errors",
    "Frame": "domain",
    "Model": "model",
    "Pointer": "references",
    "Predictor": "predictor",
    "Property": "domain",
    "Reference": "references",
    "Rule": "rule",
    "Shell": "references",
    "SpareError": "errors",
    "State": "experience",
    "Transition": "experience",
    "TransitionModel": "model",
    "UsageError": "errors",
    "concatenate": "experience",
    "fresh_predictor": "predictor",
    "linear_predictor": "predictor",
}

__all__ = [
    "Action",
    "ActionCall",
    "Builder",
    "DataError",
    "DefinitionError",
    "Domain",
    "Experience",
    "FileError",
    "FitError",
    "Frame",
    "Model",
    "Pointer",
    "Predictor",
    "Property",
    "Reference",
    "Rule",
    "Shell",
    "SpareError",
    "State",
    "Transition",
    "TransitionModel",
    "UsageError",
    "concatenate",
    "fresh_predictor",
    "linear_predictor",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spare' has no attribute {name!r}")
    return getattr(importlib.import_module(f"spare.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
