"""Pictures of generated transitions: before and after, an animation, and a gallery of six.

A file holds positions but no rotations, so a transition is simulated again from its seed; what comes out must be
what the file says.
"""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from spare.data.experience import Experience
from spare.errors import DataError, UsageError
from spare.lab.worlds.push.camera import Camera, looking_at
from spare.lab.worlds.push.chunks import shared_engine
from spare.lab.worlds.push.engines import STEP, Engine
from spare.lab.worlds.push.episode import CHUNK, Outcome, run, speeds
from spare.lab.worlds.push.generation import settings_of
from spare.lab.worlds.push.pictures import picture
from spare.lab.worlds.push.scene import Push, Scene, draw, noise_source

INK = (44, 48, 56)
FPS = 20


@dataclass(frozen=True)
class Scenario:
    """One transition, simulated again: the scene, the push as asked for and as done, and every pose on the way."""

    index: int
    scene: Scene
    push: Push
    outcome: Outcome
    frames: list[tuple[str, np.ndarray]]

    def at(self, poses: np.ndarray) -> Scene:
        """The same blocks at other poses."""
        return Scene(self.scene.sizes, self.scene.masses, poses, self.scene.stack)

    @property
    def heading(self) -> float:
        """The direction of the push as asked for."""
        return self.push.heading(self.outcome.before[0])

    @property
    def moved(self) -> float:
        """How far the target went, in m."""
        return float(np.linalg.norm(self.outcome.after[0, :2] - self.outcome.before[0, :2]))


def simulate_again(data: Experience, index: int) -> Scenario:
    """Transition `index` of generated data, with all poses; a `DataError` if it does not come out as recorded."""
    if not 0 <= index < len(data):
        raise UsageError(f"index {index} is past the end: there are {len(data)} transitions, 0 to {len(data) - 1}")
    settings, info = settings_of(data), data[index].info
    number, attempt = info["index"], info["attempt"]
    drawn = draw(settings, number, attempt)
    frames: list[tuple[str, np.ndarray]] = []

    def watch(phase: str, engine: Engine) -> None:
        frames.append((phase, engine.poses()))

    noise = noise_source(settings, number, attempt)
    outcome = run(shared_engine(settings.engine), drawn, noise, settings.noise, watch)
    recorded = data.next_states[index].values[:, :3]
    if not np.allclose(outcome.after[drawn.order, :3], recorded, atol=1e-4):
        raise DataError(f"transition {index} does not come out as recorded: this engine is another version")
    return Scenario(index, drawn.scene, drawn.push, outcome, frames)


def before_and_after(scenario: Scenario, size: tuple[int, int] = (720, 600)) -> Image.Image:
    """Two pictures side by side with a line of text: the push marked, then where the stack was and is."""
    camera = _camera(scenario, size)
    push, outcome = scenario.push, scenario.outcome
    start = (push.xg, push.yg, push.zg, scenario.heading)
    left = picture(scenario.at(outcome.before), push=push, gripper=start, camera=camera)
    stack = scenario.scene.stack
    right = picture(scenario.at(outcome.after), ghost=outcome.before[:stack], camera=camera)
    sheet = Image.new("RGB", (2 * size[0] + 16, size[1] + 64), "white")
    sheet.paste(left, (0, 0))
    sheet.paste(right, (size[0] + 16, 0))
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(24)
    pen.text((20, 16), "before", INK, font)
    pen.text((size[0] + 36, 16), "after", INK, font)
    pen.text((20, size[1] + 18), describe(scenario), INK, font)
    return sheet


def describe(scenario: Scenario) -> str:
    """One line on a transition."""
    push = scenario.push
    return (
        f"#{scenario.index}   push from ({push.xg:.2f}, {push.yg:.2f}, {push.zg:.3f}) m over d = {push.d:.3f} m"
        f"   ·   stack of {scenario.scene.stack}, {len(scenario.scene) - scenario.scene.stack} extra"
        f"   ·   the target moves {1000 * scenario.moved:.0f} mm"
    )


