"""What screening saves: searches that train every candidate in full, beside those that screen them.

By successive halving (less training on one fold first), or in closed form by ridge regression on random features.

    python benchmarks/screening.py [--counts 100 300] [--seeds 5] [--worlds toy2 chain] [--data results-samples/data]

Pushes of stacks of three among four extra blocks, and worlds with known rules. By turns in one process, programs
compiled before, on one thread; seconds are those of the search alone, without the final ensemble. Told are how many
searches ended with the list that full training found, and how many times faster they were.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import time
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.recovery import case
from spare.lab.experiments.data import stacks
from spare.learning import candidates
from spare.learning.fit import fit
from spare.learning.presets import PRESETS

WAYS: dict[str, dict[str, Any]] = {"full": {"ridge": 0}, "halving": {"ridge": 0}, "ridge": {}}


def search(data: Any, seed: int, way: str) -> tuple[float, str]:
    """Seconds of one search, and the lists of each action that it found."""
    base = PRESETS["shared"]
    preset = dataclasses.replace(base, search=dataclasses.replace(base.search, refine=False, **WAYS[way]), final=None)
    before = candidates.FINALISTS
    candidates.FINALISTS = sys.maxsize if way == "full" else before
    try:
        begin = time.perf_counter()
        result = fit(data.domain, data, seed=seed, preset=preset, threads=1)
        seconds = time.perf_counter() - begin
    finally:
        candidates.FINALISTS = before
    return seconds, "; ".join(str(one.best.gamma) for one in result.history)  # type: ignore[union-attr]


def main() -> None:
    """One line per kind of data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="*", default=[100, 300])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--worlds", nargs="*", default=["toy2", "chain"])
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("results-samples/data"))
    options = parser.parse_args()
    print("| data | " + " | ".join(f"{way}: same lists, times faster" for way in list(WAYS)[1:]) + " |")
    print("|---" * len(WAYS) + "|")
    for name in (*(f"{count} pushes" for count in options.counts), *options.worlds):
        found: dict[str, list[tuple[float, str]]] = {way: [] for way in WAYS}
        for seed in range(options.seeds):
            data = stacks(4, seed, int(name.split()[0])).load(options.data) if "pushes" in name else case(name, seed)[0]
            if seed == 0:
                for way in WAYS:
                    search(data, seed, way)
            for way in WAYS:
                found[way].append(search(data, seed, way))
        cells = []
        for way in list(WAYS)[1:]:
            same = sum(mine[1] == full[1] for mine, full in zip(found[way], found["full"], strict=True))
            ratios = [full[0] / mine[0] for mine, full in zip(found[way], found["full"], strict=True)]
            cells.append(f"{same} of {options.seeds}, {np.mean(ratios):.1f} ± {np.std(ratios):.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
