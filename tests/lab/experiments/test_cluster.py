"""Cells on a Dask cluster: a scheduler and two workers as processes of their own; and clusters that are none."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import spare
from spare.commands.cli import main
from spare.lab.experiments.cluster import connected, each
from spare.lab.experiments.runner import reproduce
from spare.lab.experiments.store import Store
from spare.lab.experiments.tasks import compute
from tests.lab.experiments.made_up import TINY
from tests.lab.experiments.test_runner import STILL

pytest.importorskip("distributed")
# Dask's own warnings are not ours to answer for.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Dask program, ended in the end; its log goes nowhere."""
    one = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env={**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"},  # given up at the first death
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield one
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGTERM)
        try:
            one.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def waiting(port: int) -> None:
    """Until something listens."""
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    pytest.fail("the scheduler did not start")


QUIET = ("--host", "127.0.0.1", "--no-dashboard")


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Its address."""
    port = free_port()
    with process("distributed.cli.dask_scheduler", *QUIET, "--port", str(port)):
        waiting(port)
        yield f"tcp://127.0.0.1:{port}"


def test_a_scheduler_without_workers(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spare.lab.experiments.cluster.PATIENCE", 2.0)
    with pytest.raises(spare.UsageError, match="has no workers; start some with `dask worker"), connected(scheduler):
        pytest.fail("there is no cluster")


@pytest.fixture(scope="module")
def address(scheduler: str) -> Iterator[str]:
    """The scheduler's, now with two workers."""
    worker = ("distributed.cli.dask_worker", scheduler, *QUIET, "--nthreads", "1", "--no-nanny")
    with process(*worker), process(*worker):
        yield scheduler


def test_two_workers_do_what_a_local_one_does(address: str, tmp_path: pathlib.Path) -> None:
    """Cells come back and are stored; one that fails does not stop the others; the numbers are the same."""
    store = Store(tmp_path / "results", TINY)
    with connected(address) as client:
        client.wait_for_workers(2, timeout=30)
        summary = reproduce([STILL], store, jobs=1, cluster=client)
        workers: Any = client.run(os.getpid)
        assert len(workers) == 2
    assert len(list(store.runs.glob("*.json"))) == 4
    (reason,) = summary.failed.values()
    assert reason.startswith("unknown method 'no-such-method'")
    (claim,) = summary.claims["still"]
    assert (claim.verdict, claim.estimate.runs) == ("holds", 3)
    first = STILL.runs(TINY)[0]
    stored = store.get(first)
    assert stored is not None
    assert stored["values"] == compute(first, store.data)["values"]


def dies(number: int) -> int:
    if number == 1:
        os._exit(1)
    return number


def test_a_task_that_kills_its_workers_is_given_up_and_the_others_are_not(address: str) -> None:
    with connected(address) as client:
        found = {number: (result, reason) for number, result, reason in each(client, dies, [(k,) for k in range(3)])}
    assert found[0] == (0, "")
    assert found[2] == (2, "")
    assert found[1][0] is None
    assert "workers died" in found[1][1]


@contextlib.contextmanager
def listener(greeting: bytes) -> Iterator[int]:
    """Something that listens, and says this to everyone."""
    calls: list[socket.socket] = []

    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                calls.append(server.accept()[0])
                calls[-1].sendall(greeting)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()[1]
    for call in calls:
        call.close()


def test_an_address_where_no_scheduler_answers(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    out = tmp_path / "results"
    with listener(b"SSH-2.0-OpenSSH_9.2\r\n") as port:
        for place in (f"127.0.0.1:{free_port()}", "nonsense://x", "", f"tcp://127.0.0.1:{port}"):
            begin = time.monotonic()
            assert main(["reproduce", "table1", "--quick", "--out", str(out), "--cluster", place]) == 2
            printed = capsys.readouterr().err
            assert printed.startswith(f"spare: --cluster {place}: no Dask scheduler answers there")
            assert printed.count("\n") == 1
            assert time.monotonic() - begin < 10
    assert not out.exists()
