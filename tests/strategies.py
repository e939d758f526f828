"""Random domains, shells, rules, models and states, each made twice: for the library and for the oracle.

A `Case` is a structure (a domain and a model) together with experience. Choices of structure come from a
`random.Random`, which hypothesis can drive and shrink (`st.randoms`); bulk numbers come from a seed. State values
lie on a coarse grid, so that comparisons and ties in formulas are exact in float32 and float64 alike.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import spare
from spare.model.features import Layout
from spare.model.predictors import Network
from spare.model.spec import FeatureSpec
from tests import oracle
from tests.rules import make_rule

GRID = 0.25
BUCKETS = {"one": (1, 1), "few": (5, 6), "several": (9, 12), "sixty": (60, 60)}
AGGREGATORS = ("mean", "max", "min", "sum", "count", ("mean", "count"), ("max", "min", "sum"), ("count", "mean", "max"))


# -- references: the formulas use operators that mean the same on floats and on arrays --------------------------------


def _near(o: Any, p: Any) -> Any:
    return (o.x - p.x) ** 2 + (o.y - p.y) ** 2 <= 1.0


def _right(o: Any, p: Any) -> Any:
    return (o.x > p.x) & (abs(o.y - p.y) < 0.6)


def _row(o: Any, p: Any) -> Any:
    return o.y == p.y


def _heavier(o: Any, p: Any) -> Any:
    return o.w > p.w


def _squared(o: Any, p: Any) -> Any:
    return (o.x - p.x) ** 2 + (o.y - p.y) ** 2


def _across(o: Any, p: Any) -> Any:
    return abs(o.x - p.x)


def _between(o: Any, p: Any, q: Any) -> Any:
    return (o.x - p.x) * (o.x - q.x) < 0


def _corner(o: Any, p: Any, q: Any) -> Any:
    return abs(o.x - p.x) + abs(o.y - q.y)


def _ahead_library(o: Any, p: Any) -> Any:
    return jnp.where(o.x > p.x, o.x - p.x, jnp.inf)


def _ahead_oracle(o: Any, p: Any) -> float:
    return o.x - p.x if o.x > p.x else float("inf")


def reference_pairs() -> dict[str, tuple[spare.Reference, oracle.Relation]]:
    """Every kind of reference there is, by name: (library's, oracle's)."""
    make = spare.Reference
    near, right = make("near", _near), make("right", _right)
    closest = make.closest("closest", _squared)
    ahead = make.closest("ahead", _ahead_library)
    row = make("row", _row)
    f_near, f_right, f_row = ("formula", _near), ("formula", _right), ("formula", _row)
    f_closest = ("closest", _squared)
    f_ahead = ("closest", _ahead_oracle)
    return {
        "near": (near, f_near),
        "right": (right, f_right),
        "row": (row, f_row),
        "heavier": (make("heavier", _heavier), ("formula", _heavier)),
        "closest": (closest, f_closest),
        "ahead": (ahead, f_ahead),
        "across": (make.farthest("across", _across), ("farthest", _across)),
        "between": (make("between", _between), ("formula", _between)),
        "corner": (make.closest("corner", _corner), ("closest", _corner)),
        "left": (right.inverse("left"), ("inverse", f_right)),
        "right*": (right.closure(), ("closure", f_right)),
        "chain": (ahead.closure("chain"), ("closure", f_ahead)),
        "chooses": (closest.inverse("chooses"), ("inverse", f_closest)),
        "left*": (right.closure().inverse("left*"), ("inverse", ("closure", f_right))),
        "near-and-right": (near & right, ("and", f_near, f_right)),
        "row-or-near": (row | near, ("or", f_row, f_near)),
        "near-not-closest": (near - closest, ("minus", f_near, f_closest)),
        "unpicked": ((near - closest).inverse("unpicked"), ("inverse", ("minus", f_near, f_closest))),
        "wide": (
            make("between", _between) - make.closest("corner", _corner),
            ("minus", ("formula", _between), ("closest", _corner)),
        ),
    }


# -- a structure -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Plan:
    """A model's structure: what hypothesis chooses."""

    domain: spare.Domain
    language: oracle.Language
    rules: tuple[SimpleNamespace, ...]


