"""Cells of the experiment `worlds`: what they are, and tiny ones from end to end."""

from __future__ import annotations

import pathlib

import pytest

from spare.lab.baselines.flat import PAPER, ordering
from spare.lab.experiments import worlds
from spare.lab.experiments.data import TEST_SEEDS
from spare.lab.experiments.runs import FULL, QUICK, Run
from spare.lab.experiments.tasks import compute
from spare.lab.worlds.catalogue import WORLDS

pytestmark = pytest.mark.slow


def test_what_is_compared() -> None:
    runs = [run for run in worlds.WORLDS_EXPERIMENT.runs(FULL) if run.task == "world"]
    assert {run.settings["world"] for run in runs} == set(WORLDS) == {"tray", "billiards", "flights"}
    assert {run.settings["samples"] for run in runs} == {100, 1000}
    framed = {run.settings["world"] for run in runs if run.settings["method"] == "graph-frame"}
    assert framed == {"tray", "billiards"}
    assert len(runs) == 2 * 5 * (5 + 5 + 4)
    assert len(worlds.WORLDS_EXPERIMENT.runs(QUICK)) < 60


def test_a_tiny_cell(tmp_path: pathlib.Path) -> None:
    settings = {"world": "flights", "method": "spare", "samples": 20, "test": 4, "effort": 0.01}
    record = compute(Run("world", settings, 0), tmp_path)
    assert "error" not in record, record
    found = record["values"]
    share = WORLDS["flights"].moved(worlds._data(settings, TEST_SEEDS, 4)).mean()
    assert found["all"] == pytest.approx(share * found["moved"] + (1 - share) * found["others"])
    assert "hold(flight)" in found["rules"]


@pytest.mark.parametrize("world", WORLDS)
def test_a_flat_network_can_take_the_data(world: str) -> None:
    data = worlds._data({"world": world}, 0, 5)
    rows = ordering(data, data.domain.actions[0].name, PAPER)
    assert rows.shape == (5, WORLDS[world].fixed)


def test_the_noise_of_a_world(tmp_path: pathlib.Path) -> None:
    settings = {"world": "tray", "replayed": 4, "repeats": 20}
    found = compute(Run("world-noise", settings, 0), tmp_path)["values"]
    assert 3.0 < found["moved"] < found["all"] < 5.6
