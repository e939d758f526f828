"""Collisions conserve momentum and energy; from event to event it goes as in many small steps."""

from __future__ import annotations

import numpy as np
import pytest

from spare.lab.worlds import billiards


def test_a_collision_conserves_momentum_and_energy() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        line, velocities, masses = rng.normal(size=2), rng.normal(size=(2, 2)), rng.uniform(0.1, 0.3, 2)
        after = billiards.bounce(line, velocities, masses)
        np.testing.assert_allclose(masses @ after, masses @ velocities)
        assert masses @ np.square(after).sum(axis=1) == pytest.approx(masses @ np.square(velocities).sum(axis=1))
        normal = line / np.hypot(*line)
        assert (after[0] - after[1]) @ normal == pytest.approx(-(velocities[0] - velocities[1]) @ normal)


def stepped(places: np.ndarray, velocities: np.ndarray, masses: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Where balls come to rest, in small steps; who was in motion."""
    places, velocities = places.copy(), velocities.copy()
    touched = np.asarray(velocities.any(axis=1))
    while velocities.any():
        speed = np.hypot(*velocities.T)
        left = np.maximum(speed - billiards.SLOWING * dt, 0.0)
        velocities *= np.where(speed > 0, left / np.maximum(speed, 1e-12), 0.0)[:, None]
        places += velocities * dt
        away = places[None] - places[:, None]
        near = np.square(away).sum(axis=2) < 4 * billiards.RADIUS**2
        for i, j in np.argwhere(np.triu(near, 1)):
            if (velocities[j] - velocities[i]) @ away[i, j] < 0:
                velocities[[i, j]] = billiards.bounce(away[i, j], velocities[[i, j]], masses[[i, j]])
                touched[[i, j]] = True
    return places, touched


def test_events_agree_with_small_steps() -> None:
    """Also in a chain, and where a ball that was hit meets another that rolls."""
    places = np.array([[0.0, 0.0], [0.3, 0.01], [0.55, 0.05], [0.35, 0.4], [1.5, 1.0]])
    velocities = np.zeros((5, 2))
    velocities[0], velocities[3] = [1.2, 0.0], [0.3, -0.7]
    masses = np.array([0.2, 0.12, 0.15, 0.18, 0.15])
    found, moved = billiards.roll(places, velocities, masses)
    expected, touched = stepped(places, velocities, masses, 2e-4)
    assert moved.tolist() == touched.tolist() == [True, True, True, True, False]
    np.testing.assert_allclose(found, expected, atol=1e-2)
    np.testing.assert_array_equal(found[4], places[4])


def test_energy_is_lost_to_rolling_alone() -> None:
    """sum of m |v|² / 2 at the start = sum of m A times the way of each ball, however often they meet."""
    places, masses = np.array([[0.0, 0.0], [0.4, 0.0]]), np.array([0.2, 0.15])
    found, _ = billiards.roll(places, np.array([[1.0, 0.0], [0.0, 0.0]]), masses)
    hit = 0.4 - 2 * billiards.RADIUS  # head on: both go on straight ahead
    ways = np.array([found[0, 0], found[1, 0] - places[1, 0]])
    assert masses[0] / 2 == pytest.approx(billiards.SLOWING * masses @ ways)
    assert found[0, 0] > hit
    alone, _ = billiards.roll(places[:1], np.array([[1.0, 0.0]]), masses[:1])
    assert alone[0, 0] == pytest.approx(1 / (2 * billiards.SLOWING))


def test_balls_end_apart_and_hit_or_miss() -> None:
    data = billiards.generate(200, 0)
    aimed = data.offsets[:-1] + data.objects[:, 1]
    assert 0.4 < billiards.moved(data)[aimed].mean() < 0.8
    for state in data[:60].next_states:
        gaps = np.hypot(*(state.values[:, None, :2] - state.values[None, :, :2]).T)
        assert gaps[np.triu_indices(len(state), 1)].min() > 2 * billiards.RADIUS - 0.008
