"""`spare plan`: actions that a model expects to reach a goal, from one state of a file."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from spare.commands.common import check_index, check_target, imported, load_data, load_model, remember_programs

if TYPE_CHECKING:
    from spare.planning.plans import Plan
    from spare.planning.problems import Problem

PlannerName = Literal["sampling", "icem", "mppi", "gradient", "tree", "refined-tree"]


@dataclasses.dataclass(frozen=True)
class PlanActions:
    """Plan in a model: which actions reach a goal, at what cost and with what probability."""

    model: Annotated[pathlib.Path, tyro.conf.Positional]
    """Model file."""
    data: Annotated[pathlib.Path, tyro.conf.Positional]
    """Parquet file of transitions: the plan begins in the state of one of them."""
    problem: str
    """A function of the model that makes the problem: package.module:function."""
    index: int = 0
    """Which transition's state."""
    planner: PlannerName = "icem"
    """How to search."""
    seed: int = 0
    """Seed of the search."""
    domain: str | None = None
    """A domain of your own: package.module:name."""
    plot: pathlib.Path | None = None
    """Draw what is expected over the steps into this file (PNG, SVG, PDF)."""
    json: bool = False
    """Print the plan as JSON and nothing else."""

    def run(self) -> int:
        """Plan and tell."""
        remember_programs()
        if self.plot is not None:
            check_target(self.plot)
        model, data = load_model(self.model, self.domain), load_data(self.data, self.domain)
        check_index(self.index, data, self.data)
        from spare.planning.plans import plan

        found = plan(problem_of(self.problem, model), data.states[self.index], planner_of(self.planner), seed=self.seed)
        print(json.dumps(told(found), indent=1) if self.json else found)
        if self.plot is not None:
            found.rollout.plot().savefig(self.plot)
        return 0


def problem_of(text: str, model: Any) -> Problem:
    """The problem that the user's function makes of a model."""
    from spare.errors import SpareError, UsageError
    from spare.planning.problems import Problem

    make = imported("problem", text)
    if isinstance(make, Problem) or not callable(make):
        raise UsageError(
            f"--problem {text!r}: it must be a function that makes a problem of a model: def f(model): ..."
        )
    try:
        found = make(model)
    except SpareError:
        raise
    except Exception as error:  # the user's code
        raise UsageError(f"--problem {text!r}: {type(error).__name__}: {error}") from error
    if not isinstance(found, Problem):
        raise UsageError(f"--problem {text!r}: it gave a {type(found).__name__}, not a spare.planning.Problem")
    return found


def planner_of(name: PlannerName) -> Any:
    """The planner of this name, with its usual options."""
    from spare import planning

    kinds = {
        "sampling": planning.PredictiveSampling,
        "icem": planning.ICEM,
        "mppi": planning.MPPI,
        "gradient": planning.GradientDescent,
        "tree": planning.TreeSearch,
        "refined-tree": planning.RefinedTree,
    }
    return kinds[name]()


def told(found: Plan) -> dict[str, Any]:
    """A plan as JSON values."""
    calls = [
        {"action": one.action, "objects": list(one.objects), "parameters": list(one.parameters)} for one in found.calls
    ]
    return {
        "calls": calls,
        "cost": found.cost,
        "objective": found.objective,
        "success": None if math.isnan(found.success) else found.success,
        "kept": list(found.kept),
        "expected": found.rollout.mean.tolist(),
        "std": found.rollout.std.tolist(),
        "epistemic": found.rollout.epistemic.tolist(),
        "ids": list(found.state.ids),
        "unlike the data": [str(one) for one in found.rollout.leaves],
        "seconds": found.seconds,
    }
