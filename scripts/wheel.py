"""Build the wheel, install it without extras into an empty environment, and use it as a newcomer would."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent

USE = """
import random, sys
import spare

assert not any(name in sys.modules for name in ("pandas", "polars", "joblib", "matplotlib", "gymnasium"))
tray = spare.Reference("on", lambda o, p: (abs(o.x - p.x) < 0.5) & (o.y > p.y))
domain = spare.Domain(
    "tray",
    properties=[spare.Property("x", resolution=1e-3), spare.Property("y", resolution=1e-3)],
    references=[tray],
    actions=[spare.Action("slide", objects=("tray",), parameters=("dx",))],
)
rng, rows = random.Random(0), []
for i in range(60):
    dx, x = rng.uniform(0.1, 1.0), rng.uniform(-1, 1)
    for name, at, y in (("tray", x, 0.0), ("cup", x + rng.uniform(-0.3, 0.3), 1.0), ("far", x + 5, 1.0)):
        moved = 0.0 if name == "far" else dx + rng.gauss(0, 0.01)
        rows.append((i, name, at, y, at + moved, y, "tray", dx))
names = ("transition", "object", "x", "y", "next_x", "next_y", "tray", "dx")
table = {name: [row[k] for row in rows] for k, name in enumerate(names)}
data = spare.Experience.from_table(domain, table)
train, test = data.split(test=10, seed=0)
result = spare.fit(domain, train, seed=0)
assert "on(tray)" in str(result.model), str(result.model)
result.model.save("model.spare")
test.save("test.parquet")
again = spare.load("model.spare", domain)
assert (again.log_prob(test) == result.model.log_prob(test)).all()
print(again)
"""


def main() -> int:
    """0 if everything works."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT)]
        subprocess.run(pip, check=True)
        wheel = next(place.glob("*.whl"))
        venv.create(place / "env", with_pip=True)
        python = str(place / "env" / "bin" / "python")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True)
        subprocess.run([python, "-c", USE], check=True, cwd=folder)
        spare = str(place / "env" / "bin" / "spare")
        for words in (["inspect", "model.spare"], ["inspect", "test.parquet"]):
            subprocess.run([spare, *words], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        (place / "world.py").write_text(USE.split("rng, rows")[0].replace("assert not", "# assert not"))
        page = ["render", "test.parquet", "--index", "0", "--domain", "world:domain", "--out", "page.html"]
        subprocess.run([spare, *page], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        text = (place / "page.html").read_text("utf-8")
        assert "canvas" in text, "the page lacks its viewer"
        assert "http-equiv" in text, "the page lacks its policy"
    print("the wheel works without extras: import, fit on a table, save, load, inspect, a page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
