"""Figure 4a: likelihood and default deviation as references are added, stacks of three on an empty table."""

from __future__ import annotations

from spare.experiments.cells import Cell, Size
from spare.experiments.claims import Claim, Statement, differences, ratios
from spare.experiments.experiment import Experiment, Results
from spare.experiments.figures import Curve, Grid, Picture

REFERENCES = 4


def cells(size: Size) -> list[Cell]:
    """One path per seed."""
    settings = {
        "preset": "paper",
        "extra": 0,
        "samples": size.samples,
        "test": size.test,
        "references": REFERENCES,
        "effort": size.effort,
    }
    return [Cell("path", settings, seed) for seed in range(size.seeds)]


def _at(results: Results, what: str, count: int) -> list[float]:
    return results.over(cells(results.size), lambda one: one["steps"][count][what])


def pictures(results: Results) -> list[Picture | Grid]:
    """Validation and test likelihood, and on the right the default deviation."""
    mine, x = cells(results.size), range(REFERENCES + 1)

    def curve(label: str, what: str, **style: bool) -> Curve:
        y = [results.estimate(mine, lambda one, k=k: one["steps"][k][what]) for k in x]
        return Curve(label, tuple(x), tuple(y), **style)  # type: ignore[arg-type]

    curves = (
        curve("validation", "validation"),
        curve("test", "test", dashed=True),
        curve("default deviation", "deviation", right=True),
    )
    title = "As references are added, stacks of three"
    labels = ("references", "log-likelihood, nats per transition", curves, "largest default deviation, mm")
    return [Picture("fig4a", title, *labels)]


def claims(results: Results) -> list[Claim]:
    """Greedy picks the stack; the first two references help, a further one does not; the deviation falls and stays."""
    mine = cells(results.size)
    test = [_at(results, "test", k) for k in range(4)]
    deviation = [_at(results, "deviation", k) for k in range(4)]
    found = results.over(mine, lambda one: one["steps"][one["kept"]]["covers"] == 1.0)
    gain, more = differences(test[2], test[0]), differences(test[3], test[2])
    nats = "test log-likelihood, nats per transition"
    return [
        Statement(
            "fig4a.selects-the-stack",
            "The search reliably selects references that hold all blocks of the stack",
            "share of runs whose list holds exactly the stack in every test push",
        ).mostly([bool(one) for one in found]),
        Statement(
            "fig4a.first-helps", "The first reference improves the likelihood", f"{nats}: 1 - 0 references"
        ).above(differences(test[1], test[0])),
        Statement(
            "fig4a.second-helps", "The second reference improves the likelihood", f"{nats}: 2 - 1 references"
        ).above(differences(test[2], test[1])),
        Statement(
            "fig4a.third-does-not",
            "A further reference, to no new block, does not improve it noticeably",
            "gain of the third reference as a share of the gain of the first two",
        ).below(ratios(more, gain), 0.1),
        Statement(
            "fig4a.deviation-falls",
            "The default deviation falls until all blocks of the stack are held",
            "largest default deviation, mm: 0 - 2 references",
        ).above(differences(deviation[0], deviation[2])),
        Statement(
            "fig4a.deviation-levels-off",
            "Then it levels off",
            "change by the third reference as a share of the fall by the first two",
        ).within(ratios(differences(deviation[2], deviation[3]), differences(deviation[0], deviation[2])), 0.1),
    ]


EXPERIMENT = Experiment(
    "fig4a",
    "Likelihood and default deviation as references are added",
    "One typical run: the likelihood rises with the first two references and not with the fourth; the learned default "
    "deviation drops until the set of references captures all moving objects.",
    "Several runs with an interval. The search is followed past the point where it would stop, to show what further "
    "references bring. The paper counts the target as a reference, we do not.",
    cells,
    pictures,
    claims,
)
