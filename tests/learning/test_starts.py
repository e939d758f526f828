"""Where heads start, what they expect before they have seen it, and the tests that choose among them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.language.references import Pointer, Shell
from spare.learning.bindings import Bindings, expressions
from spare.learning.general.final import built
from spare.learning.general.inputs import InputSearch
from spare.learning.general.judge import Judge, Trainer
from spare.learning.general.ranges import measured
from spare.learning.general.recursion import before
from spare.learning.general.rows import ActionRows, Folds
from spare.learning.general.starts import lines
from spare.learning.presets import Schedule
from spare.learning.statistics import paired_improvement, sparse_improvement
from spare.model.headrule import HeadRule, HeadRuleSpec
from spare.model.heads import HeadSpec
from tests.oracle_heads import head

SLOPES = (1.5, 0.2, -0.9)


def three_lines(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x (rows, 2), y (rows, 1) on one of three lines through nearly the same point, and which one."""
    rng = np.random.default_rng(0)
    x, kind = rng.standard_normal((rows, 2)), rng.integers(0, 3, rows)
    y = np.array(SLOPES)[kind] * x[:, 0] + 0.3 * x[:, 1] + 0.03 * rng.standard_normal(rows)
    return x, y[:, None], kind


def test_lines_that_cross_are_told_apart_by_their_slopes() -> None:
    """Each slope is found within 0.05; clusters of y alone would not tell which line a row is on."""
    from sklearn.cluster import KMeans

    x, y, kind = three_lines(400)
    found = lines(x, y, 3, seed=0)
    order = np.argsort(-found.slopes[:, 0, 0])
    np.testing.assert_allclose(found.slopes[order, 0, 0], SLOPES, atol=0.05)
    np.testing.assert_allclose(found.slopes[:, 1, 0], 0.3, atol=0.05)
    np.testing.assert_allclose(found.centres, 0.0, atol=0.05)
    label = KMeans(3, n_init="auto", random_state=0).fit_predict(y)
    guessed = [np.linalg.lstsq(x[label == k], y[label == k] - y[label == k].mean(), rcond=None)[0] for k in range(3)]
    assert max(abs(max(one[0, 0] for one in guessed) - SLOPES[0]), abs(min(one[0, 0] for one in guessed) + 0.9)) > 0.5
    assert (np.bincount(kind) > 100).all()


@pytest.mark.parametrize("levels", [[0.0, 1.0], [0.0, 1.0, 1.0 + 1e-9], [-1.0, 0.0, 1.0]])
def test_fewer_values_than_outcomes_are_no_trouble(levels: list[float]) -> None:
    y = np.tile(levels, 6)[:, None]
    for x in (np.zeros((len(y), 0)), np.zeros((len(y), 2)), np.arange(2.0 * len(y)).reshape(-1, 2)):
        found = lines(x, y, 3, seed=1)
        assert found.slopes.shape == (3, x.shape[1], 1)
        assert np.isfinite(found.centres).all()
        assert np.isfinite(found.slopes).all()


def test_few_events_of_any_size_are_enough_and_one_is_not() -> None:
    """Twelve of 250 transitions gain 5 to 400 nats: their spread hides them from the plain test."""
    gain, weights = np.zeros(250), np.ones(250)
    gain[::21] = np.geomspace(5, 4000, 12)
    plain, sparse = paired_improvement(-gain * 0, -gain, weights), sparse_improvement(gain, weights)
    assert plain.p_value > 0.01
    assert sparse.p_value < 0.01
    assert sparse.gain == pytest.approx(gain.mean())
    lucky = np.full(250, -0.01)
    lucky[7] = 500.0
    assert sparse_improvement(lucky, weights).p_value > 0.1
    assert sparse_improvement(-gain, weights).p_value > 0.5
    assert sparse_improvement(gain, np.where(gain > 0, 0.0, 1.0)) == (0.0, 1.0)


# -- heads of a small world -----------------------------------------------------------------------------------------

behind = spare.Reference.closest("behind", lambda o, p: abs(o.x - p.x) + 1e6 * (o.x >= p.x))
domain = spare.Domain(
    "row",
    properties=[
        spare.Property("x", resolution=1e-3, input=False),
        spare.Property("y", resolution=1e-3, input=False),
        spare.Property("w", static=True),
    ],
    references=[behind, spare.Reference("before", lambda o, p: o.x < p.x).closure("before*")],
    actions=[
        spare.Action(
            "push",
            ("target",),
            ("a", "d"),
            frame=spare.Frame("target", lambda target, push: push.a, positions=(("x", "y"),), mirror=True),
        )
    ],
)
SHELL = Shell(1, (Pointer("before*", (0,)),))


