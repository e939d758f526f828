"""The one small protocol behind which a physics engine hides.

An engine holds one world at a time: `build` replaces it. What crosses the protocol are plain arrays and
numbers; no handle of an engine does. Both engines use the same time step, friction and gripper.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from spare.lab.worlds.push.scene import Scene

STEP = 1 / 240
"""Seconds per step."""
FRICTION = 0.5
"""Coefficient of sliding friction between two blocks, and between a block and the table."""
GRIP_FRICTION = 0.3
"""The same between the gripper and a block."""
GRIPPER = (0.02, 0.06, 0.012)
"""The gripper is a bar: its size along the push, across it, and its height."""


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
