"""Ctrl-C at a moment in which Python cannot raise it."""

from __future__ import annotations

import subprocess
import sys

LOST = """
import gc, os, signal, time
from spare.commands.interrupts import ending_soon

def interrupt(phase, info):
    if phase == "start":
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

with ending_soon(lambda: "go on with this", grace=0.2):
    gc.callbacks.append(interrupt)
    gc.collect()
    gc.callbacks.remove(interrupt)
    time.sleep(60)
"""


def test_an_interrupt_inside_the_garbage_collector_ends_the_command_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 130
    assert done.stderr.strip() == "go on with this"
