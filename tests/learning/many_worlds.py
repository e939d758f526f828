"""Worlds with several true rules for one action: who is near decides which of them acts.

A more specific rule acts where it applies, as in `Model`; a shorter one applies there too but does not act, so that
applicability overlaps. Each rule has its own lists, dynamics and share of the data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

import spare
from spare.language.references import Pointer, Shell
from spare.learning.bindings import Bindings
from tests.rules import make_rule

NOISE, REST = 0.02, 0.004
REACH, ASIDE = 1.0, 0.6


def _to_the(side: int) -> Any:
    def away(o: Any, p: Any) -> Any:
        gap = side * (o.x - p.x)
        return jnp.where((gap > 0) & (gap < REACH) & (jnp.abs(o.y - p.y) < ASIDE), gap, jnp.inf)

    return away


def _distance(o: Any, p: Any) -> Any:
    return jnp.hypot(o.x - p.x, o.y - p.y)


domain = spare.Domain(
    "crowd",
    properties=[
        spare.Property("x", resolution=1e-3),
        spare.Property("y", resolution=1e-3),
        spare.Property("w", static=True),
    ],
    references=[
        spare.Reference.closest("right", _to_the(1)),
        spare.Reference.closest("left", _to_the(-1)),
        spare.Reference.closest("nearest", _distance),
        spare.Reference("above", lambda o, p: o.y > p.y + 1.0),
    ],
    actions=[spare.Action("poke", ("target",), ("d",))],
)


@dataclasses.dataclass(frozen=True)
class Act:
    """One true rule: its lists, by how much of d each slot moves in x and y, and its share of the data."""

    shell: Shell
    moves: tuple[tuple[float, float], ...]
    share: float

    def rule(self) -> spare.Rule:
        """The density it draws from."""
        slots = self.shell.slots
        weight = np.zeros((1 + 3 * slots, 2 * slots))
        weight[0] = np.array(self.moves).ravel()
        variance = jnp.full((slots, 2), NOISE**2 - 1e-6)
        predictor = spare.linear_predictor(jnp.asarray(weight, jnp.float32), jnp.zeros(2 * slots), variance)
        rest = jnp.full(2, REST**2 - 1e-6)
        return make_rule(domain, "poke", self.shell, predictor, rest, targets="change")


def _shell(*pointers: tuple[str, int]) -> Shell:
    return Shell(1, tuple(Pointer(name, (slot,)) for name, slot in pointers))


ALONE = Act(_shell(), ((1.0, 0.0),), 0.4)
PAIR = Act(_shell(("right", 0)), ((0.2, 0.5), (0.9, 0.0)), 0.6)
WORLDS: dict[str, tuple[Act, ...]] = {
    "two": (ALONE, PAIR),
    "three": (
        dataclasses.replace(ALONE, share=0.25),
        dataclasses.replace(PAIR, share=0.3),
        Act(_shell(("right", 0), ("right", 1)), ((-0.5, 0.4), (0.4, -0.6), (0.8, 0.7)), 0.45),
    ),
    "fork": (
        dataclasses.replace(ALONE, share=0.3),
        dataclasses.replace(PAIR, share=0.4),
        Act(_shell(("left", 0)), ((-0.4, -0.4), (-0.9, 0.3)), 0.3),
    ),
}


def true_model(acts: Sequence[Act]) -> spare.Model:
    """The model that `generate` draws from."""
    return spare.Model(domain, [act.rule() for act in acts], jnp.full(2, REST**2 - 1e-6))


def generate(acts: Sequence[Act], samples: int, seed: int) -> tuple[spare.Experience, np.ndarray]:
    """Transitions and the number of the rule that made each, in random order."""
    rng = np.random.default_rng([seed, 77])
    wanted = np.round(samples * np.array([act.share for act in acts])).astype(int)
    found: list[list[spare.Experience]] = [[] for _ in acts]
    while min(have := [sum(map(len, parts)) for parts in found], default=0) < 1 or np.any(np.array(have) < wanted):
        scenes = _scenes(2000, rng)
        label = _who_acts(acts, scenes)
        for k, parts in enumerate(found):
            parts.append(scenes[np.flatnonzero(label == k)[: max(0, wanted[k] - have[k])]])
    moved = [_moved(spare.concatenate(parts), act, rng) for parts, act in zip(found, acts, strict=True)]
    labels = np.repeat(np.arange(len(acts)), [len(part) for part in moved])
    order = rng.permutation(len(labels))
    return spare.concatenate(moved)[order], labels[order]


def _who_acts(acts: Sequence[Act], scenes: spare.Experience) -> np.ndarray:
    """The most specific rule that applies, -1 where two of them do or where an object is in two slots."""
    bindings = Bindings(scenes, "poke")
    masks = [bindings.masks(act.shell) for act in acts]
    applies = np.stack([(bindings.held(one) > 0).all(axis=0) for one in masks])
    length = np.where(applies, np.array([[len(act.shell)] for act in acts]), -1)
    most = length.max(axis=0)
    label = np.where((length == most).sum(axis=0) == 1, length.argmax(axis=0), -1)
    for k, one in enumerate(masks):
        twice = np.add.reduceat(one.sum(axis=0) > 1, scenes.offsets[:-1]) > 0
        label[(label == k) & twice] = -1
    return label


def _scenes(count: int, rng: np.random.Generator) -> spare.Experience:
    counts = rng.integers(5, 9, count)
    total = int(counts.sum())
    values = np.column_stack([rng.uniform(-2, 2, (total, 2)), rng.uniform(0.5, 2, total)]).astype(np.float32)
    return spare.Experience.from_arrays(
        domain,
        values=values,
        next_values=values,
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        action=np.zeros(count, np.int64),
        objects=np.array([[rng.integers(n)] for n in counts]),
        parameters=rng.uniform(0.4, 1.0, (count, 1)),
    )


def _moved(data: spare.Experience, act: Act, rng: np.random.Generator) -> spare.Experience:
    masks = Bindings(data, "poke").masks(act.shell)
    owner = np.repeat(np.arange(len(data)), data.counts)
    after = data.values.astype(np.float64)
    after[:, :2] += REST * rng.standard_normal((len(after), 2))
    for mask, move in zip(masks, act.moves, strict=True):
        noise = NOISE * rng.standard_normal((int(mask.sum()), 2))
        force = data.parameters[owner[mask], :1].astype(np.float64)
        after[mask, :2] = data.values[mask, :2] + force * np.array(move) + noise
    return dataclasses.replace(data, next_values=after.astype(np.float32))
