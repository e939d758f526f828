"""The results folder: one file per finished run, whole or not there, so that interrupted experiments go on.

lock                 held by the `spare reproduce` that is at work
run.json             version and size that the folder belongs to; when and with what it was begun
runs/<key>.json      task, settings, seed, seconds, and the values (or the error) of one run
data/                push data that runs share
figures/             PNG, SVG and CSV of every figure and table
claims.json          every claim with its numbers, interval and verdict
reproduction.md      all of it as one page
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
from collections.abc import Iterator
from typing import Any

from spare.errors import FileError
from spare.io import strictjson, tensors
from spare.io.atomic import replacing
from spare.io.locks import LOCK, TORN, hold
from spare.lab.experiments.runs import Run, Size
from spare.names import shown

FORMAT = 1
"""Goes up whenever runs of an older code must not be mixed with new ones."""
PARTS = ("runs", "data", "figures")
LARGEST_RECORD = 1 << 26


def identity(size: Size) -> dict[str, Any]:
    """What a results folder belongs to."""
    return {"format": FORMAT, "spare": importlib.metadata.version("spare-models"), "size": size.name}


def versions() -> dict[str, str]:
    """Versions of the packages that compute runs, as far as they are installed."""
    found = {}
    for name in ("jax", "equinox", "numpy", "pybullet"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def circumstances() -> dict[str, Any]:
    """When and with what a run is made: time, versions, machine."""
    return {
        "time": now(),
        "python": platform.python_version(),
        "versions": versions(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def now() -> str:
    """The time to the second, with its zone."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class Store:
    """A results folder, opened for one size of run; made if it is not there."""

    def __init__(self, folder: pathlib.Path, size: Size) -> None:
        self.folder, self.size = folder, size
        self.runs, self.data, self.figures = (folder / name for name in PARTS)
        if folder.exists() and not folder.is_dir():
            raise FileError(f"{folder}: this is a file; give the name of a folder for results")
        path = folder / "run.json"
        if path.is_file():
            self._check(path)
        elif folder.is_dir() and any(not _fresh(one) for one in folder.iterdir()):
            raise FileError(f"{folder}: the folder has files that are not results; choose an empty one")
        else:
            _make(folder)
            write_json(path, {**identity(size), **circumstances()})
        for part in (self.runs, self.data, self.figures):
            _make(part)

    def _check(self, path: pathlib.Path) -> None:
        found, wanted = read_json(path), identity(self.size)
        for key, what in (("format", "format"), ("spare", "version"), ("size", "size")):
            if found.get(key) != wanted[key]:
                raise FileError(
                    f"{self.folder}: these results are of {what} {found.get(key)!r}, this run is of {wanted[key]!r}; "
                    "choose another folder with --out"
                )
        before, now = found.get("versions", {}), versions()
        if not isinstance(before, dict):
            raise FileError(f"{path}: it does not say with what it was made; choose another folder with --out")
        for name in sorted({*now, *before} if before else ()):
            if before.get(name) != now.get(name):
                raise FileError(
                    f"{self.folder}: these results were made with {name} {shown(before.get(name))}, and this is "
                    f"{now.get(name)}; choose another folder with --out"
                )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other run out of the folder; a second one is refused at once."""
        lock = hold(self.folder)
        try:
            yield
        finally:
            os.close(lock)

    def get(self, run: Run) -> dict[str, Any] | None:
        """The record of a run that was finished or failed, or None."""
        path = self.runs / f"{run.key}.json"
        if not path.is_file():
            return None
        record = read_json(path)
        mine = json.loads(json.dumps(run.record()))
        if any(record.get(key) != mine[key] for key in mine) or ("values" in record) == ("error" in record):
            raise FileError(f"{path}: this is not the record of a run; delete the file to compute it again")
        return record

    def put(self, run: Run, record: dict[str, Any]) -> None:
        """Keep a record."""
        write_json(self.runs / f"{run.key}.json", record)


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """A JSON object from a file, or a `FileError`."""
    try:
        found = json.loads(tensors.read_bytes(path, LARGEST_RECORD).decode("utf-8"))
        strictjson.check(found, "the record", LARGEST_RECORD)
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"{path}: damaged or half written ({error}); delete the file to make it again") from error
    if not isinstance(found, dict):
        raise FileError(f"{path}: an object is expected here; delete the file to make it again")
    return found


def write_json(path: pathlib.Path, value: Any) -> None:
    """A JSON file, whole or not there."""
    with replacing(path) as target:
        target.write_text(json.dumps(value, indent=1) + "\n", "utf-8")


def _fresh(path: pathlib.Path) -> bool:
    """Whether a run that was killed before it wrote run.json left this."""
    if path.name in PARTS:
        return path.is_dir() and not any(path.iterdir())
    return path.name == LOCK or re.fullmatch(TORN, path.name) is not None


def _make(folder: pathlib.Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot make this folder: {error.strerror or error}") from error
