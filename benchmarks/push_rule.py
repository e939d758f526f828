"""One rule on push data: does the search find the stack, and what does each reference bring?

    python benchmarks/push_rule.py --out docs/push-rule.md

For 0 and 4 extra blocks and several seeds: 1,250 training transitions (15 % of them validation) and 250 test ones of
3-block stacks. Preset `paper`: likelihood and default deviation after each kept reference. Both presets: which blocks
the rule covers on every test transition, and nats per value of the stack.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile

import numpy as np

import spare
from spare.lab.worlds import push
from spare.learning.threads import cores

TEST = 250


def data_for(extra: int, seed: int, samples: int, folder: pathlib.Path) -> spare.Experience:
    """Generated once per folder."""
    path = folder / f"push-{extra}-{seed}-{samples}.parquet"
    if not path.exists():
        push.generate(samples=samples, stack=3, extra=extra, seed=seed, jobs=cores()).save(path)
    return spare.Experience.load(path)


def covers_stack(model: spare.Model, test: spare.Experience) -> float:
    """The share of test transitions in which exactly the stack's blocks are predicted."""
    mask, right = push.stack_mask(test), 0
    for i in range(len(test)):
        held = model.predict(test.states[i], test.actions[i]).predicted
        right += bool(np.array_equal(held, mask[test.offsets[i] : test.offsets[i + 1]]))
    return right / len(test)


def path_of(result: spare.FitResult, test: spare.Experience) -> list[dict[str, float]]:
    """Validation and test likelihood and default deviation after 0, 1, 2, ... references, the last not kept."""
    rows = []
    for round_ in result.history[0].rounds:  # type: ignore[union-attr]
        if round_.best is None or round_.model is None:
            continue
        rows.append(
            {
                "references": len(round_.best.gamma),
                "validation": -round_.best.loss,
                "test": float(round_.model.log_prob(test).mean()),
                "deviation": 1000 * max(round_.best.default_deviation[:2]),
                "kept": float(round_.accepted),
            }
        )
    return rows


def measure(extra: int, seed: int, samples: int, folder: pathlib.Path) -> dict[str, object]:
    """Both presets on one data set."""
    train, test = data_for(extra, seed, samples, folder).split(TEST, seed)
    stack = push.stack_mask(test)
    found: dict[str, object] = {}
    for preset in ("paper", "shared"):
        result = spare.fit(push.domain, train, seed=seed, preset=preset)
        found[preset] = {
            "rule": result.model.rules[0].show(),
            "covers": covers_stack(result.model, test),
            "per_value": float(result.model.log_prob_values(test)[stack].mean()),
            "path": path_of(result, test),
        }
        print(f"extra {extra}, seed {seed}, {preset}: {found[preset]}", file=sys.stderr)
    return found


def page(results: dict[tuple[int, int], dict], samples: int) -> str:
    """The results as Markdown."""
    lines = [
        "# One rule on push data",
        "",
        f"`python benchmarks/push_rule.py --samples {samples}` wrote this page.",
        "",
    ]
    lines += [__doc__.split("\n\n")[2].replace("\n", " ").strip(), ""]  # type: ignore[union-attr]
    lines += [
        "| extra blocks | preset | covers exactly the stack | nats per value of the stack | rules found |",
        "|---|---|---|---|---|",
    ]
    for extra in sorted({key[0] for key in results}):
        for preset in ("paper", "shared"):
            mine = [one[preset] for key, one in results.items() if key[0] == extra]
            values = np.array([one["per_value"] for one in mine])
            rules = "; ".join(f"`{rule}` x {n}" for rule, n in _count([one["rule"] for one in mine]))
            right = f"{sum(one['covers'] == 1 for one in mine)} of {len(mine)} seeds"
            lines.append(f"| {extra} | {preset} | {right} | {values.mean():.2f} ± {values.std(ddof=1):.2f} | {rules} |")
    lines += [
        "",
        "Preset `paper`, mean over seeds, as references are added (nats per transition; largest default deviation):",
        "",
    ]
    lines += [
        "| extra blocks | references | validation | test | default deviation, mm | kept |",
        "|---|---|---|---|---|---|",
    ]
    for extra in sorted({key[0] for key in results}):
        rows = [row for key, one in results.items() if key[0] == extra for row in one["paper"]["path"]]
        for count in sorted({row["references"] for row in rows}):
            same = [row for row in rows if row["references"] == count]
            mean = {name: np.mean([row[name] for row in same]) for name in same[0]}
            kept = f"{sum(row['kept'] for row in same):.0f} of {len(same)}"
            cells = f"{mean['validation']:.1f} | {mean['test']:.1f} | {mean['deviation']:.2f}"
            lines.append(f"| {extra} | {count} | {cells} | {kept} |")
    return "\n".join(lines) + "\n"


def _count(texts: list[str]) -> list[tuple[str, int]]:
    return [(text, texts.count(text)) for text in dict.fromkeys(texts)]


def main() -> None:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "spare-push-rule")
    parser.add_argument("--out", type=pathlib.Path, default=None)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    results = {
        (extra, seed): measure(extra, seed, options.samples, options.folder)
        for extra in (0, 4)
        for seed in range(options.seeds)
    }
    text = page(results, options.samples)
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
