"""What finished trainings depend on besides data and settings: the code that computes them, and its arithmetic."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import pathlib

import jax
import jax.numpy as jnp

PACKAGES = ("spare-models", "jax", "jaxlib", "equinox", "numpy", "scipy", "scikit-learn")
CODE = ("arrays.py", "data", "language", "model", "learning")
"""Where the code is that a training runs through."""


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the packages that compute, and `code`: 16 hex digits over SPARE's own sources that do.

    Not a number that somebody must remember to raise: whoever works on SPARE has one version and many codes.
    """
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    root, digest = pathlib.Path(__file__).parents[1], hashlib.sha256()
    for part in CODE:
        for path in [root / part] if part.endswith(".py") else sorted((root / part).rglob("*.py")):
            if path.is_file():
                digest.update(f"{path.relative_to(root)}\x00".encode() + path.read_bytes())
    return {**found, "code": digest.hexdigest()[:16]}


def arithmetic() -> str:
    """`cpu float32`: where programs run, and in what numbers."""
    return f"{jax.default_backend()} {jnp.result_type(float).name}"
