"""Folders of unfinished work: each belongs to one process at a time, and holds nothing but that work's own files.

The owner holds a lock on the file `lock`, which the system releases when the process ends in any way. The folder is
named after an output (`model.spare.run`), and the user may have a folder of that name: one that holds anything else is
refused, and only files that a run has written are ever removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import re
import stat
from collections.abc import Iterator

from spare.errors import FileError

LOCK = "lock"
TORN = r"\..+\.[0-9a-f]{12}\.tmp"
"""What `atomic.replacing` calls its temporary files."""


class BusyError(FileError):
    """Another running process holds the folder; `owner` is its number, or `unknown`."""

    def __init__(self, folder: pathlib.Path, owner: str) -> None:
        super().__init__(f"{folder}: process {owner} is using this folder")
        self.folder, self.owner = folder, owner

    def __reduce__(self) -> tuple[type[BusyError], tuple[pathlib.Path, str]]:
        return BusyError, (self.folder, self.owner)


class Folder:
    """A folder of unfinished work, held by this process; see `take`."""

    def __init__(self, path: pathlib.Path, ours: re.Pattern[str], lock: int) -> None:
        self.path, self._ours, self._lock = path, ours, lock

    def sweep(self) -> None:
        """Remove the temporary files of an owner that was killed."""
        self._remove(re.compile(TORN))

    def clear(self) -> None:
        """Remove the work's files, and then the folder if nothing else is in it."""
        with contextlib.suppress(OSError):
            self._remove(self._ours)
            self.path.joinpath(LOCK).unlink()
            self.path.rmdir()

    def _remove(self, names: re.Pattern[str]) -> None:
        for name in sorted(os.listdir(self.path)):
            if name != LOCK and names.fullmatch(name):
                self.path.joinpath(name).unlink()

    def release(self) -> None:
        """Give up the lock."""
        os.close(self._lock)


def take(path: pathlib.Path, ours: str) -> Folder:
    """Hold a folder, created if necessary, whose files have names that match the pattern `ours`.

    Raises `BusyError` if another process holds it, and `FileError` if it cannot be used or holds other files.
    """
    names = re.compile(f"{LOCK}|{TORN}|{ours}")
    for _ in range(100):
        with _os_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            _check(path, names)
        try:
            lock = _open(path)
        except FileNotFoundError:
            continue  # another process has just finished here, and removed it
        if _same(lock, path / LOCK):
            _sign(lock)
            return Folder(path, names, lock)
        os.close(lock)  # the lock of a folder that its last owner has removed
    raise FileError(f"{path}: cannot be used as a run folder: other processes keep removing it")


def hold(path: pathlib.Path) -> int:
    """The lock of a folder whose content is kept; closing the handle releases it."""
    try:
        lock = _open(path)
    except BusyError as error:
        raise FileError(
            f"{path}: another run (process {error.owner}) is writing here; wait for it, or choose another folder"
        ) from None
    _sign(lock)
    return lock


def _sign(lock: int) -> None:
    """Write the number of this process, for people."""
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())


@contextlib.contextmanager
def _os_errors(path: pathlib.Path) -> Iterator[None]:
    """Errors of the file system as `FileError`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileError | FileNotFoundError):
            raise
        raise FileError(f"{path}: cannot be used as a run folder: {error.strerror or error}") from error


def _check(path: pathlib.Path, names: re.Pattern[str]) -> None:
    """Refuse a folder that holds other files; one of ours has a lock before it has anything else."""
    with contextlib.suppress(FileNotFoundError):  # just removed by its last owner
        found = sorted(os.listdir(path))
        other = [name for name in found if not names.fullmatch(name)] or (found if LOCK not in found else [])
        if other:
            raise FileError(
                f"{path}: cannot be used as a run folder: it holds {other[0]!r}, which no run has written; "
                "move that folder away, or choose another name for the output"
            )


def _open(path: pathlib.Path) -> int:
    """The lock file, locked; never one with a second name, which would be a file of the user's."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _os_errors(path):
        lock = os.open(path / LOCK, flags, 0o644)
    try:
        facts = os.fstat(lock)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            raise FileError(f"{path}: cannot be used as a run folder: its lock is not a plain file of its own")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(lock, 64).decode(errors="replace").strip()
            raise BusyError(path, owner if owner.isdecimal() else "unknown") from None
    except BaseException:
        os.close(lock)
        raise
    return lock


def _same(handle: int, path: pathlib.Path) -> bool:
    """Whether an open file is still the one of that name: its last owner may have removed the folder."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False
