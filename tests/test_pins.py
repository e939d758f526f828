"""constraints.txt pins everything, and `make pins` notices where an environment differs."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import tomllib
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.faults.helpers import ROOT

PYTHONS = ("3.11", "3.12", "3.13")


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pins", ROOT / "scripts/pins.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pins = load_script()
TEXT = (ROOT / "constraints.txt").read_text("utf-8")


@pytest.mark.parametrize("python", PYTHONS)
def test_everything_that_the_project_names_is_pinned_to_a_version_that_it_allows(python: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    named = [*project["project"]["dependencies"], *(one for extra in extras.values() for one in extra)]
    found = pins.read_pins(TEXT, python)
    for text in named:
        one = Requirement(text)
        if one.marker is None or one.marker.evaluate({"python_version": python}):
            assert one.specifier.contains(found.installed[canonicalize_name(one.name)]), text
    for text in project["build-system"]["requires"]:
        assert canonicalize_name(Requirement(text).name) in found.building


def test_no_line_says_where_a_package_comes_from() -> None:
    lines = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
    form = r"[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*(; python_version (<|>=) '3\.1[1-3]')?"
    assert all(re.fullmatch(form, line) for line in lines)


def test_each_kind_of_difference_is_named() -> None:
    expected = pins.read_pins(
        "a==1\nB_b==2; python_version < '3.12'\nc==3\n# Only while the package is built:\nd==4\n", "3.11"
    )
    good = {"a": "1", "b-b": "2", "c": "3", "pip": "23", "spare-models": "0"}
    assert pins.differences(expected, good) == []
    assert pins.differences(expected, good | {"a": "2"}) == ["a is 2, constraints.txt says 1"]
    assert pins.differences(expected, good | {"x": "9"}) == ["x 9 is not pinned"]
    assert pins.differences(expected, {k: v for k, v in good.items() if k != "c"}) == ["c==3 is not installed"]
    assert "b-b 2 is not pinned" in pins.differences(pins.read_pins("B_b==2; python_version < '3.12'", "3.12"), good)


@pytest.mark.parametrize("line", ["a>=1", "a", "a==", "a @ https://example.org/a.whl", "a==1\na==1", "a==1.*"])
def test_a_line_that_is_no_pin_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"constraints\.txt"):
        pins.read_pins(line, "3.11")


def test_the_command_says_what_differs_and_what_to_do(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = {name: version for name, version in pins.installed_versions().items() if name not in pins.NOT_PINNED}
    monkeypatch.setattr(pins, "FILE", tmp_path / "constraints.txt")
    pins.FILE.write_text("".join(f"{name}=={version}\n" for name, version in held.items()))
    assert pins.main() == 0
    pins.FILE.write_text("".join(f"{name}=={version}\n" for name, version in (held | {"jax": "0.0.1"}).items()))
    assert pins.main() == 1
    said = capsys.readouterr().err
    assert f"jax is {held['jax']}, constraints.txt says 0.0.1\n1 differences" in said
    assert "make setup" in said
