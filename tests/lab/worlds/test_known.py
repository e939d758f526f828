"""Worlds with a known density: generator and truth agree, seeds, numbers of objects, clean domains."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

import spare
from spare.lab.worlds import chain, charges, corrupted, crane, drag, gate, kinds, masses, rare, swap, tails, vehicle
from spare.lab.worlds.catalogue import KNOWN, KnownWorld
from spare.language.registry import find_domain
from spare.testing import check_domain, check_model

EVERY = pytest.mark.parametrize("world", KNOWN.values(), ids=lambda world: world.name)


def acted(data: spare.Experience) -> np.ndarray:
    rows = (data.offsets[:-1, None] + data.objects)[data.objects >= 0]
    return np.isin(np.arange(len(data.values)), rows)


def observed(data: spare.Experience, after: np.ndarray) -> spare.Experience:
    return dataclasses.replace(data, next_values=after)


@EVERY
def test_a_sample_depends_on_the_seed_and_its_index_only(world: KnownWorld) -> None:
    whole, part = world.generate(8, 3), world.generate(5, 3)
    for name in ("values", "next_values", "parameters", "objects"):
        np.testing.assert_array_equal(getattr(whole[:5], name), getattr(part, name))
    assert world.generate(5, 4).fingerprint != part.fingerprint
    assert part.metadata == {"generator": world.name, "seed": 3, "objects": None}


@EVERY
def test_numbers_of_objects(world: KnownWorld) -> None:
    low, high = world.objects
    counts = world.generate(80, 0).counts
    assert low <= counts.min() < counts.max() <= high
    for count in (world.fixed, 5 * world.fixed):
        assert (world.generate(10, 0, objects=count).counts == count).all()
    for wrong in ({"samples": 0}, {"seed": -1}, {"objects": low - 1}, {"objects": 1000}):
        with pytest.raises(spare.UsageError, match=f"{world.name}: "):
            world.generate(**{"samples": 3, "seed": 0, **wrong})


@EVERY
def test_fresh_data_are_as_likely_as_the_truths_own_draws(world: KnownWorld) -> None:
    """E log p of what `generate` made is minus the entropy, which draws from the truth estimate."""
    data = world.generate(600, 11, objects=world.fixed)
    found, drawn = world.truth.log_prob(data), world.truth.log_prob(observed(data, world.truth.sample(data, 5)))
    error = np.sqrt((found.var() + drawn.var()) / len(data))
    assert found.mean() == pytest.approx(drawn.mean(), abs=4 * error)


@EVERY
def test_intervals_of_the_truth_cover_what_they_should(world: KnownWorld) -> None:
    """Ranks of observed values among draws are uniform: over all values, those that stay included."""
    data, draws = world.generate(150, 12, objects=world.fixed), 59
    dynamic = list(world.domain.dynamic)
    drawn = np.stack([world.truth.sample(data, k)[:, dynamic] for k in range(draws)])
    rank = (drawn < data.next_values[:, dynamic]).sum(axis=0)
    inside = ((rank >= 3) & (rank < 57)).mean(axis=(0, 1))  # 54 of the 60 ranks
    assert inside == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / len(data)))


@pytest.mark.slow
@EVERY
def test_the_truth_keeps_the_contract_of_models(world: KnownWorld) -> None:
    check_model(world.truth, world.generate(40, 2)).require()


@EVERY
def test_values_alone_add_up_unless_ends_are_mixed(world: KnownWorld) -> None:
    data = world.generate(50, 13)
    alone = np.add.reduceat(world.truth.log_prob_values(data).sum(axis=1), data.offsets[:-1])
    if world.name in ("crane", "kinds", "rare", "corrupted"):
        assert (world.truth.log_prob(data) - alone).mean() > 0.02  # what a mixture knows of values together
    else:
        np.testing.assert_allclose(world.truth.log_prob(data), alone, rtol=1e-9)


@EVERY
def test_nobody_knows_a_value_better_than_its_resolution(world: KnownWorld) -> None:
    data = world.generate(30, 14)
    deviation = world.truth.moments(data)[1][:, list(world.domain.dynamic)]
    assert (deviation >= 0.999 * world.domain.resolutions).all()


@EVERY
def test_more_objects_are_mostly_bystanders_and_the_same_happens_to_the_rest(world: KnownWorld) -> None:
    """Nats per value of what moves are the same in states of five times as many objects."""
    few, many = world.generate(500, 15, objects=world.fixed), world.generate(250, 16, objects=5 * world.fixed)

    def of(data: spare.Experience) -> np.ndarray:
        return world.truth.log_prob_values(data)[world.movers(data) | acted(data)].ravel()

    one, other = of(few), of(many)
    loose = 0.1 if world.name == "corrupted" else 0.0  # more rows that stay are recorded wrongly
    error = np.sqrt(one.var() / len(few) + other.var() / len(many))
    assert abs(one.mean() - other.mean()) < 4 * error + loose


@pytest.mark.slow
@EVERY
def test_nothing_is_found_wrong_with_the_domain(world: KnownWorld) -> None:
    assert list(check_domain(world.domain, world.generate(200, 1)).findings) == []
    assert find_domain(world.name) == world.domain


def test_what_slips_moves_not_at_all_and_heavy_smooth_loads_slip() -> None:
    data = crane.generate(400, 0)
    slipped = data.info["slipped"] == 1
    some = np.maximum.reduceat(crane.movers(data), data.offsets[:-1])
    np.testing.assert_array_equal(some, ~slipped)
    assert crane.slips(1.4, 0.3) > 0.8 > 0.2 > crane.slips(0.6, 0.7)
    load = data.values[data.offsets[:-1] + data.objects[:, 0]]
    assert load[slipped, 3].mean() > load[~slipped, 3].mean() + 0.1


def test_kinds_have_their_shares_and_ways() -> None:
    data = kinds.generate(1500, 0)
    shares = np.bincount(data.info["kind"]) / len(data)
    np.testing.assert_allclose(shares, kinds.SHARES, atol=4 * np.sqrt(0.25 / len(data)))
    target = data.offsets[:-1] + data.objects[:, 0]
    far = np.hypot(*(data.next_values - data.values)[target, :2].T) / data.parameters[:, 1]
    for kind, share in enumerate((0.9, 0.25, 0.0)):
        assert np.median(far[data.info["kind"] == kind]) == pytest.approx(share, abs=0.02)
    assert len(np.unique(data.ids)) == len(data.ids)


def test_the_impulse_counts_less_for_a_heavy_body() -> None:
    data = drag.generate(300, 0)
    target = data.offsets[:-1] + data.objects[:, 0]
    mass = data.values[target, 4:].astype(float)
    speed = (data.values[target, 2:4] + data.parameters / mass) * np.exp(-drag.DRAG / mass)
    assert np.abs(data.next_values[target, 2:4] - speed).max() < 5 * drag.SPEED


def test_a_long_chain_follows_to_its_end() -> None:
    data = chain.generate(50, 0, objects=20, links=16)
    moved = chain.movers(data).reshape(50, 20)
    assert np.median(moved.sum(axis=1)) > 10
    shift = (data.next_values - data.values)[:, 0].reshape(50, 20)
    order = np.argsort(-shift, axis=1)[:, :6]
    expected = data.parameters * chain.DECAY ** np.arange(6)
    assert np.abs(np.take_along_axis(shift, order, axis=1) - expected).mean() < 2 * chain.NOISE
    with pytest.raises(spare.UsageError, match="too few for a head and 16 links"):
        chain.generate(1, 0, links=16)


def test_a_trailer_stays_behind_its_car() -> None:
    data = vehicle.generate(200, 0)
    gaps = []
    for state, car in zip(data.next_states, data.objects[:, 0], strict=True):
        trailers = state.values[state.values[:, 5] > 0.5]
        gaps.append(np.abs(np.hypot(*(trailers[:, :2] - state.values[car, :2]).T) - vehicle.HITCH).min())
    assert np.mean(gaps) < 2 * vehicle.PLACE


def test_a_swap_leaves_no_gap() -> None:
    """Edges of neighbours on the shelf meet before and, but for noise, afterwards."""
    data = swap.generate(100, 0)
    for i in range(len(data)):
        before, after = data.states[i].values, data.next_states[i].values
        shelf = np.abs(before[:, 1] - before[data.objects[i, 0], 1]) < swap.SHELF / 2
        for values in (before[shelf], after[shelf]):
            row = values[np.argsort(values[:, 0])]
            gaps = row[1:, 0] - row[:-1, 0] - (row[1:, 2] + row[:-1, 2]) / 2
            assert np.abs(gaps).max() < 5 * 1.5 * swap.PUT


def test_a_gate_opens_only_with_key_and_plate() -> None:
    data = gate.generate(500, 0)
    opened, asked = [], []
    for i in range(len(data)):
        values, lever = data.states[i].values.astype(float), data.objects[i, 0]
        gates = np.flatnonzero(values[:, 3] > 0.5)
        nearest = gates[np.argmin(np.hypot(*(values[gates, :2] - values[lever, :2]).T))]
        asked.append(gate.opens(values, int(nearest)))
        opened.append(data.next_states[i].values[nearest, 2] - values[nearest, 2] > 0.1)
    assert opened == asked
    assert 0.2 < np.mean(asked) < 0.7


def test_masses_have_two_actions() -> None:
    data = masses.generate(300, 0)
    assert set(data.action.tolist()) == {0, 1}
    jolted = np.repeat(data.action == 0, data.counts)
    change = np.abs(data.next_values - data.values)
    assert change[jolted, 2].max() < 0.02
    assert change[~jolted, 0].max() < 0.02
    assert change[jolted, 0].max() > 0.1


def test_it_happens_in_one_of_twenty_transitions() -> None:
    data = rare.generate(3000, 0)
    happens = data.info["stayed"] == 0
    assert happens.mean() == pytest.approx(0.048, abs=0.016)
    target = data.values[data.offsets[:-1] + data.objects[:, 0], 2]
    assert happens[target > rare.SOFT].mean() > 0.2


def test_all_but_the_source_move() -> None:
    data = charges.generate(100, 0)
    assert not charges.movers(data)[acted(data)].any()
    assert charges.movers(data)[~acted(data)].mean() > 0.8


def test_the_density_of_a_record_that_may_be_wrong() -> None:
    """log (0.99 prod N + 0.01 prod over rows (N + N_wide) / 2), by hand."""
    data = corrupted.generate(20, 3, objects=6)
    found, values = corrupted.truth.log_prob(data), corrupted.truth.log_prob_values(data)
    mean = corrupted.truth.mean(data)[:, :2].astype(float)
    for i in range(len(data)):
        rows = slice(6 * i, 6 * i + 6)
        off = data.next_values[rows, :2] - mean[rows]
        ends = corrupted.ends(corrupted.WORLD.scene(data, i))
        right = norm.pdf(off, scale=ends.deviation[0])
        wide = norm.pdf(off, scale=corrupted.WIDE)
        rest = (0.5 * right.prod(axis=1) + 0.5 * wide.prod(axis=1)).prod()
        assert found[i] == pytest.approx(np.log(0.99 * right.prod() + 0.01 * rest), rel=1e-4)
        np.testing.assert_allclose(values[rows], np.log(0.995 * right + 0.005 * wide), rtol=1e-3, atol=1e-3)


def test_the_density_of_tails_is_students() -> None:
    data = tails.generate(30, 4)
    mine = data.offsets[:-1] + data.objects[:, 0]
    off = (data.next_values - tails.truth.mean(data))[mine, :2].astype(float)
    expected = student.logpdf(off, tails.DEGREES, scale=tails.TARGET)
    np.testing.assert_allclose(tails.truth.log_prob_values(data)[mine], expected, rtol=1e-3, atol=1e-3)


def test_the_truth_of_another_domain_is_refused() -> None:
    with pytest.raises(spare.DataError, match="the data belong to"):
        crane.truth.log_prob(kinds.generate(2, 0))
