"""The random cases really contain what they are there to test; otherwise agreement would mean little."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests import oracle
from tests.oracle import World
from tests.strategies import case, plain, plan


@pytest.mark.slow
def test_every_kind_of_case_is_drawn() -> None:
    seen: Counter[str] = Counter()
    for seed in range(30):
        drawn = case(plan(random.Random(seed), ties=seed % 3 == 0), seed, transitions=12)
        for i in range(len(drawn.data)):
            world, call, _ = plain(drawn.data, i)
            _count(seen, drawn.oracle, world, call)
        for rule in drawn.model.rules:
            seen[f"{rule.predictor.mean_net.biases[-1].shape[0]} members"] += 1  # pyright: ignore
            seen[f"{len(rule.predictor.mean_net.weights)} layers"] += 1  # pyright: ignore
            seen["one network for both"] += rule.predictor.variance_net is None  # pyright: ignore
            seen["gamma is not delta"] += rule.gamma != rule.delta
            seen["two roles"] += rule.gamma.roles == 2
            seen["drops some"] += bool(rule.spec.features.dropped)
            seen["outliers"] += rule.noise.outlier_share is not None
            seen["copula"] += rule.copula is not None
            seen["extra ones"] += bool(rule.spec.features.extra)
            seen["change"] += "change" in rule.spec.targets
        seen["several actions"] += len(drawn.model.domain.actions) > 1
    missing = [kind for kind in _WANTED if seen[kind] < 2]
    assert not missing, seen


_WANTED = (
    *("none applies", "fires", "tie", "lower score", "set", "overlap", "arity 2", "pointer from a set"),
    *("1 members", "2 members", "3 members", "1 layers", "2 layers", "3 layers", "4 layers", "6 layers"),
    "one network for both",
    *("gamma is not delta", "two roles", "change", "several actions", "drops some", "outliers"),
    *("copula", "extra ones", "several together"),
)


def _count(seen: Counter[str], model: oracle.OracleModel, world: World, call: oracle.Call) -> None:
    scores = model.scores(world, call)
    firing = model.firing(world, call)
    seen["none applies"] += not firing
    seen["fires"] += bool(firing)
    seen["tie"] += len(firing) > 1
    seen["lower score"] += any(0 < score < max(scores) for score in scores)
    for k in firing:
        rule = model.rules[k]
        seen["several together"] += len({o for o, _ in rule.loadings(world, call)}) > 1
        for pointers in (rule.gamma, rule.delta):
            held = oracle.slots(model.language.relations, world, call.objects, pointers)
            seen["set"] += any(len(one) > 1 for one in held)
            seen["overlap"] += any(a & b for j, a in enumerate(held) for b in held[:j])
            seen["arity 2"] += any(len(arguments) == 2 for _, arguments in pointers)
            seen["pointer from a set"] += any(len(held[j]) > 1 for _, arguments in pointers for j in arguments)
