"""Ctrl-C at any moment, from the first on, and a cluster that goes away: commands end soon and leave nothing behind.

A few interrupts by default; `make faults` asks for as many as SPARE_TEST_INTERRUPTS says.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable

import pytest

from spare.lab.worlds.push.store import holding
from tests.faults import interrupter
from tests.faults.helpers import environment, run
from tests.lab.experiments.test_cluster import QUIET, free_port, process, waiting

pytestmark = pytest.mark.slow

INTERRUPTS = int(os.environ.get("SPARE_TEST_INTERRUPTS", "6"))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """What the commands read."""
    folder = tmp_path_factory.mktemp("interrupts")
    interrupter.prepared(folder)
    return folder


@pytest.mark.timeout(600 + 20 * INTERRUPTS)
def test_interrupt_at_any_moment(inputs: pathlib.Path) -> None:
    """At a random moment of the first ten seconds: within two exit code 130 and a sentence; nothing is left behind."""
    faults = [
        (one.name, one.moment, one.fault, one.text) for one in interrupter.campaign(INTERRUPTS, inputs) if one.fault
    ]
    assert not faults


def test_interrupt_of_the_first_imports(inputs: pathlib.Path) -> None:
    """The same in the first half second, while Python is still importing: no traceback."""
    done = [interrupter.interrupted("evaluate", 0.04 * k, inputs, group=k % 2 == 0) for k in range(1, 13)]
    assert [one for one in done if one.fault] == []
    assert sum(one.began for one in done) > 3


def test_interrupt_of_the_last_moments(inputs: pathlib.Path) -> None:
    """The same while a command that is done tidies up: it ends with 130, or with what it was about to end with."""
    start = time.monotonic()
    without = pathlib.Path("off")  # no cache of programs, as for those that are interrupted: they take as long
    assert run("inspect", "true.spare", folder=inputs, cache=without).returncode == 0
    most = time.monotonic() - start
    done = [interrupter.interrupted("inspect", most * (0.7 + 0.04 * k), inputs, group=False) for k in range(10)]
    # Python's last act is to give signals their first meaning back: ended by one, a shell counts 130.
    assert {one.code for one in done} <= {0, 130, -signal.SIGINT}
    assert not [one for one in done if one.late or "Traceback" in one.text or one.orphans or one.torn]


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.01)


def test_interrupt_of_reproduce(tmp_path: pathlib.Path) -> None:
    """Ctrl-C in a terminal reaches the workers of `spare reproduce` too: no word from them, and none is left."""
    mark = uuid.uuid4().hex
    line = [sys.executable, "-m", "tests.faults.reproducer", "--jobs", "2", "--out", "results"]
    settings = {"cwd": tmp_path, "env": {**environment(), interrupter.MARK: mark}, "text": True}
    begun = subprocess.Popen(line, stderr=subprocess.PIPE, start_new_session=True, **settings)
    until(lambda: any(tmp_path.glob("results/runs/*.json")))
    os.killpg(begun.pid, signal.SIGINT)
    text = begun.communicate(timeout=60)[1]
    assert begun.returncode == 130, text
    *told, last = text.splitlines()
    assert last == "spare: interrupted; finished runs are kept in results. Run the same command to continue"
    assert all(one.startswith(("5 runs", "data [", "[")) for one in told)
    assert interrupter.left_behind(mark) == ()
    assert not list(tmp_path.rglob("*.tmp"))


WATCHED = "import sys, time, threading\nfrom spare.commands.interrupts import ending_soon, watch\nwatch()\n"
WRITER = """
from spare.io.atomic import replacing
print("ready", flush=True)
for k in range(10**9):
    with replacing(sys.argv[1]) as target:
        target.write_bytes(bytes(100_000))
