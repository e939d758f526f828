"""Formulas, resolutions, kinds and versions that change under what was learned or half learned with them before."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.commands.fit import Fit
from spare.io import manifest as manifests
from spare.lab.experiments.runs import QUICK
from spare.lab.experiments.store import Store
from spare.language.kinds import Normal
from spare.language.relations import Relation
from spare.learning import train
from spare.learning.cache import Kept, open_run
from spare.model.features import Layout
from spare.model.predictors import linear_predictor
from tests.faults.helpers import one_sentence, refuses, run, sealed
from tests.learning.helpers import quick


@dataclasses.dataclass(frozen=True)
class Within(Relation):
    """Objects that are nearer than `times` the action's parameter d: a relation that reads parameters."""

    times: float

    @property
    def arity(self) -> int:
        return 1

    def pick(self, scene: Any, arguments: Any) -> Any:
        x = scene.objects.x
        return jnp.abs(x - x[arguments[0]]) < self.times * scene.parameters["d"]

    def describe(self) -> str:
        return "within"


def row(near: float = 1.0, times: float = 1.0, turn: float = 0.0, **changes: Any) -> spare.Domain:
    """Things on a line; what may be edited are the threshold of `near`, the factor of `within` and the heading."""
    frame = spare.Frame(lambda t, a: (t.x, t.y), lambda t, a: a.d + turn, positions=(("x", "y"),))
    parts: dict[str, Any] = {
        "properties": [spare.Property(name, resolution=0.01) for name in ("x", "y")],
        "references": [
            spare.Reference("near", lambda o, p: jnp.abs(o.x - p.x) < near),
            spare.Reference("within", Within(times)),
        ],
        "actions": [spare.Action("go", ("who",), ("d",), frame=frame)],
        **changes,
    }
    return spare.Domain("row", **parts)


def pointing_at(domain: spare.Domain, reference: str, framed: bool = False) -> spare.Model:
    """A rule that moves whom the reference finds."""
    shell = spare.Shell(1, (spare.Pointer(reference, (0,)),))
    spec = spare.RuleSpec.of(domain, "go", shell, framed=framed, targets="change")
    shape = (spec.delta.slots, len(domain.dynamic))
    weight = jnp.zeros((len(Layout.of(domain, spec).names), 2 * spec.delta.slots))
    said = linear_predictor(weight, jnp.full(2 * spec.delta.slots, 0.5), jnp.full(shape, 0.01))
    return spare.Model(domain, [spare.Rule(domain, spec, said, np.full(2, 0.01))], np.full(2, 0.01))


EDITS = [
    ("near", False, {"near": 1.1}, "reference 'near'"),
    ("within", False, {"times": 1.2}, "reference 'within'"),
    ("near", True, {"turn": 0.1}, "the frame of action 'go'"),
]


@pytest.mark.parametrize(("reference", "framed", "edit", "named"), EDITS)
def test_model_whose_formulas_were_edited(
    tmp_path: pathlib.Path, reference: str, framed: bool, edit: dict[str, float], named: str
) -> None:
    """A threshold, a relation that reads parameters, or a frame was edited: loading is refused and names it."""
    path, domain = tmp_path / "m.spare", row()
    pointing_at(domain, reference, framed).save(path)
    assert spare.load(path, row()) == spare.load(path, domain)
    text = refuses(lambda: spare.load(path, row(**edit)), named)
    assert "check_formulas=False" in text
    assert spare.load(path, row(**edit), check_formulas=False).rules[0].action == "go"
    unused = {"times": 5.0} if reference == "near" else {"near": 5.0}
    assert spare.load(path, row(**unused)).rules


@pytest.mark.parametrize(("reference", "framed", "edit", "named"), EDITS)
def test_model_of_another_version_of_jax(
    tmp_path: pathlib.Path, reference: str, framed: bool, edit: dict[str, float], named: str
) -> None:
    """Where programs cannot be compared, what formulas answer on made-up scenes is: edits are still noticed."""
    path = tmp_path / "m.spare"
    pointing_at(row(), reference, framed).save(path)
    manifest, arrays = manifests.read(path)
    formulas = manifest["formulas"]
    formulas["versions"]["jax"] = "0.0.1"
    for one in (*formulas["references"].values(), *formulas["frames"].values()):
        one["program"] = "0" * 16
    path.write_bytes(sealed(manifest, {name: array.copy() for name, array in arrays.items()}))
    assert spare.load(path, row()).rules
    refuses(lambda: spare.load(path, row(**edit)), named)


def test_formula_that_reads_something_that_changed(tmp_path: pathlib.Path) -> None:
    """A domain made again after a global of its formulas changed is another one, and the old one is refused."""
    limits = {"near": 1.0}

    def near(o: Any, p: Any) -> Any:
        return jnp.abs(o.x - p.x) < limits["near"]

    reference = spare.Reference("near", near)
    before = row(references=[reference])
    data = _data(before, 12)
    model = pointing_at(before, "near")
    scores = model.log_prob(data)
    limits["near"] = 30.0
    after = row(references=[reference])
    assert after != before
    assert not np.array_equal(pointing_at(after, "near").log_prob(data.with_domain(after)), scores)
    refuses(lambda: model.save(tmp_path / "m.spare"), "reference 'near'.*something that it reads has changed")
    refuses(lambda: spare.fit(before, data, seed=0, preset=quick()), "reference 'near'")
    assert not (tmp_path / "m.spare").exists()


