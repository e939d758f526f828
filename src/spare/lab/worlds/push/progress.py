"""A progress line on standard error: samples done, rate, remaining time, rejects, touches."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import Any

from spare.data.experience import Experience


class Progress:
    """Shows how far a generator is; does nothing when it is not shown."""

    def __init__(self, total: int, shown: bool) -> None:
        self._total, self._shown = total, shown
        self._bar: Any = None
        self._task: Any = None
        self._rejects = self._touched = self._done = self._found = 0
        self._began = 0.0

    def __enter__(self) -> Progress:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("simulating"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[rejects]} rejected, {task.fields[touched]:.0%} touch"),
                console=Console(stderr=True),
            )
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            with contextlib.suppress(BrokenPipeError):
                self._bar.stop()

    def start(self, found: Iterable[Experience]) -> None:
        """Begin, with chunks that an earlier run finished."""
        for part in found:
            self._count(part)
        self._found, self._began = self._done, time.monotonic()
        if self._bar is not None:
            self._task = self._bar.add_task(
                "",
                total=self._total,
                completed=self._done,
                rate="",
                rejects=self._rejects,
                touched=self._share(),
            )

    def add(self, part: Experience) -> None:
        """One more chunk is done."""
        self._count(part)
        if self._bar is None:
            return
        speed = (self._done - self._found) / max(1e-3, time.monotonic() - self._began)
        self._bar.update(
            self._task,
            completed=self._done,
            rate=f"{speed:.0f}/s",
            rejects=self._rejects,
            touched=self._share(),
        )

    def _count(self, part: Experience) -> None:
        self._done += len(part)
        self._rejects += sum(part.metadata["rejects"].values())
        self._touched += int(part.info["touched"].sum())

    def _share(self) -> float:
        return self._touched / max(1, self._done)
