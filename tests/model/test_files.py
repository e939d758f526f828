"""Model files: the same bits back, and a clear refusal of everything that is not one."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import save as save_tensors

import spare
from spare.io.manifest import digest, read
from spare.lab.worlds import queue as toy
from tests.rules import fresh_predictor, make_rule


@pytest.fixture(scope="module")
def model() -> spare.Model:
    """Two rules with networks of several members, Delta apart from Gamma, changes as targets."""
    gamma = spare.Shell(1, (spare.Pointer("line", (0,)), spare.Pointer("behind", (0,))))
    rules = []
    for k, (delta, inputs) in enumerate(((gamma, None), (spare.Shell(1), ("x", "y")))):
        size = 1 + 3 * (3 if inputs is None else 2)
        predictor = fresh_predictor(jax.random.key(k), size, (delta.slots, 2), hidden=(5, 4), members=2)
        settings: dict[str, Any] = {"targets": ("change", "absolute"), "inputs": inputs}
        rules.append(make_rule(toy.domain, "usher", (gamma, delta), predictor, np.array([0.1, 0.2]), **settings))
    return spare.Model(toy.domain, rules, np.array([1.0, 2.0]), {"seed": 3, "note": "ü"})


@pytest.fixture
def path(model: spare.Model, tmp_path: pathlib.Path) -> pathlib.Path:
    model.save(tmp_path / "model.spare")
    return tmp_path / "model.spare"


def rewritten(path: pathlib.Path, change: Any) -> pathlib.Path:
    """The same file with its manifest and tensors changed by `change`."""
    manifest, tensors = read(path)
    change(manifest, tensors)
    manifest["check"] = digest(manifest, tensors)
    path.write_bytes(save_tensors(tensors, metadata={"spare": json.dumps(manifest, sort_keys=True)}))
    return path


@pytest.mark.slow
def test_a_model_comes_back_with_the_same_bits(model: spare.Model, path: pathlib.Path) -> None:
    again = spare.load(path)
    data = toy.generate(12, seed=0)
    np.testing.assert_array_equal(model.log_prob(data), again.log_prob(data))
    np.testing.assert_array_equal(model.mean(data), again.mean(data))
    np.testing.assert_array_equal(model.sample(data, 1), again.sample(data, 1))
    assert str(again) == str(model)
    assert dict(again.provenance) == {"seed": 3, "note": "ü"}
    assert [rule.spec for rule in again.rules] == [rule.spec for rule in model.rules]


def test_saving_again_gives_the_same_bytes(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    spare.load(path).save(tmp_path / "again.spare")
    assert (tmp_path / "again.spare").read_bytes() == path.read_bytes()


def test_resolutions_come_from_the_file(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    bare = spare.Domain(
        "queue",
        properties=[spare.Property("x", unit="m"), spare.Property("y", unit="m"), toy.domain.property("mass")],
        references=toy.domain.references,
        actions=toy.domain.actions,
    )
    assert spare.load(path, bare).domain.resolutions.tolist() == [1e-3, 1e-3]


def test_numbers_that_are_not_finite_are_never_written(model: spare.Model, tmp_path: pathlib.Path) -> None:
    for bad in (np.nan, np.inf):
        predictor = model.rules[0].predictor
        broken = jax.tree.map(lambda leaf, bad=bad: leaf.at[(0,) * leaf.ndim].set(bad), predictor)
        rule = make_rule(toy.domain, "usher", model.rules[0].gamma, broken, np.ones(2))
        with pytest.raises(spare.FileError, match="not finite"):
            spare.Model(toy.domain, [rule], np.ones(2)).save(tmp_path / "bad.spare")
        assert list(tmp_path.iterdir()) == []


def test_files_that_are_no_models(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    whole = path.read_bytes()
    cases = {
        "empty": b"",
        "text": b"hello, this is not a model at all",
        "short": whole[:5],
        "header": whole[:200],
        "truncated": whole[:-10],
        "longer": whole + b"1234",
        "zeros": bytes(64),
        "plain": save_tensors({"a": np.ones(3, np.float32)}),
        "manifest": save_tensors({"a": np.ones(3, np.float32)}, metadata={"spare": "[1]"}),
        "huge header": (2**60).to_bytes(8, "little") + whole[8:],
    }
    for name, content in cases.items():
        bad = tmp_path / "bad.spare"
        bad.write_bytes(content)
        with pytest.raises(spare.FileError, match=r"bad\.spare") as caught:
            spare.load(bad)
        assert "\n" not in str(caught.value), name
    with pytest.raises(spare.FileError, match="no such file"):
        spare.load(tmp_path / "missing.spare")
    with pytest.raises(spare.FileError):
        spare.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, t: t.pop("rule.0.predictor.mean.1.weight"), "rule.0.predictor.mean.1.weight"),
        (lambda m, t: t.pop("noise.variance"), "noise.variance"),
        (lambda m, t: t.update(extra=np.ones(1, np.float32)), "extra"),
        (lambda m, t: t.update({"rule.0.predictor.x_scale": np.zeros_like(t["rule.0.predictor.x_scale"])}), "scale"),
        (lambda m, t: t.update({"rule.1.noise.variance": -np.ones(2, np.float32)}), "negative"),
        (lambda m, t: t.update({"noise.variance": -np.ones(2, np.float32)}), "negative"),
        (lambda m, t: t.update({"noise.variance": np.ones(3, np.float32)}), "2 values"),
        (lambda m, t: t.update({"noise.variance": np.full(2, np.nan, np.float32)}), "finite"),
        (lambda m, t: t.update({"noise.variance": np.ones(2)}), "32-bit"),
        (lambda m, t: t.update({"rule.0.predictor.mean.0.weight": np.ones((3, 5), np.float32)}), "layers of shapes"),
        (lambda m, t: m.update(format=99), "newer"),
        (lambda m, t: m.update(format="1"), "damaged"),
        (lambda m, t: m.pop("rules"), "damaged"),
        (lambda m, t: m["rules"][0].update(gamma=[["line", [5]]]), "points forward"),
        (lambda m, t: m["rules"][0].update(gamma=[["nowhere", [0]]]), "nowhere"),
        (lambda m, t: m["rules"][0].update(action="fly"), "fly"),
        (lambda m, t: m["rules"][0]["predictor"].update(kind="pickle"), "pickle"),
        (lambda m, t: m["rules"][0]["predictor"]["networks"]["mean"].update(activation="eval"), "eval"),
        (lambda m, t: m["rules"][0]["predictor"]["networks"]["mean"].update(layers=10**9), "layers"),
        (lambda m, t: m["rules"][0].update(targets=["change"]), "targets"),
        (lambda m, t: m["domain"].update(name="mars"), "mars"),
        (lambda m, t: m["domain"]["properties"].pop(), "properties differ"),
        (lambda m, t: m["domain"]["references"][0].update(arity=2), "different"),
        (lambda m, t: m["domain"]["references"].append({"name": "gone"}), "gone"),
        (lambda m, t: m.update(resolutions={"x": "wide"}), "damaged"),
        (lambda m, t: m.update(resolutions={"x": -1.0}), "resolution"),
    ],
)
def test_files_with_something_wrong(path: pathlib.Path, change: Any, message: str) -> None:
    with pytest.raises(spare.FileError, match=message) as caught:
        spare.load(rewritten(path, change))
    assert "\n" not in str(caught.value)


def test_a_network_of_another_width(path: pathlib.Path) -> None:
    def narrow(_: Any, tensors: dict[str, np.ndarray]) -> None:
        tensors["rule.0.predictor.mean.0.weight"] = np.ones((2, 3, 5), np.float32)

    with pytest.raises(spare.FileError, match="the normalisation does not fit the network's 3 inputs"):
        spare.load(rewritten(path, narrow))


def test_a_model_of_another_domain(path: pathlib.Path, tray: spare.Domain) -> None:
    with pytest.raises(spare.FileError, match="'queue', not 'tray'"):
        spare.load(path, tray)


@pytest.mark.slow
def test_references_that_a_model_does_not_use_may_differ(path: pathlib.Path) -> None:
    kept = [r for r in toy.domain.references if r.name in ("line", "behind")]
    smaller = spare.Domain("queue", properties=toy.domain.properties, references=kept, actions=toy.domain.actions)
    data = toy.generate(3, seed=1)
    np.testing.assert_array_equal(spare.load(path, smaller).log_prob(data), spare.load(path).log_prob(data))


def test_outliers_of_the_default_noise_are_saved(tmp_path: pathlib.Path) -> None:
    noise = spare.DefaultNoise(np.full(2, 0.01), np.full(2, 0.1), np.ones(2))
    model = spare.Model(toy.domain, [], noise)
    model.save(tmp_path / "m.spare")
    data = toy.generate(5, seed=0)
    np.testing.assert_array_equal(spare.load(tmp_path / "m.spare").log_prob(data), model.log_prob(data))
