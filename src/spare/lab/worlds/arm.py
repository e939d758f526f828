"""Arm: a hand is moved by (dx, dy, dz) and carries the cube it grips, or shoves what is in its way; in PyBullet.

The hand is a body that follows a position, strongly but not rigidly. With `grip` at 1 it holds the cube right below it,
if there is one, and what was on top rides along or falls; with 0 it holds nothing. Cubes lie about, some on others, and
a hand that moves low pushes them. All are of one type: `hand` says which object is the hand. Noise: how far it goes.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.errors import DataError
from spare.lab.worlds.push.engines.bullet import load
from spare.lab.worlds.push.engines.engine import FRICTION, STEP
from spare.lab.worlds.simulated import Executed, SimulatedWorld
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

CUBE, HAND = 0.05, 0.04
"""Sides in m of a cube and of the hand."""
NOISE, SPEED = 0.003, 0.25
"""Deviation in m of each coordinate of the hand's way; its speed in m/s."""
SPACING, ATTEMPTS = 0.11, 40
REACH = 0.02
"""A cube is gripped if its middle is so near, seen from above, to the hand's, and its top so near to the hand."""


def _below(o: Any, p: Any) -> Any:
    """f(o, p): o is right below p."""
    return (distance(o, p) < CUBE / 2) & (p.z - o.z > 0.02) & (p.z - o.z < 0.07)


below = Reference("below", _below)

domain = Domain(
    "arm",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("z", unit="m", resolution=1e-3),
        Property("hand", static=True),
    ],
    references=[
        below,
        below.inverse("above"),
        Reference.closest("nearest", lambda o, p: distance(o, p) + jnp.abs(o.z - p.z)),
        Reference("near", lambda o, p: distance(o, p) < 0.15),
        Reference("cubes", lambda o, p: o.hand < 0.5),
    ],
    actions=[
        Action(
            "move",
            objects=("hand",),
            parameters=("dx", "dy", "dz", "grip"),
            frame=Frame(
                "hand",
                lambda hand, move: jnp.arctan2(move.dy, move.dx),
                positions=(("x", "y", "z"),),
                directions=(("dx", "dy"),),
                mirror=True,
            ),
        )
    ],
)


class Arm:
    """One PyBullet client with a hand and cubes; `build` resets it."""

    def __init__(self) -> None:
        self.p = load()
        self.client = self.p.connect(self.p.DIRECT)
        self.bodies: list[int] = []
        self.wrist = -1

    def build(self, places: np.ndarray) -> None:
        """The hand at the first place, cubes at the others."""
        p, client = self.p, self.client
        p.resetSimulation(physicsClientId=client)
        p.setGravity(0, 0, -9.81, physicsClientId=client)
        p.setPhysicsEngineParameter(fixedTimeStep=STEP, deterministicOverlappingPairs=1, physicsClientId=client)
        floor = p.createCollisionShape(p.GEOM_PLANE, physicsClientId=client)
        ground = p.createMultiBody(0, floor, physicsClientId=client)
        p.changeDynamics(ground, -1, lateralFriction=math.sqrt(FRICTION), physicsClientId=client)
        self.bodies = []
        for k, place in enumerate(places.tolist()):
            half = [(HAND if k == 0 else CUBE) / 2] * 3
            shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=half, physicsClientId=client)
            body = p.createMultiBody(1.0 if k == 0 else 0.1, shape, -1, place, physicsClientId=client)
            p.changeDynamics(body, -1, lateralFriction=math.sqrt(FRICTION), restitution=0.0, physicsClientId=client)
            self.bodies.append(body)
        self.wrist = self._hold(self.bodies[0], -1, [0.0, 0.0, 0.0], places[0].tolist(), 200.0)

    def _hold(self, parent: int, child: int, here: list[float], there: list[float], force: float) -> int:
        p, client = self.p, self.client
        kind, link = p.JOINT_FIXED, -1
        made = p.createConstraint(parent, link, child, -1, kind, [0, 0, 0], here, there, physicsClientId=client)
        p.changeConstraint(made, maxForce=force, physicsClientId=client)
        return made

    def grip(self, cube: int) -> None:
        """Hold a cube where it is, below the hand."""
        places = self.places()
        self._hold(self.bodies[0], self.bodies[cube], (places[cube] - places[0]).tolist(), [0.0, 0.0, 0.0], 30.0)

    def move(self, way: np.ndarray) -> None:
        """Lead the hand along a straight way, and wait a moment at its end."""
        start = self.places()[0]
        count = max(1, math.ceil(float(np.linalg.norm(way)) / SPEED / STEP))
        for k in range(count):
            goal = (start + way * (k + 1) / count).tolist()
            self.p.changeConstraint(self.wrist, goal, maxForce=200.0, physicsClientId=self.client)
            self.p.stepSimulation(physicsClientId=self.client)
        self.wait(0.5)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / STEP)):
            self.p.stepSimulation(physicsClientId=self.client)

    def places(self) -> np.ndarray:
        """(N, 3): where everything is, the hand first."""
        found = [self.p.getBasePositionAndOrientation(body, physicsClientId=self.client)[0] for body in self.bodies]
        return np.array(found)


