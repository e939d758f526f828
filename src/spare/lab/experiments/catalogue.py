"""All experiments by name: the paper's in its order, then our own."""

from __future__ import annotations

from collections.abc import Sequence

from spare.errors import UsageError
from spare.lab.experiments import fig4a, fig4b, fig4c, fig6, fig7, mixed, samples, worlds
from spare.lab.experiments.experiment import Experiment
from spare.lab.experiments.fig5 import FIG5A, FIG5B
from spare.lab.experiments.tables import experiment as table

_EVERY = (
    fig4a.EXPERIMENT,
    fig4b.EXPERIMENT,
    fig4c.EXPERIMENT,
    FIG5A,
    FIG5B,
    fig6.EXPERIMENT,
    *(table(f"table{k}") for k in range(1, 5)),
    fig7.EXPERIMENT,
    mixed.EXPERIMENT,
)
EXPERIMENTS: dict[str, Experiment] = {one.name: one for one in _EVERY}
"""The paper's: what `all` means."""
BEYOND: dict[str, Experiment] = {one.name: one for one in (*samples.EXPERIMENTS, worlds.EXPERIMENT)}
"""Those that the paper does not have: what `spare bench samples` runs."""


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, the paper's for `all`, in the order of the catalogue."""
    known = {**EXPERIMENTS, **BEYOND}
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown or not names:
        what = f"unknown experiment {unknown[0]!r}" if unknown else "name at least one experiment"
        raise UsageError(f"{what}; valid: {', '.join(known)}, all")
    return [one for name, one in known.items() if name in names or ("all" in names and name in EXPERIMENTS)]