"""


def watched(code: str, *arguments: object, **more: int) -> subprocess.Popen[str]:
    """A process that is ready, and watches for interrupts."""
    line = [sys.executable, "-c", WATCHED + code, *map(str, arguments)]
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment(), "text": True, **more}
    begun = subprocess.Popen(line, **settings)
    assert begun.stdout is not None
    assert begun.stdout.readline() == "ready\n"
    return begun


def test_interrupt_of_a_save(tmp_path: pathlib.Path) -> None:
    """In the middle of a file: the old one stays, whole, and what was half written is removed."""
    rng, path = random.Random(0), tmp_path / "file"
    for _ in range(20):
        begun = watched(WRITER, path)
        time.sleep(rng.uniform(0, 0.02))
        begun.send_signal(signal.SIGINT)
        assert begun.communicate(timeout=20)[1].startswith("spare: interrupted")
        assert begun.returncode == 130
        assert set(os.listdir(tmp_path)) <= {"file"}
        assert not path.exists() or path.stat().st_size == 100_000


STUBBORN = {
    "the sentence does not come": "def how(): time.sleep(60)",
    "the sentence fails": "def how(): raise SystemExit('no')",
    "what removes the rest does not come": "from spare.commands import interrupts\n"
    "interrupts.leaving(lambda: time.sleep(60))\ndef how(): return 'interrupted'",
}


@pytest.mark.parametrize("fault", STUBBORN)
def test_interrupt_that_cannot_be_ended_in_order(fault: str) -> None:
    """Whatever hangs or fails on the way out: the process ends all the same."""
    code = f"{STUBBORN[fault]}\nwith ending_soon(how):\n    print('ready', flush=True)\n    while True: pass\n"
    begun, start = watched(code), time.monotonic()
    begun.send_signal(signal.SIGINT)
    assert "Traceback" not in begun.communicate(timeout=20)[1]
    assert begun.returncode == 130
    assert time.monotonic() - start < 10


def test_interrupt_that_nobody_hears(tmp_path: pathlib.Path) -> None:
    """Standard error is a pipe that is full and that nobody reads, or is closed: the process ends all the same."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    code = "print('ready', flush=True)\nsys.stderr.write('x')\nsys.stderr.flush()\n"
    for begun in (
        watched(code, stderr=writer),
        watched("import os\nos.close(2)\nprint('ready', flush=True)\ntime.sleep(60)"),
    ):
        time.sleep(0.1)
        begun.send_signal(signal.SIGINT)
        assert begun.wait(20) == 130
        begun.communicate()
    os.close(reader)
    os.close(writer)


def test_interrupt_that_is_ignored() -> None:
    """A command that was started to ignore Ctrl-C, as by `nohup` or in the background of a script, ignores it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        begun = watched("print('ready', flush=True)\ntime.sleep(0.5)\nprint('done')")
    finally:
        signal.signal(signal.SIGINT, before)
    begun.send_signal(signal.SIGINT)
    assert begun.communicate(timeout=20) == ("done\n", "")
    assert begun.returncode == 0


def test_settings_of_no_samples(tmp_path: pathlib.Path) -> None:
    """A `spare generate` that was killed before a sample was finished binds nobody to its settings."""
    with holding(tmp_path / "p.parquet") as parts:
        parts.check({"noise": 1})
        parts.check({"noise": 2})
        assert json.loads((tmp_path / "p.parquet.parts" / "settings.json").read_text()) == {"noise": 2}
    assert os.listdir(tmp_path) == []


def test_cluster_that_goes_away(tmp_path: pathlib.Path) -> None:
    """The scheduler of `spare reproduce --cluster` is killed: a sentence, none of Dask's own lines, no orphans."""
    pytest.importorskip("distributed")
    port, mark = free_port(), uuid.uuid4().hex
    place = f"127.0.0.1:{port}"
    line = [sys.executable, "-m", "tests.faults.reproducer", "--jobs", "1", "--out", "results", "--cluster", place]
    settings = {"cwd": tmp_path, "env": {**environment(), interrupter.MARK: mark}, "text": True}
    worker = ("distributed.cli.dask_worker", place, *QUIET, "--nthreads", "1", "--no-nanny")
    with process("distributed.cli.dask_scheduler", *QUIET, "--port", str(port)) as scheduler:
        waiting(port)
        with process(*worker):
            begun = subprocess.Popen(line, stderr=subprocess.PIPE, **settings)
            until(lambda: any(tmp_path.glob("results/runs/*.json")) or begun.poll() is not None)
            scheduler.kill()
            text = begun.communicate(timeout=120)[1]
    assert begun.returncode == 2, text
    *told, last = text.splitlines()
    assert last.startswith("spare: the cluster went away: its scheduler does not answer any more")
    assert last.endswith("run the same command to continue")
    assert all(one.startswith(("5 runs", "data [", "[")) for one in told), text
    assert interrupter.left_behind(mark) == ()


def test_cluster_that_went_away_before() -> None:
    """Killed so long before the first run is sent that Dask has given up: the same sentence."""
    pytest.importorskip("distributed")
    port = free_port()
    worker = ("distributed.cli.dask_worker", f"127.0.0.1:{port}", *QUIET, "--nthreads", "1", "--no-nanny")
    with process("distributed.cli.dask_scheduler", *QUIET, "--port", str(port)) as scheduler:
        waiting(port)
        with process(*worker):
            code = CLOSED.format(place=f"127.0.0.1:{port}", scheduler=scheduler.pid)
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
            )
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr
    assert done.stderr.startswith("the cluster went away: its scheduler does not answer any more")
    assert done.stderr.count("\n") == 1


CLOSED = """
import math, os, sys, time
from spare.errors import UsageError
from spare.lab.experiments.cluster import connected, each
with connected("{place}") as client:
    print("ready", flush=True)
    os.kill({scheduler}, 9)
    while client.status != "closed":
        time.sleep(0.1)
    try:
        list(each(client, math.sqrt, [(1,), (2,)]))
    except UsageError as error:
        print(error, file=sys.stderr)
"""
