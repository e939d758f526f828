"""Physics engines by name; see `engine.py` for what one can do."""

from __future__ import annotations

from spare.errors import UsageError, one_of
from spare.lab.worlds.push.engines.engine import GRIPPER, STEP, Engine
from spare.lab.worlds.push.settings import ENGINES

__all__ = ["GRIPPER", "STEP", "Engine", "make", "version"]


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
