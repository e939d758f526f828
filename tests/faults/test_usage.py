"""Calls that an impatient user makes: each is refused with a sentence of ours that says what to give instead."""

from __future__ import annotations

import builtins
import dataclasses
import datetime
import math
import pathlib
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import spare
from spare.lab.worlds import queue as toy
from spare.learning.mixing import Mixing
from spare.testing import check_domain, check_model
from tests.faults.helpers import one_sentence, refuses, run

# The run-time checker of the tests stands before every function of ours; these tests come in as users do, without it.
# The type checker, too, would refuse most of what is given here.
api: Any = spare
DATA = toy.generate(12, seed=0)
MODEL: Any = toy.true_model()
STATE, CALL, AFTER = DATA.states[0], DATA.actions[0], DATA.next_states[0]
FRAME = DATA.to_table("pandas")
OTHER = spare.Domain(
    "other",
    properties=[spare.Property("x", resolution=1.0)],
    references=[],
    actions=[spare.Action("go", objects=("who",))],
)


@pytest.fixture(autouse=True)
def _as_users_come() -> Iterator[None]:
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def other_data() -> spare.Experience:
    return spare.Experience.from_arrays(
        OTHER, values=[[1.0], [2.0]], next_values=[[1.0], [2.0]], offsets=[0, 1, 2], action=[0, 0], objects=[[0], [0]]
    )


def world(formula: Any, make: Callable[..., Any] = spare.Reference) -> spare.Domain:
    """A domain with one reference."""
    return spare.Domain(
        "w",
        properties=[spare.Property("x"), spare.Property("y")],
        references=[make("near", formula)],
        actions=[spare.Action("go", objects=("who",), parameters=("k",))],
    )


def framed(**frame: Any) -> spare.Domain:
    """A domain whose action has this frame."""
    return spare.Domain(
        "w",
        properties=[spare.Property("x"), spare.Property("y"), spare.Property("yaw", period=2 * math.pi)],
        references=[],
        actions=[spare.Action("go", ("who",), ("k",), api.Frame(**frame))],
    )


# -- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_table_library_that_is_not_installed(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`to_table` without pandas or polars names the extra that brings it; pyarrow and dictionaries need neither."""
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    refuses(lambda: DATA.to_table(library), rf"{library} is not installed; pip install 'spare-models\[tables\]'")
    for other in ("pyarrow", "dict"):
        assert len(spare.Experience.from_table(toy.domain, DATA.to_table(other))) == 12


def test_table_library_that_nobody_knows() -> None:
    """Another library is refused, with the nearest name that is known."""
    refuses(lambda: DATA.to_table("Pandas"), r"did you mean 'pandas'\?")
    refuses(lambda: api.Experience.to_table(DATA, None), "got None")


def test_table_with_two_columns_of_one_name() -> None:
    """Refused, naming the column and how often it is there; a column that nobody asks for may be there twice."""
    refuses(lambda: spare.Experience.from_table(toy.domain, pd.concat([FRAME, FRAME[["x"]]], axis=1)), "2 columns.*'x'")
    columns = DATA.to_table("dict")
    arrays = [pa.array(column.tolist()) for column in columns.values()]
    twice = pa.table([*arrays, arrays[0]], names=[*columns, "d"])
    refuses(lambda: spare.Experience.from_table(toy.domain, twice), "2 columns.*'d'")
    notes = FRAME.assign(a=1, b=2).rename(columns={"a": "note", "b": "note"})
    assert len(spare.Experience.from_table(toy.domain, notes)) == 12


@pytest.mark.parametrize("column", ["d", "x", "next_y", "weight"])
def test_table_with_texts_for_numbers(column: str) -> None:
    """A parameter, property or weight that is no number: the column and the row of the table are named."""
    texts = FRAME[column].astype(object)
    texts.iloc[5:] = "fast"
    for table in (FRAME.assign(**{column: texts}), {**DATA.to_table("dict"), column: texts.to_numpy()}):
        refuses(lambda table=table: spare.Experience.from_table(toy.domain, table), f"'{column}', row 5: 'fast' is not")


def test_table_whose_transitions_are_of_two_kinds() -> None:
    """Numbers, texts and empty cells in one `transition` column: refused, naming it."""
    mixed = FRAME["transition"].astype(object)
    mixed.iloc[0], mixed.iloc[1] = None, "a"
    refuses(lambda: spare.Experience.from_table(toy.domain, FRAME.assign(transition=mixed)), "column 'transition'")


def test_no_table_at_all() -> None:
    """A path, a list of rows, an array or None for a table: the sentence says how to get a table."""
    for table, advice in (
        ("a.csv", "pandas.read_csv"),
        ([{"x": 1}], "DataFrame"),
        (np.zeros(3), "got a numpy"),
        (None, "None"),
    ):
        refuses(lambda table=table: spare.Experience.from_table(toy.domain, table), advice)


# -- numbers that steer -----------------------------------------------------------------------------------------------

SEEDS: list[Any] = [-1, 2**64, 2**200, 1.5, 2.0, math.nan, True, None, "7", np.array(3), np.float32(1)]


