"""Draws a scene with PyBullet's own software renderer: shadows, the target and the push marked.

1. The blocks, the table and, if asked for, the gripper and an arrow are put into a world of their own.
2. The renderer draws it at twice the size and returns colours and depths; from the depths follow the shadows.
3. The edges of the blocks that the depths show to be visible are drawn over it, and all is scaled down.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from spare.lab.worlds.push.camera import FAR, Camera, looking_at
from spare.lab.worlds.push.engines import GRIPPER
from spare.lab.worlds.push.engines.bullet import load
from spare.lab.worlds.push.scene import Push, Scene
from spare.lab.worlds.push.shadows import light, rotation, shade

SAMPLING = 2
SIDE = 1.3
"""The drawn table is a little larger than where blocks are put."""
TARGET = (0.89, 0.34, 0.20)
STACK = ((0.96, 0.69, 0.27), (0.95, 0.80, 0.42), (0.97, 0.87, 0.58), (0.98, 0.92, 0.72))
EXTRA = (0.62, 0.70, 0.78)
TABLE = (0.93, 0.92, 0.90)
BAR = (0.22, 0.24, 0.28)
ARROW = (0.10, 0.42, 0.75)
_CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) / 2
_EDGES = [(a, b) for a in range(8) for b in range(a + 1, 8) if np.abs(_CORNERS[a] - _CORNERS[b]).sum() == 1]


def picture(
    scene: Scene,
    *,
    push: Push | None = None,
    gripper: tuple[float, float, float, float] | None = None,
    ghost: np.ndarray | None = None,
    camera: Camera | None = None,
    size: tuple[int, int] = (800, 600),
) -> Image.Image:
    """One image of a scene.

    push      draw the arrow from the gripper's start along the push
    gripper   draw the gripper at (x, y, z, heading)
    ghost     (stack, 7): draw the outlines of where the stack was
    camera    where to look from (default: at the target, beside the push)
    """
    if camera is None:
        heading = push.heading(scene.poses[0]) if push is not None else 0.6
        camera = looking_at(scene.poses[0, :3], heading, size)
    large = Camera(
        camera.focus,
        camera.distance,
        camera.azimuth,
        camera.elevation,
        camera.width * SAMPLING,
        camera.height * SAMPLING,
    )
    colours, depths = _render(scene, push, gripper, large)
    sizes, poses = scene.sizes, scene.poses
    if gripper is not None:
        sizes, poses = np.vstack([sizes, GRIPPER]), np.vstack([poses, _bar_pose(gripper)])
    image = shade(_backdrop(colours, depths), depths, large, (sizes, poses))
    _draw_edges(image, depths, large, scene)
    pen = ImageDraw.Draw(image)
    if ghost is not None:
        for size_of, pose in zip(scene.sizes, ghost, strict=False):
            for a, b in edge_lines(size_of, pose):
                _dashes(pen, large, a, b, (120, 124, 132))
    if push is not None:
        outline = arrow_outline(push, scene.poses[0])
        for a, b in zip(outline, np.roll(outline, -1, axis=0), strict=True):
            _dashes(pen, large, a, b, (26, 107, 191))
    return image.resize((camera.width, camera.height), Image.Resampling.LANCZOS)


def colours_of(scene: Scene) -> list[tuple[float, float, float]]:
    """The colour of every block: the target, the rest of the stack lighter and lighter, the extra ones grey."""
    above = [STACK[min(k, len(STACK) - 1)] for k in range(scene.stack - 1)]
    return [TARGET, *above, *[EXTRA] * (len(scene) - scene.stack)]


def _render(
    scene: Scene, push: Push | None, gripper: tuple[float, float, float, float] | None, camera: Camera
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns, 3) colours and (rows, columns) distances."""
    p = load()
    client = p.connect(p.DIRECT)
    try:
        _box(p, client, (SIDE, SIDE, 0.03), (0, 0, -0.015), (0, 0, 0, 1), TABLE)
        for size, pose, colour in zip(scene.sizes, scene.poses, colours_of(scene), strict=True):
            _box(p, client, size, pose[:3], pose[3:], colour)
        if gripper is not None:
            bar = _bar_pose(gripper)
            _box(p, client, GRIPPER, bar[:3], bar[3:], BAR)
        if push is not None:
            _arrow(p, client, push, scene.poses[0])
        _, _, rgba, depth, _ = p.getCameraImage(
            camera.width,
            camera.height,
            camera.view.T.reshape(-1).tolist(),
            camera.projection.T.reshape(-1).tolist(),
            lightDirection=light(camera).tolist(),
            lightColor=[1, 1, 1],
            shadow=0,
            lightAmbientCoeff=0.60,
            lightDiffuseCoeff=0.42,
            lightSpecularCoeff=0.0,
            renderer=p.ER_TINY_RENDERER,
            physicsClientId=client,
        )
    finally:
        p.disconnect(physicsClientId=client)
    shape = (camera.height, camera.width)
    return (
        np.asarray(rgba, np.uint8).reshape(*shape, 4)[..., :3].copy(),
        Camera.depth(np.asarray(depth, np.float64).reshape(shape)),
    )


