"""A slow, obvious second opinion on section 3 of the paper: loops, floats and math.log; no arrays anywhere.

Objects are small namespaces (`o.x`), states lists of them, sets of objects Python sets of list positions. A
relation is a nested tuple that says how it is built:

    ("formula", f)  ("closest", key)  ("farthest", key)  ("closure", r)  ("inverse", r)
    ("and", r, s)   ("or", r, s)      ("minus", r, s)
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tests.oracle_density import (
    Mixture,
    log_correlated,
    log_mixture,
    log_normal,
    log_sum_exp,
    mixture_moments,
    normal_score,
)

Relation = tuple[Any, ...]
World = list[SimpleNamespace]
Pointers = list[tuple[str, tuple[int, ...]]]


# -- references ----------------------------------------------------------------------------------------------------


def related(relation: Relation, world: World, arguments: tuple[int, ...]) -> set[int]:
    """F(o1, ..., om) for one tuple of objects; the arguments are never in it."""
    kind, first = relation[0], relation[1]
    others = [o for o in range(len(world)) if o not in arguments]
    if kind == "formula":
        return {o for o in others if first(world[o], *(world[a] for a in arguments))}
    if kind in ("closest", "farthest"):
        keys = {o: float(first(world[o], *(world[a] for a in arguments))) for o in others}
        keys = {o: key for o, key in keys.items() if math.isfinite(key)}
        if not keys:
            return set()
        best = min(keys.values()) if kind == "closest" else max(keys.values())
        return {o for o, key in keys.items() if key == best}
    if kind == "closure":
        return reached(first, world, arguments[0])
    if kind == "inverse":
        return {o for o in others if arguments[0] in related(first, world, (o,))}
    left, right = related(first, world, arguments), related(relation[2], world, arguments)
    return {"and": left & right, "or": left | right, "minus": left - right}[kind]


def reached(step: Relation, world: World, start: int) -> set[int]:
    """Everything that one or more steps lead to, without the start."""
    seen: set[int] = set()
    todo = [start]
    while todo:
        for o in related(step, world, (todo.pop(),)):
            if o not in seen and o != start:
                seen.add(o)
                todo.append(o)
    return seen


def applied(relation: Relation, world: World, sets: Sequence[set[int]]) -> set[int]:
    """A reference applied to sets: the union over all tuples, without any member of the argument sets."""
    found: set[int] = set()
    for arguments in itertools.product(*sets):
        found |= related(relation, world, arguments)
    for one in sets:
        found -= one
    return found


def slots(relations: dict[str, Relation], world: World, targets: Sequence[int], pointers: Pointers) -> list[set[int]]:
    """The action's objects, then what each pointer finds from the slots before it."""
    held = [{target} for target in targets]
    for name, arguments in pointers:
        held.append(applied(relations[name], world, [held[k] for k in arguments]))
    return held


def aggregate(numbers: list[float], how: str) -> float:
    """g: one number for a set."""
    if how == "mean":
        return math.fsum(numbers) / len(numbers)
    if how == "sum":
        return math.fsum(numbers)
    return max(numbers) if how == "max" else min(numbers)


# -- predictors ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Net:
    """Layers [(W, b), ...] with W a list of input rows."""

    layers: list[tuple[list[list[float]], list[float]]]
    activation: str
    skips: bool = False

    def __call__(self, x: list[float]) -> list[float]:
        if self.skips:
            return self.residual(x)
        for depth in range(len(self.layers)):
            x = self.layer(depth, x)
            if depth < len(self.layers) - 1:
                x = [activate(self.activation, value) for value in x]
        return x

    def layer(self, depth: int, x: list[float]) -> list[float]:
        weight, bias = self.layers[depth]
        return [math.fsum([b, *(x[i] * weight[i][o] for i in range(len(x)))]) for o, b in enumerate(bias)]

    def residual(self, x: list[float]) -> list[float]:
        """Two layers in, any number of pairs whose answer is added to what they were given, two layers out."""
        for first in range(0, len(self.layers), 2):
            answer = self.layer(first + 1, [activate(self.activation, value) for value in self.layer(first, x)])
            between = first not in (0, len(self.layers) - 2)
            x = [a + b for a, b in zip(x, answer, strict=True)] if between else answer
        return x


def activate(name: str, value: float) -> float:
    if name == "relu":
        return max(value, 0.0)
    return math.tanh(value) if name == "tanh" else value / (1.0 + math.exp(-value))


def softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


def clamped(raw: float) -> float:
    """A log variance kept smoothly between -18 and 8."""
    return -18.0 + softplus(8.0 - softplus(8.0 - raw) + 18.0)


