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
    from spare.evaluation import Evaluation, evaluate
    from spare.experience import ActionCall, Experience, State, Transition, concatenate
    from spare.files import load
    from spare.learning.api import FitResult, fit
    from spare.learning.presets import Preset, Search, Training
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
    "Evaluation": "evaluation",
    "Experience": "experience",
    "FileError": "errors",
    "FitError": "errors",
    "FitResult": "learning.api",
    "Frame": "domain",
    "Model": "model",
    "Pointer": "references",
    "Predictor": "predictor",
    "Preset": "learning.presets",
    "Property": "domain",
    "Reference": "references",
    "Rule": "rule",
    "Search": "learning.presets",
    "Shell": "references",
    "SpareError": "errors",
    "State": "experience",
    "Training": "learning.presets",
    "Transition": "experience",
    "TransitionModel": "model",
    "UsageError": "errors",
    "concatenate": "experience",
    "evaluate": "evaluation",
    "fit": "learning.api",
    "fresh_predictor": "predictor",
    "linear_predictor": "predictor",
    "load": "files",
}

__all__ = [
    "Action",
    "ActionCall",
    "Builder",
    "DataError",
    "DefinitionError",
    "Domain",
    "Evaluation",
    "Experience",
    "FileError",
    "FitError",
    "FitResult",
    "Frame",
    "Model",
    "Pointer",
    "Predictor",
    "Preset",
    "Property",
    "Reference",
    "Rule",
    "Search",
    "Shell",
    "SpareError",
    "State",
    "Training",
    "Transition",
    "TransitionModel",
    "UsageError",
    "concatenate",
    "evaluate",
    "fit",
    "fresh_predictor",
    "linear_predictor",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spare' has no attribute {name!r}")
    return getattr(importlib.import_module(f"spare.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
