"""`spare bench`: speed and quality as ratios measured side by side in one run."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pathlib
import sys
from typing import Annotated, Any, Literal

import tyro

from spare.arguments import check_seed
from spare.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure speed and quality on this machine, side by side with a baseline."""

    what: Annotated[Literal["scale", "generate", "em", "samples", "worlds", "plan"], tyro.conf.Positional]
    """scale: time and memory against the number of objects; generate: simulation against the bare engines; em: the
    trainings of one EM iteration at once and one after another; samples: likelihood from few samples, beside graph
    networks and the simulator's noise (hours); worlds: SPARE, its rivals and the truth in worlds whose density is
    known (hours); plan: tasks solved by planning in SPARE's model, its rivals' and the truth (hours)."""
    quick: bool = False
    """A smaller run for a first look."""
    seed: int = 0
    """Seed of the generated data."""
    out: pathlib.Path | None = None
    """Folder of what `samples`, `worlds` or `plan` has finished: run again to go on (default: results-samples,
    results-worlds, or results-plan)."""
    worlds: str = ""
    """For `worlds`: which ones, as in crane,wind; for `plan`: which tasks, as in park,load (default: all)."""
    sizes: str = ""
    """For `worlds` and `plan`: numbers of training transitions (default: 100,300,1000)."""
    seeds: int | None = None
    """For `worlds` and `plan`: how many data sets of each size (default: 5)."""
    learners: str = ""
    """For `worlds` and `plan`: which ones, as in spare,graph-frame,trees (default: all)."""
    tasks: int | None = None
    """For `plan`: how many tasks of each suite (default: 50)."""
    json: bool = False
    """Print the numbers as JSON and nothing else."""

    def run(self) -> int:
        """Run one benchmark and print its tables."""
        check_seed(self.seed)
        module = importlib.import_module(f"spare.lab.bench.{self.what}")
        result = module.run(self.quick, self.seed, self._say, **self._more())
        if self.json:
            print(json.dumps(result, indent=1))
        else:
            module.show(result)
        return 0

    def _more(self) -> dict[str, Any]:
        """What only some benchmarks take; said to another one it is an error, not ignored."""
        asked = {"worlds": _words(self.worlds), "sizes": _numbers(self.sizes), "learners": _words(self.learners)}
        asked |= {"seeds": self.seeds, "tasks": self.tasks}
        takes = {"worlds": [*asked][:-1], "plan": [*asked]}.get(self.what, [])
        given = [name for name, value in asked.items() if value is not None and value != () and name not in takes]
        if given:
            raise UsageError(
                f"bench {self.what} takes no --{given[0]}; bench {'plan' if given[0] == 'tasks' else 'worlds'} does"
            )
        asked = {name: asked[name] for name in takes}
        if self.what in ("samples", "worlds", "plan"):
            return {**asked, "out": self.out or pathlib.Path(f"results-{self.what}")}
        return {}

    def _say(self, text: str) -> None:
        if not self.json:
            print(text, file=sys.stderr, flush=True)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in _words(text))
    except ValueError as error:
        raise UsageError(f"bench worlds: --sizes takes numbers such as 100,300,1000, got {text!r}") from error
