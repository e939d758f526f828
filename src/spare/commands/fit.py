"""`spare fit`: learn a model from a file of experience."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import sys
from typing import Annotated, Any, Literal

import tyro

from spare.commands.common import check_target, load_data, remember_programs
from spare.commands.interrupts import INTERRUPTED, again, ending_soon
from spare.commands.live import ManyView, SearchView


@dataclasses.dataclass(frozen=True)
class Fit:
    """Learn rules from experience and write them to a model file."""

    data: Annotated[pathlib.Path, tyro.conf.Positional]
    """Parquet file of transitions, as `spare generate` or Experience.save writes it."""
    out: pathlib.Path = pathlib.Path("model.spare")
    """Where the model goes."""
    preset: Literal["default", "paper"] = "default"
    """default: the best we know; paper: what the paper did, as far as it says (docs/paper-choices.md)."""
    max_references: int | None = None
    """The largest number of references in a rule."""
    rules: str = "1"
    """How many rules to learn for each action: a number, or auto to let held-out likelihood decide."""
    delta: Literal["same", "interleaved", "nested"] | None = None
    """How the list of changed objects is learned: the same as the inputs, interleaved with it, or around it."""
    refine: Literal["yes", "no"] | None = None
    """When the lists are found, choose inputs and kinds of targets by validation; the preset `default` does."""
    seed: int = 0
    """Seed of the split, the networks and the minibatches."""
    threads: int | None = None
    """How many candidates to train at once; all cores when not given."""
    domain: str | None = None
    """A domain of your own: package.module:name."""
    resume: bool = False
    """Go on where an interrupted run with the same data and settings stopped."""
    force: bool = False
    """With --resume: use what fits of a run with other data or settings."""
    json: bool = False
    """Print the result as JSON and nothing else."""

    def run(self) -> int:
        """Learn, save, and print the rules."""
        remember_programs()
        from spare.learning.cache import open_run

        data = load_data(self.data, self.domain)
        check_target(self.out)
        folder = self.out.with_name(self.out.name + ".run")
        memo = open_run(folder, self._identity(data), resume=self.resume, force=self.force)
        finished = False

        def kept() -> str:
            return f"\nspare: interrupted; {len(memo)} trainings are kept in {folder}. To go on: {again('--resume')}"

        try:
            with ending_soon(kept):
                result = self._learn(data, memo)
            result.model.save(self.out)
            finished = True
        except KeyboardInterrupt:
            print(kept(), file=sys.stderr)
            return INTERRUPTED
        finally:
            memo.close(finished=finished)
        if self.json:
            print(json.dumps(summary(result), indent=1))
            return 0
        for note in result.notes:
            print(f"note: {note}", file=sys.stderr)
        print(describe(result))
        print(f"wrote {self.out}")
        return 0

    def _search(self) -> dict[str, Any]:
        chosen = {name: getattr(self, name) for name in ("max_references", "delta") if getattr(self, name) is not None}
        return {**chosen, "refine": self.refine == "yes"} if self.refine else chosen

    def _rules(self) -> Any:
        from spare.errors import UsageError

        if self.rules == "auto":
            return "auto"
        if not self.rules.lstrip("-").isdigit():
            raise UsageError(f"--rules {self.rules}: give a number, or auto")
        return int(self.rules)

    def _identity(self, data: Any) -> dict[str, Any]:
        """What a checkpoint belongs to."""
        import spare

        settings = {
            name: getattr(self, name) for name in ("preset", "rules", "seed", "max_references", "delta", "refine")
        }
        return {"version": spare.__version__, "data": data.fingerprint, "domain": data.domain.fingerprint, **settings}

    def _learn(self, data: Any, memo: Any) -> Any:
        from spare.learning.fit import fit
        from spare.learning.presets import find_preset

        rules, search = self._rules(), self._search()
        most = search.get("max_references", find_preset(self.preset).search.max_references)

        with contextlib.ExitStack() as views:

            def view(action: str) -> Any:
                roles = data.domain.action(action).objects
                seen = (SearchView if rules == 1 else ManyView)(action, roles, most, self.json)
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
                memo=memo,
                **search,
            )


def describe(result: Any) -> str:
    """The model's rules, with each rule's share of the data where several were learned."""
    lines = [str(result.model)]
    for k, one in enumerate(result.model.provenance.get("rules", [])):
        lines.append(f"rule {k + 1}: {one['share']:.0%} of the samples, typical one: {one['typical']}")
    return "\n".join(lines)


def summary(result: Any) -> dict[str, Any]:
    """The result of a fit as plain values: rules, and every round of every search."""

    def shell(action: str, one: Any) -> str:
        return one.show(result.model.domain.action(action).objects)

    searches = []
    for search in result.history:
        if not hasattr(search, "rounds"):
            searches.append({"action": search.action, "iterations": _iterations(search, shell)})
            continue
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
    return {
        "rules": rules,
        "preset": result.preset.name,
        "seed": result.seed,
        "notes": list(result.notes),
        "searches": searches,
    }


def _iterations(many: Any, shell: Any) -> list[dict[str, Any]]:
    """EM's history as plain values."""
    return [
        {
            "iteration": one.number,
            "log_likelihood": one.log_likelihood,
            "change": one.change if one.number else None,
            "starved": list(one.starved),
            "shells": [{shell(many.action, s): w[s] for s in w.top(5)} for w in one.shells],
            "shares": one.memberships.mean(axis=0).tolist(),
        }
        for one in many.history
    ]
