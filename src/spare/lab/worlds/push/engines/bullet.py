"""PyBullet, the paper's engine: rigid boxes on a plane, a gripper on a motorised sliding joint."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from types import ModuleType

import numpy as np

from spare.errors import UsageError
from spare.lab.worlds.push.engines.engine import FRICTION, GRIP_FRICTION, GRIPPER, STEP
from spare.lab.worlds.push.scene import Scene

# Bullet multiplies the two coefficients of a contact.
_SURFACE = math.sqrt(FRICTION)


def load() -> ModuleType:
    """The `pybullet` module, without the line that it prints on standard error when it is first imported."""
    if (found := sys.modules.get("pybullet")) is not None:
        return found
    sys.stderr.flush()
    kept, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 2)
    try:
        import pybullet
    except ImportError as error:
        raise UsageError("the bullet engine needs PyBullet: install spare-models[lab]") from error
    finally:
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 2)
        os.close(kept)
        os.close(sink)
    return pybullet


class Bullet:
    """One PyBullet client; `build` resets it, so that no sample depends on the one before."""

    def __init__(self) -> None:
        self._p = load()
        self._client = self._p.connect(self._p.DIRECT)
        self._blocks: list[int] = []
        self._gripper = -1

    def build(self, scene: Scene) -> None:
        """Replace the world by this scene, at rest, without a gripper."""
        p, client = self._p, self._client
        p.resetSimulation(physicsClientId=client)
        p.setGravity(0, 0, -9.81, physicsClientId=client)
        p.setPhysicsEngineParameter(
            fixedTimeStep=STEP,
            numSubSteps=1,
            numSolverIterations=60,
            deterministicOverlappingPairs=1,
            physicsClientId=client,
        )
        self._gripper = -1
        floor = p.createCollisionShape(p.GEOM_PLANE, physicsClientId=client)
        table = p.createMultiBody(0, floor, useMaximalCoordinates=1, physicsClientId=client)
        p.changeDynamics(table, -1, lateralFriction=_SURFACE, physicsClientId=client)
        self._blocks = [
            self._block(size, mass, pose)
            for size, mass, pose in zip(scene.sizes.tolist(), scene.masses.tolist(), scene.poses.tolist(), strict=True)
        ]

    def _block(self, size: list[float], mass: float, pose: list[float]) -> int:
        """A box with the same density everywhere."""
        p, client = self._p, self._client
        shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[side / 2 for side in size], physicsClientId=client)
        block = p.createMultiBody(mass, shape, -1, pose[:3], pose[3:], useMaximalCoordinates=1, physicsClientId=client)
        p.changeDynamics(block, -1, lateralFriction=_SURFACE, restitution=0.0, physicsClientId=client)
        return block

    def place(self, start: tuple[float, float, float], heading: float) -> None:
        """Put the gripper there, its face toward `heading`, at rest."""
        p, client = self._p, self._client
        shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[side / 2 for side in GRIPPER], physicsClientId=client)
        self._gripper = p.createMultiBody(
            0,
            basePosition=start,
            baseOrientation=[0, 0, math.sin(heading / 2), math.cos(heading / 2)],
            linkMasses=[1.0],
            linkCollisionShapeIndices=[shape],
            linkVisualShapeIndices=[-1],
            linkPositions=[[0, 0, 0]],
            linkOrientations=[[0, 0, 0, 1]],
            linkInertialFramePositions=[[0, 0, 0]],
            linkInertialFrameOrientations=[[0, 0, 0, 1]],
            linkParentIndices=[0],
            linkJointTypes=[p.JOINT_PRISMATIC],
            linkJointAxis=[[1, 0, 0]],
            physicsClientId=client,
        )
        p.changeDynamics(
            self._gripper, 0, lateralFriction=GRIP_FRICTION / _SURFACE, jointDamping=0.0, physicsClientId=client
        )
        # The gripper never meets the table, however low the noise takes it.
        p.setCollisionFilterPair(0, self._gripper, -1, 0, 0, physicsClientId=client)

    def step(self, steps: int, speed: float = 0.0) -> None:
        """Advance by `steps` steps while the gripper, if there is one, moves at `speed` along its heading."""
        p, client = self._p, self._client
        if self._gripper >= 0:
            p.setJointMotorControl2(
                self._gripper, 0, p.VELOCITY_CONTROL, targetVelocity=speed, force=1e3, physicsClientId=client
            )
        for _ in range(steps):
            p.stepSimulation(physicsClientId=client)

    def lift(self) -> None:
        """Take the gripper away."""
        self._p.removeBody(self._gripper, physicsClientId=self._client)
        self._gripper = -1

    def touching(self) -> bool:
        """Whether the gripper is in contact with a block now."""
        return bool(self._p.getContactPoints(self._gripper, physicsClientId=self._client))

    def poses(self) -> np.ndarray:
        """(N, 7): centre and quaternion x, y, z, w of every block."""
        p, client = self._p, self._client
        found = [p.getBasePositionAndOrientation(block, physicsClientId=client) for block in self._blocks]
        return np.array([position + turn for position, turn in found])

    def close(self) -> None:
        """Free the engine; it cannot be used again."""
        if self._client >= 0:
            self._p.disconnect(physicsClientId=self._client)
        self._client = -1
