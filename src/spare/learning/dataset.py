"""From experience and shells to numbers: the x, y and weights that LearnDist trains on (section 4.1).

Statistics are taken in float64 on the host. `rule.py` builds the same x inside compiled code; a test holds the two
together.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from spare.data.experience import Experience
from spare.errors import FitError
from spare.language.frames import QUARTER, enter, groups, mirrored, place_all, quarters, swapped, turns
from spare.language.periodic import show, shown_names
from spare.language.references import Shell
from spare.learning.bindings import Pointing
from spare.learning.noise import LARGEST
from spare.model.features import View, aggregators, entries, used


@dataclasses.dataclass(frozen=True)
class Table:
    """One candidate rule's view of an experience of n transitions and R object rows.

    x (n, D) inputs; y, spread (n, S, Q) mean and variance of each output slot's target over its members; size (n, S)
    members per output slot; applies (n,); outputs (S, R) which object rows each output slot holds.
    Rows where the rule does not apply hold zeros.
    """

    gamma: Shell
    delta: Shell
    x: np.ndarray
    y: np.ndarray
    spread: np.ndarray
    size: np.ndarray
    applies: np.ndarray
    outputs: np.ndarray


@dataclasses.dataclass(frozen=True)
class Seen:
    """An experience in the predictor's coordinates, float64: values (R, P), after (R, Q), parameters (n, d).

    In a frame, positions are shifted and turned, and the parameters are followed by cos and sin of the heading and its
    multiples.
    """

    values: np.ndarray
    after: np.ndarray
    parameters: np.ndarray


def look(data: Experience, action: str, framed: bool, mirror: bool) -> Seen:
    """The experience as a rule's predictor sees it: in the world, in the action's frame, or in the frame's mirror."""
    domain, template = data.domain, data.domain.action(action)
    values = data.values.astype(np.float64)
    after = data.next_values[:, list(domain.dynamic)].astype(np.float64)
    parameters = data.parameters[:, : len(template.parameters)].astype(np.float64)
    if not framed or template.frame is None:
        return Seen(values, after, parameters)
    roles = data.values[data.offsets[:-1, None] + data.objects[:, : len(template.objects)]]
    placed = place_all(domain, template, roles, data.parameters)
    owner = np.repeat(np.arange(len(data)), data.counts)
    here = type(placed)(placed.origin[owner], placed.heading[owner])
    columns = groups(domain.property_names, template.frame.groups)
    outputs = groups(domain.dynamic_names, template.frame.groups)
    points = groups(template.parameters, template.frame.points)
    places = groups(domain.property_names, template.frame.vectors)
    size = max(float(np.abs(part).max(initial=0.0)) for part in (values[:, sum(places, ())], placed.origin))
    values, after = _cleaned(enter(values, columns, here), places, size), enter(after, outputs, here)
    parameters = _cleaned(enter(parameters, points, placed), points, size)
    heading = placed.heading
    if pairs := groups(domain.property_names, template.frame.extents):
        turned = quarters(heading)
        values, heading = swapped(values, turned[owner], pairs), heading - QUARTER * turned
    if mirror:
        values, after, parameters = mirrored(values, columns), mirrored(after, outputs), mirrored(parameters, points)
        heading = -heading
    return Seen(values, after, np.concatenate([parameters, turns(heading)], axis=1))


def _cleaned(values: np.ndarray, columns: tuple[tuple[int, ...], ...], size: float) -> np.ndarray:
    """Coordinates that are 0 in the frame but for rounding become 0: noise must not be scaled up into an input."""
    for column in sum(columns, ()):
        values[:, column] = np.where(np.abs(values[:, column]) < 1e-6 * size, 0.0, values[:, column])
    return values


def width(aggregators: tuple[str, ...], each: int) -> int:
    """How many entries of x a slot has, if `each` describe one object."""
    return sum(1 if how == "count" else each for how in aggregators)


