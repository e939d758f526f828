"""Processes that were forked after JAX had started: found out, and told what to do, before they hang.

JAX runs programs on threads of its own. A fork copies the process without them, so the child waits forever for the
first program that it runs. Python's `multiprocessing` forks by default on Linux before 3.14. A child that executes
another program (`subprocess`), or that was forked before JAX had started, has threads of its own and is not concerned.

`import spare` imports this file first, maybe while the current folder is still among the places of modules: so nothing
is imported here that is not part of the interpreter itself.
"""

import os
import sys

_forked = False


def _note() -> None:
    """In a child, right after the fork: whether JAX had started in its parent, or in a parent of that."""
    global _forked
    _forked = _forked or _started()


def _started() -> bool:
    """Whether JAX has started its threads in this process."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None:
        return False
    known = getattr(bridge, "backends_are_initialized", None)
    return known is None or bool(known())  # of a JAX that does not tell: rather an error than a child that waits


os.register_at_fork(after_in_child=_note)


def check_threads() -> None:
    """Refuse to run a program in a child that was forked after JAX had started."""
    if _forked:
        from spare.errors import ForkError

        raise ForkError(
            "this process was forked after JAX had started, and JAX would wait forever in it: start workers with "
            'multiprocessing.get_context("spawn") (or "forkserver"), joblib\'s loky, Dask or Ray, or fork before '
            "anything of SPARE or JAX has run"
        )
