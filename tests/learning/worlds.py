"""Small relational worlds whose true rule is known, fixed ones and random ones.

Objects have a place (x, y) and a weight that never changes. An action with parameter d moves whoever is in the true
slots, each slot by its own multiple of d (times the mean weight in the `driver` slot, if there is one), and everyone
else rests. Scenes are drawn until every true slot holds someone and no object is in two slots.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import jax.numpy as jnp
import numpy as np

import spare
from spare.lab.worlds import queue as toy
from spare.language.references import Pointer, Shell
from spare.learning.bindings import Bindings
from spare.learning.fit import FitResult
from spare.learning.history import SearchResult

NOISE, REST = 0.02, 0.004


def _distance(o: Any, p: Any) -> Any:
    return jnp.hypot(o.x - p.x, o.y - p.y)


def _right(o: Any, p: Any) -> Any:
    return jnp.where(o.x > p.x, o.x - p.x, jnp.inf)


def _below(o: Any, p: Any) -> Any:
    return jnp.where(o.y < p.y, p.y - o.y, jnp.inf)


def _heavier(o: Any, p: Any) -> Any:
    return jnp.where(o.w > p.w, o.w - p.w, jnp.inf)


def _off_middle(o: Any, p: Any, q: Any) -> Any:
    return jnp.hypot(o.x - (p.x + q.x) / 2, o.y - (p.y + q.y) / 2)


POOL = {
    "nearest": spare.Reference.closest("nearest", _distance),
    "farthest": spare.Reference.farthest("farthest", _distance),
    "right": spare.Reference.closest("right", _right),
    "below": spare.Reference.closest("below", _below),
    "heavier": spare.Reference.closest("heavier", _heavier),
    "around": spare.Reference("around", lambda o, p: _distance(o, p) < 1.2),
    "above": spare.Reference("above", lambda o, p: o.y > p.y, aggregator=("mean", "count")),
    "middle": spare.Reference.closest("middle", _off_middle),
}


@dataclasses.dataclass(frozen=True)
class Truth:
    """What one action really does: whom its slots hold, and by how much of d each of them moves in x and y."""

    shell: Shell
    moves: tuple[tuple[float, float], ...]
    driver: int | None = None


@dataclasses.dataclass(frozen=True)
class World:
    """A domain with one truth per action template."""

    name: str
    domain: spare.Domain
    truths: tuple[Truth, ...]
    samples: int = 240

    def generate(self, seed: int, samples: int | None = None) -> spare.Experience:
        """Transitions of all actions, in turn; the same seed gives the same data."""
        wanted = samples or self.samples
        each = -(-wanted // len(self.truths))
        parts = [self._of_action(k, each, np.random.default_rng([seed, k])) for k in range(len(self.truths))]
        return spare.concatenate(parts)[:wanted] if len(parts) > 1 else parts[0]

    def _of_action(self, k: int, samples: int, rng: np.random.Generator) -> spare.Experience:
        truth, found, total = self.truths[k], [], 0
        while total < samples:
            scenes = _scenes(self.domain, k, 4 * samples, rng)
            masks = Bindings(scenes, self.domain.actions[k].name).masks(truth.shell)
            held = np.add.reduceat(masks.astype(int), scenes.offsets[:-1], axis=1)
            overlap = np.add.reduceat(masks.sum(axis=0) > 1, scenes.offsets[:-1])
            good = np.flatnonzero((held > 0).all(axis=0) & (overlap == 0))[: samples - total]
            found.append(scenes[good])
            total += len(good)
        return _moved(spare.concatenate(found), self.domain.actions[k].name, truth, rng)


def _scenes(domain: spare.Domain, action: int, count: int, rng: np.random.Generator) -> spare.Experience:
    counts = rng.integers(5, 9, count)
    total = int(counts.sum())
    values = np.column_stack([rng.uniform(-2, 2, (total, 2)), rng.uniform(0.5, 2, total)]).astype(np.float32)
    roles = len(domain.actions[action].objects)
    objects = np.full((count, domain.roles), -1)
    objects[:, :roles] = [rng.permutation(n)[:roles] for n in counts]
    return spare.Experience.from_arrays(
        domain,
        values=values,
        next_values=values,
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        action=np.full(count, action),
        objects=objects,
        parameters=rng.uniform(0.2, 1.0, (count, 1)),
    )


def _moved(data: spare.Experience, action: str, truth: Truth, rng: np.random.Generator) -> spare.Experience:
    """The same scenes with what the action does to them."""
    masks = Bindings(data, action).masks(truth.shell)
    owner = np.repeat(np.arange(len(data)), data.counts)
    force = data.parameters[:, 0].astype(np.float64)
    if truth.driver is not None:
        mask = masks[truth.driver]
        weight = np.bincount(owner, np.where(mask, data.values[:, 2], 0)) / np.bincount(owner, mask)
        force = force * weight
    after = data.values.astype(np.float64)
    after[:, :2] += REST * rng.standard_normal((len(after), 2))
    for mask, move in zip(masks, truth.moves, strict=True):
        if not any(move):
            continue  # looked at, but not moved: rests like everyone else
        noise = NOISE * rng.standard_normal((int(mask.sum()), 2))
        after[mask, :2] = data.values[mask, :2] + force[owner[mask], None] * np.array(move) + noise
    return dataclasses.replace(data, next_values=after.astype(np.float32))


def _domain(name: str, references: list[str], *actions: spare.Action) -> spare.Domain:
    properties = [spare.Property("x", resolution=1e-3), spare.Property("y", resolution=1e-3)]
    return spare.Domain(
        name,
        properties=[*properties, spare.Property("w", static=True)],
        references=[POOL[one] for one in references],
        actions=actions,
    )


def fixed_worlds() -> dict[str, World]:
    """One world for each thing a search must cope with."""
    poke = spare.Action("poke", ("target",), ("d",))
    tie = spare.Action("tie", ("first", "second"), ("d",))
    lift = spare.Action("lift", ("target",), ("d",))

    def shell(roles: int, *pointers: tuple[str, tuple[int, ...]]) -> Shell:
        return Shell(roles, tuple(Pointer(*p) for p in pointers))

    chain = Truth(shell(1, ("right", (0,)), ("below", (1,))), ((1.0, 0.0), (0.7, 0.2), (-0.6, 0.4)))
    group = Truth(shell(1, ("around", (0,))), ((1.0, 0.0), (0.5, -0.5)))
    leader = Truth(shell(1, ("farthest", (0,))), ((1.0, 0.0), (0.0, 0.0)), driver=1)
    pair = Truth(shell(2, ("middle", (0, 1))), ((1.0, 0.0), (-1.0, 0.0), (0.0, 0.8)))
    alone = Truth(shell(1), ((0.0, 1.0),))
    worlds = [
        World("chain", _domain("chain", ["nearest", "right", "below", "around"], poke), (chain,)),
        World("group", _domain("group", ["around", "nearest", "above", "heavier"], poke), (group,)),
        World("leader", _domain("leader", ["nearest", "farthest", "above"], poke), (leader,)),
        World("pair", _domain("pair", ["nearest", "middle", "above"], tie), (pair,)),
        World("templates", _domain("templates", ["nearest", "right", "around"], poke, lift), (chain_of(1), alone), 400),
    ]
    return {world.name: world for world in worlds}


def chain_of(length: int) -> Truth:
    """right(target) -> b1, right(b1) -> b2, ..."""
    moves = ((1.0, 0.0), (0.7, 0.2), (-0.6, 0.4), (0.5, 0.5))
    return Truth(Shell(1, tuple(Pointer("right", (k,)) for k in range(length))), moves[: length + 1])


def random_world(seed: int) -> World:
    """One or two roles, four references of which one or two are true, the rest distract."""
    rng = random.Random(seed)
    roles = rng.choice((1, 1, 2))
    names = rng.sample([name for name in POOL if name != "middle" or roles == 2], 4)
    action = spare.Action("act", ("target", "other")[:roles], ("d",))
    domain = _domain(f"random{seed}", names, action)
    while True:
        shell = Shell(roles)
        for _ in range(rng.choice((1, 2))):
            reference = POOL[rng.choice(names)]
            arguments = tuple(rng.randrange(shell.slots) for _ in range(reference.arity))
            shell = shell.extend(Pointer(reference.name, arguments))
        moves = tuple((rng.choice((-1, 1)) * rng.uniform(0.5, 1.0), rng.uniform(-0.5, 0.5)) for _ in range(shell.slots))
        world = World(domain.name, domain, (Truth(shell, moves),))
        if _drawable(world):
            return world


def _drawable(world: World) -> bool:
    """Whether a tenth of random scenes fit the true shell, and no other true slot is always the same object."""
    shell = world.truths[0].shell
    scenes = _scenes(world.domain, 0, 300, np.random.default_rng(0))
    masks = Bindings(scenes, world.domain.actions[0].name).masks(shell)
    held = np.add.reduceat(masks.astype(int), scenes.offsets[:-1], axis=1)
    overlap = np.add.reduceat(masks.sum(axis=0) > 1, scenes.offsets[:-1])
    return bool(((held > 0).all(axis=0) & (overlap == 0)).mean() > 0.1)


def toy_world(followers: int) -> tuple[spare.Domain, Truth]:
    """The queue of `spare.lab.worlds.queue` with so many followers."""
    return toy.domain, Truth(toy.true_shell(followers), ())


def holds_the_same(data: spare.Experience, one: Shell, other: Shell) -> bool:
    """Whether the slots of two shells hold the same sets of objects on every transition, in any order."""
    (action,) = np.unique(data.action)
    bindings = Bindings(data, data.domain.actions[action].name)
    return sorted(m.tobytes() for m in bindings.masks(one)) == sorted(m.tobytes() for m in bindings.masks(other))


def searches(result: FitResult) -> tuple[SearchResult, ...]:
    """The searches of a fit of one rule per action, one per action that occurs."""
    found = tuple(one for one in result.history if isinstance(one, SearchResult))
    assert len(found) == len(result.history)
    return found


def recovered(result: FitResult, data: spare.Experience, truths: tuple[Truth, ...]) -> bool:
    """Whether the search of every action ended with lists that hold exactly the true objects."""
    for k, (search, truth) in enumerate(zip(searches(result), truths, strict=True)):
        rows = data[np.flatnonzero(data.action == k)]
        if not holds_the_same(rows, search.best.gamma, truth.shell):
            return False
    return True
