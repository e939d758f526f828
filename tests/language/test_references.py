"""References and shells: sets of objects against loops, counts against listings."""

from __future__ import annotations

import dataclasses
import itertools
import random
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.language.references import AGGREGATORS, count_shells, next_pointers
from spare.language.relations import Objects, Parameters, Relation, SceneView
from spare.learning.bindings import Bindings
from spare.model.features import SceneSlots
from tests import oracle
from tests.rules import make_rule
from tests.strategies import reference_pairs

NAMES = ("x", "y", "w")
PAIRS = reference_pairs()


def _random_world(seed: int, size: int, padding: int) -> tuple[np.ndarray, np.ndarray, oracle.World]:
    rnd = random.Random(seed)
    values = np.array([[0.25 * rnd.randint(-6, 6) for _ in NAMES] for _ in range(size + padding)], np.float32)
    world = [SimpleNamespace(**dict(zip(NAMES, row, strict=True))) for row in values[:size].tolist()]
    return values, np.arange(size + padding) < size, world


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_references_select_what_loops_select(name: str) -> None:
    reference, relation = PAIRS[name]
    assert reference.arity == (2 if name in ("between", "corner", "wide") else 1)

    @jax.jit
    def both(values: Any, valid: Any, singles: Any, sets: Any) -> Any:
        scene = SceneView(Objects(NAMES, values), valid, Parameters({}))
        arguments = tuple(singles[k] for k in range(reference.arity))
        return (
            reference.relation.pick(scene, arguments),
            reference.relation.select(scene, tuple(sets[k] for k in range(reference.arity))),
        )

    for seed in range(25):
        size = 1 + seed % 7
        values, valid, world = _random_world(seed, size, 7 - size)
        rnd = random.Random(seed)
        singles = tuple(rnd.randrange(size) for _ in range(reference.arity))
        sets = [set(rnd.sample(range(size), rnd.randrange(size + 1))) for _ in range(reference.arity)]
        masks = np.array([[o in one for o in range(7)] for one in sets])
        picked, selected = both(jnp.asarray(values), jnp.asarray(valid), jnp.asarray(singles), jnp.asarray(masks))
        assert set(np.flatnonzero(picked).tolist()) == oracle.related(relation, world, singles)
        assert set(np.flatnonzero(selected).tolist()) == oracle.applied(relation, world, sets)


@pytest.mark.parametrize("how", AGGREGATORS)
def test_aggregators(how: str) -> None:
    values = jnp.array([[1.0, -2.0], [3.0, 5.0], [-4.0, 0.5], [9.0, 9.0]])
    slots = SceneSlots(jnp.zeros(1, int), jnp.array([[True, False, True, False], [False] * 4]))
    found = slots.aggregate(values, 0, how).tolist()
    expected = [2.0] if how == "count" else [oracle.aggregate(column, how) for column in ([1.0, -4.0], [-2.0, 0.5])]
    assert found == expected
    nobody = slots.aggregate(values, 1, how)
    assert bool(jnp.isfinite(nobody).all())


def test_derived_references_keep_names_and_aggregators() -> None:
    above = spare.Reference("above", lambda o, p: o.x > p.x, aggregator=("max", "count"))
    near = spare.Reference.closest("near", lambda o, p: abs(o.x - p.x))
    assert (above.closure().name, above.inverse().name) == ("above*", "above-")
    assert above.closure().aggregators == above.inverse("below").aggregators == ("max", "count")
    assert ((above & near).name, (above | near).name, (above - near).name) == (
        "above-and-near",
        "above-or-near",
        "above-not-near",
    )
    assert above.inverse().inverse().relation == above.relation
    assert near.inverse().inverse().relation == near.relation
    assert above.named("up").name == "up"
    assert above.aggregated("sum").aggregators == ("sum",)
    assert above == spare.Reference("above", above.relation, aggregator=("max", "count"))
    assert hash(above) == hash(above.named("above"))
    assert above != above.aggregated("sum")
    assert "max+count" in repr(above)


