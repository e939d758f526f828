"""The command line: thin, no logic. Each command lives in `spare.commands`; `entry` is where the process begins."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Union

import tyro

from spare.commands.bench import Bench
from spare.commands.cluster import Cluster
from spare.commands.control import Control
from spare.commands.demo import Demo
from spare.commands.evaluate import Evaluate
from spare.commands.fit import Fit
from spare.commands.generate import Generate
from spare.commands.inspect import Inspect
from spare.commands.interrupts import INTERRUPTED
from spare.commands.plan import PlanActions
from spare.commands.predict import Predict
from spare.commands.render import Render
from spare.commands.report import Report
from spare.commands.reproduce import Reproduce
from spare.commands.show import Show
from spare.errors import SpareError
from spare.names import shown

COMMANDS: dict[str, type] = {
    "generate": Generate,
    "fit": Fit,
    "show": Show,
    "inspect": Inspect,
    "evaluate": Evaluate,
    "predict": Predict,
    "plan": PlanActions,
    "control": Control,
    "cluster": Cluster,
    "render": Render,
    "demo": Demo,
    "reproduce": Reproduce,
    "report": Report,
    "bench": Bench,
}
LAB = ("gymnasium", "joblib", "matplotlib", "mujoco", "pybullet")
"""Packages of the extra `lab`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, and turn every expected error into one sentence and exit code 2."""
    if list(sys.argv[1:] if argv is None else argv) == ["--version"]:
        print(f"spare {importlib.metadata.version('spare-models')}")
        return 0
    try:
        code = _asked(argv).run()
        sys.stdout.flush()
        return code
    except SpareError as error:
        print(f"spare: {shown(error)}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in LAB:
            raise
        print(f"spare: this needs {package}; install it with: pip install 'spare-models[lab]'", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print(f"\nspare: {shown(error)}" if error.args else "spare: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # the disk behind our output is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        place = error.filename or "the output"
        print(f"spare: {shown(place)}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 2


def _asked(argv: Sequence[str] | None) -> Any:
    """The command with its options; help and mistakes in them end the program."""
    union: Any = Union[tuple(Annotated[kind, tyro.conf.subcommand(name)] for name, kind in COMMANDS.items())]  # noqa: UP007
    return tyro.cli(
        union,
        prog="spare",
        description="Learn how worlds of objects change when you act on them, as a few readable rules.",
        args=argv,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
