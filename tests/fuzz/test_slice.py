"""A short slice of `make fuzz`, in the processes that it uses."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("models", 120), ("parquet", 60)])
def test_slice_of_the_fuzzing(kind: str, count: int) -> None:
    """No crash, no hang, no error of another kind, no unexpected memory."""
    counts = {"models": 0, "parquet": 0, kind: count}
    options = [text for name, number in counts.items() for text in (f"--{name}", str(number))]
    line = [sys.executable, "-m", "tests.fuzz.run", *options, "--seed", "7"]
    result = subprocess.run(line, cwd=pathlib.Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.endswith("no crash, no hang, no leak\n")
    assert f"{kind}: {count} of {count}" in result.stdout