def _data(domain: spare.Domain, samples: int) -> spare.Experience:
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 4, (samples * 3, 2))
    return spare.Experience.from_arrays(
        domain,
        values=values,
        next_values=values + 0.1 * rng.standard_normal(values.shape),
        offsets=np.arange(samples + 1) * 3,
        action=np.zeros(samples, int),
        objects=np.zeros((samples, 1), int),
        parameters=rng.uniform(0.5, 1.5, (samples, 1)),
    )


def kind_of(scale: float) -> spare.Kind:
    """A kind whose density is edited by `scale`; its class has the same name every time, as after an edit."""

    @dataclasses.dataclass(frozen=True)
    class Own(Normal):
        def stay_log_density(self, change: Any, variance: Any) -> Any:
            return super().stay_log_density(change, variance * scale)

    @dataclasses.dataclass(frozen=True)
    class OwnKind(spare.Kind):
        @property
        def leaf(self) -> spare.Leaf:
            return Own()

    return OwnKind()


def _learn(domain: spare.Domain, folder: pathlib.Path | None) -> tuple[spare.Model, int]:
    """(what is learned, how many trainings of earlier runs were used for it)."""
    cache = open_run(folder, {}) if folder else None
    preset = quick(max_references=1, training={"steps": 20})
    result = spare.fit(domain, _data(domain, 30), seed=0, preset=preset, threads=1, cache=cache)
    if cache:
        cache.close(finished=False)
    return result.model, cache.reused if cache else 0


@pytest.mark.slow
def test_edits_between_interrupt_and_going_on(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolutions, formulas, frames, kinds or versions changed: no training of before is used, as in a fresh run."""

    def with_kind(scale: float) -> spare.Domain:
        return row(properties=[spare.Property("x", resolution=0.01, kind=kind_of(scale)), spare.Property("y")])

    edits = [row().with_resolutions({"x": 0.02}), row(near=2.0), row(turn=0.2), with_kind(2.0)]
    for number, after in enumerate(edits):
        folder, before = tmp_path / str(number), with_kind(1.0) if after.programs.kinds else row()
        _, none = _learn(before, folder)
        again, some = _learn(before, folder)
        assert (none, some > 0) == (0, True)
        edited, stale = _learn(after, folder)
        assert stale == 0
        assert edited == _learn(after, None)[0]
        assert edited != again
    monkeypatch.setattr(train, "versions", lambda: {"jax": "another"})
    assert _learn(row(), tmp_path / "0")[1] == 0


MODULE = """
import jax.numpy as jnp
import spare
domain = spare.Domain(
    "row",
    properties=[spare.Property("x", resolution={resolution}), spare.Property("y", resolution=0.01)],
    references=[spare.Reference("near", lambda o, p: jnp.abs(o.x - p.x) < {near})],
    actions=[spare.Action("go", ("who",), ("d",))],
)
"""


@pytest.mark.slow
def test_checkpoint_of_another_fit(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`spare fit` goes on with its own checkpoint, refuses another's, saying what differs; `--fresh` removes it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "first_row.py").write_text(MODULE.format(resolution=0.01, near=1.0))
    (tmp_path / "other_row.py").write_text(MODULE.format(resolution=0.02, near=1.5))
    from spare.commands.common import load_data, named_domain

    domain = named_domain("first_row:domain")
    assert domain is not None
    _data(domain, 20).save("d.parquet")
    asked = Fit(pathlib.Path("d.parquet"), out=pathlib.Path("m.spare"), domain="first_row:domain", max_references=0)
    identity = asked._identity(load_data(asked.data, asked.domain))
    folder = tmp_path / "m.spare.run"

    def unfinished() -> None:
        cache = open_run(folder, identity)
        cache.put("key", Kept({"a": np.ones(2)}, {}))
        cache.close(finished=False)

    unfinished()
    line = ("fit", "d.parquet", "--out", "m.spare", "--max-references", 0, "--threads", 1)
    text = one_sentence(run(*line, "--domain", "other_row:domain", "--seed", 3, folder=tmp_path))
    assert "another formula of reference near; resolution of x: 0.01 there, 0.02 here; seed: 0 there, 3 here" in text
    assert "--fresh" in text
    assert sorted(one.name for one in folder.iterdir()) == ["key.safetensors", "lock", "run.json"]
    assert json.loads((folder / "run.json").read_text()) == identity
    open_run(folder, identity).close(finished=False)
    assert len(list(folder.glob("*.safetensors"))) == 1
    done = run(*line, "--domain", "other_row:domain", "--seed", 3, "--fresh", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not folder.exists()


def test_results_of_other_versions(tmp_path: pathlib.Path) -> None:
    """`spare reproduce` into a folder whose runs were computed by other versions, or edited, is refused."""
    Store(tmp_path / "results", QUICK)
    Store(tmp_path / "results", QUICK)
    path = tmp_path / "results" / "run.json"
    record = json.loads(path.read_text())
    record["versions"]["jax"] = "0.0.1"
    path.write_text(json.dumps(record))
    refuses(lambda: Store(tmp_path / "results", QUICK), "made with jax 0.0.1")
