"""Figure 6: the cells of figure 4b, likelihood of all objects."""

from __future__ import annotations

from spare.lab.experiments.cells import Cell, Size
from spare.lab.experiments.claims import Claim, Statement, differences
from spare.lab.experiments.experiment import Experiment, Results, score_cells
from spare.lab.experiments.fig4b import by_extra
from spare.lab.experiments.figures import Grid, Picture
from spare.lab.experiments.methods import LABELS, WILD

METHODS = ("spare", "spare-paper", "flat", "ensemble", "graph", "no-change")


def cells(size: Size) -> list[Cell]:
    """Those of figure 4b."""
    return [c for method in METHODS for extra in size.extras for c in score_cells(size, method, extra=extra)]


def pictures(results: Results) -> list[Picture | Grid]:
    """Per value, and summed over the scene."""
    curves = by_extra(results, METHODS, lambda one: one["all"])
    total = by_extra(results, METHODS, lambda one: one["transition"])
    title = "All objects counted"
    return [
        Picture("fig6", title, "extra blocks", "nats per value, all objects", tuple(curves), floor=-12.0),
        Picture("fig6", title, "extra blocks", "nats per value, all objects", tuple(curves)).near(2.5),
        Picture("fig6-total", title, "extra blocks", "nats per transition", tuple(total), floor=-400.0),
    ]


def claims(results: Results) -> list[Claim]:
    """The gap widens."""
    size = results.size
    few, most = size.extras[0], size.extras[-1]

    def total(method: str, extra: int) -> list[float]:
        return results.over(score_cells(size, method, extra=extra), lambda one: one["transition"])

    found = []
    for first, second, source in (
        ("spare-paper", "flat", "paper"),
        ("spare", "ensemble", "ours"),
        ("spare", "graph", "ours"),
    ):
        wide = differences(total(first, most), total(second, most))
        narrow = differences(total(first, few), total(second, few))
        says = Statement(
            f"fig6.{first}-{second}-widens",
            f"All objects counted, {LABELS[first]} pulls away from the {LABELS[second]} as blocks are added",
            f"nats per transition, {first} - {second}: at {most} extra blocks - at {few}",
            source,  # type: ignore[arg-type]
        )
        found.append(says.above(differences(wide, narrow), typical=second in WILD))
    return found


EXPERIMENT = Experiment(
    "fig6",
    "Likelihood of all objects as extra blocks are added",
    "Counted over all objects, the baseline performs much worse than SPARE as objects are added.",
    "As in figure 4b. Shown per value and per transition, since with more blocks there are more values.",
    cells,
    pictures,
    claims,
)
