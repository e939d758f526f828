"""Shadows of boxes: for each pixel, whether a box is between the point that it shows and the light.

PyBullet's software renderer compares depths so coarsely that blocks of a few centimetres cast no shadow. Its depth
image gives the point behind every pixel; a ray from there to the light is tested against every box, exactly.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageChops, ImageFilter

from spare.lab.worlds.push.camera import FIELD, Camera

Boxes = tuple[np.ndarray, np.ndarray]
"""Sizes (K, 3) and poses (K, 7)."""
DARK = 0.30
"""How much light a shadow takes away."""
SOFT = 2.5
"""Width of a shadow's edge, in pixels."""


def light(camera: Camera) -> np.ndarray:
    """(3,) unit vector to the light: at the viewer's upper left, so that shadows fall to the right and away."""
    azimuth = math.radians(camera.azimuth - 65)
    toward = np.array([0.7 * math.cos(azimuth), 0.7 * math.sin(azimuth), 1.35])
    return toward / np.linalg.norm(toward)


def shade(image: Image.Image, depths: np.ndarray, camera: Camera, boxes: Boxes) -> Image.Image:
    """The image with the boxes' shadows, their edges a little soft; worked out for every second pixel."""
    coarse = depths[::2, ::2]
    points, toward = seen_points(coarse, camera), light(camera).astype(np.float32)
    dark = hidden(points, toward, boxes).reshape(coarse.shape)
    mask = Image.fromarray(np.where(dark, round(255 * (1 - DARK)), 255).astype(np.uint8)).resize(image.size)
    level = mask.filter(ImageFilter.GaussianBlur(SOFT))
    return ImageChops.multiply(image, Image.merge("RGB", [level] * 3))


def seen_points(depths: np.ndarray, camera: Camera) -> np.ndarray:
    """(rows x columns, 3) float32: the point in the world that each pixel shows."""
    rows, columns = depths.shape
    scale = math.tan(math.radians(FIELD) / 2)
    across = ((np.arange(columns) + 0.5) / columns * 2 - 1) * scale * columns / rows
    up = (1 - (np.arange(rows) + 0.5) / rows * 2) * scale
    seen = np.stack([across[None, :] * depths, up[:, None] * depths, -depths], axis=-1).reshape(-1, 3)
    view = camera.view
    return ((seen - view[:3, 3]) @ view[:3, :3]).astype(np.float32)


def hidden(points: np.ndarray, toward: np.ndarray, boxes: Boxes) -> np.ndarray:
    """(K,) bool: whether the ray from each point along `toward` meets a box that the point is not on.

    In the box's own axes the ray is inside the slab of axis k between two times; it meets the box when the last
    time of entry comes before the first time of exit, and that is ahead.
    """
    dark = np.zeros(len(points), bool)
    columns = np.ascontiguousarray(points.T)
    for size, pose in zip(*boxes, strict=True):
        turn = rotation(pose).astype(np.float32)
        centre, step = pose[:3].astype(np.float32) @ turn, toward @ turn
        near, far, off = np.float32(-np.inf), np.float32(np.inf), np.float32(-np.inf)
        for axis in range(3):
            half = np.float32(size[axis] / 2)
            place = turn[:, axis] @ columns - centre[axis]
            slope = step[axis] if abs(step[axis]) > 1e-6 else np.float32(1e-6)
            reach = half / abs(slope)
            near = np.maximum(near, -place / slope - reach)
            far = np.minimum(far, reach - place / slope)
            off = np.maximum(off, np.abs(place) - half)
        dark |= (off > 0.0015) & (near < far) & (far > 0)
    return dark


def rotation(pose: np.ndarray) -> np.ndarray:
    """(3, 3): the turn of a pose, from its quaternion x, y, z, w."""
    x, y, z, w = pose[3:]
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
