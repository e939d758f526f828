"""Flights: one is held for some minutes; its aircraft's next flights and its connections wait, or do not.

    in'(f)  = max(0, out'(f) - PADDING (arrives - departs))             time is made good on the way
    out'(n) = max(out(n), arrives(f) + in'(f) + TURN - departs(n))      the aircraft's next flight n
    out'(c) = max(out(c), arrives(f) + in'(f) + TRANSFER - departs(c))  a connection c, if it then waits for at most
                                                                        PATIENCE minutes more; else out(c)

where out and in are the delays, in minutes, at departure and arrival that are now expected, and c is a connection: a
flight of another aircraft that leaves where f lands, 30 to 75 minutes later by the timetable. So slack ends the chain,
and a connection that would have to wait too long leaves on time. Noise: every hold, turn-round and flight of those
affected. Numbers of aircraft and airports are names: they mean nothing beyond being equal.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.lab.worlds.world import Outcome, Scene, World
from spare.language.domain import Action, Domain
from spare.language.properties import Property
from spare.language.references import Reference

PADDING, TURN, TRANSFER, PATIENCE = 0.08, 30.0, 25.0, 15.0
WINDOW = (30.0, 75.0)
"""Minutes between arrival and departure, by the timetable, of a connection."""
HELD, TURNED, FLOWN, MEASURED = 3.0, 3.0, 4.0, 1.0
"""Noise in minutes: of the hold, of a turn-round, of a flight, of every delay that is reported."""
HUB, SPOKES = 0, 5


def _connects(o: Any, p: Any) -> Any:
    """f(o, p): o leaves where p lands, with another aircraft, soon enough and late enough."""
    gap = o.departs - p.arrives
    meets = (o.origin == p.destination) & (o.aircraft != p.aircraft)
    return meets & (gap >= WINDOW[0]) & (gap <= WINDOW[1])


def _wait(o: Any, p: Any) -> Any:
    """Minutes from p's departure to o's, for later flights of the same aircraft."""
    return jnp.where((o.aircraft == p.aircraft) & (o.departs > p.departs), o.departs - p.departs, jnp.inf)


following = Reference.closest("next", _wait)

domain = Domain(
    "flights",
    properties=[
        Property("out", unit="min", resolution=1.0),
        Property("in", unit="min", resolution=1.0),
        Property("departs", unit="min", static=True),
        Property("arrives", unit="min", static=True),
        Property("aircraft", static=True),
        Property("origin", static=True),
        Property("destination", static=True),
    ],
    references=[
        following,
        Reference("later", lambda o, p: (o.aircraft == p.aircraft) & (o.departs > p.departs)),
        Reference.closest("previous", lambda o, p: _wait(p, o)),
        Reference("connections", _connects),
        Reference.closest("meanwhile", lambda o, p: jnp.abs(o.departs - p.departs)),
        Reference("same-route", lambda o, p: (o.origin == p.origin) & (o.destination == p.destination)),
    ],
    actions=[Action("hold", objects=("flight",), parameters=("minutes",))],
)


def propagate(values: np.ndarray, first: int, minutes: float, noise: np.ndarray) -> np.ndarray:
    """(N, 2) delays out and in after flight `first` is held; noise (N, 2) is added to each turn-round and flight."""
    out, late, departs, arrives, aircraft, origin, destination = values.T.copy()
    affected, order = np.zeros(len(values), bool), np.argsort(departs, kind="stable")
    out[first] += max(0.0, minutes + noise[first, 0])
    for f in order[np.flatnonzero(order == first)[0] :]:
        if f != first and not affected[f]:
            continue
        late[f] = max(0.0, out[f] - PADDING * (arrives[f] - departs[f]) + noise[f, 1])
        ready, gap = arrives[f] + late[f] - departs, departs - arrives[f]
        later = np.flatnonzero((aircraft == aircraft[f]) & (departs > departs[f]))
        for n in later[np.argsort(departs[later])][:1]:
            needed = ready[n] + TURN + noise[n, 0]
            affected[n] |= needed > out[n]
            out[n] = max(out[n], needed)
        meets = (origin == destination[f]) & (aircraft != aircraft[f]) & (gap >= WINDOW[0]) & (gap <= WINDOW[1])
        for c in np.flatnonzero(meets):
            needed = ready[c] + TRANSFER
            if out[c] < needed <= out[c] + PATIENCE:
                out[c], affected[c] = needed, True
    return np.stack([out, late], axis=1)


def execute(scene: Scene, rng: np.random.Generator) -> Outcome:
    """What a hold leads to, before it is reported."""
    (first,), (minutes,) = scene.roles, scene.parameters
    noise = rng.standard_normal((len(scene.values), 2)) * [TURNED, FLOWN]
    noise[first, 0] *= HELD / TURNED
    after = scene.values.copy()
    after[:, :2] = propagate(scene.values, first, float(minutes), noise)
    moved = (after != scene.values).any(axis=1)
    moved[first] = True
    return Outcome(after, moved)


def draw(rng: np.random.Generator, count: int) -> Scene:
    """A day's timetable: aircraft shuttle between the hub and other airports; one flight in four is late by now."""
    rows: list[list[float]] = []
    aircraft = 0
    while len(rows) < count:
        aircraft, at = aircraft + 1, HUB if rng.random() < 0.5 else int(rng.integers(1, SPOKES + 1))
        clock = rng.uniform(360, 660)
        for _ in range(min(int(rng.integers(2, 5)), count - len(rows))):
            to = HUB if at != HUB else int(rng.integers(1, SPOKES + 1))
            arrives = clock + rng.uniform(50, 110)
            rows.append([0.0, 0.0, clock, arrives, aircraft, at, to])
            clock, at = arrives + TURN + rng.uniform(0, 45), to
    values = np.array(rows)
    values[:, 4] = rng.permutation(aircraft)[values[:, 4].astype(int) - 1]
    for f in np.argsort(values[:, 2], kind="stable"):
        if rng.random() < 0.25:
            values[:, :2] = propagate(values, int(f), rng.exponential(15.0), np.zeros((count, 2)))
    return Scene(values, (int(rng.integers(count)),), np.array([rng.uniform(10, 90)]))


WORLD = World(domain, draw, execute, MEASURED, (10, 20), 14)
"""Flights, 10 to 20 of them; 14 where a fixed number is needed."""
generate, moved = WORLD.generate, WORLD.moved
