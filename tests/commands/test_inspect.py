"""`spare inspect`: models, experience and everything else, without a domain."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import pytest

import spare
from spare.commands.cli import main
from spare.lab.worlds import queue as toy
from tests.fuzz import samples


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["inspect", *map(str, arguments)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


@pytest.mark.slow
def test_a_model(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.spare"
    samples.model().save(path)
    text = told(capsys, path)
    assert text.startswith(f"{path}: a SPARE model, format 1, ")
    assert "domain queue (installed)" in text
    assert "properties: x (m), y (m), mass (kg, static)" in text
    assert "references used: behind (closest/1, mean), line (formula/1, mean)" in text
    assert "rule 1  usher(target): line(target) -> b1, behind(target) -> b2\n" in text
    assert "rule 2  usher(target): line(target) -> b1, behind(target) -> b2  changes: -\n" in text
    assert "a network of 3 layers (relu) and a network of 3 layers (relu), 2 in the ensemble" in text
    assert "made with: note ü, seed 3" in text
    facts = json.loads(told(capsys, path, "--json"))
    assert (facts["kind"], facts["members"], facts["manifest"]["resolutions"]["x"]) == ("model", [2, 2], 1e-3)


def test_experience_of_a_domain_that_is_not_here(
    capsys: pytest.CaptureFixture[str], data: spare.Experience, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "d.parquet"
    parts = {name: getattr(data.domain, name) for name in ("properties", "references", "actions")}
    dataclasses.replace(data, domain=spare.Domain("shelf", **parts)).save(path)
    text = told(capsys, path)
    assert "SPARE experience, 3 transitions, format 1" in text
    assert "domain shelf (your own: pass --domain MODULE:NAME where it is used)" in text
    assert "actions: slide(tray; dx, dy), swap(first, second)" in text
    assert "info columns: episode, note, gain, good" in text
    assert "metadata: nested, source" in text
    facts = json.loads(told(capsys, path, "--json"))
    assert (facts["transitions"], facts["row_groups"]) == (3, 1)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "an empty file"),
        (b"\x80\x04\x95", "a Python pickle, which can run code when it is opened"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x93NUMPY", "a NumPy array"),
        (b'{"a": 1}', "a JSON text"),
        (b"a,b\n1,2\n", "a text"),
        (b"\xff\xfe\x00\x01", "bytes of an unknown kind"),
    ],
)
def test_everything_else(
    content: bytes, sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "x").write_bytes(content)
    assert main(["inspect", str(tmp_path / "x")]) == 2
    assert f"x: {sentence}" in capsys.readouterr().err


def test_damaged_files_and_folders(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    toy.true_model().save(tmp_path / "m.spare")
    (tmp_path / "m.spare").write_bytes((tmp_path / "m.spare").read_bytes()[:-1])
    for path, message in (
        (tmp_path / "m.spare", "truncated"),
        (tmp_path, "a folder, and not one of"),
        (tmp_path / "no", "no such"),
    ):
        assert main(["inspect", str(path)]) == 2
        assert message in capsys.readouterr().err