@dataclasses.dataclass
class Phi:
    """The predictor: for every member, slot and property a mean and a variance (without resolution).

    A member is two nets, or one whose answers are all means and then all variances.
    """

    members: list[tuple[Net, Net | None]]
    x_mean: list[float]
    x_scale: list[float]
    y_mean: list[list[float]]
    y_scale: list[list[float]]

    def __call__(self, x: list[float]) -> list[list[list[tuple[float, float]]]]:
        normal = [(v - m) / s for v, m, s in zip(x, self.x_mean, self.x_scale, strict=True)]
        width = len(self.y_mean[0])
        answers = []
        for mean_net, variance_net in self.members:
            means = mean_net(normal)
            half = len(means) // 2
            means, raws = (means[:half], means[half:]) if variance_net is None else (means, variance_net(normal))
            member = []
            for j, (centres, scales) in enumerate(zip(self.y_mean, self.y_scale, strict=True)):
                row = []
                for q in range(width):
                    mean = centres[q] + scales[q] * means[j * width + q]
                    row.append((mean, scales[q] ** 2 * math.exp(clamped(raws[j * width + q]))))
                member.append(row)
            answers.append(member)
        return answers


# -- rules ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Language:
    """What the oracle needs to know of a domain."""

    properties: list[str]
    dynamic: list[str]
    resolution: dict[str, float]
    relations: dict[str, Relation]
    aggregators: dict[str, tuple[str, ...]]
    period: dict[str, float] = dataclasses.field(default_factory=dict)

    def shown(self, obj: Any, inputs: list[str]) -> list[float]:
        """What a predictor sees of an object: cos and sin of what comes round again, everything else as it is."""
        found = []
        for name in inputs:
            value = getattr(obj, name)
            if name in self.period:
                turn = 2 * math.pi * value / self.period[name]
                found += [math.cos(turn), math.sin(turn)]
            else:
                found.append(value)
        return found


@dataclasses.dataclass
class Call:
    """a: an action's name, the positions of its objects, its parameters."""

    action: str
    objects: tuple[int, ...]
    parameters: tuple[float, ...]


@dataclasses.dataclass
class OracleRule:
    """T = (A, Gamma, Delta, phi, v)."""

    language: Language
    action: str
    gamma: Pointers
    delta: Pointers
    phi: Phi
    default_variance: dict[str, float]
    targets: dict[str, str]
    inputs: list[str]
    dropped: frozenset[int] = frozenset()  # entries of x, by position
    outliers: dict[str, tuple[float, float]] | None = None  # (share, variance)
    extra: dict[tuple[int, str], set[int]] = dataclasses.field(default_factory=dict)  # (pointer, aggregator) -> which
    copula: tuple[list[list[float]], list[float]] | None = None  # loadings by slot and property, shares apart

    def score(self, world: World, call: Call) -> int:
        if call.action != self.action:
            return 0
        relations = self.language.relations
        held = slots(relations, world, call.objects, self.gamma) + slots(relations, world, call.objects, self.delta)
        return len(self.gamma) + len(self.delta) + 1 if all(held) else 0

    def x(self, world: World, call: Call) -> list[float]:
        held = slots(self.language.relations, world, call.objects, self.gamma)
        result = list(call.parameters)
        for target in call.objects:
            result += self.language.shown(world[target], self.inputs)
        position, dropped = len(result), self.dropped
        result = [value for k, value in enumerate(result) if k not in dropped]
        for pointer, (members, (name, _)) in enumerate(zip(held[len(call.objects) :], self.gamma, strict=True)):
            for how in self.language.aggregators[name]:
                numbers = self.summary(world, members, how)
                result += [value for k, value in enumerate(numbers, position) if k not in dropped]
                position += len(numbers)
            for how in ("mean", "max", "min", "sum", "count"):
                numbers = self.summary(world, members, how)
                result += [numbers[k] for k in sorted(self.extra.get((pointer, how), ()))]
        return result

    def summary(self, world: World, members: set[int], how: str) -> list[float]:
        """What an aggregator says of a set."""
        if how == "count":
            return [float(len(members))]
        rows = [self.language.shown(world[o], self.inputs) for o in sorted(members)]
        return [aggregate(list(column), how) for column in zip(*rows, strict=True)]

    def loadings(self, world: World, call: Call) -> dict[tuple[int, str], float]:
        """How much a value has in common with those of other objects, for each that the rule predicts."""
        if self.copula is None:
            return {}
        held, mixtures = slots(self.language.relations, world, call.objects, self.delta), self.mixtures(world, call)
        result = {}
        for o in sorted(set().union(*held)):
            speaking = [j for j, members in enumerate(held) if o in members]
            for q, name in enumerate(self.language.dynamic):
                _, variance = mixture_moments(mixtures[o, name])
                own = math.fsum(self.copula[0][j][q] for j in speaking) / len(speaking)
                result[o, name] = own * math.sqrt(1 - self.language.resolution[name] ** 2 / variance)
        return result

    def beyond(self, world: World, call: Call, after: World) -> float:
        """log p(s') minus the sum of the values' own: Gaussian copulas with the whole covariance written out."""
        loads, mixtures, total = self.loadings(world, call), self.mixtures(world, call), 0.0
        for name, apart in zip(self.language.dynamic, self.copula[1] if self.copula else (), strict=False):
            keys = [key for key in loads if key[1] == name]
            scores = [normal_score(mixtures[key], getattr(after[key[0]], name)) for key in keys]
            joint = log_correlated(scores, [loads[key] for key in keys])
            shared = math.exp(joint - math.fsum(log_normal(z, 0.0, 1.0) for z in scores))
            total += math.log((1 - apart) * shared + apart)
        return total

    def mixtures(self, world: World, call: Call) -> dict[tuple[int, str], Mixture]:
        """p(s'[o, P]) as a list of weighted Gaussians, for every object and changeable property."""
        held = slots(self.language.relations, world, call.objects, self.delta)
        answers = self.phi(self.x(world, call))
        result: dict[tuple[int, str], Mixture] = {}
        for o, obj in enumerate(world):
            speaking = [j for j, members in enumerate(held) if o in members]
            for q, name in enumerate(self.language.dynamic):
                here, floor = getattr(obj, name), self.language.resolution[name] ** 2
                if not speaking:
                    result[o, name] = [(1.0, here, self.default_variance[name] + floor)]
                    if self.outliers is not None:
                        share, wide = self.outliers[name]
                        narrow = self.default_variance[name] + floor
                        result[o, name] = [(1 - share, here, narrow), (share, here, wide + floor)]
                    continue
                base = here if self.targets[name] == "change" else 0.0
                share = 1.0 / (len(speaking) * len(answers))
                result[o, name] = [
                    (share, base + member[j][q][0], member[j][q][1] + floor) for member in answers for j in speaking
                ]
        return result


