"""Work side by side: order, errors, interruptions, and programs that are compiled once."""

from __future__ import annotations

import _thread
import functools
import threading
import time
from typing import Any

import numpy as np
import pytest

from spare.learning.threads import cores, in_parallel
from spare.programs import Programs


def test_results_come_in_order_and_at_most_so_many_at_once() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def call(k: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01 * (k % 3))
        with lock:
            running -= 1
        return k

    calls = [functools.partial(call, k) for k in range(12)]
    assert list(in_parallel(calls, 3)) == list(range(12))
    assert most == 3
    assert list(in_parallel(calls, 1)) == list(range(12))
    assert list(in_parallel([], 2)) == []
    assert cores() >= 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_stops_what_has_not_started(threads: int, error: type[BaseException]) -> None:
    started: list[int] = []

    def call(k: int) -> int:
        started.append(k)
        if k == 1:
            raise error("stop")
        time.sleep(0.02)
        return k

    with pytest.raises(error, match="stop"):
        list(in_parallel([functools.partial(call, k) for k in range(50)], threads))
    assert len(started) < 10
    before = len(started)
    time.sleep(0.1)
    assert len(started) == before


def test_an_interruption_of_the_main_thread_stops_the_rest() -> None:
    started: list[int] = []

    def call(k: int) -> int:
        started.append(k)
        if k == 3:
            _thread.interrupt_main()
        time.sleep(0.02)
        return k

    with pytest.raises(KeyboardInterrupt):
        list(in_parallel([functools.partial(call, k) for k in range(200)], 2))
    assert 4 <= len(started) < 50


def test_a_reader_that_goes_away_stops_the_rest() -> None:
    started: list[int] = []

    def call(k: int) -> int:
        started.append(k)
        time.sleep(0.01)
        return k

    results: Any = in_parallel([functools.partial(call, k) for k in range(100)], 2)
    assert next(results) == 0
    results.close()
    assert len(started) < 20


def test_a_program_is_compiled_once_for_all_threads() -> None:
    programs, traced = Programs(), []

    def double(x: Any) -> Any:
        traced.append(1)
        return 2 * x

    def call() -> float:
        x = np.float32(3)
        return float(programs.get("double", double, (x,))(x))

    assert list(in_parallel([call] * 6, 3)) == [6.0] * 6
    assert programs.compiled == 1
    assert len(traced) == 1
    wide = np.ones(2, np.float32)
    programs.get("double", double, (wide,))
    assert programs.compiled == 2


def test_a_program_that_cannot_be_compiled_is_asked_for_again() -> None:
    programs = Programs()

    def broken(x: Any) -> Any:
        raise RuntimeError("no")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            programs.get("broken", broken, (np.float32(1),))
    assert programs.compiled == 0
