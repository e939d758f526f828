"""Outcomes told apart: against loops, in words, in files, and as a real browser draws them."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.lab.experiments.scenes import scenes
from spare.lab.report.html import Page
from spare.lab.report.learned import scenes_section
from spare.model.evaluation import missing_rules
from spare.model.headrule import HeadRule
from spare.model.heads import Head, HeadSpec, matching
from spare.model.model import Model
from tests.browser import NEEDED, show
from tests.oracle_heads import MEMBERS, domain, head, make_data, make_rule, outcomes, run, softmax


def test_outcomes_of_the_acted_object_are_those_of_the_formulas():
    """By outcome: probability mean w, mean sum w m / sum w, variance sum w (v + (m - mean)²) / sum w, over members."""
    rule, data = make_rule(0), make_data(0, 1)
    found = Model(domain, [rule], np.zeros(2)).predict(data.states[0], data.actions[0])
    choice = found.outcomes[0]
    target, d = int(data.objects[0, 0]), float(data.parameters[0, 0])
    at = choice.objects.index(target)
    place = data.values[:, 0].astype(float)
    line = float((place < place[target]).sum())
    assert rule.gate is not None
    weights = [np.exp(softmax(run(rule.gate.net, m, [d, line]))) for m in range(MEMBERS)]
    said = [outcomes(rule.heads[0], m, [d, place[target], 1.0 if line else 0.0]) for m in range(MEMBERS)]
    drift = np.mean([outcomes(rule.process, m, [])[1][0] for m in range(MEMBERS)], axis=0)
    for k, one in enumerate(choice.outcomes):
        share = np.array([w[k] for w in weights])
        assert one.probability == pytest.approx(share.mean(), abs=1e-4)
        share = (share / share.sum())[:, None]
        means = np.array([s[1][k] for s in said]) + drift + data.values[target, :2]
        mean = (share * means).sum(axis=0)
        np.testing.assert_allclose(one.mean[at, :2], mean, atol=1e-4)
        variance = (share * (np.array([s[2][k] for s in said]) + (means - mean) ** 2)).sum(axis=0)
        np.testing.assert_allclose(one.std[at, :2], np.sqrt(variance), rtol=1e-3)
        assert one.std[at, 2] == 0
    assert [one.name for one in choice.outcomes] == ["it goes on by itself", "it changes"]
    assert sum(one.probability for one in choice.outcomes) == pytest.approx(1)
    assert all(len(one.outcomes) == 3 and len(one.objects) == 1 for one in found.outcomes[1:])


def test_what_was_observed_stands_beside_the_outcome_that_it_belongs_to():
    data = make_data(0, 1)
    found = Model(domain, [make_rule(0)], np.zeros(2)).predict(data.states[0], data.actions[0])
    choice = found.outcomes[0]
    for k, one in enumerate(choice.outcomes):
        after = data.next_states[0].values.copy()
        after[list(choice.objects)] = one.mean
        state = spare.State(data.states[0].ids, after)
        assert np.argmax(found.posterior(choice, state)) == k
        told = [line for line in found.explain(state).splitlines() if "; observed (posterior" in line]
        assert told[0].startswith(f"    {one.name} 0.")
    text = found.explain()
    assert "together, one of 2 outcomes:" in text
    assert "posterior" not in text
    assert "expected to stay" not in text  # the process drifts


def swapped(one: Head) -> Head:
    """The second member's two free outcomes in the other order."""
    order = np.arange(one.spec.outputs(2))
    order[[1, 2]] = [2, 1]
    for start in (3, 7):
        order[start : start + 4] = np.roll(order[start : start + 4], 2)
    assert one.net is not None
    assert one.linear is not None
    weight, bias, linear = map(jnp.asarray, (one.net.weights[-1], one.net.biases[-1], one.linear))
    weight = weight.at[1].set(weight[1][:, order])
    net = dataclasses.replace(
        one.net,
        weights=(*one.net.weights[:-1], weight),
        biases=(*one.net.biases[:-1], bias.at[1].set(bias[1][order])),
    )
    return dataclasses.replace(one, net=net, linear=linear.at[1].set(linear[1][:, order]))


