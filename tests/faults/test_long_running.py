"""Processes that run for weeks: compiled programs are few, shared, and forgotten when there are too many."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.data.scene import batches
from spare.lab.worlds import queue
from spare.model.model import CELLS, make_scene
from spare.programs import PROGRAMS, Programs
from tests.faults import server
from tests.faults.helpers import ROOT, environment, refuses
from tests.rules import fresh_predictor

MAPS = pathlib.Path("/proc/self/maps")
linux = pytest.mark.skipif(not MAPS.exists(), reason="memory maps are counted by Linux alone")


def maps() -> int:
    return MAPS.read_bytes().count(b"\n")


def squares(programs: Programs, size: int) -> Any:
    """A small program of several kernels, one for each size."""

    def function(x: Any) -> Any:
        for _ in range(6):
            x = jnp.sin(x) * (x - x.max()).sum()
        return x.sum()

    return programs.call("squares", function, (np.ones(size, np.float32),))


def test_states_and_batches_of_any_size_need_few_programs() -> None:
    """States of 1 to 2,000 objects in batches of 1 to 1,000: four shapes for each thing that a model is asked."""
    seen, alone = set(), set()
    for objects, transitions in [(1, 1), (2000, 1), (2000, 3), (1, 1000), *server.shapes(40)]:
        data = server.experience(objects, transitions)
        seen |= {batch.scene.valid.shape for batch in batches(data, CELLS, full=True)}
        alone.add(make_scene(data.domain, data.states[0], data.actions[0]).valid.shape)
    assert len(seen) <= 4
    assert len(alone) <= 3


def test_models_of_one_structure_share_programs() -> None:
    """A model with other numbers, or loaded from a file, compiles nothing; and its answers are its own."""
    first, second = server.model(5, seed=0), server.model(5, seed=1)
    data = server.experience(6, 3)
    before = first.log_prob(data)
    compiled = PROGRAMS.compiled
    assert not np.allclose(second.log_prob(data), before)
    assert PROGRAMS.compiled == compiled
    few, many = first.log_prob(server.experience(2, 1)), first.log_prob(server.experience(8, 200))
    assert np.isfinite(few).all()
    assert np.isfinite(many).all()
    assert PROGRAMS.compiled == compiled
    assert server.model(6).log_prob(data).shape == before.shape
    assert PROGRAMS.compiled == compiled + 1


@linux
def test_programs_beyond_the_limit_are_forgotten() -> None:
    """Those that were not used for the longest time go, and their memory maps with them."""
    programs = Programs(limit=4)
    for size in range(2, 6):
        squares(programs, size)
    full = maps()
    for size in range(6, 14):
        squares(programs, 2)  # used all the time, so kept
        squares(programs, size)
    known = programs.info()
    assert (known.programs, known.compiled, known.forgotten) == (4, 12, 8)
    assert maps() < full + 60
    squares(programs, 2)
    assert programs.compiled == 12
    programs.forget()
    assert programs.info().programs == 0
    assert maps() < full
    assert squares(programs, 3) == squares(programs, 3)


@linux
def test_memory_maps_are_bounded() -> None:
    """However few programs there are: a model of many rules takes thousands of maps by itself."""
    squares(Programs(), 2)
    start = maps()
    programs = Programs(limit=1000, map_limit=start + 150)
    for size in range(2, 16):
        squares(programs, size)
        assert maps() < start + 250
    assert programs.info().forgotten > 0
    assert programs.info().programs > 1


def test_draws_do_not_depend_on_padding() -> None:
    """Transition i's draw depends on (seed, i) only, not on how large the states beside it are; rules of both kinds."""
    small, large = server.experience(6, 3), server.experience(20, 2)
    spec = spare.RuleSpec.of(queue.domain, "usher", queue.true_shell(1))
    several = fresh_predictor(jax.random.key(0), 7, (2, 2), hidden=(4,), members=5)  # one of whom makes each draw
    ensemble = spare.Model(queue.domain, [spare.Rule(queue.domain, spec, several, np.ones(2))], np.ones(2))
    for model in (ensemble, server.model_with_heads(1)):
        alone, beside = (model.sample(data, 3) for data in (small, spare.concatenate([small, large])))
        np.testing.assert_allclose(alone, beside[: len(alone)], rtol=1e-5, atol=1e-6)


def test_limits_that_make_no_sense() -> None:
    """Refused with a sentence: at least one program is needed."""
    refuses(lambda: spare.programs.bound(programs=0), "limit of programs must be 1 or more, got 0")
    refuses(lambda: spare.programs.bound(maps=-1), "limit of memory maps must be 1 or more, got -1")


def test_many_threads_and_few_programs() -> None:
    """Threads compile a program once between them, and get right answers while others forget what they use."""
    shared = Programs()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert len({float(x) for x in pool.map(lambda _: squares(shared, 5), range(24))}) == 1
    assert shared.compiled == 1
    tight = Programs(limit=1)
    wanted = {size: float(squares(shared, size)) for size in (3, 4, 5)}

    def check(number: int) -> bool:
        size = 3 + number % 3
        return float(squares(tight, size)) == wanted[size]

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(check, range(36)))
    assert tight.info().programs <= 3


def test_a_program_that_fails_is_not_kept() -> None:
    """An error while a formula is traced reaches the caller, and the next call tries again."""
    programs, calls = Programs(), []

    def function(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not today")
        return x + 1

    call: Callable[[], Any] = lambda: programs.call("moody", function, (np.float32(1),))  # noqa: E731
    with pytest.raises(ValueError, match="not today"):
        call()
    assert call() == 2.0
    assert programs.info().programs == 1


@linux
@pytest.mark.slow
def test_a_server_for_a_day() -> None:
    """Many models, states of 1 to 2,000 objects, batches of 1 to 1,000: maps, memory and latency stay flat.

    One model here; twenty models and three hundred shapes in `make faults`.
    """
    whole = bool(os.environ.get("SPARE_TEST_SERVER"))
    sizes = ["20", "300"] if whole else ["1", "40"]
    line = [sys.executable, "-m", "tests.faults.server", *sizes]
    settings = {"capture_output": True, "text": True, "timeout": 7200 if whole else 550}
    found = subprocess.run(line, cwd=ROOT, env=environment(), check=False, **settings)
    assert found.returncode == 0, found.stderr
    print(found.stdout)
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    later = lines[len(lines) // 2 :]
    assert lines[-1]["answers"] == int(sizes[0]) * int(sizes[1])
    assert max(one["maps"] for one in lines) < (57_000 if whole else 4_500)
    assert max(one["programs"] for one in lines) <= (512 if whole else 15)
    assert later[-1]["maps"] < 1.25 * later[0]["maps"]
    assert later[-1]["memory"] < 1.25 * later[0]["memory"] + 50
    # 15 programs for each model, compiled once: three sizes for predict, four for every other question
    assert later[-1]["compiled"] <= 15 * int(sizes[0])
    assert later[-1]["compiled"] - later[0]["compiled"] <= 0.05 * later[-1]["compiled"] + 2
    assert np.median([one["predict"] for one in later]) < 20.0  # 0.5 on an idle machine
    assert np.median([one["p95"] for one in later]) < 1_000.0  # never compiled anew
