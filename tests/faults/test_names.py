"""Names made to do harm where they are shown or used: each is refused, or shown as the text it is."""

from __future__ import annotations

import io
import pathlib
import re
import xml.etree.ElementTree as ET
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.commands.cluster import _plot, _print
from spare.lab.worlds import queue as toy
from spare.model import diagram
from spare.names import shown
from tests.faults.helpers import one_sentence, refuses, run
from tests.rules import make_rule

HOSTILE = {
    "html": "<script>alert(1)</script>",
    "quotes": '"><img src=x onerror=alert(1)>',
    "terminal": "\x1b[2J\x1b]0;owned\x07",
    "formula": '=HYPERLINK("http://x","y")',
    "formula at": "@SUM(1+1)",
    "path": "../../etc/passwd",
    "absolute": "/etc/passwd",
    "newline": "x\nspare: all is well",
    "nul": "x\0y",
    "reversed": "x\u202egnp.exe",
    "look-alike": "х",  # Cyrillic
    "zero width": "x\u200b",
    "markup": "[red]x[/red]",
    "format": "{x.__class__}",
    "shell": "$(touch owned)",
    "dunder": "__class__",
    "long": "x" * 65,
    "empty": "",
    "space": "x y",
}
names = pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())


@names
def test_hostile_names_in_a_domain(name: str) -> None:
    """Refused in domains, properties, references, actions, roles and parameters; the sentence is safe to print."""
    good: dict[str, Any] = {
        "properties": [spare.Property("x")],
        "references": [],
        "actions": [spare.Action("go", ("who",))],
    }
    refuses(lambda: spare.Domain(name, **good), "name")
    refuses(lambda: spare.Property(name), "name")
    refuses(lambda: spare.Reference(name, lambda o, p: o.x < p.x), "name")
    refuses(lambda: spare.Action(name, ("who",)), "name")
    refuses(lambda: spare.Action("go", (name,)), "name")
    refuses(lambda: spare.Action("go", ("who",), (name,)), "name")


def test_hostile_units() -> None:
    """Refused unless short and printable."""
    for unit in ("\x1b[31m", "m\n", "x" * 17, "\u202em"):
        refuses(lambda unit=unit: spare.Property("x", unit=unit), "unit")


BAD_IDS = [HOSTILE[k] for k in ("terminal", "newline", "nul", "reversed", "zero width", "empty")] + ["x" * 257]


@pytest.mark.parametrize("one", BAD_IDS)
def test_hostile_object_ids_are_refused(one: str) -> None:
    """Ids that could steer a terminal or hide are refused by every way in, and by predict."""
    data = toy.generate(1, seed=0)
    state, call, after = data.states[0], data.actions[0], data.next_states[0]
    ids = (one, *map(str, state.ids[1:]))
    call = spare.ActionCall(call.action, (ids[0],), call.parameters)
    bad, later = spare.State(ids, state.values), spare.State(ids, after.values)
    refuses(lambda: spare.Builder(toy.domain).add(bad, call, later), "object id")
    columns = {n: getattr(data, n) for n in ("values", "next_values", "offsets", "action", "objects", "parameters")}
    refuses(lambda: spare.Experience.from_arrays(toy.domain, **columns, ids=list(ids)), "object id")
    refuses(lambda: toy.true_model().predict(bad, call), "object id")


def test_printable_object_ids_are_shown_as_they_are() -> None:
    """HTML, formulas, markup and paths are data in an id: kept to the letter, and never interpreted."""
    data = toy.generate(1, seed=0, followers=0, lines=1, longest=1)
    for one in (HOSTILE["html"], HOSTILE["formula"], HOSTILE["path"], HOSTILE["markup"], HOSTILE["look-alike"]):
        columns = {n: getattr(data, n) for n in ("values", "next_values", "offsets", "action", "objects", "parameters")}
        again = spare.Experience.from_arrays(toy.domain, **columns, ids=[one])
        assert again.states[0].ids == (one,)
        assert again.to_table()["object"].tolist() == [one]


@names
def test_hostile_names_of_information(name: str) -> None:
    """Names of carried-along columns are printable, or refused."""
    data = toy.generate(2, seed=0)
    columns = {n: getattr(data, n) for n in ("values", "next_values", "offsets", "action", "objects", "parameters")}
    try:
        kept = spare.Experience.from_arrays(toy.domain, **columns, info={name: [1, 2]})
    except spare.DataError as error:
        assert str(error).isprintable()  # noqa: PT017 - some are good names
    else:
        assert all(one.isprintable() for one in kept.info)


def test_hostile_labels_of_clusters(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    """Labels from data are shown as text in tables and plots: no markup, no escapes, no formulas of the plotter."""
    labels = np.array(["[red]a[/red]", "\x1b[2Jb", r"$\frac{", "[link=http://x]c[/link]"])
    _print(labels, np.eye(4))
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "\x1b" not in text
    squeezed = text.replace("\n", "")
    assert "[red]" in squeezed
    _plot(np.zeros((4, 2)), np.eye(4), labels, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_hostile_file_names(tmp_path: pathlib.Path) -> None:
    """A message about a file with escapes in its name spells them out."""
    name = "a\x1b[31m\n.spare"
    (tmp_path / name).write_text("junk")
    assert r"a\x1b[31m\n.spare" in one_sentence(run("inspect", name, folder=tmp_path))


def test_pictures_are_well_formed(tmp_path: pathlib.Path) -> None:
    """With the strangest names a domain may have, SVG is XML without scripts, and Mermaid keeps its quotes paired."""
    strange = "a.b*c+d-e_f" + "*" * 53
    domain = spare.Domain(
        strange,
        properties=[spare.Property("end", resolution=1.0)],
        references=[spare.Reference(strange, lambda o, p: o.end < p.end)],
        actions=[spare.Action(strange, objects=("graph",))],
    )
    shell = spare.Shell(1, (spare.Pointer(strange, (0,)),))
    predictor = spare.linear_predictor(jnp.zeros((2, 2)), jnp.zeros(2), jnp.ones((2, 1)))
    model = spare.Model(domain, [make_rule(domain, strange, shell, predictor, np.ones(1))], np.ones(1))
    tree = ET.parse(io.StringIO(diagram.svg(model)))
    assert {element.tag.split("}")[1] for element in tree.iter()} <= {
        *("svg", "style", "defs", "marker", "path", "text", "rect")
    }
    assert diagram.mermaid(model).count('"') % 2 == 0


def test_shown_text() -> None:
    """Whatever comes, one printable line of bounded length comes out."""
    for text in (*HOSTILE.values(), "\ud800", "\u2028", "x" * 10_000, b"bytes", None):
        assert shown(text).isprintable()
        assert len(shown(text)) < 2100
    assert shown("plain ü") == "plain ü"
