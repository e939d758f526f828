"""Figure 4c: likelihood against the number of training pushes, with four extra blocks."""

from __future__ import annotations

from spare.lab.experiments.cells import Cell, Size
from spare.lab.experiments.claims import Claim, Statement, differences
from spare.lab.experiments.experiment import Experiment, Results, noise_cells, score_cells
from spare.lab.experiments.fig4b import noise_curve
from spare.lab.experiments.figures import Curve, Grid, Picture
from spare.lab.experiments.methods import LABELS

METHODS = ("spare", "oracle", "spare-paper", "flat", "ensemble", "graph", "graph-frame")
LONG = ("flat", "ensemble", "graph")
"""Baselines that also see `many` pushes."""
GOOD = 1.3
"""The graph network must come this close, in nats per value of the stack, to the simulator's noise."""


def _counts(size: Size, method: str) -> tuple[int, ...]:
    return (*size.counts, size.many) if method in LONG else size.counts


def _of(size: Size, method: str, samples: int) -> list[Cell]:
    return score_cells(size, method, extra=size.usual, samples=samples)


def cells(size: Size) -> list[Cell]:
    """Every method on every number of pushes."""
    found = noise_cells(size, size.usual)
    for method in METHODS:
        for samples in _counts(size, method):
            found += _of(size, method, samples)
    return found


def pictures(results: Results) -> list[Picture | Grid]:
    """One curve per method, the number of pushes on a logarithmic axis."""
    size, curves = results.size, []
    for method in METHODS:
        counts = _counts(size, method)
        y = [results.estimate(_of(size, method, samples), lambda one: one["stack"]) for samples in counts]
        curves.append(Curve(LABELS[method], counts, tuple(y), method))
    curves.append(noise_curve(results, (*size.counts, size.many)))
    title = "What each learner makes of its training pushes"
    labels = ("training pushes", "nats per value of the stack", tuple(curves))
    far = Picture("fig4c", title, *labels, logarithmic=True, floor=-12.0)
    return [far, far.near(2.5)]


def claims(results: Results) -> list[Claim]:
    """More pushes help; ours with a tenth of them beats the flat network; the graph network is close to the noise."""
    size = results.size
    few, most = size.counts[0], size.counts[-1]
    enough = size.counts[-2]

    def at(method: str, samples: int) -> list[float]:
        return results.over(_of(size, method, samples), lambda one: one["stack"])

    value, found = "nats per value of the stack", []
    for name in ("spare-paper", "spare", "flat", "graph"):
        found.append(
            Statement(
                f"fig4c.{name}-learns",
                f"{LABELS[name]}: more training pushes help",
                f"{value}: {most:,} - {few:,} pushes",
                "ours" if name in ("graph", "spare") else "paper",
            ).above(differences(at(name, most), at(name, few)))
        )
    for name, source in (("spare-paper", "paper"), ("spare", "ours")):
        found.append(
            Statement(
                f"fig4c.{name}-few-beat-flat-many",
                f"{LABELS[name]} with {enough:,} pushes is better than the flat network with {size.many:,}",
                f"{value}: {name} at {enough:,} - flat at {size.many:,}",
                source,  # type: ignore[arg-type]
            ).above(differences(at(name, enough), at("flat", size.many)))
        )
    for name in ("ensemble", "graph"):
        found.append(
            Statement(
                f"fig4c.spare-beats-{name}-few",
                f"SPARE with {few:,} pushes is better than the {LABELS[name]} with {few:,}",
                f"{value}: spare - {name}, {few:,} pushes",
                "ours",
            ).above(differences(at("spare", few), at(name, few)))
        )
    level = results.estimate(noise_cells(size, size.usual), lambda one: one["stack"]).mean
    found.append(
        Statement(
            "fig4c.graph-is-real",
            f"The graph network with {enough:,} pushes, in world coordinates, is within {GOOD} nats of the noise",
            f"{value}: the simulator's noise - graph at {enough:,}",
            "ours",
        ).below([level - one for one in at("graph", enough)], GOOD)
    )
    return found


EXPERIMENT = Experiment(
    "fig4c",
    "Likelihood against the number of training pushes",
    "From 100 to 1,250 training pushes both improve; SPARE is good within a thousand, and the baseline does not match "
    "that with ten thousand.",
    "Four extra blocks (the paper does not say how many). Likelihood of the stack alone, as in figure 4b. The graph "
    "network (in world coordinates, and in the action's frame), the flat ensemble and our learner with the true lists "
    "given are added.",
    cells,
    pictures,
    claims,
)
