"""The command line: thin, no logic. Each command lives in `spare.commands`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import tyro

from spare.commands.bench import Bench
from spare.errors import SpareError

Commands = Annotated[Bench, tyro.conf.subcommand("bench")] | Annotated[Bench, tyro.conf.subcommand("bench2")]


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, and turn every expected error into one sentence and exit code 2."""
    command: Any = tyro.cli(
        Commands,  # type: ignore[arg-type]
        prog="spare",
        description="Learn how worlds of objects change when you act on them, as a few readable rules.",
        args=argv,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    try:
        return command.run()
    except SpareError as error:
        print(f"spare: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("spare: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())