def animation(scenario: Scenario, size: tuple[int, int] = (480, 360)) -> list[Image.Image]:
    """Frames of the push, in real time at `FPS`: the gripper comes, pushes, and is gone."""
    camera = _camera(scenario, size)
    executed, heading = scenario.outcome.executed, scenario.outcome.executed.heading(scenario.outcome.before[0])
    travelled = np.cumsum(speeds(executed.d)) * CHUNK * STEP
    pushing = [poses for phase, poses in scenario.frames if phase == "push"]
    resting = [poses for phase, poses in scenario.frames if phase == "rest"]
    stride = max(1, round(1 / (FPS * CHUNK * STEP)))
    along = np.array([np.cos(heading), np.sin(heading)])
    images = []
    for k in range(0, len(pushing), stride):
        x, y = np.array([executed.xg, executed.yg]) + travelled[k] * along
        scene = scenario.at(pushing[k])
        images.append(picture(scene, push=None, gripper=(x, y, executed.zg, heading), camera=camera))
    images += [picture(scenario.at(poses), camera=camera) for poses in [*resting[::stride], resting[-1]]]
    return images


def save_gif(images: list[Image.Image], target: io.BytesIO) -> None:
    """Write frames as an endless GIF that rests on its last frame."""
    shared = images[0].quantize(128, method=Image.Quantize.MEDIANCUT)
    frames = [image.quantize(palette=shared, dither=Image.Dither.NONE) for image in images]
    times = [1000 // FPS] * (len(frames) - 1) + [1200]
    frames[0].save(target, "GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)


def representative(data: Experience, count: int = 6) -> list[int]:
    """Indices of `count` transitions: all stack heights in turn, from little motion of the target to much."""
    rows = data.offsets[:-1] + data.objects[:, 0]
    moved = np.linalg.norm((data.next_values - data.values)[rows, :2], axis=1)
    heights, count = np.unique(data.info["height"]), min(count, len(data))
    chosen: list[int] = []
    for k in range(count):
        free = np.setdiff1d(np.flatnonzero(data.info["height"] == heights[k % len(heights)]), chosen)
        if not len(free):
            free = np.setdiff1d(np.arange(len(data)), chosen)
        ranked = free[np.argsort(moved[free], kind="stable")]
        chosen.append(int(ranked[int((k + 0.5) / count * len(ranked))]))
    return sorted(chosen, key=lambda index: (moved[index], index))


def gallery(data: Experience, size: tuple[int, int] = (560, 460)) -> Image.Image:
    """Six representative instances before the push, three in a row."""
    tiles = [_tile(simulate_again(data, index), size) for index in representative(data)]
    rows = -(-len(tiles) // 3)
    sheet = Image.new("RGB", (3 * size[0] + 24, rows * (size[1] + 12) - 12), "white")
    for k, tile in enumerate(tiles):
        sheet.paste(tile, ((k % 3) * (size[0] + 12), (k // 3) * (size[1] + 12)))
    return sheet


def _tile(scenario: Scenario, size: tuple[int, int]) -> Image.Image:
    start = (scenario.push.xg, scenario.push.yg, scenario.push.zg, scenario.heading)
    camera = _camera(scenario, size)
    return picture(scenario.at(scenario.outcome.before), push=scenario.push, gripper=start, camera=camera)


def gallery_page(data: Experience, size: tuple[int, int] = (560, 460)) -> str:
    """A self-contained HTML page: six instances, each before and after, with a line of text."""
    cards = []
    for index in representative(data):
        scenario = simulate_again(data, index)
        memory = io.BytesIO()
        before_and_after(scenario, size).save(memory, "PNG", optimize=True)
        code = base64.b64encode(memory.getvalue()).decode()
        text = html.escape(describe(scenario))
        cards.append(f'<figure><img alt="{text}" src="data:image/png;base64,{code}"></figure>')
    style = (
        "body{font:16px system-ui,sans-serif;color:#2c3038;margin:2rem auto;max-width:1180px;padding:0 1rem}"
        "figure{margin:0 0 1.5rem}img{width:100%;border-radius:8px}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Push world</title><style>{style}</style>'
        f"<h1>Six of {len(data)} pushes</h1><p>Red: the target. Yellow: the stack on it. Grey: extra blocks. "
        f"The arrow is the push; dashed lines show where the stack was.</p>{''.join(cards)}</html>"
    )


def _camera(scenario: Scenario, size: tuple[int, int]) -> Camera:
    """Looks at the middle between where the target was and is, at half the height of the stack."""
    focus = (scenario.outcome.before[0, :3] + scenario.outcome.after[0, :3]) / 2
    focus[2] = scenario.scene.sizes[: scenario.scene.stack, 2].sum() / 2
    return looking_at(focus, scenario.heading, size)
