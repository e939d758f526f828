"""`spare fit`, `show`, `evaluate` and `predict`, as processes and as calls."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import spare
from spare.commands.cli import main
from spare.lab.worlds import queue as toy
from spare.model.evaluation import evaluate
from spare.model.model import load

pytestmark = pytest.mark.slow


def run(*arguments: object, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """The command line as a user's shell starts it."""
    return subprocess.run(
        [sys.executable, "-m", "spare", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "SPARE_CACHE": "off"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with data, and a model that a real process learned from them."""
    folder = tmp_path_factory.mktemp("work")
    toy.generate(140, seed=0, followers=1).save(folder / "data.parquet")
    toy.generate(25, seed=1, followers=1).save(folder / "test.parquet")
    result = run("fit", "data.parquet", "--out", "model.spare", "--max-references", 1, "--json", folder=folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    (folder / "fit.json").write_text(result.stdout)
    return folder


@pytest.fixture(autouse=True)
def _here(workspace: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("SPARE_CACHE", "off")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence with which a command refuses, and nothing else."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("spare: ")
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err
    return printed.err


def test_fit_as_json(workspace: pathlib.Path) -> None:
    summary = json.loads((workspace / "fit.json").read_text())
    assert summary["rules"][0] == "usher(target): behind(target) -> b1"
    assert (summary["preset"], summary["seed"], summary["notes"]) == ("default", 0, [])
    rounds = summary["searches"][0]["rounds"]
    assert rounds[0]["best"] == "-"
    assert rounds[1]["kept"]
    assert rounds[1]["loss"] < rounds[0]["loss"]
    assert [r["move"] for r in rounds[:2]] == ["start", "grow"]
    assert summary["searches"][0]["found"] == "behind(target) -> b1"
    assert summary["searches"][0]["ended"]
    assert {e["gamma"] for e in rounds[1]["explored"]} >= {"behind(target) -> b1", "line(target) -> b1"}
    assert (workspace / "model.spare").is_file()
    assert sorted(p.name for p in workspace.iterdir()) == ["data.parquet", "fit.json", "model.spare", "test.parquet"]


def test_fit_in_words(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    out = tmp_path / "again.spare"
    assert main(["fit", "data.parquet", "--out", str(out), "--max-references", "0"]) == 0
    printed = capsys.readouterr()
    assert "usher(target): -" in printed.out
    assert f"wrote {out}" in printed.out
    assert "slots: -" in printed.err
    assert load(out).rules[0].gamma == spare.Shell(1)


def test_show(capsys: pytest.CaptureFixture[str], workspace: pathlib.Path) -> None:
    plain = run("show", "model.spare", folder=workspace)
    assert plain.returncode == 0, plain.stderr
    assert "usher(target): behind(target) -> b1" in plain.stdout
    assert main(["show", "model.spare", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["domain"] == "queue"
    assert summary["rules"][0]["gamma"] == "behind(target) -> b1"
    for head in summary["rules"][0]["heads"]:
        assert head["inputs"][0] == "d"  # the step decides; where one stands may be found not to matter
    assert summary["rules"][0]["default_deviation"]["x"] == pytest.approx(toy.REST, rel=0.3)
    assert main(["show", "model.spare", "--format", "mermaid"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("flowchart LR\n")
    assert 'r1s_target -- "behind" --> r1s_b1' in text
    assert main(["show", "model.spare", "--format", "svg"]) == 0
    assert ET.fromstring(capsys.readouterr().out).tag.endswith("svg")


def test_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "model.spare", "test.parquet", "--draws", "20", "--seed", "3", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    expected = evaluate(load("model.spare"), spare.Experience.load("test.parquet"), seed=3, draws=20)
    assert scores == json.loads(json.dumps(expected.as_dict()))
    truth = toy.true_model(1).log_prob(spare.Experience.load("test.parquet")).mean()
    assert truth - 8 < scores["log_prob"] <= truth + 0.5
    assert main(["evaluate", "model.spare", "test.parquet", "--draws", "20"]) == 0
    table = capsys.readouterr().out
    for word in (
        "nats per transition",
        "moved objects",
        "CRPS",
        "RMSE",
        "90%",
        "25 transitions",
        "acted on",
        "bystanders",
    ):
        assert word in table


def test_predict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "model.spare", "test.parquet", "--index", "7", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    data, model = spare.Experience.load("test.parquet"), load("model.spare")
    expected = model.predict(data.states[7], data.actions[7])
    assert answer["rules"] == [1]
    assert [o["predicted"] for o in answer["objects"]] == expected.predicted.tolist()
    assert sum(o["predicted"] for o in answer["objects"]) == 2
    first = answer["objects"][0]
    assert first["std"]["x"] ** 2 == pytest.approx(first["aleatoric"]["x"] ** 2 + first["epistemic"]["x"] ** 2)
    for k, one in enumerate(answer["objects"]):
        assert one["object"] == data.states[7].ids[k]
        np.testing.assert_allclose([one["mean"][n] for n in ("x", "y", "mass")], expected.mean[k], rtol=1e-6)
        assert one["observed"]["x"] == pytest.approx(float(data.next_states[7].values[k, 0]))
    assert main(["predict", "model.spare", "test.parquet", "--index", "7"]) == 0
    text = capsys.readouterr().out
    assert "rule 1 fires: usher(target): behind(target) -> b1" in text
    assert f"{model.log_prob(data[7:8])[0]:.2f} nats" in text


def test_what_cannot_be_done_is_said_in_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    junk = tmp_path / "junk.spare"
    junk.write_bytes(b"junk")
    assert "no such file" in refused(capsys, "show", "missing.spare")
    assert "junk.spare" in refused(capsys, "show", str(junk))
    assert "junk.spare" in refused(capsys, "fit", str(junk))
    assert "missing" in refused(capsys, "fit", "missing.parquet")
    assert "max_references" in refused(capsys, "fit", "data.parquet", "--max-references", "-1")
    assert "seed" in refused(capsys, "fit", "data.parquet", "--seed", "-1")
    assert "threads" in refused(capsys, "fit", "data.parquet", "--threads", "0")
    assert "does not exist" in refused(capsys, "fit", "data.parquet", "--out", "nowhere/model.spare")
    assert "folder" in refused(capsys, "fit", "data.parquet", "--out", str(tmp_path))
    assert "draws" in refused(capsys, "evaluate", "model.spare", "test.parquet", "--draws", "2")
    assert "0 to 24" in refused(capsys, "predict", "model.spare", "test.parquet", "--index", "25")
    assert "0 to 24" in refused(capsys, "predict", "model.spare", "test.parquet", "--index", "-1")
    assert "package.module:domain" in refused(capsys, "show", "model.spare", "--domain", "nothing")
    assert "cannot import" in refused(capsys, "show", "model.spare", "--domain", "no.such:thing")
    assert "model.spare" in refused(capsys, "evaluate", "model.spare", "model.spare")
    assert "data.parquet" in refused(capsys, "predict", "data.parquet", "test.parquet")


def test_data_of_another_domain(
    capsys: pytest.CaptureFixture[str], data: spare.Experience, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "tray.parquet"
    data.save(path)
    assert "tray" in refused(capsys, "evaluate", "model.spare", str(path))
    assert "tray" in refused(capsys, "fit", str(path), "--domain", "queue")


def test_too_little_data(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "few.parquet"
    toy.generate(2, seed=0).save(path)
    out = str(tmp_path / "m.spare")
    assert "at least 4" in refused(capsys, "fit", str(path), "--out", out, "--preset", "shared")
    assert not (tmp_path / "m.spare").exists()
    assert main(["fit", str(path), "--out", out]) == 0
    assert capsys.readouterr().out.startswith("note: action 'usher': NOTHING WAS LEARNED")


def test_a_process_refuses_without_a_traceback(workspace: pathlib.Path) -> None:
    """An unknown option and a bad file, in real processes: exit code 2, nothing on standard output."""
    for arguments in (("fit", "data.parquet", "--colour", "red"), ("evaluate", "data.parquet", "data.parquet")):
        result = run(*arguments, folder=workspace)
        assert result.returncode == 2
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert result.stderr.strip()


def test_a_missing_package_of_the_lab_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)  # as if it were not installed
    said = refused(capsys, "generate", "push", "--samples", "3", "--json", "--out", str(tmp_path / "x.parquet"))
    assert "this needs joblib; install it with: pip install 'spare-models[lab]'" in said