def made(n: int, size: int = 4) -> spare.Experience:
    """The pushed object and those before it move by d along the push."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (n, size, 3))
    angle, d = rng.uniform(-3, 3, n), rng.uniform(0.1, 0.6, n)
    after = values + 0.004 * rng.standard_normal(values.shape) * [1, 1, 0]
    follows = values[..., 0] <= values[:, :1, 0]
    after[..., :2] += follows[..., None] * (d[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1))[:, None]
    return spare.Experience.from_arrays(
        domain,
        values=values.reshape(-1, 3),
        next_values=after.reshape(-1, 3),
        offsets=np.arange(n + 1) * size,
        action=np.zeros(n, int),
        objects=np.zeros((n, 1), int),
        parameters=np.stack([angle, d], axis=1),
    )


def judge_of(data: spare.Experience, steps: int) -> Judge:
    rows = ActionRows(Bindings(data, "push"), True, np.zeros((len(data.values), 2)))
    trainer = Trainer(Schedule(steps=steps), 0, 1)
    return Judge(rows, Folds.of_search(data.weights, 0.5, 0), trainer, rest=np.full(2, 1e-6))


def test_the_step_before_is_the_mean_of_one_level_and_is_mirrored() -> None:
    """Beside loops: the mean change of those one step nearer; in the frame's mirror y is the opposite."""
    judge = judge_of(made(6), 1)
    rows, expression = judge.rows, expressions(SHELL)[1]
    rng = np.random.default_rng(3)
    change = rng.standard_normal((len(rows.owner), 2))
    rows.previous[expression] = before(rows, SHELL, 1, change)
    place = rows.data.values[:, 0].reshape(6, 4)
    for i in range(6):
        line = [o for o in np.argsort(-place[i]) if place[i, o] < place[i, 0]]
        for o in range(4):
            # All that are before the target are one step away from it: a relation that is transitive has one level.
            wanted = change[4 * i] if o in line else np.zeros(2)
            np.testing.assert_allclose(rows.previous[expression][4 * i + o], wanted)
    names, every = ("previous(b1).x", "previous(b1).y", "own.w"), np.arange(len(rows.owner))
    plain, image = (rows.x(SHELL, names, every, mirror=one) for one in (False, True))
    np.testing.assert_allclose(image, plain * [1, -1, 1])


def test_ranges_of_the_step_before_are_those_of_the_mirror_too() -> None:
    rows = judge_of(made(6), 1).rows
    rows.previous[expressions(SHELL)[1]] = before(rows, SHELL, 1, np.abs(rows.y) + 1)
    rng = np.random.default_rng(0)
    heads = (head(rng, HeadSpec(0, ("d",))), head(rng, HeadSpec(1, ("previous(b1).x", "previous(b1).y"))))
    rule = HeadRule(domain, HeadRuleSpec("push", SHELL, (), True), heads, head(rng, HeadSpec(0)))
    found = dict(
        zip((one.name for one in rule.gauges), measured(rows, rule, [*rows.bindings.masks(SHELL)]), strict=True)
    )
    along, across = (found[f"previous(before*(target)).{name}"].values for name in "xy")
    np.testing.assert_allclose(along[1], along[0])
    np.testing.assert_allclose(across[1], -across[0])
    assert across[0].min() > 0.9


def test_properties_that_nobody_may_see_can_be_followed() -> None:
    """`previous` counts properties that change, of which x may hold none."""
    judge = judge_of(made(40), 40)
    judge.rows.previous[expressions(SHELL)[1]] = before(judge.rows, SHELL, 1, judge.rows.y)
    masks = dict(enumerate(judge.rows.bindings.masks(SHELL)))
    search = InputSearch(judge, SHELL, masks, 0.01)
    follows = search.fit(HeadSpec(1, ("previous(b1).x", "previous(b1).y", "own.w", "target.w")))
    assert {*search._unneeded(follows, minor=False)} < {*follows.spec.inputs}


def test_a_wrong_record_is_an_outlier_also_where_training_had_none() -> None:
    """Values differ by 1: a record that is off by as much is unlikely, not impossible."""
    judge = judge_of(made(60), 150)
    judged = judge.fit(SHELL, {0: judge.rows.acted}, [HeadSpec(0, ("d",))])[0]
    x, y = judge.rows.x(SHELL, ("d",), judged.rows), judge.rows.y[judged.rows]
    said = built(judged)(jnp.asarray(x, jnp.float32), jnp.asarray(domain.resolutions, jnp.float32))
    right, off = (jnp.asarray(y + far, jnp.float32)[None] for far in (0.0, 0.8))
    assert said.log_density(right).mean() > 4
    assert said.log_parts(off)[0].max() < -300
    assert said.log_density(off).min() > -30


def test_rows_that_judge_a_head_do_not_tell_where_it_starts() -> None:
    """Twenty inputs that say nothing: lines through all rows, held-out ones included, would seem to explain them."""
    rng, n = np.random.default_rng(1), 60
    noise = spare.Domain(
        "noise",
        properties=[
            spare.Property("x", resolution=1e-3, input=False),
            *(spare.Property(f"w{k}", static=True) for k in range(20)),
        ],
        references=[],
        actions=[spare.Action("push", ("target",))],
    )
    values = rng.standard_normal((n, 21))
    after = values.copy()
    after[:, 0] += 0.1 * rng.standard_normal(n)
    data = spare.Experience.from_arrays(
        noise,
        values=values,
        next_values=after,
        offsets=np.arange(n + 1),
        action=np.zeros(n, int),
        objects=np.zeros((n, 1), int),
        parameters=np.zeros((n, 0)),
    )
    rows = ActionRows(Bindings(data, "push"), False, np.zeros((n, 1)))
    folds = Folds.of_search(data.weights, 0.15, 0)
    judge = Judge(rows, folds, Trainer(Schedule(steps=300), 0, 1), rest=np.full(1, 1e-6))
    search = InputSearch(judge, Shell(1), {0: np.ones(n, bool)}, 0.01)
    constant = search.fit(HeadSpec(0))
    lined = search.fit(HeadSpec(0, tuple(f"target.w{k}" for k in range(20)), 2))
    assert sparse_improvement(search.gain(constant, lined), folds.judged).gain < 0
