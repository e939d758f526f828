"""Small data for baselines, and models trained on them; each is made once."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from spare.data.experience import Experience
from spare.lab.baselines.flat import PAPER, PETS, Flat, FlatSettings, fit_flat
from spare.lab.baselines.graph import Graph, GraphSettings, fit_graph
from spare.lab.worlds import push
from spare.lab.worlds import queue as toy

SHORT = GraphSettings(steps=600, hidden=32, check_every=50)


@functools.cache
def queue(samples: int = 300, seed: int = 0) -> Experience:
    """Queues of exactly three people, so that a flat network can take part."""
    return toy.generate(samples, seed, followers=2, lines=1, longest=3)


@functools.cache
def pushes(samples: int = 60, extra: int = 2) -> Experience:
    """Stacks of three among other blocks."""
    return push.generate(samples, stack=3, extra=extra, seed=5)


@functools.cache
def flat() -> Flat:
    """The paper's network, trained for a tenth of the time."""
    return fit_flat(toy.domain, queue(), seed=0, settings=brief(PAPER))


@functools.cache
def ensemble() -> Flat:
    """Two members."""
    settings = brief(PETS)
    training = dataclasses.replace(settings.training, members=2)
    return fit_flat(toy.domain, queue(), seed=0, settings=dataclasses.replace(settings, training=training))


@functools.cache
def graph() -> Graph:
    """A small graph network on queues."""
    return fit_graph(toy.domain, queue(), seed=0, settings=SHORT)


@functools.cache
def framed() -> Graph:
    """Two members in the push's frame."""
    settings = dataclasses.replace(SHORT, framed=True, members=2, steps=150)
    return fit_graph(push.domain, pushes(), seed=0, settings=settings)


def brief(settings: FlatSettings) -> FlatSettings:
    """A tenth of the schedule."""
    training = dataclasses.replace(settings.training, epochs=3, steps=300)
    return dataclasses.replace(settings, training=training)


def reordered(data: Experience, seed: int) -> tuple[Experience, np.ndarray]:
    """The same transitions with the objects of each state in another order, and where each row came from."""
    rng = np.random.default_rng(seed)
    rows, objects = [], []
    for i, (start, stop) in enumerate(zip(data.offsets[:-1], data.offsets[1:], strict=True)):
        order = rng.permutation(stop - start)
        rows.append(start + order)
        objects.append([int(np.flatnonzero(order == k)[0]) for k in data.objects[i]])
    index = np.concatenate(rows)
    moved = Experience.from_arrays(
        data.domain,
        values=data.values[index],
        next_values=data.next_values[index],
        offsets=data.offsets,
        action=data.action,
        objects=np.array(objects),
        parameters=data.parameters,
        ids=data.ids[index].tolist(),
    )
    return moved, index
