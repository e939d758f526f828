"""What the faults share: real processes, with limits, and files made by hand."""

from __future__ import annotations

import atexit
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save as to_safetensors

import spare
from spare.io import manifest as manifests

ROOT = pathlib.Path(__file__).parents[2]


def command(*arguments: object) -> list[str]:
    """The command line as a user's shell starts it."""
    return [sys.executable, "-m", "spare", *map(str, arguments)]


def environment(cache: pathlib.Path | None = None) -> dict[str, str]:
    """This environment with a cache of compiled programs of its own, or none."""
    return {**os.environ, "SPARE_CACHE": str(cache or "off"), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


_LIMITED = "import os, resource, sys; n = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_FSIZE, (n, n)); "
_LIMITED += "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"


@functools.cache
def programs() -> pathlib.Path:
    """Compiled programs of the commands that these tests run to their end, one after another: most are the same."""
    place = tempfile.mkdtemp(prefix="spare-programs-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return pathlib.Path(place)


def run(
    *arguments: object, folder: pathlib.Path, largest: int | None = None, cache: pathlib.Path | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; no file may grow beyond `largest` bytes, as on a disk that is full."""
    line = command(*arguments)
    if largest is not None:
        line = [sys.executable, "-c", _LIMITED, str(largest), *line[1:]]
    elif cache is None:
        cache = programs()
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 300, **more}
    return subprocess.run(line, cwd=folder, env=environment(cache), check=False, **settings)


def python(code: str, *arguments: object, folder: pathlib.Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a few lines of Python in a process of their own."""
    settings = {"capture_output": True, "text": True, "timeout": 300, **more}
    line = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(line, cwd=folder, env=environment(), check=False, **settings)


def one_sentence(result: subprocess.CompletedProcess[str]) -> str:
    """The sentence with which a command refused: exit code 2, one line, no traceback, nothing else printed."""
    assert result.returncode == 2, (result.returncode, result.stderr)
    assert result.stderr.startswith("spare: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.rstrip("\n").isprintable()
    return result.stderr


def refuses(load: Callable[[], Any], message: str | None = None) -> str:
    """The message of the error that a call raises; it must be one of ours, on one line."""
    with pytest.raises(spare.SpareError, match=message) as caught:
        load()
    text = str(caught.value)
    assert text.isprintable(), text
    assert len(text) < 1000
    return text


def sealed(manifest: Any, arrays: dict[str, np.ndarray]) -> bytes:
    """A model file of this manifest and these tensors, with a correct check sum."""
    if isinstance(manifest, dict):
        manifest = {**manifest, "check": manifests.digest(manifest, arrays)}
    return to_safetensors(arrays, metadata={"spare": json.dumps(manifest)})


def container(header: dict[str, Any] | bytes, body: bytes) -> bytes:
    """A safetensors file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def taken_apart(data: bytes) -> tuple[dict[str, Any], bytes]:
    """(header, body) of a safetensors file."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]
