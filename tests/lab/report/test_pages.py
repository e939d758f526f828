"""The pages: what they tell, that they are whole in one file, and how they look in a real browser."""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib
import re
import shutil
from typing import Any

import numpy as np
import pytest

import spare
from spare.commands.cli import main
from spare.lab.experiments.store import FORMAT
from spare.lab.report.comparison import comparison_page
from spare.lab.report.results import results_page
from tests.browser import NEEDED, show

pytestmark = pytest.mark.slow

DRAWN = "[...document.querySelectorAll('figure.scene')].every((one) => one.dataset.drawn === 'yes')"
ASK = {
    "canvases": "document.querySelectorAll('canvas').length",
    "wide": "document.documentElement.scrollWidth - window.innerWidth",
    "images": "[...document.images].every((one) => one.complete && one.naturalWidth > 0)",
    "charts": "document.querySelectorAll('figure > svg').length",
    "colours": """[...document.querySelectorAll('canvas')].map((one) => new Set(
        new Uint32Array(one.getContext('2d').getImageData(0, 0, one.width, one.height).data.buffer)).size)""",
    "curves": "[...document.querySelectorAll('path.curve')].map((one) => getComputedStyle(one).stroke)",
}


PICTURE = "document.querySelector('canvas').toDataURL()"
CHANGES = {
    "first": PICTURE,
    "turned": "(() => { document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', "
    f"{{key: 'ArrowLeft'}})); return {PICTURE}; }})()",
    "before": "(() => { const r = document.querySelector('input[type=range]'); r.value = 0; "
    f"r.dispatchEvent(new Event('input')); return {PICTURE}; }})()",
    "bare": "(() => { for (const t of document.querySelectorAll('.scene input[type=checkbox]')) t.click(); "
    f"return {PICTURE}; }})()",
}


def test_the_demo_ends_with_the_report_and_leaves_everything_beside_it(demo: tuple[pathlib.Path, str]) -> None:
    folder, said = demo
    lines = said.rstrip().splitlines()
    assert lines[-1] == str(folder / "report.html")
    for name in ("SPARE", "graph network", "flat network", "nothing moves"):
        assert sum(line.startswith(f"   {name} ") for line in lines) == 1
    made = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    figures = {f"figures/calibration.{kind}" for kind in ("png", "svg", "csv")}
    told = {"report.html", "run.json", "evaluation.json", "model.spare", "rules.svg"}
    assert made == figures | told | {"train.parquet", "test.parquet"}
    assert set(json.loads((folder / "evaluation.json").read_text())) == {
        "SPARE",
        "graph network",
        "flat network",
        "nothing moves",
    }


def test_a_page_is_one_file_that_names_no_other(demo: tuple[pathlib.Path, str], results: pathlib.Path) -> None:
    for page in ((demo[0] / "report.html").read_text(), results_page(results).html()):
        assert len(page) < 1_000_000
        assert all(link.startswith(('"data:', '"#')) for link in re.findall(r"\b(?:src|href)=(.{6})", page))
        assert "@import" not in page
        assert "url(" not in page
        script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
        mark = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
        assert len(script) == 1
        assert f"default-src 'none'; script-src 'sha256-{mark}';" in page[: page.index("<style>")]
        assert '<meta name="viewport"' in page
        assert "@media print" in page


def test_what_the_demo_s_page_tells(demo: tuple[pathlib.Path, str]) -> None:
    page = (demo[0] / "report.html").read_text()
    record = json.loads((demo[0] / "run.json").read_text())
    (rounds,) = (search["rounds"] for search in record["learned"]["search"])
    for text in (
        "push: 1 rule",
        "How the search went",
        f"in {len(rounds)} rounds",
        "calibration.csv",
        "spare demo --samples 40 --seed 0",
        record["learned"]["provenance"]["data"],
        record["made"]["versions"]["jax"],
        "data:image/svg+xml;base64,",
    ):
        assert text in page
    assert page.count("<canvas") == len(record["learned"]["scenes"]) == 3
    for scene in record["learned"]["scenes"]:
        assert len(scene["objects"]) == 7
        held = [one for one in scene["objects"] if one["expected"] is not None]
        assert held
        assert all(np.linalg.eigvalsh(np.array(one["covariance"])).min() > 0 for one in held)
    for one in record["methods"].values():
        assert sum(one["ranks"]) > 0


