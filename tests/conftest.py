"""What all tests share: hypothesis profiles, and a small domain to break in every way."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
from collections.abc import Iterator

import equinox as eqx
import hypothesis
import jax
import numpy as np
import pytest

import spare

# Compiling dominates the tests that draw models: few structures, many states for each.
_COMMON: dict = {"deadline": None, "suppress_health_check": list(hypothesis.HealthCheck), "print_blob": True}
hypothesis.settings.register_profile("default", max_examples=12, derandomize=True, database=None, **_COMMON)
hypothesis.settings.register_profile("thorough", max_examples=10_000, **_COMMON)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


# A shell that starts a run in the background has it ignore Ctrl-C, and so would every process that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one drawn model follow each other, after all others."""
    drawn = [item.get_closest_marker("drawn") for item in items]
    order = sorted(range(len(items)), key=lambda k: (mark.args[0] if (mark := drawn[k]) else -1, k))
    items[:] = [items[k] for k in order]


MAPS = pathlib.Path("/proc/self/maps")
MOST_MAPS = 25_000
"""Every compiled program takes memory maps, of which Linux gives a process 65,530; then it dies."""
spare.programs.bound(maps=20_000)


@pytest.fixture(autouse=True)
def _room_for_programs() -> Iterator[None]:
    """Forget what tests have compiled themselves, past the library, when it is very much, as in `make properties`."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        eqx.clear_caches()
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def tray() -> spare.Domain:
    """Blocks on trays: two dynamic properties and a static one, two actions with one and two roles."""
    return spare.Domain(
        "tray",
        properties=[
            spare.Property("x", unit="m", resolution=1e-3),
            spare.Property("y", unit="m", resolution=1e-3),
            spare.Property("width", static=True),
        ],
        references=[
            spare.Reference("beside", lambda o, p: abs(o.x - p.x) < 1.0),
            spare.Reference("between", lambda o, p, q: (o.x - p.x) * (o.x - q.x) < 0),
        ],
        actions=[
            spare.Action("slide", objects=("tray",), parameters=("dx", "dy")),
            spare.Action("swap", objects=("first", "second")),
        ],
    )


@pytest.fixture
def columns() -> dict:
    """Three good transitions on trays, of 2, 3 and 1 objects, as flat arrays."""
    values = np.array(
        [[0.0, 0.5, 1.0], [2.0, 0.25, 1.5], [1.0, 1.0, 0.5], [1.5, 1.0, 0.75], [3.0, 0.0, 1.0], [0.125, 2.0, 2.0]],
        np.float32,
    )
    after = values + np.array([0.5, -0.25, 0.0], np.float32)
    return {
        "values": values,
        "next_values": after,
        "offsets": np.array([0, 2, 5, 6]),
        "action": np.array([0, 1, 0]),
        "objects": np.array([[0, -1], [2, 1], [0, -1]]),
        "parameters": np.array([[0.5, -0.25], [0.0, 0.0], [1.0, 2.0]], np.float32),
    }


@pytest.fixture
def data(tray: spare.Domain, columns: dict) -> spare.Experience:
    """The three transitions with text ids, weights, info and metadata."""
    return spare.Experience.from_arrays(
        tray,
        **columns,
        ids=["a", "b", "c", "a", "long name", "b"],
        weights=[1.0, 2.5, 0.0],
        info={
            "episode": [7, 7, 8],
            "note": ["start", "ü", ""],
            "gain": [0.1, float("nan"), 1e300],
            "good": [True, False, True],
        },
        metadata={"source": "by hand", "nested": {"list": [1, 2.5, None]}},
    )
