"""Training on mixed numbers of objects, which the paper says is possible and does not run."""

from __future__ import annotations

from spare.lab.experiments.cells import Cell, Size
from spare.lab.experiments.claims import Claim, Statement, differences
from spare.lab.experiments.experiment import Experiment, Results, score_cells
from spare.lab.experiments.figures import Curve, Grid, Picture
from spare.lab.experiments.methods import LABELS

METHODS = ("spare", "spare-paper", "graph")


def _together(size: Size, method: str) -> list[Cell]:
    settings = {
        "method": method,
        "extras": list(size.extras),
        "samples": size.samples,
        "test": size.test,
        "effort": size.effort,
    }
    return [Cell("mixed", settings, seed) for seed in range(size.seeds)]


def cells(size: Size) -> list[Cell]:
    """Each method on all pushes together, and (as in figure 4b) on each number of blocks alone."""
    alone = [c for method in METHODS for extra in size.extras for c in score_cells(size, method, extra=extra)]
    return [*alone, *(c for method in METHODS for c in _together(size, method))]


def pictures(results: Results) -> list[Picture | Grid]:
    """Likelihood by number of extra blocks: trained on all together, and on each alone."""
    size, curves = results.size, []
    for method in METHODS:
        together = [
            results.estimate(_together(size, method), lambda one, e=extra: one["by_extra"][str(e)]["stack"])
            for extra in size.extras
        ]
        alone = [results.estimate(score_cells(size, method, extra=e), lambda one: one["stack"]) for e in size.extras]
        curves.append(Curve(f"{LABELS[method]}, all together", size.extras, tuple(together), method))
        curves.append(Curve(f"{LABELS[method]}, each alone", size.extras, tuple(alone), method, dashed=True))
    title = "Trained on mixed numbers of objects"
    return [Picture("mixed", title, "extra blocks", "nats per value of the stack", tuple(curves))]


def claims(results: Results) -> list[Claim]:
    """A larger training set of mixed sizes is of use."""
    size, found = results.size, []
    for method, source in (("spare-paper", "paper"), ("spare", "ours"), ("graph", "ours")):
        extra = size.usual
        together = results.over(_together(size, method), lambda one, e=extra: one["by_extra"][str(e)]["stack"])
        alone = results.over(score_cells(size, method, extra=extra), lambda one: one["stack"])
        found.append(
            Statement(
                f"mixed.{method}-benefits",
                f"{LABELS[method]}: training on all numbers of extra blocks together is better than on one alone",
                f"nats per value of the stack at {extra} extra blocks: together - alone",
                source,  # type: ignore[arg-type]
            ).above(differences(together, alone))
        )
    return found


EXPERIMENT = Experiment(
    "mixed",
    "Training on mixed numbers of objects",
    "SPARE could have been trained on the combination of all data sets with varying numbers of extra objects, "
    "benefiting from a larger training set. (Stated in section 5.3, not run there.)",
    "All of it: the paper has no such experiment. A flat network cannot take part, the graph network can.",
    cells,
    pictures,
    claims,
)
