"""Runs on a Dask cluster: the same tasks as on local workers, sent to a scheduler that somebody else runs.

joblib's own Dask backend is not used, since it waits forever for a task whose workers die (joblib 1.6, Dask 2026.8); a
future of Dask's client says so. Workers need SPARE with its extra `lab`; data that they do not see they simulate.
"""

from __future__ import annotations

import contextlib
import socket
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from spare.errors import UsageError

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 5.0
"""Seconds to wait for the scheduler to answer, and again for a first worker."""
PORT = 8786
"""Where Dask's schedulers listen by default."""
GREETING = 1 << 20


@contextlib.contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of the cluster; a sentence if there is none."""
    try:
        import dask.config
        from distributed import Client
    except ImportError as error:
        raise UsageError("--cluster needs Dask: install spare-models[cluster]") from error
    with _quiet(), dask.config.set({"distributed.comm.timeouts.connect": f"{PATIENCE}s"}):
        try:
            client = Client(_reached(address), timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"--cluster {address}: no Dask scheduler answers there ({_reason(error)})") from error
        try:
            try:
                client.wait_for_workers(1, timeout=PATIENCE)
            except OSError as error:
                raise UsageError(
                    f"--cluster {address}: the scheduler has no workers; start some with `dask worker {address}`"
                ) from error
            yield client
        finally:
            client.close(timeout=PATIENCE)


def _reached(address: str) -> str:
    """The address in full, if something listens there: a client of Dask takes long to find out."""
    full = address if "://" in address else f"tcp://{address}"
    parts = urllib.parse.urlsplit(full)
    if parts.scheme not in {"tcp", "tls"} or not parts.hostname:
        raise ValueError("an address is host:port, tcp://host:port or tls://host:port")
    port = parts.port or PORT
    with socket.create_connection((parts.hostname, port), timeout=PATIENCE) as line:
        # A scheduler speaks first: the length of a greeting in eight bytes. Dask itself would believe any length.
        said = line.recv(8, socket.MSG_WAITALL) if parts.scheme == "tcp" else bytes(8)
        if len(said) < 8 or int.from_bytes(said, "little") > GREETING:
            raise ConnectionError("what listens there does not speak as Dask does")
    return f"{parts.scheme}://{parts.netloc}" if parts.port else f"{full.rstrip('/')}:{PORT}"


def each(client: Client, task: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any, str]]:
    """(number of the call, result, why there is none) as calls finish, the first ones started first.

    A call whose workers die again and again has no result; one that raises raises here.
    """
    from distributed import CancelledError, KilledWorker, as_completed
    from distributed.client import ClosedClientError

    futures: dict[Any, int] = {}
    try:
        for k, call in enumerate(calls):
            futures[client.submit(task, *call, pure=False, priority=-k)] = k
        for future in as_completed(list(futures), loop=client.loop):
            number = futures.pop(future)
            try:
                yield number, future.result(), ""
            except KilledWorker as error:
                yield number, None, f"workers died ({type(error).__name__}); this run did not finish"
    except (CancelledError, ClosedClientError, OSError) as error:
        reason = f" ({_reason(error)})" if isinstance(error, OSError) else ""
        raise UsageError(
            f"the cluster went away: its scheduler does not answer any more{reason}. "
            "Finished runs are kept; run the same command to continue"
        ) from error
    finally:
        with contextlib.suppress(CancelledError, ClosedClientError, OSError):
            client.cancel(list(futures), force=True)


def _reason(error: BaseException) -> str:
    """The last cause of an error, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}".splitlines()[0]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask's own log lines are for operators of the cluster; what goes wrong is said here.

    Some of its loggers have levels of their own, whatever that of the one above them is: each is asked.
    """
    import logging

    families = ("distributed", "tornado", "asyncio")
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in families]
    before = {name: logging.getLogger(name).level for name in (*families, *names)}
    for name in before:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
