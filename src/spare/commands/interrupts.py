"""Ctrl-C: a command ends within a second or two, whatever it is doing, and says how to go on."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

GRACE = 1.0
INTERRUPTED = 130
SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"
"""Clears the line, which may hold half a progress bar, too."""


def again(*more: str) -> str:
    """This command line, as a shell takes it, with these options once."""
    return shlex.join(["spare", *(a for a in sys.argv[1:] if a not in more), *more])


@contextlib.contextmanager
def explained(how: Callable[[], str]) -> Iterator[None]:
    """An interrupt of the block carries the sentence that `how` returns, for the command line to print."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(how()) from None


@contextlib.contextmanager
def ending_soon(how: Callable[[], str], grace: float = GRACE) -> Iterator[None]:
    """After Ctrl-C the block has `grace` seconds to stop; then the process ends here, saying what `how` returns.

    Python notices a signal when compiled code returns, and compiling a program can take many seconds. Whatever was
    finished is on disk already, so a thread that hears of the signal at once may end the process like a kill would.
    An interrupt that Python raises where nothing can catch it, as in a callback of the garbage collector, is lost to
    the block; it is not worth a traceback, since that thread still ends the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    stopped = threading.Event()

    def watch() -> None:
        while (data := os.read(reader, 1)) and data[0] != signal.SIGINT:
            pass
        if data and not stopped.wait(grace):
            print(f"\nspare: {how()}", file=sys.stderr, flush=True)
            if os.isatty(2):  # sys.stderr may be a progress bar's, which hides the cursor
                os.write(2, SHOW_CURSOR)
            os._exit(INTERRUPTED)

    hook = sys.unraisablehook

    def unraised(what: UnraisableHookArgs) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            hook(what)

    sys.unraisablehook = unraised
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        with explained(how):
            yield
    finally:
        sys.unraisablehook = hook
        stopped.set()
        signal.set_wakeup_fd(before)
        os.close(writer)
        watcher.join()
        os.close(reader)
