"""The record of a control loop: what was planned, expected and observed, step by step; on disk after each one.

`record.json` holds it all as plain numbers: the report reads it without a model. `experience.parquet` holds the
transitions, to learn from.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any

import numpy as np

from spare.data.builder import Builder
from spare.data.experience import Experience
from spare.data.state import ActionCall, State
from spare.errors import FileError
from spare.io.atomic import replacing
from spare.planning.plans import Plan
from spare.planning.problems import Problem, valued

FORMAT = 1
ENDS = {
    "goal": "the goal was reached",
    "steps": "the number of steps was used up",
    "time": "the time was used up",
    "environment": "the environment ended the episode",
    "interrupted": "it was interrupted",
    "": "it goes on",
}
"""Why a loop ended, in words."""


@dataclasses.dataclass(frozen=True)
class Taken:
    """One step: the state, the action, what followed, the environment's reward, and the plan that it came from."""

    state: State
    call: ActionCall
    after: State
    reward: float
    plan: Plan


@dataclasses.dataclass
class Record:
    """What a control loop did. `ended` says why it stopped (see `ENDS`); `steps` has a dictionary for each step."""

    problem: Problem
    origin: State
    folder: pathlib.Path | None
    seed: int
    taken: list[Taken] = dataclasses.field(default_factory=list)
    steps: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    ended: str = ""

    @classmethod
    def begin(cls, problem: Problem, origin: State, folder: str | os.PathLike[str] | None, seed: int) -> Record:
        """An empty record; its folder is made, and a record of another run in it refused."""
        place = None if folder is None else pathlib.Path(folder)
        if place is not None:
            if (place / "record.json").exists():
                raise FileError(f"{place}: there is a record already; choose another folder")
            try:
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileError(f"{place}: the folder cannot be made: {error.strerror or error}") from error
        found = cls(problem, origin, place, seed)
        found.write()
        return found

    @property
    def reached(self) -> bool:
        """Whether the goal was reached."""
        return self.ended == "goal"

    @property
    def experience(self) -> Experience:
        """The transitions, to learn from; at least one step must have been taken."""
        builder = Builder(self.problem.model.domain)
        for one in self.taken:
            builder.add(one.state, one.call, one.after)
        return builder.build(source="control")

    @property
    def final(self) -> State:
        """The last state that was observed."""
        return self.taken[-1].after if self.taken else self.origin

    def add(self, taken: Taken) -> None:
        """One more step; it is on disk when this returns."""
        self.taken.append(taken)
        self.steps.append(_step(self.problem, self.origin, taken))
        self.write()

    def end(self, why: str) -> Record:
        """The finished record."""
        self.ended = why
        self.write()
        return self

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        domain = self.problem.model.domain
        return {
            "format": FORMAT,
            "domain": domain.name,
            "properties": list(domain.property_names),
            "ids": list(self.origin.ids),
            "start": self.origin.values.astype(float).tolist(),
            "seed": self.seed,
            "ended": self.ended,
            "words": ENDS[self.ended],
            "steps": self.steps,
        }

    def write(self) -> None:
        """Replace both files, each atomically."""
        if self.folder is None:
            return
        with replacing(self.folder / "record.json") as target:
            target.write_text(json.dumps(self.to_json()), "utf-8")
        if self.taken:
            self.experience.save(self.folder / "experience.parquet")

    def __str__(self) -> str:
        cost = self.steps[-1]["cost"] if self.steps else float("nan")
        told = "" if cost is None or np.isnan(cost) else f"; the cost is now {cost:.4g}"
        return f"{len(self.steps)} steps: {ENDS[self.ended]}{told}"


def _step(problem: Problem, origin: State, taken: Taken) -> dict[str, Any]:
    made, after = taken.plan, taken.plan.rollout
    expected, std = after.mean[1], np.nan_to_num(after.std[1], posinf=0.0)
    expected = np.where(np.isfinite(expected), expected, taken.state.values)  # of a model whose draws are no numbers
    cost = valued(problem, "cost", taken.after, origin)
    return {
        "action": taken.call.action,
        "objects": list(taken.call.objects),
        "parameters": list(taken.call.parameters),
        "expected": expected.tolist(),
        "std": std.tolist(),
        "observed": taken.after.values.astype(float).tolist(),
        "reward": taken.reward,
        "cost": None if np.isnan(cost) else cost,
        "expected cost": made.cost,
        "success": None if np.isnan(made.success) else made.success,
        "kept": list(made.kept),
        "seconds": made.seconds,
        "unlike the data": [str(one) for one in after.leaves if one.step == 1 and one.share > 0.5],
    }
