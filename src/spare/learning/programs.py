"""Compiled programs, kept by what they were compiled for: candidates of equal shapes share one."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Threads train different candidates; a pool inside each matrix product would only get in their way.
_OPTIONS = {"xla_cpu_multi_thread_eigen": False}


class Programs:
    """Compiled programs by what they were compiled for; `compiled` counts them."""

    def __init__(self) -> None:
        self._lock, self._tracing = threading.Lock(), threading.Lock()
        self._done: dict[Any, concurrent.futures.Future[Any]] = {}

    @property
    def compiled(self) -> int:
        """How many programs were ever compiled here."""
        return len(self._done)

    def get(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        key: Any = None,
        options: dict[str, Any] = _OPTIONS,
    ) -> Any:
        """The program for arguments of these shapes, compiled by whoever asks first.

        Programs are traced one after another, since tracing holds the interpreter's lock anyhow, so that the first is
        with the compiler while the next is traced.
        """
        leaves, tree = jax.tree.flatten(arguments)
        shapes = tuple((np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in leaves)
        full = (name, key, tree, shapes, jnp.result_type(float).name)
        with self._lock:
            mine = full not in self._done
            future = self._done.setdefault(full, concurrent.futures.Future())
        if mine:
            try:
                with self._tracing:
                    lowered = jax.jit(function, compiler_options=options).lower(*arguments)
                future.set_result(lowered.compile())
            except BaseException as error:
                with self._lock:
                    self._done.pop(full)
                future.set_exception(error)
                raise
        return future.result()


PROGRAMS = Programs()
