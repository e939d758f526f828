"""Runs experiments: data first, then every missing cell as a joblib task, then figures, claims and the page.

1. Cells that an earlier run finished are read; failed ones are tried again.
2. Data that missing cells read are made on all workers, once.
3. Cells go to workers, long ones first; each is stored when it comes back. One that fails is recorded, the others go
   on. Workers are fresh processes of joblib, or those of a Dask cluster: nothing forks after JAX has started.
4. Figures and claims are read off the stored cells alone.
"""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from spare.lab.experiments.cells import Cell
from spare.lab.experiments.claims import Claim
from spare.lab.experiments.cluster import each
from spare.lab.experiments.data import missing
from spare.lab.experiments.experiment import Experiment, Results
from spare.lab.experiments.kinds import compute, data_of
from spare.lab.experiments.page import command, write_page
from spare.lab.experiments.store import Store, identity, now, write_json
from spare.lab.workers import follow, fresh_pool

RESTARTS = 3
"""How many times workers may die before what is left is given up."""
WEIGHT = {
    "em": 60,
    "mixed": 20,
    "clutter": 5,
    "start": 12,
    "path": 8,
    "noise": 5,
    "score": 1,
    "world": 1,
    "world-noise": 1,
}
HEAVY = {"graph": 3, "graph-frame": 4, "ensemble": 2, "spare": 3, "spare-paper": 3}


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a run found: claims by experiment, cells that failed and why, processor seconds of all cells."""

    claims: dict[str, list[Claim]]
    failed: dict[str, str]
    seconds: float
    cells: int


def run(
    experiments: Sequence[Experiment],
    store: Store,
    *,
    jobs: int,
    cache: str | None = None,
    cluster: Any = None,
    say: Callable[[str], None] = lambda text: None,
) -> Summary:
    """Compute what is missing, here or on a `cluster`'s client, and write figures, claims.json and reproduction.md."""
    cells = distinct([cell for one in experiments for cell in one.cells(store.size)])
    records = {key: store.get(cell) for key, cell in cells.items()}
    todo = [cell for key, cell in cells.items() if "values" not in (records[key] or {})]
    say(f"{len(cells)} cells, {len(cells) - len(todo)} of them finished before")
    make_data(todo, store, jobs, say)
    found = _each(todo, store, jobs, cache) if cluster is None else _far(todo, store, cluster)
    for done, (cell, record) in enumerate(found, 1):
        store.put(cell, record)
        records[cell.key] = record
        outcome = f"failed: {record['error']}" if "error" in record else f"{record['seconds']:.1f} s"
        say(f"[{done}/{len(todo)}] {cell}: {outcome}")
    known = {key: record for key, record in records.items() if record is not None}
    return conclude(experiments, store, cells, known)


def distinct(cells: Sequence[Cell]) -> dict[str, Cell]:
    """Cells by key, each once."""
    return {cell.key: cell for cell in cells}


def make_data(cells: Sequence[Cell], store: Store, jobs: int, say: Callable[[str], None]) -> None:
    """Simulate the data that these cells read and the folder does not have."""
    wanted = missing([one for cell in cells for one in data_of(cell)], store.data)
    for k, one in enumerate(wanted, 1):
        say(f"data [{k}/{len(wanted)}] {one.family}: {one.samples:,} pushes")
        one.make(jobs, store.data / f"{one.family}.parquet")


def conclude(
    experiments: Sequence[Experiment], store: Store, cells: dict[str, Cell], records: dict[str, dict[str, Any]]
) -> Summary:
    """Figures, claims.json and reproduction.md from the records."""
    results = Results(store.size, records)
    claims: dict[str, list[Claim]] = {}
    pictures: dict[str, list[Any]] = {}
    for one in experiments:
        claims[one.name], pictures[one.name] = one.claims(results), one.pictures(results)
        for picture in pictures[one.name]:
            picture.save(store.figures)
    failed = {str(cells[key]): record["error"] for key, record in sorted(records.items()) if "error" in record}
    seconds = sum(record.get("processor", record["seconds"]) for record in records.values())
    summary = Summary(claims, failed, seconds, len(cells))
    plain = {name: [claim.as_dict() for claim in those] for name, those in claims.items()}
    write_json(
        store.folder / "claims.json",
        {
            "run": identity(store.size),
            "command": command(experiments, store.size),
            "finished": now(),
            "claims": plain,
            "failed": failed,
            "seconds": round(seconds, 1),
            "cells": len(cells),
        },
    )
    write_page(store.folder / "reproduction.md", experiments, pictures, summary, store.size)
    return summary


def cost(cell: Cell) -> float:
    """About how long a cell takes, in no unit: long ones start first, so that no worker is left with one at the end."""
    share = cell.settings.get("samples", 0) / 10_000
    return WEIGHT[cell.kind] * HEAVY.get(cell.settings.get("method", ""), 1) * (1 + share)


def _each(cells: Sequence[Cell], store: Store, jobs: int, cache: str | None) -> Any:
    """(cell, record) as they are finished, in any order."""
    from joblib import delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    left = {cell.key: cell for cell in _ordered(cells)}
    for deaths in range(RESTARTS + 1):
        if not left:
            return
        try:
            with fresh_pool(min(jobs, len(left))) as processes:
                tasks = [delayed(_one)(cell, store.data, cache, os.getpid()) for cell in left.values()]
                for key, record in processes(tasks):
                    yield left.pop(key), record
        except BrokenProcessPool as error:
            if deaths == RESTARTS:
                reason = f"workers died {deaths + 1} times ({type(error).__name__}); this cell did not finish"
                for cell in left.values():
                    yield cell, _unfinished(cell, reason)
                return


def _far(cells: Sequence[Cell], store: Store, client: Any) -> Any:
    """The same on a cluster; each worker keeps its own compiled programs."""
    todo = _ordered(cells)
    for number, result, reason in each(client, _one, [(cell, store.data.resolve(), None, 0) for cell in todo]):
        yield todo[number], _unfinished(todo[number], reason) if result is None else result[1]


def _ordered(cells: Sequence[Cell]) -> list[Cell]:
    """Each cell once, long ones first."""
    return sorted(distinct(cells).values(), key=lambda cell: -cost(cell))


def _unfinished(cell: Cell, reason: str) -> dict[str, Any]:
    return {"kind": cell.kind, "settings": {**cell.settings}, "seed": cell.seed, "error": reason, "seconds": 0.0}


def _one(cell: Cell, data: Any, cache: str | None, owner: int) -> tuple[str, dict[str, Any]]:
    if os.getppid() == owner:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the owner's
        follow(owner)
    return cell.key, compute(cell, data, cache)
