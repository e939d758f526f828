"""Pictures of pages for the documents, taken by a headless Chromium.

python scripts/picture.py runs/demo/report.html docs/images/report.png      # its top in light, its transitions in dark
python scripts/picture.py push.html docs/images/push-gallery.png --scenes   # the transitions of `spare render` alone
"""

import io
import pathlib
import shutil
import sys

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

SIZE = {"width": 900, "height": 1180}
WIDE = {"width": 1180, "height": 900}
GAP = 16
SCROLL = (
    "document.documentElement.style.scrollBehavior = 'auto'; document.querySelector('#transitions').scrollIntoView()"
)
BARE = "for (const one of document.querySelectorAll('.controls, h2, #transitions > p, details')) one.remove()"


def scenes(browser: Browser, page: str) -> Image.Image:
    """The drawn transitions, without their controls."""
    tab = browser.new_page(viewport=WIDE, color_scheme="light")
    tab.goto(page)
    tab.evaluate(BARE)
    tab.wait_for_timeout(500)
    return Image.open(io.BytesIO(tab.locator("#transitions").screenshot())).convert("RGB")


def report(browser: Browser, page: str) -> Image.Image:
    """Two screenshots side by side."""
    sheet = Image.new("RGB", (2 * SIZE["width"] + GAP, SIZE["height"]), "white")
    for k, scheme in enumerate(("light", "dark")):
        tab = browser.new_page(viewport=SIZE, color_scheme=scheme)
        tab.goto(page)
        if scheme == "dark":
            tab.evaluate(SCROLL)
        tab.wait_for_timeout(500)
        sheet.paste(Image.open(io.BytesIO(tab.screenshot())).convert("RGB"), (k * (SIZE["width"] + GAP), 0))
    return sheet


def main(page: str, out: str, *options: str) -> None:
    """Take the picture and save it."""
    take = scenes if "--scenes" in options else report
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        take(browser, pathlib.Path(page).resolve().as_uri()).save(out, optimize=True)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
