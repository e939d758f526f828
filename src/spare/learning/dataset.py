"""From experience and lists to numbers: the x, y and weights that LearnDist trains on (section 4.1).

x comes from `model/features.py`, the same code that prediction uses, here over all transitions at once in float64.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from spare.arrays import precision
from spare.content import ByContent
from spare.data.experience import Experience
from spare.errors import FitError
from spare.language.frames import FramePose, mirrored, to_frame
from spare.language.references import Shell
from spare.learning.bindings import Bindings
from spare.model.features import ExperienceSlots, Layout, Observed, observe, origins_of
from spare.model.spec import FeatureSpec, RuleSpec, target_names

LARGEST = 1e15
"""Larger numbers cannot be learned from in 32-bit floats: their squares overflow."""
ROUNDING = (1e-6, 1e-14)
"""What is lost when positions are moved to a frame, as a share of their size: in 32-bit numbers, and in 64-bit ones."""


@dataclasses.dataclass(frozen=True, eq=False)
class DesignMatrix(ByContent):
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
class ObservedRows:
    """An experience in the predictor's coordinates, float64: `before` (R, P) and parameters (n, d), `after` (R, Q)."""

    before: Observed
    after: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """All properties of every object row before the action."""
        return self.before.values

    @property
    def parameters(self) -> np.ndarray:
        """The action's parameters; in a frame followed by harmonics of its heading."""
        return self.before.parameters


def action_poses(data: Experience, action: str) -> FramePose | None:
    """The pose of the action's frame in every transition, if it has one."""
    template = data.domain.action(action)
    if template.frame is None:
        return None
    roles = data.values[data.offsets[:-1, None] + data.objects[:, : len(template.objects)]]
    with precision(double=data.double):
        return data.domain.poses(template, roles, data.parameters)


def observe_rows(
    data: Experience, action: str, framed: bool, mirror: bool = False, origins: Observed | None = None
) -> ObservedRows:
    """The experience as a rule's predictor sees it: in the world, in the action's frame, or in the frame's mirror.

    What is not in the frame is counted from `origins`.
    """
    domain, template = data.domain, data.domain.action(action)
    pose = action_poses(data, action) if framed else None
    raw = Observed(data.values.astype(np.float64), data.parameters.astype(np.float64))
    after = data.next_values[:, list(domain.dynamic)].astype(np.float64)
    owner = data.owner
    seen = observe(domain, action, raw, pose, owner=owner, mirror=mirror, origins=origins)
    if origins is not None:
        after = after - origins.values[list(domain.dynamic)]
    if pose is None or template.frame is None:
        return ObservedRows(seen, after)
    outputs = template.frame.columns(domain.dynamic_names)
    after = to_frame(after, outputs, pose.at(owner))
    places = template.frame.columns(domain.property_names).positions
    points = template.frame.columns(template.parameters).positions
    size = max(float(np.abs(part).max(initial=0.0)) for part in (raw.values[:, sum(places, ())], pose.origin))
    rounding = ROUNDING[data.double] * size
    seen = Observed(_cleaned(seen.values, places, rounding), _cleaned(seen.parameters, points, rounding))
    return ObservedRows(seen, mirrored(after, outputs) if mirror else after)