@pytest.mark.parametrize("seed", SEEDS, ids=repr)
def test_seeds_that_are_none(seed: Any) -> None:
    """Negative, beyond 64 bits, a float, a Boolean, a text, None: refused wherever a seed is asked for."""
    for call in (
        lambda: spare.fit(toy.domain, DATA, seed=seed),
        lambda: spare.evaluate(MODEL, DATA, seed=seed),
        lambda: MODEL.sample(DATA, seed),
        lambda: DATA.split(3, seed),
        lambda: DATA.shuffle(seed),
        lambda: toy.generate(2, seed),
    ):
        refuses(call, r"seed must be a whole number from 0 to 2\*\*64 - 1")


def test_seeds_of_64_bits() -> None:
    """NumPy's whole numbers are seeds, and no bit of a large one is forgotten: 2**32 is not 0."""
    assert np.array_equal(MODEL.sample(DATA, np.int32(3)), MODEL.sample(DATA, 3))
    assert api.Experience.split(DATA, np.int64(3), np.uint8(3))[1].fingerprint == DATA.split(3, 3)[1].fingerprint
    draws = [MODEL.sample(DATA, seed) for seed in (0, 2**32, 2**63, np.uint64(2**64 - 1), 2**32 - 1)]
    assert all(not np.array_equal(a, b) for k, a in enumerate(draws) for b in draws[:k])
    spare.evaluate(MODEL, DATA, seed=2**64 - 1, draws=2)


@pytest.mark.parametrize(
    "test", [1.5, 0, -1, 0.0, 1.0, 2.0, -0.5, 12, 0.001, 0.999, "half", math.nan, math.inf, None, True, [3]]
)
def test_splits_that_are_none(test: Any) -> None:
    """Neither a number of transitions nor a share, or nothing left for a part: refused, with both ways to say it."""
    refuses(lambda: DATA.split(test, 0), "how many are for the test, such as 100, or their share")


def test_settings_of_another_kind() -> None:
    """Threads, draws, rules, presets, listeners: each is refused with what it must be."""
    for message, given in (
        ("threads must be a whole number", {"threads": 1.5}),
        ("rules must be a whole number, 'auto'", {"rules": "2"}),
        ("rules must be a whole number, 'auto'", {"rules": np.array([1, 2])}),
        ("rules must be a whole number, 'auto'", {"rules": True}),
        ("expected 'default', 'paper'", {"preset": spare.Training()}),
        (r"did you mean 'paper'\?", {"preset": "papr"}),
        ("listener: expected a function", {"listener": "x"}),
        ("cache: expected", {"cache": "run"}),
    ):
        refuses(lambda given=given: api.fit(toy.domain, DATA, **{"seed": 0, **given}), message)
    for draws in (0, 10**400):
        refuses(
            lambda n=draws: spare.evaluate(MODEL, DATA, seed=0, draws=n), "draws must be a whole number of at least 2"
        )


# -- arguments --------------------------------------------------------------------------------------------------------


def test_swapped_arguments() -> None:
    """Domain and experience, model and experience, state and action in the wrong order: the sentence says so."""
    refuses(lambda: api.fit(DATA, toy.domain, seed=0), "wrong order")
    refuses(lambda: api.Experience.from_table(FRAME, toy.domain), "domain: expected a spare.Domain, got a pandas")
    refuses(lambda: api.evaluate(DATA, MODEL, seed=0), "the model comes first")
    refuses(lambda: MODEL.predict(CALL, STATE), "the state comes first")
    refuses(lambda: MODEL.log_prob(toy.domain), "wrong order")
    refuses(lambda: MODEL.sample(0, DATA), "expected a spare.Experience, got 0")
    refuses(lambda: api.load(toy.domain, "m.spare"), "wrong order")
    refuses(lambda: api.Builder(toy.domain).add(STATE, AFTER, CALL), r"order is add\(state, action, next_state\)")
    refuses(lambda: api.Reference(lambda o, p: o.x < p.x, "near"), "name comes first")
    refuses(lambda: api.RuleSpec.of("usher", toy.domain, spare.Shell(1)), "expected a spare.Domain")
    refuses(lambda: api.Model([], toy.domain, np.ones(2)), "expected a spare.Domain")
    refuses(lambda: check_domain(api.Experience.shuffle(DATA, 0), toy.domain), "wrong order")  # type: ignore[arg-type]
    refuses(lambda: check_model(DATA, MODEL), "expected a spare.Experience")


