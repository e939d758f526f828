"""Figure 7: in what order the flat network sees the objects."""

from __future__ import annotations

from spare.lab.experiments.cells import Cell, Size
from spare.lab.experiments.claims import Claim, Statement, differences
from spare.lab.experiments.experiment import Experiment, Results, score_cells
from spare.lab.experiments.fig4b import average, stack
from spare.lab.experiments.figures import Curve, Grid, Picture
from spare.lab.experiments.methods import WILD

ORDERS = {
    "": {"stack": "flat-stack", "xtheny": "flat", "none": "flat-none"},
    "-stopped": {"stack": "ensemble-stack", "xtheny": "ensemble", "none": "ensemble-none"},
}
"""The method of each order: the paper's network, and an ensemble that is stopped early."""
WORDS = {"": "", "-stopped": ", flat ensemble with early stopping"}


def cells(size: Size) -> list[Cell]:
    """Three orders on every number of extra blocks, for each of the two."""
    methods = [method for orders in ORDERS.values() for method in orders.values()]
    return [c for method in methods for extra in size.extras for c in score_cells(size, method, extra=extra)]


def pictures(results: Results) -> list[Picture | Grid]:
    """One curve per order."""
    size, found = results.size, []
    for kind, orders in ORDERS.items():
        curves = []
        for order, method in orders.items():
            y = [results.estimate(score_cells(size, method, extra=e), lambda one: one["stack"]) for e in size.extras]
            curves.append(Curve(order, size.extras, tuple(y), method))
        title = f"The order in which the flat network sees objects{WORDS[kind]}"
        found.append(Picture(f"fig7{kind}", title, "extra blocks", "nats per value of the stack", tuple(curves)))
    return found


def claims(results: Results) -> list[Claim]:
    """stack > xtheny > none where there are extra blocks; all fall."""
    return [claim for kind in ORDERS for claim in _claims(results, kind)]


def _claims(results: Results, kind: str) -> list[Claim]:
    orders, (few, *some) = ORDERS[kind], results.size.extras
    value = "nats per value of the stack"
    where = f"mean over {', '.join(map(str, some))} extra blocks"
    found = []
    for first, second in (("stack", "xtheny"), ("xtheny", "none"), ("stack", "none")):
        says = Statement(
            f"fig7.{first}-beats-{second}{kind}",
            f"The order {first} is better than {second}{WORDS[kind]}",
            f"{value}, {where}: {first} - {second}",
            "paper" if not kind else "ours",
        )
        sides = (average(results, orders[order], some) for order in (first, second))
        found.append(says.above(differences(*sides), typical=orders[first] in WILD))
    for order, method in orders.items():
        says = Statement(
            f"fig7.{order}-falls{kind}",
            f"With the order {order}, too, the likelihood drops as blocks are added{WORDS[kind]}",
            f"{value}: {where} - {few} extra blocks",
            "paper" if not kind else "ours",
        )
        fall = differences(average(results, method, some), stack(results, method, few))
        found.append(says.below(fall, typical=method in WILD))
    return found


EXPERIMENT = Experiment(
    "fig7",
    "The order in which the flat network sees the objects",
    "The likelihood drops with extra blocks for every order; random (none) is worst, the ideal order (stack) best.",
    "With the order `stack`, the blocks that are not in the stack follow sorted by position; the paper does not say. "
    "Trained for 300 epochs the network is so sure of itself that a few pushes decide its mean, so medians are "
    "compared; and the same again for the flat ensemble, which is stopped early.",
    cells,
    pictures,
    claims,
)
