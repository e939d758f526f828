"""Generates push data: chunks of samples go to workers, come back in any order, and are joined in order.

1. Samples are cut into chunks of fixed size. With an output file, what was finished before is read.
2. The others go to joblib workers; each finished chunk is stored at once.
3. A worker that dies breaks its pool: a new pool is started for what is still missing.
4. When all chunks are there, they are joined by index and written as one file. Since sample i depends only on
   (settings, i), the file is the same however the work was spread and however often it was interrupted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from spare.arguments import check_seed, described
from spare.data.experience import Experience, concatenate
from spare.errors import DataError, UsageError
from spare.lab.workers import pool
from spare.lab.worlds.push.chunks import Chunk, work
from spare.lab.worlds.push.engines import version
from spare.lab.worlds.push.episode import REASONS, tally
from spare.lab.worlds.push.relations import domain
from spare.lab.worlds.push.settings import Ranges, Settings
from spare.lab.worlds.push.store import Parts, holding

MOST_SAMPLES = 10**8
CHUNK = 25
RESTARTS = 5
"""How many times in a row workers may die without finishing a single chunk."""


def generate(  # noqa: PLR0913 (a facade: what it takes is one frozen Settings and how to run it)
    samples: int,
    *,
    stack: int | Sequence[int] = 3,
    share: Sequence[float] | None = None,
    extra: int = 0,
    seed: int = 0,
    engine: str = "bullet",
    noise: float = Settings.noise,
    ranges: Ranges | None = None,
    jobs: int = 1,
    out: str | os.PathLike[str] | None = None,
    max_rejects: float = 0.2,
    progress: bool = False,
) -> Experience:
    """E = {sample 0, ..., sample n - 1}, sample i a function of (seed, i) and of what is asked for.

    stack, share  one height, or several and the share of samples that have each (default: equal)
    extra         blocks that stand aside
    noise         standard deviation, in m, of the noise on the executed xg, yg, zg, d
    ranges        what sizes, masses and pushes are drawn from, if not the defaults
    jobs          worker processes; -1 for one per core. The result does not depend on it
    out           also write this Parquet file; an interrupted run continues where it stopped
    max_rejects   stop with a `DataError` when a larger share of attempts is rejected
    """
    chosen = {"extra": extra, "seed": check_seed(seed), "engine": engine, "noise": noise, "ranges": ranges or Ranges()}
    settings = Settings.make(stack, share, **chosen)
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise UsageError(f"samples must be a whole number of at least 1, got {samples!r}")
    if samples > MOST_SAMPLES:
        raise UsageError(f"samples must be at most {MOST_SAMPLES}, got {described(samples)}")
    if not 0 <= max_rejects < 1:
        raise UsageError(f"max_rejects must be at least 0 and below 1, got {max_rejects}")
    run = _Run(settings, samples, workers(jobs), max_rejects)
    with contextlib.ExitStack() as stacked:
        parts = stacked.enter_context(holding(out)) if out is not None else None
        if parts is not None:
            parts.check(record(settings))
        data = run.collect(parts, progress)
        if out is not None and parts is not None:
            data.save(out)
            parts.remove()
    return data


def workers(jobs: int) -> int:
    """The number of workers: -1 is one per core."""
    if isinstance(jobs, bool) or not isinstance(jobs, int) or (jobs < 1 and jobs != -1):
        raise UsageError(f"jobs must be a whole number of at least 1, or -1 for one per core, got {jobs!r}")
    return jobs if jobs > 0 else os.cpu_count() or 1


def record(settings: Settings) -> dict[str, Any]:
    """What samples are made with: enough to make them again."""
    return {"settings": settings.to_json(), "versions": {settings.engine: version(settings.engine)}}


@dataclasses.dataclass(frozen=True)
class _Run:
    """n samples of these settings, on this many workers."""

    settings: Settings
    samples: int
    jobs: int
    max_rejects: float

    def collect(self, parts: Parts | None, shown: bool) -> Experience:
        """All chunks, in order, as one experience."""
        spans = [(a, min(a + CHUNK, self.samples)) for a in range(0, self.samples, CHUNK)]
        done: dict[tuple[int, int], Experience] = {}
        rejects = dict.fromkeys(REASONS, 0)

        def keep(span: tuple[int, int], part: Experience) -> None:
            done[span] = part
            for reason in REASONS:
                rejects[reason] += part.metadata["rejects"][reason]

        for span in spans if parts is not None else []:
            found = parts.load(*span) if parts is not None else None
            if found is not None:
                keep(span, found)
        tried = sum(map(len, done.values()))
        missing = [span for span in spans if span not in done]
        with contextlib.ExitStack() as stacked:
            report = stacked.enter_context(_progress(self.samples, done.values())) if shown else None
            for chunk in simulate(self.settings, missing, self.jobs):
                span, part = (chunk.start, chunk.stop), _experience(chunk)
                if parts is not None:
                    parts.save(*span, part)
                keep(span, part)
                tried += len(part)
                if report is not None:
                    report(part)
                self._check(rejects, tried)
        metadata = {"push": {**record(self.settings), "samples": self.samples, "rejects": rejects}}
        return dataclasses.replace(concatenate(done[span] for span in spans), metadata=metadata)

    def _check(self, rejects: dict[str, int], passed: int) -> None:
        """Stop when too large a share of the attempts is rejected."""
        failed = sum(rejects.values())
        tried = failed + passed
        if tried >= 100 and failed / tried > self.max_rejects:
            raise DataError(
                f"{failed} of {tried} attempts were rejected ({tally(rejects)}), more than the bound of "
                f"{self.max_rejects:.0%}; fewer extra blocks, a lower stack or a higher bound would help"
            )


@contextlib.contextmanager
def _progress(total: int, found: Iterable[Experience]) -> Iterator[Callable[[Experience], None]]:
    """A progress bar on standard error, and what to call with each new chunk; `found` are those of an earlier run."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    words = TextColumn("{task.fields[rejects]} rejected, {task.fields[touched]:.0%} touch")
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), words)
    bar, parts = Progress(*columns, console=Console(stderr=True)), list(found)

    def counts() -> dict[str, Any]:
        done = sum(map(len, parts))
        touched = sum(int(part.info["touched"].sum()) for part in parts)
        rejects = sum(sum(part.metadata["rejects"].values()) for part in parts)
        return {"completed": done, "rejects": rejects, "touched": touched / max(1, done)}

    task = bar.add_task("", total=total, **counts())

    def report(part: Experience) -> None:
        parts.append(part)
        bar.update(task, **counts())

    bar.start()
    try:
        yield report
    finally:
        with contextlib.suppress(BrokenPipeError):
            bar.stop()


