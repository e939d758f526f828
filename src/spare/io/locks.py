"""Folders of unfinished work: each belongs to one process at a time, and holds nothing but that work's own files.

The owner holds a lock on the file `lock`, which the system lets go of when the process ends, whatever way. The folder's
name is made from the name of an output (`model.spare.run`), so a folder of the user's may have it already: one with
anything else in it is refused, and only files of our own are ever removed.
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
    """Another living process holds the folder; its number is `owner`, or `unknown`."""

    def __init__(self, folder: pathlib.Path, owner: str) -> None:
        super().__init__(f"{folder}: process {owner} is at work here")
        self.owner = owner


class Folder:
    """A folder of unfinished work, held by this process; see `take`."""

    def __init__(self, path: pathlib.Path, ours: re.Pattern[str], lock: int) -> None:
        self.path, self._ours, self._lock = path, ours, lock

    def sweep(self) -> None:
        """Remove what a killed owner was writing: nobody else writes here now."""
        self._remove(re.compile(TORN))

    def clear(self) -> None:
        """Remove the work's files, and the folder itself; what is not ours stays, and so does the folder then."""
        with contextlib.suppress(OSError):
            self._remove(self._ours)
            self.path.joinpath(LOCK).unlink()
            self.path.rmdir()

    def _remove(self, names: re.Pattern[str]) -> None:
        for name in sorted(os.listdir(self.path)):
            if name != LOCK and names.fullmatch(name):
                self.path.joinpath(name).unlink()

    def release(self) -> None:
        """Let others have it."""
        os.close(self._lock)


def take(path: pathlib.Path, ours: str) -> Folder:
    """Hold a folder, made if it is not there, whose files are called as the pattern `ours` says.

    Raises `BusyError` if another process has it, and `FileError` if it cannot be used or holds anything else.
    """
    names = re.compile(f"{LOCK}|{TORN}|{ours}")
    for _ in range(100):
        with _told(path):
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
    raise FileError(f"{path}: cannot be used as a run folder: it vanishes again and again")


def hold(path: pathlib.Path) -> int:
    """The lock of a folder that stays, with all that is in it; closing it lets go."""
    try:
        lock = _open(path)
    except BusyError as error:
        raise FileError(
            f"{path}: another run (process {error.owner}) is writing here; wait for it, or choose another folder"
        ) from None
    _sign(lock)
    return lock


def _sign(lock: int) -> None:
    """Write down whose it is, for people."""
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())


@contextlib.contextmanager
def _told(path: pathlib.Path) -> Iterator[None]:
    """Trouble with the file system as a sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileError | FileNotFoundError):
            raise
        raise FileError(f"{path}: cannot be used as a run folder: {error.strerror or error}") from error


def _check(path: pathlib.Path, names: re.Pattern[str]) -> None:
    """Refuse a folder that somebody keeps other things in; ours has a lock before it has anything else."""
    with contextlib.suppress(FileNotFoundError):  # just removed by its last owner
        found = sorted(os.listdir(path))
        other = [name for name in found if not names.fullmatch(name)] or (found if LOCK not in found else [])
        if other:
            raise FileError(
                f"{path}: cannot be used as a run folder: it holds {other[0]!r}, which no run has put there; "
                "move that folder away, or choose another name for the output"
            )


def _open(path: pathlib.Path) -> int:
    """The lock file, locked; never one that has another name as well, which would be somebody's file."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _told(path):
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
    """Whether an open file is still the one under that name: its last holder may have removed the folder."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False
