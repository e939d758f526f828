"""Worlds with types survive every way there and back, and their references agree with plain loops."""

from __future__ import annotations

import dataclasses
import pickle
import random
import tempfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import spare
from spare.content import same
from spare.learning.bindings import Bindings
from spare.testing.models import shuffled
from tests.strategies import choices, examples
from tests.typed import typed_domain, typed_experience

COUNT = 7
pytestmark = pytest.mark.slow


def differing(one: spare.Experience, other: spare.Experience) -> list[str]:
    """Fields that are not the same."""
    names = [field.name for field in dataclasses.fields(one)]
    return [name for name in names if not same(getattr(one, name), getattr(other, name))]


@examples(6)
@given(choices)
def test_files_give_the_same_bits(rnd: random.Random) -> None:
    domain = typed_domain(rnd)
    data = typed_experience(rnd, domain, COUNT)
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        data.save(file.name)
        assert differing(spare.Experience.load(file.name, domain), data) == []
        assert differing(spare.concatenate(spare.Experience.stream(file.name, domain)), data) == []


@examples(6)
@given(choices)
def test_tables_give_the_same_bits(rnd: random.Random) -> None:
    domain = typed_domain(rnd)
    data = typed_experience(rnd, domain, COUNT)
    library = rnd.choice(["pandas", "polars", "pyarrow", "dict"])
    relations = {name: data.to_pairs(name, library) for name in data.pairs}
    after = {name: data.to_pairs(name, library, after=True) for name in data.next_pairs}
    table = data.to_table(library)
    found = spare.Experience.from_table(domain, table, relations=relations, next_relations=after)
    assert {*differing(found, data)} <= {"calls", "metadata"}  # a table has neither


@examples(6)
@given(choices)
def test_parts_put_together_are_the_whole(rnd: random.Random) -> None:
    domain = typed_domain(rnd)
    data = typed_experience(rnd, domain, COUNT)
    cut = rnd.randrange(1, COUNT)
    assert differing(spare.concatenate([data[:cut], data[cut:]]), data) == []
    assert differing(spare.Builder(domain).extend(data[i] for i in range(COUNT)).build(source="random"), data) == []
    assert pickle.loads(pickle.dumps(data)) == data
    order = np.array(rnd.sample(range(COUNT), COUNT))
    assert differing(data[order][np.argsort(order)], data) == []
    train, test = data.split(2, seed=0)
    assert not {*train.info["episode"].tolist()} & {*test.info["episode"].tolist()}


def reached(pairs: set[tuple[int, int]], start: int, *, closure: bool) -> set[int]:
    """Whom pairs lead to from a row, in one step or in any number, without the row itself."""
    found = {b for a, b in pairs if a == start}
    while closure and (more := {b for a, b in pairs if a in found} - found):
        found |= more
    return found - {start}


def stored(data: spare.Experience, i: int, name: str) -> set[tuple[int, int]]:
    """The pairs of a link or relation in one state."""
    state: Any = data.states[i]
    if name in state.pairs:
        return {(int(a), int(b)) for a, b in state.pairs[name]}
    column = data.domain.property_names.index(name)
    has = data.domain.held(state.values)[:, column]
    links = state.values[:, column].astype(int)
    return {(row, int(links[row])) for row in range(len(state)) if has[row] and links[row] >= 0}


@examples(3)
@given(choices)
def test_references_that_come_with_what_is_stored(rnd: random.Random) -> None:
    domain = typed_domain(rnd)
    data = typed_experience(rnd, domain, 12)
    mine = data[data.action == 0]
    if not len(mine) or not domain.stored:
        return
    for bindings, rows in (
        (Bindings(mine, "use"), None),
        (Bindings(shuffled(mine, 1)[0], "use"), shuffled(mine, 1)[1]),
    ):
        for name in domain.stored:
            for suffix in ("", "-", "*", "-*"):
                if f"{name}{suffix}" not in [one.name for one in domain.references]:
                    continue
                mask = bindings.mask((f"{name}{suffix}", (0,)))
                if rows is not None:
                    mask = mask[np.argsort(rows)]
                for i in range(len(mine)):
                    pairs = stored(mine, i, name)
                    pairs = {(b, a) for a, b in pairs} if "-" in suffix else pairs
                    expected = reached(pairs, int(mine.objects[i, 0]), closure="*" in suffix)
                    found = np.flatnonzero(mask[mine.offsets[i] : mine.offsets[i + 1]])
                    assert {*found.tolist()} == expected, (name, suffix, i)