RAW: dict[str, tuple[Any, str]] = {
    "pandas": (FRAME, r"pandas DataFrame; .*Experience\.from_table\(domain"),
    "polars": (pl.DataFrame({"x": [1]}), r"polars DataFrame; .*Experience\.from_table\(domain"),
    "pyarrow": (pa.table({"x": [1]}), r"pyarrow Table; .*Experience\.from_table\(domain"),
    "dict": ({"x": [1]}, r"a dict; .*Experience\.from_table\(domain"),
    "list": ([DATA[0]], r"a list; .*Builder\(domain\)\.extend"),
    "transition": (DATA[0], r"a Transition; .*Builder\(domain\)"),
    "text": ("q.parquet", r"the text 'q.parquet'; .*Experience\.load"),
    "path": (pathlib.Path("q.parquet"), r"Path; .*Experience\.load"),
    "builder": (spare.Builder(toy.domain), r"a Builder; call its build\(\)"),
    "state": (STATE, "a State; make one"),
    "none": (None, "got None; make one"),
}


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW.keys())
def test_raw_data_in_place_of_experience(raw: tuple[Any, str]) -> None:
    """A frame, a dictionary, a list, a path given to `fit`, `evaluate` or a model: how to make an Experience."""
    given, advice = raw
    for call in (
        lambda: spare.fit(toy.domain, given, seed=0),
        lambda: spare.evaluate(MODEL, given, seed=0),
        lambda: spare.concatenate([DATA, given]),
        lambda: check_domain(toy.domain, given),
        lambda: MODEL.sample(given, 0),
        *(lambda ask=ask: ask(given) for ask in (MODEL.log_prob, MODEL.log_prob_values, MODEL.mean, MODEL.uncertainty)),
    ):
        refuses(call, advice)


@pytest.mark.parametrize("given", [None, spare.Domain, type("Tray", (), {}), "queue", toy, DATA, {}], ids=str)
def test_no_domain(given: Any) -> None:
    """None, a class, a name, a module for a domain: refused wherever one is asked for."""
    for call in (
        lambda: spare.fit(given, DATA, seed=0),
        lambda: spare.Builder(given),
        lambda: spare.register(given),
        lambda: spare.Experience.from_table(given, FRAME),
        lambda: DATA.with_domain(given),
        lambda: spare.Model(given, [], np.ones(2)),
    ):
        refuses(call, "domain: expected a spare.Domain, got")


def test_no_model() -> None:
    """A path, None, or the result of `fit` in place of a model: `evaluate` says what to pass."""
    result = spare.FitResult(MODEL, (), spare.Preset("mine"), 0, ())
    for given, advice in (("m.spare", r"spare\.load\(path\)"), (None, "got None"), (result, r"pass its \.model")):
        refuses(lambda given=given: api.evaluate(given, DATA, seed=0), advice)


def test_experience_that_is_empty_or_of_another_domain() -> None:
    """No transitions to learn from or to evaluate on, or those of another domain: refused, naming both domains."""
    refuses(lambda: spare.fit(toy.domain, DATA[:0], seed=0), "no transitions")
    refuses(lambda: spare.evaluate(MODEL, DATA[:0], seed=0), "no transitions")
    for call in (
        lambda: spare.fit(toy.domain, other_data(), seed=0),
        lambda: spare.evaluate(MODEL, other_data(), seed=0),
        lambda: MODEL.log_prob(other_data()),
    ):
        text = refuses(call)
        assert "'other'" in text
        assert "'queue'" in text
    refuses(lambda: spare.concatenate([DATA, other_data()]), "'queue'.*'other'")
    refuses(lambda: api.concatenate(DATA), "give a list")


def test_unknown_keywords() -> None:
    """A keyword of `fit` or a setting that is almost right is refused, with the one that was meant."""
    refuses(lambda: api.fit(toy.domain, DATA, seed=0, max_reference=4), r"did you mean 'max_references'\?")
    refuses(lambda: api.fit(toy.domain, DATA, seed=0, thread=1), r"did you mean 'threads'\?")
    refuses(lambda: api.fit(toy.domain, DATA, seed=0, hidden=(8,)), r"spare\.Training\(hidden=\.\.\.\)")
    refuses(lambda: api.Training(hiden=(8,)), r"Training: unknown setting 'hiden'.*did you mean 'hidden'\?")
    refuses(lambda: api.Search(max_reference=1), r"did you mean 'max_references'\?")
    refuses(lambda: dataclasses.replace(api.Search(), max_refs=1), "unknown setting 'max_refs'")
    refuses(lambda: api.Preset("mine", trainig=3), r"did you mean 'training'\?")
    refuses(lambda: api.Property("x", resolutoin=1.0), r"did you mean 'resolution'\?")
    refuses(lambda: api.Action("go", object=("who",)), r"did you mean 'objects'\?")
    refuses(lambda: toy.domain.action("ushr"), r"did you mean 'usher'\?")


BAD_SETTINGS: list[tuple[Any, dict[str, Any], str]] = [
    (api.Training, {"hidden": 64}, "hidden must be a tuple, each entry a whole number"),
    (api.Training, {"epochs": "3"}, "epochs must be a whole number, got the text"),
    (api.Training, {"epochs": 2.5}, "epochs must be a whole number"),
    (api.Training, {"phases": "joint"}, "phases must be a tuple"),
    (api.Training, {"beta": math.nan}, "beta must be a finite number"),
    (api.Training, {"outliers": "yes"}, "outliers must be True or False"),
    (api.Search, {"max_references": True}, "max_references must be a whole number"),
    (api.Search, {"folds": "many"}, "folds must be a whole number or one of 'auto'"),
    (api.Search, {"alpha": None}, "alpha must be a finite number"),
    (api.Preset, {"name": "mine", "training": spare.Search()}, "training must be a Training, got a Search"),
]


