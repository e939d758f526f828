"""Rules with heads of random numbers against their second opinion, in other orders of objects, and in files."""

from __future__ import annotations

import pathlib
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spare
from spare.model.model import Model
from tests.oracle_heads import RULES, domain, make_data, opinion
from tests.strategies import MANY, examples, seeds

pytestmark = [pytest.mark.invariant, pytest.mark.slow]
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="spare-heads-"))


@examples(6, per=MANY)
@given(st.sampled_from(sorted(RULES)), seeds)
def test_random_heads_are_those_of_the_formulas(kind: str, seed: int) -> None:
    rule, data = RULES[kind](seed), make_data(seed, 12, (1, 6))
    model = Model(domain, [rule], np.zeros(2))
    whole, single, shares = model.log_prob(data), model.log_prob_values(data), model.responsibilities(data)
    for i in range(len(data)):
        total, values, posterior = opinion(rule, data, i)
        np.testing.assert_allclose(whole[i], total, rtol=1e-3, atol=5e-3)
        np.testing.assert_allclose(single[data.offsets[i] : data.offsets[i + 1]], values, rtol=1e-3, atol=5e-3)
        np.testing.assert_allclose(shares[i], posterior, atol=5e-3)


@examples(6, per=MANY)
@given(st.sampled_from(sorted(RULES)), seeds)
def test_heads_see_no_order_and_come_back_from_files(kind: str, seed: int) -> None:
    model, data = Model(domain, [RULES[kind](seed)], np.zeros(2)), make_data(seed, 12, (1, 6))
    order = np.arange(len(data.values))
    place = np.zeros(len(order), int)
    rng = np.random.default_rng(seed)
    for start, end in zip(data.offsets, data.offsets[1:], strict=False):
        order[start:end] = rng.permutation(order[start:end])
    place[order] = np.arange(len(order))
    turned = spare.Experience.from_arrays(
        domain,
        values=data.values[order],
        next_values=data.next_values[order],
        offsets=data.offsets,
        action=data.action,
        objects=place[data.offsets[:-1, None] + data.objects] - data.offsets[:-1, None],
        parameters=data.parameters,
    )
    np.testing.assert_allclose(model.log_prob(turned), model.log_prob(data), rtol=1e-3, atol=5e-3)
    model.save(FOLDER / "a.spare")
    again = spare.load(FOLDER / "a.spare", domain)
    again.save(FOLDER / "b.spare")
    assert (FOLDER / "a.spare").read_bytes() == (FOLDER / "b.spare").read_bytes()
    assert again == model
