"""Chain: its head is pulled, and each link follows the one before it by a little less, however long the chain is.

    x'(link k) = x + 0.85^k d + N(0, 0.006²)      k = 0 the head, k = 1 the link behind it, ...

Links further ahead and other chains stay. Chains are trained with up to four links behind the head; `links=16` asks for
longer ones: whoever gives all links one mean, or learns a number for each depth, is wrong there.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.errors import UsageError
from spare.lab.worlds.known import Drawn, Ends, KnownWorld, certain
from spare.lab.worlds.world import distance
from spare.language.domain import Action, Domain
from spare.language.frames import Frame
from spare.language.properties import Property
from spare.language.references import Reference

DECAY, NOISE, REST = 0.85, 0.006, 0.002
GAP, APART = 0.3, 1.0
"""Metres between links of a chain, and between chains."""
LONGEST = 4
"""Links behind the head in training."""


def _same(o: Any, p: Any) -> Any:
    return jnp.abs(o.y - p.y) < APART / 2


def _behind(o: Any, p: Any) -> Any:
    return jnp.where(_same(o, p) & (o.x < p.x), p.x - o.x, jnp.inf)


behind = Reference.closest("behind", _behind)

domain = Domain(
    "chain",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("mass", unit="kg", static=True),
    ],
    references=[
        behind,
        behind.closure("behind*"),
        Reference.closest("ahead", lambda o, p: _behind(p, o)),
        Reference.closest("nearest", distance),
        Reference("chain", _same),
    ],
    actions=[Action("pull", objects=("head",), parameters=("d",), frame=Frame("head", positions=(("x", "y"),)))],
)


def ends(scene: Drawn) -> Ends:
    """The head and what is behind it follow."""
    (head,), (d,), here = scene.roles, scene.parameters, scene.values[:, :2]
    mine = (np.abs(here[:, 1] - here[head, 1]) < APART / 2) & (here[:, 0] <= here[head, 0])
    follow = np.flatnonzero(mine)[np.argsort(-here[mine, 0], kind="stable")]
    after, noise = here.copy(), np.full(here.shape, REST)
    after[follow, 0] += DECAY ** np.arange(len(follow)) * d
    noise[follow] = NOISE
    return certain(after, noise)


def draw(rng: np.random.Generator, count: int, links: int | None = None) -> Drawn:
    """A chain with `links` behind its head, or up to four, and up to two ahead; the rest are other chains."""
    follow = int(rng.integers(1, LONGEST + 1)) if links is None else links
    if not 1 <= follow < count:
        raise UsageError(f"chain: {count} objects are too few for a head and {follow} links; ask for more objects")
    ahead = min(int(rng.integers(0, 3)), count - follow - 1)
    lengths = [ahead + 1 + follow]
    while sum(lengths) < count:
        lengths.append(min(int(rng.integers(1, LONGEST + 2)), count - sum(lengths)))
    lines = rng.permutation(len(lengths)) - len(lengths) // 2
    rows = []
    for line, length in zip(lines, lengths, strict=True):
        x = rng.uniform(-0.5, 0.5) - np.cumsum(GAP * rng.uniform(0.7, 1.3, length))
        rows.append(np.stack([x, APART * line + rng.uniform(-0.05, 0.05, length), rng.uniform(0.5, 2, length)], 1))
    return Drawn(np.concatenate(rows), (ahead,), np.array([rng.uniform(0.1, 0.6)]))


WORLD = KnownWorld(domain, draw, ends, (7, 11), 9)
"""Chains; `generate(..., objects=20, links=16)` for long ones."""
generate, truth, movers = WORLD.generate, WORLD.truth, WORLD.movers
