"""`spare bench`: speed and quality as ratios measured side by side in one run."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pathlib
import sys
from typing import Annotated, Literal

import tyro


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure speed and quality on this machine, side by side with a baseline."""

    what: Annotated[Literal["scale", "generate", "em", "samples"], tyro.conf.Positional]
    """scale: time and memory against the number of objects; generate: simulation against the bare engines; em: the
    trainings of one EM iteration at once and one after another; samples: likelihood from few samples, beside graph
    networks and the simulator's noise (hours)."""
    quick: bool = False
    """A smaller run for a first look."""
    seed: int = 0
    """Seed of the generated data."""
    out: pathlib.Path = pathlib.Path("results-samples")
    """Folder of what `samples` has finished: run again to go on."""
    json: bool = False
    """Print the numbers as JSON and nothing else."""

    def run(self) -> int:
        """Run one benchmark and print its tables."""
        module = importlib.import_module(f"spare.lab.bench.{self.what}")
        more = {"out": self.out} if self.what == "samples" else {}
        result = module.run(self.quick, self.seed, self._say, **more)
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            module.show(result)
        return 0

    def _say(self, text: str) -> None:
        if not self.json:
            print(text, file=sys.stderr, flush=True)
