"""How well models know what they do not know: false alarms, and inputs outside the training data that are noticed.

    python benchmarks/warnings_of_models.py [WORLD ...] [--samples 100 300 1000]

For each world and number of training transitions, a model is learned by the preset `default`. False alarms are counted
on unseen transitions of the same kind. Then one input after another, of the first rule, is put a quarter of its range
below and above that range, in states, and the warning must have its name. Left out are coordinates of a frame, angles,
and states in which the change makes a list point at somebody else, so that the input is not outside after all.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

import spare
from spare.lab.worlds import queue
from spare.lab.worlds.catalogue import WORLDS
from spare.learning.dataset import Dataset
from spare.learning.fit import make_dataset
from spare.learning.presets import find_preset
from spare.model.familiar import Gauge, gauges

UNSEEN, SHIFTED, BEYOND = 1000, 60, 0.2505
COLUMNS = ("values", "next_values", "offsets", "action", "objects", "parameters")


def generate(world: str, count: int, seed: int) -> spare.Experience:
    return queue.generate(count, seed=seed) if world == "queue" else WORLDS[world].generate(count, seed)


def framed(rule: spare.Rule) -> set[str]:
    """Properties and parameters that a frame moves: shifting one of them alone makes another state."""
    action = rule.domain.action(rule.action)
    if action.frame is None:
        return set()
    found: set[str] = set()
    for names in (rule.domain.property_names, action.parameters):
        for part in action.frame.columns(names):
            flat = [column for group in part for column in (group if isinstance(group, tuple) else (group,))]
            found |= {names[column] for column in flat}
    return found


def moved(rule: spare.Rule, seen: Dataset, number: int, value: float) -> spare.Experience | None:
    """The experience with one gauge at a value, if that can be done."""
    gauge, data = gauges(rule.layout)[number], seen.experience
    parts: dict[str, Any] = {name: getattr(data, name).copy() for name in COLUMNS}
    parameters = rule.domain.action(rule.action).parameters
    if (gauge.prop or gauge.name) in framed(rule) or gauge.period is not None or rule.familiar is None:
        return None
    if gauge.prop is None:
        if gauge.name not in parameters:
            return None
        parts["parameters"][:, parameters.index(gauge.name)] = value
    elif gauge.name.split("(")[0] in ("max", "min", "sum"):
        return None
    else:
        column, mask = rule.domain.property_names.index(gauge.prop), seen.bindings.masks(rule.gamma)[slot(rule, gauge)]
        now = rule.familiar.values(rule.layout, seen.entries(rule.gamma))[:, number]
        parts["values"][:, column] += np.where(mask, (value - now)[data.owner], 0.0).astype(np.float32)
        if rule.domain.properties[column].static:
            parts["next_values"][:, column] = parts["values"][:, column]
    return spare.Experience.from_arrays(data.domain, **parts)


def slot(rule: spare.Rule, gauge: Gauge) -> int:
    """Which slot a gauge tells of."""
    starts = np.cumsum([len(block.names) for block in rule.layout.blocks])
    block = rule.layout.blocks[int(np.searchsorted(starts, gauge.columns[0], side="right"))]
    return -1 if block.slot is None else block.slot


def noticed(model: spare.Model, data: spare.Experience) -> Iterator[tuple[bool, bool]]:
    """(is the input used, is it named) for every input of the first rule, either side, and every state."""
    rule, preset = model.rules[0], find_preset("default")
    known = rule.familiar
    assert known is not None
    seen = make_dataset(data, rule.action, preset).with_features(rule.gamma, rule.spec.features)
    applied = seen.matrix(rule.gamma, rule.delta).applies
    for number, gauge in enumerate(gauges(rule.layout)):
        low, high = float(known.low[number]), float(known.high[number])
        for value in (low - BEYOND * (high - low), high + BEYOND * (high - low)) if high > low else ():
            far = moved(rule, seen, number, value)
            if far is None:
                continue
            there = make_dataset(far, rule.action, preset).with_features(rule.gamma, rule.spec.features)
            now = known.values(rule.layout, there.entries(rule.gamma))[:, number]
            counts = applied & (np.abs(now - value) < 1e-3 * (high - low))
            counts &= there.matrix(rule.gamma, rule.delta).applies | gauge.given
            for warned, count in zip(model.warnings(far), counts, strict=True):
                if count:
                    yield gauge.used, any(one.name == gauge.name for one in warned)


def share(hits: list[bool]) -> str:
    return f"{np.mean(hits):.1%} ({len(hits)})" if hits else "none of this kind"


def main() -> None:
    parser = argparse.ArgumentParser(description="False alarms, and inputs outside the training data that are noticed.")
    parser.add_argument("worlds", nargs="*", default=["queue", *WORLDS])
    parser.add_argument("--samples", nargs="+", type=int, default=[100, 300, 1000])
    chosen = parser.parse_args()
    print("| world | training transitions | false alarms | noticed, used inputs | noticed, dropped inputs |")
    print("|---|---|---|---|---|")
    for world in chosen.worlds:
        for count in chosen.samples:
            train = generate(world, count, 0)
            model = spare.fit(train.domain, train, seed=0).model
            alarms = (~model.familiar(generate(world, UNSEEN, 5))).mean()
            found = list(noticed(model, generate(world, SHIFTED, 6).with_domain(model.domain)))
            used, dropped = ([hit for own, hit in found if own == which] for which in (True, False))
            print(f"| {world} | {count:,} | {alarms:.1%} | {share(used)} | {share(dropped)} |", flush=True)


if __name__ == "__main__":
    main()
