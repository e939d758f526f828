"""Every experiment: its runs, and that figures and claims say what the numbers say."""

from __future__ import annotations

import csv
import json
import pathlib
import xml.etree.ElementTree as ET

import pytest

import spare
from spare.lab.experiments.catalogue import BEYOND, EXPERIMENTS, chosen
from spare.lab.experiments.experiment import Results
from spare.lab.experiments.runs import FULL, QUICK, Run
from spare.lab.experiments.tasks import TASKS, data_of
from tests.lab.experiments import made_up

EVERY = {**EXPERIMENTS, **BEYOND}


def test_names() -> None:
    tables = [f"table{k}" for k in range(1, 5)]
    assert list(EXPERIMENTS) == ["fig4a", "fig4b", "fig4c", "fig5a", "fig5b", "fig6", *tables, "fig7", "mixed"]
    assert [one.name for one in chosen(["table1", "fig4a"])] == ["fig4a", "table1"]
    assert len(chosen(["all"])) == 12
    with pytest.raises(
        spare.UsageError,
        match=r"unknown experiment 'fig9'; valid: fig4a, .*, mixed, samples, heights, clutter, worlds, all",
    ):
        chosen(["fig4a", "fig9"])
    with pytest.raises(spare.UsageError, match="at least one"):
        chosen([])


def test_a_cell_is_named_by_what_it_computes() -> None:
    one = Run("score", {"method": "flat", "extra": 4}, 0)
    assert one.key == Run("score", {"extra": 4, "method": "flat"}, 0).key
    others = [Run("score", {"method": "flat", "extra": 4}, 1), Run("noise", one.settings, 0), Run("score", {}, 0)]
    assert len({one.key, *(other.key for other in others)}) == 4


@pytest.mark.parametrize("name", list(EVERY))
@pytest.mark.parametrize("size", [FULL, QUICK], ids=lambda size: size.name)
def test_cells_are_plain_and_their_data_are_known(name: str, size: object) -> None:
    runs = EVERY[name].runs(size)  # type: ignore[arg-type]
    assert len({run.key for run in runs}) == len(runs) > 1
    for run in runs:
        assert run.task in TASKS
        assert Run(run.task, json.loads(json.dumps(run.settings)), run.seed).key == run.key
        assert all(one.samples > 0 for one in data_of(run))


def test_training_and_test_data_never_share_a_seed() -> None:
    for run in EXPERIMENTS["fig4b"].runs(FULL):
        if run.task == "score":
            train, test = data_of(run)
            assert train.seed != test.seed
            assert (train.samples, test.samples) == (1250, 250)


def test_the_paper_s_protocol() -> None:
    assert (FULL.samples, FULL.test, FULL.many) == (1250, 250, 10_000)
    assert FULL.seeds >= 5
    assert FULL.tables >= 3
    assert (FULL.extras[0], FULL.extras[-1], FULL.counts[0], FULL.counts[-1]) == (0, 10, 100, 1250)
    methods = {run.settings.get("method") for one in EXPERIMENTS.values() for run in one.runs(FULL)}
    assert {"spare", "spare-paper", "flat", "flat-none", "flat-stack", "ensemble", "graph", "oracle"} <= methods


@pytest.mark.parametrize("name", list(EVERY))
def test_claims_hold_where_the_numbers_say_so_and_only_there(name: str) -> None:
    """Numbers as the paper has them, the opposite, and none at all."""
    experiment = EVERY[name]
    good = experiment.claims(Results(made_up.TINY, made_up.records(experiment)))
    assert [claim.name for claim in good if claim.verdict != "holds"] == []
    assert len({claim.name for claim in good}) == len(good) >= 1
    bad = experiment.claims(Results(made_up.TINY, made_up.records(experiment, -1.0)))
    assert "does not hold" in {claim.verdict for claim in bad}
    none = experiment.claims(Results(made_up.TINY, {}))
    assert {claim.verdict for claim in none} == {"no numbers"}
    assert [claim.name for claim in none] == [claim.name for claim in good]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EVERY))
def test_claims_without_one_of_the_cells(name: str) -> None:
    """A run that failed takes the numbers of the claims that need it, and of no other."""
    experiment = EVERY[name]
    every = made_up.records(experiment)
    whole = experiment.claims(Results(made_up.TINY, every))
    for key in every:
        some = {other: record for other, record in every.items() if other != key}
        found = experiment.claims(Results(made_up.TINY, some))
        assert [claim.name for claim in found] == [claim.name for claim in whole]
        assert {claim.verdict for claim in found} <= {"holds", "not decided", "no numbers"}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EVERY))
def test_pictures(name: str, tmp_path: pathlib.Path) -> None:
    """PNG, SVG and CSV, also of a run in which some runs are missing."""
    experiment = EVERY[name]
    every = made_up.records(experiment)
    some = {key: record for k, (key, record) in enumerate(every.items()) if k % 3}
    for k, found in enumerate((every, some)):
        folder = tmp_path / str(k)
        folder.mkdir()
        for picture in experiment.pictures(Results(made_up.TINY, found)):
            png, svg, table = picture.save(folder)
            assert png.read_bytes().startswith(b"\x89PNG")
            assert ET.parse(svg).getroot().tag.endswith("svg")
            rows = list(csv.DictReader(table.read_text().splitlines()))
            assert rows
            assert "mean" in rows[0]
    assert any(path.stem.startswith(name) for path in (tmp_path / "0").iterdir())


def test_the_csv_holds_the_numbers(tmp_path: pathlib.Path) -> None:
    experiment = EXPERIMENTS["fig4b"]
    found = made_up.records(experiment)
    experiment.pictures(Results(made_up.TINY, found))[0].save(tmp_path)
    rows = list(csv.DictReader((tmp_path / "fig4b.csv").read_text().splitlines()))
    mine = [float(row["mean"]) for row in rows if row["curve"] == "flat network" and row["extra blocks"] == "4"]
    wanted = [r["values"]["stack"] for r in found.values() if r["settings"].get("method") == "flat"]
    seen = [r["settings"]["extra"] for r in found.values() if r["settings"].get("method") == "flat"]
    expected = [value for value, extra in zip(wanted, seen, strict=True) if extra == 4]
    assert mine == [pytest.approx(sum(expected) / len(expected))]
