"""How many samples each learner needs, and whether a rule keeps its promises: beyond the paper, run by `spare bench`.

samples   likelihood of the stack, of its values jointly, and of all objects by number of training pushes, beside graph
          networks and the noise
heights   stacks of 2, 3 and 4 blocks: does the rule cover exactly the stack?
clutter   trained with at most three extra blocks, tested with three, ten and a hundred
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

from spare.lab.experiments.cells import Cell, Size
from spare.lab.experiments.claims import Claim, Statement, differences
from spare.lab.experiments.experiment import Experiment, Results, noise_cells, score_cells
from spare.lab.experiments.figures import Curve, Grid, Picture
from spare.lab.experiments.learned import coverage
from spare.lab.experiments.methods import LABELS

METHODS = ("spare", "graph-frame")
VALUE = "nats per value of the stack"
MOVING = ("x", "y")
"""What pushes change. Heights never do, so they lie in every interval and would flatter its coverage."""


def _counts(size: Size) -> tuple[int, ...]:
    return (30, 100, 300, 1000) if size.effort >= 1 else (30, 100)


def _extras(size: Size) -> tuple[int, ...]:
    return (0, 4, 8) if size.effort >= 1 else (4,)


def _methods(size: Size, extra: int) -> tuple[str, ...]:
    """What is compared; among the usual number of extra blocks also the graph network without a frame."""
    return (*METHODS, "graph") if extra == size.usual else METHODS


def _of(size: Size, method: str, extra: int, samples: int) -> list[Cell]:
    return score_cells(size, method, extra=extra, samples=samples)


def _paper(size: Size, extra: int) -> list[Cell]:
    return score_cells(size, "spare-paper", extra=extra)


def cells(size: Size) -> list[Cell]:
    """Every method on every number of pushes and of extra blocks; the paper's learner on all pushes."""
    found: list[Cell] = []
    for extra in _extras(size):
        found += noise_cells(size, extra, size.seeds) + _paper(size, extra)
        for method in _methods(size, extra):
            for samples in _counts(size):
                found += _of(size, method, extra, samples)
    return found


def pictures(results: Results) -> list[Picture | Grid]:
    """For each number of extra blocks, the stack's likelihood and that of all objects by number of pushes."""
    size, found = results.size, []
    for extra in _extras(size):
        for part, label in (("stack", VALUE), ("joint", f"{VALUE}, jointly"), ("all", "nats per value of all objects")):
            curves = []
            for method in _methods(size, extra):
                y = [results.estimate(_of(size, method, extra, n), lambda one, p=part: one[p]) for n in _counts(size)]
                curves.append(Curve(LABELS[method], _counts(size), tuple(y), method))
            if part == "stack":
                level = results.estimate(_paper(size, extra), lambda one: one["stack"])
                curves.append(Curve(LABELS["spare-paper"], (size.samples,), (level,), "spare-paper"))
                level = results.estimate(noise_cells(size, extra, size.seeds), lambda one: one["stack"])
                curves.append(Curve.level(LABELS["noise"], _counts(size), level))
            title = f"Training pushes and what they bring, {extra} extra blocks"
            name = f"samples-{extra}-{part}"
            found.append(Picture(name, title, "training pushes", label, tuple(curves), logarithmic=True, floor=1.5))
    return found


def claims(results: Results) -> list[Claim]:
    """Thirty beat the paper's 1,250; ahead of the graph network everywhere; close to the noise; calibrated."""
    return [claim for extra in _extras(results.size) for claim in _claims(results, extra)]


def _claims(results: Results, extra: int) -> list[Claim]:
    size, counts = results.size, _counts(results.size)
    ours = {n: results.over(_of(size, "spare", extra, n), lambda one: one["stack"]) for n in counts}
    few, among = counts[0], f"{extra} extra blocks"
    paper = results.over(_paper(size, extra), lambda one: one["stack"])
    found = [
        Statement(
            f"samples.few-beat-paper-{extra}",
            f"{few} pushes reach more than the paper's learner with {size.samples:,}; {among}",
            f"{VALUE}: spare at {few} - spare-paper at {size.samples:,}",
            "ours",
        ).above(differences(ours[few], paper))
    ]
    noise = results.over(noise_cells(size, extra, size.seeds), lambda one: one["stack"])
    for samples, bound in {100: 0.7, counts[-1]: 0.15}.items():
        mine = results.over(_of(size, "spare", extra, samples), lambda one: fmean(one["each"][: size.replayed]))
        found.append(
            Statement(
                f"samples.near-noise-{extra}-{samples}",
                f"{samples:,} pushes come within {bound} nats of the simulator's own noise; {among}",
                f"{VALUE}: noise - spare, on the same pushes",
                "ours",
            ).below(differences(noise, mine), bound)
        )
    return [*found, *(claim for samples in counts for claim in _beside_graph(results, extra, samples))]


