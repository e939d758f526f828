"""Does this environment hold exactly what constraints.txt pins? Names every difference; exit code 1 if there is one."""

from __future__ import annotations

import importlib.metadata
import pathlib
import sys
from collections.abc import Mapping
from typing import NamedTuple

from packaging.markers import Marker
from packaging.utils import canonicalize_name

FILE = pathlib.Path(__file__).resolve().parent.parent / "constraints.txt"
BUILDING = "# Only while the package is built"
NOT_PINNED = frozenset({"spare-models", "pip", "setuptools"})
"""The project itself, and what Python puts into every new environment."""


class Pins(NamedTuple):
    """Versions by canonical name: of everything installed, and of what only builds the package."""

    installed: dict[str, str]
    building: dict[str, str]


def read_pins(text: str, python: str) -> Pins:
    """The pins that hold for a Python such as `3.12`; a line that is not `name==version; marker` is refused."""
    found = Pins({}, {})
    chosen = found.installed
    for line in text.splitlines():
        if line.startswith(BUILDING):
            chosen = found.building
        line = line.partition("#")[0].strip()
        if not line:
            continue
        pin, _, marker = line.partition(";")
        name, equals, version = pin.strip().partition("==")
        name = canonicalize_name(name)
        if not equals or not version or not set(version) <= set("0123456789.abcdefpostrv+"):
            raise ValueError(f"constraints.txt: {line!r} is not name==version")
        if marker and not Marker(marker).evaluate({"python_version": python, "python_full_version": f"{python}.0"}):
            continue
        if name in found.installed or name in found.building:
            raise ValueError(f"constraints.txt: {name} is pinned twice for Python {python}")
        chosen[name] = version
    return found


def differences(pins: Pins, installed: Mapping[str, str]) -> list[str]:
    """One sentence for each package that is another version, missing, or not pinned."""
    expected = pins.installed
    found = [
        f"{name} is {version}, constraints.txt says {expected[name]}"
        for name, version in installed.items()
        if name in expected and expected[name] != version
    ]
    found += [f"{name}=={version} is not installed" for name, version in expected.items() if name not in installed]
    known = {*expected, *pins.building, *NOT_PINNED}
    found += [f"{name} {version} is not pinned" for name, version in installed.items() if name not in known]
    return sorted(found)


def installed_versions() -> dict[str, str]:
    """What this Python can import, as distributions; of two with one name, the one that comes first on the path."""
    found: dict[str, str] = {}
    for one in importlib.metadata.distributions():
        found.setdefault(canonicalize_name(one.metadata["Name"]), one.version)
    return found


def main() -> int:
    """Compare, and say what differs and what to do."""
    python = ".".join(map(str, sys.version_info[:2]))
    pins, installed = read_pins(FILE.read_text("utf-8"), python), installed_versions()
    found = differences(pins, installed)
    for one in found:
        print(one, file=sys.stderr)
    if found:
        print(
            f"{len(found)} differences on Python {python}; to make the environment anew: rm -rf .venv && make setup; "
            "a version that is raised on purpose goes into constraints.txt",
            file=sys.stderr,
        )
        return 1
    print(f"all {len(pins.installed)} packages are as constraints.txt says for Python {python}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
