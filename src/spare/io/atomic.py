"""Files that are whole or not there: write beside, flush to disk, then rename over the final name.

A process that is killed while it writes leaves its temporary file behind. A writer holds a lock on its file, which the
system releases when the process ends in any way. So the next write to the same name can tell which temporary files
are left over, and removes them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

from spare.arguments import check_path
from spare.errors import FileError
from spare.names import shown

_open: set[pathlib.Path] = set()
"""Temporary files that this process is writing now."""


def abandon() -> None:
    """Remove what is being written: for a process that ends at once, in the middle of anything."""
    for temporary in list(_open):
        with contextlib.suppress(OSError):
            temporary.unlink()


def _check_plain(final: pathlib.Path) -> None:
    """Refuse to replace a device, a pipe or a socket."""
    try:
        mode = os.lstat(final).st_mode
    except (OSError, ValueError):  # not there yet, or a name that cannot be, which is told later
        return
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise FileError(f"{shown(final)}: this is a device or a pipe, not a file; give the name of a file")


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """A temporary path that becomes `path` when the block ends well, and vanishes when it does not.

    The file and its folder are flushed to disk before and after the rename, so that after a crash `path` holds
    either the old content or the new. Errors of the file system are raised as `FileError`. A new file has the
    permissions of the one it replaces; a link is replaced by the file, and its target is left alone.
    """
    final = pathlib.Path(check_path(path))
    if not os.path.isdir(final.parent):
        raise FileError(f"{final}: the folder {final.parent} does not exist; create it first")
    if os.path.isdir(final):  # unlike Path.is_dir, false for a name that is too long
        raise FileError(f"{final}: this is a folder; give the name of a file")
    _check_plain(final)
    try:
        _sweep(final)
        temporary, handle = _create(final)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{shown(final)}: cannot write in its folder: {reason}") from error
    try:
        yield temporary
        os.fsync(handle)
        if not os.path.samestat(os.fstat(handle), os.lstat(temporary)):
            raise FileError(f"{final}: not written: another process has replaced {temporary.name}")
        os.replace(temporary, final)
        _flush_folder(final.parent)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{final}: cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # gone with its folder, or renamed
            temporary.unlink()
        _open.discard(temporary)
        os.close(handle)


def _create(final: pathlib.Path) -> tuple[pathlib.Path, int]:
    """A fresh, empty, locked file beside the final one."""
    mode = _mode(final)
    while True:
        temporary = final.with_name(f".{final.name}.{secrets.token_hex(6)}.tmp")
        _open.add(temporary)
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else mode)
        if mode is not None:
            os.fchmod(handle, mode)
        if _locked(handle) and temporary.exists():
            return temporary, handle
        _open.discard(temporary)
        os.close(handle)  # swept, or about to be, in the moment between making and locking it


def _locked(handle: int) -> bool:
    """Take the lock that shows that the writer lives; False if a sweeper was faster."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nothing is ever swept there
        pass
    return True


def _mode(final: pathlib.Path) -> int | None:
    """The permissions of the file that is to be replaced, or None."""
    try:
        facts = os.lstat(final)
    except FileNotFoundError:
        return None
    return facts.st_mode & 0o777 if stat.S_ISREG(facts.st_mode) else None


def _sweep(final: pathlib.Path) -> None:
    """Remove temporary files of this name whose writers are dead."""
    prefix = f".{final.name}."
    for entry in os.scandir(final.parent):
        if entry.name.startswith(prefix) and entry.name.endswith(".tmp") and entry.is_file(follow_symlinks=False):
            with contextlib.suppress(OSError):
                _remove_if_dead(entry.path)


def _remove_if_dead(path: str) -> None:
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its writer lives
        os.unlink(path)
    finally:
        os.close(handle)


def _flush_folder(path: pathlib.Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """An existing file, open for reading; folders, pipes and devices are refused at once."""
    check_path(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise FileError(f"{path}: cannot be read: {error.strerror or error}") from error
        raise FileError(f"{shown(path)}: there is no such file") from error
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        what = "a folder" if stat.S_ISDIR(kind) else "a pipe, a socket or a device"
        raise FileError(f"{path}: this is {what}; give the name of a file")
    return os.fdopen(handle, "rb")
