"""The 3-D page, opened in a real browser that cannot reach anything."""

from __future__ import annotations

import re

import numpy as np
import pytest

from spare.lab.worlds.push import figures
from spare.lab.worlds.push.page import page
from tests.browser import NEEDED, show


@pytest.fixture(scope="module")
def document(mixed) -> str:
    return page(figures.simulate_again(mixed[1], 7))


def test_the_page_is_one_file_that_names_no_other(document):
    assert len(document) < 3_000_000
    head = document[: document.index("<script")]
    assert "Content-Security-Policy" in head
    assert "default-src 'none'" in head
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)\s*=\s*[\"']?(?:https?:)?//", document)
    assert "<title>#7   push from" in document


@pytest.mark.browser
@NEEDED
def test_the_page_shows_the_scene_in_a_browser_without_a_network(document, tmp_path):
    (tmp_path / "page.html").write_text(document)
    shown = show(tmp_path / "page.html", size=(480, 360), wait="document.querySelector('canvas') !== null", settle=2)
    assert not shown.complaints
    assert not shown.calls, "the page asked for something"
    red, green, blue = shown.pixels.transpose(2, 0, 1)
    assert ((red > 90) & (red > 1.8 * green) & (red > 1.8 * blue)).sum() > 100, "the target is not to be seen"
    assert len(np.unique(shown.pixels.reshape(-1, 3), axis=0)) > 300
