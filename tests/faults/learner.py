"""A small learning run with checkpoints, to be killed: `python -m tests.faults.learner DATA OUT RULES`."""

from __future__ import annotations

import pathlib
import sys

import spare
from spare.commands.common import remember_programs
from spare.learning.cache import open_run
from tests.learning.helpers import quick


def main(data: str, out: str, rules: str) -> None:
    """Learn with few, short trainings, one at a time, and save."""
    remember_programs()
    experience = spare.Experience.load(data)
    folder = pathlib.Path(out + ".run")
    cache = open_run(folder, {"data": experience.fingerprint, "rules": rules})
    preset = quick(max_references=1, training={"steps": 60})
    options = {"seed": 0, "preset": preset, "rules": int(rules), "threads": 1, "cache": cache}
    result = spare.fit(experience.domain, experience, **options)
    result.model.save(out)
    cache.close(finished=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
