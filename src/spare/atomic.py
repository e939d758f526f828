"""Files that are whole or not there: write beside, flush to disk, then rename over the final name."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

from spare.errors import FileError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """A temporary path that becomes `path` when the block ends well, and vanishes when it does not.

    The file and its folder are flushed to disk before and after the rename, so that after a crash `path` holds
    either the old content or the new. Trouble with the file system is raised as a `FileError`.
    """
    final = pathlib.Path(path)
    if not os.path.isdir(final.parent):
        raise FileError(f"{final}: the folder {final.parent} does not exist; create it first")
    if os.path.isdir(final):  # unlike Path.is_dir, false for a name that is too long
        raise FileError(f"{final}: this is a folder; give the name of a file")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".tmp", dir=final.parent)
        os.close(handle)
    except OSError as error:
        raise FileError(f"{final}: cannot write in its folder: {error.strerror or error}") from error
    temporary = pathlib.Path(name)
    try:
        yield temporary
        _flush(temporary)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, final)
        _flush(final.parent)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{final}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _flush(path: pathlib.Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
