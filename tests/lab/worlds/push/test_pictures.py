"""Pictures of real transitions, checked by what their pixels show."""

from __future__ import annotations

import base64
import io
import itertools
import re

import numpy as np
import pytest
from PIL import Image

from spare.errors import UsageError
from spare.lab.worlds.push import figures
from spare.lab.worlds.push.camera import Camera
from spare.lab.worlds.push.engines.bullet import load
from spare.lab.worlds.push.pictures import picture
from spare.lab.worlds.push.scene import Scene
from spare.lab.worlds.push.shadows import hidden, light, rotation, seen_points

SIZE = (240, 180)


@pytest.fixture(scope="module")
def scenario(mixed):
    return figures.simulate_again(mixed[1], 7)


def _reddish(image: Image.Image) -> np.ndarray:
    """Pixels in the target's colour, lit or not."""
    red, green, blue = np.asarray(image).astype(int).transpose(2, 0, 1)
    return (red > 80) & (red > 1.8 * green) & (red > 2 * blue)


def _bluish(image: Image.Image) -> np.ndarray:
    """Pixels in the arrow's colour."""
    red, green, blue = np.asarray(image).astype(int).transpose(2, 0, 1)
    return (blue > 120) & (blue > red + 80) & (blue > green + 40)


def test_the_matrices_are_those_of_the_renderer():
    p = load()
    camera = Camera((0.1, -0.2, 0.05), 1.1, 40.0, 30.0, 320, 240)
    turned = p.computeViewMatrix(
        (np.array(camera.focus) - np.linalg.inv(camera.view)[:3, 2] * -1.1).tolist(), camera.focus, [0, 0, 1]
    )
    np.testing.assert_allclose(camera.view.T.reshape(-1), turned, atol=1e-5)
    projection = p.computeProjectionMatrixFOV(32.0, 320 / 240, 0.2, 6.0)
    np.testing.assert_allclose(camera.projection.T.reshape(-1), projection, atol=1e-4)


def test_points_come_back_from_their_pixels():
    camera = Camera((0.0, 0.0, 0.0), 1.0, 25.0, 35.0, 64, 48)
    depths = np.random.default_rng(0).uniform(0.5, 2.0, (48, 64))
    back = camera.project(seen_points(depths, camera).astype(np.float64))
    rows, columns = np.divmod(np.arange(48 * 64), 64)
    np.testing.assert_allclose(back[:, 0], columns + 0.5, atol=1e-2)
    np.testing.assert_allclose(back[:, 1], rows + 0.5, atol=1e-2)
    np.testing.assert_allclose(back[:, 2], depths.reshape(-1), rtol=1e-4)


def test_shadows_are_where_a_walk_to_the_light_meets_a_box():
    rng = np.random.default_rng(3)
    sizes, poses = rng.uniform(0.1, 0.3, (4, 3)), np.zeros((4, 7))
    poses[:, :3] = rng.uniform(-0.2, 0.2, (4, 3))
    turn = rng.normal(size=(4, 4))
    poses[:, 3:] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    points, toward = rng.uniform(-0.4, 0.4, (300, 3)), light(Camera((0.0, 0.0, 0.0), 1.0, 10.0, 30.0, 8, 8))
    walked = np.zeros(300, bool)
    for size, pose in zip(sizes, poses, strict=True):
        steps = points[:, None] + np.linspace(0, 1.5, 3000)[:, None] * toward
        inside = (np.abs((steps - pose[:3]) @ rotation(pose)) < size / 2).all(axis=2)
        away = ~(np.abs((points - pose[:3]) @ rotation(pose)) < size / 2 + 0.0015).all(axis=1)
        walked |= inside.any(axis=1) & away
    found = hidden(points.astype(np.float32), toward.astype(np.float32), (sizes, poses))
    assert 30 < walked.sum() < 270
    assert (found == walked).mean() > 0.99


