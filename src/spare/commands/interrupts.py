"""Ctrl-C: a command ends at once, whatever it is doing, and says how to go on.

An exception that appears anywhere is no way to stop. Raised while modules are imported it is a traceback; in a callback
of the garbage collector it is lost, or takes the interpreter down; and Python raises it only when compiled code
returns, which can take a minute. So a command raises none:

1. The main thread stops where it is, at the next instruction that Python runs there.
2. A thread that hears of the signal at once ends the worker processes, removes what is half written, gives the terminal
   its cursor back, says how to go on, and ends the process as a kill would. Whatever was finished is on disk already.

Whoever calls a command's `run` in a program of their own gets Python's `KeyboardInterrupt`, with the same sentence.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from spare.names import shown

INTERRUPTED = 130
GRACE = 1.0
"""Seconds after which the process ends even if ending it in order does not work out."""
SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"
"""Clears the line, which may hold half a progress bar, too."""

_sentences: list[Callable[[], str]] = []
_leftovers: list[Callable[[], None]] = []
_stopped: list[bool] = []


def again(*, without: str = "") -> str:
    """This command line, as a shell takes it, but for one of its options."""
    return shlex.join(["spare", *(a for a in sys.argv[1:] if a != without)])


def _from_the_start() -> str:
    return f"interrupted. To start again: {again()}"


@contextlib.contextmanager
def ending_soon(how: Callable[[], str]) -> Iterator[None]:
    """An interrupt of the block ends the command with the sentence that `how` returns."""
    _sentences.append(how)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(how()) from None
    finally:
        _sentences.remove(how)


def leaving(act: Callable[[], None]) -> None:
    """An interrupt from here to the end of the process removes what would be of no use."""
    _leftovers.append(act)


def watch() -> None:
    """From now on Ctrl-C ends this process. A process that was started to ignore it, as by `nohup`, still does.

    The signal is blocked in the main thread, and so in every process that it starts: a Ctrl-C in a terminal reaches
    workers too, and they would answer with tracebacks. They are ours to end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _stop)
    threading.Thread(target=_wait, args=(reader,), daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _stop(*_: object, sleep: Callable[[float], None] = time.sleep, leave: Callable[[int], None] = os._exit) -> None:
    """The signal's handler: the main thread goes no further.

    At the very end of the interpreter other threads no longer run, and modules no longer have names: so it is this one
    that ends the process if nobody else does.
    """
    _stopped.append(True)
    sleep(GRACE)
    leave(INTERRUPTED)


def _wait(reader: int) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    while (data := os.read(reader, 1)) and data[0] != signal.SIGINT:
        pass
    _thread.start_new_thread(_enforce, ())  # threading's own threads need a lock, which the main thread may hold
    try:
        _end()
    finally:
        os._exit(INTERRUPTED)


def _enforce() -> None:
    time.sleep(GRACE)
    os._exit(INTERRUPTED)


def _end() -> None:
    """Leave nothing running and nothing half written; then the sentence. Nothing keeps the rest from happening."""
    deadline = time.monotonic() + GRACE / 10
    while not _stopped and time.monotonic() < deadline:  # compiled code does not stop, and does no harm
        time.sleep(0.001)
    # The module may be half imported: it has written nothing then.
    abandon = getattr(sys.modules.get("spare.io.atomic"), "abandon", lambda: None)
    for act in (_end_children, *reversed(_leftovers), _say, abandon):
        with contextlib.suppress(Exception):
            act()


def _say() -> None:
    """Straight to the terminal: `sys.stderr` may be a progress bar's, or locked by the thread that was stopped."""
    try:
        text = (_sentences[-1] if _sentences else _from_the_start)()
    except Exception:
        text = _from_the_start()
    begin = SHOW_CURSOR if os.isatty(2) else b""
    if select.select([], [2], [], GRACE / 10)[1]:  # a full pipe would not let us go
        os.write(2, begin + f"spare: {shown(text)}\n".encode(errors="replace"))


def _end_children() -> None:
    """End every process that this one has started; what cleans up after workers ignores it, and ends after them."""
    ended: set[int] = set()
    while new := _descendants(os.getpid()) - ended:
        for child in new:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        ended |= new


def _descendants(ancestor: int) -> set[int]:
    """Children, their children, and so on, as the system lists them; without such a list, those of multiprocessing."""
    if not os.path.isdir("/proc/self"):
        process = sys.modules.get("multiprocessing.process")
        return {child.pid for child in process.active_children()} if process else set()
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    found: set[int] = set()
    new = {ancestor}
    while new := {child for child, parent in parents.items() if parent in new} - found:
        found |= new
    return found