def plan(rnd: random.Random, *, rules: int = 3, ties: bool = False) -> Plan:
    """A random domain and the shapes of up to `rules` rules over it; `ties` gives all of them one score."""
    names = ["x", "y", *rnd.sample(["z", "v"], rnd.randrange(3)), "w"]
    rnd.shuffle(names)
    later = random.Random(" ".join(names))  # by what was chosen before, as in `_rule_shape`
    period = {name: size for name, size in (("v", 3.0), ("w", 5.0)) if name in names and later.random() < 0.5}
    properties = [
        spare.Property(
            n, resolution=None if n == "w" else rnd.choice([0.25, 0.5]), static=n == "w", period=period.get(n)
        )
        for n in names
    ]
    pairs = reference_pairs()
    chosen = rnd.sample(sorted(pairs), rnd.randrange(3, 7))
    references, relations, aggregators = [], {}, {}
    for name in chosen:
        reference, relations[name] = pairs[name]
        references.append(reference.named(name).aggregated(*_tuple(rnd.choice(AGGREGATORS))))
        aggregators[name] = references[-1].aggregators
    actions = [
        spare.Action("push", objects=("target",), parameters=("a",)),
        spare.Action("swap", objects=("first", "second"), parameters=("a", "b")),
        spare.Action("wait", objects=("target",)),
    ]
    actions = rnd.sample(actions, rnd.randrange(1, 3))
    domain = spare.Domain("random", properties=properties, references=references, actions=actions)
    dynamic = [n for n in names if n != "w"]
    resolution = {p.name: p.resolution for p in properties if p.resolution is not None}
    language = oracle.Language(names, dynamic, resolution, relations, aggregators, period)
    lengths = (rnd.randrange(2), rnd.randrange(2)) if ties else None
    shapes = tuple(_rule_shape(rnd, domain, lengths) for _ in range(rnd.randrange(2 if ties else 1, rules + 1)))
    return Plan(domain, language, shapes)


def _tuple(one: str | tuple[str, ...]) -> tuple[str, ...]:
    return (one,) if isinstance(one, str) else one


def _rule_shape(rnd: random.Random, domain: spare.Domain, lengths: tuple[int, int] | None) -> SimpleNamespace:
    action = domain.actions[0] if lengths else rnd.choice(domain.actions)
    roles = len(action.objects)
    gamma = _shell(rnd, domain, roles, rnd.randrange(3) if lengths is None else lengths[0])
    same = lengths is None and rnd.random() < 0.5
    delta = gamma if same else _shell(rnd, domain, roles, rnd.randrange(3) if lengths is None else lengths[1])
    return SimpleNamespace(
        action=action.name,
        gamma=gamma,
        delta=delta,
        targets=tuple(
            "change" if again else how
            for again, how in zip(
                domain.targets(False), [rnd.choice(["absolute", "change"]) for _ in domain.dynamic], strict=True
            )
        ),
        inputs=rnd.choice([None, None, (domain.property_names[0], domain.property_names[-1])]),
        hidden=rnd.choice([(), (), (4,), (3, 3)]),
        members=rnd.randrange(1, 4),
        activation=rnd.choice(["relu", "silu", "tanh"]),
        # Choices that came later: by what was chosen above, so that the same seeds still give the same structures.
        later=f"{action.name} {gamma.show(action.objects)} {delta.show(action.objects)}",
    )


def _shell(rnd: random.Random, domain: spare.Domain, roles: int, length: int) -> spare.Shell:
    shell = spare.Shell(roles)
    for _ in range(length):
        reference = rnd.choice(domain.references)
        arguments = tuple(rnd.randrange(shell.slots) for _ in range(reference.arity))
        shell = shell.extend(spare.Pointer(reference.name, arguments))
    return shell


# -- numbers ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """The same model twice, and experience for it."""

    model: spare.Model
    oracle: oracle.OracleModel
    data: spare.Experience


def build(structure: Plan, numbers: random.Random) -> tuple[spare.Model, oracle.OracleModel]:
    """Fill a structure with weights: the library's model (in JAX's current float type) and the oracle's."""
    pairs = [_rule(structure, shape, numbers) for shape in structure.rules]
    variance = [numbers.uniform(0.1, 0.5) for _ in structure.language.dynamic]
    model = spare.Model(structure.domain, [rule for rule, _ in pairs], np.array(variance))
    second = oracle.OracleModel(
        structure.language, [rule for _, rule in pairs], dict(zip(structure.language.dynamic, variance, strict=True))
    )
    return model, second