def test_the_target_and_the_push_are_marked(scenario):
    camera = figures._camera(scenario, SIZE)
    scene = scenario.at(scenario.outcome.before)
    plain = picture(scene, camera=camera)
    marked = picture(scene, push=scenario.push, camera=camera)
    assert plain.size == SIZE
    assert _bluish(plain).sum() == 0
    assert _bluish(marked).sum() > 40
    rows, columns = np.nonzero(_reddish(plain))
    # The middle of what is red is near where the target's centre projects.
    column, row, _ = camera.project(scenario.outcome.before[:1, :3])[0]
    assert len(rows) > 60
    assert abs(columns.mean() - column) < 15
    assert abs(rows.mean() - row) < 15


def test_blocks_cast_shadows_on_the_table(scenario):
    camera = figures._camera(scenario, SIZE)
    full = np.asarray(picture(scenario.at(scenario.outcome.before), camera=camera)).astype(int)
    scene = scenario.scene
    gone = scenario.outcome.before.copy()
    gone[:, 0] += 50.0
    away = Scene(scene.sizes, scene.masses, gone, scene.stack)
    empty = np.asarray(picture(away, camera=camera)).astype(int)
    table = empty[SIZE[1] // 2, 4]
    dark = np.abs(full - 0.7 * table).max(axis=2) < 8
    assert dark.sum() > 100


def test_before_and_after_differ_where_the_stack_went(scenario):
    image = figures.before_and_after(scenario, SIZE)
    assert image.size == (2 * SIZE[0] + 16, SIZE[1] + 64)
    left = _reddish(image.crop((0, 0, *SIZE)))
    right = _reddish(image.crop((SIZE[0] + 16, 0, 2 * SIZE[0] + 16, SIZE[1])))
    assert left.sum() > 60
    assert right.sum() > 60
    # The push goes from left to right in the picture.
    assert np.nonzero(right)[1].mean() - np.nonzero(left)[1].mean() > 4


def test_the_animation_moves_and_rests(scenario):
    images = figures.animation(scenario, (96, 72))
    memory = io.BytesIO()
    figures.save_gif(images, memory)
    gif = Image.open(io.BytesIO(memory.getvalue()))
    assert getattr(gif, "n_frames", 0) > 10
    assert gif.size == (96, 72)
    assert gif.info["loop"] == 0
    first, last = (np.asarray(images[k]).astype(int) for k in (0, -1))
    assert (np.abs(first - last).max(axis=2) > 60).sum() > 20
    assert all(image.size == (96, 72) for image in images)


def test_six_representative_instances(mixed):
    _, data = mixed
    chosen = figures.representative(data)
    assert len(set(chosen)) == 6
    rows = data.offsets[:-1][chosen]
    moved = np.linalg.norm((data.next_values - data.values)[rows, :2], axis=1)
    assert all(a <= b for a, b in itertools.pairwise(moved))
    sheet = figures.gallery(data, (120, 100))
    assert sheet.size == (3 * 120 + 24, 2 * 100 + 12)
    for row, column in itertools.product(range(2), range(3)):
        tile = sheet.crop((column * 132, row * 112, column * 132 + 120, row * 112 + 100))
        assert _reddish(tile).sum() > 10


def test_the_gallery_page_carries_its_pictures(mixed):
    document = figures.gallery_page(mixed[1], (96, 72))
    codes = re.findall(r'src="data:image/png;base64,([^"]+)"', document)
    assert len(codes) == document.count("<img") == 6
    for code in codes:
        with Image.open(io.BytesIO(base64.b64decode(code))) as image:
            assert image.size == (2 * 96 + 16, 72 + 64)
    assert "http" not in document
    assert document.count("the target moves") == 6


def test_fewer_than_six(mixed):
    assert sorted(figures.representative(mixed[1][:3])) == [0, 1, 2]


@pytest.mark.parametrize("index", [60, -1, 1000])
def test_an_index_past_the_end(mixed, index):
    with pytest.raises(UsageError, match=f"index {index} is past the end: there are 60 transitions, 0 to 59"):
        figures.simulate_again(mixed[1], index)
