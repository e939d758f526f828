"""Finished trainings, kept on disk while a run goes on: what makes interrupting and resuming exact.

Learning is deterministic: run again with the same data, settings and seed, it asks for the same trainings in the
same order. So a checkpoint is nothing but the trainings that were finished; a resumed run looks each one up and
only does what is missing. A run folder belongs to one set of data and settings, and to one process at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import shutil
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from spare.atomic import replacing
from spare.errors import FileError


class Memo:
    """A folder of finished trainings, locked by one process; see `open_run`."""

    def __init__(self, folder: pathlib.Path, lock: int) -> None:
        self.folder, self._lock = folder, lock
        self.reused = 0

    def get(self, key: str) -> dict[str, np.ndarray] | None:
        """The arrays of a finished training, or None; a damaged file counts as missing."""
        path = self.folder / f"{key}.safetensors"
        if not path.exists():
            return None
        try:
            arrays = load_file(path)
        except (SafetensorError, OSError, ValueError):
            return None
        self.reused += 1
        return arrays

    def put(self, key: str, arrays: dict[str, np.ndarray]) -> None:
        """Keep a finished training: whole or not at all."""
        with replacing(self.folder / f"{key}.safetensors") as target:
            target.write_bytes(save({name: np.ascontiguousarray(a) for name, a in arrays.items()}))

    def close(self, *, finished: bool) -> None:
        """Let go of the folder; a finished run no longer needs it."""
        if finished:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def open_run(folder: pathlib.Path, identity: dict[str, Any], *, resume: bool, force: bool = False) -> Memo:
    """Take a run folder for this process.

    A folder that another process holds is refused at once. What an earlier run left is used with `resume`, if it
    belongs to the same data, settings and version (or with `force`), and thrown away without.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise FileError(f"{folder}: cannot be used as a run folder: {error.strerror or error}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(lock, 64).decode(errors="replace").strip()
        os.close(lock)
        raise FileError(
            f"{folder}: another run (process {owner or 'unknown'}) is writing here; wait for it, or choose another name"
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    try:
        _claim(folder, identity, resume=resume, force=force)
    except BaseException:
        os.close(lock)
        raise
    return Memo(folder, lock)


def _claim(folder: pathlib.Path, identity: dict[str, Any], *, resume: bool, force: bool) -> None:
    """Keep or clear what is in the folder."""
    record = folder / "run.json"
    if resume and record.exists():
        try:
            found = json.loads(record.read_text())
        except (OSError, ValueError):
            found = {}
        different = sorted(k for k in {*identity, *found} if identity.get(k) != found.get(k))
        if different and not force:
            raise FileError(
                f"{folder}: its checkpoint belongs to another run (different: {', '.join(different)}); "
                "run without --resume to start anew, or with --force to use what fits"
            )
    elif not resume:
        for old in folder.glob("*.safetensors"):
            old.unlink()
    with replacing(record) as target:
        target.write_text(json.dumps(identity, indent=1, sort_keys=True))
