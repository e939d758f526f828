"""SPARE learns how a world of objects changes when you act on it: a few readable rules from little data.

Names are loaded on first use, so that `import spare` is immediate. Nothing is imported before that is not part of the
interpreter itself: `python -m spare` looks for modules in the current folder first, until `spare.commands.entry` ends
that.
"""

import spare.forks  # watches forks from the start: others may start JAX before a name of ours is used

TYPE_CHECKING = False  # typing's own would have to be imported; type checkers take this one for it
if TYPE_CHECKING:
    from spare.data.builder import Builder
    from spare.data.experience import Experience, concatenate
    from spare.data.named import make_state, named_objects
    from spare.data.state import ActionCall, State, Transition
    from spare.errors import DataError, DefinitionError, FileError, FitError, ForkError, SpareError, UsageError
    from spare.language.actions import Action
    from spare.language.discrete import Boolean, Categorical, Integer, Link
    from spare.language.domain import Domain
    from spare.language.frames import Frame
    from spare.language.kinds import Angle, Kind, Leaf, Periodic, Real
    from spare.language.properties import Property
    from spare.language.references import Pointer, Reference, Shell
    from spare.language.registry import register
    from spare.language.types import Edges, Parameter, Type
    from spare.learning.fit import FitResult, fit
    from spare.learning.presets import Preset, Search, Training
    from spare.model.copula import OneFactorCopula
    from spare.model.evaluation import Evaluation, evaluate
    from spare.model.model import Model, TransitionModel, load
    from spare.model.noise import DefaultNoise
    from spare.model.predictors import Predictor, linear_predictor
    from spare.model.rule import Rule
    from spare.model.spec import RuleSpec
    from spare.model.trajectories import Rollout
    from spare.planning.environment import LearnedEnv, LearnedVectorEnv

__version__ = "0.1.0"

_NAMES = {
    "data.builder": "Builder",
    "data.experience": "Experience concatenate",
    "data.named": "make_state named_objects",
    "data.state": "ActionCall State Transition",
    "errors": "DataError DefinitionError FileError FitError ForkError SpareError UsageError",
    "language.actions": "Action",
    "language.domain": "Domain",
    "language.frames": "Frame",
    "language.discrete": "Boolean Categorical Integer Link",
    "language.kinds": "Angle Kind Leaf Periodic Real",
    "language.properties": "Property",
    "language.references": "Pointer Reference Shell",
    "language.registry": "register",
    "language.types": "Edges Parameter Type",
    "learning.fit": "FitResult fit",
    "learning.presets": "Preset Search Training",
    "model.copula": "OneFactorCopula",
    "model.evaluation": "Evaluation evaluate",
    "model.model": "Model TransitionModel load",
    "model.noise": "DefaultNoise",
    "model.predictors": "Predictor linear_predictor",
    "model.rule": "Rule",
    "model.spec": "RuleSpec",
    "model.trajectories": "Rollout",
    "planning.environment": "LearnedEnv LearnedVectorEnv",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


_PACKAGES = ("arrays", "data", "lab", "language", "learning", "model", "planning", "programs", "testing")


def __getattr__(name: str):
    import importlib
    import sys

    if name in _PACKAGES:
        return importlib.import_module(f"spare.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'spare' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    return getattr(importlib.import_module(f"spare.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
