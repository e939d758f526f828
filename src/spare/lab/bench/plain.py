"""The queue world's density in plain Python floats and loops: what the compiled code is compared with."""

from __future__ import annotations

import math

from spare.data.experience import Experience
from spare.lab.worlds import queue as toy


def log_prob(experience: Experience, followers: int) -> list[float]:
    """log p(s' | s, a) of `toy.true_model(followers)`, one transition at a time."""
    result = []
    for i in range(len(experience)):
        state = experience.states[i].values.tolist()
        after = experience.next_states[i].values.tolist()
        result.append(_one(state, after, int(experience.objects[i, 0]), float(experience.parameters[i, 0]), followers))
    return result


def _one(state: list[list[float]], after: list[list[float]], target: int, d: float, followers: int) -> float:
    chain = [target]
    for _ in range(followers):
        found = _behind(state, chain[-1])
        if found is None:
            chain = []
            break
        chain.append(found)
    total = 0.0
    for o, (before, then) in enumerate(zip(state, after, strict=True)):
        if o in chain:
            k = chain.index(o)
            total += _normal(then[0], before[0] + toy.FOLLOW[k] * d, toy.NOISE[k])
            total += _normal(then[1], before[1], toy.NOISE[k] / 2)
        else:
            total += _normal(then[0], before[0], toy.REST) + _normal(then[1], before[1], toy.REST)
    return total


def _behind(state: list[list[float]], who: int) -> int | None:
    best, found = math.inf, None
    for o, (x, y, _) in enumerate(state):
        gap = state[who][0] - x
        if o != who and gap > 0 and abs(y - state[who][1]) < toy.LINE_GAP / 2 and gap < best:
            best, found = gap, o
    return found


def _normal(value: float, mean: float, deviation: float) -> float:
    return -0.5 * (((value - mean) / deviation) ** 2 + math.log(2 * math.pi * deviation**2))
