"""Small good files to break: models with several rules and members, experience with text ids and information."""

from __future__ import annotations

import pathlib
import random

import jax
import jax.numpy as jnp
import numpy as np

import spare
from spare.lab.worlds import chain
from spare.lab.worlds import queue as toy
from spare.model.copula import OneFactorCopula
from spare.model.headrule import Gate, HeadRule, HeadRuleSpec
from spare.model.heads import HeadSpec
from spare.model.noise import DefaultNoise
from tests.fuzz.mutations import parquet_variants
from tests.oracle_heads import head, network
from tests.rules import fresh_predictor
from tests.typed import typed_domain, typed_experience


def model() -> spare.Model:
    """Two rules with networks of two members, Delta apart from Gamma, changes as targets."""
    gamma = spare.Shell(1, (spare.Pointer("line", (0,)), spare.Pointer("behind", (0,))))
    rules = []
    for k, (delta, inputs) in enumerate(((gamma, None), (spare.Shell(1), ("x", "y")))):
        size = 1 + 3 * (3 if inputs is None else 2)
        predictor = fresh_predictor(jax.random.key(k), size, (delta.slots, 2), hidden=(5, 4), members=2)
        spec = spare.RuleSpec.of(toy.domain, "usher", gamma, delta, targets=("change", "absolute"), inputs=inputs)
        rules.append(spare.Rule(toy.domain, spec, predictor, np.array([0.1, 0.2])))
    shares = [{"share": 0.75, "typical": 3}, {"share": 0.25, "typical": 8}]
    return spare.Model(toy.domain, rules, np.array([1.0, 2.0]), {"seed": 3, "note": "ü", "rules": shares})


def modern() -> spare.Model:
    """What the paper's rules lack: outliers, features left out and added, one network for both, a copula."""
    shell = spare.Shell(1, (spare.Pointer("behind", (0,)),))
    predictor = fresh_predictor(jax.random.key(5), 1 + 2 * 3 - 1 + 2, (2, 2), hidden=(4,) * 3, members=2, residual=True)
    noise = DefaultNoise(np.array([0.1, 0.2]), np.array([0.1, 0.2]), np.array([1.0, 2.0]))
    copula = OneFactorCopula(np.array([[0.9, 0.0], [0.5, 0.0]]), np.array([0.1, 0.5]))
    extra = ("max(b1).x", "count(b1)")
    spec = spare.RuleSpec.of(toy.domain, "usher", shell, dropped=("target.x",), extra=extra)
    return spare.Model(toy.domain, [spare.Rule(toy.domain, spec, predictor, noise, copula)], np.ones(2), {"seed": 3})


def headed() -> spare.Model:
    """A rule with heads: a chain that is followed step by step, and three free outcomes of the whole rule."""
    rng = np.random.default_rng(0)
    pointers = (spare.Pointer("behind*", (0,)), spare.Pointer("ahead", (0,)), spare.Pointer("nearest", (0,)))
    heads = (
        head(rng, HeadSpec(0, ("d",))),
        head(rng, HeadSpec(1, ("previous(b1).x", "own.mass"))),
        head(rng, HeadSpec(2, ("d", "count(b1)"), 3, False, "rule"), (0.5, 0.2)),
        head(rng, HeadSpec(3, (), 3, False, "rule"), (0.5, 0.2)),
    )
    gate = Gate(("d",), network(rng, 1, 3), jnp.zeros(1), jnp.ones(1))
    spec = HeadRuleSpec("pull", spare.Shell(1, pointers), (), True)
    rule = HeadRule(chain.domain, spec, heads, head(rng, HeadSpec(0, (), 1, True)), gate, 0.2)
    return spare.Model(chain.domain, [rule], np.ones(2), {"seed": 3})


def models(folder: pathlib.Path) -> list[bytes]:
    """Three models with rules, two without (one of a world with types), and the true one of the queue world."""
    found = []
    typed_world = typed().resolved()[0].domain
    nothing = spare.Model(typed_world, [], np.ones(len(typed_world.dynamic)))
    for one in (model(), modern(), headed(), spare.Model(toy.domain, [], np.ones(2)), toy.true_model(), nothing):
        one.save(folder / "good.spare")
        found.append((folder / "good.spare").read_bytes())
    return found


def experience() -> spare.Experience:
    """Twelve transitions with text ids, weights and information of every type."""
    data = toy.generate(12, seed=3)
    ids = [f"person {k % 20} ü" for k in range(len(data.values))]
    return spare.Experience.from_arrays(
        toy.domain,
        values=data.values,
        next_values=data.next_values,
        offsets=data.offsets,
        action=data.action,
        objects=data.objects,
        parameters=data.parameters,
        ids=ids,
        weights=np.arange(12) / 4,
        info={"note": ["=1+1", "ü"] * 6, "turn": np.arange(12), "gain": np.full(12, np.nan), "good": [True] * 12},
        metadata={"source": {"deep": [1, 2.5, None]}},
    )


def typed() -> spare.Experience:
    """A world with everything: types, links, relations, arrivals, further calls."""
    for seed in range(100):
        rnd = random.Random(seed)
        domain = spare.register(typed_domain(rnd))
        data = typed_experience(rnd, domain, 12)
        if data.arrivals is not None and data.vanished is not None and data.calls is not None and data.next_pairs:
            return data
    raise AssertionError("no seed gives such a world")


def parquets(folder: pathlib.Path) -> list[bytes]:
    """Experience with numbers and with texts as ids, and of a world with types, as we write it and as others might."""
    found = []
    for one in (toy.generate(12, seed=2), experience(), typed()):
        one.save(folder / "good.parquet")
        found += [(folder / "good.parquet").read_bytes(), *parquet_variants(str(folder / "good.parquet"))]
    return found
