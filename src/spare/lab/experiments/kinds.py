"""The kinds of cells by name: what each computes, and the data it reads."""

from __future__ import annotations

import pathlib
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from spare.errors import SpareError
from spare.lab.experiments import many, paths, scoring, worlds
from spare.lab.experiments.cells import Cell
from spare.lab.experiments.data import Dataset


class Kind(NamedTuple):
    """(settings, seed, folder of data) -> JSON-able numbers; (settings, seed) -> the data sets it needs."""

    compute: Callable[..., dict[str, Any]]
    data: Callable[..., list[Dataset]]


KINDS = {
    "score": Kind(scoring.score, scoring.score_data),
    "mixed": Kind(scoring.mixed, scoring.mixed_data),
    "clutter": Kind(scoring.clutter, scoring.clutter_data),
    "noise": Kind(scoring.noise, scoring.noise_data),
    "path": Kind(paths.path, paths.path_data),
    "start": Kind(many.start, many.many_data),
    "em": Kind(many.em, many.many_data),
    "world": Kind(worlds.score, worlds.no_data),
    "world-noise": Kind(worlds.noise, worlds.no_data),
}


def data_of(cell: Cell) -> list[Dataset]:
    """The data sets that a cell reads."""
    return KINDS[cell.kind].data(cell.settings, cell.seed)


def compute(cell: Cell, folder: pathlib.Path, cache: str | None = None) -> dict[str, Any]:
    """The record of one cell: its values, or why there are none; never raises for a reason of its own."""
    begin, worked = time.perf_counter(), time.process_time()
    record: dict[str, Any] = {"kind": cell.kind, "settings": dict(cell.settings), "seed": cell.seed}
    try:
        if cache is not None:
            _remember_programs(cache)
        record["values"] = KINDS[cell.kind].compute(cell.settings, cell.seed, folder)
    except SpareError as error:
        record["error"] = str(error)
    except Exception as error:  # a cell that fails must not take the others with it; the record says where
        where = traceback.extract_tb(error.__traceback__)[-1]
        record["error"] = f"{type(error).__name__}: {error} (in {where.name}, {pathlib.Path(where.filename).name})"
    record["seconds"] = round(time.perf_counter() - begin, 3)
    record["processor"] = round(time.process_time() - worked, 3)
    return record


def _remember_programs(cache: str) -> None:
    """Keep compiled programs in a folder that all workers share."""
    import jax

    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
