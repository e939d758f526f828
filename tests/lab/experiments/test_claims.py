"""Intervals and verdicts."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from spare.lab.experiments.claims import Statement, differences, ratios
from spare.lab.experiments.statistics import over_runs, share

SAY = Statement("name", "says", "quantity")


def test_the_interval_over_runs_is_students() -> None:
    found = over_runs([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.7764451 * np.sqrt(2.5) / np.sqrt(5)  # the 97.5 % point of t with 4 degrees of freedom
    assert found.mean == 3.0
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half))
    assert found.runs == 5


def test_it_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    inside = [low < 0 < high for _, low, high, _ in (over_runs(rng.normal(size=4).tolist()) for _ in range(2000))]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)


def test_one_run_has_no_interval_and_none_has_no_mean() -> None:
    assert over_runs([2.0]) == (2.0, -math.inf, math.inf, 1)
    assert math.isnan(over_runs([]).mean)


def test_wilsons_interval() -> None:
    assert share(5, 5)[1:3] == pytest.approx((0.5655, 1.0), abs=1e-4)
    assert share(1, 2)[1:3] == pytest.approx((0.0945, 0.9055), abs=1e-4)
    assert share(0, 5)[1:3] == pytest.approx((0.0, 0.4345), abs=1e-4)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1.0, 1.1, 0.9], "holds"),
        ([-1.0, -1.1, -0.9], "does not hold"),
        ([-1.0, 1.2], "not decided"),
        ([3.0], "not decided"),
        ([], "no numbers"),
    ],
)
def test_verdicts(values: list[float], verdict: str) -> None:
    assert SAY.above(values).verdict == verdict
    assert SAY.below([-value for value in values], 0.0).verdict == verdict


def test_unchanged_means_an_interval_inside_the_bounds() -> None:
    assert SAY.within([0.01, -0.01, 0.0], 0.1).verdict == "holds"
    assert SAY.within([0.5, 0.51, 0.49], 0.1).verdict == "does not hold"
    assert SAY.within([0.05, 0.15, 0.1], 0.1).verdict == "not decided"
    assert SAY.mostly([True] * 5).verdict == "holds"
    assert SAY.mostly([False] * 5).verdict == "does not hold"
    assert SAY.mostly([True, True]).verdict == "not decided"


def test_a_claim_is_plain_json() -> None:
    plain = json.loads(json.dumps(SAY.above([1.0]).as_dict(), allow_nan=False))
    assert plain["estimate"] == {"mean": 1.0, "low": None, "high": None, "runs": 1}
    assert plain["verdict"] == "not decided"
    assert plain["bound"] == "> 0"


def test_runs_are_compared_pair_by_pair() -> None:
    assert differences([3.0, 5.0], [1.0, 1.0]) == [2.0, 4.0]
    assert ratios([3.0, 5.0], [1.0, 2.0]) == [3.0, 2.5]
    assert differences([3.0, 5.0], []) == ratios([], [1.0, 2.0]) == []
    with pytest.raises(ValueError, match="longer"):
        differences([1.0], [1.0, 2.0])
