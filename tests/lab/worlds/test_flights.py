"""Delays: never negative, never smaller for a hold, passed on by slack; references by equal numbers."""

from __future__ import annotations

import numpy as np
import pytest

from spare.lab.worlds import flights
from spare.learning.bindings import Bindings

QUIET = np.zeros((3, 2))


def timetable(turn: int, gap: int) -> np.ndarray:
    """A flight to airport 1; its aircraft's next, `turn` minutes later; a connection there, `gap` minutes later."""
    return np.array(
        [
            [0.0, 0.0, 600, 700, 0, 0, 1],
            [0.0, 0.0, 700 + turn, 800 + turn, 0, 1, 0],
            [0.0, 0.0, 700 + gap, 790 + gap, 1, 1, 2],
        ]
    )


@pytest.mark.parametrize(
    ("minutes", "turn", "gap", "expected"),
    [
        (20, 60, 60, [20, 0, 0]),  # 8 are made good, 30 minutes of slack swallow the rest
        (50, 60, 80, [50, 12, 0]),  # 42 late, 30 of slack; 80 minutes later is no connection
        (50, 90, 60, [50, 0, 7]),  # the connection waits for 7
        (60, 90, 60, [60, 0, 0]),  # it would have to wait for 17: it leaves
    ],
)
def test_slack_and_patience(minutes: int, turn: int, gap: int, expected: list[int]) -> None:
    after = flights.propagate(timetable(turn, gap), 0, float(minutes), QUIET)
    np.testing.assert_allclose(after[:, 0], expected)
    padding = flights.PADDING * np.array([100, 100, 90])
    np.testing.assert_allclose(after[:, 1], np.maximum(0, np.array(expected) - padding))


def test_delays_are_never_negative_and_a_hold_shortens_none() -> None:
    rng = np.random.default_rng(0)
    for scene in flights.WORLD.scenes(flights.generate(150, 3)):
        assert (scene.values[:, :2] >= 0).all()
        found = flights.execute(scene, rng)
        assert (found.values[:, 0] >= scene.values[:, 0]).all()
        assert (found.values[:, :2] >= 0).all()
        assert (found.values[:, 2:] == scene.values[:, 2:]).all()
        earlier = scene.values[:, 2] < scene.values[scene.roles[0], 2]
        assert not found.moved[earlier].any()


def test_who_waits_is_reached_by_references() -> None:
    """Everyone affected is found from the held flight by steps of `next` and `connections`."""
    data = flights.generate(150, 1)
    bindings, reached = Bindings(data, data.domain.actions[0].name), np.zeros(len(data.values), bool)
    reached[data.offsets[:-1] + data.objects[:, 0]] = True
    slots = [0]
    for _ in range(4):
        slots = [(name, (slot,)) for slot in slots for name in ("next", "connections")]
        for slot in slots:
            reached |= bindings.mask(slot)
    moved = flights.moved(data)
    assert (reached | ~moved).all()
    both = np.add.reduceat(moved & bindings.mask(("connections", (0,))), data.offsets[:-1]) > 0
    assert 0.02 < both.mean() < 0.5
