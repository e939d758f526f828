"""An interactive 3-D page of one transition: one HTML file that asks the network for nothing.

viser builds the scene and records the motion; its serializer puts scene and viewer into one document. A content
security policy is added to the page, so that a browser would refuse any request even if the viewer made one.
"""

from __future__ import annotations

import contextlib
import html
import io
import math
from typing import Any

import numpy as np

from spare.errors import UsageError
from spare.lab.worlds.push.engines import GRIPPER, STEP
from spare.lab.worlds.push.episode import CHUNK, speeds
from spare.lab.worlds.push.figures import Scenario, describe
from spare.lab.worlds.push.pictures import ARROW, BAR, SIDE, TABLE, arrow_outline, colours_of, edge_lines

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' data: blob:; style-src 'unsafe-inline' data: blob:; "
    "img-src data: blob:; font-src data:; connect-src data: blob:; worker-src data: blob:; child-src data: blob:"
)

_THIN: dict[str, Any] = {"thickness": 1.5, "thickness_units": "screen"}


def page(scenario: Scenario) -> str:
    """The document: drag to turn, scroll to zoom, play the push on the time line."""
    try:
        import viser
    except ImportError as error:
        raise UsageError("the 3-D page needs viser: install spare-models[push]") from error
    # viser can only record through a server; this one listens on the loopback device, for the time of this call.
    with contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host="127.0.0.1", port=8650, verbose=False)
        try:
            document = _record(server, scenario)
        finally:
            server.stop()
    return _sealed(document, describe(scenario))


def _record(server: Any, scenario: Scenario) -> str:
    """Fill the scene, then move the blocks and the gripper step by step."""
    scene, push = server.scene, scenario.push
    _set_view(server, scenario)
    blocks = _add_blocks(scene, scenario)
    bar = scene.add_box("/gripper", _colour(BAR), GRIPPER)
    outline = arrow_outline(push, scenario.outcome.before[0])
    faces = np.array([[0, 1, 5], [0, 5, 6], [2, 3, 4]])
    scene.add_mesh_simple("/push", outline.astype(np.float32), faces, color=_colour(ARROW), side="double")
    serializer = server.get_scene_serializer()
    executed = scenario.outcome.executed
    heading = executed.heading(scenario.outcome.before[0])
    along = np.array([math.cos(heading), math.sin(heading)])
    bar.wxyz = (math.cos(heading / 2), 0.0, 0.0, math.sin(heading / 2))
    travelled = iter(np.cumsum(speeds(executed.d)) * CHUNK * STEP)
    place = np.array([executed.xg, executed.yg])
    for phase, poses in [("settle", scenario.outcome.before), *_moving(scenario)]:
        if phase == "push":
            place = np.array([executed.xg, executed.yg]) + next(travelled) * along
        bar.position = (*place, executed.zg)
        bar.visible = phase != "rest"
        for block, pose in zip(blocks, poses, strict=True):
            block.position, block.wxyz = pose[:3], pose[[6, 3, 4, 5]]
        serializer.insert_sleep(0.5 if phase == "settle" else CHUNK * STEP)
    serializer.insert_sleep(1.0)
    return serializer.as_html()


def _moving(scenario: Scenario) -> list[tuple[str, np.ndarray]]:
    return [frame for frame in scenario.frames if frame[0] != "settle"]


def _add_blocks(scene: Any, scenario: Scenario) -> list[Any]:
    """The table, the outlines of where the stack was, and the blocks themselves."""
    scene.add_box("/table", _colour(TABLE), (SIDE, SIDE, 0.03), position=(0.0, 0.0, -0.015))
    before, stack = scenario.outcome.before, scenario.scene.stack
    lines = np.concatenate([edge_lines(scenario.scene.sizes[k], before[k]) for k in range(stack)])
    scene.add_line_segments("/was", lines.astype(np.float32), (120, 124, 132), **_THIN)
    return [
        scene.add_box(f"/block/{k}", _colour(colour), tuple(size))
        for k, (size, colour) in enumerate(zip(scenario.scene.sizes, colours_of(scenario.scene), strict=True))
    ]


def _set_view(server: Any, scenario: Scenario) -> None:
    """Look at the target from beside the push, as the still pictures do."""
    server.scene.set_up_direction("+z")
    server.scene.configure_default_lights(cast_shadow=True)
    server.scene.configure_environment_map(None)
    server.scene.add_light_ambient("/light", intensity=1.2)
    focus = scenario.outcome.before[0, :3]
    azimuth = scenario.heading - math.radians(115)
    away = np.array([math.cos(azimuth), math.sin(azimuth), 0.62])
    server.initial_camera.position = tuple(focus + 0.7 * away)
    server.initial_camera.look_at = tuple(focus)
    server.initial_camera.fov = math.radians(45)
    server.initial_camera.up = (0.0, 0.0, 1.0)


def _colour(share: tuple[float, float, float]) -> tuple[int, int, int]:
    return round(255 * share[0]), round(255 * share[1]), round(255 * share[2])


def _sealed(document: str, title: str) -> str:
    """The document with its policy first, so that it holds for all that follows, and a title of its own."""
    start = document.index("<head>") + len("<head>")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    sealed = document[:start] + policy + document[start:]
    return sealed.replace("<title>Viser</title>", f"<title>{html.escape(title)}</title>", 1)
