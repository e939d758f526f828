"""Three tasks in worlds whose truth is known: park a car with its trailer, load a crane, bring a chain to order.

1. `park`   the trailer must stand within 0.25 m and 0.3 rad of a place that some drive of ten steps leads to.
2. `load`   a box must hang within 5 cm of a point that takes two lifts; any box under it can be gripped, and each slips
            with another probability. Three lifts are planned, four may be made.
3. `order`  five links must lie within 4 cm of where four pulls of random links would have them. What is pulled too far
            cannot be pushed back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.data.experience import Experience
from spare.data.state import State
from spare.lab.tasks.task import KnownStep, Suite, Task
from spare.lab.tasks.truths import TrueChain, TrueCrane, TrueVehicle
from spare.lab.worlds import chain, crane, vehicle
from spare.lab.worlds.known import Drawn, KnownWorld
from spare.model.rollout import Simulator
from spare.planning.problems import Problem
from spare.planning.spaces import Actions

LINKS = 5
STEER, THROTTLE = (-0.6, 0.6), (-0.5, 1.0)
LIFT = {"dx": (-0.3, 0.3), "dy": (-0.3, 0.3), "dz": (0.1, 0.5)}


def _expected(world: KnownWorld, here: np.ndarray, row: int, parameters: np.ndarray) -> np.ndarray:
    """Values after an action that goes as expected: the first end, without noise."""
    after = here.copy()
    after[:, list(world.domain.dynamic)] = world.ends(Drawn(here, (row,), parameters)).mean[0]
    return after


def _named(first: list[str], count: int) -> tuple[str, ...]:
    return (*first, *(f"other{k}" for k in range(count - len(first))))


def draw_park(rng: np.random.Generator, objects: int) -> Task:
    """A car with a trailer among parked ones, and a place that a smooth drive leads to."""
    drawn = vehicle.draw(rng, objects)
    here, bend = drawn.values.copy(), rng.uniform(-0.5, 0.5)
    for step in range(10):
        throttle = np.clip(1.2 - math.hypot(*here[0, 2:4]), -0.5, 0.5)
        steer = np.clip(bend if step < 5 else -0.5 * bend, -0.5, 0.5)
        here = _expected(vehicle.WORLD, here, 0, np.array([steer, throttle]))
    start = State(_named(["car", "trailer"], objects), drawn.values.astype(np.float32))
    return Task(start, {"place": here[1, :2], "yaw": here[1, 4]}, KnownStep(vehicle.WORLD, start))


def _off(s: Any) -> Any:
    return jnp.hypot(s["trailer"].x - s.given["place"][0], s["trailer"].y - s.given["place"][1])


def _turned(s: Any) -> Any:
    gap = s["trailer"].yaw - s.given["yaw"]
    return jnp.abs(jnp.arctan2(jnp.sin(gap), jnp.cos(gap)))


def park(model: Simulator, given: Mapping[str, Any]) -> Problem:
    """The trailer to its place, by steering and throttle."""
    return Problem(
        model,
        Actions("drive", {"steer": STEER, "accelerate": THROTTLE}, {"car": "car"}),
        8,
        cost=lambda s: _off(s) + 0.3 * _turned(s),
        goal=lambda s: (_off(s) < 0.25) & (_turned(s) < 0.3),
        given=given,
    )


def draw_load(rng: np.random.Generator, objects: int) -> Task:
    """Stacks of boxes; the cargo is the second box from above of the first stack, or its top if that is all."""
    drawn = crane.draw(rng, objects)
    first = np.hypot(*(drawn.values[:, :2] - drawn.values[0, :2]).T) < crane.SIDE / 2
    stack = np.flatnonzero(first)[np.argsort(drawn.values[first, 2])]
    cargo = int(stack[max(len(stack) - 2, 0)])
    order = [cargo, *(k for k in range(objects) if k != cargo)]
    start = State(_named(["cargo"], objects), drawn.values[order].astype(np.float32))
    way = rng.uniform(-math.pi, math.pi)
    reach, rise = rng.uniform(0.3, 0.42), rng.uniform(0.3, 0.7)
    goal = start.values[0, :3] + [reach * math.cos(way), reach * math.sin(way), rise]
    return Task(start, {"goal": goal}, KnownStep(crane.WORLD, start))


def _missing(s: Any) -> Any:
    gap = jnp.stack([s["cargo"].x, s["cargo"].y, s["cargo"].z]) - s.given["goal"]
    return jnp.sqrt(jnp.square(gap).sum() + 1e-12)


def load(model: Simulator, given: Mapping[str, Any]) -> Problem:
    """The cargo to its point, by lifting it or a box under it."""
    under = Actions("lift", LIFT, {"load": lambda o: _under(o)})
    return Problem(model, under, 3, cost=_missing, goal=lambda s: _missing(s) < 0.05, samples=10, given=given)


def _under(o: Any) -> Any:
    """Row 0 is the cargo; whoever is in its place and not above it."""
    return (jnp.hypot(o.x - o.x[0], o.y - o.y[0]) < crane.SIDE / 2 + 0.02) & (o.z <= o.z[0] + 1e-3)


def draw_order(rng: np.random.Generator, objects: int) -> Task:
    """A chain of five links and another one; targets are where four pulls would lead."""
    gaps = np.cumsum(chain.GAP * rng.uniform(0.7, 1.3, objects))
    rows = np.zeros((objects, 3))
    rows[:, 0] = rng.uniform(-0.5, 0.5) - gaps + np.where(np.arange(objects) < LINKS, 0.0, gaps[LINKS - 1])
    rows[:, 1] = np.where(np.arange(objects) < LINKS, 0.0, chain.APART) + rng.uniform(-0.05, 0.05, objects)
    rows[:, 2] = rng.uniform(0.5, 2, objects)
    here = rows.copy()
    for link in sorted(rng.integers(0, LINKS, 4).tolist()):
        here = _expected(chain.WORLD, here, link, np.array([rng.uniform(0.12, 0.3)]))
    start = State(_named([f"link{k}" for k in range(LINKS)], objects), rows.astype(np.float32))
    return Task(start, {"target": here[:LINKS, 0]}, KnownStep(chain.WORLD, start))


def _gaps(s: Any) -> Any:
    return jnp.abs(jnp.stack([s[f"link{k}"].x for k in range(LINKS)]) - s.given["target"])


def order(model: Simulator, given: Mapping[str, Any]) -> Problem:
    """Every link to its place, by pulling one after another."""
    return Problem(
        model,
        Actions("pull", {"d": (0.1, 0.6)}, {"head": [f"link{k}" for k in range(LINKS)]}),
        4,
        cost=lambda s: _gaps(s).mean(),
        final=lambda s: 4 * _gaps(s).max(),
        goal=lambda s: _gaps(s).max() < 0.04,
        given=given,
    )


def _generate(world: KnownWorld, objects: int) -> Any:
    def generate(samples: int, seed: int) -> Experience:
        return world.generate(samples, seed, objects=objects)

    return generate


PARK = Suite("park", 11, vehicle.domain, draw_park, park, _generate(vehicle.WORLD, 6), TrueVehicle, 14, 6)
LOAD = Suite("load", 12, crane.domain, draw_load, load, _generate(crane.WORLD, 7), TrueCrane, 4, 7)
ORDER = Suite("order", 13, chain.domain, draw_order, order, _generate(chain.WORLD, 8), TrueChain, 7, 8)
