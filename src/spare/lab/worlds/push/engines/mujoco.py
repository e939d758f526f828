"""MuJoCo, the second engine: the same boxes and gripper, in a model that is compiled for every scene."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spare.errors import UsageError
from spare.lab.worlds.push.engines.engine import FRICTION, GRIP_FRICTION, GRIPPER, STEP
from spare.lab.worlds.push.scene import Scene

_PARKED = (0.0, 0.0, 50.0)
# Time constant and damping of a contact with the gripper: stiffer than the default, or a push would sink
# some 2 mm into the block.
_FIRM = (0.01, 1.0)


def _ignore(message: str) -> None:
    """Instability shows in the poses and speeds, which are checked after every few steps."""


class Mujoco:
    """One compiled model at a time; the gripper is part of it, parked high above until it is placed."""

    def __init__(self) -> None:
        try:
            import mujoco
        except ImportError as error:
            raise UsageError("the mujoco engine needs MuJoCo: install spare-models[lab]") from error
        # Without a handler MuJoCo writes a log file into the current folder.
        self._mj: Any = mujoco
        self._mj.set_mju_user_warning(_ignore)
        self._count = 0
        self._held = False

    def build(self, scene: Scene) -> None:
        """Replace the world by this scene, at rest, without a gripper."""
        mj = self._mj
        spec = mj.MjSpec()
        option = spec.option
        option.timestep = STEP
        option.integrator = mj.mjtIntegrator.mjINT_IMPLICITFAST
        option.cone = mj.mjtCone.mjCONE_ELLIPTIC
        option.impratio = 1.0
        # By itself MuJoCo puts a world that explodes back to its start, unnoticed.
        option.disableflags |= mj.mjtDisableBit.mjDSBL_AUTORESET
        surface = [FRICTION, 0.005, 0.0001]
        spec.worldbody.add_geom(type=mj.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=surface)
        for size, mass, pose in zip(scene.sizes.tolist(), scene.masses.tolist(), scene.poses.tolist(), strict=True):
            body = spec.worldbody.add_body(pos=pose[:3], quat=[pose[6], *pose[3:6]])
            body.add_freejoint()
            body.add_geom(type=mj.mjtGeom.mjGEOM_BOX, size=[side / 2 for side in size], mass=mass, friction=surface)
        self._add_gripper(spec)
        self._model = spec.compile()
        self._data = mj.MjData(self._model)
        self._count = len(scene)
        self._held = False
        self._bar = self._model.ngeom - 1

    def _add_gripper(self, spec: Any) -> None:
        """A bar on a sliding joint along its own x axis, driven by a stiff speed servo."""
        mj = self._mj
        hand = spec.worldbody.add_body(name="gripper", pos=_PARKED)
        hand.add_joint(name="slide", type=mj.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0])
        hand.add_geom(
            type=mj.mjtGeom.mjGEOM_BOX,
            size=[side / 2 for side in GRIPPER],
            mass=1.0,
            friction=[GRIP_FRICTION, 0.005, 0.0001],
            priority=1,
            solref=_FIRM,
            contype=2,
            conaffinity=1,
        )
        servo = spec.add_actuator(target="slide", trntype=mj.mjtTrn.mjTRN_JOINT)
        servo.set_to_velocity(kv=1e4)

    def place(self, start: tuple[float, float, float], heading: float) -> None:
        """Put the gripper there, its face toward `heading`, at rest."""
        body = self._model.nbody - 1
        self._model.body_pos[body] = start
        self._model.body_quat[body] = (math.cos(heading / 2), 0.0, 0.0, math.sin(heading / 2))
        self._held = True

    def step(self, steps: int, speed: float = 0.0) -> None:
        """Advance by `steps` steps while the gripper, if there is one, moves at `speed` along its heading."""
        self._data.ctrl[0] = speed
        self._mj.mj_step(self._model, self._data, nstep=steps)

    def lift(self) -> None:
        """Take the gripper away."""
        self._model.body_pos[self._model.nbody - 1] = _PARKED
        self._held = False

    def touching(self) -> bool:
        """Whether the gripper is in contact with a block now."""
        return self._held and bool((self._data.contact.geom[: self._data.ncon] == self._bar).any())

    def poses(self) -> np.ndarray:
        """(N, 7): centre and quaternion x, y, z, w of every block."""
        poses = self._data.qpos[: 7 * self._count].reshape(-1, 7)
        return poses[:, [0, 1, 2, 4, 5, 6, 3]].copy()

    def close(self) -> None:
        """Free the engine; it cannot be used again."""
        self._count = 0
