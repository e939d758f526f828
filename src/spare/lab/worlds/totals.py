"""The Block world of object-oriented causal dynamics models (ICML 2024): blocks, and one object that sums them up.

    block   x1' = x1 - 0.2 u + e,   x2' = 0.5 x1 + x2 + e,   x3' = 0.25 x2 + 0.75 x3 + u + e     u = tanh(a)
    total   xi' = 0.5 xi + 0.5 max over blocks of xi,        t' = t + 1 + e                       e ~ N(0, 0.01²)

Every block has its own a ~ N(0, 1), a property that is drawn anew at every step. A third of all values has no noise.
"""

from __future__ import annotations

import math

import numpy as np

from spare.arguments import check_seed, check_whole
from spare.data.experience import Experience
from spare.language.actions import Action
from spare.language.domain import Domain
from spare.language.properties import Property
from spare.language.references import Reference
from spare.language.stored import OfType
from spare.language.types import Type

NOISE = 0.01
FLOOR = 1e-5
"""The least deviation of the published densities."""
_STATE = [Property(f"x{k}", resolution=1e-3) for k in (1, 2, 3)]
domain = Domain(
    "totals",
    types=[
        Type("block", [*_STATE, Property("a", static=True)]),
        Type("total", [*_STATE, Property("t", resolution=1e-3)]),
    ],
    references=[Reference("blocks", OfType("block"), aggregator=("max", "mean"))],
    actions=[Action("step")],
)
_COLUMNS = [domain.property_names.index(name) for name in ("x1", "x2", "x3", "a", "t", "type")]


def step(blocks: np.ndarray, total: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected next (k, 3) and (4,) of blocks (k, 3) and the total (4,), of actions (k,)."""
    x1, x2, x3 = blocks.T
    u = np.tanh(a)
    after = np.stack([x1 - 0.2 * u, 0.5 * x1 + x2, 0.25 * x2 + 0.75 * x3 + u], axis=1)
    return after, np.concatenate([0.5 * total[:3] + 0.5 * blocks.max(axis=0), total[3:] + 1.0])


def generate(samples: int, seed: int, *, blocks: int = 5, away: bool = False, steps: int = 30) -> Experience:
    """Episodes of `steps` steps with this many blocks; `away`: from starts out of distribution."""
    check_whole("samples", samples, 1)
    rng = np.random.default_rng(check_seed(seed))
    mean, spread = ((0, 1, 0), (1, 2, 2)) if away else ((1, 0, 0), (1, 1, 1))
    values = np.zeros((2, samples, blocks + 1, len(domain.properties)))
    values[..., _COLUMNS[5]] = domain.types.index("block")
    values[..., blocks, _COLUMNS[5]] = domain.types.index("total")
    here, total = np.zeros((blocks, 3)), np.zeros(4)
    for i in range(samples):
        if i % steps == 0:
            here, total = rng.normal(mean, spread, (blocks, 3)), np.zeros(4)
        a = rng.normal(size=blocks)
        after, late = step(here, total, a)
        after = after + NOISE * rng.normal(size=after.shape)
        late = np.concatenate([late[:3], late[3:] + NOISE * rng.normal(size=1)])
        for side, (first, second) in enumerate(((here, total), (after, late))):
            values[side, i, :blocks, _COLUMNS[:3]] = first.T
            values[side, i, :blocks, _COLUMNS[3]] = a
            values[side, i, blocks, [*_COLUMNS[:3], _COLUMNS[4]]] = second
        here, total = after, late
    flat = values.reshape(2, -1, len(domain.properties))
    return Experience.from_arrays(
        domain,
        values=flat[0],
        next_values=flat[1],
        offsets=np.arange(0, samples * (blocks + 1) + 1, blocks + 1),
        action=np.zeros(samples, int),
        objects=np.zeros((samples, 0), int),
        info={"episode": np.arange(samples) // steps, "time": np.arange(samples) % steps},
        metadata={"seed": seed},
        precise=True,
    )


def true_score(floor: float = FLOOR) -> float:
    """Expected log density per instance (AILL) of the true model with this least deviation: 4 values noisy, 3 exact."""
    noisy = -math.log(max(NOISE, floor)) - 0.5 * math.log(2 * math.pi) - 0.5 * min(1.0, (NOISE / floor) ** 2)
    return 4 * noisy + 3 * (-math.log(floor) - 0.5 * math.log(2 * math.pi))
