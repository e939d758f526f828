"""`spare bench samples`: likelihood by number of samples, beside graph networks and the simulator's own noise.

1. The experiments `samples`, `heights` and `clutter` on pushes and `worlds` elsewhere, run by run; finished ones are
   kept in the folder `out`, so an interrupted bench goes on; the folder of a `spare reproduce all` has many of them.
2. Seconds of a whole `spare fit` with `default` and with `paper` on 1,000 pushes, in fresh processes, by turns, without
   programs compiled before.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from spare.lab.experiments.catalogue import BEYOND
from spare.lab.experiments.runner import reproduce
from spare.lab.experiments.runs import FULL, QUICK
from spare.lab.experiments.store import Store
from spare.lab.worlds import push
from spare.learning.threads import cores


def run(quick: bool, seed: int, say: Callable[[str], None], out: pathlib.Path) -> dict[str, Any]:
    """Claims with their verdicts, runs that failed, and the two presets' seconds. Seeds of runs are 0, 1, ..."""
    store = Store(out, QUICK if quick else FULL)
    with store.held():
        summary = reproduce(list(BEYOND.values()), store, jobs=cores(), say=say)
    say("seconds of a whole fit, both presets by turns")
    seconds = fit_seconds(100 if quick else 1000, 1 if quick else 3, seed)
    ratios = (np.array(seconds["default"]) / np.array(seconds["paper"])).tolist()
    return {
        "claims": {name: [one.as_dict() for one in claims] for name, claims in summary.claims.items()},
        "failed": summary.failed,
        "page": str(out / "reproduction.md"),
        "fit": {"seconds": seconds, "ratio": ratios},
        "goals": {"fit, ratio at most": 3.0},
    }


def fit_seconds(samples: int, rounds: int, seed: int) -> dict[str, list[float]]:
    """Wall seconds of `spare fit` by preset, each in a process of its own."""
    seconds: dict[str, list[float]] = {"paper": [], "default": []}
    environment = {**os.environ, "SPARE_CACHE": "off"}
    with tempfile.TemporaryDirectory() as folder:
        push.generate(samples, stack=3, extra=4, seed=seed, jobs=-1).save(pathlib.Path(folder) / "data.parquet")
        for number in range(rounds):
            for preset in seconds if number % 2 == 0 else reversed(seconds):
                line = [sys.executable, "-m", "spare", "fit", "data.parquet", "--preset", preset]
                begin = time.perf_counter()
                subprocess.run(
                    [*line, "--out", f"{preset}{number}.spare", "--json"],
                    cwd=folder,
                    env=environment,
                    check=True,
                    capture_output=True,
                )
                seconds[preset].append(time.perf_counter() - begin)
    return seconds


def show(facts: dict[str, Any]) -> None:
    """A table of claims, and the seconds."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Claims")
    for name in ("claim", "required", "found", "verdict"):
        table.add_column(name, overflow="fold")
    for claims in facts["claims"].values():
        for one in claims:
            mean = one["estimate"]["mean"]
            table.add_row(one["name"], one["bound"], "-" if mean is None else f"{mean:.3g}", one["verdict"])
    console = Console()
    console.print(table)
    for name, times in facts["fit"]["seconds"].items():
        console.print(f"spare fit, {name}: {np.median(times):.1f} s")
    console.print(f"ratio: {np.median(facts['fit']['ratio']):.2f} (goal: at most 3)")
    for name, reason in facts["failed"].items():
        print(f"failed: {name}: {reason}", file=sys.stderr)
    print(facts["page"])