@pytest.mark.parametrize(("kind", "given", "message"), BAD_SETTINGS)
def test_settings_of_learning(kind: Any, given: dict[str, Any], message: str) -> None:
    """A setting of training, search or preset that is of another kind is named, with what it must be."""
    refuses(lambda: kind(**given), message)
    assert api.Training(hidden=[8, 8]) == spare.Training(hidden=(8, 8))


# -- states and actions -----------------------------------------------------------------------------------------------


def test_actions_that_are_none() -> None:
    """A tuple, a text or None for an action, texts for its tuples or numbers: refused, with an ActionCall to copy."""
    example = r"ActionCall\('push', \('a',\), \(0\.1,\)\)"
    for given in (None, ("usher", (0,), (0.1,)), "usher", toy.domain.actions[0]):
        refuses(lambda given=given: MODEL.predict(STATE, given), example)
        refuses(lambda given=given: api.Builder(toy.domain).add(STATE, given, AFTER), example)
    refuses(lambda: api.ActionCall("usher", "target", (0.1,)), r"objects: expected a tuple or a list, such as \('a',\)")
    refuses(lambda: api.ActionCall("usher", 3, (0.1,)), "objects: expected a tuple")
    refuses(lambda: api.ActionCall("usher", (3,), 0.1), r"parameters: expected a tuple or a list, such as \(0\.1,\)")
    refuses(lambda: api.ActionCall(None, (3,)), example)
    for wrong in ("fast", None, [1.0]):
        refuses(lambda wrong=wrong: MODEL.predict(STATE, api.ActionCall("usher", (0,), (wrong,))), "'d'.*not a number")
    assert api.ActionCall("usher", [3], [0.1]) == spare.ActionCall("usher", (3,), (0.1,))


def test_states_that_are_none() -> None:
    """An array, a dictionary or a frame for a state, one text for its ids, uneven values: it says how to make one."""
    for given in (STATE.values, {"a": [1, 2, 3]}, FRAME, None, DATA):
        refuses(lambda given=given: MODEL.predict(given, CALL), r"spare\.State\(ids, values\)")
        refuses(lambda given=given: api.Builder(toy.domain).add(STATE, CALL, given), r"spare\.State\(ids, values\)")
    refuses(lambda: api.State("abc", np.zeros((3, 3))), r"ids: expected a tuple or a list, such as \('a', 'b'\)")
    refuses(lambda: api.State(None, np.zeros((3, 3))), "ids: expected")
    refuses(lambda: api.State((1, 2), [[1.0, 2.0], [3.0]]), "lists of different lengths")
    refuses(lambda: MODEL.predict(STATE, CALL).explain(FRAME), "expected a spare.State")


def test_transitions_that_are_none() -> None:
    """Tuples, or a single transition, for `extend`; texts for weights; uneven info; strange numbers of transitions."""
    builder = api.Builder(toy.domain)
    refuses(lambda: builder.extend([(STATE, CALL, AFTER)]), r"spare\.Transition\(state, action, next_state\)")
    refuses(lambda: builder.extend(DATA[0]), "expected a list of transitions")
    refuses(lambda: builder.add(STATE, CALL, AFTER, weight="x"), "transition 0: weight 'x'")
    assert len(builder.extend(DATA)) == 12
    odd = api.Builder(toy.domain).add(STATE, CALL, AFTER, note=[1, 2]).add(STATE, CALL, AFTER, note=[1])
    refuses(lambda: odd.build(), "info 'note'")
    for index in ("x", 1.5, [100], None, np.array([True]), (1, 2)):
        refuses(lambda index=index: api.Experience.__getitem__(DATA, index), "there are 12 transitions: choose by")
    refuses(lambda: DATA.states["x"], "number of a transition")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "name", ["values", "next_values", "offsets", "action", "objects", "parameters", "ids", "weights"]
)
def test_uneven_arrays(name: str) -> None:
    """Lists of different lengths for one of the arrays: refused, naming it."""
    names = ("values", "next_values", "offsets", "action", "objects", "parameters", "ids", "weights")
    columns = {one: getattr(DATA, one) for one in names} | {name: [[1], [2, 3]]}
    refuses(lambda: api.Experience.from_arrays(toy.domain, **columns), f"{name}: .*lists of different lengths")


# -- definitions ------------------------------------------------------------------------------------------------------


