"""Several ways in which one action works, and chains of any length: what the general learner makes of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import spare
from spare.lab.worlds.catalogue import KNOWN
from spare.learning.presets import Heads, Schedule, find_preset
from spare.model.headrule import HeadRule

QUICK = dataclasses.replace(
    find_preset("default"), heads=Heads(search=Schedule(steps=300), final=Schedule(steps=600), members=2)
)


def kicks(slopes: tuple[float, ...], n: int = 160) -> spare.Experience:
    """A kicked thing goes by slope times d; nothing shows which of the slopes is its own. Another thing lies by."""
    domain = spare.Domain(
        "kicks",
        properties=[spare.Property("x", resolution=1e-3)],
        references=[],
        actions=[spare.Action("kick", ("thing",), ("d",))],
    )
    rng = np.random.default_rng(1)
    values, d = rng.uniform(-1, 1, (2 * n, 1)), rng.uniform(0.1, 1, n)
    after = values + 0.003 * rng.standard_normal(values.shape)
    after[::2, 0] += np.array(slopes)[rng.integers(0, len(slopes), n)] * d + 0.01 * rng.standard_normal(n)
    return spare.Experience.from_arrays(
        domain,
        values=values,
        next_values=after,
        offsets=2 * np.arange(n + 1),
        action=np.zeros(n, int),
        objects=np.zeros((n, 1), int),
        parameters=d[:, None],
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slopes", "pinned", "said"),
    [
        ((0.9, 0.3, 0.0), True, "the 3 rules are outcomes of one rule"),
        ((0.9, 0.3, -0.6), False, "the 3 rules are outcomes of one rule"),
        ((0.9,), False, "3 rules were asked for, but held-out transitions tell 1 mechanism apart"),
    ],
)
def test_rules_that_were_asked_for_are_outcomes_of_one(slopes, pinned, said):
    data = kicks(slopes)
    found = spare.fit(data.domain, data, seed=0, preset=QUICK, rules=3, threads=1)
    (rule,) = found.model.rules
    assert isinstance(rule, HeadRule)
    assert (rule.outcomes, rule.heads[0].spec.pinned) == (len(slopes), pinned)
    assert any(said in note for note in found.notes)
    assert found.model.notes == found.notes
    call = data.actions[0]
    means = [one.mean[0, 0] for one in found.model.predict(data.states[0], call).outcomes[0].outcomes] if pinned else []
    expected = sorted(data.values[0, 0] + slope * call.parameters[0] for slope in slopes)
    assert not means or np.allclose(sorted(means), expected, atol=0.03)


@pytest.mark.slow
def test_a_chain_is_followed_step_by_step_however_long_it_is():
    """Trained with up to four links: the head of links sees the step before and no depth, so twelve are no more."""
    world = KNOWN["chain"]
    found = spare.fit(world.domain, world.generate(120, 0), seed=0, preset=QUICK, threads=1)
    (rule,) = found.model.rules
    assert isinstance(rule, HeadRule)
    assert rule.show() == "pull(head): behind*(head) -> b1"
    inputs = rule.heads[1].spec.inputs
    assert "previous(b1).x" in inputs
    assert not any(name.startswith("depth") for name in inputs)
    assert "expected change of x of the one before" in str(found.model)
    test = world.generate(60, 1, objects=16, links=12)
    mine = found.model.log_prob_values(test.with_domain(found.model.domain))
    moved = world.movers(test)
    assert (world.truth.log_prob_values(test) - mine)[moved].mean() < 0.3
