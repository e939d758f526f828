"""A real browser that cannot reach anything, for tests of pages."""

from __future__ import annotations

import dataclasses
import io
import pathlib
import shutil

import numpy as np
import pytest
from PIL import Image

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
NEEDED = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]
HARMLESS = ("data:", "blob:", "file:", "about:")


@dataclasses.dataclass(frozen=True)
class Shown:
    """A page as a person would see it: its pixels, its text, what it complained of, and whom it called."""

    pixels: np.ndarray
    text: str
    complaints: tuple[str, ...]
    calls: tuple[str, ...]
    answers: dict[str, object]


def show(
    path: pathlib.Path,
    *,
    size: tuple[int, int] = (1000, 700),
    dark: bool = False,
    ask: dict[str, str] | None = None,
    wait: str | None = None,
    settle: float = 1.0,
) -> Shown:
    """The page after `wait` (a JavaScript condition) and `settle` seconds; `ask` are expressions to evaluate in it."""
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    calls: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=FLAGS, timeout=120_000)
        try:
            tab = browser.new_page(
                viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
            )
            tab.set_default_timeout(120_000)
            tab.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
            tab.on("pageerror", lambda error: complaints.append(str(error)))
            tab.on("request", lambda request: None if request.url.startswith(HARMLESS) else calls.append(request.url))
            tab.goto(path.as_uri())
            if wait is not None:
                tab.wait_for_function(wait)
            tab.wait_for_timeout(1000 * settle)
            answers = {name: tab.evaluate(script) for name, script in (ask or {}).items()}
            text = tab.inner_text("body")
            with Image.open(io.BytesIO(tab.screenshot())) as shot:
                pixels = np.asarray(shot.convert("RGB")).astype(int)
        finally:
            browser.close()
    return Shown(pixels, text, tuple(complaints), tuple(calls), answers)
