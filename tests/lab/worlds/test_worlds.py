"""What all worlds have in common: seeds, numbers of objects, who is affected, a clean domain, the noise."""

from __future__ import annotations

import numpy as np
import pytest

import spare
from spare.lab.worlds.catalogue import WORLDS, World, tray
from spare.testing import check_domain

EVERY = pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.name)


@EVERY
def test_a_sample_depends_on_the_seed_and_its_index_only(world: World) -> None:
    whole, part = world.generate(8, 3), world.generate(5, 3)
    np.testing.assert_array_equal(whole[:5].values, part.values)
    np.testing.assert_array_equal(whole[:5].next_values, part.next_values)
    np.testing.assert_array_equal(whole[:5].parameters, part.parameters)
    assert world.generate(5, 4).fingerprint != part.fingerprint
    assert part.metadata == {"generator": world.name, "seed": 3, "objects": None}


@EVERY
def test_numbers_of_objects(world: World) -> None:
    low, high = world.objects
    counts = world.generate(80, 0).counts
    assert low <= counts.min() < counts.max() <= high
    assert (world.generate(10, 0, objects=world.fixed).counts == world.fixed).all()
    for wrong in ({"samples": 0}, {"seed": -1}, {"objects": low - 1}, {"objects": high + 1}):
        with pytest.raises(spare.UsageError, match=f"{world.name}: "):
            world.generate(**{"samples": 3, "seed": 0, **wrong})


@pytest.mark.slow
@EVERY
def test_nothing_is_found_wrong_with_the_domain(world: World) -> None:
    assert list(check_domain(world.domain, world.generate(150, 1)).findings) == []


@EVERY
def test_only_affected_objects_change(world: World) -> None:
    """The others are measured with the world's error and no more; those affected change by much more on average."""
    data = world.generate(100, 2)
    moved, dynamic = world.moved(data), list(world.domain.dynamic)
    change = (data.next_values - data.values)[:, dynamic] / world.jitter
    assert np.abs(change[~moved]).max() < 5.5
    assert abs(change[~moved].std() - 1) < 0.1
    assert np.abs(change[moved]).mean() > 5
    first = data.offsets[:-1] + data.objects[:, 0]
    assert moved[first].all()
    with pytest.raises(spare.DataError, match="was not made by"):
        world.moved(spare.Experience.from_table(world.domain, data[:1].to_table()))


@pytest.mark.slow
@EVERY
def test_the_noise_is_a_limit(world: World) -> None:
    """Objects at rest have exactly the error's density; more repeats do not change the limit much."""
    data = world.generate(10, 5)
    density, moved = world.log_density(data, repeats=60), world.moved(data)
    rest = -np.log(world.jitter) - 0.5 * np.log(2 * np.pi * np.e)
    assert density[~moved].mean() == pytest.approx(rest, abs=0.15)
    assert density[moved].mean() < rest
    again = world.log_density(data, repeats=90, seed=1)
    assert again[moved].mean() == pytest.approx(density[moved].mean(), abs=0.3)


def test_the_limit_of_a_known_gaussian() -> None:
    """A tray itself is off by Gaussians along and across its way: the density of repeats is theirs."""
    data = tray.generate(40, 7, objects=8)
    mine = data.offsets[:-1] + data.objects[:, 0]
    found = tray.WORLD.log_density(data, repeats=100)[mine]
    far = np.hypot(*(data.parameters[:, :2] - data.values[mine, :2]).T.astype(float))
    spread = np.stack([tray.ALONG * far, tray.ACROSS * far], axis=1)
    expected = -0.5 * np.log(2 * np.pi * np.e * (spread**2 + tray.MEASURED**2))
    assert found.mean() == pytest.approx(expected.mean(), abs=4 * np.sqrt(0.5 / found.size))
