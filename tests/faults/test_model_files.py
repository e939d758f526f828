"""Model files that are broken, or made to do harm. One test per fault; its first line says how it is handled."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import pickle
import random
import re
import resource
import time
import zipfile
from typing import Any

import numpy as np
import pytest

import spare
from spare.commands.inspect import inspect
from spare.io import manifest as manifests
from spare.io import strictjson
from spare.lab.worlds import queue as toy
from tests.faults.helpers import container, one_sentence, refuses, run, sealed, taken_apart
from tests.fuzz import samples
from tests.fuzz.mutations import damaged_bytes


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "good.spare"
    samples.model().save(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "bad.spare"


def refused(path: pathlib.Path, content: bytes, message: str | None, domain: spare.Domain | None = None) -> str:
    path.write_bytes(content)
    text = refuses(lambda: spare.load(path, domain), message)
    assert str(path) in text
    assert message is None or re.search(message, text.replace(str(path), "")), text  # not just in the test's own name
    return text


def changed(good: bytes, *keys: Any, to: Any) -> bytes:
    """The file with one thing in its manifest replaced (or removed, to=...), sealed again."""
    manifest, arrays = manifests.decode(good)
    manifest = copy.deepcopy(manifest)
    place = manifest
    for key in keys[:-1]:
        place = place[key]
    if to is ...:
        del place[keys[-1]]
    else:
        place[keys[-1]] = to
    return sealed(manifest, arrays)


def with_arrays(good: bytes, change: Any) -> bytes:
    manifest, arrays = manifests.decode(good)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(arrays)
    return sealed(manifest, arrays)


def test_model_truncated_at_any_byte(good: bytes, path: pathlib.Path) -> None:
    """Refused as truncated or damaged, wherever it is cut."""
    for length in range(0, len(good), 61):
        refused(path, good[:length], "truncated|damaged|not JSON|not a model")


def test_model_with_any_bit_flipped(good: bytes, path: pathlib.Path) -> None:
    """Refused by the check sum or before it: no flipped bit is ever read as a number."""
    rng = random.Random(0)
    for _ in range(150):
        broken = bytearray(good)
        broken[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
        refused(path, bytes(broken), None)


def test_model_with_random_damage(good: bytes, path: pathlib.Path) -> None:
    """Refused with one of our own errors, or read as the unbroken model."""
    manifest, arrays = manifests.decode(good)
    for seed in range(100):
        path.write_bytes(damaged_bytes(good, random.Random(seed)))
        try:
            again, other = manifests.read(path)
        except spare.SpareError:
            continue
        assert again == manifest
        assert all(np.array_equal(arrays[name], other[name]) for name in arrays)


def test_model_without_a_manifest(good: bytes, path: pathlib.Path) -> None:
    """Refused: a safetensors file may have any metadata, or none."""
    header, body = taken_apart(good)
    for metadata in (None, {}, {"other": "text"}):
        refused(path, container({**header, "__metadata__": metadata}, body), "it has no manifest")
    for wrong in ([], 3, {"spare": 3}):
        refused(path, container({**header, "__metadata__": wrong}, body), "damaged")


def test_model_with_bytes_added(good: bytes, path: pathlib.Path) -> None:
    """Refused: tensors must fill the file exactly."""
    refused(path, good + b"1234", "file not fully covered")


def test_model_with_overlapping_tensors(good: bytes, path: pathlib.Path) -> None:
    """Refused: two tensors may not share bytes."""
    header, body = taken_apart(good)
    names = [name for name in header if name.endswith("noise.variance")]
    header[names[1]] = header[names[0]]
    refused(path, container(header, body), "invalid offset for tensor")


def test_model_with_a_gap_between_tensors(good: bytes, path: pathlib.Path) -> None:
    """Refused: no bytes may hide between tensors."""
    header, body = taken_apart(good)
    del header["noise.variance"]
    refused(path, container(header, body), "invalid offset for tensor")


def test_model_without_a_tensor(good: bytes, path: pathlib.Path) -> None:
    """Refused, naming the tensor that is missing."""
    refused(
        path,
        with_arrays(good, lambda a: a.pop("rule.0.predictor.mean.1.bias")),
        r"'rule\.0\.predictor\.mean\.1\.bias' is missing",
    )
    for broken in (
        lambda a: a.pop("rule.0.predictor.mean.0.bias"),
        lambda a: a.update({"rule.0.predictor.mean.0.bias": np.zeros((), "f4")}),
    ):
        path.write_bytes(with_arrays(good, broken))
        refuses(lambda: inspect(path), "rule 1 has no network")


def test_model_with_an_extra_tensor(good: bytes, path: pathlib.Path) -> None:
    """Refused, naming the tensor that belongs to nothing."""
    refused(path, with_arrays(good, lambda a: a.update(hidden=np.ones(3, np.float32))), "belong to nothing: hidden")


@pytest.mark.parametrize("shape", [[2**40], [2**31, 2**31], [10**9, 10**9, 10**9, 10**9], [-1], [0, 2**39], [1] * 40])
def test_model_with_an_absurd_shape(good: bytes, path: pathlib.Path, shape: list[int]) -> None:
    """Refused before anything is allocated: a shape must fit the bytes that are there."""
    header, body = taken_apart(good)
    header["noise.variance"]["shape"] = shape
    refused(path, container(header, body), "damaged: (invalid shape|overflow|invalid JSON in header: invalid value)")


@pytest.mark.parametrize("kind", ["F64", "I8", "BOOL", "F99", "", None, 7])
def test_model_with_a_wrong_type(good: bytes, path: pathlib.Path, kind: Any) -> None:
    """Refused: tensors are made of 32-bit numbers."""
    header, body = taken_apart(good)
    header["noise.variance"]["dtype"] = kind
    refused(path, container(header, body), "damaged: (invalid shape, data type|invalid JSON in header: )")


def test_model_with_tensors_that_are_no_weights(good: bytes, path: pathlib.Path) -> None:
    """Refused: safetensors knows more kinds of numbers, any number of axes, and any name; a model has use for none."""
    for tensor, message in (
        ({"dtype": "I8", "shape": [8]}, "not made of 32-bit or 64-bit numbers"),
        ({"dtype": "F64", "shape": [1]}, "not made of finite 32-bit numbers|check sum"),
        ({"dtype": "F32", "shape": [1, 1, 1, 1, 2]}, "is absurd"),
    ):
        header, body = taken_apart(good)
        header["more"] = {**tensor, "data_offsets": [len(body), len(body) + 8]}
        refused(path, container(header, body + bytes(8)), message)
    header, body = taken_apart(good)
    header["none"] = {"dtype": "F32", "shape": [0, 2**39], "data_offsets": [len(body), len(body)]}
    refused(path, container(header, body), "is absurd")
    refused(path, with_arrays(good, lambda a: a.update({"\x1b[2J": np.ones(1, "f4")})), "80 plain characters")


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_model_with_weights_that_are_not_finite(good: bytes, path: pathlib.Path, number: float) -> None:
    """Refused, naming the tensor."""

    def spoil(arrays: dict[str, np.ndarray]) -> None:
        arrays["rule.0.predictor.mean.0.weight"].flat[3] = number

    refused(path, with_arrays(good, spoil), r"rule\.0\.predictor\.mean\.0\.weight' is not made of finite")


def test_model_with_duplicate_keys(good: bytes, path: pathlib.Path) -> None:
    """Refused: readers would disagree about which one counts."""
    length = int.from_bytes(good[:8], "little")
    header, body = good[8 : 8 + length], good[8 + length :]
    refused(path, container(header.replace(b'"dtype"', b'"dtype":"F32","dtype"', 1), body), "'dtype' appears twice")
    twice = header.replace(
        b'"noise.variance"',
        b'"noise.variance":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"noise.variance"',
        1,
    )
    refused(path, container(twice, body), "'noise.variance' appears twice")
    twice = header.replace(b'\\"format\\"', b'\\"format\\": 2, \\"format\\"', 1)
    assert twice != header
    refused(path, container(twice, body), "'format' appears twice")


@pytest.mark.parametrize("depth", [30, 900, 100_000, 1_000_000])
def test_model_with_deep_json(good: bytes, path: pathlib.Path, depth: int) -> None:
    """Refused, however deep it is nested; the process survives."""
    _, body = taken_apart(good)
    refused(path, container(b"[" * depth + b"]" * depth, body), "nested more than|not JSON")
    refused(path, container(b'{"a":' * (depth // 5), body), "nested more than|not JSON")


def test_model_with_a_header_longer_than_allowed(good: bytes, path: pathlib.Path) -> None:
    """Refused at once: a header is at most 2 MB."""
    big = b'{"__metadata__":{}}' + b" " * (strictjson.LARGEST_TEXT + 1)
    refused(path, container(big, b""), "with a header of")
    refused(path, (2**63).to_bytes(8, "little") + good[8:], "with a header of")


def test_model_with_numbers_that_are_not_json(good: bytes, path: pathlib.Path) -> None:
    """Refused: NaN and Infinity, numbers of ten thousand digits, half characters."""
    for bad, message in (("NaN", "NaN"), ("Infinity", "Infinity"), ("1" * 10_000, "not JSON"), ('"\\ud800"', "half")):
        manifest, arrays = manifests.decode(good)
        manifest = {**manifest, "provenance": {"seed": "HERE"}}
        text = sealed(manifest, arrays).replace(b'\\"HERE\\"', bad.replace("\\", "\\\\").replace('"', '\\"').encode())
        length = int.from_bytes(text[:8], "little")
        header, _ = json.JSONDecoder().raw_decode(text[8:].decode("latin-1"))
        body = good[8 + int.from_bytes(good[:8], "little") :]
        assert length
        refused(path, container(header, body), message)


def test_model_with_texts_without_end(good: bytes, path: pathlib.Path) -> None:
    """Refused: a text in a manifest has at most 4096 characters."""
    refused(path, changed(good, "provenance", to={"note": "x" * 5000}), "a text of 5000 characters")


def test_model_with_thousands_of_pointers(good: bytes, path: pathlib.Path) -> None:
    """Refused: a list of references has at most 64."""
    refused(path, changed(good, "rules", 0, "gamma", to=[["behind", [0]]] * 65), "at most 64")


def test_model_that_is_a_pickle(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Never unpickled: refused, and `spare inspect` says what it is."""

    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "owned"),)

    refused(path, pickle.dumps(Bomb()), "not a model file")
    assert "a Python pickle" in one_sentence(run("inspect", path, folder=tmp_path))
    assert not (tmp_path / "owned").exists()


