"""What is read off sampled trajectories: moments over the horizon, their parts, a table, a plot, and warnings.

    Var[v_t] = mean over members m of Var[v_t | m]  +  Var over members of E[v_t | m]
               aleatoric²                              epistemic²

the law of total variance, each part estimated without bias from the trajectories that each member has. Angles are
averaged on the circle: deviations count from the circular mean.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from spare.content import ByContent
from spare.data.experience import Experience
from spare.data.state import ActionCall, State
from spare.errors import UsageError, one_of
from spare.language.kinds import Periodic, wrapped
from spare.model.familiar import Warned

LOOKED_AT = 64
"""Trajectories of a roll-out whose states are compared with what the model knows: as many as tell a share."""


@dataclasses.dataclass(frozen=True)
class Leaving:
    """A step before which trajectories have left what the model knows: which share of them, and what is unlike.

    `step` counts from 1: the call that is then asked about. `warnings`: of the first trajectory that has some.
    """

    step: int
    share: float
    warnings: tuple[Warned, ...]

    def __str__(self) -> str:
        first, *others = self.warnings
        more = f"; and {len(others)} more" if others else ""
        return f"step {self.step}: {self.share:.0%} of the trajectories are unlike the data: {first}{more}"


@dataclasses.dataclass(frozen=True, eq=False)
class Rollout(ByContent):
    """Sampled trajectories: `values` (samples, steps + 1, objects, properties), the given state first.

    `members` (samples,) says which member of the ensemble each trajectory keeps.
    """

    model: Any
    state: State
    calls: tuple[ActionCall, ...]
    values: np.ndarray
    members: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    @property
    def steps(self) -> int:
        """How many calls there are."""
        return len(self.calls)

    def states(self, sample: int) -> tuple[State, ...]:
        """The states of one trajectory, the given one first."""
        return tuple(State(self.state.ids, values) for values in self.values[sample])

    @functools.cached_property
    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(mean, aleatoric variance, epistemic variance), (steps + 1, objects, properties), float64."""
        centre, off = self._centred
        groups = [off[self.members == member] for member in np.unique(self.members)]
        means = np.stack([group.mean(axis=0) for group in groups])
        counts = np.array([len(group) for group in groups], np.float64)
        if not (counts > 1).any():  # one trajectory each: nothing tells the parts apart
            return centre + off.mean(axis=0), off.var(axis=0), np.zeros_like(centre)
        aleatoric = np.mean([group.var(axis=0, ddof=1) for group in groups if len(group) > 1], axis=0)
        between = means.var(axis=0) if len(groups) > 1 else np.zeros_like(centre)
        # Means of few trajectories differ by chance alone; that part is not the members'.
        chance = aleatoric * np.mean(1 / counts) * (1 - 1 / len(groups))
        return centre + off.mean(axis=0), aleatoric, np.maximum(between - chance, 0.0)

    @functools.cached_property
    def _centred(self) -> tuple[np.ndarray, np.ndarray]:
        """(centres (steps + 1, objects, properties), how far each trajectory is from them)."""
        values = self.values.astype(np.float64)
        centre = values.mean(axis=0)
        off = values - centre
        for column, prop in enumerate(self.model.domain.properties):
            if isinstance(prop.kind, Periodic):
                turn = np.exp(2j * math.pi / prop.kind.period * values[..., column]).mean(axis=0)
                centre[..., column] = np.angle(turn) * prop.kind.period / (2 * math.pi)
                off[..., column] = wrapped(values[..., column] - centre[..., column], prop.kind.period)
        return centre, off

    @property
    def mean(self) -> np.ndarray:
        """Expected values, (steps + 1, objects, properties); of angles the circular mean."""
        return self._parts[0]

    @property
    def std(self) -> np.ndarray:
        """Deviations: std² = aleatoric² + epistemic²."""
        return np.sqrt(self._parts[1] + self._parts[2])

    @property
    def aleatoric(self) -> np.ndarray:
        """The deviation that every member expects by itself: what would vary again and again."""
        return np.sqrt(self._parts[1])

    @property
    def epistemic(self) -> np.ndarray:
        """How far members' expectations are apart: what more data could tell. 0 for a model without an ensemble."""
        return np.sqrt(self._parts[2])

    def quantiles(self, share: float) -> np.ndarray:
        """The value that this share of the trajectories stays below, (steps + 1, objects, properties)."""
        if not 0 <= share <= 1:
            raise UsageError(f"quantiles: the share is from 0 to 1, got {share}")
        centre, off = self._centred
        return centre + np.quantile(off, share, axis=0)

    def experience(self, samples: int | None = None) -> Experience:
        """The trajectories as transitions, sample by sample; `info` says of which sample and step each is."""
        count = len(self) if samples is None else min(samples, len(self))
        size, steps, domain = len(self.state), self.steps, self.model.domain
        before, after = (
            part.reshape(-1, part.shape[-1]) for part in (self.values[:count, :-1], self.values[:count, 1:])
        )
        rows = [[self.state.ids.index(one) for one in call.objects] for call in self.calls]
        objects = np.array([row + [-1] * (domain.roles - len(row)) for row in rows], np.int64).reshape(
            steps, domain.roles
        )
        given = [[*call.parameters, *[0.0] * (domain.parameters - len(call.parameters))] for call in self.calls]
        return Experience.from_arrays(
            domain,
            values=before,
            next_values=after,
            offsets=size * np.arange(count * steps + 1),
            ids=[*self.state.ids] * (count * steps),
            action=np.tile([domain.action_index(call.action) for call in self.calls], count),
            objects=np.tile(objects, (count, 1)),
            parameters=np.tile(np.array(given, np.float64).reshape(steps, domain.parameters), (count, 1)),
            info={"sample": np.repeat(np.arange(count), steps), "step": np.tile(np.arange(1, steps + 1), count)},
        )

    @functools.cached_property
    def leaves(self) -> tuple[Leaving, ...]:
        """The steps at which trajectories are unlike what the model was learned from, in order; see `Leaving`.

        About one in thirty states like the training data gets a warning: a small share means little.
        """
        asked = getattr(self.model, "warnings", None)
        if asked is None:
            return ()
        data = self.experience(LOOKED_AT)
        warned = asked(data)
        found = []
        for step in range(1, self.steps + 1):
            mine = [warned[i] for i in np.flatnonzero(data.info["step"] == step)]
            odd = [one for one in mine if one]
            if odd:
                found.append(Leaving(step, len(odd) / len(mine), odd[0]))
        return tuple(found)

    def table(self) -> dict[str, list[Any]]:
        """Columns by name, one row per step, object and property that can change: `pandas.DataFrame(r.table())`."""
        domain, found = self.model.domain, {}
        low, high = self.quantiles(0.05), self.quantiles(0.95)
        parts = {"mean": self.mean, "std": self.std, "aleatoric": self.aleatoric, "epistemic": self.epistemic}
        parts |= {"p05": low, "p95": high}
        columns = list(domain.dynamic)
        steps, size = self.values.shape[1], len(self.state)
        found["step"] = np.repeat(np.arange(steps), size * len(columns)).tolist()
        found["object"] = [one for one in self.state.ids for _ in columns] * steps
        found["property"] = [*domain.dynamic_names] * (size * steps)
        return found | {name: part[..., columns].reshape(-1).tolist() for name, part in parts.items()}

    def plot(self, properties: Sequence[str] | None = None, objects: Sequence[Any] | None = None) -> Any:
        """A Matplotlib figure: one panel per property, a line and a 90 % band per object, steps from left to right.

        Without `objects`: those that move most, at most six. Matplotlib comes with `pip install spare-models[lab]`.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise UsageError("plot: Matplotlib is missing; pip install matplotlib") from error
        domain = self.model.domain
        names = [*(domain.dynamic_names if properties is None else properties)]
        for name in names:
            if name not in domain.property_names:
                raise UsageError(one_of("property", name, domain.property_names))
        chosen = self._moving() if objects is None else [*objects]
        for one in chosen:
            if one not in self.state.ids:
                raise UsageError(f"plot: object {one!r} is not in the state ({list(self.state.ids)[:8]})")
        figure = Figure(figsize=(3.2 * len(names), 2.8), layout="constrained")
        low, high, steps = self.quantiles(0.05), self.quantiles(0.95), np.arange(self.steps + 1)
        for panel, name in enumerate(names):
            axes, column = figure.add_subplot(1, len(names), panel + 1), domain.property_names.index(name)
            for one in chosen:
                row = self.state.ids.index(one)
                (line,) = axes.plot(steps, self.mean[:, row, column], marker=".", label=str(one))
                band = (low[:, row, column], high[:, row, column])
                axes.fill_between(steps, *band, alpha=0.2, color=line.get_color(), linewidth=0)
            unit = domain.properties[column].unit
            axes.set(title=f"{name} ({unit})" if unit else name, xlabel="step")
            for left in self.leaves if panel == 0 else ():
                axes.axvline(left.step - 1, color="grey", linestyle=":", linewidth=1)
        if chosen:
            figure.axes[-1].legend(fontsize="small")
        return figure

    def _moving(self, most: int = 6) -> list[Any]:
        """The objects that move most, in the order of the state; all if they are few."""
        columns = list(self.model.domain.dynamic)
        scale = self.model.domain.resolutions
        moved = (np.abs(self.mean[..., columns] - self.mean[:1, ..., columns]) / scale).max(axis=(0, 2))
        rows = sorted(np.argsort(-moved, kind="stable")[:most].tolist())
        return [self.state.ids[row] for row in rows]
