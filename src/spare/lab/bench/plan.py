"""`spare bench plan`: how often tasks are solved by planning in SPARE's model, its rivals' and the truth.

1. One run per (suite, learner, number of transitions, seed); each is a file in the folder `out` as soon as it is
   finished, so an interrupted bench goes on, and other suites, sizes and seeds are added to it.
2. `plan.md` is written from the finished runs of what was asked for. Shares have Wilson's intervals over all tasks of
   all seeds, which share tasks: they are a little too narrow where models of different seeds fail at the same ones.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spare.errors import UsageError, one_of
from spare.io.atomic import replacing
from spare.lab.experiments.planning import PLANNED
from spare.lab.experiments.runner import distinct, resumed
from spare.lab.experiments.runs import FULL, QUICK, Run
from spare.lab.experiments.statistics import Estimate, share
from spare.lab.experiments.store import Store
from spare.lab.tasks.catalogue import SUITES
from spare.lab.tasks.task import COUNT

SIZES, SEEDS, CANDIDATES = (100, 300, 1000), 5, 1024


@dataclasses.dataclass(frozen=True)
class Asked:
    """What is computed: suites, learners, numbers of transitions, seeds, and how many tasks of each suite."""

    suites: tuple[str, ...]
    learners: tuple[str, ...]
    sizes: tuple[int, ...]
    seeds: int
    tasks: int
    effort: float

    def runs(self, suite: str, learner: str, samples: int) -> list[Run]:
        """One run per seed; the truth needs no transitions."""
        settings = {"suite": suite, "learner": learner, "samples": 0 if learner == "truth" else samples}
        settings |= {"tasks": self.tasks, "candidates": CANDIDATES, "effort": self.effort}
        return [Run("plan", settings, seed) for seed in range(self.seeds)]

    def every(self) -> list[Run]:
        """All runs."""
        triples = [(a, b, c) for a in self.suites for b in self.learners for c in self.sizes]
        triples = [one for one in triples if one[1] != "truth" or SUITES[one[0]].truth is not None]
        return [run for one in triples for run in self.runs(*one)]


def asked_for(
    quick: bool,
    worlds: Sequence[str] = (),
    sizes: Sequence[int] = (),
    seeds: int | None = None,
    learners: Sequence[str] = (),
    tasks: int | None = None,
) -> Asked:
    """Where nothing is asked for: all, or with `quick` a little."""
    known = [name for name, one in SUITES.items() if one.truth is not None]
    suites, chosen = tuple(worlds) or tuple(known if quick else SUITES), tuple(learners) or tuple(PLANNED)
    for one in suites:
        if one not in SUITES:
            raise UsageError(one_of("suite of tasks", one, SUITES))
    for one in chosen:
        if one not in PLANNED:
            raise UsageError(one_of("learner", one, PLANNED))
    counts = tuple(sizes) or ((100,) if quick else SIZES)
    number = seeds if seeds is not None else (1 if quick else SEEDS)
    many = tasks if tasks is not None else (5 if quick else COUNT)
    if number < 1 or min(counts) < 10 or not 1 <= many <= COUNT:
        raise UsageError(f"bench plan: at least one seed, sizes of at least 10 and 1 to {COUNT} tasks are needed")
    return Asked(suites, chosen, counts, number, many, QUICK.effort if quick else 1.0)


def run(quick: bool, seed: int, say: Callable[[str], None], out: pathlib.Path, **asked: Any) -> dict[str, Any]:
    """Success rates with intervals, calibration, seconds, and runs that failed. Seeds of runs are 0, 1, ..."""
    what = asked_for(quick, **asked)
    size = dataclasses.replace(QUICK, name="plan-quick") if quick else dataclasses.replace(FULL, name="plan")
    store = Store(out, size)
    with store.held():
        runs = distinct(what.every())
        records, failed = resumed(runs, store, say)
        rows = _rows(what, {key: record["values"] for key, record in records.items() if "values" in record})
        path = out / "plan.md"
        with replacing(path) as target:
            target.write_text(page(what, rows, failed), "utf-8")
    return {"rows": rows, "failed": failed, "page": str(path)}


def _rows(what: Asked, values: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per suite, learner and number of transitions."""
    rows, seen = [], set()
    for suite in what.suites:
        for learner in what.learners:
            for samples in what.sizes:
                runs = what.runs(suite, learner, samples)
                if runs[0].key in seen:
                    continue
                seen.add(runs[0].key)
                found = [values[one.key] for one in runs if one.key in values]
                if found:
                    own = {"suite": suite, "learner": learner, "samples": runs[0].settings["samples"]}
                    rows.append({**own, **_summary(found)})
    return rows


def _summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    solved = [one for run in found for one in run["solved"]]
    promised = np.array([one for run in found for one in run["promised"]], float)
    kept = np.array([one for run in found for one in run["kept"]], float)
    known = np.isfinite(promised)
    plans = [run["plan"] for run in found if run["plan"] is not None]
    return {
        "solved": list(share(sum(solved), len(solved))),
        "actions": float(np.mean([one for run in found for one in run["actions"]])),
        "promised": float(promised[known].mean()) if known.any() else None,
        "kept": list(share(int(kept[known].sum()), int(known.sum()))),
        "plan": float(np.median(plans)) if plans else None,
        "seconds": float(np.mean([run["seconds"] for run in found])),
    }


def page(what: Asked, rows: list[dict[str, Any]], failed: dict[str, str]) -> str:
    """Everything as Markdown."""
    lines = [
        "# Planning in learned models",
        "",
        f"{what.tasks} tasks, {what.seeds} seeds; iCEM with {CANDIDATES} candidates for every learner. "
        "`solved`: share of tasks, with a 95 % interval. `promised` and `kept`: the probability of success that the "
        "first plan gives itself, and how often it succeeded when it was followed blindly.",
        "",
        "| task | planned in | transitions | solved | actions | promised | kept | s per plan | s of learning |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        solved, kept = (Estimate(*row[name]) for name in ("solved", "kept"))
        promised = "-" if row["promised"] is None else f"{row['promised']:.2f}"
        plan = "-" if row["plan"] is None else f"{row['plan']:.3f}"
        start = f"| {row['suite']} | {PLANNED[row['learner']]} | {row['samples'] or '-'} | {solved} "
        lines.append(f"{start}| {row['actions']:.1f} | {promised} | {kept} | {plan} | {row['seconds']:.0f} |")
    lines += ["", *(f"failed: {name}: {reason}" for name, reason in failed.items())]
    return "\n".join(lines).rstrip() + "\n"


def show(facts: dict[str, Any]) -> None:
    """The table, and where the page is."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Tasks solved")
    for name in ("task", "planned in", "transitions", "solved", "promised", "kept", "s per plan"):
        table.add_column(name)
    for row in facts["rows"]:
        solved, kept = (str(Estimate(*row[name])) for name in ("solved", "kept"))
        promised, plan = ("-" if row[name] is None else f"{row[name]:.3g}" for name in ("promised", "plan"))
        samples = str(row["samples"] or "-")
        table.add_row(row["suite"], PLANNED[row["learner"]], samples, solved, promised, kept, plan)
    Console().print(table)
    for name, reason in facts["failed"].items():
        print(f"failed: {name}: {reason}", file=sys.stderr)
    print(facts["page"])