def _rule(structure: Plan, shape: SimpleNamespace, numbers: random.Random) -> tuple[spare.Rule, oracle.OracleRule]:
    language, domain = structure.language, structure.domain
    action = domain.action(shape.action)
    inputs = list(language.properties if shape.inputs is None else shape.inputs)
    shown = sum(2 if name in language.period else 1 for name in inputs)
    size = len(action.parameters) + len(action.objects) * shown
    for pointer in shape.gamma:
        size += sum(1 if how == "count" else shown for how in language.aggregators[pointer.reference])
    later = random.Random(shape.later)
    every = Layout(domain, shape.action, shape.gamma, FeatureSpec(tuple(inputs))).names
    ignored = frozenset(later.sample(range(size), later.randrange(1, size))) if later.random() < 0.3 < size else set()
    surprised = later.random() < 0.3
    size -= len(ignored)
    adds, added = _added(structure, shape, tuple(inputs))
    size += len(adds)
    phi, predictor = predictor_pair(numbers, shape, size, (shape.delta.slots, len(language.dynamic)))
    variance = [numbers.uniform(0.05, 0.3) for _ in language.dynamic]
    together = _together(shape, language)
    surprises = {name: (later.uniform(0.05, 0.3), later.uniform(0.5, 2.0)) for name in language.dynamic}
    shares, wide = (np.array([pair[k] for pair in surprises.values()]) for k in range(2))
    rule = make_rule(
        domain,
        shape.action,
        (shape.gamma, shape.delta),
        predictor,
        np.array(variance),
        targets=shape.targets,
        inputs=shape.inputs,
        dropped=tuple(every[k] for k in sorted(ignored)),
        outliers=(shares, wide) if surprised else None,
        extra=adds,
        copula=together and (np.array(together[0]), np.array(together[1])),
    )
    second = oracle.OracleRule(
        language,
        shape.action,
        [(p.reference, p.arguments) for p in shape.gamma],
        [(p.reference, p.arguments) for p in shape.delta],
        phi,
        dict(zip(language.dynamic, variance, strict=True)),
        dict(zip(language.dynamic, shape.targets, strict=True)),
        inputs,
        frozenset(ignored),
        surprises if surprised else None,
        added,
        together,
    )
    return rule, second


def _added(structure: Plan, shape: SimpleNamespace, inputs: tuple[str, ...]) -> tuple[tuple[str, ...], dict]:
    """Entries by aggregators that references do not offer: by name, and by (pointer, aggregator) for the oracle."""
    later, names, found = random.Random(f"adds {shape.later}"), [], {}
    for block in Layout(structure.domain, shape.action, shape.gamma, FeatureSpec(inputs)).every:
        if not block.offered and block.slot is not None:
            chosen = [k for k in range(len(block.names)) if later.random() < 0.15]
            names += [block.names[k] for k in chosen]
            found[block.slot - shape.gamma.roles, block.how] = set(chosen)
    return tuple(names), found


def _together(shape: SimpleNamespace, language: oracle.Language) -> tuple[list[list[float]], list[float]] | None:
    """Loadings by slot and property, and shares, for some rules."""
    later = random.Random(f"together {shape.later}")
    if later.random() < 0.5:
        return None
    loading = [[later.uniform(-0.9, 0.9) for _ in language.dynamic] for _ in range(shape.delta.slots)]
    return loading, [later.uniform(0.02, 0.3) for _ in language.dynamic]


