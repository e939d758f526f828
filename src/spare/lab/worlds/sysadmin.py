"""SysAdmin, of the planning competitions (RDDL): computers fail, the more so the fewer of their neighbours run.

P(running' = 1) = 1                                                      if it is rebooted
                  0.45 + 0.5 (1 + running in-neighbours) / (1 + in-neighbours)   if it runs
                  0.05                                                   otherwise
"""

from __future__ import annotations

import numpy as np

from spare.arguments import check_seed, check_whole
from spare.data.experience import Experience
from spare.language.actions import Action
from spare.language.discrete import Boolean
from spare.language.domain import Domain
from spare.language.properties import Property
from spare.language.types import Edges

REBOOTS = 0.05
domain = Domain(
    "sysadmin",
    properties=[Property("running", kind=Boolean())],
    relations=[Edges("connected", static=True)],
    actions=[Action("reboot", objects=("computer",)), Action("wait")],
)


def network(rng: np.random.Generator, count: int) -> np.ndarray:
    """Connections (E, 2): every computer is connected to one to three others."""
    pairs = [
        (k, int(j)) for k in range(count) for j in rng.choice(count, int(rng.integers(1, 4)), replace=False) if j != k
    ]
    return np.array(sorted({*pairs}), np.int64).reshape(-1, 2)


def probabilities(running: np.ndarray, pairs: np.ndarray, rebooted: int = -1) -> np.ndarray:
    """P(running' = 1) of every computer (N,), given who runs (N,), connections (E, 2), and who is rebooted."""
    into = np.bincount(pairs[:, 1], minlength=len(running))
    up = np.bincount(pairs[:, 1], running[pairs[:, 0]].astype(float), minlength=len(running))
    chance = np.where(running > 0, 0.45 + 0.5 * (1 + up) / (1 + into), REBOOTS)
    if rebooted >= 0:
        chance[rebooted] = 1.0
    return chance


def true_probabilities(data: Experience) -> np.ndarray:
    """P(running' = 1) of every object row."""
    found = np.zeros(len(data.values))
    for i in range(len(data)):
        rows = slice(data.offsets[i], data.offsets[i + 1])
        pairs = np.stack([*data.pairs["connected"].at(i).values()], axis=1)
        rebooted = int(data.objects[i, 0]) if data.action[i] == 0 else -1
        found[rows] = probabilities(data.values[rows, 0], pairs, rebooted)
    return found


def generate(samples: int, seed: int, *, computers: int = 10, steps: int = 40, networks: int = 1) -> Experience:
    """Random steps, `steps` in each episode, on `networks` networks; a reboot in half of them."""
    check_whole("samples", samples, 1)
    rng = np.random.default_rng(check_seed(seed))
    nets = [network(rng, computers) for _ in range(networks)]
    rows: list[tuple[np.ndarray, np.ndarray, int, np.ndarray]] = []
    running, pairs = np.ones(computers), nets[0]
    for i in range(samples):
        if i % steps == 0:
            running, pairs = np.ones(computers), nets[int(rng.integers(networks))]
        rebooted = int(rng.integers(computers)) if rng.random() < 0.5 else -1
        following = (rng.random(computers) < probabilities(running, pairs, rebooted)).astype(float)
        rows.append((running, following, rebooted, pairs))
        running = following
    before, after, acted, used = zip(*rows, strict=True)
    chosen = np.array(acted)
    return Experience.from_arrays(
        domain,
        values=np.concatenate(before)[:, None],
        next_values=np.concatenate(after)[:, None],
        offsets=np.arange(0, computers * samples + 1, computers),
        action=np.where(chosen < 0, 1, 0),
        objects=np.maximum(chosen, 0)[:, None],
        pairs={
            "connected": {
                "offsets": np.cumsum([0, *map(len, used)]),
                "source": np.concatenate(used)[:, 0],
                "target": np.concatenate(used)[:, 1],
            }
        },
        info={"episode": np.arange(samples) // steps, "time": np.arange(samples) % steps},
        metadata={"seed": seed},
    )
