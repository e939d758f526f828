"""How often the many-rule learner finds the true rules: worlds with two and three known rules.

    python benchmarks/rules.py [--seeds 10] [--worlds two three fork] [--samples 1000] [--preset default] [--auto]

For each seed: the adjusted Rand index of memberships against the rule that made each sample, whether each learned rule
holds exactly the true objects, and held-out likelihood beside the true model's. The target is an index of at least 0.95
with the true lists in 9 of 10 seeds, and a held-out likelihood within 2 % of the true model's.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np
from sklearn.metrics import adjusted_rand_score

import spare
from spare.learning.many import ManyResult
from tests.learning import many_worlds
from tests.learning.worlds import holds_the_same

LONGEST = 3
"""The most references a rule may have; the longest true list has two."""


def measure(world: str, seed: int, samples: int, preset: str, auto: bool) -> dict[str, Any]:
    """One seed of one world."""
    acts = many_worlds.WORLDS[world]
    data, labels = many_worlds.generate(acts, samples + 300, seed)
    train, test = data[:samples], data[samples:]
    begin = time.perf_counter()
    rules = "auto" if auto else len(acts)
    result = spare.fit(many_worlds.domain, train, seed=seed, preset=preset, rules=rules, max_references=LONGEST)
    seconds = time.perf_counter() - begin
    many = result.history[0]
    assert isinstance(many, ManyResult)
    found = [share.shell for share in many.shares]
    taken = {
        k
        for k, act in enumerate(acts)
        if any(holds_the_same(_own(train, labels, k), shell, act.shell) for shell in found)
    }
    ours, true = (float(model.log_prob(test).mean()) for model in (result.model, many_worlds.true_model(acts)))
    return {
        "index": adjusted_rand_score(labels[:samples], many.memberships.argmax(axis=1)),
        "lists": len(taken) == len(acts) == len(found),
        "ours": ours,
        "true": true,
        "seconds": seconds,
        "found": "; ".join(shell.show(("target",)) or "-" for shell in found),
    }


def _own(data: spare.Experience, labels: np.ndarray, k: int) -> spare.Experience:
    return data[np.flatnonzero(labels[: len(data)] == k)]


def main() -> int:
    """Count, and say what was found where the truth was not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--worlds", nargs="+", default=list(many_worlds.WORLDS), choices=list(many_worlds.WORLDS))
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--auto", action="store_true", help="let the learner choose how many rules")
    options = parser.parse_args()
    missed = 0
    for world in options.worlds:
        good = close = 0
        for seed in range(options.first, options.first + options.seeds):
            one = measure(world, seed, options.samples, options.preset, options.auto)
            right = bool(one["lists"]) and one["index"] >= 0.95
            good += right
            close += one["ours"] >= one["true"] - 0.02 * abs(one["true"])
            print(
                f"{world} seed {seed}: index {one['index']:.3f}, lists {'right' if one['lists'] else 'WRONG'}, "
                f"held out {one['ours']:.2f} of {one['true']:.2f}, {one['seconds']:.0f} s: {one['found']}",
                flush=True,
            )
        print(f"{world}: rules and assignments found in {good} of {options.seeds}; within 2 % in {close}", flush=True)
        missed += good < 0.9 * options.seeds
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
