"""Rules with heads against a slow, plain second opinion, and what a model of them must keep to."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import spare
from spare.model.headrule import HeadRule
from spare.model.heads import HeadSpec
from spare.model.model import Model
from spare.testing import check_model
from tests.oracle_heads import RULES, domain, head, make_chain, make_data, make_rule, opinion


@pytest.mark.parametrize(("kind", "seed"), [("rule", 0), ("rule", 1), ("chain", 0), ("chain", 1)])
def test_densities_are_those_of_the_formulas(kind, seed):
    rule = RULES[kind](seed)
    model, data = Model(domain, [rule], np.zeros(2)), make_data(seed, 12)
    whole, single = model.log_prob(data), model.log_prob_values(data)
    shares = model.responsibilities(data)
    for i in range(len(data)):
        total, values, posterior = opinion(rule, data, i)
        np.testing.assert_allclose(shares[i], posterior, atol=2e-3)
        np.testing.assert_allclose(whole[i], total, rtol=2e-4, atol=2e-3)
        np.testing.assert_allclose(single[data.offsets[i] : data.offsets[i + 1]], values, rtol=2e-4, atol=2e-3)


def test_draws_have_the_moments_and_the_density():
    model, data = Model(domain, [make_rule(3)], np.zeros(2)), make_data(3, 6)
    draws = np.stack([model.sample(data, seed)[:, :2] for seed in range(1500)]).astype(np.float64)
    mean, std = model.moments(data)
    error = std[:, :2] / math.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - mean[:, :2]) < 5.5 * error).all()
    np.testing.assert_allclose(draws.std(axis=0), std[:, :2], rtol=0.25)


@pytest.mark.parametrize("kind", RULES)
def test_a_model_of_heads_keeps_the_contract_and_its_bits(kind, tmp_path):
    model, data = Model(domain, [RULES[kind](5)], np.zeros(2)), make_data(5, 30)
    check_model(model, data).require()
    model.save(tmp_path / "m.spare")
    again = spare.load(tmp_path / "m.spare", domain)
    assert again == model
    np.testing.assert_array_equal(again.log_prob(data), model.log_prob(data))
    assert "each of b2" in str(again)
    assert "one outcome for all of them" in str(again)
    told = " ".join(str(again).split())
    assert ("expected change of y of the one before" in told) == (kind == "chain")
    assert ("3 outcomes (3 ways to change)" in told) == (kind == "chain")


def test_what_does_not_fit_is_refused():
    rule = make_rule(0)
    with pytest.raises(spare.DefinitionError, match="need a gate"):
        HeadRule(domain, rule.spec, rule.heads, rule.process)
    with pytest.raises(spare.DefinitionError, match="what it points at alone"):
        HeadRule(domain, rule.spec, (), head(np.random.default_rng(0), HeadSpec(0, ("d",))))
    with pytest.raises(spare.DefinitionError, match="1 to 4 outcomes"):
        HeadSpec(0, outcomes=5)


def test_only_a_chain_whose_first_step_is_known_can_be_followed():
    """`previous` is for the closure's own head, with one outcome, after that of what it starts from."""
    rule = make_chain(0)
    target, first, follows, other = rule.heads
    cases = [
        ((target, follows), "earlier head"),
        ((follows, first), "earlier head"),
        ((dataclasses.replace(first, spec=dataclasses.replace(first.spec, slot=0)), follows), "earlier head"),
        ((head(np.random.default_rng(0), HeadSpec(1, (), 2)), follows), "earlier head"),
        ((first, head(np.random.default_rng(0), HeadSpec(3, ("previous(b2).x",)))), "of that slot"),
        ((first, head(np.random.default_rng(0), HeadSpec(2, ("previous(b2).x",), 2))), "with one outcome"),
        ((first, head(np.random.default_rng(0), HeadSpec(2, ("previous(b1).x",)))), r"previous\(b1\).x"),
    ]
    for heads, said in cases:
        with pytest.raises(spare.DefinitionError, match=said):
            HeadRule(domain, rule.spec, heads, rule.process, rule.gate)
    assert HeadRule(domain, rule.spec, (first, follows, other), rule.process, rule.gate).heads[1] is follows


def test_what_a_chain_sees_of_the_step_before_is_known_as_a_range():
    """Its ranges have `previous`; two heads of one slot may both see it."""
    rule = make_chain(0)
    names = [gauge.name for gauge in rule.gauges]
    assert names.count("previous(touching*(near(target))).x") == 1
    twice = HeadRule(domain, rule.spec, (*rule.heads[1:3], rule.heads[2]), rule.process)
    model, data = Model(domain, [twice], np.zeros(2)), make_data(0, 3)
    assert np.isfinite(model.log_prob(data)).all()