def _bar_pose(gripper: tuple[float, float, float, float]) -> np.ndarray:
    """(7,): the pose of the gripper from (x, y, z, heading)."""
    x, y, z, heading = gripper
    return np.array([x, y, z, 0.0, 0.0, math.sin(heading / 2), math.cos(heading / 2)])


def _backdrop(colours: np.ndarray, depths: np.ndarray) -> Image.Image:
    """The image with a soft grey where nothing is."""
    level = np.linspace(0.80, 0.90, len(depths))[:, None, None] * np.array([250.0, 252.0, 255.0])
    empty = (depths > 0.98 * FAR)[..., None]
    return Image.fromarray(np.where(empty, level, colours).astype(np.uint8))


def _box(p: Any, client: int, size: Any, position: Any, turn: Any, colour: tuple[float, float, float]) -> None:
    """A box that is only seen."""
    shape = p.createVisualShape(
        p.GEOM_BOX,
        halfExtents=[float(side) / 2 for side in size],
        rgbaColor=[*colour, 1],
        specularColor=[0, 0, 0],
        physicsClientId=client,
    )
    p.createMultiBody(0, -1, shape, [float(c) for c in position], [float(c) for c in turn], physicsClientId=client)


def arrow_outline(push: Push, target: np.ndarray) -> np.ndarray:
    """(7, 3): a flat arrow just above the table, from the gripper's start over the distance d."""
    heading, tip = push.heading(target), 0.035
    shaft = max(0.01, push.d - tip)
    flat = np.array(
        [[0, -0.007], [shaft, -0.007], [shaft, -0.02], [push.d, 0], [shaft, 0.02], [shaft, 0.007], [0, 0.007]]
    )
    turn = np.array([[math.cos(heading), math.sin(heading)], [-math.sin(heading), math.cos(heading)]])
    ground = flat @ turn + [push.xg, push.yg]
    return np.concatenate([ground, np.full((7, 1), 0.0015)], axis=1)


def _arrow(p: Any, client: int, push: Push, target: np.ndarray) -> None:
    """The arrow of the push, as a body that is only seen."""
    vertices = arrow_outline(push, target).tolist()
    shape = p.createVisualShape(
        p.GEOM_MESH,
        vertices=vertices,
        indices=[0, 1, 5, 0, 5, 6, 2, 3, 4],
        normals=[[0, 0, 1]] * len(vertices),
        rgbaColor=[*ARROW, 1],
        specularColor=[0, 0, 0],
        physicsClientId=client,
    )
    p.createMultiBody(0, -1, shape, [0, 0, 0], physicsClientId=client)


def corners(size: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """(8, 3): the corners of a box of that size at that pose."""
    return (_CORNERS * size) @ rotation(pose).T + pose[:3]


def edge_lines(size: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """(12, 2, 3): the edges of a box, each from corner to corner."""
    points = corners(size, pose)
    return np.array([[points[a], points[b]] for a, b in _EDGES])


def _draw_edges(image: Image.Image, depths: np.ndarray, camera: Camera, scene: Scene) -> None:
    """Thin darker lines along the edges that are visible."""
    pen = ImageDraw.Draw(image)
    for size, pose, colour in zip(scene.sizes, scene.poses, colours_of(scene), strict=True):
        dark = tuple(int(255 * 0.55 * part) for part in colour)
        for a, b in edge_lines(size, pose):
            _line(pen, camera, np.linspace(a, b, 60), dark, depths)


def _dashes(
    pen: ImageDraw.ImageDraw, camera: Camera, start: np.ndarray, end: np.ndarray, colour: tuple[int, ...]
) -> None:
    """A dashed line that is seen through everything."""
    count = 2 * max(1, round(float(np.linalg.norm(end - start)) / 0.008)) + 1
    points = np.linspace(start, end, count + 1)
    for k in range(0, count, 2):
        _line(pen, camera, points[k : k + 2], colour, None)


def _line(
    pen: ImageDraw.ImageDraw,
    camera: Camera,
    points: np.ndarray,
    colour: tuple[int, ...],
    depths: np.ndarray | None,
) -> None:
    """Join projected points, leaving out those that something nearer hides."""
    seen = camera.project(points)
    columns = np.clip(seen[:, 0].astype(int), 0, camera.width - 1)
    rows = np.clip(seen[:, 1].astype(int), 0, camera.height - 1)
    shown = np.ones(len(points), bool) if depths is None else seen[:, 2] < depths[rows, columns] + 0.004
    for k in range(len(points) - 1):
        if shown[k] and shown[k + 1]:
            pen.line([*seen[k, :2], *seen[k + 1, :2]], fill=colour, width=SAMPLING + 1)