def test_what_the_results_page_tells(results: pathlib.Path) -> None:
    page = results_page(results).html()
    found = json.loads((results / "claims.json").read_text())
    for claims in found["claims"].values():
        for claim in claims:
            assert claim["says"].replace("'", "&#x27;") in page
    assert page.count('class="mark good"') >= sum(c["verdict"] == "holds" for v in found["claims"].values() for c in v)
    for text in (
        "FitError: &lt;b&gt;out of luck&lt;/b&gt;",  # what a file says is text, never markup
        "spare reproduce fig4a fig4b fig5a table1 --quick",
        "A quick look.",
        "fig4b.csv",
        "0.829",  # the paper's own table
        f"training {'a' * 16}, test {'b' * 16}",
    ):
        assert text in page


@pytest.mark.browser
@NEEDED
@pytest.mark.parametrize(("size", "dark"), [((1200, 900), False), ((390, 800), True)], ids=["desk", "dark-phone"])
def test_a_page_in_a_browser(
    size: tuple[int, int], dark: bool, demo: tuple[pathlib.Path, str], results: pathlib.Path
) -> None:
    """No complaint, no call, nothing wider than the screen, everything drawn, colours as the reader's eyes want.

    A scene turns, moves, and hides what it is asked to: each leaves another picture.
    """
    page = demo[0] / "report.html"
    if dark:
        assert main(["report", str(results), "--out", str(demo[0].parent / "results.html")]) == 0
        page = demo[0].parent / "results.html"
    shown = show(page, size=size, dark=dark, wait=DRAWN, ask=ASK | CHANGES, settle=0.2)
    assert not shown.complaints
    assert not shown.calls
    answers: dict[str, Any] = shown.answers
    assert answers["wide"] == 0
    assert answers["images"] is True
    assert answers["canvases"] == 3
    assert min(answers["colours"]) > 100
    assert answers["charts"] > (5 if dark else 3)
    assert len(set(answers["curves"])) > 1
    ground = np.median(shown.pixels.reshape(-1, 3), axis=0)
    assert ground.max() < 60 if dark else ground.min() > 200
    assert len({answers[name] for name in CHANGES}) == len(CHANGES)


def test_a_model_and_data_of_any_domain(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects without a place are described in words."""
    from spare.lab.worlds import flights

    spare.Model(flights.domain, [], np.full(len(flights.domain.dynamic), 0.01)).save(tmp_path / "model.spare")
    flights.generate(60, 0).save(tmp_path / "flights.parquet")
    files = [str(tmp_path / name) for name in ("model.spare", "flights.parquet")]
    assert main(["report", *files, "--domain", "spare.lab.worlds.flights:domain"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for text in ("A model of flights", "no rule applies", "hold(flight ", "this model", "predicted to stay"):
        assert text in page
    assert "<canvas" not in page


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a refused report says: one sentence, exit code 2."""
    assert main(["report", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_folders_that_hold_no_report(
    results: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(results, copy)
    assert "no such file or folder" in refused([str(tmp_path / "nothing")], capsys)
    assert "no run.json" in refused([str(tmp_path)], capsys)
    assert "is a folder" in refused([str(copy), "--out", str(tmp_path)], capsys)
    run = (copy / "run.json").read_text()
    for text, says in (
        (run.replace(f'"format": {FORMAT}', '"format": 7'), "format 7"),
        (run.replace('"quick"', '"huge"'), "size 'huge'"),
        (run[:20], "half written"),
        ('{"format": 3, "kind": "comparison"}', "format 3"),
        ('{"format": 1, "kind": "comparison"}', "not the record of a comparison"),
    ):
        (copy / "run.json").write_text(text)
        assert says in refused([str(copy)], capsys)
    (copy / "run.json").write_text(run)
    one = next(path for path in sorted((copy / "runs").iterdir()) if "diagonals" in path.read_text())
    whole = one.read_text()
    for text, says in ((whole[:50], "half written"), (whole.replace('"shells"', '"other"'), "damaged or of another")):
        one.write_text(text)
        assert says in refused([str(copy)], capsys)
    one.write_text(whole)
    (copy / "claims.json").unlink()
    assert "not finished" in refused([str(copy)], capsys)
    assert not (copy / "report.html").exists()


def test_a_model_needs_data_and_a_folder_does_not(results: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "also needs unseen transitions" in refused([str(results / "run.json")], capsys)
    assert "not with a folder" in refused([str(results), str(results / "run.json")], capsys)


def test_hostile_records_stay_text(demo: tuple[pathlib.Path, str]) -> None:
    record = json.loads((demo[0] / "run.json").read_text())
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    record["title"] = record["learned"]["rules"] = evil
    record["learned"]["scenes"][0]["title"] = record["learned"]["scenes"][0]["objects"][0]["name"] = evil
    record["learned"]["search"][0]["rounds"][0]["explored"][0]["gamma"] = evil
    record["learned"]["diagram"] = f"<svg xmlns='http://www.w3.org/2000/svg'>{evil}</svg>"
    page = comparison_page(demo[0], record).html()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
