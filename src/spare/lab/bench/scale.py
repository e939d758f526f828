"""`spare bench scale`: time and memory against the number of objects, and the rate on many small scenes.

1. One state of 10, 100, ..., 100,000 objects: seconds and peak memory of `log_prob` and `predict`, each size in a
   process of its own so that peaks do not mix.
2. A batch of 10,000 transitions of about 10 objects: transitions per second, beside plain Python doing the same.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from spare.data.experience import Experience
from spare.lab.worlds import queue as toy

FOLLOWERS = 2


def run(quick: bool, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """{"one_state": rows, "batch": rates}; sizes stop at 10,000 when quick."""
    sizes = [10, 100, 1_000, 10_000] + ([] if quick else [100_000])
    rows = []
    for size in sizes:
        say(f"measuring one state of {size:,} objects ...")
        code = f"from spare.lab.bench.scale import measure; measure({size}, {seed})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
    return {"one_state": rows, "batch": _batch(1_000 if quick else 10_000, seed)}


def measure(size: int, seed: int) -> None:
    """Print one size's seconds (median of repeats, after compiling) and the process's peak memory, as JSON."""
    data = toy.generate(1, seed, followers=FOLLOWERS, lines=max(1, size // 10), longest=10)
    row = _resize(data, size)
    model = toy.true_model(FOLLOWERS)
    state, action = row.states[0], row.actions[0]
    repeats = 9
    log_prob = _median(lambda: model.log_prob(row), repeats)
    predict = _median(lambda: model.predict(state, action), repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"objects": size, "log_prob_s": log_prob, "predict_s": predict, "peak_mb": round(peak, 1)}))


def _resize(data: Experience, size: int) -> Experience:
    """The same transition with `size` objects: bystanders far away are added."""
    bystanders = np.repeat(data.values[:1], size - len(data.values), axis=0)
    bystanders[:, 1] = -1000 - 3 * np.arange(len(bystanders))
    return Experience.from_arrays(
        data.domain,
        values=np.concatenate([data.values, bystanders]),
        next_values=np.concatenate([data.next_values, bystanders]),
        offsets=np.array([0, size]),
        action=data.action,
        objects=data.objects,
        parameters=data.parameters,
    )


def _median(call: Callable[[], object], repeats: int) -> float:
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def _batch(samples: int, seed: int) -> dict[str, Any]:
    """Transitions per second of the model and of plain Python on the same data, which must agree."""
    data = toy.generate(samples, seed, followers=FOLLOWERS)
    model = toy.true_model(FOLLOWERS)
    seconds = _median(lambda: model.log_prob(data), 5)
    start = time.perf_counter()
    plain = np.array(plain_log_prob(data, FOLLOWERS))
    plain_seconds = time.perf_counter() - start
    return {
        "transitions": samples,
        "objects_mean": float(data.counts.mean()),
        "per_second": samples / seconds,
        "plain_per_second": samples / plain_seconds,
        "ratio": plain_seconds / seconds,
        "largest_difference": float(np.abs(model.log_prob(data) - plain).max()),
    }


def plain_log_prob(experience: Experience, followers: int) -> list[float]:
    """log p(s' | s, a) of `toy.true_model(followers)` in plain Python floats and loops, one transition at a time."""
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


def show(result: dict[str, Any]) -> None:
    """Two tables."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="One state: time and memory against the number of objects")
    for name in ("objects", "log_prob ms", "predict ms", "log_prob µs per object", "peak MB"):
        table.add_column(name, justify="right")
    for row in result["one_state"]:
        each = row["log_prob_s"] / row["objects"] * 1e6
        cells = (row["log_prob_s"] * 1e3, row["predict_s"] * 1e3, each, row["peak_mb"])
        table.add_row(f"{row['objects']:,}", *(f"{cell:,.2f}" for cell in cells))
    console = Console()
    console.print(table)
    batch = result["batch"]
    console.print(
        f"{batch['transitions']:,} transitions of about {batch['objects_mean']:.0f} objects: "
        f"{batch['per_second']:,.0f} per second, plain Python {batch['plain_per_second']:,.0f} "
        f"({batch['ratio']:.0f} times); largest difference {batch['largest_difference']:.1e} nats"
    )
