"""The slip formula against a step-by-step simulation of friction; who goes along, by the domain's own references."""

from __future__ import annotations

import numpy as np
import pytest

from spare.lab.worlds import tray
from spare.learning.bindings import Bindings


def stepped(distance: float, acceleration: float, frictions: list[float], steps: int = 8_000) -> list[float]:
    """How far things go that stand on each other on a tray, by Euler steps with Coulomb friction."""
    half = np.sqrt(distance / acceleration)
    dt = 6 * half / steps
    places, speeds = np.zeros(1 + len(frictions)), np.zeros(1 + len(frictions))
    for k in range(steps):
        time = k * dt
        below = acceleration * time if time < half else max(0.0, acceleration * (2 * half - time))
        speeds[0] = below
        for i, friction in enumerate(frictions, 1):
            most = friction * tray.GRAVITY * dt
            speeds[i] += np.clip(speeds[i - 1] - speeds[i], -most, most)
        places += speeds * dt
    return places[1:].tolist()


@pytest.mark.parametrize("frictions", [[0.2], [0.45], [0.3, 0.6], [0.4, 0.2], [0.6, 0.3]])
def test_the_slip_is_that_of_friction(frictions: list[float]) -> None:
    distance, acceleration = 0.25, 5.0
    expected = stepped(distance, acceleration, frictions)
    share, a = 1.0, acceleration
    for friction, end in zip(frictions, expected, strict=True):
        share, a = tray.ride(share, a, friction)
        assert distance * share == pytest.approx(end, abs=5e-4)


def test_what_stands_on_the_tray_goes_along_and_nothing_else() -> None:
    data = tray.generate(120, 4)
    bindings = Bindings(data, data.domain.actions[0].name)
    on = bindings.mask(("on*", (0,)))
    target = np.zeros(len(on), bool)
    target[data.offsets[:-1] + data.objects[:, 0]] = True
    np.testing.assert_array_equal(tray.moved(data), on | target)
    second = on & ~bindings.mask(("on", (0,)))
    assert second.any()
    way = data.next_values[:, :2] - data.values[:, :2]
    first = np.repeat(way[target], data.counts, axis=0)
    ahead = (way * first).sum(axis=1) / (first**2).sum(axis=1)
    assert (ahead[on] < 1.25).all()
    assert 0.1 < (ahead[on] < 0.9).mean() < 0.5


def test_slides_touch_nothing() -> None:
    """No tray and no loose thing is in the way of the tray that is slid."""
    for scene in tray.WORLD.scenes(tray.generate(60, 1)):
        (mine,), values = scene.roles, scene.values
        table = np.flatnonzero((values[:, 2] == 0) & (np.arange(len(values)) != mine))
        for part in np.linspace(0, 1, 20):
            centre = values[mine, :2] + part * (scene.parameters[:2] - values[mine, :2])
            gaps = np.hypot(*(values[table, :2] - centre).T) - values[table, 3] - tray.TRAY
            assert gaps.min() > 0.01
