"""Tables 1 to 4: how clustering separates stacks of 2, 3 and 4 blocks; all four are read off the same runs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from spare.lab.experiments.cells import Cell, Size
from spare.lab.experiments.claims import Claim, Statement, differences
from spare.lab.experiments.experiment import Experiment, Results
from spare.lab.experiments.figures import Grid, Picture
from spare.lab.experiments.many import HEIGHTS

PAPER = {
    "table1": ((0.829, 0.022, 0.089), (0.115, 0.751, 0.038), (0.056, 0.227, 0.872)),
    "table2": ((0.595, 0.144, 0.111), (0.259, 0.551, 0.286), (0.146, 0.305, 0.602)),
    "table3": ((0.730, 0.065, 0.118), (0.149, 0.665, 0.171), (0.121, 0.270, 0.716)),
    "table4": ((0.779, 0.020, 0.016), (0.174, 0.744, 0.118), (0.047, 0.236, 0.866)),
}
TITLES = {
    "table1": "Separation by discrete clustering",
    "table2": "Memberships by inverse distance",
    "table3": "Memberships by inverse squared distance",
    "table4": "Inverse squared distance, likelihood times five",
}


OURS = {"preset": "default"}


def _starts(size: Size, more: Mapping[str, str]) -> list[Cell]:
    """One start per seed, stacks of 2, 3 and 4 blocks in thirds."""
    settings = {"samples": size.samples, "shares": [1.0, 1.0, 1.0], "effort": size.effort, **more}
    return [Cell("start", settings, seed) for seed in range(size.tables)]


def paper_cells(size: Size) -> list[Cell]:
    """Those of the paper's learner."""
    return _starts(size, {})


def cells(size: Size) -> list[Cell]:
    """Those of the paper's learner, and of our default."""
    return paper_cells(size) + _starts(size, OURS)


def pictures(name: str, results: Results) -> list[Picture | Grid]:
    """The table beside the paper's, by the paper's learner and by ours."""
    ours = _grid(name, results, _starts(results.size, OURS))
    ours = dataclasses.replace(ours, name=f"{name}-default", title=f"{ours.title}, preset `default`")
    return [_grid(name, results, paper_cells(results.size)), ours]


def _grid(name: str, results: Results, mine: list[Cell]) -> Grid:
    found = tuple(
        tuple(results.estimate(mine, lambda one, i=i, j=j: one["tables"][name][i][j]) for j in range(3))
        for i in range(3)
    )
    rows = tuple(f"cluster {k + 1}" for k in range(3))
    return Grid(name, TITLES[name], rows, tuple(f"{h} blocks" for h in HEIGHTS), found, PAPER[name])


def _diagonal(results: Results, name: str) -> list[float]:
    """The mean of the table's diagonal, one per run."""
    return results.over(paper_cells(results.size), lambda one: float(np.mean(np.diag(one["tables"][name]))))


def claims(name: str, results: Results) -> list[Claim]:
    """Most of each height goes to its own cluster; how the tables compare."""
    mine, found = paper_cells(results.size), []
    for k, height in enumerate(HEIGHTS):
        own = results.over(mine, lambda one, k=k: one["tables"][name][k][k])
        most = results.over(
            mine, lambda one, k=k: max(one["tables"][name][j][k] for j in range(len(HEIGHTS)) if j != k)
        )
        found.append(
            Statement(
                f"{name}.{height}-blocks",
                f"{TITLES[name]}: {height}-block samples go mostly to their own cluster",
                "membership in the own cluster - in the largest other",
            ).above(differences(own, most))
        )
    found += [_reached(name, results, which) for which in ("paper", "default")]
    return [*found, *_ORDER.get(name, lambda _: [])(results)]


def _reached(name: str, results: Results, which: str) -> Claim:
    mine = paper_cells(results.size) if which == "paper" else _starts(results.size, OURS)
    short = results.over(mine, lambda one: min(one["tables"][name][k][k] - PAPER[name][k][k] for k in range(3)))
    return Statement(
        f"{name}.{which}-reaches",
        f"{TITLES[name]}: every share on the diagonal is at least the paper's, preset `{which}`",
        "share in the own cluster - the paper's, the smallest of the three heights",
        "ours",
    ).above(short)


def _lists(results: Results) -> list[Claim]:
    exact = results.over(paper_cells(results.size), lambda one: min(part["exact"] for part in one["lists"]))
    return [
        Statement(
            "table1.lists-fit",
            "Rules trained on the three clusters reliably consider the right number of blocks",
            "share of runs in which each cluster's rule holds exactly the blocks of over 90 % of its height",
        ).mostly([one > 0.9 for one in exact])
    ]


def _compare(better: str, worse: str, says: str, results: Results) -> list[Claim]:
    apart = differences(_diagonal(results, better), _diagonal(results, worse))
    return [Statement(f"{better}.beats-{worse}", says, "mean of the diagonal: difference").above(apart)]


_ORDER = {
    "table1": _lists,
    "table3": functools.partial(
        _compare, "table3", "table2", "Separation is better with squared distances than without"
    ),
    "table4": functools.partial(_compare, "table4", "table3", "More weight on the likelihood separates better"),
}


def experiment(name: str) -> Experiment:
    """One of the four tables."""
    return Experiment(
        name,
        TITLES[name],
        "Mean membership of each height's samples in each cluster; on the diagonal "
        + ", ".join(f"{PAPER[name][k][k]:.3f}" for k in range(3))
        + ".",
        "Raw units, total nats as the likelihood feature, as the paper must have done; clusters are matched to heights "
        "so that the diagonal's sum is largest. Preset `paper`, and beside it `default`.",
        cells,
        functools.partial(pictures, name),
        functools.partial(claims, name),
    )
