"""The folder beside an output file where finished chunks wait, so that a killed run can go on.

push.parquet.parts/     one at a time: the process that holds `lock` owns the folder
    lock
    settings.json       what the samples are made with; a run with other settings is refused
    00000025-00000050.parquet
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from spare.data.experience import Experience
from spare.errors import FileError, SpareError, UsageError
from spare.io import strictjson, tensors
from spare.io.atomic import replacing
from spare.io.locks import BusyError, Folder, take

OURS = r"settings\.json|\d{8,}-\d{8,}\.parquet"


class Parts:
    """Finished chunks of one output file. Made by `holding`, which keeps every other process out."""

    def __init__(self, held: Folder) -> None:
        self.folder, self._held = held.path, held

    def check(self, record: dict[str, Any]) -> None:
        """Write down what the samples are made with, or refuse if samples made otherwise are there."""
        path = self.folder / "settings.json"
        found = _read_json(path)
        if found is None or not self.any():  # settings of no samples bind nobody
            self._empty()
            if not path.is_dir():
                path.unlink(missing_ok=True)  # whatever it is, a pipe or a link too: the folder is ours
            with replacing(path) as target:
                target.write_text(json.dumps(record, sort_keys=True, indent=1))
        elif found != json.loads(json.dumps(record)):
            raise UsageError(
                f"{self.folder} holds samples of an unfinished run with other settings "
                f"({_difference(found, record)}); finish that run, or remove the folder"
            )

    def any(self) -> bool:
        """Whether a chunk is finished."""
        return any(self.folder.glob("*.parquet"))

    def _empty(self) -> None:
        for part in self.folder.glob("*.parquet"):
            part.unlink()

    def load(self, start: int, stop: int) -> Experience | None:
        """Samples start, ..., stop - 1 if they are there, whole."""
        path = self._path(start, stop)
        if not path.exists():
            return None
        try:
            part = Experience.load(path)
        except SpareError:
            path.unlink()  # damaged by a crash: made again
            return None
        return part if len(part) == stop - start else None

    def save(self, start: int, stop: int, part: Experience) -> None:
        """Keep a finished chunk."""
        part.save(self._path(start, stop))

    def _path(self, start: int, stop: int) -> pathlib.Path:
        return self.folder / f"{start:08d}-{stop:08d}.parquet"

    def leave(self) -> None:
        """If nothing was finished, leave nothing behind."""
        if not self.any():
            self._held.clear()

    def remove(self) -> None:
        """The output is written: the parts are not needed any more."""
        self._held.clear()


@contextlib.contextmanager
def holding(out: str | os.PathLike[str]) -> Iterator[Parts]:
    """The parts of `out`, while no other process has them."""
    final = pathlib.Path(out)
    if final.is_dir():
        raise FileError(f"{final}: this is a folder; give the name of a file")
    if not final.parent.is_dir():
        raise FileError(f"{final}: the folder {final.parent} does not exist; create it first")
    folder = final.with_name(final.name + ".parts")
    try:
        held = take(folder, OURS)
    except BusyError as error:
        raise UsageError(
            f"{final}: another process is generating this file now ({error.owner}); wait for it"
        ) from error
    parts = Parts(held)
    _held.append(parts)
    try:
        held.sweep()
        yield parts
    finally:
        parts.leave()
        _held.remove(parts)
        held.release()


_held: list[Parts] = []


def leave() -> None:
    """Whatever this process holds, as if it had come to the end of the block: for one that ends in the middle."""
    for parts in _held:
        parts.leave()


def _read_json(path: pathlib.Path) -> dict[str, Any] | None:
    try:
        found = strictjson.parse(tensors.read_bytes(path, strictjson.LARGEST_TEXT), "the record")
    except FileError:
        return None
    return found if isinstance(found, dict) else None


def _difference(old: Any, new: Any, name: str = "") -> str:
    """`noise 0.002, now 0.003`: the first few facts that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        parts = [_difference(old.get(k), new.get(k), k) for k in sorted({*old, *new}) if old.get(k) != new.get(k)]
        return "; ".join(parts[:4])
    return f"{name} {old}, now {new}"
