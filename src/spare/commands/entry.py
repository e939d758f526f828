"""The first lines of a command: no module comes from the current folder, and Ctrl-C ends it from here on.

Until `alone` has run, Python may look for modules in the current folder first. So nothing is imported before that is
not part of the interpreter itself; not even `from __future__`, which is a file like any other.
"""

import os
import sys


def main(argv: list[str] | None = None) -> int:
    """Run the command line as the process that it is; the exit code."""
    try:
        alone()
        from spare.commands.interrupts import watch

        watch()
    except KeyboardInterrupt:  # so soon that there is nothing to end but this
        os.write(2, b"spare: interrupted\n")
        os._exit(130)
    from spare.commands.cli import main as run

    return run(argv)


def alone() -> None:
    """Take the current folder out of the places where modules are looked for, here and in every process from here.

    `python -m` and `python -c` put it first, and so does an empty place in PYTHONPATH. What PYTHONPATH names stays, as
    do folders of installed packages: those come after Python's own.
    """
    os.environ["PYTHONSAFEPATH"] = "1"  # workers of joblib are started with -m, what cleans up after them with -c
    named = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    os.environ["PYTHONPATH"] = os.pathsep.join(named)
    try:
        here = os.getcwd()
    except OSError:  # removed while we were in it
        here = ""
    unwanted = {""} if here in [os.path.abspath(place) for place in named] else {"", here}
    standard = os.path.dirname(os.__file__)
    before = sys.path.index(standard) if standard in sys.path else len(sys.path)
    sys.path[:] = [place for place in sys.path[:before] if place not in unwanted] + sys.path[before:]
