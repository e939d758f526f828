from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spare.errors import UsageError
from spare.lab.worlds.push.settings import Ranges, Settings, capacity


@pytest.mark.parametrize(
    ("given_settings", "message"),
    [
        ({"stack": 0}, "a stack's height must be a whole number of at least 1, got 0"),
        ({"stack": -2}, "at least 1"),
        ({"stack": 9}, "at most 8"),
        ({"stack": ()}, "at least one height"),
        ({"stack": (3, 3)}, "must differ"),
        ({"stack": (2, 3), "share": (1.0,)}, "one number per stack height: 2, got 1"),
        ({"stack": (2, 3), "share": (-1.0, 2.0)}, "non-negative"),
        ({"stack": (2, 3), "share": (0.0, 0.0)}, "not all zero"),
        ({"stack": (2, 3), "share": (float("nan"), 1.0)}, "non-negative"),
        ({"stack": 3, "extra": -1}, "extra must be a whole number of at least 0"),
        ({"stack": 3, "extra": 10_000}, "cannot be placed on a table of 1.2 m"),
        ({"stack": 3, "seed": -1}, "seed must be"),
        ({"stack": 3, "noise": -0.001}, "noise must be between 0 and 0.05 m"),
        ({"stack": 3, "noise": float("inf")}, "noise must be"),
        ({"stack": 3, "engine": "havok"}, "unknown engine 'havok'; valid: bullet, mujoco"),
    ],
)
def test_bad_settings_say_what_is_wrong(given_settings, message):
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        Settings.make(**given_settings)


@given(
    heights=st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True),
    weights=st.lists(st.floats(0.05, 1.0), min_size=4, max_size=4),
    seed=st.integers(0, 2**31),
)
def test_every_run_of_samples_has_the_asked_shares(heights, weights, seed):
    settings = Settings.make(tuple(heights), tuple(weights[: len(heights)]), seed=seed)
    seen = np.array([settings.height_of(i) for i in range(400)])
    for height, share in zip(settings.heights, settings.shares, strict=True):
        for count in (50, 100, 400):
            assert abs((seen[:count] == height).sum() - share * count) <= 4


@given(extra=st.integers(0, 10), noise=st.floats(0, 0.01), seed=st.integers(0, 99), width=st.floats(0.06, 0.09))
def test_settings_survive_json(extra, noise, seed, width):
    settings = Settings.make((2, 3), (0.7, 0.3), extra=extra, noise=noise, seed=seed)
    settings = Settings(**{**vars(settings), "ranges": Ranges(width=(width, 0.1))})
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_a_higher_stack_leaves_room_for_fewer_blocks():
    rooms = [capacity(Ranges(), height) for height in (1, 3, 8)]
    assert rooms[0] >= rooms[1] >= rooms[2] > 20


def test_ranges_must_make_sense():
    with pytest.raises(UsageError, match="range width must be two positive numbers, the smaller first"):
        Ranges(width=(0.1, 0.05))
    with pytest.raises(UsageError, match="table must be positive"):
        Ranges(table=0.0)
