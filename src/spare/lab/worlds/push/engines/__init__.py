"""The one small protocol behind which a physics engine hides, and the choice of an engine by name.

An engine holds one world at a time: `build` replaces it. What crosses the protocol are plain arrays and
numbers; no handle of an engine does. Both engines use the same time step, friction and gripper.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from spare.errors import UsageError, one_of
from spare.lab.worlds.push.scene import Scene
from spare.lab.worlds.push.settings import ENGINES


@runtime_checkable
class Engine(Protocol):
    """A world of blocks on a table, and a gripper that slides along one line."""

    def build(self, scene: Scene) -> None:
        """Replace the world by this scene, at rest, without a gripper."""
        ...

    def place(self, start: tuple[float, float, float], heading: float) -> None:
        """Put the gripper there, its face toward `heading`, at rest."""
        ...

    def step(self, steps: int, speed: float = 0.0) -> None:
        """Advance by `steps` steps while the gripper, if there is one, moves at `speed` along its heading."""
        ...

    def lift(self) -> None:
        """Take the gripper away."""
        ...

    def touching(self) -> bool:
        """Whether the gripper is in contact with a block now."""
        ...

    def poses(self) -> np.ndarray:
        """(N, 7): centre and quaternion x, y, z, w of every block."""
        ...

    def close(self) -> None:
        """Free the engine; it cannot be used again."""
        ...


def make(name: str) -> Engine:
    """A new engine: "bullet" or "mujoco"."""
    if name == "bullet":
        from spare.lab.worlds.push.engines.bullet import Bullet

        return Bullet()
    if name == "mujoco":
        from spare.lab.worlds.push.engines.mujoco import Mujoco

        return Mujoco()
    raise UsageError(one_of("engine", name, ENGINES))


def version(name: str) -> str:
    """The version of an engine, for the record."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    for package in {"bullet": ("pybullet", "pybullet-arm64"), "mujoco": ("mujoco-core", "mujoco")}[name]:
        try:
            return installed(package)
        except PackageNotFoundError:
            continue
    return "unknown"
