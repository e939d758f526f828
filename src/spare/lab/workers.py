"""Worker processes that end with the work they were started for, and share compiled programs.

joblib keeps its processes for whoever asks next, which suits simulators. It does not suit training: a process that has
simulated grows by what JAX needs, which joblib takes for a leak, and one that has trained keeps its memory.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

DAY = 24 * 3600


@contextlib.contextmanager
def fresh_pool(jobs: int) -> Iterator[Any]:
    """A joblib `Parallel` of `jobs` new processes that yields results as they come, until the end of the block."""
    from joblib import Parallel
    from joblib.externals.loky import reusable_executor

    # joblib replaces a process that has grown, between two tasks, and warns in a thread of its own. JAX does grow.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    reuse: Any = True

    def end() -> None:
        if jobs > 1:
            reusable_executor.get_reusable_executor(reuse=reuse).shutdown(wait=True, kill_workers=True)

    end()
    try:
        yield Parallel(n_jobs=max(1, jobs), return_as="generator_unordered", idle_worker_timeout=DAY)
    finally:
        end()


@functools.cache
def follow(owner: int) -> None:
    """In a worker of process `owner`: do not outlive it. An owner that is killed cannot tell its workers to end."""
    if os.getppid() != owner:
        return

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
