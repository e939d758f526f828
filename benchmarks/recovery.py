"""How often the search finds the true references: worlds with known rules, 20 seeds each.

    python benchmarks/recovery.py [--seeds 20] [--worlds toy2 chain ...] [--preset default] [--threads 2]

Prints found/seeds per world, and for each miss what was found instead. The target is 19 of 20.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import spare
from spare.lab.worlds import queue as toy
from spare.learning.fit import fit
from tests.learning.worlds import Truth, fixed_worlds, random_world, recovered, searches

NAMES = ("toy0", "toy1", "toy2", "toy3", *fixed_worlds(), "random")


def case(name: str, seed: int) -> tuple[spare.Experience, tuple[Truth, ...]]:
    """The data of one seed and what is true of them."""
    if name.startswith("toy"):
        followers = int(name[3:])
        return toy.generate(300, seed, followers=followers), (Truth(toy.true_shell(followers), ()),)
    world = random_world(seed) if name == "random" else fixed_worlds()[name]
    return world.generate(seed), world.truths


def main() -> int:
    """Count, and say what was found where the truth was not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--worlds", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    worst = options.seeds
    for name in options.worlds:
        found, begin, trained = 0, time.perf_counter(), 0
        for seed in range(options.seeds):
            data, truths = case(name, seed)
            result = fit(data.domain, data, seed=seed, preset=options.preset, threads=options.threads)
            trained += sum(len(search.explored) for search in searches(result))
            if recovered(result, data, truths):
                found += 1
                continue
            for search, truth in zip(searches(result), truths, strict=True):
                roles = data.domain.action(search.action).objects
                found_text, true_text = search.best.gamma.show(roles), truth.shell.show(roles)
                print(f"  {name} seed {seed} {search.action}: found [{found_text}], true [{true_text}]", flush=True)
        seconds = time.perf_counter() - begin
        print(f"{name}: {found}/{options.seeds}  ({trained} candidates trained, {seconds:.0f} s)", flush=True)
        worst = min(worst, found)
    return 0 if worst >= round(0.95 * options.seeds) else 1


if __name__ == "__main__":
    sys.exit(main())
