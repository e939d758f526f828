"""The Mouse world of object-oriented causal dynamics models (ICML 2024): a grid of 8 x 8 with food, monsters and traps.

From the state before, of what is on the mouse's cell:

    position  stays if a trap with duration > 0 is there, else moves, within the grid
    hunger'   min(100, max(0, hunger - 2) + amounts of the food there)          (much is good)
    health'   min(10, health - 5 monsters - [hunger < 25] + [hunger >= 75])
    duration' max(duration - 1, 0) of traps there          amount'  0 of food there, else amount + N(1, 0.1²), 0 to 50
    monsters move at random within the grid; their noise drifts by N(0, 0.1²) and means nothing

Food starts with U(0, 30) + c x, c ~ U(2, 4) once in an episode; `away`: with its y instead, so that what goes with a
place in training does not elsewhere.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from spare.arguments import check_seed, check_whole
from spare.data.experience import Experience
from spare.language.actions import Action
from spare.language.discrete import Categorical, Integer
from spare.language.domain import Domain
from spare.language.kinds import Real
from spare.language.properties import Property
from spare.language.references import Reference
from spare.language.types import Parameter, Type

SIZE, MOST = 8, 50.0
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
_PLACE = [Property(name, kind=Integer(0, SIZE - 1)) for name in ("x", "y")]
domain = Domain(
    "mouse",
    types=[
        Type(
            "mouse",
            [*_PLACE, Property("health", resolution=1e-3), Property("hunger", kind=Real(0, 100), resolution=1e-3)],
        ),
        Type("food", [*_PLACE, Property("amount", kind=Real(low=0), resolution=1e-3)]),
        Type("monster", [*_PLACE, *(Property(f"n{k}", resolution=1e-3) for k in (1, 2, 3))]),
        Type("trap", [*_PLACE, Property("duration", kind=Integer(0))]),
    ],
    references=[Reference("here", lambda o, p: (o.x == p.x) & (o.y == p.y), aggregator=("count", "sum"))],
    actions=[
        Action(
            "move",
            objects={"mouse": "mouse"},
            parameters=(Parameter("way", Categorical(["stay", "left", "right", "down", "up"])),),
        )
    ],
)
_AT = {name: k for k, name in enumerate(domain.property_names)}
MOUSE, FOOD, MONSTER, TRAP = range(4)


def start(rng: np.random.Generator, counts: tuple[int, int, int], *, away: bool = False) -> np.ndarray:
    """Values (1 + food + monsters + traps, P) of a first state."""
    types = np.repeat([MOUSE, FOOD, MONSTER, TRAP], [1, *counts])
    state = np.zeros((len(types), len(domain.properties)))
    state[:, _AT["type"]] = types
    state[:, [_AT["x"], _AT["y"]]] = rng.integers(0, SIZE, (len(types), 2))
    state[0, _AT["health"]], state[0, _AT["hunger"]] = 10, rng.uniform(40, 60)
    along = state[types == FOOD, _AT["y" if away else "x"]]
    state[types == FOOD, _AT["amount"]] = rng.uniform(0, 30, counts[0]) + rng.uniform(2, 4) * along
    noise = rng.normal(0, 3 if away else 1, (counts[1], 3))
    state[np.ix_(types == MONSTER, [_AT["n1"], _AT["n2"], _AT["n3"]])] = noise
    state[types == TRAP, _AT["duration"]] = rng.integers(1, 5, counts[2])
    return state


def step(rng: np.random.Generator, state: np.ndarray, way: int) -> np.ndarray:
    """A next state."""
    after, types = state.copy(), state[:, _AT["type"]]
    there = (state[:, _AT["x"]] == state[0, _AT["x"]]) & (state[:, _AT["y"]] == state[0, _AT["y"]])
    food, monster, trap = ((types == kind) & there for kind in (FOOD, MONSTER, TRAP))
    place = [_AT["x"], _AT["y"]]
    if not (trap & (state[:, _AT["duration"]] > 0)).any():
        after[0, place] = np.clip(state[0, place] + MOVES[way], 0, SIZE - 1)
    hunger = state[0, _AT["hunger"]]
    after[0, _AT["hunger"]] = min(100.0, max(0.0, hunger - 2) + state[food, _AT["amount"]].sum())
    after[0, _AT["health"]] = min(10.0, state[0, _AT["health"]] - 5 * monster.sum() - (hunger < 25) + (hunger >= 75))
    after[trap, _AT["duration"]] = np.maximum(state[trap, _AT["duration"]] - 1, 0)
    movers = np.flatnonzero(types == MONSTER)
    moves, rows = MOVES[rng.integers(0, 5, len(movers))], movers[:, None]
    after[rows, place] = np.clip(state[rows, place] + moves, 0, SIZE - 1)
    after[rows, [_AT["n1"], _AT["n2"], _AT["n3"]]] += rng.normal(0, 0.1, (len(movers), 3))
    grown = state[types == FOOD, _AT["amount"]] + rng.normal(1, 0.1, int((types == FOOD).sum()))
    after[types == FOOD, _AT["amount"]] = np.clip(np.where(food[types == FOOD], 0.0, grown), 0, MOST)
    return after


def generate(
    samples: int,
    seed: int,
    *,
    counts: tuple[int, int, int] | list[tuple[int, int, int]] = (4, 4, 4),
    away: bool = False,
    steps: int = 300,
) -> Experience:
    """Random moves; an episode ends when the mouse dies. With a list of counts, one is drawn for each episode."""
    check_whole("samples", samples, 1)
    rng, every = np.random.default_rng(check_seed(seed)), counts if isinstance(counts, list) else [counts]
    rows: list[tuple[np.ndarray, np.ndarray, int, int, int]] = []
    state, left, number = np.zeros((0, len(domain.properties))), 0, -1
    for _ in range(samples):
        if left == 0 or state[0, _AT["health"]] <= 0:
            state, left, number = start(rng, every[int(rng.integers(len(every)))], away=away), steps, number + 1
        way = int(rng.integers(5))
        following = step(rng, state, way)
        rows.append((state, following, way, number, steps - left))
        state, left = following, left - 1
    before, after, ways, episode, time = zip(*rows, strict=True)
    return Experience.from_arrays(
        domain,
        values=np.concatenate(before),
        next_values=np.concatenate(after),
        offsets=np.cumsum([0, *map(len, before)]),
        action=np.zeros(samples, int),
        objects=np.zeros((samples, 1), int),
        parameters=np.array(ways, float)[:, None],
        info={"episode": np.array(episode), "time": np.array(time)},
        metadata={"seed": seed},
        precise=True,
    )


def tasks(*, seen: bool) -> list[tuple[int, int, int]]:
    """The 47 counts of food, monsters and traps of training, or the 53 others, by a congruential generator."""
    found, x = [], 12345
    for food in range(3, 7):
        for monsters in range(1, 6):
            for traps in range(1, 6):
                x = (22695477 * x + 1) % 2**32
                if (x / 2**32 < 0.5) == seen:
                    found.append((food, monsters, traps))
    return found


def expected(data: Experience) -> tuple[np.ndarray, np.ndarray]:
    """(mean, deviation) of every next value (total, P), matched in both moments; 0 where nothing is random."""
    mean, spread = data.next_values.astype(np.float64).copy(), np.zeros(data.values.shape)
    types, before = data.types, data.values.astype(np.float64)
    mice = data.offsets[:-1][data.owner]
    there = (before[:, _AT["x"]] == before[mice, _AT["x"]]) & (before[:, _AT["y"]] == before[mice, _AT["y"]])
    monsters = types == MONSTER
    for axis in ("x", "y"):
        here = before[monsters, _AT[axis]]
        low, high = here == 0, here == SIZE - 1
        mean[monsters, _AT[axis]] = here + 0.2 * low - 0.2 * high
        spread[monsters, _AT[axis]] = np.sqrt(np.where(low | high, 0.16, 0.4))
    for name in ("n1", "n2", "n3"):
        mean[monsters, _AT[name]], spread[monsters, _AT[name]] = before[monsters, _AT[name]], 0.1
    free = (types == FOOD) & ~there
    mean[free, _AT["amount"]], spread[free, _AT["amount"]] = _clipped(before[free, _AT["amount"]] + 1.0, 0.1)
    return mean, spread


def _clipped(mean: np.ndarray, deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of min(V, 50), V ~ N(mean, deviation²)."""
    z = (MOST - mean) / deviation
    below, edge = norm.cdf(z), norm.pdf(z)
    first = mean * below - deviation * edge + MOST * (1 - below)
    second = (mean**2 + deviation**2) * below - deviation * (mean + MOST) * edge + MOST**2 * (1 - below)
    return first, np.sqrt(np.maximum(second - first**2, 0.0))


def score(data: Experience, mean: np.ndarray, spread: np.ndarray, floor: float = 1e-5) -> float:
    """AILL: for each type the mean over its objects of the log density of all their properties, summed over types."""
    spread = np.maximum(spread, floor)
    log = norm.logpdf(data.next_values.astype(np.float64), mean, spread)
    held = data.held & ~np.array([p.static for p in domain.properties])
    each = np.where(held, log, 0.0).sum(axis=1)
    return float(sum(each[data.types == kind].mean() for kind in range(len(domain.types))))
