"""A problem: what is wanted, what may be done, and how uncertainty counts.

    minimise  R over trajectories of  sum over steps t of discount^t cost(s_t)  +  final(s_H)
    such that P(constraint holds) >= its probability

A trajectory that has reached the goal pays nothing any more. R is the mean for `risk` 0; the mean of the worst
1 - risk of the trajectories for a positive one (CVaR, risk-averse); of the best 1 - |risk| for a negative one
(optimistic). Trajectories keep one member of the model's ensemble each, so R is about what is not known, too.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from spare.arguments import check_whole, described, is_finite, is_real
from spare.data.precision import Numbers, needs_double
from spare.data.state import ObjectId, State
from spare.errors import DataError, DefinitionError
from spare.language.traces import digest_of
from spare.model.rollout import Padded, Simulator, padded
from spare.planning.spaces import Actions, Options, resolve
from spare.planning.views import Formula, Given, StateView

LONGEST = 256
"""Steps that a plan may have."""


@dataclasses.dataclass(frozen=True, eq=False)
class Constraint:
    """P(test(s) holds) >= `probability`: at every step of a trajectory, or with `when="end"` at its end."""

    test: Callable[[StateView], Any]
    probability: float | int = 0.95
    when: Literal["always", "end"] = "always"

    def __post_init__(self) -> None:
        if not (is_real(self.probability) and 0 < self.probability <= 1):
            raise DefinitionError(f"constraint: its probability is above 0 and at most 1, got {self.probability!r}")
        if self.when not in ("always", "end"):
            raise DefinitionError(f"constraint: it holds 'always' or at the 'end', got {self.when!r}")


class Situation(NamedTuple):
    """A problem in one state, as arrays: the state, the one at the start, rows of named objects, numbers, options."""

    state: Padded
    origin: Any
    rows: Any
    given: tuple[Any, ...]
    options: Options


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """What to plan; see the module.

    `model`        a SPARE model, or any `spare.model.rollout.Simulator`
    `actions`      one `Actions` or several
    `horizon`      how many steps a plan looks ahead
    `cost`         of a state, a number; paid after every step. `final`: paid after the last one
    `goal`         of a state, a truth value. With a goal alone, every step before it costs 1
    `constraints`  each with its probability
    `risk`         from -1 (optimistic) over 0 (the mean) to 1 (the worst case)
    `samples`      trajectories of each candidate, the same random numbers for all of them
    `given`        numbers for the formulas (`s.given["goal"]`): another goal is no other program
    """

    model: Simulator
    actions: Actions | Sequence[Actions]
    horizon: int
    cost: Callable[[StateView], Any] | None = None
    goal: Callable[[StateView], Any] | None = None
    final: Callable[[StateView], Any] | None = None
    constraints: Constraint | Sequence[Constraint] = ()
    risk: float | int = 0.0
    discount: float | int = 1.0
    samples: int = 5
    given: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.model, Simulator):
            advice = "read a file with spare.load(path)" if isinstance(self.model, str) else "a model of spare.fit can"
            raise DefinitionError(f"model: it must draw next states (`advance`), got {described(self.model)}; {advice}")
        check_whole("horizon", self.horizon, 1, LONGEST)
        check_whole("samples", self.samples, 1, 4096)
        if not (is_real(self.risk) and -1 < self.risk < 1):
            raise DefinitionError(f"risk: it is above -1 (optimistic) and below 1 (worst case), got {self.risk!r}")
        if not (is_real(self.discount) and 0 < self.discount <= 1):
            raise DefinitionError(f"discount: it is above 0 and at most 1, got {self.discount!r}")
        if self.cost is None and self.goal is None and self.final is None:
            raise DefinitionError("problem: say what is wanted: a cost, a final cost, or a goal")
        if not self.spaces:
            raise DefinitionError("actions: the list is empty; give at least one spare.planning.Actions")
        for one in self.spaces:
            if not isinstance(one, Actions):
                raise DefinitionError(f"actions: expected spare.planning.Actions, got {described(one)}")
        for one in self.limits:
            if not isinstance(one, Constraint):
                raise DefinitionError(f"constraints: expected spare.planning.Constraint, got {described(one)}")
        _ = self.digest

    @property
    def spaces(self) -> tuple[Actions, ...]:
        """The actions, as a tuple."""
        return (self.actions,) if isinstance(self.actions, Actions) else tuple(self.actions)

    @property
    def limits(self) -> tuple[Constraint, ...]:
        """The constraints, as a tuple."""
        return (self.constraints,) if isinstance(self.constraints, Constraint) else tuple(self.constraints)

    @functools.cached_property
    def numbers(self) -> dict[str, np.ndarray]:
        """What is given, as arrays."""
        found = {}
        for name, value in self.given.items():
            array = np.asarray(value, np.float32)
            if not np.isfinite(array).all():
                raise DefinitionError(f"given {name!r}: numbers must be finite, got {described(value)}")
            found[str(name)] = array
        return found

    @functools.cached_property
    def formulas(self) -> dict[str, Formula]:
        """Cost, final, goal and constraints, those that there are, traced."""
        parts: dict[str, Any] = {"cost": self.cost, "final": self.final, "goal": self.goal}
        parts |= {f"constraint {k + 1}": one.test for k, one in enumerate(self.limits)}
        domain, tests = self.model.domain, ("goal", "constraint")
        return {
            name: Formula.of(name, function, domain, self.numbers, test=name.startswith(tests))
            for name, function in parts.items()
            if function is not None
        }

    @functools.cached_property
    def ids(self) -> tuple[ObjectId, ...]:
        """Every object that a formula names."""
        return tuple(dict.fromkeys(one for formula in self.formulas.values() for one in formula.ids))

    @functools.cached_property
    def digest(self) -> str:
        """What tells the programs of two problems apart."""
        spaces = [f"{one.action}/{one.checked(self.model.domain)}/{','.join(one.bounds)}" for one in self.spaces]
        formulas = [
            f"{name}={one.digest}:{[self.ids.index(i) for i in one.ids]}" for name, one in self.formulas.items()
        ]
        limits = [f"{one.probability}/{one.when}" for one in self.limits]
        numbers = [f"{name}{one.shape}" for name, one in self.numbers.items()]
        rest = [self.horizon, self.risk, self.discount, self.samples, len(self.ids)]
        return digest_of(*spaces, "|", *formulas, "|", *limits, "|", *numbers, "|", *map(str, rest))

    def situation(self, state: State, origin: State | None = None) -> Situation:
        """This problem in a state, as arrays; an error says which object it names that is not there."""
        domain = self.model.domain
        start = padded(domain, state)
        given = np.zeros((1, domain.parameters))
        if needs_double(domain, Numbers(state.values, state.values, given, np.zeros(1, int))):
            raise DataError(
                "state: 32-bit numbers, in which plans are made, lose digits of it that matter; count its properties "
                "from nearer origins, and learn again"
            )
        for name, formula in self.formulas.items():
            for one in formula.ids:
                if one not in state.ids:
                    raise DataError(
                        f"{name}: it names object {one!r}, which is not in the state ({list(state.ids)[:8]})"
                    )
        before = np.array(start.values)
        if origin is not None:
            missing = [one for one in state.ids if one not in origin.ids]
            if missing:
                raise DataError(f"the state at the start lacks object {missing[0]!r}")
            before[: len(state)] = origin.values[[origin.ids.index(one) for one in state.ids]]
        rows = np.array([state.ids.index(one) for one in self.ids], np.int32)
        return Situation(start, before, rows, tuple(self.numbers.values()), resolve(domain, self.spaces, state))

    def view(self, situation: Situation, values: Any) -> StateView:
        """A state with these values (N, P) as formulas see it."""
        rows = {one: situation.rows[k] for k, one in enumerate(self.ids)}
        given, names = Given(zip(self.numbers, situation.given, strict=True)), self.model.domain.property_names
        return StateView(names, values, situation.state.valid, rows, given, situation.origin)

    def asked(self, name: str, view: StateView) -> Any:
        """What a formula says; None if the problem has none of that name."""
        formula = self.formulas.get(name)
        return None if formula is None else jnp.asarray(formula.function(view))

    def reached(self, state: State, origin: State | None = None) -> bool:
        """Whether the goal holds in a state; never without one."""
        if self.goal is None:
            return False
        situation = self.situation(state, origin)
        with jax.default_device(jax.devices("cpu")[0]):
            return bool(self.asked("goal", self.view(situation, jnp.asarray(situation.state.values))))


def valued(problem: Problem, what: Literal["cost", "final"], state: State, origin: State | None = None) -> float:
    """The cost of one state, on the host; NaN if the problem has none."""
    situation = problem.situation(state, origin)
    found = problem.asked(what, problem.view(situation, jnp.asarray(situation.state.values)))
    return float("nan") if found is None or not is_finite(float(found)) else float(found)