def test_members_that_learned_outcomes_in_another_order_are_matched():
    spec = HeadSpec(0, ("d",), 3, True)
    one = head(np.random.default_rng(0), spec)
    one = jax.tree.map(lambda part: jnp.stack([part[0], part[0]]) if part.ndim > 1 else part, one)
    assert matching([one]).tolist() == [[0, 1, 2]] * 2
    other = swapped(one)
    assert matching([other]).tolist() == [[0, 1, 2], [0, 2, 1]]
    data, base = make_data(1, 8), make_rule(1)
    rules = [HeadRule(domain, base.spec, (part, *base.heads[2:]), base.process) for part in (one, other)]
    shares = [Model(domain, [rule], np.zeros(2)).responsibilities(data) for rule in rules]
    assert shares[0].shape == (8, 3)
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-4)
    np.testing.assert_allclose(shares[0].sum(axis=1), 1, atol=1e-5)


def test_a_model_without_outcomes_has_one_column():
    base, data = make_rule(2), make_data(2, 5)
    rule = HeadRule(domain, base.spec, (), base.process)
    np.testing.assert_array_equal(Model(domain, [rule], np.zeros(2)).responsibilities(data), np.ones((5, 1)))
    assert Model(domain, [], np.ones(2)).responsibilities(data).shape == (5, 0)


def test_notes_stay_with_a_model(tmp_path: pathlib.Path):
    from spare.commands.common import in_words
    from spare.commands.show import summary

    model = Model(domain, [make_rule(0)], np.zeros(2), {"notes": ["NOTHING WAS LEARNED", "more"]})
    model.save(tmp_path / "m.spare")
    again = spare.load(tmp_path / "m.spare", domain)
    assert again.notes == ("NOTHING WAS LEARNED", "more")
    assert in_words(again).startswith("note: NOTHING WAS LEARNED\nnote: more\nheads: 1 rule")
    assert next(iter(summary(again))) == "notes"
    for bad in ("text", [3], ["two\nlines"]):
        with pytest.raises(spare.FileError):
            Model(domain, [], np.ones(2), {"notes": bad}).save(tmp_path / "bad.spare")


def test_scores_by_group_and_what_no_rule_predicts():
    """Everyone's own group; a model without rules fails to predict who jumps, and that is said first."""
    rng, n = np.random.default_rng(0), 60
    values = rng.normal(size=(4 * n, 3))
    after = values.copy()
    after[:, :2] += 0.001 * rng.standard_normal((4 * n, 2))
    after[0::4, 0] += 1.0
    after[1::4, 1] += 1.0
    data = spare.Experience.from_arrays(
        domain,
        values=values,
        next_values=after,
        offsets=np.arange(n + 1) * 4,
        action=np.zeros(n, int),
        objects=np.zeros((n, 1), int),
        parameters=np.ones((n, 1)),
    )
    model = Model(domain, [], np.ones(2))
    result = spare.evaluate(model, data, seed=0, draws=10)
    assert {name: one.objects for name, one in result.groups.items()} == {"acted": n, "moved": n, "bystanders": 2 * n}
    single = model.log_prob_values(data)
    assert result.groups["moved"].per_value == pytest.approx(single[1::4].mean())
    assert result.groups["acted"].rmse["x"] == pytest.approx(1.0, abs=0.01)
    assert len(result.failures) == 2
    assert "NONE OF THEM" in result.failures[1]
    assert next(iter(result.as_dict())) == "failures"
    json.dumps(result.as_dict())
    drifts = Model(domain, [make_rule(0)], np.zeros(2))
    assert drifts.predicted(data).all()
    assert missing_rules(drifts, data) == ()


@pytest.mark.browser
@NEEDED
@pytest.mark.parametrize("dark", [False, True])
def test_each_outcome_is_drawn(tmp_path: pathlib.Path, dark: bool):
    """Without one of two outcomes the picture is another one; nothing is complained of."""
    data = make_data(0, 1)
    (scene,) = scenes(data, [0], Model(domain, [make_rule(0)], np.zeros(2)))
    acted = next(one for one in scene["objects"] if one["role"] == "acted")
    assert [one["name"] for one in acted["outcomes"]] == ["it goes on by itself", "it changes"]
    for one in acted["outcomes"]:
        assert np.linalg.eigvalsh(np.array(one["covariance"])[:2, :2]).min() > 0
    pictures = []
    for kept in (2, 1):
        acted["outcomes"] = acted["outcomes"][:kept]
        section = scenes_section([scene])
        assert section is not None
        Page("outcomes", "", [section]).write(tmp_path / "page.html")
        shown = show(
            tmp_path / "page.html",
            dark=dark,
            wait="document.querySelector('figure.scene').dataset.drawn === 'yes'",
            ask={"picture": "document.querySelector('canvas').toDataURL()"},
            settle=0.2,
        )
        assert not shown.complaints
        assert not shown.calls
        assert "fainter the less probable" in shown.text
        pictures.append(shown.answers["picture"])
    assert pictures[0] != pictures[1]