@dataclasses.dataclass(frozen=True)
class Extractor:
    """Builds tables for any pair of shells over one experience of one action.

    `ignores` says for some lists Gamma which entries of x their predictor does not see, `adds` which it sees that
    their references do not offer.
    """

    pointing: Pointing
    action: str
    inputs: tuple[str, ...]
    changes: np.ndarray
    framed: bool = False
    mirror: bool = False
    ignores: Mapping[Shell, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    adds: Mapping[Shell, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def seen(self) -> Seen:
        """Values, next values and parameters in the predictor's coordinates."""
        return look(self.experience, self.action, self.framed, self.mirror)

    @functools.cached_property
    def reflection(self) -> Extractor | None:
        """The same transitions in the frame's mirror, where the frame says that the world is the same there."""
        frame = self.experience.domain.action(self.action).frame
        if not self.framed or frame is None or not frame.mirror:
            return None
        return dataclasses.replace(self, mirror=True)

    @property
    def experience(self) -> Experience:
        """The transitions, all of one action."""
        return self.pointing.experience

    def table(self, gamma: Shell, delta: Shell) -> Table:
        """x, y and who is held, for the rule with these lists."""
        inputs = self.pointing.masks(gamma)
        outputs = inputs if delta == gamma else self.pointing.masks(delta)
        size = self.pointing.held(outputs).T
        applies = np.all(self.pointing.held(inputs) > 0, axis=0) & np.all(size > 0, axis=1)
        x = np.where(applies[:, None], self._features(gamma, inputs), 0.0)
        y, spread = self._targets(outputs, size)
        keep = applies[:, None, None]
        if np.abs(x).max(initial=0) > LARGEST or np.abs(y).max(initial=0) > LARGEST:
            raise FitError(f"values beyond {LARGEST:g} cannot be learned in 32-bit floats; rescale the properties")
        return Table(gamma, delta, x, np.where(keep, y, 0.0), np.where(keep, spread, 0.0), size, applies, outputs)

    def partial(self, gamma: Shell, delta: Shell) -> Table:
        """The same for every sample, whether the rule applies or not; NaN where a slot is empty."""
        inputs, outputs = self.pointing.masks(gamma), self.pointing.masks(delta)
        held, size = self.pointing.held(inputs), self.pointing.held(outputs).T
        y, spread = self._targets(outputs, size)
        x = self._features(gamma, inputs)
        owner = self._slot_of_feature(gamma)
        x = np.where((held > 0)[owner].T | (owner < 0), x, np.nan)
        y = np.where((size > 0)[:, :, None], y, np.nan)
        return Table(gamma, delta, x, y, spread, size, np.all(size > 0, axis=1), outputs)

    def _slot_of_feature(self, gamma: Shell) -> np.ndarray:
        """Which slot each entry of x describes; -1 for the action's parameters."""
        each = len(shown_names(self.experience.domain, self.inputs))
        owner = [-1] * self.seen.parameters.shape[1]
        owner += [role for role in range(gamma.roles) for _ in range(each)]
        for t, ways in enumerate(self._aggregators(gamma)):
            owner += [gamma.roles + t] * width(ways, each)
        return np.array(owner, int)[self._used(gamma)]

    def view(self, gamma: Shell) -> View:
        """How a rule with these lists sees what they hold."""
        return View(self.inputs, self.framed, self.ignores.get(gamma, ()), self.adds.get(gamma, ()))

    def _aggregators(self, gamma: Shell) -> tuple[tuple[str, ...], ...]:
        return aggregators(self.experience.domain, self.action, gamma, self.view(gamma))

    def _used(self, gamma: Shell) -> list[int]:
        """Which entries of x the predictor sees."""
        return used(self.experience.domain, self.action, gamma, self.view(gamma))

    def input_names(self, gamma: Shell) -> tuple[str, ...]:
        """What the entries of x are."""
        every = entries(self.experience.domain, self.action, gamma, self.view(gamma))
        return tuple(every[k] for k in self._used(gamma))

    def _features(self, gamma: Shell, masks: np.ndarray) -> np.ndarray:
        domain, data = self.experience.domain, self.experience
        values, parts = show(domain, self.inputs, self.seen.values), [self.seen.parameters]
        parts += [values[data.offsets[:-1] + data.objects[:, role]] for role in range(gamma.roles)]
        for mask, ways in zip(masks[gamma.roles :], self._aggregators(gamma), strict=True):
            parts += [self._aggregate(values, mask, how) for how in ways]
        x = np.concatenate(parts, axis=1)
        return x[:, self._used(gamma)] if gamma in self.ignores or gamma in self.adds else x

    def _aggregate(self, values: np.ndarray, mask: np.ndarray, how: str) -> np.ndarray:
        starts = self.experience.offsets[:-1]
        count = np.add.reduceat(mask, starts, dtype=np.int64)[:, None]
        if how == "count":
            return count.astype(np.float64)
        if how in ("max", "min"):
            worst, reduce = (-np.inf, np.maximum) if how == "max" else (np.inf, np.minimum)
            found = reduce.reduceat(np.where(mask[:, None], values, worst), starts, axis=0)
            return np.where(count > 0, found, 0.0)
        total = np.add.reduceat(np.where(mask[:, None], values, 0.0), starts, axis=0)
        return total if how == "sum" else total / np.maximum(count, 1)

    def _targets(self, outputs: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the targets over the members of each slot, (n, S, Q) each."""
        data = self.experience
        dynamic = list(data.domain.dynamic)
        target = self.seen.after - np.where(self.changes, self.seen.values[:, dynamic], 0.0)
        starts, members = data.offsets[:-1], np.maximum(size, 1)[:, :, None]

        def over(masks: np.ndarray, numbers: np.ndarray) -> np.ndarray:
            return np.stack([np.add.reduceat(np.where(m[:, None], numbers, 0.0), starts, axis=0) for m in masks], 1)

        mean = over(outputs, target) / members
        owner = np.repeat(np.arange(len(data)), data.counts)
        spread = [
            np.add.reduceat(np.where(m[:, None], np.square(target - mean[owner, s]), 0.0), starts, axis=0)
            for s, m in enumerate(outputs)
        ]
        return mean, np.stack(spread, 1) / members
