from __future__ import annotations

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spare.lab.worlds.push import domain
from spare.lab.worlds.push.scene import Push, draw, noise_source, overhang
from spare.lab.worlds.push.settings import Ranges, Settings, capacity


def test_a_draw_depends_on_seed_index_and_attempt_only():
    settings = Settings.make((2, 3), extra=3, seed=4)
    first, again = draw(settings, 11, 0), draw(settings, 11, 0)
    np.testing.assert_array_equal(first.scene.poses, again.scene.poses)
    assert first.push == again.push
    for other in (
        draw(settings, 12, 0),
        draw(settings, 11, 1),
        draw(Settings.make((2, 3), extra=3, seed=5), 11, 0),
    ):
        assert other.push != first.push


def test_the_engine_changes_no_scene():
    bullet = Settings.make(3, extra=4)
    assert draw(bullet, 3, 0).push == draw(dataclasses.replace(bullet, engine="mujoco"), 3, 0).push


@given(seed=st.integers(0, 500), height=st.integers(1, 5), extra=st.integers(0, 12))
def test_scenes_are_stable_apart_and_on_the_table(seed, height, extra):
    settings = Settings.make(height, extra=extra, seed=seed)
    ranges = settings.ranges
    drawn = draw(settings, 0, 0)
    scene, centres = drawn.scene, drawn.scene.poses[:, :3]
    assert sorted(drawn.order.tolist()) == list(range(height + extra))
    assert drawn.order[0] == 0
    assert height == 1 or overhang(scene.sizes[:height], scene.masses[:height], centres[:height]) >= ranges.margin
    assert (np.abs(centres[:, :2]) + scene.sizes[:, :2] / 2 <= ranges.table / 2 + 1e-9).all()
    for a, b in itertools.combinations([0, *range(height, len(scene))], 2):
        gap = np.abs(centres[a, :2] - centres[b, :2]) - (scene.sizes[a, :2] + scene.sizes[b, :2]) / 2
        assert gap.max() >= ranges.clearance - 1e-9
    reach = math.hypot(drawn.push.xg - centres[0, 0], drawn.push.yg - centres[0, 1])
    assert ranges.start[0] - 1e-9 <= reach <= ranges.start[1] + 1e-9


def test_as_many_blocks_as_the_table_is_said_to_hold_find_a_place():
    settings = Settings.make(3, extra=capacity(Ranges(), 3))
    for index in range(20):
        assert len(draw(settings, index, 0).scene) == 3 + settings.extra


def test_overhang_of_a_hand_made_stack():
    sizes, masses = np.full((3, 3), 0.1), np.array([1.0, 1.0, 3.0])
    centres = np.array([[0, 0, 0.05], [0.02, 0, 0.15], [0.04, 0, 0.25]])
    # Above block 0: (0.02 + 3 * 0.04) / 4 = 0.035, and its carrying face ends at 0.05.
    assert overhang(sizes, masses, centres) == pytest.approx(0.015)
    centres[2, 0] = 0.08
    assert overhang(sizes, masses, centres) < 0


def test_the_push_heads_for_the_target_and_noise_has_the_asked_size():
    push = Push(1.0, 0.0, 0.02, 0.1)
    assert push.heading(np.array([0.0, 0.0])) == pytest.approx(math.pi)
    settings = Settings.make(3)
    done = np.array([push.disturbed(noise_source(settings, 0, 0, r), 0.003).as_tuple() for r in range(2000)])
    np.testing.assert_allclose(done.mean(axis=0), push.as_tuple(), atol=3e-4)
    np.testing.assert_allclose(done.std(axis=0), 0.003, rtol=0.08)
    assert push.disturbed(noise_source(settings, 0, 0), 0.0) == push


def _hand_written(values: np.ndarray) -> dict[str, np.ndarray]:
    """[reference][p, o]: whether o is in reference(p), by plain geometry on plain lists."""
    count = len(values)
    blocks = [dict(zip(domain.property_names, map(float, row), strict=True)) for row in values]
    above = np.zeros((count, count), bool)
    for (p, low), (o, high) in itertools.product(enumerate(blocks), repeat=2):
        meets = abs((high["z"] - low["z"]) - (high["height"] + low["height"]) / 2) < 0.005
        overlap = all(
            abs(high[axis] - low[axis]) * 2 < high[side] + low[side] for axis, side in (("x", "width"), ("y", "length"))
        )
        above[p, o] = p != o and meets and overlap
    reach = above.copy()
    for _ in range(count):
        reach |= (reach.astype(int) @ above.astype(int)) > 0
    nearest = np.zeros((count, count), bool)
    for p in range(count):
        others = [o for o in range(count) if o != p]
        centre = [[blocks[o][axis] for axis in "xyz"] for o in range(count)]
        nearest[p, min(others, key=lambda o: math.dist(centre[o], centre[p]))] = True
    return {"above": above, "above*": reach, "below": above.T, "nearest": nearest}


@pytest.mark.slow
@pytest.mark.parametrize("height", [2, 3, 4])
def test_references_agree_with_plain_geometry_on_200_scenes(height):
    settings = Settings.make(height, extra=4, seed=height)
    scenes = [draw(settings, index, 0).scene for index in range(200)]
    values = np.stack([np.hstack([s.poses[:, :3], s.sizes]) for s in scenes]).astype(np.float32)
    expected = [_hand_written(one) for one in values]
    count = height + 4
    valid = jnp.ones(count, bool)
    for name in ("above", "above*", "below", "nearest"):
        relation = domain.reference(name).relation

        def found(one, relation=relation):
            view = domain.view(None, one, valid, None)
            return jax.vmap(lambda p: relation.pick(view, (p,)))(jnp.arange(count))

        result = np.asarray(jax.jit(jax.vmap(found))(values))
        np.testing.assert_array_equal(result, np.stack([one[name] for one in expected]))
    # The stack is what the references find from the target: each block carries exactly the next.
    assert all(one["above*"][0, 1:height].all() and one["above*"][0].sum() == height - 1 for one in expected)


def test_the_frame_of_the_push():
    action = domain.action("push")
    assert action.frame is not None
    assert action.frame.mirror
    target, push = jnp.array([[0.3, 0.1, 0.02, 0.1, 0.1, 0.04]]), jnp.array([0.3, 0.0, 0.02, 0.1])
    pose = domain.pose(action, target, push)
    assert pose.origin.tolist() == pytest.approx([0.3, 0.1, 0.02])
    assert float(pose.heading) == pytest.approx(math.pi / 2)
