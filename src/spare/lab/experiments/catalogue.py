"""All experiments by name: the paper's in its order, then our own."""

from __future__ import annotations

from collections.abc import Sequence

from spare.errors import UsageError
from spare.lab.experiments import adding_references, extra_blocks, several_rules, training_pushes, worlds
from spare.lab.experiments.experiment import Experiment

_PAPER = (
    adding_references.FIG4A,
    extra_blocks.FIG4B,
    training_pushes.FIG4C,
    several_rules.FIG5A,
    several_rules.FIG5B,
    extra_blocks.FIG6,
    *several_rules.TABLES,
    extra_blocks.FIG7,
    extra_blocks.MIXED_EXTRAS,
)
_OURS = (training_pushes.SAMPLES, training_pushes.STACK_HEIGHTS, extra_blocks.CLUTTER, worlds.WORLDS_EXPERIMENT)
EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in _PAPER}
"""The paper's: the meaning of `all`."""
BEYOND: dict[str, Experiment] = {one.name: one for one in _OURS}
"""Those that the paper does not have: what `spare bench samples` runs."""


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, the paper's for `all`, in the order of the catalogue."""
    known = {**EXPERIMENTS, **BEYOND}
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown or not names:
        what = f"unknown experiment {unknown[0]!r}" if unknown else "name at least one experiment"
        raise UsageError(f"{what}; valid: {', '.join(known)}, all")
    return [one for name, one in known.items() if name in names or ("all" in names and name in EXPERIMENTS)]
