"""Work on a pool of threads: XLA releases the interpreter's lock, so compiled programs run side by side."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from threadpoolctl import ThreadpoolController


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(calls: Sequence[Callable[[], Any]], threads: int | None = None) -> Iterator[Any]:
    """The result of each call, in order, at most `threads` at once; an error stops what has not started."""
    workers = max(1, min(threads or cores(), len(calls) or 1))
    if workers == 1:
        for call in calls:
            yield call()
        return
    pool = concurrent.futures.ThreadPoolExecutor(workers)
    try:
        for future in [pool.submit(call) for call in calls]:
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@functools.cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra and clustering on one thread: their own ones wait in busy loops, for long on a loaded machine."""
    with _pools().limit(limits=1):
        yield