@functools.cache
def _shared() -> Arm:
    return Arm()


def layout(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(places (count, 3), the hand first; parameters): the hand over a cube, to carry, or low beside it, to shove."""
    side = math.ceil(math.sqrt(1.3 * count))
    cells = rng.permutation(side * side)
    rows: list[np.ndarray] = []
    while len(rows) < count - 1:
        spot = SPACING * (np.array(divmod(int(cells[len(rows)]), side)) + rng.uniform(-0.2, 0.2, 2))
        rows.append(np.array([*spot, CUBE / 2]))
        if len(rows) < count - 1 and rng.random() < 0.35:
            rows.append(np.array([*(spot + rng.uniform(-0.008, 0.008, 2)), 1.5 * CUBE]))
    cubes = np.stack(rows)
    chosen = cubes[int(rng.integers(len(cubes)))]
    angle, far = rng.uniform(-math.pi, math.pi), rng.uniform(0.05, 0.18)
    way = far * np.array([math.cos(angle), math.sin(angle)])
    if rng.random() < 0.5:
        hand = np.array([*(chosen[:2] + rng.uniform(-0.008, 0.008, 2)), chosen[2] + (CUBE + HAND) / 2 + 0.002])
        lift, hold = rng.uniform(0.02, 0.12), float(rng.random() < 0.7)
    else:
        back = rng.uniform(0.05, 0.07) * way / far
        hand = np.array([*(chosen[:2] - back), HAND / 2 + rng.uniform(0.004, 0.015)])
        lift, hold = rng.uniform(-0.003, 0.01), float(rng.random() < 0.3)
    return np.concatenate([hand[None], cubes]), np.array([*way, lift, hold])


def execute(seed: int, index: int, count: int, repeat: int) -> Executed:
    """Build, wait, grip, move with the noise of this repeat: the first attempt whose scene stands."""
    arm = _shared()
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([seed, index, attempt])
        places, move = layout(rng, count)
        apart = np.abs(places[1:] - places[0])
        if (apart < [0.047, 0.047, 0.046]).all(axis=1).any():
            continue  # the hand would be inside a cube
        arm.build(places)
        arm.wait(0.2)
        before = arm.places()
        if np.abs(before - places).max() > 0.004:
            continue
        noise = np.random.default_rng([seed, index, attempt, 1, repeat]).normal(0.0, NOISE, 3)
        under = np.abs(before[1:] - before[0])
        held = np.flatnonzero((under[:, :2] < REACH).all(axis=1) & (under[:, 2] < (CUBE + HAND) / 2 + 0.01))
        if move[3] > 0.5 and len(held):
            arm.grip(1 + int(held[np.argmin(under[held, 2])]))
        arm.move(move[:3] + noise)
        order = rng.permutation(count)
        mark = (np.arange(count) == 0).astype(float)[:, None]
        states = [np.concatenate([one, mark], axis=1)[order] for one in (before, arm.places())]
        return Executed(states[0], states[1], (int(np.flatnonzero(order == 0)[0]),), move)
    raise DataError(f"arm: sample {index} of seed {seed}: no scene of {count} objects stood in {ATTEMPTS} attempts")


WORLD = SimulatedWorld(domain, execute, (3, 6), 5)
"""A hand among cubes."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
