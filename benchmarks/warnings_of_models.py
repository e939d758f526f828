"""How well models know what they do not know: false alarms, and inputs outside the training data that are noticed.

    python benchmarks/warnings_of_models.py [WORLD ...] [--samples 100 300 1000] [--preset default] [--keep FOLDER]

For each world and number of training transitions, a model is learned by the preset. False alarms are counted on unseen
transitions of the same kind. Then one input after another, of the first rule, is put a quarter of its range below and
above that range, in states, and the warning must have its name; of an input that every object of a slot has, one object
is moved. Left out are coordinates of a frame, angles, counts, and states in which the change makes a list point at
somebody else, so that the input is not outside after all.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import spare
from spare.lab.worlds import queue
from spare.lab.worlds.catalogue import KNOWN, WORLDS
from spare.learning.bindings import Bindings
from spare.learning.cache import open_run
from spare.model.familiar import Gauge, spelled
from spare.model.headrule import HeadRule
from spare.model.watched import OTHERS

UNSEEN, SHIFTED, BEYOND = 1000, 60, 0.2505
COLUMNS = ("values", "next_values", "offsets", "action", "objects", "parameters")
AnyRule = spare.Rule | HeadRule


def generate(world: str, count: int, seed: int) -> spare.Experience:
    if world == "queue":
        return queue.generate(count, seed=seed)
    return (WORLDS[world] if world in WORLDS else KNOWN[world]).generate(count, seed)


def framed(rule: AnyRule) -> set[str]:
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


def read(model: spare.Model, data: spare.Experience) -> tuple[np.ndarray, np.ndarray]:
    """(the gauges (n, G) of the first rule, whether it fires (n,)), of every transition."""
    rule = model.rules[0]
    assert rule.familiar is not None
    values, fired = np.empty((len(data), len(rule.gauges))), np.empty(len(data), bool)
    for batch, (fires, seen) in model._each(data, "seen"):
        kept = batch.index >= 0
        entries = jax.tree.map(lambda part, kept=kept: np.asarray(part)[kept], seen[0][0])
        values[batch.index[kept]] = rule.familiar.values(rule.gauges, entries)
        fired[batch.index[kept]] = np.asarray(fires)[kept, 0]
    return values, fired


def told(rule: AnyRule, data: spare.Experience, gauge: Gauge) -> np.ndarray | None:
    """The object rows (R,) that are to be moved to move a gauge: of a set all, of objects by themselves the first."""
    masks = Bindings(data, rule.action).masks(rule.gamma)
    if gauge.group is None:
        slots = spelled(rule.gamma, rule.domain.action(rule.action).objects)
        for slot, name in enumerate(slots):
            if gauge.name.startswith((f"{name}.", f"mean({name}).")):
                return masks[slot]
        return None
    assert isinstance(rule, HeadRule)
    taken = np.zeros(len(data.values), bool)
    for k, head in enumerate(rule.heads):
        mine = masks[head.spec.slot] & ~taken
        taken |= mine
        if k == gauge.group:
            return _first(data, mine)
    return _first(data, ~taken)


def _first(data: spare.Experience, mask: np.ndarray) -> np.ndarray:
    found = np.zeros(len(mask), bool)
    rows = np.flatnonzero(mask)
    found[rows[np.unique(data.owner[rows], return_index=True)[1]]] = True
    return found


def moved(
    rule: AnyRule, data: spare.Experience, gauge: Gauge, now: np.ndarray, value: float
) -> spare.Experience | None:
    """The experience with one gauge, which is `now` (n,), at a value, if that can be done."""
    parts: dict[str, Any] = {name: getattr(data, name).copy() for name in COLUMNS}
    parameters = rule.domain.action(rule.action).parameters
    fixed = framed(rule) if not gauge.name.startswith(f"{OTHERS}.") else set()
    if (gauge.prop or gauge.name) in fixed or gauge.period is not None:
        return None
    if gauge.prop is None:
        if gauge.name not in parameters:
            return None
        parts["parameters"][:, parameters.index(gauge.name)] = value
    else:
        column, mask = rule.domain.property_names.index(gauge.prop), told(rule, data, gauge)
        if mask is None:
            return None
        by = (value - now)[data.owner]
        if gauge.group is not None and "-" not in gauge.name:
            by = value - data.values[:, column]
        parts["values"][:, column] += np.where(mask, by, 0.0).astype(np.float32)
        if rule.domain.properties[column].static:
            parts["next_values"][:, column] = parts["values"][:, column]
    return spare.Experience.from_arrays(data.domain, **parts)


def noticed(model: spare.Model, data: spare.Experience) -> Iterator[tuple[Gauge, bool]]:
    """(an input of the first rule, is it named) for every input, either side, and every state."""
    rule = model.rules[0]
    known = rule.familiar
    assert known is not None
    before, applied = read(model, data)
    for number, gauge in enumerate(rule.gauges):
        low, high = float(known.low[number]), float(known.high[number])
        for value in (low - BEYOND * (high - low), high + BEYOND * (high - low)) if high > low else ():
            far = moved(rule, data, gauge, before[:, number], value)
            if far is None:
                continue
            now, applies = read(model, far)
            counts = applied & (np.abs(now[:, number] - value) < 1e-3 * (high - low)) & (applies | gauge.given)
            for warned, count in zip(model.warnings(far), counts, strict=True):
                if count:
                    yield gauge, any(one.name == gauge.name for one in warned)


def share(hits: list[bool]) -> str:
    return f"{np.mean(hits):.1%} ({len(hits)})" if hits else "none of this kind"


def main() -> None:
    parser = argparse.ArgumentParser(description="False alarms, and inputs outside the training data that are noticed.")
    parser.add_argument("worlds", nargs="*", default=["queue", *WORLDS])
    parser.add_argument("--samples", nargs="+", type=int, default=[100, 300, 1000])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for finished trainings, so that none is done twice")
    parser.add_argument("--names", action="store_true", help="count false alarms by name, and say what goes unnoticed")
    chosen = parser.parse_args()
    print("| world | training transitions | false alarms | noticed, used inputs | noticed, dropped inputs |")
    print("|---|---|---|---|---|")
    for world in chosen.worlds:
        for count in chosen.samples:
            train = generate(world, count, 0)
            cache = None if chosen.keep is None else open_run(chosen.keep / f"{world}-{count}", {})
            model = spare.fit(train.domain, train, seed=0, preset=chosen.preset, cache=cache).model
            if cache is not None:
                cache.close(finished=False)
            said = model.warnings(generate(world, UNSEEN, 5).with_domain(model.domain))
            found = list(noticed(model, generate(world, SHIFTED, 6).with_domain(model.domain)))
            used, dropped = ([hit for gauge, hit in found if gauge.used == which] for which in (True, False))
            alarms = np.mean([bool(some) for some in said])
            print(f"| {world} | {count:,} | {alarms:.1%} | {share(used)} | {share(dropped)} |", flush=True)
            if chosen.names:
                names = [one.name for some in said for one in some]
                print({name: names.count(name) for name in sorted({*names})}, flush=True)
                print({gauge.name for gauge, hit in found if not hit}, flush=True)


if __name__ == "__main__":
    main()
