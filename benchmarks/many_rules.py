"""Many rules on push data: how well the start separates stacks by height, and what EM makes of it.

    python benchmarks/many_rules.py --out docs/many-rules.md

1. Stacks of 2, 3 and 4 blocks in thirds, 3 runs: tables 1 to 4 of the paper (the mean membership of each height's
   samples in each cluster, at the start), then EM from the start with inverse squared distances: which blocks each rule
   points at, and the share of each height's samples that end with their rule.
2. 70 % of the samples on 4-block stacks, memberships started at 70 % by height, 5 runs: figure 5.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import tempfile
import time

import numpy as np

from spare.data.experience import Experience
from spare.lab.worlds import push
from spare.learning.clusters import Clustering, features, memberships, separation
from spare.learning.fit import Task, make_dataset, prepare
from spare.learning.many import ManyResult, learn_rules
from spare.learning.mixing import Mixing
from spare.learning.presets import PRESETS, Preset
from spare.learning.search import GreedySearch
from spare.learning.threads import cores

HEIGHTS = (2, 3, 4)
TABLES = {
    "discrete": (Clustering("discrete", 1.0, loss="total"), (0.829, 0.751, 0.872)),
    "inverse": (Clustering("inverse", 1.0, loss="total"), (0.595, 0.551, 0.602)),
    "inverse square": (Clustering("inverse-square", 1.0, loss="total"), (0.730, 0.665, 0.716)),
    "inverse square, likelihood x 5": (Clustering("inverse-square", 5.0, loss="total"), (0.779, 0.744, 0.866)),
}


def set_means() -> Preset:
    """The paper's rules (absolute targets, the mean of a set as its target) with the training and search of `default`.

    With exact set targets and changes, `above*(target)` describes stacks of any height in one rule, and there is
    nothing to separate.
    """
    default = PRESETS["shared"].for_many()
    training = dataclasses.replace(default.training, set_targets="mean")
    return dataclasses.replace(default, name="set-means", training=training, targets="absolute")


def data_for(share: tuple[float, ...], seed: int, samples: int, folder: pathlib.Path) -> Experience:
    """Generated once per folder."""
    path = folder / f"heights-{'-'.join(f'{s:g}' for s in share)}-{seed}-{samples}.parquet"
    if not path.exists():
        push.generate(samples, stack=HEIGHTS, share=share, seed=seed, jobs=cores()).save(path)
    return Experience.load(path)


def tables(data: Experience, seed: int, preset: Preset) -> dict[str, np.ndarray]:
    """The diagonal of each of the paper's four tables, from one rule learned on all samples."""
    seen, _ = prepare(data.domain, data)
    preset = preset.for_many()
    dataset = make_dataset(seen, "push", preset)
    single = GreedySearch(dataset, Task(preset, seed).plan(seen, dataset)).run()
    heights = np.asarray(data.info["height"])
    found = {}
    for name, (how, _) in TABLES.items():
        z = memberships(features(dataset, single, single.losses, how), seen.weights, len(HEIGHTS), how, seed)
        found[name] = np.diag(separation(z, heights)[1])
    return found


def em(data: Experience, seed: int, preset: Preset, start: np.ndarray | None = None) -> dict[str, object]:
    """Where EM ends: diagonal before and after, blocks each rule points at on its own samples, shells, history."""
    seen, _ = prepare(data.domain, data)
    dataset = make_dataset(seen, "push", preset)
    plan = Task(preset, seed).plan(seen, dataset, 1)
    begin = time.perf_counter()
    result = learn_rules(dataset, plan, Mixing(len(HEIGHTS)), start=start)
    # The last memberships are those that the final rules were trained with.
    heights = np.asarray(data.info["height"])
    steps = [step.memberships for step in result.history]
    diagonals = [np.diag(separation(z, heights)[1]) for z in (*steps, result.memberships)]
    return {
        "diagonals": diagonals,
        "blocks": points_at(result, dataset, heights),
        "rules": [one.shell.show(("target",)) or "-" for one in result.shares],
        "weights": [shell_weight(step, heights) for step in result.history],
        "covering": [covering(step, dataset, heights) for step in result.history],
        "seconds": time.perf_counter() - begin,
    }


def points_at(result: ManyResult, dataset: object, heights: np.ndarray) -> dict[int, float]:
    """For each height: the share of its samples whose own rule points at exactly all of its blocks."""
    owner = result.memberships.argmax(axis=1)
    right = {}
    for height in HEIGHTS:
        good = []
        for i in np.flatnonzero(heights == height):
            shell = result.shares[owner[i]].shell
            data = dataset.experience  # type: ignore[attr-defined]
            masks = dataset.bindings.masks(shell)[:, data.offsets[i] : data.offsets[i + 1]]  # type: ignore[attr-defined]
            good.append(masks.any(axis=1).all() and int(masks.any(axis=0).sum()) == height)
        right[height] = float(np.mean(good))
    return right


def shell_weight(step: object, heights: np.ndarray) -> list[tuple[str, float]]:
    """The heaviest shell of each rule and its weight, rules in the order of the heights they go with."""
    z = step.memberships  # type: ignore[attr-defined]
    order = [int(np.argmax(z[heights == height].mean(axis=0))) for height in HEIGHTS]
    tops = [(step.shells[j].top(1)[0], step.shells[j]) for j in order]  # type: ignore[attr-defined]
    return [(shell.show(("target",)) or "-", weights[shell]) for shell, weights in tops]


