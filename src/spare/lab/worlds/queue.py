"""Queues: a small analytic world whose true rule is known, for tests and a first demo.

People stand in lines along x. `usher(target; d)` moves the target forward by d, and the next F people behind it in
the same line follow, each a little less and less surely:

    x' = x + c_k d + N(0, s_k²),  y' = y + N(0, s_k² / 4)    for the target (k = 0) and follower k = 1 ... F
    x' = x + N(0, r²),            y' = y + N(0, r²)          for everyone else

So the true rule is Gamma = Delta = [behind(target), behind(b1), ...], linear and Gaussian: it can be written down.
"""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.arguments import check_seed, check_whole
from spare.data.experience import Experience
from spare.errors import UsageError
from spare.language.domain import Action, Domain
from spare.language.properties import Property
from spare.language.references import Pointer, Reference, Shell
from spare.model.model import Model
from spare.model.predictors import linear_predictor
from spare.model.rule import Rule
from spare.model.spec import RuleSpec

FOLLOW = (1.0, 0.8, 0.6, 0.4)
NOISE = (0.02, 0.03, 0.04, 0.05)
REST = 0.004
LINE_GAP, PERSON_GAP = 2.0, 0.8


def _same_line(o: Any, p: Any) -> Any:
    return jnp.abs(o.y - p.y) < LINE_GAP / 2


def _behind(o: Any, p: Any) -> Any:
    return jnp.where(_same_line(o, p) & (o.x < p.x), p.x - o.x, jnp.inf)


def _ahead(o: Any, p: Any) -> Any:
    return jnp.where(_same_line(o, p) & (o.x > p.x), o.x - p.x, jnp.inf)


def _distance(o: Any, p: Any) -> Any:
    return jnp.hypot(o.x - p.x, o.y - p.y)


domain = Domain(
    "queue",
    properties=[
        Property("x", unit="m", resolution=1e-3),
        Property("y", unit="m", resolution=1e-3),
        Property("mass", unit="kg", static=True),
    ],
    references=[
        Reference.closest("behind", _behind),
        Reference.closest("ahead", _ahead),
        Reference.closest("nearest", _distance),
        Reference("line", _same_line),
    ],
    actions=[Action("usher", objects=("target",), parameters=("d",))],
)


def true_shell(followers: int = 2) -> Shell:
    """behind(target) -> b1, behind(b1) -> b2, ...: whom the action really moves."""
    return Shell(1, tuple(Pointer("behind", (k,)) for k in range(followers)))


def true_model(followers: int = 2) -> Model:
    """The density that `generate` draws from, as a `Model` with one linear-Gaussian rule."""
    slots = followers + 1
    weight = np.zeros((1 + 3 * slots, 2 * slots))
    variance = np.zeros((slots, 2))
    resolution = domain.resolutions
    for k in range(slots):
        weight[0, 2 * k] = FOLLOW[k]
        weight[1 + 3 * k, 2 * k] = weight[2 + 3 * k, 2 * k + 1] = 1.0
        # The model adds resolution² to every variance, so it is taken off here: the sum is what generate draws.
        variance[k] = np.array([NOISE[k] ** 2, NOISE[k] ** 2 / 4]) - resolution**2
    predictor = linear_predictor(jnp.asarray(weight), jnp.zeros(2 * slots), jnp.asarray(variance))
    rest = REST**2 - resolution**2
    spec = RuleSpec.of(domain, "usher", true_shell(followers))
    return Model(domain, [Rule(domain, spec, predictor, rest)], rest)


def generate(samples: int, seed: int, *, followers: int = 2, lines: int = 3, longest: int = 5) -> Experience:
    """`samples` transitions in states of `lines` lines of up to `longest` people; sample i depends on (seed, i)."""
    seed, samples = check_seed(seed, "queue: seed"), check_whole("queue: samples", samples, 1)
    if not 0 <= followers < len(FOLLOW) or lines < 1 or longest <= followers:
        raise UsageError(
            f"queue: samples >= 1, 0 <= followers < {len(FOLLOW)}, lines >= 1 and longest > followers are needed"
        )
    make = functools.partial(_sample, followers=followers, lines=lines, longest=longest)
    rows = [make(np.random.default_rng([seed, i])) for i in range(samples)]
    return Experience.from_arrays(
        domain,
        values=np.concatenate([row[0] for row in rows]),
        next_values=np.concatenate([row[1] for row in rows]),
        offsets=np.cumsum([0] + [len(row[0]) for row in rows]),
        action=np.zeros(samples, np.int64),
        objects=np.array([row[2] for row in rows]),
        parameters=np.array([row[3] for row in rows]),
        metadata={"generator": "queue", "seed": seed, "followers": followers, "lines": lines, "longest": longest},
    )


def _sample(
    rng: np.random.Generator, *, followers: int, lines: int, longest: int
) -> tuple[np.ndarray, np.ndarray, int, float]:
    """(values, next values, local index of the target, d): one transition, objects in random order."""
    people, members = [], []
    for line in range(lines):
        length = int(rng.integers(followers + 1 if line == 0 else 1, longest + 1))
        gaps = PERSON_GAP * rng.uniform(0.5, 1.5, length)
        x = rng.uniform(-1, 1) + np.cumsum(gaps)
        y = LINE_GAP * line + rng.uniform(-0.1, 0.1, length)
        members.append(np.arange(length) + len(people))
        people += list(np.stack([x, y, rng.uniform(50, 100, length)], 1))
    values = np.array(people, np.float32)
    position = int(rng.integers(followers, len(members[0])))
    d = float(np.float32(rng.uniform(0.2, 1.0)))
    after = values.astype(np.float64)
    after[:, :2] += REST * rng.standard_normal((len(values), 2))
    for k in range(followers + 1):
        who = members[0][position - k]
        after[who, :2] = values[who, :2] + NOISE[k] * np.array([1.0, 0.5]) * rng.standard_normal(2)
        after[who, 0] += FOLLOW[k] * d
    order = rng.permutation(len(values))
    target = int(np.flatnonzero(order == members[0][position])[0])
    return values[order], after[order].astype(np.float32), target, d
