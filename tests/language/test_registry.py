"""Domains by name: registered or installed, found without importing, and never code that a file names."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

import spare
from spare.commands.common import named_domain
from spare.lab.worlds import queue
from spare.language import registry


@pytest.fixture
def own() -> Iterator[spare.Domain]:
    """A domain of the user's, registered for one test."""
    yield spare.register(
        spare.Domain("mine", properties=[spare.Property("x")], references=[], actions=[spare.Action("go", ("who",))])
    )
    registry._registered.clear()


def test_installed_domains_are_found_by_name() -> None:
    assert registry.find_domain("queue") is queue.domain
    assert registry.find_domain("os:system") is None
    assert registry.find_domain("spare.lab.worlds.queue:domain") is None
    assert {"push", "queue", "tray", "billiards", "flights"} <= set(registry.domain_names())
    for name in registry.domain_names():
        found = registry.find_domain(name)
        assert found is not None
        assert found.name == name


def test_a_registered_domain_is_found_by_files(own: spare.Domain, tmp_path: pathlib.Path) -> None:
    assert registry.ships("mine")
    assert named_domain("mine") is own
    data = spare.Experience.from_arrays(
        own, values=[[1.0]], next_values=[[2.0]], offsets=[0, 1], action=["go"], objects=[[0]]
    )
    data.save(tmp_path / "mine.parquet")
    assert spare.Experience.load(tmp_path / "mine.parquet").domain is own
    registry._registered.clear()
    with pytest.raises(spare.FileError, match="domain 'mine' is not one of SPARE's own"):
        spare.Experience.load(tmp_path / "mine.parquet")


def test_names_are_known_without_importing_worlds() -> None:
    code = """
        import sys
        from spare.language.registry import domain_names, ships
        assert ships("push") and not ships("pull") and "queue" in domain_names()
        assert not any(name.startswith("spare.lab") for name in sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.slow
def test_a_folder_beside_the_data_is_not_installed(tmp_path: pathlib.Path) -> None:
    """What looks like a package in the current folder offers no domains, though Python has the folder on its path."""
    (tmp_path / "evil.py").write_text("open('owned', 'w').close()\n")
    facts = tmp_path / "evil-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[spare.domains]\nmine = evil:domain\nqueue = evil:domain\n")
    code = """
        import importlib.metadata
        from spare.language.registry import find_domain, ships
        assert importlib.metadata.version("evil") == "1.0"
        assert not ships("mine") and find_domain("queue").name == "queue"
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, cwd=tmp_path)
    assert not (tmp_path / "owned").exists()


class _Entry:
    """An entry point that gives `found`."""

    def __init__(self, name: str, value: str, found: object) -> None:
        self.name, self.value, self._found = name, value, found

    def load(self) -> object:
        return self._found


def test_entry_points_that_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("math:pi", "spare.lab.worlds.queue:domain"):
        monkeypatch.setattr(registry, "_installed", lambda place=place: {"a": place})
        with pytest.raises(spare.DefinitionError, match="not a domain of that name"):
            registry.find_domain("a")


def test_domains_of_the_command_line(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named_domain(None) is None
    assert named_domain("queue") is queue.domain
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_own_domain.py").write_text("from spare.lab.worlds.queue import domain\nnumber = 3\n")
    assert named_domain("my_own_domain:domain") is queue.domain
    for text, message in (
        (
            "queues",
            rf"package\.module:domain, or one of {', '.join(registry.domain_names())} \(did you mean 'queue'\?\)$",
        ),
        (":domain", "write it as"),
        ("my_own_domain:", "write it as"),
        ("no_such_module_here:domain", "cannot import 'no_such_module_here'"),
        ("my_own_domain:other", "has no 'other'"),
        ("my_own_domain:number", r"that is a int, not a spare\.Domain"),
    ):
        with pytest.raises(spare.UsageError, match=message):
            named_domain(text)
