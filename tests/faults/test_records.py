"""Records of runs that somebody else made: the report about them is a page of text, or an error of ours."""

from __future__ import annotations

import base64
import copy
import csv
import html
import html.parser
import io
import json
import os
import pathlib
import random
import re
from typing import Any

import pytest

import spare
from spare.lab.experiments.claims import Claim, Summary
from spare.lab.experiments.experiment import Experiment
from spare.lab.experiments.figures import Curve, Picture
from spare.lab.experiments.learned import describe
from spare.lab.experiments.page import page
from spare.lab.experiments.runs import QUICK
from spare.lab.experiments.statistics import Estimate
from spare.lab.report.comparison import comparison_page
from spare.lab.worlds import queue as toy
from spare.names import tabled

CASES = int(os.environ.get("SPARE_TEST_RECORDS", "250"))
EVIL: list[Any] = [
    "</script></style><script>evil()</script>",
    "\"'><img src=x onerror=evil()>",
    "red;background:url(http://evil)",
    "javascript:evil()",
    '=HYPERLINK("http://evil")\n@SUM(1),"x',
    "`<b onclick=evil()>`",
    "\x1b[2J\u202e",
    "x" * 50_000,
    *(0, -1, 5, 10**400, 1e308, float("nan"), float("inf"), None, True, [], {}, "", [[]]),
]


def record() -> dict[str, Any]:
    """A run with everything that a page can show."""

    def candidate(shell: str, score: float | None) -> dict[str, Any]:
        facts = {"loss": score, "train_loss": score, "applies": 0.5, "skipped": "why" if score is None else None}
        return {"gamma": shell, "delta": shell, "default_deviation": [0.1], **facts}

    def round_(move: str, kept: bool) -> dict[str, Any]:
        explored = [candidate("a", 3.0), candidate("b -> c", 1.0), candidate("d", None)]
        found = {"best": "a", "changes": "a", "loss": 1.0, "kept": kept, "gain": 1.0, "p_value": 1e-3, "seconds": 1.0}
        return {"move": move, **found, "explored": explored}

    rounds = [round_("start", True), round_("grow", False)]
    turns = [{"iteration": 0, "log_likelihood": 1.0, "shares": [0.5], "shells": [{"a": 1.0}]}]
    search = [
        {"action": "usher", "rounds": rounds, "found": "a", "ended": "so"},
        {"action": "usher", "iterations": turns},
    ]
    block = {"size": [1, 1, 1], "before": [0, 0, 0], "after": [0, 0, 1], "role": "acted", "name": "a"}
    block |= {"round": False, "expected": [0, 0, 1], "covariance": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}
    scene = {"title": "t", "explained": "e", "objects": [block], "floor": 0, "references": [[0, 0, "above"]]}
    scene |= {"arrow": [[0, 0, 0], [1, 0, 0]]}
    score = {"label": "this", "seconds": 1.0, "nats": 2.5, "errors": {"error of x, m": 0.1}, "ranks": [5] * 20}
    words = {"title": "transition 0", "explained": "e"}
    return {
        "format": 1,
        "title": "t",
        "about": "a",
        "learned": {**describe(toy.true_model()), "search": search, "scenes": [words, scene]},
        "methods": {"spare": score, "b": {**score, "label": "that", "seconds": None}},
        "caption": "c",
        "figures": [["1", "n"]],
        "facts": {"f": "g"},
        "made": {"time": "t", "python": "3", "versions": {"jax": "1"}, "machine": "m"},
    }