def test_references_that_make_no_sense() -> None:
    between = spare.Reference("between", lambda o, p, q: (o.x > p.x) & (o.x < q.x))
    above = spare.Reference("above", lambda o, p: o.x > p.x)
    make: Any = spare.Reference
    for attempt, message in (
        (lambda: make("f", lambda: True), "takes the object to select"),
        (lambda: make("f", lambda *objects: True), "takes the object to select"),
        (lambda: make("f", lambda o, p, *, k: True), "takes the object to select"),
        (lambda: between.closure(), "closure needs a reference of arity 1, this one has 2"),
        (lambda: between.inverse(), "inverse needs a reference of arity 1"),
        (lambda: above & between, "their arities differ"),
        (lambda: above | between, "their arities differ"),
        (lambda: above - between, "their arities differ"),
        (lambda: above.aggregated("median"), "unknown aggregator 'median'; valid: mean, max, min, sum, count"),
        (lambda: above.aggregated(), "at least one aggregator"),
        (lambda: above.aggregated("mean", "mean"), "each once"),
    ):
        with pytest.raises(spare.DefinitionError, match=message):
            attempt()


def test_arity_counts_arguments_without_a_default() -> None:
    for limit in (0.5, 1.0):
        reference = spare.Reference("near", lambda o, p, limit=limit: abs(o.x - p.x) < limit)
        assert reference.arity == 1
    assert spare.Reference("b", lambda o, p, q: o.x > p.x).arity == 2
    assert spare.Reference("b", lambda o, p, q, r: o.x > p.x).arity == 3


# -- shells ----------------------------------------------------------------------------------------------------------


def test_slots_only_point_back() -> None:
    with pytest.raises(spare.DefinitionError, match=r"pointer 0 \(f\(1,\)\) points forward: only slots 0 to 0"):
        spare.Shell(1, (spare.Pointer("f", (1,)),))
    with pytest.raises(spare.DefinitionError, match=r"pointer 1 .* points forward: only slots 0 to 2"):
        spare.Shell(2, (spare.Pointer("f", (0,)), spare.Pointer("f", (0, 3))))
    with pytest.raises(spare.DefinitionError, match="start at 0"):
        spare.Pointer("f", (-1,))
    with pytest.raises(spare.DefinitionError, match="how many objects the action has"):
        spare.Shell(-1)
    shell = spare.Shell(1).extend(spare.Pointer("f", (0,))).extend(spare.Pointer("g", (1, 0)))
    assert (len(shell), shell.slots) == (2, 3)
    assert shell.show(["target"]) == "f(target) -> b1, g(b1, target) -> b2"
    assert spare.Shell(2).show(["a", "b"]) == "-"
    assert shell == spare.Shell(1, (spare.Pointer("f", (0,)), spare.Pointer("g", (1, 0))))


def test_next_pointers_come_in_a_fixed_order() -> None:
    references = [PAIRS["near"][0], PAIRS["between"][0]]
    assert [(p.reference, p.arguments) for p in next_pointers(references, 2)] == [
        ("near", (0,)),
        ("near", (1,)),
        *(("between", pair) for pair in ((0, 0), (0, 1), (1, 0), (1, 1))),
    ]
    assert next_pointers([], 3) == ()


@pytest.mark.parametrize("names", [(), ("near",), ("between",), ("near", "right"), ("near", "between")])
def test_the_number_of_shells_is_that_of_a_listing(names: tuple[str, ...]) -> None:
    references = [PAIRS[name][0] for name in names]
    for roles, longest in itertools.product((1, 2), range(4 if len(names) < 2 else 3)):
        listed, fringe = 1, [spare.Shell(roles)]
        for _ in range(longest):
            fringe = [shell.extend(p) for shell in fringe for p in next_pointers(references, shell.slots)]
            assert len(set(fringe)) == len(fringe)
            listed += len(fringe)
        assert count_shells(references, roles, longest) == listed


@dataclasses.dataclass(frozen=True)
class InPath(Relation):
    """What lies within the action's reach: a relation of a user's own, as plain as the docs have it."""

    @property
    def arity(self) -> int:
        return 1

    def pick(self, scene: SceneView, arguments: tuple[Any, ...]) -> Any:
        x = scene.objects.x
        return jnp.abs(x - x[arguments[0]]) < scene.parameters["reach"]

    def describe(self) -> str:
        return "in the path"