def predictor_pair(
    numbers: random.Random, shape: SimpleNamespace, inputs: int, outputs: tuple[int, int]
) -> tuple[oracle.Phi, spare.Predictor]:
    """Nets with random weights as nested lists and, of the same numbers, as arrays with a member axis."""
    shared = random.Random(f"shared {shape.later}").random() < 0.3
    hidden = (3,) * (3 if shape.members == 1 else 5) if shared else shape.hidden
    sizes = (inputs, *hidden, outputs[0] * outputs[1] * (1 + shared))

    def net() -> oracle.Net:
        layers = []
        for i, o in itertools.pairwise(sizes):
            weight = [[numbers.uniform(-1, 1) / i**0.5 for _ in range(o)] for _ in range(i)]
            layers.append((weight, [numbers.uniform(-0.5, 0.5) for _ in range(o)]))
        return oracle.Net(layers, shape.activation, shared)

    def stack(nets: list[oracle.Net]) -> Network:
        depth = range(len(sizes) - 1)
        weights = tuple(jnp.array([one.layers[k][0] for one in nets]) for k in depth)
        biases = tuple(jnp.array([one.layers[k][1] for one in nets]) for k in depth)
        return Network(weights, biases, shape.activation, shared)

    def block(low: float, high: float) -> list[list[float]]:
        return [[numbers.uniform(low, high) for _ in range(outputs[1])] for _ in range(outputs[0])]

    members = [(net(), None if shared else net()) for _ in range(shape.members)]
    x_mean = [numbers.uniform(-0.5, 0.5) for _ in range(inputs)]
    x_scale = [numbers.uniform(1.0, 3.0) for _ in range(inputs)]
    y_mean, y_scale = block(-0.5, 0.5), block(0.3, 1.0)
    phi = oracle.Phi(members, x_mean, x_scale, y_mean, y_scale)
    arrays = [jnp.array(part) for part in (x_mean, x_scale, y_mean, y_scale)]
    second = [variance for _, variance in members if variance is not None]
    return phi, spare.Predictor(stack([mean for mean, _ in members]), stack(second) if second else None, *arrays)


def experience(domain: spare.Domain, numbers: random.Random, count: int, objects: tuple[int, int]) -> spare.Experience:
    """`count` transitions on the grid, each with a number of objects in the given range."""
    columns = len(domain.properties)
    static = [p.static for p in domain.properties]
    builder = spare.Builder(domain)
    for _ in range(count):
        n = numbers.randint(*objects)
        reach = 2 if n < 20 else 6
        values = [[GRID * numbers.randint(-4 * reach, 4 * reach) for _ in range(columns)] for _ in range(n)]
        after = [[v if s else v + numbers.gauss(0, 0.5) for v, s in zip(row, static, strict=True)] for row in values]
        ids = numbers.sample(range(1000), n)
        action = numbers.choice(domain.actions)
        targets = tuple(numbers.choice(ids) for _ in action.objects)
        parameters = tuple(float(np.float32(numbers.uniform(-1, 1))) for _ in action.parameters)
        state = spare.State(tuple(ids), np.array(values))
        call = spare.ActionCall(action.name, targets, parameters)
        builder.add(state, call, spare.State(tuple(ids), np.array(after)))
    return builder.build()


def plain(data: spare.Experience, i: int) -> tuple[oracle.World, oracle.Call, oracle.World]:
    """Transition i in the oracle's terms."""
    one = data[i]
    names = data.domain.property_names

    def world(state: spare.State) -> oracle.World:
        return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in state.values.tolist()]

    positions = tuple(one.state.ids.index(target) for target in one.action.objects)
    return world(one.state), oracle.Call(one.action.action, positions, one.action.parameters), world(one.next_state)


def case(structure: Plan, seed: int, *, transitions: int = 20, objects: tuple[int, int] = BUCKETS["few"]) -> Case:
    """A structure with numbers and data drawn from a seed."""
    numbers = random.Random(seed)
    model, second = build(structure, numbers)
    return Case(model, second, experience(structure.domain, numbers, transitions, objects))


choices = st.randoms(use_true_random=False)  # structure: hypothesis chooses, and shrinks
seeds = st.integers(0, 2**31 - 1)


def thorough() -> bool:
    """Whether this is `make properties`."""
    return settings().max_examples >= 1000


def examples(count: int, per: int = 1) -> settings:
    """This many examples by default; in `make properties` as many as give 10,000 if one holds `per` transitions."""
    return settings(max_examples=settings().max_examples // per if thorough() else count)


MANY = 100
"""Transitions for each model in `make properties`: compiling dominates, so 100 models of 100 each."""


def transitions(count: int) -> int:
    """So many transitions for each model by default, `MANY` in `make properties`."""
    return MANY if thorough() else count
