"""What runs compute, by name, and the data that they read."""

from __future__ import annotations

import pathlib
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from spare.errors import SpareError
from spare.lab.experiments import adding_references, known_worlds, planning, scoring, several_rules, worlds
from spare.lab.experiments.data import PushData
from spare.lab.experiments.runs import Run
from spare.lab.workers import remember_programs

Settings = Mapping[str, Any]


class Task(NamedTuple):
    """(settings, seed, folder of data) -> JSON-able numbers; (settings, seed) -> the data sets that takes."""

    compute: Callable[[Settings, int, pathlib.Path], dict[str, Any]]
    data: Callable[[Settings, int], list[PushData]]


TASKS = {
    "score": Task(scoring.score, scoring.score_data),
    "across": Task(scoring.across, scoring.across_data),
    "noise": Task(scoring.noise, scoring.noise_data),
    "path": Task(adding_references.path, scoring.score_data),
    "start": Task(several_rules.start, several_rules.data),
    "em": Task(several_rules.em, several_rules.data),
    "world": Task(worlds.score, lambda settings, seed: []),  # these make their data in a second or two
    "world-noise": Task(worlds.noise, lambda settings, seed: []),
    "known-world": Task(known_worlds.score, lambda settings, seed: []),
    "plan": Task(planning.score, lambda settings, seed: []),
}


def data_of(run: Run) -> list[PushData]:
    """The data sets that a run reads."""
    return TASKS[run.task].data(run.settings, run.seed)


def compute(run: Run, folder: pathlib.Path, cache: str | None = None) -> dict[str, Any]:
    """The record of one run: its values, or why there are none; never raises for a reason of its own."""
    begin, worked, found = time.perf_counter(), time.process_time(), {}
    try:
        remember_programs(cache)
        found["values"] = TASKS[run.task].compute(run.settings, run.seed, folder)
    except SpareError as error:
        found["error"] = str(error)
    except Exception as error:  # a run that fails must not take the others with it; the record says where
        where = traceback.extract_tb(error.__traceback__)[-1]
        found["error"] = f"{type(error).__name__}: {error} (in {where.name}, {pathlib.Path(where.filename).name})"
    seconds, processor = time.perf_counter() - begin, time.process_time() - worked
    return run.record(**found, seconds=round(seconds, 3), processor=round(processor, 3))
