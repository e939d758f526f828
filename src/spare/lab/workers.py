"""Worker processes that end with the work they were started for, and share compiled programs.

joblib keeps its processes for whoever asks next, which suits simulators. It does not suit training: a process that has
simulated grows by what JAX needs, which joblib takes for a leak, and one that has trained keeps its memory.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

DAY = 24 * 3600
QUIET = "ignore:resource_tracker"
"""For PYTHONWARNINGS: what cleans up after an interrupted command does so without a word."""


def pool(jobs: int, **settings: Any) -> Any:
    """A joblib `Parallel` of so many processes, whatever else it is given.

    Processes inherit whether Ctrl-C is blocked, as a command blocks it so that they leave it to the command. But the
    process that cleans up after them is started first, by multiprocessing, which unblocks it (in Python 3.11, for one).
    So that one is started here, and what was blocked before is blocked again.
    """
    from joblib import Parallel

    if jobs > 1:
        _start_cleaners()
    return Parallel(n_jobs=max(1, jobs), **settings)


def _start_cleaners() -> None:
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as another

    before = os.environ.get("PYTHONWARNINGS")
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    os.environ["PYTHONWARNINGS"] = f"{before},{QUIET}" if before else QUIET
    try:
        resource_tracker.ensure_running()
        another.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


@contextlib.contextmanager
def fresh_pool(jobs: int) -> Iterator[Any]:
    """A joblib `Parallel` of `jobs` new processes that yields results as they come, until the end of the block."""
    from joblib.externals.loky import reusable_executor

    # joblib replaces a process that has grown, between two tasks, and warns in a thread of its own. JAX does grow.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    reuse: Any = True

    def end() -> None:
        if jobs > 1:
            _start_cleaners()
            reusable_executor.get_reusable_executor(reuse=reuse).shutdown(wait=True, kill_workers=True)

    end()
    try:
        yield pool(jobs, return_as="generator_unordered", idle_worker_timeout=DAY)
    finally:
        end()


@functools.cache
def follow(owner: int) -> None:
    """In a worker of process `owner`: leave Ctrl-C to it, and do not outlive it: killed, it cannot tell us to end."""
    if os.getppid() != owner:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def remember_programs(folder: str | None) -> None:
    """Keep compiled programs in a folder, for later processes and other workers; None keeps nothing."""
    if folder is not None:
        import jax

        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def forget_torn(folder: str, seconds: float = 1.0) -> None:
    """Remove the compiled programs of the last moments: JAX writes them in place, so the last may be half there.

    It would warn of such a one in every command from then on, and never write it again.
    """
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):
            if entry.is_file(follow_symlinks=False) and time.time() - entry.stat().st_mtime < seconds:
                os.unlink(entry.path)
