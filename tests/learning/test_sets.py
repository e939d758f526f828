"""How a set is seen is found, not given: sums, sizes and extremes that a reference does not offer."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import spare
from spare.learning.fit import fit
from tests.learning.helpers import quick
from tests.rules import make_rule

ON = spare.Reference("on", lambda o, p: abs(o.x - p.x) < 0.5)
DOMAIN = spare.Domain(
    "carts",
    properties=[
        spare.Property("x", resolution=0.01),
        spare.Property("mass", static=True),
        spare.Property("colour", static=True),
    ],
    references=[ON],  # by its mean alone
    actions=[spare.Action("pull", objects=("cart",), parameters=("force",))],
)
LOADED = spare.Shell(1, (spare.Pointer("on", (0,)),))


def carts(count: int, seed: int, matters: str) -> spare.Experience:
    """A cart and one to four boxes on it; how far it is pulled depends on what `matters` of their masses."""
    rng, builder = np.random.default_rng(seed), spare.Builder(DOMAIN)
    for _ in range(count):
        boxes = int(rng.integers(1, 5))
        place = rng.uniform(0, 5)
        x = np.append(place, place + rng.uniform(-0.3, 0.3, boxes))
        values = np.column_stack([x, rng.uniform(0.5, 2.0, boxes + 1), rng.uniform(-1, 1, boxes + 1)])
        masses, force = values[1:, 1], rng.uniform(1, 2)
        load = {"sum": masses.sum(), "max": 2 * masses.max(), "mean": 3 * masses.mean()}[matters]
        after = values.copy()
        after[:, 0] += 2 * force / (1 + load) + rng.normal(0, 0.02, boxes + 1)
        states = [spare.State(tuple(range(boxes + 1)), one) for one in (values, after)]
        builder.add(states[0], spare.ActionCall("pull", (0,), (float(force),)), states[1])
    return builder.build()


def learned(matters: str, count: int = 150) -> spare.Rule:
    """The rule with these lists, refined; no list is searched for beyond the first."""
    chosen = quick(training={"steps": 1200, "hidden": (32,), "members": 2}, max_references=1, refine=True, folds="auto")
    (rule, *_) = fit(DOMAIN, carts(count, 0, matters), seed=0, preset=chosen).model.rules
    assert rule.gamma == LOADED
    return rule


@pytest.mark.slow
@pytest.mark.parametrize("matters", ["sum", "max"])
def test_an_aggregator_that_the_reference_does_not_offer_is_found(matters: str) -> None:
    """The sum, or what tells it beside the mean: the size; and the largest."""
    rule = learned(matters)
    wanted = {"sum": {"sum(b1).mass", "count(b1)"}, "max": {"max(b1).mass"}}[matters]
    assert wanted & {*rule.spec.features.extra}
    assert {*rule.spec.features.extra} <= {*rule.input_names}


@pytest.mark.slow
def test_nothing_is_added_where_the_offer_is_enough(tmp_path: pathlib.Path) -> None:
    """What the reference's own aggregator tells needs no other."""
    assert learned("mean").spec.features.extra == ()


@pytest.mark.slow
def test_added_inputs_bring_unseen_likelihood_and_are_saved(tmp_path: pathlib.Path) -> None:
    """At least half a nat per transition beside the same learner that may not add; the file and the words name them."""
    data, unseen = carts(150, 0, "sum"), carts(200, 1, "sum")
    training = {"steps": 1200, "hidden": (32,), "members": 2}
    plain, more = (
        fit(DOMAIN, data, seed=0, preset=quick(training=training, max_references=1, refine=on, folds="auto")).model
        for on in (False, True)
    )
    assert more.log_prob(unseen).mean() > plain.log_prob(unseen).mean() + 0.5
    assert "and with " in " ".join(str(more).split())  # it may be wrapped
    more.save(tmp_path / "m.spare")
    again = spare.load(tmp_path / "m.spare", more.domain)
    assert again.rules[0].spec.features.extra == more.rules[0].spec.features.extra
    np.testing.assert_array_equal(again.log_prob(unseen), more.log_prob(unseen))


@pytest.mark.slow
def test_sets_of_one_size_are_not_counted_and_unknown_entries_are_refused() -> None:
    """With two boxes each, sum and size tell nothing that the mean does not."""
    data = carts(120, 2, "sum")
    pairs = data[np.flatnonzero(data.counts == 3)]
    chosen = quick(training={"steps": 600, "hidden": (32,), "members": 2}, max_references=1, refine=True, folds=2)
    (rule, *_) = fit(DOMAIN, pairs, seed=0, preset=chosen).model.rules
    assert not any(name.startswith(("sum", "count")) for name in rule.spec.features.extra)
    for name in ("mean(b1).mass", "sum(b2).mass", "median(b1).mass", "force"):
        with pytest.raises(spare.DefinitionError, match="input"):
            make_rule(DOMAIN, "pull", LOADED, rule.predictor, np.ones(1), extra=(name,))