def _cleaned(values: np.ndarray, columns: tuple[tuple[int, ...], ...], rounding: float) -> np.ndarray:
    """Coordinates that are 0 in the frame but for rounding become 0: noise must not be scaled up into an input."""
    for column in sum(columns, ()):
        values[:, column] = np.where(np.abs(values[:, column]) < rounding, 0.0, values[:, column])
    return values


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Builds design matrices for any pair of lists over one experience of one action.

    `features` is what every rule sees, `chosen` what rules with some lists Gamma see instead; `changes` (Q,) says which
    properties are predicted as changes.
    """

    bindings: Bindings
    features: FeatureSpec
    changes: np.ndarray
    mirror: bool = False
    chosen: Mapping[Shell, FeatureSpec] = dataclasses.field(default_factory=dict)

    @property
    def experience(self) -> Experience:
        """The transitions, all of one action."""
        return self.bindings.experience

    @property
    def action(self) -> str:
        """The action's name."""
        return self.bindings.action

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the action's objects."""
        return self.experience.domain.action(self.action).objects

    @functools.cached_property
    def rows(self) -> ObservedRows:
        """Values, next values and parameters in the predictor's coordinates."""
        origins = origins_of(self.experience.domain, self.action, self.features)
        return observe_rows(self.experience, self.action, self.features.framed, self.mirror, origins)

    @functools.cached_property
    def reflection(self) -> Dataset | None:
        """The same transitions in the frame's mirror, where the frame says that the world is the same there."""
        frame = self.experience.domain.action(self.action).frame
        if not self.features.framed or frame is None or not frame.mirror:
            return None
        return dataclasses.replace(self, mirror=True)

    def feature_spec(self, gamma: Shell) -> FeatureSpec:
        """What a rule with this list sees."""
        return self.chosen.get(gamma, self.features)

    def with_features(self, gamma: Shell, spec: FeatureSpec) -> Dataset:
        """The same, but for what rules with this list see."""
        return dataclasses.replace(self, chosen={**self.chosen, gamma: spec})

    def spec(self, gamma: Shell, delta: Shell) -> RuleSpec:
        """The rule with these lists, apart from its numbers."""
        return RuleSpec(self.action, gamma, delta, self.feature_spec(gamma), target_names(self.changes))

    def layout(self, gamma: Shell) -> Layout:
        """The entries of x of a rule with this list."""
        return Layout(self.experience.domain, self.action, gamma, self.feature_spec(gamma))

    def entries(self, gamma: Shell) -> np.ndarray:
        """All that a rule with this list could see, what it drops included, (n, E)."""
        return self.layout(gamma).entries(self.rows.before, self._slots(gamma))

    def _slots(self, gamma: Shell) -> ExperienceSlots:
        starts = self.experience.offsets[:-1]
        return ExperienceSlots(starts[:, None] + self.experience.objects, self.bindings.masks(gamma), starts)

    def matrix(self, gamma: Shell, delta: Shell) -> DesignMatrix:
        """x, y and who is held, for the rule with these lists."""
        inputs, outputs, x, y, spread = self._parts(gamma, delta)
        size = self.bindings.held(outputs).T
        applies = np.all(self.bindings.held(inputs) > 0, axis=0) & np.all(size > 0, axis=1)
        x, keep = np.where(applies[:, None], x, 0.0), applies[:, None, None]
        if np.abs(x).max(initial=0) > LARGEST or np.abs(y).max(initial=0) > LARGEST:
            raise FitError(f"values beyond {LARGEST:g} cannot be learned in 32-bit floats; rescale the properties")
        y, spread = np.where(keep, y, 0.0), np.where(keep, spread, 0.0)
        return DesignMatrix(gamma, delta, x, y, spread, size, applies, outputs)

    def partial(self, gamma: Shell, delta: Shell) -> DesignMatrix:
        """The same for every sample, whether the rule applies or not; NaN where a slot is empty."""
        inputs, outputs, x, y, spread = self._parts(gamma, delta)
        held, size = self.bindings.held(inputs), self.bindings.held(outputs).T
        slot = self.layout(gamma).slots
        x = np.where((held > 0)[slot].T | (slot < 0), x, np.nan)
        y = np.where((size > 0)[:, :, None], y, np.nan)
        return DesignMatrix(gamma, delta, x, y, spread, size, np.all(size > 0, axis=1), outputs)

    def _parts(self, gamma: Shell, delta: Shell) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Masks of the input and output slots, x, and mean and variance of the targets."""
        slots = self._slots(gamma)
        outputs = slots.masks if delta == gamma else self.bindings.masks(delta)
        x = self.layout(gamma).features(self.rows.before, slots)
        return slots.masks, outputs, x, *self._targets(outputs)

    def _targets(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the targets over the members of each slot, (n, S, Q) each."""
        data, starts = self.experience, self.experience.offsets[:-1]
        target = self.rows.after - np.where(self.changes, self.rows.values[:, list(data.domain.dynamic)], 0.0)
        members = np.maximum(self.bindings.held(outputs).T, 1)[:, :, None]

        def over(masks: np.ndarray, numbers: np.ndarray) -> np.ndarray:
            return np.stack([np.add.reduceat(np.where(m[:, None], numbers, 0.0), starts, axis=0) for m in masks], 1)

        mean = over(outputs, target) / members
        owner = data.owner
        spread = [
            np.add.reduceat(np.where(m[:, None], np.square(target - mean[owner, s]), 0.0), starts, axis=0)
            for s, m in enumerate(outputs)
        ]
        return mean, np.stack(spread, 1) / members
