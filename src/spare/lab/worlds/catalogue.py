"""All worlds by name: three that are executed, thirteen whose true density is written down, two in a simulator.

`WORLDS`: for experiments, and to copy from

tray        a tray is slid; what stands on it goes along, and some of it slips
billiards   a ball is struck at another; it hits or misses, and what is hit rolls
flights     a flight is held; its aircraft's next flights and its connections wait, or do not

`KNOWN`: each asks one thing of a learner (`spare bench worlds`)

crane       the whole stack comes along, or slips: two joint modes         corrupted   1 % of records are wrong
kinds       what is pushed is a ball, a box or a wall; nothing shows it    tails       Student's t
wind        everything drifts                                              gate        two things must be present
drag        everything moves by its own velocity and mass                  masses      each member by its own mass
chain       an effect that decays along a chain of any length              rare        usually nothing happens
vehicle     angles, velocities, a trailer                                  charges     everything moves, by distance
swap        two roles, and what lies between them

`SIMULATED`: in PyBullet, where only repeats tell what is possible (`spare bench worlds`, too)

table       a push in clutter; blocks hit each other, stacks topple        arm         a hand carries and shoves cubes
"""

from __future__ import annotations

from spare.lab.worlds import (
    arm,
    billiards,
    chain,
    charges,
    corrupted,
    crane,
    drag,
    flights,
    gate,
    kinds,
    masses,
    rare,
    swap,
    table,
    tails,
    tray,
    vehicle,
    wind,
)
from spare.lab.worlds.known import KnownWorld
from spare.lab.worlds.simulated import SimulatedWorld
from spare.lab.worlds.world import World

WORLDS: dict[str, World] = {one.name: one for one in (tray.WORLD, billiards.WORLD, flights.WORLD)}
"""The worlds that are executed, by name."""

_KNOWN = (crane, kinds, wind, drag, chain, vehicle, swap, corrupted, tails, gate, masses, rare, charges)
KNOWN: dict[str, KnownWorld] = {one.WORLD.name: one.WORLD for one in _KNOWN}
"""The worlds with a known density, by name."""

_SIMULATED = (table, arm)
SIMULATED: dict[str, SimulatedWorld] = {one.WORLD.name: one.WORLD for one in _SIMULATED}
"""The worlds in a simulator, by name."""

BENCH: dict[str, KnownWorld | SimulatedWorld] = {**KNOWN, **SIMULATED}
"""The worlds of `spare bench worlds`."""
ABOUT = {one.WORLD.name: str(one.__doc__).splitlines()[0] for one in (*_KNOWN, *_SIMULATED)}
"""What each of them is about, in a sentence."""

__all__ = ["ABOUT", "BENCH", "KNOWN", "SIMULATED", "WORLDS", "KnownWorld", "SimulatedWorld", "World"]