def test_texts_and_lists_for_tuples() -> None:
    """A text never becomes its letters, a set has no order; lists of lists are taken as tuples of tuples."""
    head: dict[str, Any] = {"origin": "who", "heading": lambda o, a: o.yaw}
    assert framed(origin="who", positions=[["x", "y"]]) is not None
    assert hash(api.Frame("who", positions=[["x", "y"]])) == hash(spare.Frame("who", positions=(("x", "y"),)))
    assert api.Action("go", ["a"], ["k"]) == spare.Action("go", ("a",), ("k",))
    for call, message in (
        (lambda: api.Action("go", "target"), "not one text"),
        (lambda: api.Action("go", ("who",), "dx"), "not one text"),
        (lambda: api.Action("go", {"a", "b"}), "give a tuple of object role names"),
        (lambda: api.Action("go", None), "give a tuple of object role names"),
        (lambda: api.Action("go", ("who",), (), "frame"), r"expected a spare\.Frame"),
        (lambda: api.Frame("who", positions=("x", "y")), r"such as \(\('x', 'y'\),\)"),
        (lambda: api.Frame("who", positions="xy"), "got the text 'xy'"),
        (lambda: api.Frame(**head, positions=[["x", "y"]], angles="yaw"), "got the text 'yaw'"),
        (lambda: api.Frame(**head, positions=[["x", "y"]], extents=("ab", "cd")), "extents are pairs"),
        (lambda: api.Frame("who", positions=[["x", "y"]], mirror="yes"), "mirror must be True or False"),
        (lambda: api.Frame("who", heading=0.3, positions=[["x", "y"]]), "heading is a function"),
        (lambda: api.Frame(None, positions=[["x", "y"]]), "origin is a role's name or a function"),
        (lambda: api.Property("x", static="yes"), "static must be True or False"),
        (lambda: api.Pointer("near", 0), r"such as \(0,\)"),
        (lambda: api.Pointer("near", ("a",)), "slots are whole numbers"),
        (lambda: api.Shell(1, api.Pointer("near", (0,))), "got a Pointer"),
        (lambda: api.Shell("who"), "how many objects the action has"),
        (lambda: api.Shell(1, (("near", (0,)),)), r"write spare\.Pointer\('on', \(0,\)\)"),
        (lambda: api.Model(toy.domain, MODEL.rules[0], np.ones(2)), r"such as \[rule\], got a Rule"),
        (lambda: api.Model(toy.domain, [], None), "2 values are needed, got None"),
    ):
        refuses(call, message)


def test_parts_of_a_domain_that_are_none() -> None:
    """Names, functions or a single thing in place of lists of properties, references and actions: refused, with one."""
    good: dict[str, Any] = {
        "properties": [spare.Property("x")],
        "references": [],
        "actions": [spare.Action("go", ("a",))],
    }
    for given, message in (
        ({"properties": spare.Property("x")}, r"such as \[spare\.Property\('x', unit='m'\)\], got a Property"),
        ({"properties": ["x"]}, r"expected a spare\.Property, got the text 'x'"),
        ({"properties": "x"}, "got the text 'x'"),
        ({"properties": [spare.Action("x", ("a",))]}, "got an Action"),
        ({"properties": (spare.Property("x") for _ in range(2))}, "'x' appears twice"),
        ({"references": None}, "got None"),
        ({"references": [lambda o, p: o.x < p.x]}, r"got a function; write spare\.Reference"),
        ({"actions": ["go"]}, r"write spare\.Action"),
        ({"actions": spare.Action("go", ("a",))}, "got an Action"),
    ):
        refuses(lambda given=given: api.Domain("w", **(good | given)), message)
    refuses(lambda: api.Domain.with_resolutions(toy.domain, 0.1), "dictionary")


def _chooses(o: Any, p: Any) -> Any:
    if o.x < p.x:
        return o.y < p.y
    return o.y > p.y


CHOICES: dict[str, Any] = {
    "if": _chooses,
    "if on an argument": lambda o, p: o.x < 1 if p.x > 0 else o.x > 1,
    "and": lambda o, p: (o.x < p.x) and (o.y < p.y),
    "or": lambda o, p: (o.x < p.x) or (o.y < p.y),
    "not": lambda o, p: not (o.x < p.x),
    "chain": lambda o, p: 0 < o.x < 1,
    "max": lambda o, p: max(o.x, p.x) < 1,
    "any": lambda o, p: any(o.x < p.x),
    "in": lambda o, p: o.x in (1, 2),
}
BUILDERS: dict[str, Callable[..., Any]] = {
    "formula": spare.Reference,
    "closest": lambda name, formula: spare.Reference.closest(name, lambda o, p: jnp.where(formula(o, p), o.x, jnp.inf)),
    "closure": lambda name, formula: spare.Reference(name, formula).closure(),
    "inverse": lambda name, formula: spare.Reference(name, formula).inverse(),
    "inverse of closest": lambda name, formula: spare.Reference.closest(name, formula).inverse(),
    "both": lambda name, formula: spare.Reference(name, formula) & spare.Reference("b", lambda o, p: o.x < p.x),
    "less": lambda name, formula: spare.Reference("b", lambda o, p: o.x < p.x) - spare.Reference(name, formula),
}


@pytest.mark.parametrize("formula", CHOICES.values(), ids=CHOICES.keys())
def test_python_choices_in_a_formula(formula: Any) -> None:
    """`if`, `and`, `or`, `not`, `0 < x < 1`, max: every way to build a reference says what to write (jnp.where, &)."""
    for make in BUILDERS.values():
        text = refuses(
            lambda make=make: world(formula, make), r"write jnp\.where\(c, a, b\).*& for `and`, \| for `or`, ~ for"
        )
        assert "Tracer" not in text


