"""Figure 7: in what order the flat network sees the objects."""

from __future__ import annotations

import numpy as np

from spare.experiments.cells import Cell, Size
from spare.experiments.claims import Claim, Statement, differences
from spare.experiments.experiment import Experiment, Results, score_cells
from spare.experiments.fig4b import stack
from spare.experiments.figures import Curve, Grid, Picture

ORDERS = {"flat-stack": "stack", "flat": "xtheny", "flat-none": "none"}


def cells(size: Size) -> list[Cell]:
    """Three orders on every number of extra blocks."""
    return [c for method in ORDERS for extra in size.extras for c in score_cells(size, method, extra=extra)]


def pictures(results: Results) -> list[Picture | Grid]:
    """One curve per order."""
    size, curves = results.size, []
    for method, order in ORDERS.items():
        y = [results.estimate(score_cells(size, method, extra=e), lambda one: one["stack"]) for e in size.extras]
        curves.append(Curve(order, size.extras, tuple(y), method))
    title = "The order in which the flat network sees objects"
    return [Picture("fig7", title, "extra blocks", "nats per value of the stack", tuple(curves))]


def claims(results: Results) -> list[Claim]:
    """stack > xtheny > none where there are extra blocks; all fall."""
    size = results.size
    some = [extra for extra in size.extras if extra > 0]
    few, most = size.extras[0], size.extras[-1]

    def average(method: str) -> list[float]:
        runs = [stack(results, method, extra) for extra in some]
        return np.mean(runs, axis=0).tolist() if all(runs) else []

    value = "nats per value of the stack"
    where = f"mean over {', '.join(map(str, some))} extra blocks"
    found = [
        Statement(
            f"fig7.{ORDERS[first]}-beats-{ORDERS[second]}",
            f"The order {ORDERS[first]} is better than {ORDERS[second]}",
            f"{value}, {where}: {ORDERS[first]} - {ORDERS[second]}",
        ).above(differences(average(first), average(second)))
        for first, second in (("flat-stack", "flat"), ("flat", "flat-none"), ("flat-stack", "flat-none"))
    ]
    for method, order in ORDERS.items():
        found.append(
            Statement(
                f"fig7.{order}-falls",
                f"With the order {order}, too, the likelihood drops as blocks are added",
                f"{value}: {most} - {few} extra blocks",
            ).below(differences(stack(results, method, most), stack(results, method, few)), 0.0)
        )
    return found


EXPERIMENT = Experiment(
    "fig7",
    "The order in which the flat network sees the objects",
    "The likelihood drops with extra blocks for every order; random (none) is worst, the ideal order (stack) best.",
    "With the order `stack`, the blocks that are not in the stack follow sorted by position; the paper does not say.",
    cells,
    pictures,
    claims,
)
