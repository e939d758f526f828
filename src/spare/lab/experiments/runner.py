"""Executes experiments: data first, then every missing run as a joblib task, then figures, claims and the page.

1. Runs that were finished before are read; failed ones are tried again.
2. Data that missing runs read are made on all workers, once.
3. Runs go to workers, long ones first; each is stored when it comes back. One that fails is recorded, the others go
   on. Workers are fresh processes of joblib, or those of a Dask cluster: nothing forks after JAX has started.
4. Figures and claims are read off the stored runs alone.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spare.lab.experiments.claims import Claim, Summary
from spare.lab.experiments.cluster import each
from spare.lab.experiments.data import missing
from spare.lab.experiments.experiment import Experiment, Results
from spare.lab.experiments.figures import Grid, Picture
from spare.lab.experiments.page import command, write_page
from spare.lab.experiments.runs import Run
from spare.lab.experiments.store import Store, identity, now, write_json
from spare.lab.experiments.tasks import compute, data_of
from spare.lab.workers import follow, fresh_pool

if TYPE_CHECKING:
    from distributed import Client

RESTARTS = 3
"""How many times workers may die before what is left is given up."""
WEIGHT = {"em": 60, "across": 15, "start": 12, "path": 8, "noise": 5}
"""About how long a run of a task takes, beside a score."""
HEAVY = {"graph": 3, "graph-frame": 4, "ensemble": 2, "spare": 3, "spare-paper": 3}

Record = dict[str, Any]


def reproduce(
    experiments: Sequence[Experiment],
    store: Store,
    *,
    jobs: int,
    cache: str | None = None,
    cluster: Client | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Summary:
    """Compute what is missing, here or on a cluster, and write figures, claims.json and reproduction.md."""
    runs = distinct([run for one in experiments for run in one.runs(store.size)])
    records = {key: store.get(run) for key, run in runs.items()}
    todo = [run for key, run in runs.items() if "values" not in (records[key] or {})]
    say(f"{len(runs)} runs, {len(runs) - len(todo)} of them finished before")
    make_data(todo, store, jobs, say)
    todo = sorted(todo, key=lambda run: -cost(run))
    found = computed(todo, store, jobs, cache) if cluster is None else _far(todo, store, cluster)
    for done, (run, record) in enumerate(found, 1):
        store.put(run, record)
        records[run.key] = record
        outcome = f"failed: {record['error']}" if "error" in record else f"{record['seconds']:.1f} s"
        say(f"[{done}/{len(todo)}] {run}: {outcome}")
    known = {key: record for key, record in records.items() if record is not None}
    return conclude(experiments, store, runs, known)


def distinct(runs: Sequence[Run]) -> dict[str, Run]:
    """Runs by key, each once."""
    return {run.key: run for run in runs}


def make_data(runs: Sequence[Run], store: Store, jobs: int, say: Callable[[str], None]) -> None:
    """Simulate the data that these runs read and the folder does not have."""
    wanted = missing([one for run in runs for one in data_of(run)], store.data)
    for k, one in enumerate(wanted, 1):
        say(f"data [{k}/{len(wanted)}] {one.family}: {one.samples:,} pushes")
        one.make(jobs, store.data / f"{one.family}.parquet")


def conclude(
    experiments: Sequence[Experiment], store: Store, runs: dict[str, Run], records: dict[str, Record]
) -> Summary:
    """Figures, claims.json and reproduction.md from the records."""
    results = Results(store.size, records)
    claims: dict[str, list[Claim]] = {}
    pictures: dict[str, Sequence[Picture | Grid]] = {}
    for one in experiments:
        claims[one.name], pictures[one.name] = one.claims(results), one.pictures(results)
        for picture in pictures[one.name]:
            picture.save(store.figures)
    failed = {str(runs[key]): record["error"] for key, record in sorted(records.items()) if "error" in record}
    seconds = sum(record.get("processor", record["seconds"]) for record in records.values())
    summary = Summary(claims, failed, seconds, len(runs))
    found = {
        "run": identity(store.size),
        "command": command(experiments, store.size),
        "finished": now(),
        "claims": {name: [claim.as_dict() for claim in those] for name, those in claims.items()},
        "failed": failed,
        "seconds": round(seconds, 1),
        "runs": len(runs),
    }
    write_json(store.folder / "claims.json", found)
    write_page(store.folder / "reproduction.md", experiments, pictures, summary, store.size)
    return summary


def cost(run: Run) -> float:
    """About how long a run takes, in no unit: long ones start first, so that no worker is left with one at the end."""
    share = run.settings.get("samples", 0) / 10_000
    return WEIGHT.get(run.task, 1) * HEAVY.get(run.settings.get("method", ""), 1) * (1 + share)


def computed(runs: Sequence[Run], store: Store, jobs: int, cache: str | None) -> Iterator[tuple[Run, Record]]:
    """(run, record) as they are finished on worker processes here, in any order."""
    from joblib import delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    left = distinct(runs)
    for deaths in range(RESTARTS + 1):
        if not left:
            return
        try:
            with fresh_pool(min(jobs, len(left))) as processes:
                tasks = [delayed(_one)(run, store.data, cache, os.getpid()) for run in left.values()]
                for key, record in processes(tasks):
                    yield left.pop(key), record
        except BrokenProcessPool as error:
            if deaths == RESTARTS:
                reason = f"workers died {deaths + 1} times ({type(error).__name__}); this run did not finish"
                for run in left.values():
                    yield run, run.record(error=reason, seconds=0.0)
                return


def _far(runs: Sequence[Run], store: Store, client: Client) -> Iterator[tuple[Run, Record]]:
    """The same on a cluster; each worker keeps its own compiled programs."""
    calls = [(run, store.data.resolve(), None, 0) for run in runs]
    for number, result, reason in each(client, _one, calls):
        run = runs[number]
        yield run, run.record(error=reason, seconds=0.0) if result is None else result[1]


def _one(run: Run, data: pathlib.Path, cache: str | None, owner: int) -> tuple[str, Record]:
    follow(owner)
    return run.key, compute(run, data, cache)


def resumed(
    runs: Mapping[str, Run], store: Store, say: Callable[[str], None]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """(records by key, errors by run): those of the store, and of what it lacks, one run at a time."""
    records = {key: record for key, one in runs.items() if (record := store.get(one)) is not None}
    todo = [one for key, one in runs.items() if "values" not in records.get(key, {})]
    say(f"{len(runs)} runs, {len(runs) - len(todo)} of them finished before")
    for done, (one, record) in enumerate(computed(todo, store, 1, None), 1):
        store.put(one, record)
        records[one.key] = record
        outcome = f"failed: {record['error']}" if "error" in record else f"{record['seconds']:.1f} s"
        say(f"[{done}/{len(todo)}] {one}: {outcome}")
    return records, {str(runs[key]): record["error"] for key, record in records.items() if "error" in record}