class Reader(html.parser.HTMLParser):
    """Counts scripts that could run, and notes attributes that could do something."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts, self.doing = 0, []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        given = {name: value or "" for name, value in attrs}
        self.scripts += tag == "script" and given.get("type") != "application/json"
        for name, value in given.items():
            outside = name in ("href", "src") and not value.startswith(("#", "data:text/csv", "data:image/"))
            styled = name == "style" and not re.fullmatch(r"--(c|share):[#0-9A-Za-z.%-]+", value)
            if name.startswith("on") or name in ("srcdoc", "formaction") or outside or styled:
                self.doing.append((tag, name, value))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(*path, key) for key, _ in inside] + [p for key, one in inside for p in places(one, (*path, key))]


def changed(whole: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The record with one thing, or the name of one, replaced."""
    made = copy.deepcopy(whole)
    *path, last = rng.choice(places(whole))
    owner, evil = made, rng.choice(EVIL)
    for key in path:
        owner = owner[key]
    if isinstance(owner, dict) and isinstance(evil, str) and rng.random() < 0.3:
        owner[evil] = owner.pop(last)
    else:
        owner[last] = evil
    return made


def test_records_that_are_made_to_deceive() -> None:
    """Any value or name in a run's record replaced by markup, formulas, absurd numbers: a harmless page, or refused."""
    whole, rng, pages = json.loads(json.dumps(record())), random.Random(0), 0
    for _ in range(CASES):
        try:
            text = comparison_page(pathlib.Path("run.json"), changed(whole, rng)).html()
        except spare.SpareError:
            continue
        pages += 1
        reader = Reader()
        reader.feed(text)
        assert (reader.scripts, reader.doing) == (1, [])
        for code in re.findall(r'href="data:text/csv;base64,([^"]*)"', text):
            check_table(base64.b64decode(code).decode())
    assert pages > CASES / 6


def check_table(text: str) -> None:
    """No cell that a spreadsheet would compute; every row as long as its head."""
    head, *rows = csv.reader(io.StringIO(text))
    for row in rows:
        assert len(row) == len(head)
        assert not any(cell[:1] in ("=", "@", "\t", "\r") for cell in row)


def test_formulas_in_tables_beside_figures(tmp_path: pathlib.Path) -> None:
    """A label that a spreadsheet would compute gets a quote before it; numbers, and other labels, stay as they are."""
    evil = '=HYPERLINK("http://evil","x")'
    point = Estimate(-1.5, -2.0, -1.0, 5)
    Picture("p", "title", "x", "y", (Curve(evil, (1,), (point,)), Curve("b", (1,), (point,)))).save(tmp_path)
    _, first, second = csv.reader(io.StringIO((tmp_path / "p.csv").read_text("utf-8")))
    assert first[0] == f"'{evil}"
    assert second == ["b", "1", "-1.5", "-2.0", "-1.0", "5"]
    assert [tabled(one) for one in ("+1", "-1", "@a", "a=b", "", -1)] == ["'+1", "'-1", "'@a", "a=b", "", -1]
    whole = record()
    whole["methods"] = {evil: whole["methods"]["spare"]}
    page = comparison_page(pathlib.Path("run.json"), whole).html()
    (code,) = re.findall(r'href="data:text/csv;base64,([^"]*)"', page)
    check_table(base64.b64decode(code).decode())


def test_reasons_of_failed_cells_on_the_page() -> None:
    """Why a run failed is one line of text in reproduction.md: no markup, no escapes, no lines of its own."""

    def nothing(_: Any) -> list[Any]:
        return []

    one = Experiment("e", "t", "p", "d", nothing, nothing, nothing)
    claims: dict[str, list[Claim]] = {"e": []}
    text = page([one], {"e": []}, Summary(claims, {"run": "<img src=x>\n# done\x1b[2J"}, 1.0, 1), QUICK)
    assert "- run: &lt;img src=x&gt;\\n# done\\x1b[2J\n" in text


@pytest.mark.parametrize("text", ["5", "[]", '"x"', "null"])
def test_records_that_are_no_records(tmp_path: pathlib.Path, text: str) -> None:
    """`spare report` of a folder whose run.json holds something else says so."""
    from spare.lab.experiments.store import read_json

    (tmp_path / "run.json").write_text(text)
    with pytest.raises(spare.FileError, match="an object is expected"):
        read_json(tmp_path / "run.json")