def _beside_graph(results: Results, extra: int, samples: int) -> list[Claim]:
    mine, theirs = (_of(results.size, name, extra, samples) for name in ("spare", "graph-frame"))
    where, found = f"{samples:,} pushes, {extra} extra blocks", []
    for part in ("stack", "all", "joint"):
        sides = [results.over(side, lambda one, p=part: one[p]) for side in (mine, theirs)]
        found.append(
            Statement(
                f"samples.ahead-{extra}-{samples}-{part}",
                f"SPARE is ahead of the graph network in the same frame ({part}): {where}",
                f"nats per value ({part}): spare - graph-frame",
                "ours",
            ).above(differences(*sides))
        )
    inside = results.over(mine, _coverage)
    return [
        *found,
        Statement(
            f"samples.calibrated-{extra}-{samples}",
            f"90 % intervals cover 85 to 95 %: {where}",
            f"share of the stack's {' and '.join(MOVING)} inside, minus 0.9",
            "ours",
        ).within([one - 0.9 for one in inside], 0.05),
    ]


def _coverage(one: dict[str, Any]) -> float:
    """The share of what moves that lies inside its central 90 %."""
    return fmean(coverage(one["ranks_by_property"][name], 0.9) for name in MOVING)


def _heights(size: Size, height: int) -> list[Cell]:
    runs = 10 if size.effort >= 1 else 2
    settings = {"method": "spare", "extra": size.usual, "samples": 300 if size.effort >= 1 else 100, "height": height}
    return [Cell("score", {**settings, "test": size.test, "effort": size.effort}, seed) for seed in range(runs)]


def height_cells(size: Size) -> list[Cell]:
    """Ten runs of each height."""
    return [cell for height in (2, 3, 4) for cell in _heights(size, height)]


def height_pictures(results: Results) -> list[Picture | Grid]:
    """The share of unseen pushes in which exactly the stack is covered, by height."""
    y = [results.estimate(_heights(results.size, h), lambda one: one.get("covers", 0.0)) for h in (2, 3, 4)]
    curve = Curve(LABELS["spare"], (2, 3, 4), tuple(y), "spare")
    return [Picture("heights", "Which blocks a rule covers", "height", "exactly the stack, share", (curve,))]


def height_claims(results: Results) -> list[Claim]:
    """In every run, on every unseen push."""
    found = []
    for height in (2, 3, 4):
        covers = results.over(_heights(results.size, height), lambda one: one.get("covers", 0.0))
        found.append(
            Statement(
                f"heights.{height}-blocks",
                f"The rule covers exactly the stack of {height} on every unseen push, in every run",
                "share of runs",
                "ours",
            ).every([one == 1.0 for one in covers])
        )
    return found


TESTED = (3, 10, 100)


def _clutter(size: Size) -> list[Cell]:
    settings = {
        "method": "spare",
        "extras": [0, 1, 2, 3],
        "tested": list(TESTED),
        "samples": 250 if size.effort >= 1 else 25,
        "test": size.test,
        "effort": size.effort,
    }
    return [Cell("clutter", settings, seed) for seed in range(size.seeds)]


def clutter_pictures(results: Results) -> list[Picture | Grid]:
    """Likelihood of the stack and of all objects by number of extra blocks in the test."""
    curves = []
    for part, label in (("stack", "the stack"), ("all", "all objects")):
        y = [
            results.estimate(_clutter(results.size), lambda one, e=e, p=part: one["by_extra"][str(e)][p])
            for e in TESTED
        ]
        curves.append(Curve(label, TESTED, tuple(y)))
    title = "Trained with at most three extra blocks"
    return [Picture("clutter", title, "extra blocks in the test", "nats per value", tuple(curves), logarithmic=True)]


def clutter_claims(results: Results) -> list[Claim]:
    """No loss on the stack among many more objects."""

    def at(extra: int) -> list[float]:
        return results.over(_clutter(results.size), lambda one: one["by_extra"][str(extra)]["stack"])

    return [
        Statement(
            f"clutter.{extra}",
            f"Trained with at most three extra blocks, tested with {extra}: no loss on the stack",
            f"{VALUE}: {extra} extra - 3 extra",
            "ours",
        ).above(differences(at(extra), at(TESTED[0])), -0.1)
        for extra in TESTED[1:]
    ]


NONE = "The paper has no such experiment."
EXPERIMENTS = (
    Experiment(
        "samples",
        "Likelihood from few training pushes",
        NONE,
        "All learn from the same pushes; the graph network in the action's frame, as "
        "ours, with an ensemble of as many members, and among four extra blocks without a frame too. `SPARE` searches "
        "for its lists. Likelihoods are those of each value alone; *jointly*, of a stack's values together, divided by "
        "their number: a graph network knows no more than each alone.",
        cells,
        pictures,
        claims,
    ),
    Experiment(
        "heights",
        "Stacks of two, three and four",
        NONE,
        "Four extra blocks, 300 training pushes; ten runs of each height.",
        height_cells,
        height_pictures,
        height_claims,
    ),
    Experiment(
        "clutter",
        "More objects than ever seen",
        NONE,
        "Trained on pushes with 0 to 3 extra blocks, equal shares. A hundred extra blocks stand on a larger table.",
        _clutter,
        clutter_pictures,
        clutter_claims,
    ),
)