# -- eq. 1 ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class OracleModel:
    """Eq. 1: the mean of the joints of the best rules, or everything stays."""

    language: Language
    rules: list[OracleRule]
    default_variance: dict[str, float]

    def scores(self, world: World, call: Call) -> list[int]:
        return [rule.score(world, call) for rule in self.rules]

    def firing(self, world: World, call: Call) -> list[int]:
        scores = self.scores(world, call)
        return [k for k, score in enumerate(scores) if score > 0 and score == max(scores)]

    def joints(self, world: World, call: Call) -> list[dict[tuple[int, str], Mixture]]:
        """One product density for each tied rule; one that stays put if none applies."""
        found = [self.rules[k].mixtures(world, call) for k in self.firing(world, call)]
        if found:
            return found
        language = self.language
        still: dict[tuple[int, str], Mixture] = {}
        for o, obj in enumerate(world):
            for name in language.dynamic:
                variance = self.default_variance[name] + language.resolution[name] ** 2
                still[o, name] = [(1.0, getattr(obj, name), variance)]
        return [still]

    def log_prob(self, world: World, call: Call, after: World) -> float:
        firing = self.firing(world, call)
        beyond = [self.rules[k].beyond(world, call, after) for k in firing] or [0.0]
        totals = [
            more + math.fsum(log_mixture(mixture, getattr(after[o], name)) for (o, name), mixture in joint.items())
            for joint, more in zip(self.joints(world, call), beyond, strict=True)
        ]
        return log_sum_exp(totals) - math.log(len(totals))

    def marginals(self, world: World, call: Call) -> dict[tuple[int, str], Mixture]:
        """The density of each value on its own."""
        joints = self.joints(world, call)
        return {key: [(w / len(joints), m, v) for joint in joints for w, m, v in joint[key]] for key in joints[0]}

    def log_values(self, world: World, call: Call, after: World) -> dict[tuple[int, str], float]:
        return {
            key: log_mixture(mix, getattr(after[key[0]], key[1])) for key, mix in self.marginals(world, call).items()
        }

    def moments(self, world: World, call: Call) -> dict[tuple[int, str], tuple[float, float]]:
        """(mean, variance) of each value."""
        return {key: mixture_moments(mixture) for key, mixture in self.marginals(world, call).items()}

    def covariance(self, world: World, call: Call, a: tuple[int, str], b: tuple[int, str]) -> float:
        """Of two different values: only the choice among tied rules ties them together."""
        joints = self.joints(world, call)
        means = [[math.fsum(w * m for w, m, _ in joint[key]) for joint in joints] for key in (a, b)]
        centre = [math.fsum(row) / len(row) for row in means]
        return math.fsum((p - centre[0]) * (q - centre[1]) for p, q in zip(*means, strict=True)) / len(joints)
