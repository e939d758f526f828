"""Many rules: distributions over shells, memberships, one E- and M-step against plain loops, resuming."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import spare
from spare.errors import FileError, FitError, UsageError
from spare.lab.worlds import queue as toy
from spare.language.references import Pointer, Shell
from spare.learning.cache import Kept, open_run
from spare.learning.clusters import Clustering, memberships, separation
from spare.learning.em import EM
from spare.learning.fit import Task, make_dataset
from spare.learning.many import ManyResult
from spare.learning.mixing import Mixing
from spare.learning.mixtures import ShellWeights, mix
from spare.learning.presets import Preset, Search, Training
from spare.learning.train import fit_jobs
from tests.learning import many_worlds
from tests.learning.helpers import quick

pytestmark = pytest.mark.slow

SMALL = Preset(
    "small",
    Training(hidden=(16,), activation="silu", phases=("joint",), steps=120, learning_rate=5e-3),
    Search(max_references=1),
    targets="change",
)
SHELLS = [Shell(1), Shell(1, (Pointer("behind", (0,)),)), Shell(1, (Pointer("ahead", (0,)),))]


def _mixed(samples: int = 60, seed: int = 0) -> spare.Experience:
    alone = toy.generate(samples, seed, followers=0, longest=1, lines=2)
    pairs = toy.generate(samples, seed + 1, followers=1, longest=2, lines=2)
    return spare.concatenate([alone, pairs])


def _em(data: spare.Experience, **mixing: object) -> EM:
    dataset = make_dataset(data, "usher", SMALL)
    settings = Mixing(2, iterations=1, polish=0, kappa=2, **mixing)  # type: ignore[arg-type]
    return EM(dataset, Task(SMALL, 0, threads=1).plan(data, dataset), settings)


@given(st.lists(st.floats(-500, 500), min_size=1, max_size=3), st.floats(0, 0.5), st.integers(3, 1000))
def test_explored_shells_share_one_minus_epsilon_by_likelihood(losses: list[float], epsilon: float, total: int) -> None:
    given_losses = dict(zip(SHELLS, losses, strict=False))
    weights = ShellWeights.from_losses(given_losses, epsilon, total)
    explored = sum(weights[shell] for shell in given_losses)
    expected = 1.0 if len(given_losses) == total else 1 - epsilon
    assert math.isclose(explored, expected, rel_tol=1e-9)
    assert math.isclose(explored + weights.rest * (total - len(given_losses)), 1.0, rel_tol=1e-9)
    for a in given_losses:
        for b in given_losses:
            if abs(given_losses[a] - given_losses[b]) < 50 and min(weights[a], weights[b]) > 1e-290:  # not underflown
                ratio = weights[a] / weights[b]
                assert math.isclose(ratio, math.exp(given_losses[b] - given_losses[a]), rel_tol=1e-6)


def test_votes_keep_the_mass_of_the_shells_voted_on() -> None:
    weights = ShellWeights.from_losses({SHELLS[0]: 1.0, SHELLS[1]: 0.0, SHELLS[2]: 3.0}, 0.1, 50)
    before = weights[SHELLS[0]] + weights[SHELLS[1]]
    voted = weights.voted({SHELLS[0]: 3.0, SHELLS[1]: 1.0})
    assert voted[SHELLS[0]] == pytest.approx(0.75 * before)
    assert voted[SHELLS[1]] == pytest.approx(0.25 * before)
    assert voted[SHELLS[2]] == weights[SHELLS[2]]
    assert voted.top(1) == (SHELLS[0],)


@given(st.lists(st.tuples(st.floats(0.01, 5), st.floats(-2000, 2000)), min_size=1, max_size=5))
def test_mixing_in_log_space_does_not_underflow(parts: list[tuple[float, float]]) -> None:
    weights, terms = [w for w, _ in parts], np.array([[t] for _, t in parts])
    top = max(t for _, t in parts)
    plain = top + math.log(sum(w * math.exp(t - top) for w, t in parts) / sum(weights))
    assert mix(weights, terms)[0] == pytest.approx(plain, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", ["discrete", "inverse", "inverse-square"])
def test_memberships_are_distributions_that_follow_distance(kind: str) -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, 1, (40, 2)), rng.normal(20, 1, (60, 2))])
    z = memberships(points, np.ones(100), 2, Clustering(kind), seed=0)  # type: ignore[arg-type]
    assert np.allclose(z.sum(axis=1), 1)
    labels = np.repeat(["a", "b"], [40, 60])
    names, table = separation(z, labels)
    assert names.tolist() == ["a", "b"]
    assert (np.diag(table) > {"discrete": 0.99, "inverse": 0.85, "inverse-square": 0.97}[kind]).all()
    assert np.array_equal(z, memberships(points, np.ones(100), 2, Clustering(kind), seed=0))  # type: ignore[arg-type]


def test_a_weight_counts_as_repeating_in_k_means() -> None:
    points = np.array([[0.0], [1.0], [10.0], [11.0]])
    weights = np.array([3.0, 1.0, 1.0, 1.0])
    weighted = memberships(points, weights, 2, Clustering("inverse"), seed=0)
    repeated = memberships(points[[0, 0, 0, 1, 2, 3]], np.ones(6), 2, Clustering("inverse"), seed=0)
    assert np.allclose(weighted, repeated[2:])


@pytest.mark.parametrize(("rules", "error"), [(0, UsageError), (5, FitError)])
def test_impossible_numbers_of_clusters(rules: int, error: type[Exception]) -> None:
    with pytest.raises(error, match="rules"):
        memberships(np.arange(4.0)[:, None], np.ones(4), rules, Clustering(), seed=0)


def test_settings_are_checked() -> None:
    with pytest.raises(UsageError, match="weight of the likelihood"):
        Clustering(likelihood=-1.0)
    with pytest.raises(UsageError, match="number of rules"):
        Mixing(0)


def test_one_e_step_equals_plain_loops() -> None:
    data = _mixed(10)
    em = _em(data)
    rng = np.random.default_rng(1)
    z = em.floored(rng.dirichlet([1.0, 1.0], len(data)))
    likelihood = rng.normal(0, 300, z.shape)
    result = em.e_step(z, likelihood)
    for i in range(len(data)):
        top = max(math.log(z[i, j]) + likelihood[i, j] for j in range(2))
        raw = [math.exp(math.log(z[i, j]) + likelihood[i, j] - top) for j in range(2)]
        floored = [max(r / sum(raw), em.mixing.floor) for r in raw]
        for j in range(2):
            assert result[i, j] == pytest.approx(floored[j] / sum(floored), rel=1e-5)


def test_one_vote_equals_plain_loops() -> None:
    data = _mixed(20)
    em = _em(data, margin=0.0)
    z = em.floored(np.random.default_rng(2).dirichlet([1.0, 1.0], len(data)))
    plan = em.rule_plan(z[:, 0], 0)
    fitted = fit_jobs(em.dataset, [((shell, shell), plan) for shell in SHELLS[:2]], 1)
    shells = ShellWeights.from_losses({SHELLS[0]: 1.0, SHELLS[1]: 1.5}, 0.1, em.total)
    from spare.learning.em import RuleState

    state = RuleState(shells, dict(zip(SHELLS[:2], fitted, strict=True)), z[:, 0])
    votes = dict.fromkeys(SHELLS[:2], 0.0)
    for i in range(len(data)):
        losses = {}
        for shell, one in zip(SHELLS[:2], fitted, strict=True):
            own = one.log_prob[i]
            losses[shell] = -(fitted[0].log_prob[i] if math.isnan(own) else own)
        votes[min(losses, key=lambda shell: losses[shell])] += float(em.weights[i] * z[i, 0])
    mass = sum(shells[shell] for shell in votes)
    for shell in votes:
        found = em.vote(state, z[:, 0])[shell]
        assert found == pytest.approx(votes[shell] * mass / sum(votes.values()), rel=1e-5)


def test_history_holds_distributions_and_the_result_is_a_model() -> None:
    data = _mixed()
    result = spare.fit(toy.domain, data, seed=0, preset=SMALL, rules=dataclasses.replace(_em(data).mixing, polish=1))
    many = result.history[0]
    assert len(many.history) >= 2  # type: ignore[union-attr]
    for iteration in many.history:  # type: ignore[union-attr]
        assert np.allclose(iteration.memberships.sum(axis=1), 1)
        assert all(sum(w.explored.values()) <= 1 + 1e-9 for w in iteration.shells)
    assert np.isfinite(result.model.log_prob(data)).all()
    assert sum(one.share for one in many.shares) == pytest.approx(1)  # type: ignore[union-attr]


def test_one_rule_is_the_single_rule_learner() -> None:
    data = _mixed(40)
    one = spare.fit(toy.domain, data, seed=0, preset=SMALL)
    same = spare.fit(toy.domain, data, seed=0, preset=SMALL, rules=Mixing(1))
    assert np.array_equal(one.model.log_prob(data), same.model.log_prob(data))


def test_a_resumed_run_gives_the_same_bits_and_a_second_run_is_refused(tmp_path) -> None:
    data, folder = _mixed(40), tmp_path / "run"
    whole = spare.fit(toy.domain, data, seed=0, preset=SMALL, rules=2)
    cache = open_run(folder, {"data": data.fingerprint})
    with pytest.raises(FileError, match="another run"):
        open_run(folder, {"data": data.fingerprint})

    class StopError(Exception):
        pass

    class Interrupts:
        def stage(self, text: str) -> None:
            if text.startswith("rule 2"):
                raise StopError

        def iteration(self, done: object, most: int) -> None: ...

    with pytest.raises(StopError):
        spare.fit(toy.domain, data, seed=0, preset=SMALL, rules=2, cache=cache, listener=lambda _: Interrupts())
    cache.close(finished=False)
    cache = open_run(folder, {"data": data.fingerprint})
    resumed = spare.fit(toy.domain, data, seed=0, preset=SMALL, rules=2, cache=cache)
    assert cache.reused > 0
    cache.close(finished=True)
    assert not folder.exists()
    assert np.array_equal(whole.model.log_prob(data), resumed.model.log_prob(data))


def test_a_checkpoint_of_other_data_is_refused_until_it_may_go(tmp_path) -> None:
    cache = open_run(tmp_path / "run", {"data": "one", "seed": 0})
    cache.put("key", Kept({"a": np.ones(2)}, {}))
    cache.close(finished=False)
    with pytest.raises(FileError, match=r"another run \(data: one there, two here\); .* --fresh"):
        open_run(tmp_path / "run", {"data": "two", "seed": 0})
    cache = open_run(tmp_path / "run", {"data": "one", "seed": 0})
    assert len(cache) == 1
    cache.close(finished=False)
    cache = open_run(tmp_path / "run", {"data": "two", "seed": 0}, fresh=True)
    assert len(cache) == 0
    cache.close(finished=True)


def test_two_known_rules_are_told_apart() -> None:
    """One acts where somebody stands to the right, the other where nobody does; both apply to the former."""
    acts = many_worlds.WORLDS["two"]
    data, labels = many_worlds.generate(acts, 300, seed=3)
    preset = quick(training={"hidden": (32,), "steps": 400}, max_references=1)
    mixing = Mixing(2, clustering=Clustering(), iterations=2, polish=2)
    result = spare.fit(many_worlds.domain, data, seed=0, preset=preset, rules=mixing)
    (many,) = result.history
    assert isinstance(many, ManyResult)
    assert {share.shell for share in many.shares} == {act.shell for act in acts}
    assert adjusted_rand_score(labels, many.memberships.argmax(axis=1)) > 0.95
    held_out, _ = many_worlds.generate(acts, 200, seed=4)
    true = many_worlds.true_model(acts).log_prob(held_out).mean()
    assert result.model.log_prob(held_out).mean() > true - 0.1 * abs(true)
