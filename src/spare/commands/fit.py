"""`spare fit`: learn a model from a file of experience."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from spare.arguments import check_seed, check_whole
from spare.commands.common import check_target, in_words, load_data, remember_programs
from spare.commands.interrupts import again, ending_soon
from spare.commands.live import ManyView, SearchView
from spare.names import shown

if TYPE_CHECKING:
    from spare.data.experience import Experience
    from spare.learning.cache import TrainingCache
    from spare.learning.fit import FitResult


NO_MATTER = ("data", "out", "threads", "domain", "fresh", "json")
"""Options that do not change what is learned; of the data and the domain the content counts, not the name."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """Learn rules from experience and write them to a model file."""

    data: Annotated[pathlib.Path, tyro.conf.Positional]
    """Parquet file of transitions, as `spare generate` or Experience.save writes it."""
    out: pathlib.Path = pathlib.Path("model.spare")
    """Where the model goes."""
    preset: Literal["default", "dense", "shared", "paper"] = "default"
    """default: our best settings; paper: those of the paper, as far as it gives them (docs/paper-choices.md)."""
    max_references: int | None = None
    """The largest number of references in a rule."""
    rules: str = "1"
    """How many rules to learn for each action: a number, or auto to let held-out likelihood decide."""
    seed: int = 0
    """Seed of the split, the networks and the minibatches."""
    threads: int | None = None
    """How many candidates to train at once; all cores when not given."""
    domain: str | None = None
    """A domain of your own: package.module:name."""
    fresh: bool = False
    """Throw away what an interrupted fit into this file left, and start again. Without it, the same fit goes on where
    it stopped, and another one is refused."""
    json: bool = False
    """Print the result as JSON and nothing else."""

    def run(self) -> int:
        """Learn, save, and print the rules."""
        remember_programs()
        from spare.learning.cache import open_run

        self._check()
        data = load_data(self.data, self.domain)
        check_target(self.out)
        folder = self.out.with_name(self.out.name + ".run")
        cache = open_run(folder, self._identity(data), fresh=self.fresh)
        finished = False

        def kept() -> str:
            return f"interrupted; {len(cache)} trainings are kept in {folder}. To continue: {again(without='--fresh')}"

        try:
            with ending_soon(kept):
                result = self._learn(data, cache)
                result.model.save(self.out)
            finished = True
        finally:
            cache.close(finished=finished)
        if self.json:
            print(json.dumps(summary(result), indent=1))
            return 0
        print(in_words(result.model))
        print(f"wrote {self.out}")
        return 0

    def _check(self) -> None:
        """Refuse settings that no fit can have, before a run folder is made for them."""
        from spare.learning.mixing import Mixing
        from spare.learning.presets import Search

        check_seed(self.seed)
        if self.threads is not None:
            check_whole("--threads", self.threads, 1)
        if self.max_references is not None:
            Search(max_references=self.max_references)
        if (rules := self._rules()) != "auto":
            Mixing(rules)

    def _rules(self) -> int | Literal["auto"]:
        from spare.errors import UsageError

        if self.rules == "auto":
            return "auto"
        if not re.fullmatch("-?[0-9]{1,9}", self.rules):
            raise UsageError(f"--rules {shown(self.rules, 60)}: give a number, or auto")
        return int(self.rules)

    def _identity(self, data: Experience) -> dict[str, Any]:
        """What a checkpoint belongs to: data, domain with resolutions and formulas, settings, versions and code."""
        from spare.learning.versions import arithmetic, versions

        domain, programs = data.domain, data.domain.programs
        settings = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in NO_MATTER}
        made_of: dict[str, Any] = {"domain": domain.name, "properties and actions": domain.fingerprint}
        made_of |= {f"resolution of {p.name}": p.resolution for p in domain.properties if not p.static}
        made_of |= {f"formula of reference {name}": program for name, program in programs.references.items()}
        made_of |= {f"frame of action {name}": program for name, program in programs.frames.items()}
        made_of |= {f"kind of property {name}": program for name, program in programs.kinds.items()}
        made_of |= {f"aggregators of {one.name}": "+".join(one.aggregators) for one in domain.references}
        made_by = {**{f"version of {name}": one for name, one in versions().items()}, "arithmetic": arithmetic()}
        return {"data": data.fingerprint, **settings, **made_of, **made_by}

    def _learn(self, data: Experience, cache: TrainingCache) -> FitResult:
        from spare.learning.fit import fit

        rules = self._rules()
        search = {} if self.max_references is None else {"max_references": self.max_references}
        with contextlib.ExitStack() as views:

            def view(action: str) -> SearchView | ManyView:
                roles = data.domain.action(action).objects
                seen = (SearchView if rules == 1 else ManyView)(action, roles, self.json)
                views.callback(seen.close)  # an interrupt, too, gives the terminal its cursor back
                return seen

            return fit(
                data.domain,
                data,
                seed=self.seed,
                preset=self.preset,
                rules=rules,
                threads=self.threads,
                listener=view,
                cache=cache,
                **search,
            )


def summary(result: FitResult) -> dict[str, Any]:
    """The result of a fit as JSON values: notes, rules, and every round of every search."""
    from spare.learning.history import describe_history

    return {
        "notes": list(result.notes),
        "rules": [rule.show() for rule in result.model.rules],
        "preset": result.preset.name,
        "seed": result.seed,
        "searches": describe_history(result.history, result.model.domain),
    }
