"""Three small worlds that differ in kind from pushing blocks, and from each other: for experiments, and to copy from.

tray        a tray is slid; what stands on it goes along, and some of it slips
billiards   a ball is struck at another; it hits or misses, and what is hit rolls
flights     a flight is held; its aircraft's next flights and its connections wait, or do not
"""

from __future__ import annotations

from spare.lab.worlds import billiards, flights, tray
from spare.lab.worlds.world import World

WORLDS: dict[str, World] = {one.name: one for one in (tray.WORLD, billiards.WORLD, flights.WORLD)}
"""The worlds by name."""

__all__ = ["WORLDS", "World"]
