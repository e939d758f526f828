"""SPARE learns how a world of objects changes when you act on it: a few readable rules from little data.

Names are loaded on first use, so that `import spare` is immediate.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spare.data.builder import Builder
    from spare.data.experience import Experience, concatenate
    from spare.data.state import ActionCall, State, Transition
    from spare.errors import DataError, DefinitionError, FileError, FitError, SpareError, UsageError
    from spare.language.domain import Action, Domain
    from spare.language.frames import Frame
    from spare.language.kinds import Kind, Leaf, Periodic, Real
    from spare.language.properties import Property
    from spare.language.references import Pointer, Reference, Shell
    from spare.language.registry import register
    from spare.learning.fit import FitResult, fit
    from spare.learning.presets import Preset, Search, Training
    from spare.model.copula import OneFactorCopula
    from spare.model.evaluation import Evaluation, evaluate
    from spare.model.model import Model, TransitionModel, load
    from spare.model.noise import DefaultNoise
    from spare.model.predictors import Predictor, linear_predictor
    from spare.model.rule import Rule
    from spare.model.spec import RuleSpec

__version__ = "0.1.0"

_HOMES = {
    "Action": "language.domain",
    "ActionCall": "data.state",
    "Builder": "data.builder",
    "DataError": "errors",
    "DefaultNoise": "model.noise",
    "DefinitionError": "errors",
    "Domain": "language.domain",
    "Evaluation": "model.evaluation",
    "Experience": "data.experience",
    "FileError": "errors",
    "FitError": "errors",
    "FitResult": "learning.fit",
    "Frame": "language.frames",
    "Kind": "language.kinds",
    "Leaf": "language.kinds",
    "Model": "model.model",
    "OneFactorCopula": "model.copula",
    "Periodic": "language.kinds",
    "Pointer": "language.references",
    "Predictor": "model.predictors",
    "Preset": "learning.presets",
    "Property": "language.properties",
    "Real": "language.kinds",
    "Reference": "language.references",
    "Rule": "model.rule",
    "RuleSpec": "model.spec",
    "Search": "learning.presets",
    "Shell": "language.references",
    "SpareError": "errors",
    "State": "data.state",
    "Training": "learning.presets",
    "Transition": "data.state",
    "TransitionModel": "model.model",
    "UsageError": "errors",
    "concatenate": "data.experience",
    "evaluate": "model.evaluation",
    "fit": "learning.fit",
    "linear_predictor": "model.predictors",
    "load": "model.model",
    "register": "language.registry",
}

__all__ = [
    "Action",
    "ActionCall",
    "Builder",
    "DataError",
    "DefaultNoise",
    "DefinitionError",
    "Domain",
    "Evaluation",
    "Experience",
    "FileError",
    "FitError",
    "FitResult",
    "Frame",
    "Kind",
    "Leaf",
    "Model",
    "OneFactorCopula",
    "Periodic",
    "Pointer",
    "Predictor",
    "Preset",
    "Property",
    "Real",
    "Reference",
    "Rule",
    "RuleSpec",
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
    "linear_predictor",
    "load",
    "register",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spare' has no attribute {name!r}")
    return getattr(importlib.import_module(f"spare.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
