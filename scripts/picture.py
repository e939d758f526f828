"""The README's picture of a report: its top in light, its transitions in dark. Needs Chromium.

python scripts/picture.py runs/demo/report.html docs/images/report.png
"""

import io
import pathlib
import shutil
import sys

from PIL import Image
from playwright.sync_api import sync_playwright

SIZE = {"width": 900, "height": 1180}
GAP = 16
SCROLL = (
    "document.documentElement.style.scrollBehavior = 'auto'; document.querySelector('#transitions').scrollIntoView()"
)


def main(page: pathlib.Path, out: pathlib.Path) -> None:
    """Two screenshots side by side."""
    parts = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            tab = browser.new_page(viewport=SIZE, color_scheme=scheme)
            tab.goto(page.resolve().as_uri())
            if scheme == "dark":
                tab.evaluate(SCROLL)
            tab.wait_for_timeout(500)
            parts.append(Image.open(io.BytesIO(tab.screenshot())).convert("RGB"))
        browser.close()
    sheet = Image.new("RGB", (2 * SIZE["width"] + GAP, SIZE["height"]), "white")
    for k, part in enumerate(parts):
        sheet.paste(part, (k * (SIZE["width"] + GAP), 0))
    sheet.save(out, optimize=True)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:3]))
