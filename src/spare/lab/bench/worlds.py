"""`spare bench worlds`: SPARE, its rivals and the truth in worlds whose density is known.

1. One run per (world, number of transitions, seed, learner), one at a time; each is a file in the folder `out` as soon
   as it is finished, so an interrupted bench goes on, and other worlds, sizes and seeds are added to it.
2. `worlds.md` and `claims.json` are written from the finished runs of what was asked for, whatever they are.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from spare.errors import UsageError, one_of
from spare.io.atomic import replacing
from spare.lab.experiments.experiment import Results
from spare.lab.experiments.known_claims import Numbers, Plan, claims, tally
from spare.lab.experiments.known_page import page
from spare.lab.experiments.known_worlds import LEARNERS, skipped
from spare.lab.experiments.runner import distinct, resumed
from spare.lab.experiments.runs import FULL, QUICK
from spare.lab.experiments.store import Store, write_json
from spare.lab.worlds.catalogue import BENCH

SIZES, SEEDS = (100, 300, 1000), 5


def plan(
    quick: bool,
    worlds: Sequence[str] = (),
    sizes: Sequence[int] = (),
    seeds: int | None = None,
    learners: Sequence[str] = (),
) -> tuple[Plan, dict[str, str]]:
    """(what is computed, why learners are left out); where nothing is asked for: all, or with `quick` a little."""
    chosen = tuple(worlds) or (("crane", "wind") if quick else tuple(BENCH))
    for world in chosen:
        if world not in BENCH:
            raise UsageError(one_of("world", world, BENCH))
    counts = tuple(sizes) or ((100,) if quick else SIZES)
    number = seeds if seeds is not None else (2 if quick else SEEDS)
    if number < 1 or min(counts) < 10:
        raise UsageError("bench worlds: at least one seed and sizes of at least 10 transitions are needed")
    wanted = dict.fromkeys([*(learners or LEARNERS), "truth"])
    reasons = {one: reason for one in wanted if (reason := skipped(one)) is not None}
    left = tuple(one for one in wanted if one not in reasons)
    return Plan(chosen, counts, number, left, 50 if quick else 500, QUICK.effort if quick else 1.0), reasons


def run(
    quick: bool,
    seed: int,
    say: Callable[[str], None],
    out: pathlib.Path,
    **asked: Any,
) -> dict[str, Any]:
    """Claims with their verdicts, runs that failed, learners that were left out. Seeds of runs are 0, 1, ..."""
    what, reasons = plan(quick, **asked)
    for learner, reason in reasons.items():
        say(f"{learner} is left out: {reason}")
    size = dataclasses.replace(QUICK, name="worlds-quick") if quick else dataclasses.replace(FULL, name="worlds")
    store = Store(out, size)
    with store.held():
        runs = distinct(what.runs())
        records, failed = resumed(runs, store, say)
        numbers = Numbers(what, Results(size, records))
        found = claims(numbers)
        write_json(out / "claims.json", {"claims": [one.as_dict() for one in found], "failed": failed})
        path = out / "worlds.md"
        with replacing(path) as target:
            target.write_text(page(numbers, found, failed, reasons, quick), "utf-8")
    return {
        "claims": [one.as_dict() for one in found],
        "tally": tally(found),
        "failed": failed,
        "left out": reasons,
        "page": str(path),
    }


def show(facts: dict[str, Any]) -> None:
    """How many claims of each kind hold, and where the page is."""
    from rich.console import Console
    from rich.table import Table

    verdicts = ("holds", "does not hold", "not decided", "no numbers")
    table = Table(title="Claims")
    for name in ("about", *verdicts):
        table.add_column(name)
    for group, counts in facts["tally"].items():
        table.add_row(group, *(str(counts.get(verdict, 0)) for verdict in verdicts))
    Console().print(table)
    for name, reason in facts["failed"].items():
        print(f"failed: {name}: {reason}", file=sys.stderr)
    print(facts["page"])
