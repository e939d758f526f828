"""The 3-D page, opened in a real browser that cannot reach anything."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from spare.domains.push import figures
from spare.domains.push.page import page

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--enable-logging=stderr",
    "--window-size=480,360",
    "--virtual-time-budget=800",
]


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
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_page_shows_the_scene_in_a_browser_without_a_network(document, tmp_path):
    (tmp_path / "page.html").write_text(document)
    command = [
        str(BROWSER),
        *FLAGS,
        f"--user-data-dir={tmp_path / 'profile'}",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--screenshot={tmp_path / 'shot.png'}",
        (tmp_path / "page.html").as_uri(),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    console = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    refused = [line for line in console if "Refused" in line or "violates" in line or "Uncaught" in line]
    assert not refused, "the page asked for something, or failed"
    with Image.open(tmp_path / "shot.png") as shot:
        pixels = np.asarray(shot.convert("RGB")).astype(int)
    red, green, blue = pixels.transpose(2, 0, 1)
    assert ((red > 90) & (red > 1.8 * green) & (red > 1.8 * blue)).sum() > 100, "the target is not to be seen"
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 300
