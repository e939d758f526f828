"""Rules with heads of drawn numbers, and a slow, plain second opinion on them.

`make_rule` has outcomes of the whole rule and of single objects, a common factor and a process that drifts;
`make_chain` has three free outcomes of the whole rule, and a head that follows the step before along a closure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import spare
from spare.language.references import EVERYONE, Pointer, Shell
from spare.model.headrule import Gate, HeadRule, HeadRuleSpec
from spare.model.heads import LARGEST_TAIL, Head, HeadSpec
from spare.model.predictors import Network
from tests.oracle_density import log_correlated, log_normal, log_sum_exp

MEMBERS = 2
RESOLUTIONS = (0.01, 0.02)
TOUCH = 0.5
near = spare.Reference.closest("near", lambda o, p: jnp.hypot(o.x - p.x, o.y - p.y))
behind = spare.Reference.closest("behind", lambda o, p: jnp.where(o.x < p.x, p.x - o.x, jnp.inf))
touching = spare.Reference("touching", lambda o, p: abs(o.x - p.x) < TOUCH)
domain = spare.Domain(
    "heads",
    properties=[
        spare.Property("x", resolution=RESOLUTIONS[0]),
        spare.Property("y", resolution=RESOLUTIONS[1]),
        spare.Property("w", static=True),
    ],
    references=[near, behind, behind.closure("behind*"), touching.closure("touching*")],
    actions=[spare.Action("poke", ("target",), ("d",))],
)


def network(rng: np.random.Generator, inputs: int, outputs: int, size: float = 0.3) -> Network:
    fans = (inputs, 4, 4, 4, outputs)
    weights = tuple(jnp.asarray(rng.normal(0, size, (MEMBERS, a, b)), jnp.float32) for a, b in itertools.pairwise(fans))
    biases = tuple(jnp.asarray(rng.normal(0, size, (MEMBERS, b)), jnp.float32) for b in fans[1:])
    return Network(weights, biases, "silu", True)


def head(rng: np.random.Generator, spec: HeadSpec, loading: Any = (0.0, 0.0)) -> Head:
    """A head with drawn numbers."""
    inputs, outputs = len(spec.inputs), spec.outputs(2)
    drawn = {
        "stay": rng.normal(-4, 0.3, (MEMBERS, 2)),
        "tail": rng.normal(0, 0.5, (MEMBERS, 5)),
        "x_mean": rng.normal(0, 0.3, inputs),
        "x_scale": rng.uniform(0.5, 2, inputs),
        "y_mean": rng.normal(0, 0.1, 2),
        "y_scale": rng.uniform(0.1, 0.4, 2),
        "wider": rng.uniform(1, 1.3, 2),
        "loading": np.array(loading),
    }
    net = network(rng, inputs, outputs) if spec.free else None
    linear = jnp.asarray(rng.normal(0, 0.3, (MEMBERS, inputs, outputs)), jnp.float32) if spec.free else None
    return Head(spec, net, linear, *(jnp.asarray(part, jnp.float32) for part in drawn.values()))


def make_rule(seed: int, *, apart: float = 0.3) -> HeadRule:
    """target and near(target) share two outcomes and a factor, behind* has three of its own; the rest drifts."""
    rng = np.random.default_rng(seed)
    shell = Shell(1, (Pointer("near", (0,)), Pointer("behind*", (0,)), Pointer(EVERYONE, ())))
    heads = (
        head(rng, HeadSpec(0, ("d", "target.x", "present(b2)"), 2, True, "rule"), (0.8, 0.3)),
        head(rng, HeadSpec(1, ("d", "own.x", "own-target.y", "count(b2)"), 2, True, "rule"), (0.6, -0.5)),
        head(rng, HeadSpec(2, ("d", "own.w", "depth(b2)", "mean(b1).x"), 3, True, "object", relative=False)),
    )
    gate = Gate(("d", "count(b2)"), network(rng, 2, 2, 0.6), jnp.zeros(2), jnp.ones(2))
    return HeadRule(domain, HeadRuleSpec("poke", shell), heads, head(rng, HeadSpec(0)), gate, apart)


def make_chain(seed: int, *, apart: float = 0.3) -> HeadRule:
    """target and behind(target) share three free outcomes; whoever touches near(target), and so on, follows it."""
    rng = np.random.default_rng(seed)
    shell = Shell(1, (Pointer("near", (0,)), Pointer("touching*", (1,)), Pointer("behind", (0,))))
    follows = ("previous(b2).y", "d", "own.w", "previous(b2).x")
    heads = (
        head(rng, HeadSpec(0, ("d", "count(b2)"), 3, False, "rule"), (0.7, 0.4)),
        head(rng, HeadSpec(1, ("d", "own.x"), relative=False), (0.5, -0.6)),
        head(rng, HeadSpec(2, follows), (-0.3, 0.9)),
        head(rng, HeadSpec(3, ("target.y",), 3, False, "rule"), (0.2, 0.8)),
    )
    gate = Gate(("d", "present(b3)"), network(rng, 2, 3, 0.6), jnp.zeros(2), jnp.ones(2))
    return HeadRule(domain, HeadRuleSpec("poke", shell), heads, head(rng, HeadSpec(0)), gate, apart)


RULES = {"rule": make_rule, "chain": make_chain}


def make_data(seed: int, transitions: int, objects: tuple[int, int] = (3, 6)) -> spare.Experience:
    rng = np.random.default_rng(seed)
    counts = rng.integers(objects[0], objects[1] + 1, transitions)
    values = rng.normal(0, 0.7, (counts.sum(), 3))
    after = values.copy()
    after[:, :2] += rng.normal(0, 0.1, (len(values), 2))
    return spare.Experience.from_arrays(
        domain,
        values=values,
        next_values=after,
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        action=np.zeros(transitions, int),
        objects=rng.integers(0, counts)[:, None],
        parameters=rng.uniform(0.2, 1, (transitions, 1)),
    )


# -- the second opinion ---------------------------------------------------------------------------------------------


def run(net: Network, m: int, x: list[float]) -> list[float]:
    """Pairs of layers, as `Network` describes them, in plain Python."""
    weights = [np.asarray(w)[m].tolist() for w in net.weights]
    biases = [np.asarray(b)[m].tolist() for b in net.biases]

    def layer(k: int, inside: list[float]) -> list[float]:
        columns = [*zip(*weights[k], strict=True)] or [()] * len(biases[k])
        pairs = zip(biases[k], columns, strict=True)
        return [b + sum(i * w for i, w in zip(inside, column, strict=True)) for b, column in pairs]

    here = x
    for k in range(0, len(weights), 2):
        hidden = [v / (1 + math.exp(-v)) for v in layer(k, here)]
        answer = layer(k + 1, hidden)
        here = [a + b for a, b in zip(here, answer, strict=True)] if 0 < k < len(weights) - 2 else answer
    return here


def softmax(raw: list[float]) -> list[float]:
    top = log_sum_exp(raw)
    return [one - top for one in raw]


def outcomes(one: Head, m: int, x: list[float]) -> tuple[list[float], list[Any], list[Any], list[Any], float]:
    """(log gate, means, variances, wide variances of each outcome, share of the wide part) for one object."""
    spec = one.spec
    normal = [(v - a) / b for v, a, b in zip(x, one.x_mean.tolist(), one.x_scale.tolist(), strict=True)]
    scale, centre, wider = one.y_scale.tolist(), one.y_mean.tolist(), one.wider.tolist()
    tail = np.asarray(one.tail)[m].tolist()
    share = LARGEST_TAIL / (1 + math.exp(-tail[0]))
    grown = [1 + math.log1p(math.exp(v)) for v in tail[1:3]]
    added = [math.exp(v) for v in tail[3:5]]
    means, raws, gate = [], [], [0.0] * spec.outcomes
    if spec.pinned:
        means.append([0.0, 0.0])
        raws.append([math.exp(v) for v in np.asarray(one.stay)[m].tolist()])
    if spec.free:
        assert one.net is not None
        assert one.linear is not None
        linear = np.asarray(one.linear)[m].tolist()
        answer = [
            a + sum(v * row[k] for v, row in zip(normal, linear, strict=True))
            for k, a in enumerate(run(one.net, m, normal))
        ]
        gates = spec.outcomes if spec.outcomes > 1 and spec.scope == "object" else 0
        gate = softmax(answer[:gates]) if gates else gate
        rest = answer[gates:]
        for k in range(spec.free):
            means.append([centre[q] + scale[q] * rest[2 * k + q] for q in range(2)])
            raw = [rest[2 * spec.free + 2 * k + q] for q in range(2)]
            raws.append([math.exp(-18) + 1 / (math.exp(-8) + math.exp(-v)) for v in raw])
    variances = [[(scale[q] * wider[q]) ** 2 * raw[q] + RESOLUTIONS[q] ** 2 for q in range(2)] for raw in raws]
    wide = [[grown[q] ** 2 * v[q] + (scale[q] * added[q]) ** 2 for q in range(2)] for v in variances]
    return gate, means, variances, wide, share


def by_row(y: list[float], said: tuple[Any, ...]) -> tuple[list[float], list[float]]:
    """log p_k(y), and log density of the narrow part alone, of every outcome."""
    _, means, variances, wide, share = said
    narrow = [sum(log_normal(y[q], m[q], v[q]) for q in range(2)) for m, v in zip(means, variances, strict=True)]
    far = [sum(log_normal(y[q], m[q], v[q]) for q in range(2)) for m, v in zip(means, wide, strict=True)]
    both = [log_sum_exp([math.log(1 - share) + n, math.log(share) + f]) for n, f in zip(narrow, far, strict=True)]
    return both, narrow


class Looked(NamedTuple):
    """One transition as lists: objects before and after, who holds each (head), inputs of heads and of the gate."""

    objects: list[list[float]]
    afters: list[list[float]]
    holder: dict[int, int]
    inputs: Callable[[int, int], list[float]]
    gate: list[float]


def looked(rule: HeadRule, data: spare.Experience, i: int) -> Looked:
    """What a rule of `make_rule` or `make_chain` sees of a transition."""
    rows = range(int(data.offsets[i]), int(data.offsets[i + 1]))
    objects = [data.values[r].astype(float).tolist() for r in rows]
    afters = [data.next_values[r].astype(float).tolist() for r in rows]
    target, d = int(data.objects[i, 0]), float(data.parameters[i, 0])
    others = [o for o in range(len(objects)) if o != target]
    far = {o: math.hypot(objects[o][0] - objects[target][0], objects[o][1] - objects[target][1]) for o in others}
    nearest = [min(others, key=far.__getitem__)] if others else []
    line = sorted((o for o in others if objects[o][0] < objects[target][0]), key=lambda o: -objects[o][0])
    if len(rule.heads) == 4:
        return _of_chain(rule, Looked(objects, afters, {}, lambda k, o: [], []), (target, d, nearest, line))
    depth = {o: k + 1 for k, o in enumerate(line)}
    holder = dict.fromkeys(line, 2) | dict.fromkeys(nearest, 1) | {target: 0}
    centre = sum(objects[o][0] for o in nearest)

    def inputs(k: int, o: int) -> list[float]:
        own, count = objects[o], float(len(line))
        return [
            [d, objects[target][0], 1.0 if line else 0.0],
            [d, own[0], own[1] - objects[target][1], count],
            [d, own[2], 1.0 / (1.0 + depth.get(o, 0)), centre],
        ][k]

    return Looked(objects, afters, holder, inputs, [d, float(len(line))])


def _of_chain(rule: HeadRule, seen: Looked, found: tuple[int, float, list[int], list[int]]) -> Looked:
    """Step by step: each link sees the mean of what all members expect of those one step nearer."""
    objects, (target, d, nearest, line) = seen.objects, found
    levels, reached = [nearest], {*nearest}
    while levels[-1]:
        rest = [o for o in range(len(objects)) if o not in reached]
        fresh = [o for o in rest if any(abs(objects[o][0] - objects[p][0]) < TOUCH for p in levels[-1])]
        levels.append(fresh)
        reached |= {*fresh}
    links = [o for level in levels[1:] for o in level]
    before = {o: [0.0, 0.0] for o in range(len(objects))}

    def inputs(k: int, o: int) -> list[float]:
        own, last = objects[o], before[o]
        return [[d, float(len(links))], [d, own[0]], [last[1], d, own[2], last[0]], [objects[target][1]]][k]

    def expected(k: int, o: int) -> list[float]:
        said = [outcomes(rule.heads[k], m, inputs(k, o))[1][0] for m in range(MEMBERS)]
        return [sum(one[q] for one in said) / MEMBERS for q in range(2)]

    for step in range(1, len(levels)):
        moved = [expected(1 if step == 1 else 2, o) for o in levels[step - 1]]
        for o in levels[step]:
            before[o] = [sum(one[q] for one in moved) / len(moved) for q in range(2)]
    holder = dict.fromkeys(line[:1], 3) | dict.fromkeys(links, 2) | dict.fromkeys(nearest, 1) | {target: 0}
    return seen._replace(holder=holder, inputs=inputs, gate=[d, 1.0 if line else 0.0])


def opinion(rule: HeadRule, data: spare.Experience, i: int) -> tuple[float, np.ndarray, list[float]]:
    """(log p(s' | s, a), log p of every value alone, posterior of the rule's outcomes), by loops."""
    seen = looked(rule, data, i)
    assert rule.gate is not None
    count, share = rule.gate.outcomes, float(rule.apart)
    drift = [sum(outcomes(rule.process, m, [])[1][0][q] for m in range(MEMBERS)) / MEMBERS for q in range(2)]
    totals, joint, alone = [], [], np.zeros((MEMBERS, len(seen.objects), 2))
    for m in range(MEMBERS):
        gate = softmax(run(rule.gate.net, m, seen.gate))
        total, apart, close = 0.0, [0.0] * count, [0.0] * count
        scores: list[list[list[float]]] = [[[], []] for _ in range(count)]
        loads: list[list[list[float]]] = [[[], []] for _ in range(count)]
        for o in range(len(seen.objects)):
            change = [seen.afters[o][q] - seen.objects[o][q] for q in range(2)]
            k = seen.holder.get(o)
            one = rule.process if k is None else rule.heads[k]
            said = outcomes(one, m, [] if k is None else seen.inputs(k, o))
            if k is not None and one.spec.relative:
                change = [float(change[q] - drift[q]) for q in range(2)]
            both, narrow = by_row(change, said)
            several = one.spec.outcomes > 1
            together = k is not None and not (several and one.spec.scope == "object")
            weights = gate if several and one.spec.scope == "rule" else said[0]
            tail = said[4] * (share if together else 1.0)
            for q in range(2):
                terms = [
                    w
                    + log_sum_exp(
                        [
                            math.log(1 - tail) + log_normal(change[q], said[1][z][q], said[2][z][q]),
                            math.log(tail) + log_normal(change[q], said[1][z][q], said[3][z][q]),
                        ]
                    )
                    for z, w in enumerate(weights)
                ]
                alone[m, o, q] = log_sum_exp(terms)
            if not together:
                total += log_sum_exp([w + b for w, b in zip(weights, both, strict=True)])
                continue
            for z in range(count):
                own = z if several else 0
                apart[z] += both[own]
                close[z] += narrow[own]
                for q in range(2):
                    v = said[2][own][q]
                    scores[z][q].append((change[q] - said[1][own][q]) / math.sqrt(v))
                    part = math.sqrt(max(0.0, 1 - RESOLUTIONS[q] ** 2 / v))
                    still = one.spec.pinned and own == 0
                    loads[z][q].append(0.0 if still else float(one.loading[q]) * part)
        ends = []
        for z in range(count):
            factor = sum(log_correlated(scores[z][q], loads[z][q]) for q in range(2))
            factor -= sum(log_normal(one, 0.0, 1.0) for q in range(2) for one in scores[z][q])
            ends.append(gate[z] + log_sum_exp([math.log(1 - share) + close[z] + factor, math.log(share) + apart[z]]))
        totals.append(total + log_sum_exp(ends))
        joint.append([total + end for end in ends])
    mean = log_sum_exp(totals) - math.log(MEMBERS)
    single = np.array(
        [[log_sum_exp(list(alone[:, o, q])) - math.log(MEMBERS) for q in range(2)] for o in range(len(seen.objects))]
    )
    # Outcomes are called as the first member has them.
    order = np.asarray(rule.orders()[0]).tolist()
    named = [[one[z] for z in mine] for one, mine in zip(joint, order, strict=True)]
    shares = [math.exp(log_sum_exp([one[z] for one in named]) - log_sum_exp(totals)) for z in range(count)]
    return mean, single, shares
