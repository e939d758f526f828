"""Compiled programs: few, counted, and forgotten when there are too many.

A program is compiled for the structure and the shapes of what it is called with: models of one structure share theirs,
and so do candidates of a search. All programs of a process are kept here and nowhere else, so that one that runs for
weeks holds a bounded number:

1. `PROGRAMS.call` runs the program for some arguments, which whoever asks first compiles; others wait for it.
2. At most `limit` programs are kept. Linux also bounds the memory maps of a process (65,530), of which a program takes
   three for each of its kernels, so that models of many rules take thousands: `map_limit` bounds these.
3. Beyond either limit those go that were not used for the longest time; their memory goes with the last call.

`info`, `bound` and `forget` are for those who run a server.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from spare.errors import UsageError
from spare.forks import check_threads

LIMIT = 512
"""How many programs are kept, unless `bound` says otherwise."""
SHARE = 0.85
"""The share of a process's memory maps that may be taken, unless `bound` says otherwise."""
FEWEST = 4
"""So many programs are kept whatever the limits: those that the current call is about."""
_MAPS, _MOST_MAPS = pathlib.Path("/proc/self/maps"), pathlib.Path("/proc/sys/vm/max_map_count")

# Threads train different candidates; a pool inside each matrix product would only get in their way.
SINGLE = {"xla_cpu_multi_thread_eigen": False}


@dataclasses.dataclass(frozen=True)
class Info:
    """What is kept now (`programs`), ever `compiled` and `forgotten`; memory maps of the process; both limits.

    `maps` and `map_limit` are 0 where the system does not bound memory maps.
    """

    programs: int
    compiled: int
    forgotten: int
    limit: int
    maps: int
    map_limit: int


def _maps() -> int:
    """How many memory maps this process has; 0 where the system does not say."""
    try:
        return _MAPS.read_bytes().count(b"\n")
    except OSError:
        return 0


def _most_maps() -> int:
    """How many it may have, as a rule; 0 where the system does not say."""
    try:
        return int(SHARE * int(_MOST_MAPS.read_text()))
    except (OSError, ValueError):
        return 0


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """A compiled function of arrays: it takes what `Programs.get` was given, with the same structure and shapes."""

    execute: Any

    def __call__(self, *arguments: Any) -> Any:
        """The function's value."""
        return self.execute(*_arrays(jax.tree.leaves(arguments)))


def _arrays(leaves: list[Any]) -> list[Any]:
    """Those that a program takes; all others are part of it."""
    return [leaf for leaf in leaves if hasattr(leaf, "dtype")]


class Programs:
    """Compiled programs by what they were compiled for, the one used last at the end; for any number of threads."""

    def __init__(self, limit: int = LIMIT, map_limit: int | None = None) -> None:
        self._lock, self._tracing = threading.Lock(), threading.Lock()
        self._kept: collections.OrderedDict[Any, concurrent.futures.Future[Program]] = collections.OrderedDict()
        self._compiled = self._forgotten = 0
        self._limit, self._map_limit = limit, _most_maps() if map_limit is None else map_limit

    @property
    def compiled(self) -> int:
        """How many programs were ever compiled here."""
        return self._compiled

    def info(self) -> Info:
        """How many programs there are and were, and the limits."""
        with self._lock:
            counts = (len(self._kept), self._compiled, self._forgotten, self._limit)
        return Info(*counts, _maps() if self._map_limit else 0, self._map_limit)

    def bound(self, limit: int | None = None, map_limit: int | None = None) -> None:
        """Change the limits, and keep to them from now on."""
        for name, value in (("programs", limit), ("memory maps", map_limit)):
            if value is not None and value < 1:
                raise UsageError(f"the limit of {name} must be 1 or more, got {value}")
        with self._lock:
            self._limit = self._limit if limit is None else limit
            self._map_limit = self._map_limit if map_limit is None or not _maps() else map_limit
        self._make_room()

    def forget(self) -> None:
        """Forget every program; those that are used again are compiled again."""
        self._drop(len(self))

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        key: Any = None,
        options: dict[str, Any] | None = SINGLE,
    ) -> Any:
        """function(*arguments), compiled."""
        given = jax.tree.flatten(arguments)
        return self._get(name, function, given, key, options).execute(*_arrays(given[0]))

    def get(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        key: Any = None,
        options: dict[str, Any] | None = SINGLE,
    ) -> Program:
        """The program for arguments of this structure and these shapes, compiled by whoever asks first.

        Arrays and NumPy's numbers are what it is called with; all else in the arguments is part of the program, as is
        `key`, which must tell apart what functions of one name do. Programs are traced one after another, since
        tracing holds the interpreter's lock anyhow, so that the first is with the compiler while the next is traced.
        """
        return self._get(name, function, jax.tree.flatten(arguments), key, options)

    def _get(
        self,
        name: str,
        function: Callable[..., Any],
        given: tuple[list[Any], Any],
        key: Any,
        options: dict[str, Any] | None,
    ) -> Program:
        """The same for arguments that are taken apart: leaves, and how they belong together."""
        check_threads()
        leaves, tree = given
        parts = tuple((leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else (None, leaf) for leaf in leaves)
        full = (name, key, tree, parts, jnp.result_type(float).name)
        with self._lock:
            future = self._kept.get(full)
            if mine := future is None:
                future = self._kept[full] = concurrent.futures.Future()
            else:
                self._kept.move_to_end(full)
        if mine:
            self._compile(full, future, function, given, options)
        return future.result()

    def _compile(
        self,
        full: Any,
        future: concurrent.futures.Future[Program],
        function: Callable[..., Any],
        given: tuple[list[Any], Any],
        options: dict[str, Any] | None,
    ) -> None:
        leaves, tree = given
        fixed = [None if hasattr(leaf, "dtype") else leaf for leaf in leaves]
        free = [hasattr(leaf, "dtype") for leaf in leaves]

        def flat(*arrays: Any) -> Any:
            rest = iter(arrays)
            every = [next(rest) if one else leaf for one, leaf in zip(free, fixed, strict=True)]
            return function(*jax.tree.unflatten(tree, every))

        try:
            with self._tracing:
                lowered = jax.jit(flat, compiler_options=options).lower(*_arrays(leaves))
            done = Program(lowered.compile())
        except BaseException as error:
            with self._lock:
                self._kept.pop(full, None)
            future.set_exception(error)
            raise
        with self._lock:
            self._compiled += 1
        future.set_result(done)
        self._make_room()

    def _make_room(self) -> None:
        """Forget what was not used for the longest time, until both limits are kept.

        An eighth at a time where maps run out: counting them takes milliseconds.
        """
        self._drop(len(self) - self._limit)
        while self._map_limit and _maps() > self._map_limit:
            if not self._drop(min(max(1, len(self) // 8), len(self) - FEWEST)):
                return

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, count: int) -> int:
        """Forget at most so many programs, of those that are compiled; how many it were."""
        with self._lock:
            ready = [full for full, future in self._kept.items() if future.done()] if count > 0 else []
            for full in ready[:count]:
                del self._kept[full]
            self._forgotten += len(ready[:count])
            return len(ready[:count])


PROGRAMS = Programs()
"""All programs of this process."""


def info() -> Info:
    """How many compiled programs this process keeps, compiled and forgot, and its memory maps."""
    return PROGRAMS.info()


def bound(programs: int | None = None, maps: int | None = None) -> None:
    """Keep at most so many compiled programs, and take at most so many memory maps; the rest stays as it was."""
    PROGRAMS.bound(programs, maps)


def forget() -> None:
    """Forget every compiled program now, and free what they hold."""
    PROGRAMS.forget()