def test_a_relation_may_look_at_the_action() -> None:
    domain = spare.Domain(
        "row",
        properties=[spare.Property("x", resolution=0.1)],
        references=[spare.Reference("ahead", InPath())],
        actions=[spare.Action("sweep", ("arm",), ("reach",)), spare.Action("wait", ("arm",))],
    )
    shell = spare.Shell(1, (spare.Pointer("ahead", (0,)),))
    predictor = spare.linear_predictor(jnp.zeros((3, 2)), jnp.zeros(2), jnp.ones((2, 1)))
    model = spare.Model(domain, [make_rule(domain, "sweep", shell, predictor, np.ones(1))], np.ones(1))
    state = spare.State(("arm", "near", "far"), np.array([[0.0], [1.0], [3.0]]))
    found = {}
    for reach in (0.5, 2.0, 4.0):
        answer = model.predict(state, spare.ActionCall("sweep", ("arm",), (reach,))).rules[0]
        found[reach] = answer.inputs[1].tolist() if answer.applies else None
    assert found == {0.5: None, 2.0: [False, True, False], 4.0: [False, True, True]}
    builder = spare.Builder(domain)
    for reach in (0.5, 2.0, 4.0):
        builder.add(state, spare.ActionCall("sweep", ("arm",), (reach,)), state)
    held = Bindings(builder.build(), "sweep").masks(shell)[1].reshape(3, 3)
    np.testing.assert_array_equal(held.sum(axis=1), [0, 1, 2])


def test_a_parameter_that_no_action_has_is_an_error() -> None:
    @dataclasses.dataclass(frozen=True)
    class Misspelt(InPath):
        def pick(self, scene: SceneView, arguments: tuple[Any, ...]) -> Any:
            return scene.objects.x < scene.parameters["raech"]

    with pytest.raises(spare.DefinitionError, match="unknown parameter 'raech'; valid: reach"):
        spare.Domain(
            "row",
            properties=[spare.Property("x", resolution=0.1)],
            references=[spare.Reference("ahead", Misspelt())],
            actions=[spare.Action("sweep", ("arm",), ("reach",))],
        )


def test_a_reference_without_arguments_is_about_the_object_alone() -> None:
    heavy = spare.Reference("heavy", lambda o: o.x > 0)
    assert heavy.arity == 0
    domain = spare.Domain(
        "alone",
        properties=[spare.Property("x", resolution=0.1)],
        references=[heavy],
        actions=[spare.Action("poke", ("target",))],
    )
    data = spare.Experience.from_arrays(
        domain,
        values=[[1.0], [2.0], [-1.0]],
        next_values=[[1.0], [2.0], [-1.0]],
        offsets=[0, 3],
        action=[0],
        objects=[[0]],
    )
    masks = Bindings(data, "poke").masks(spare.Shell(1, (spare.Pointer("heavy", ()), spare.Pointer("everyone", ()))))
    assert masks.tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    with pytest.raises(spare.DefinitionError, match="every domain has one of this name"):
        spare.Domain(
            "mine",
            properties=domain.properties,
            references=[spare.Reference("everyone", lambda o: o.x > 0)],
            actions=domain.actions,
        )


def test_a_test_finds_the_object_itself_where_its_condition_holds() -> None:
    heavy, push = spare.Reference.test("heavy", lambda o: o.x > 1.0), spare.Action("push", objects=("target",))
    domain = spare.Domain("tests", properties=[spare.Property("x", resolution=1.0)], references=[heavy], actions=[push])
    view = domain.view(None, jnp.array([[0.0], [2.0], [3.0]]), jnp.array([True, True, False]), jnp.zeros(0))
    everyone = jnp.array([True, True, True])
    assert heavy.relation.select(view, (everyone,)).tolist() == [False, True, False]
    assert heavy.relation.pick(view, (jnp.array(1),)).tolist() == [False, True, False]
    assert heavy.relation.pick(view, (jnp.array(0),)).tolist() == [False, False, False]
    assert heavy.inverse("same").relation == heavy.relation
    with pytest.raises(spare.DefinitionError, match="about one object"):
        spare.Reference.test("nearer", lambda o, p: o.x < p.x)