@pytest.mark.parametrize("make", [make for name, make in BUILDERS.items() if "closest" not in name])
def test_formulas_that_give_no_booleans(make: Any) -> None:
    """Numbers, None, texts, tuples, matrices, errors: refused in formulas, closures, inverses and combinations."""
    for formula, message in (
        (lambda o, p: o.x - p.x, "one Boolean per object, it gives float"),
        (lambda o, p: (o.x < p.x).astype(int), "one Boolean per object, it gives int"),
        (lambda o, p: jnp.nan, "one Boolean per object"),
        (lambda o, p: None, "it gives None; has it a `return`"),
        (lambda o, p: "x", "it gives the text 'x'"),
        (lambda o, p: (o.x < 1, o.y < 1), "it gives a tuple"),
        (lambda o, p: jnp.outer(o.x, p.x) < 1, "shape"),
        (lambda o, p: np.array([True, False, True]), "shape"),
        (lambda o, p: False, "always False"),
        (lambda o, p: o == p, "compare properties"),
        (lambda o, p: o < p, "uses an object where a property of it is meant"),
        (lambda o, p: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda o, p: math.sqrt(o.x) < 1, r"use jax\.numpy, as in jnp\.sqrt for math\.sqrt"),
        (lambda o, p: math.sqrt(p.x) < o.x, r"use jax\.numpy, as in jnp\.sqrt for math\.sqrt"),
        (lambda o, p: np.sqrt(o.x) < 1, r"use jax\.numpy, as in jnp\.sqrt for np\.sqrt"),
    ):
        assert "Tracer" not in refuses(lambda formula=formula: world(formula, make), message)
    assert world(lambda o, p: True) is not None  # everybody else


@pytest.mark.parametrize("make", [spare.Reference.closest, spare.Reference.farthest])
def test_keys_that_are_no_numbers(make: Any) -> None:
    """A Boolean, None, a tuple, a matrix or a complex number as the key of `closest` and `farthest`: refused."""
    for key, message in (
        (lambda o, p: o.x < p.x, r"it gives Booleans; use Reference\(name, formula\)"),
        (lambda o, p: True, "it gives Booleans"),
        (lambda o, p: None, "it gives None"),
        (lambda o, p: (o.x, o.y), "it gives a tuple"),
        (lambda o, p: jnp.stack([o.x, o.y]), "shape"),
        (lambda o, p: o.x + 1j, "complex"),
        (lambda o, p: math.hypot(o.x, o.y), r"use jax\.numpy"),
    ):
        refuses(lambda key=key: world(key, make), message)


def test_references_that_are_combined_as_truths() -> None:
    """`a and b` would be b, `not a` False: refused, as are functions among references, ~, and what is no formula."""
    near = api.Reference("near", lambda o, p: o.x < p.x)
    refuses(lambda: near and near, "combine references with &")
    refuses(lambda: not near, "combine references with &")
    refuses(lambda: ~near, "a - b")
    for other in (None, "far", lambda o, p: o.x > p.x):
        refuses(lambda other=other: near & other, r"near' & \.\.\.: expected a spare\.Reference")
    for formula in (near, None, 5, "o.x < p.x"):
        refuses(lambda formula=formula: api.Reference("far", formula), "must be a Python function such as lambda o, p")
    refuses(lambda: api.Reference("far", lambda o, p: o.x < 1, aggregator=None), "such as .'mean', 'max'")


def test_frames_whose_formulas_give_something_else() -> None:
    """An origin that is no tuple, a heading that is no number, unknown parameters, `if`, math: said in words."""
    places: dict[str, Any] = {"positions": (("x", "y"),)}
    for frame, message in (
        ({"origin": lambda o, a: None}, r"such as \(o\.x, o\.y\), it gives None"),
        ({"origin": lambda o, a: o.x}, "it gives an array"),
        ({"origin": lambda o, a: (o.x, o.y, o.x, o.y)}, "2 or 3 coordinates"),
        ({"origin": lambda o, a: (o.x, a.z)}, "unknown parameter 'z'; valid: k"),
        ({"origin": lambda o, a: (o.x, o.y) if o.x > 0 else (o.y, o.x)}, r"jnp\.where"),
        ({"origin": "who", "heading": lambda o, a: None}, "heading must be one number, it is None"),
        ({"origin": "who", "heading": lambda o, a: (o.x, o.y)}, "heading must be one number, it is a tuple"),
        ({"origin": "who", "heading": lambda o, a: math.atan2(o.y, o.x)}, r"use jax\.numpy"),
    ):
        refuses(lambda frame=frame: framed(**places, **frame), message)


# -- odd values -------------------------------------------------------------------------------------------------------

HUGE = 10**400


def test_transitions_chosen_in_odd_ways() -> None:
    """A step of 0, a text in a slice, True, masked numbers: refused; beyond the last transition is an IndexError."""
    data: Any = DATA
    for slices in (slice(None, None, 0), slice(None, "a"), slice(1.5)):
        for sequence in (data, data.states, data.actions):
            refuses(lambda s=slices, q=sequence: q[s], "12 transitions: .*slice")
    for index in (True, np.bool_(True), np.ma.array([1, 2], mask=[False, True])):
        refuses(lambda index=index: data[index], "choose by a number")
    with pytest.raises(IndexError):
        _ = DATA.states[HUGE]


