"""A process that answers for many models and shapes: `python -m tests.faults.server MODELS SHAPES [PROGRAMS]`.

Every shape, a number of objects (1 to 2,000) and of transitions (1 to 1,000), is asked of every model by one of
`predict`, `log_prob`, `sample` and `moments`; after that, a `predict` of seven objects of the same model is timed. Now
and then it prints a line of JSON: answers so far; programs that were compiled, came back, and are kept; memory maps,
memory (MB); the median and the 95th percentile of the small predicts since the last line (ms).
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

import spare
from spare.lab.worlds import queue
from spare.model.headrule import HeadRule, HeadRuleSpec
from spare.model.heads import Head, HeadSpec
from spare.model.predictors import Network, linear_predictor

MOST_CELLS = 60_000
"""Transitions are cut to so many objects in all, so that time goes to programs and not to numbers."""


def model(number: int, seed: int = 0) -> spare.Model:
    """One of many structures: 0 to 3 followers, one of seven sets of inputs; numbers drawn by seed."""
    followers, dropped = number % 4, number // 4 % 7
    names = ("d", "target.x", "target.y", "target.mass")
    pairs = [(), *((name,) for name in names), names[:2], names[2:]]
    spec = spare.RuleSpec.of(queue.domain, "usher", queue.true_shell(followers), dropped=pairs[dropped])
    inputs, slots = 1 + 3 * (followers + 1) - len(pairs[dropped]), followers + 1
    rng = np.random.default_rng([seed, number])
    weight = jnp.asarray(rng.normal(0, 0.1, (inputs, 2 * slots)))
    predictor = linear_predictor(weight, jnp.zeros(2 * slots), jnp.full((slots, 2), 0.01))
    return spare.Model(queue.domain, [spare.Rule(queue.domain, spec, predictor, np.full(2, 1e-4))], np.full(2, 1e-4))


def model_with_heads(number: int, seed: int = 0) -> spare.Model:
    """One of many structures of the other kind: 1 or 2 heads with 1 or 2 outcomes, one of four sets of inputs."""
    heads, outcomes, dropped = 1 + number % 2, 1 + number // 2 % 2, number // 4 % 4
    names = tuple(name for k, name in enumerate(("d", "target.x", "target.y", "own.x", "own.y")) if k != dropped)
    rng = np.random.default_rng([seed, number])
    made = tuple(_head(rng, HeadSpec(slot, names, outcomes)) for slot in range(heads))
    spec = HeadRuleSpec("usher", queue.true_shell(heads - 1))
    return spare.Model(queue.domain, [HeadRule(queue.domain, spec, made, _head(rng, HeadSpec(0)))], np.full(2, 1e-4))


def _head(rng: np.random.Generator, spec: HeadSpec, members: int = 2, width: int = 8) -> Head:
    """A head with drawn numbers."""
    inputs, outputs = len(spec.inputs), spec.outputs(2)
    fans = [(inputs, width), (width, width), (width, width), (width, outputs)]
    weights = tuple(jnp.asarray(rng.normal(0, 0.1, (members, *fan)), jnp.float32) for fan in fans)
    net = Network(weights, tuple(jnp.zeros((members, fan[1])) for fan in fans), "silu", True)
    linear = jnp.zeros((members, inputs, outputs))
    parts = (jnp.full((members, 2), -4.0), jnp.zeros((members, 5)), jnp.zeros(inputs), jnp.ones(inputs))
    return Head(spec, net, linear, *parts, jnp.zeros(2), jnp.ones(2), jnp.ones(2), jnp.zeros(2))


def models(count: int) -> list[spare.Model]:
    """Every fourth has a rule of the other kind."""
    return [model_with_heads(k // 4) if k % 4 == 3 else model(k) for k in range(count)]


def experience(objects: int, transitions: int, seed: int = 0) -> spare.Experience:
    """So many transitions in states of so many people, who stand in one line; the first of them is ushered."""
    rng = np.random.default_rng([seed, objects, transitions])
    total = objects * transitions
    x = rng.uniform(0, objects, total)
    values = np.stack([x, rng.uniform(-0.1, 0.1, total), rng.uniform(50, 100, total)], 1)
    return spare.Experience.from_arrays(
        queue.domain,
        values=values.astype(np.float32),
        next_values=(values + np.array([0.1, 0.0, 0.0])).astype(np.float32),
        offsets=np.arange(transitions + 1) * objects,
        action=np.zeros(transitions, np.int64),
        objects=x.reshape(transitions, objects).argmax(axis=1)[:, None],
        parameters=rng.uniform(0.2, 1.0, (transitions, 1)).astype(np.float32),
    )


def shapes(count: int, seed: int = 0) -> Iterator[tuple[int, int]]:
    """(objects, transitions), small ones as often as large ones."""
    rng = np.random.default_rng([seed, 99])
    for _ in range(count):
        objects, transitions = (int(2000 ** rng.uniform()), int(1000 ** rng.uniform()))
        yield objects, max(1, min(transitions, MOST_CELLS // objects))


def ask(one: spare.Model, data: spare.Experience, how: str) -> Any:
    """One answer."""
    if how == "predict":
        return one.predict(data.states[0], data.actions[0])
    return one.sample(data, 0) if how == "sample" else getattr(one, how)(data)


def resident() -> int:
    """Resident memory in MB."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


def report(answers: int, small: list[float]) -> None:
    """Say how it goes."""
    known = spare.programs.info()
    facts = {name: getattr(known, name) for name in ("compiled", "programs", "maps")}
    median, most = (round(1e3 * float(np.quantile(small, part)), 3) for part in (0.5, 0.95))
    print(json.dumps({"answers": answers, **facts, "memory": resident(), "predict": median, "p95": most}), flush=True)


def main(count: str, different: str, *limit: str) -> None:
    """Ask every model about every shape."""
    if limit:
        spare.programs.bound(programs=int(limit[0]))
    every = models(int(count))
    rng, tiny, answers = np.random.default_rng(1), experience(7, 1), 0
    small: list[float] = []
    state, action = tiny.states[0], tiny.actions[0]
    for objects, transitions in shapes(int(different)):
        data = experience(objects, transitions)
        for one in every:
            ask(one, data, str(rng.choice(["predict", "log_prob", "sample", "moments"])))
            begin = time.perf_counter()
            one.predict(state, action)
            small.append(time.perf_counter() - begin)
            answers += 1
        if answers % (len(every) * max(1, int(different) // 15)) == 0:
            report(answers, small)
            small.clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
