"""Ctrl-C at a moment in which Python cannot raise it."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys

import pytest

LOST = """
import gc, os, signal, time
from spare.commands.interrupts import ending_soon, watch

watch()

def interrupt(phase, info):
    if phase == "start":
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

with ending_soon(lambda: "go on with this"):
    gc.callbacks.append(interrupt)
    gc.collect()
    gc.callbacks.remove(interrupt)
    time.sleep(60)
"""


def test_an_interrupt_inside_the_garbage_collector_ends_the_command_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 130
    assert done.stderr.strip() == "spare: go on with this"


HALF = """
import os, signal, sys, time, types
from spare.commands.interrupts import watch

watch()
sys.modules["spare.io.atomic"] = types.ModuleType("spare.io.atomic")
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
"""


def test_an_interrupt_while_our_own_modules_are_half_imported_ends_with_a_sentence() -> None:
    done = subprocess.run([sys.executable, "-c", HALF], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 130
    assert done.stderr.startswith("spare: interrupted")


HIDDEN = """
import time
from spare.commands.interrupts import ending_soon, watch
from spare.commands.live import SearchView

watch()

view = SearchView("push", ("target",))
with ending_soon(lambda: "go on with this"):
    view.{begin}
    time.sleep(60)
"""


@pytest.mark.parametrize("begin", ["round_started(1, 5)", "step_started('choosing inputs')"])
def test_an_interrupted_progress_bar_gives_the_terminal_its_cursor_back(begin: str) -> None:
    """In a real terminal, by a signal to a real process."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", HIDDEN.format(begin=begin)]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        while b"\x1b[?25l" not in seen:  # hidden
            seen += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # how Linux says that nobody is at the other end
            while more := os.read(ours, 4096):
                seen += more
        assert process.wait(20) == 130
    os.close(ours)
    assert b"go on with this" in seen
    assert seen.rfind(b"\x1b[?25h") > seen.rfind(b"\x1b[?25l")