def test_numbers_that_no_float_comes_near() -> None:
    """10**400 as a value, parameter, weight, resolution, period, setting or variance: refused like infinity."""
    values = DATA.values.astype(object)
    values[3, 1] = HUGE
    columns = {name: getattr(DATA, name) for name in ("next_values", "offsets", "action", "objects", "parameters")}
    message = "object 3, property 'y': inf"
    refuses(lambda: spare.Experience.from_arrays(toy.domain, values=values, **columns), message)
    kept = spare.Experience.from_arrays(toy.domain, values=values, **columns, drop_invalid=True)
    assert kept.dropped == 1
    refuses(lambda: MODEL.predict(spare.State(STATE.ids, values[: len(STATE)].tolist()), CALL), message)
    far = spare.ActionCall(CALL.action, CALL.objects, (HUGE,))
    refuses(lambda: MODEL.predict(STATE, far), "parameter 'd'.*must be finite")
    assert spare.Builder(toy.domain, drop_invalid=True).add(STATE, far, AFTER).dropped == 1
    refuses(lambda: spare.Builder(toy.domain).add(STATE, CALL, AFTER, weight=HUGE), "weight 1000.*finite")
    for call in (
        lambda: spare.Property("x", resolution=HUGE),
        lambda: spare.Property("x", period=HUGE),
        lambda: spare.Periodic(HUGE),
        lambda: toy.domain.with_resolutions({"x": HUGE}),
        lambda: spare.Training(learning_rate=HUGE),
        lambda: api.Model(toy.domain, [], HUGE),
    ):
        refuses(call)


def test_dates_given_to_an_action() -> None:
    """A date or a duration as an action's parameter is the seconds that data have for it, of whatever library it is."""
    noon = datetime.datetime(2024, 3, 1, 12, tzinfo=datetime.UTC)
    for one in (noon, noon.replace(tzinfo=None), np.datetime64("2024-03-01T12:00:00"), pd.Timestamp(noon)):
        assert api.ActionCall("usher", CALL.objects, (one,)).parameters == (1709294400.0,)
    refuses(lambda: MODEL.predict(STATE, api.ActionCall("usher", CALL.objects, (np.datetime64("NaT"),))), "finite")
    for one in (np.timedelta64(1500, "ms"), datetime.timedelta(seconds=1.5)):
        assert api.ActionCall("usher", CALL.objects, (one,)).parameters == (1.5,)
    refuses(lambda: MODEL.predict(STATE, api.ActionCall("usher", (np.array([1, 2]),), (0.1,))), "neither text nor")


def test_things_in_place_of_arrays() -> None:
    """None, a path, a date, a dictionary for an array, a list for a cell, an array of no axes for a tuple: refused."""
    columns = {name: getattr(DATA, name) for name in ("next_values", "offsets", "action", "objects", "parameters")}
    for given in (None, pathlib.Path("a"), {}, object(), STATE):
        refuses(
            lambda g=given: spare.Experience.from_arrays(toy.domain, values=g, **columns), "values: expected an array"
        )
        refuses(lambda g=given: MODEL.predict(api.State(STATE.ids, g), CALL), "state: expected an array")
    cells = DATA.values.astype(object)
    cells[0, 0] = [1, 2]
    refuses(
        lambda: spare.Experience.from_arrays(toy.domain, values=cells, **columns), r"row 0: \[1, 2\] is not a number"
    )
    three: Any = np.array(3)
    for call in (
        lambda: spare.State(three, STATE.values),
        lambda: spare.ActionCall("usher", three),
        lambda: spare.Action("go", three),
        lambda: api.Model(toy.domain, three, np.ones(2)),
        lambda: spare.concatenate(three),
        lambda: api.Experience.to_table(DATA, np.array(["a", "b"])),
        lambda: toy.domain.property(api.Experience.to_table(DATA)["x"]),
        lambda: MODEL.warnings(FRAME),
        lambda: MODEL.familiar(None),
    ):
        refuses(call)


def test_flags_that_are_neither_true_nor_false() -> None:
    """The text 'no', None, 1 where True or False belongs: refused, not taken for true; NumPy's Booleans are fine."""
    for given in ("no", None, 1, [False]):
        for call in (
            lambda g=given: api.Builder(toy.domain, drop_invalid=g),
            lambda g=given: api.Experience.from_table(toy.domain, FRAME, drop_invalid=g),
            lambda g=given: api.Property("x", static=g),
            lambda g=given: api.Property("x", input=g),
        ):
            refuses(call, "must be True or False")
    odd = [spare.Property("x"), api.Property("size", static=np.bool_(True))]
    assert spare.Domain("w", properties=odd, references=[], actions=[spare.Action("go", ("who",))]).dynamic == (0,)