def simulate(settings: Settings, spans: list[tuple[int, int]], jobs: int) -> Iterator[Chunk]:
    """Chunks as they are finished, in any order; a pool whose worker died is replaced."""
    from joblib import delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    missing, deaths, owner = dict.fromkeys(spans), 0, os.getpid()
    while missing:
        # More processes than chunks would only cost their start.
        processes = pool(min(jobs, len(missing)), return_as="generator_unordered")
        try:
            results: Any = processes(delayed(work)(settings, *span, owner) for span in list(missing))
            for chunk in results:
                del missing[chunk.start, chunk.stop]
                deaths = 0
                yield chunk
        except BrokenProcessPool as error:
            deaths += 1
            if deaths > RESTARTS:
                raise DataError(f"workers died {deaths} times without finishing a chunk: {error}") from error


def _experience(chunk: Chunk) -> Experience:
    return Experience.from_arrays(domain, **chunk.columns, info=chunk.info, metadata={"rejects": chunk.rejects})


def settings_of(data: Experience) -> Settings:
    """The settings that generated data carries with it, or a `DataError`."""
    found = data.metadata.get("push")
    if not isinstance(found, dict) or "index" not in data.info:
        raise DataError("this experience was not made by push.generate: it does not say how to make it again")
    try:
        return Settings.from_json(found["settings"])
    except (KeyError, TypeError) as error:
        raise DataError(f"this experience's record of its generator is damaged: {error}") from error


def touch_share(data: Experience) -> float:
    """The share of pushes that touched a block."""
    return float(np.mean(data.info["touched"])) if len(data) else math.nan
