"""Files: what is written comes back, whatever it is; what is not ours is refused, whatever it is."""

from __future__ import annotations

import pathlib
import random
import tempfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import spare
from spare.io import manifest as manifests
from spare.io import pages, strictjson, tensors
from spare.learning.cache import Kept, open_run
from spare.names import shown
from tests.strategies import BUCKETS, MANY, build, choices, examples, experience, plan, seeds, transitions

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="spare-properties-"))

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
arrays = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9.]{0,20}", fullmatch=True),
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    ),
    max_size=5,
)


@examples(100)
@given(json_values)
def test_json_comes_back(value: Any) -> None:
    assert strictjson.parse(strictjson.write(value, "it"), "it") == value


@examples(200)
@given(st.binary(max_size=200) | text.map(str.encode))
def test_any_bytes_are_json_or_refused(data: bytes) -> None:
    try:
        value = strictjson.parse(data, "it")
    except spare.FileError:
        return
    assert strictjson.parse(strictjson.write(value, "it"), "it") == value


@examples(100)
@given(arrays)
def test_tensors_come_back_bit_for_bit(given_arrays: dict[str, np.ndarray]) -> None:
    data = tensors.encode(given_arrays, {"a": "b"})
    metadata, found = tensors.decode(data)
    assert metadata == {"a": "b"}
    assert sorted(found) == sorted(given_arrays)
    for name, array in given_arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
    assert tensors.encode(found, metadata) == data


@examples(200)
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_no_model(data: bytes, framed: bool) -> None:
    content = len(data).to_bytes(8, "little") + data if framed else data
    try:
        manifests.decode(content)
    except spare.FileError as error:
        assert str(error).isprintable()  # noqa: PT017 - anything else raised is the failure
    else:
        raise AssertionError("random bytes were taken for a model")


@examples(200)
@given(st.binary(max_size=200))
def test_any_bytes_are_the_header_of_a_page_or_refused(data: bytes) -> None:
    try:
        fields, end = pages._Thrift(data, {}).struct()
    except spare.FileError:
        return
    assert isinstance(fields, dict)
    assert end > 0


@examples(100)
@given(st.text(max_size=50))
def test_whatever_is_shown_is_printable(one: str) -> None:
    assert shown(one).isprintable()
    assert shown(one) == one or not one.isprintable()


@examples(30)
@given(arrays)
def test_checkpoints_come_back_bit_for_bit(given_arrays: dict[str, np.ndarray]) -> None:
    cache = open_run(FOLDER / "run", {})
    cache.put("key", Kept(given_arrays, {"a": ["ü"]}))
    found = cache.get("key")
    cache.close(finished=False)
    assert found is not None
    assert found.description == {"a": ["ü"]}
    assert {n: a.tobytes() for n, a in found.arrays.items()} == {n: a.tobytes() for n, a in given_arrays.items()}


@pytest.mark.slow
@examples(6)
@given(choices, seeds)
def test_models_are_saved_loaded_and_saved_as_the_same_bytes(rnd: random.Random, seed: int) -> None:
    model, _ = build(plan(rnd), random.Random(seed))
    model.save(FOLDER / "a.spare")
    again = spare.load(FOLDER / "a.spare", model.domain)
    again.save(FOLDER / "b.spare")
    assert (FOLDER / "a.spare").read_bytes() == (FOLDER / "b.spare").read_bytes()
    assert str(again) == str(model)


@examples(6, per=MANY)
@given(choices, seeds)
def test_experience_comes_back_bit_for_bit(rnd: random.Random, seed: int) -> None:
    data = experience(plan(rnd).domain, random.Random(seed), transitions(4), BUCKETS["few"])
    data.save(FOLDER / "a.parquet")
    again = spare.Experience.load(FOLDER / "a.parquet", data.domain)
    assert again.fingerprint == data.fingerprint
    again.save(FOLDER / "b.parquet")
    assert (FOLDER / "a.parquet").read_bytes() == (FOLDER / "b.parquet").read_bytes()