def covering(step: object, dataset: object, heights: np.ndarray) -> float:
    """The weight that the rule of the tallest stacks gives to shells which point at exactly all of their blocks."""
    z, tall = step.memberships, heights == HEIGHTS[-1]  # type: ignore[attr-defined]
    weights, data = step.shells[int(np.argmax(z[tall].mean(axis=0)))], dataset.experience  # type: ignore[attr-defined]
    total = 0.0
    for shell in weights.top(1000):
        held = dataset.bindings.masks(shell).any(axis=0)  # type: ignore[attr-defined]
        blocks = np.add.reduceat(held.astype(int), data.offsets[:-1])[tall]
        total += weights[shell] if np.mean(blocks == HEIGHTS[-1]) > 0.95 else 0.0
    return total


def numbers(values: np.ndarray) -> str:
    return " ".join(f"{v:.3f}" for v in values)


def main() -> None:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1250)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--concentrated", type=int, default=5, help="runs of part 2")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "spare-many-rules")
    parser.add_argument("--out", type=pathlib.Path, default=None)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    seeds = range(options.first, options.first + options.runs)
    thirds = [data_for((1, 1, 1), seed, options.samples, options.folder) for seed in seeds]
    starts, ends = [], []
    for seed, data in zip(seeds, thirds, strict=True):
        starts.append({name: tables(data, seed, PRESETS[name]) for name in ("paper", "shared")})
        for preset, found in starts[-1].items():
            shown = "; ".join(f"{name} {numbers(value)}" for name, value in found.items())
            say(f"seed {seed}, {preset}: {shown}")
        ends.append(em(data, seed, set_means()))
        say(f"seed {seed}: EM {numbers(ends[-1]['diagonals'][-1])} {ends[-1]['blocks']} {ends[-1]['rules']}")  # type: ignore[index]
    more = []
    for seed in range(options.first, options.first + options.concentrated):
        data = data_for((0.15, 0.15, 0.7), seed + 100, options.samples, options.folder)
        start = np.where(np.asarray(data.info["height"])[:, None] == np.array(HEIGHTS), 0.7, 0.15)
        more.append(em(data, seed, set_means(), start))
        say(f"70 %, seed {seed}: {numbers(more[-1]['diagonals'][-1])} {more[-1]['weights'][-1]}")  # type: ignore[index]
    text = page(starts, ends, more, options.samples)
    print(text)
    if options.out is not None:
        options.out.write_text(text)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def page(starts: list[dict], ends: list[dict], more: list[dict], samples: int) -> str:
    """The results as Markdown."""
    lines = [
        "# Many rules on push data",
        "",
        "`python benchmarks/many_rules.py --out docs/many-rules.md` wrote this page.",
    ]
    lines += ["", f"Stacks of 2, 3 and 4 blocks in thirds, {samples} samples, {len(starts)} runs, no extra blocks.", ""]
    for preset in starts[0]:
        lines += start_lines(preset, [one[preset] for one in starts])
    lines += ["## After EM (preset `default` with absolute targets and set means)", ""]
    lines += ["| run | start | end | points at exactly its blocks | rules | seconds |", "|---|---|---|---|---|---|"]
    lines += [row(k, one) for k, one in enumerate(ends)]
    lines += ["", "## 70 % of the samples on 4-block stacks, memberships started at 70 %", ""]
    lines += ["| run | start | end | points at exactly its blocks | rules | seconds |", "|---|---|---|---|---|---|"]
    lines += [row(k, one) for k, one in enumerate(more)]
    lines += [
        "",
        "Weight of the heaviest shell of the 4-block rule by iteration, by run; then the weight of all shells which "
        "point at exactly four blocks of a 4-block stack (lists can name the same blocks in several ways):",
        "",
    ]
    for k, one in enumerate(more):
        steps = " ".join(f"{weights[2][1]:.2f}" for weights in one["weights"])
        all_four = " ".join(f"{share:.2f}" for share in one["covering"])
        lines.append(f"- {k}: {steps} (`{one['weights'][-1][2][0]}`); {all_four}")
    return "\n".join(lines) + "\n"


def start_lines(preset: str, runs: list[dict]) -> list[str]:
    """The four tables' diagonals with the single rule learned by one preset."""
    lines = [f"## The start: mean membership of each height's samples in its own cluster (preset `{preset}`)", ""]
    lines += [
        "| memberships | 2 blocks | 3 blocks | 4 blocks | the paper's | all at least the paper's |",
        "|---|---|---|---|---|---|",
    ]
    for name, (_, paper) in TABLES.items():
        mean = np.mean([one[name] for one in runs], axis=0)
        deviation = np.std([one[name] for one in runs], axis=0, ddof=1) if len(runs) > 1 else np.zeros(3)
        cells = " | ".join(f"{m:.3f} ({d:.3f})" for m, d in zip(mean, deviation, strict=True))
        verdict = "yes" if np.all(mean >= np.array(paper)) else "no"
        lines.append(f"| {name} | {cells} | {' '.join(f'{p:.3f}' for p in paper)} | {verdict} |")
    return [*lines, ""]


def row(k: int, one: dict) -> str:
    blocks = " ".join(f"{share:.3f}" for share in one["blocks"].values())
    rules = "; ".join(f"`{rule}`" for rule in one["rules"])
    start, end = (numbers(one["diagonals"][at]) for at in (0, -1))
    return f"| {k} | {start} | {end} | {blocks} | {rules} | {one['seconds']:.0f} |"


if __name__ == "__main__":
    main()