def test_model_that_is_a_zip(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Refused, and `spare inspect` says what it is."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", "{}")
    refused(path, path.read_bytes(), "not a model file")
    assert "a zip archive" in one_sentence(run("inspect", path, folder=tmp_path))


def test_model_that_names_code(good: bytes, path: pathlib.Path) -> None:
    """Nothing in a file can name code: unknown activations, predictors and domains are refused, never imported."""
    place = ("rules", 0, "predictor", "networks", "mean", "activation")
    refused(path, changed(good, *place, to="os.system"), "unknown activation 'os.system'")
    refused(path, changed(good, *place, to=["relu"]), "damaged|unknown activation")
    refused(path, changed(good, "rules", 0, "predictor", "kind", to="os.system"), "unknown (kind of )?predictor")
    refused(path, changed(good, "rules", 0, "predictor", "kind", to="spare.commands.cli:main"), "damaged")
    refused(path, changed(good, "domain", "name", to="os"), "needs the domain 'os'")
    refused(path, changed(good, "domain", "name", to="antigravity:main"), "damaged")


def test_model_behind_a_link(good: bytes, path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Read through a link; saving over one replaces the link and leaves alone what it points to."""
    target = tmp_path / "target.spare"
    target.write_bytes(good)
    path.symlink_to(target)
    spare.load(path)
    toy.true_model().save(path)
    assert not path.is_symlink()
    assert target.read_bytes() == good
    loop = tmp_path / "loop.spare"
    loop.symlink_to(loop)
    refuses(lambda: spare.load(loop), r"loop\.spare")


def test_model_that_is_a_pipe_or_a_device(tmp_path: pathlib.Path) -> None:
    """Refused at once instead of waited for."""
    os.mkfifo(tmp_path / "pipe.spare")
    begin = time.monotonic()
    refuses(lambda: spare.load(tmp_path / "pipe.spare"), "a pipe, a socket or a device")
    refuses(lambda: spare.load("/dev/zero"), "a pipe, a socket or a device")
    refuses(lambda: spare.load(tmp_path), "a folder")
    assert time.monotonic() - begin < 1


def test_model_with_a_name_that_cannot_be(tmp_path: pathlib.Path) -> None:
    """A NUL, a name that is too long, a file where a folder should be: a sentence each."""
    (tmp_path / "file").write_text("")
    for name in ("a\0b", "x" * 300, "file/below"):
        refuses(lambda name=name: spare.load(tmp_path / name), "no such file|cannot be read")
        refuses(lambda name=name: toy.true_model().save(tmp_path / name), "cannot write|does not exist")


def test_model_of_a_newer_format(good: bytes, path: pathlib.Path) -> None:
    """Refused with a sentence that says what to do."""
    refused(path, changed(good, "format", to=99), r"newer SPARE \(format 99, this one reads up to 1\); install")


def test_model_of_another_domain_says_what_differs(good: bytes, path: pathlib.Path) -> None:
    """It names the domain it needs, and each property, action or reference that is missing or different."""
    properties, references, actions = toy.domain.properties, toy.domain.references, toy.domain.actions

    def domain(name: str = "queue", **changes: Any) -> spare.Domain:
        return spare.Domain(name, **{"properties": properties, "references": references, "actions": actions, **changes})

    refused(path, good, "needs the domain 'queue', not 'line'", domain("line"))
    fewer = [one for one in references if one.name != "behind"]
    refused(
        path,
        good,
        r"reference 'behind' is missing from the domain \(it has ahead, nearest, line\)",
        domain(references=fewer),
    )
    other = [*fewer, spare.Reference("behind", lambda o, p: o.x < p.x)]
    refused(
        path,
        good,
        "reference 'behind' is different: relation closest/1 in the file, formula/1 in the domain",
        domain(references=other),
    )
    feet = [spare.Property("x", unit="ft", resolution=1e-3), *properties[1:]]
    refused(path, good, "property 'x' is different: unit m in the file, ft in the domain", domain(properties=feet))
    more = [*properties, spare.Property("age", static=True)]
    refused(path, good, "property 'age' of the domain is not in the file", domain(properties=more))
    order = [properties[1], properties[0], properties[2]]
    refused(path, good, "order is x, y, mass in the file, y, x, mass in the domain", domain(properties=order))
    called = [spare.Action("usher", objects=("guest",), parameters=("d",))]
    refused(
        path,
        good,
        "action 'usher' is different: objects target in the file, guest in the domain",
        domain(actions=called),
    )


@pytest.mark.slow
def test_model_of_an_unknown_domain_is_inspected(tmp_path: pathlib.Path) -> None:
    """`spare inspect` needs no domain; `spare show` says which one is needed."""
    own = spare.Domain(
        "mine", properties=[spare.Property("x", resolution=0.1)], references=[], actions=[spare.Action("go", ("who",))]
    )
    spare.Model(own, [], np.ones(1)).save(tmp_path / "mine.spare")
    result = run("inspect", "mine.spare", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "domain mine (your own: pass --domain MODULE:NAME" in result.stdout
    assert "needs the domain 'mine'" in one_sentence(run("show", "mine.spare", folder=tmp_path))


def test_model_with_a_provenance_that_lies(good: bytes, path: pathlib.Path) -> None:
    """What is shown is checked: shares are shares, and not texts that steer a terminal."""
    for wrong in ([{"share": "\x1b[2J", "typical": 1}], [{"share": 2.0, "typical": 1}], [{}], [[]], "rules", [1] * 9):
        refused(path, changed(good, "provenance", "rules", to=wrong), "damaged")


def test_model_that_would_not_come_back_is_not_written(tmp_path: pathlib.Path) -> None:
    """Whatever `load` would refuse, `save` refuses; the old file stays."""
    path = tmp_path / "model.spare"
    model = samples.model()
    model.save(path)
    before = path.read_bytes()
    for wrong in (
        {"x": object()},
        {"x": float("nan")},
        {"x": "y" * 5000},
        {"x": [[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]},
        {"rules": 3},
    ):
        again = spare.Model(model.domain, model.rules, model.noise, wrong)
        refuses(lambda again=again: again.save(path), "not written, because")
        assert (path.read_bytes(), os.listdir(tmp_path)) == (before, ["model.spare"])


@pytest.mark.slow
def test_model_saved_and_loaded_is_the_same(tmp_path: pathlib.Path) -> None:
    """Save, load, predict: the same bits; save, load, save: the same bytes; in a fresh process too."""
    model, data = toy.true_model(), toy.generate(6, seed=1)
    model.save(tmp_path / "a.spare")
    again = spare.load(tmp_path / "a.spare")
    np.testing.assert_array_equal(again.log_prob(data), model.log_prob(data))
    np.testing.assert_array_equal(again.sample(data, 3), model.sample(data, 3))
    again.save(tmp_path / "b.spare")
    assert (tmp_path / "a.spare").read_bytes() == (tmp_path / "b.spare").read_bytes()


def test_model_reading_takes_no_more_memory_than_the_file(tmp_path: pathlib.Path) -> None:
    """A header that asks for gigabytes gets nothing: tensors are views of the bytes that are there."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    header = {
        "__metadata__": {},
        **{f"t{k}": {"dtype": "F32", "shape": [2**28], "data_offsets": [0, 2**30]} for k in range(99)},
    }
    path = tmp_path / "bomb.spare"
    path.write_bytes(container(header, bytes(64)))
    refuses(lambda: spare.load(path), "invalid offset for tensor")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10