def test_info_of_odd_names_and_kinds() -> None:
    """Info called as an argument of `add` comes back through a builder; info that is no dictionary is refused."""
    named = spare.Transition(STATE, CALL, AFTER, 1.0, {"weight": 3, "state": "a"})
    assert spare.Builder(toy.domain).extend([named]).build()[0].info == {"weight": 3, "state": "a"}
    wrong: Any = 5
    refuses(lambda: spare.Builder(toy.domain).extend([spare.Transition(STATE, CALL, AFTER, 1.0, wrong)]), "dictionary")


def test_settings_of_several_rules() -> None:
    """A Mixing checks what it is given, as presets do."""
    for given in ({"kappa": "a"}, {"clustering": 3}, {"epsilon": math.nan}, {"restart": "no"}):
        refuses(lambda given=given: Mixing(2, **api_dict(given)), f"Mixing: {next(iter(given))} must be")


def api_dict(given: dict[str, Any]) -> Any:
    """For the type checker."""
    return given


class _Late:
    """A formula that does well until it is told not to."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.now = error, False

    def __call__(self, o: Any, p: Any) -> Any:
        if self.now:
            raise self.error
        return o.x < p.x


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit(), OSError("boo"), ValueError("boo")], ids=repr)
def test_formulas_that_raise(error: BaseException) -> None:
    """An error of the formula's, also one that would end the program, when the domain is made and when it is used."""
    late = _Late(error)
    domain = world(late)
    late.now = True
    refuses(lambda: world(late), "reference 'near': its formula fails.*" + ("ends the program|boo"))
    view = domain.view(None, jnp.zeros((3, 2)), jnp.ones(3, bool), None)
    refuses(lambda: domain.reference("near").relation.pick(view, (jnp.int32(0),)), "formula.* fails: ")


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: pathlib.Path) -> dict[str, pathlib.Path]:
    """One file of every kind that could be mistaken for ours, and ours."""
    found = {name: tmp_path / name for name in ("text", "empty", "folder", "zip", "table", "experience", "model")}
    found["text"].write_text("x, y\n1, 2\n")
    found["empty"].write_bytes(b"")
    found["folder"].mkdir()
    with zipfile.ZipFile(found["zip"], "w") as archive:
        archive.writestr("a", "b")
    FRAME.to_parquet(found["table"])
    DATA.save(found["experience"])
    MODEL.save(found["model"])
    return found


def test_files_of_another_kind(files: dict[str, pathlib.Path]) -> None:
    """A text, an empty file, a folder, a zip, a table, the other file of ours: `load` says what it is."""
    for name, message in (
        ("text", "looks like a text"),
        ("empty", "looks like an empty file"),
        ("folder", "this is a folder"),
        ("zip", "looks like a zip archive"),
    ):
        refuses(lambda name=name: spare.load(files[name]), message)
        refuses(lambda name=name: spare.Experience.load(files[name]), message)
    refuses(lambda: spare.load(files["experience"]), r"a Parquet file.*; spare\.Experience\.load")
    refuses(lambda: spare.Experience.load(files["model"]), r"as models are: spare\.load")
    refuses(lambda: spare.Experience.load(files["table"]), "from_table")
    for given in (None, 5, ["m.spare"], DATA, ""):
        for call in (api.load, api.Experience.load, MODEL.save, api.Experience.save.__get__(DATA)):
            refuses(lambda call=call, given=given: call(given), "expected the name of a file")
    for domain in (spare.Domain, "queue"):
        refuses(lambda domain=domain: api.load(files["model"], domain), "domain: expected a spare.Domain")
        refuses(lambda domain=domain: api.Experience.load(files["experience"], domain), "domain: expected")


@pytest.mark.slow
def test_commands_that_are_given_something_else(files: dict[str, pathlib.Path]) -> None:
    """Files in the wrong order, numbers out of range, names with a letter wrong: one sentence says what to give."""
    data, model, folder = files["experience"], files["model"], files["folder"]
    for line, message in (
        (("evaluate", data, model), "Parquet file"),
        (("fit", model), "models"),
        (("fit", data, "--seed", -1), "seed must be a whole number"),
        (("fit", data, "--threads", 0), "--threads must be a whole number"),
        (("fit", data, "--rules", "two"), "give a number, or auto"),
        (("fit", data, "--rules", "²"), "give a number, or auto"),
        (("fit", data, "--rules", "9" * 5000), "give a number, or auto"),
        (("fit", data, "--out", "x" * 300), "choose another name"),
        (("render", ""), "this is a folder"),
        (("inspect", "/proc/self/mem"), "cannot be read"),
        (("fit", data, "--max-references", -1), "max_references must be 0 or more"),
        (("cluster", data, "--seed", -1), "seed must be a whole number"),
        (("fit", data, "--domain", "qeue"), "did you mean 'queue'"),
        (("predict", model, data, "--index", 99), "transitions 0 to 11"),
        (("demo", "--samples", 0, "--out", "demo"), "samples must be a whole number"),
        (("generate", "push", "--samples", "9" * 400, "--out", "p.parquet"), "samples must be at most"),
        (("bench", "em", "--seed", -1), "seed must be a whole number"),
    ):
        assert message in one_sentence(run(*line, folder=folder)), line
    assert not list(folder.iterdir())
