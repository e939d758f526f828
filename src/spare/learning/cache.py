"""Finished trainings, kept on disk while a run goes on: what makes interrupting and resuming exact.

Learning is deterministic: run again with the same data, settings and seed, it asks for the same trainings in the
same order. So a checkpoint is nothing but the trainings that were finished; a resumed run looks each one up and
only does what is missing. A training is named by all that it depends on (`train.training_key`), so that what was
trained on other numbers, by other formulas or by other code is never found. A run folder belongs to one set of data,
formulas and settings, and to one process at a time.

model.spare.run/         the process that holds `lock` owns the folder; the system lets go of it when that dies
    lock                 the number of the process, for people
    run.json             what the trainings belong to
    <key>.safetensors    one finished training, with a check sum: a damaged one is trained again
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any, NamedTuple

import numpy as np

from spare.errors import FileError
from spare.io import strictjson, tensors
from spare.io.atomic import replacing
from spare.io.locks import BusyError, Folder, take
from spare.names import shown

OURS = r"run\.json|[^.].*\.safetensors"


class Kept(NamedTuple):
    """A finished training: its arrays by name, and the description of its predictor (JSON values)."""

    arrays: dict[str, np.ndarray]
    description: dict[str, Any]


class TrainingCache:
    """A folder of finished trainings, locked by one process; see `open_run`."""

    def __init__(self, held: Folder) -> None:
        self.folder, self._held = held.path, held
        self.reused = 0

    def get(self, key: str) -> Kept | None:
        """A finished training, or None; a damaged file counts as missing."""
        path = self.folder / f"{key}.safetensors"
        if not path.exists():
            return None
        try:
            metadata, arrays = tensors.read(path)
        except FileError:
            return None
        description = metadata.get("description", "")
        if metadata.get("check") != tensors.digest(arrays, description.encode()):
            return None
        self.reused += 1
        return Kept({name: array.copy() for name, array in arrays.items()}, json.loads(description))

    def put(self, key: str, kept: Kept) -> None:
        """Keep a finished training: whole or not at all."""
        description = json.dumps(kept.description)
        metadata = {"check": tensors.digest(kept.arrays, description.encode()), "description": description}
        with replacing(self.folder / f"{key}.safetensors") as target:
            target.write_bytes(tensors.encode(kept.arrays, metadata))

    def __len__(self) -> int:
        return sum(1 for _ in self.folder.glob("*.safetensors"))

    def close(self, *, finished: bool) -> None:
        """Let go of the folder; a finished run no longer needs it."""
        if finished:
            self._held.clear()
        self._held.release()


def open_run(folder: pathlib.Path, identity: dict[str, Any], *, fresh: bool = False) -> TrainingCache:
    """Take a run folder for this process, and go on with what an earlier run of the same identity left.

    A folder that another process holds, or that holds anything but a run, is refused at once, and so is what another
    identity left: it says what differs. Nothing is thrown away but with `fresh`.
    """
    try:
        held = take(folder, OURS)
    except BusyError as error:
        raise FileError(
            f"{folder}: another run (process {error.owner}) is writing here; wait for it, or choose another name"
        ) from None
    try:
        _claim(folder, identity, fresh=fresh)
        held.sweep()
    except OSError as error:
        held.release()
        if isinstance(error, FileError):
            raise
        raise FileError(f"{folder}: cannot be used as a run folder: {error.strerror or error}") from error
    except BaseException:
        held.release()
        raise
    return TrainingCache(held)


def _claim(folder: pathlib.Path, identity: dict[str, Any], *, fresh: bool) -> None:
    """Keep what is in the folder, if it is this run's or nothing; throw it away if that is asked for."""
    record = folder / "run.json"
    begun = any(folder.glob("*.safetensors"))
    if fresh:
        for old in folder.glob("*.safetensors"):
            old.unlink()
    elif begun and record.exists():
        different = _differences(read_record(record), identity)
        if different:
            raise FileError(
                f"{folder}: it keeps the unfinished work of another run ({'; '.join(different)}); finish that one with "
                "its own command, choose another name, or start again with --fresh, which throws it away"
            )
    with replacing(record) as target:
        target.write_text(json.dumps(identity, indent=1, sort_keys=True))


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """What two identities do not have in common, the first six: with its values where people can read them."""
    if not found and wanted:
        return ["its record cannot be read"]
    phrases = []
    for key in sorted(k for k in {*found, *wanted} if found.get(k) != wanted.get(k)):
        there, here = (_readable(one[key]) if key in one else "none" for one in (found, wanted))
        phrases.append(
            f"{shown(key, 80)}: {there} there, {here} here" if there and here else f"another {shown(key, 80)}"
        )
    return phrases[:6]


def _readable(value: Any) -> str:
    """A number or a short text as it is; nothing for digests and whatever else people do not read."""
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{16,}", value):
        return ""
    return shown(value, 32) if isinstance(value, str | int | float | None) else ""


def read_record(path: pathlib.Path) -> dict[str, Any]:
    """What a run folder says it belongs to; nothing, if that cannot be read."""
    try:
        found = strictjson.parse(tensors.read_bytes(path, strictjson.LARGEST_TEXT), "the record")
    except FileError:
        return {}
    return found if isinstance(found, dict) else {}
