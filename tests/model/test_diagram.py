"""Rules as Mermaid text and as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import jax
import numpy as np

import spare
from spare.lab.worlds import queue as toy
from spare.model import diagram
from tests.rules import fresh_predictor

SVG = "{http://www.w3.org/2000/svg}"


def awkward() -> spare.Model:
    """Two roles, a reference of arity 2 with signs that XML reserves, and Delta apart from Gamma."""
    domain = spare.Domain(
        "odd",
        properties=[spare.Property("x", resolution=1.0)],
        references=[
            spare.Reference("a-and-b*", lambda o, p: o.x > p.x),
            spare.Reference("between", lambda o, p, q: (o.x - p.x) * (o.x - q.x) < 0),
        ],
        actions=[spare.Action("swap", ("first", "second"))],
    )
    gamma = spare.Shell(2, (spare.Pointer("between", (0, 1)), spare.Pointer("a-and-b*", (2,))))
    delta = spare.Shell(2, (spare.Pointer("a-and-b*", (1,)),))
    predictor = fresh_predictor(jax.random.key(0), 4, (3, 1), hidden=(2,))
    return spare.Model(domain, [make_rule(domain, "swap", (gamma, delta), predictor, np.ones(1))], np.ones(1))


def test_mermaid() -> None:
    lines = diagram.mermaid(toy.true_model(2)).splitlines()
    assert lines == [
        "flowchart LR",
        '  subgraph rule1["rule 1: usher(target)"]',
        '    r1s_target(["target"])',
        '    r1s_b1["b1"]',
        '    r1s_b2["b2"]',
        '    r1s_target -- "behind" --> r1s_b1',
        '    r1s_b1 -- "behind" --> r1s_b2',
        "  end",
    ]


def test_mermaid_with_two_lists_and_arity_2() -> None:
    text = diagram.mermaid(awkward())
    assert 'r1g_b1["b1 (looked at)"]' in text
    assert 'r1d_b1["b1 (changed)"]' in text
    assert 'r1g_first -- "between" --> r1g_b1' in text
    assert 'r1g_second -- "between" --> r1g_b1' in text
    assert text.count("subgraph") == text.count("  end") == 1


def test_svg_is_well_formed_and_complete() -> None:
    for model, boxes, arrows in ((toy.true_model(3), 4, 3), (awkward(), 7, 4), (toy.true_model(0), 1, 0)):
        root = ET.fromstring(diagram.svg(model))
        assert root.tag == f"{SVG}svg"
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        rectangles = root.findall(f"{SVG}rect")
        assert len(rectangles) == boxes
        assert len(root.findall(f"{SVG}path")) == arrows
        places = set()
        for box in rectangles:
            x, y, w, h = (float(box.get(name, "nan")) for name in ("x", "y", "width", "height"))
            assert 0 <= x < x + w <= width
            assert 0 <= y < y + h <= height
            places.add((x, y))
        assert len(places) == boxes  # no box hides another
        texts = " ".join(t.text or "" for t in root.findall(f"{SVG}text"))
        assert "rule 1: " in texts


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = diagram.svg(awkward()).replace("http://www.w3.org/2000/svg", "")
    assert "http" not in text
    assert "<script" not in text


def test_a_model_without_rules() -> None:
    model = spare.Model(toy.domain, [], np.ones(2))
    assert diagram.mermaid(model) == "flowchart LR"
    ET.fromstring(diagram.svg(model))
