"""`spare fit`: learn a model from a file of experience."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from typing import Annotated, Any, Literal

import tyro

from spare.commands.common import load_data, remember_programs
from spare.commands.live import SearchView


@dataclasses.dataclass(frozen=True)
class Fit:
    """Learn rules from experience and write them to a model file."""

    data: Annotated[pathlib.Path, tyro.conf.Positional]
    """Parquet file of transitions, as `spare generate` or Experience.save writes it."""
    out: pathlib.Path = pathlib.Path("model.spare")
    """Where the model goes."""
    preset: Literal["default", "paper"] = "default"
    """default: the best we know; paper: exactly what the paper trained."""
    max_references: int | None = None
    """The largest number of references in a rule."""
    delta: Literal["same", "interleaved", "nested"] | None = None
    """How the list of changed objects is learned: the same as the inputs, interleaved with it, or around it."""
    seed: int = 0
    """Seed of the split, the networks and the minibatches."""
    threads: int | None = None
    """How many candidates to train at once; all cores when not given."""
    domain: str | None = None
    """A domain of your own: package.module:name."""
    json: bool = False
    """Print the result as JSON and nothing else."""

    def run(self) -> int:
        """Learn, save, and print the rules."""
        remember_programs()
        from spare.learning.api import fit
        from spare.learning.presets import find_preset

        data = load_data(self.data, self.domain)
        search = {name: getattr(self, name) for name in ("max_references", "delta") if getattr(self, name) is not None}
        most = search.get("max_references", find_preset(self.preset).search.max_references)

        def view(action: str) -> SearchView:
            return SearchView(action, data.domain.action(action).objects, most, self.json)

        result = fit(
            data.domain, data, seed=self.seed, preset=self.preset, threads=self.threads, listener=view, **search
        )
        result.model.save(self.out)
        if self.json:
            print(json.dumps(summary(result), indent=1))
            return 0
        for note in result.notes:
            print(f"note: {note}", file=sys.stderr)
        print(result.model)
        print(f"wrote {self.out}")
        return 0


def summary(result: Any) -> dict[str, Any]:
    """The result of a fit as plain values: rules, and every round of every search."""

    def shell(action: str, one: Any) -> str:
        return one.show(result.model.domain.action(action).objects)

    searches = []
    for search in result.history:
        rounds = [
            {
                "best": r.best and shell(search.action, r.best.gamma),
                "loss": r.best and r.best.loss,
                "default_deviation": r.best and list(r.best.default_deviation),
                "kept": r.accepted,
                "gain": r.improvement,
                "p_value": r.p_value,
                "seconds": r.seconds,
                "explored": [
                    {
                        "gamma": shell(search.action, e.gamma),
                        "delta": shell(search.action, e.delta),
                        "loss": e.loss if e.trained else None,
                        "default_deviation": list(e.default_deviation),
                        "applies": e.applies,
                        "skipped": e.note or None,
                    }
                    for e in r.explored
                ],
            }
            for r in search.rounds
        ]
        searches.append({"action": search.action, "rounds": rounds})
    rules = [rule.show() for rule in result.model.rules]
    return {"rules": rules, "preset": result.preset.name, "seed": result.seed, "notes": list(result.notes), "searches": searches}
