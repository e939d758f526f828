"""What a model expects of one action, in a form that people can read."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spare.arguments import check_kind
from spare.content import ByContent
from spare.data.precision import digits
from spare.data.state import ActionCall, State
from spare.errors import DataError
from spare.language.domain import Domain
from spare.model.familiar import Warned
from spare.model.headrule import HeadRule
from spare.model.noise import DefaultNoise
from spare.model.outcomes import Choice, Outcome
from spare.model.rule import Rule
from spare.model.words import FEW, describe_head_rule

SHOWN = 12
WIDE = 88


@dataclasses.dataclass(frozen=True, eq=False)
class RuleAnswer(ByContent):
    """One rule's view of one action: does it apply, does it fire, whom it points at, what it would say.

    `mean` and `std` (objects, changeable properties) are those of all `outcomes` together.
    """

    rule: Rule | HeadRule
    applies: bool
    fires: bool
    inputs: np.ndarray
    outputs: np.ndarray
    x: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    outcomes: tuple[Choice, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Prediction(ByContent):
    """p(s' | s, a) summarised: `mean` and `std` of shape (objects, properties), and each rule's answer.

    An object is `predicted` if a firing rule's output slots or heads hold it; everyone else is expected to stay, or to
    do what the rule's process says. Where several things may happen, `outcomes` has them apart: `mean` and `std` are
    those of all of them together.
    std² = aleatoric² + epistemic²: what would vary again and again, and what more data could tell. The epistemic part
    is the disagreement of an ensemble's members and of tied rules; with one rule of one member it is 0.

    `warnings` names each input that lies outside what the firing rules were learned from, in what range it was, and
    members that disagree more than they did there: do not rely on such a prediction. Of states like the training data
    about one in thirty gets one.
    """

    domain: Domain
    state: State
    action: ActionCall
    mean: np.ndarray
    std: np.ndarray
    rules: tuple[RuleAnswer, ...]
    epistemic: np.ndarray
    warnings: tuple[Warned, ...] = ()

    @property
    def aleatoric(self) -> np.ndarray:
        """The deviation that would remain if the mean were known, (objects, properties)."""
        return aleatoric_of(self.std, self.epistemic)

    @property
    def predicted(self) -> np.ndarray:
        """Which objects a firing rule predicts, (objects,) bool."""
        held = np.zeros(len(self.state), bool)
        for answer in self.rules:
            if answer.fires:
                held |= answer.outputs.any(axis=0)
        return held

    @property
    def outcomes(self) -> tuple[Choice, ...]:
        """What may happen, apart: one choice for the whole rule, then one for each object that a head speaks of alone.

        Of rules that tie, each is one outcome, for all that they predict. A single rule without heads has no choices.
        """
        firing = [(k, answer) for k, answer in enumerate(self.rules) if answer.fires]
        if len(firing) == 1:
            return firing[0][1].outcomes
        held, dynamic = np.flatnonzero(self.predicted), np.array(self.domain.dynamic)
        if not firing or not len(held):
            return ()
        made = []
        for k, answer in firing:
            mean = self.state.values[held].astype(np.float64)
            covariance = np.zeros((*mean.shape, mean.shape[1]))
            mean[:, dynamic], covariance[:, dynamic, dynamic] = answer.mean[held], np.square(answer.std[held])
            made.append(Outcome(f"as rule {k + 1} says", 1.0 / len(firing), True, mean, covariance))
        return (Choice(tuple(held.tolist()), tuple(made)),)

    def explain(self, next_state: State | None = None) -> str:
        """Which rule fired, who was pointed at, the inputs, the expectation, who stays, what other rules say.

        With `next_state` (objects in any order) what happened stands beside what was expected.
        """
        call = self.action
        if next_state is not None:
            check_kind("explain", next_state, State, "give the state that followed, or nothing", DataError)
        missing = [one for one in self.state.ids if next_state is not None and one not in next_state.ids]
        if missing:
            raise DataError(f"the next state lacks objects of the state: {_listing(missing)}")
        names = self.domain.action(call.action).parameters
        given = ", ".join(f"{n}={digits(v)}" for n, v in zip(names, call.parameters, strict=True))
        lines = [f"{call.action}({', '.join(map(str, call.objects))}{'; ' if given else ''}{given})"]
        firing = [(k, answer) for k, answer in enumerate(self.rules) if answer.fires]
        if not firing:
            lines.append("no rule applies: everything is expected to stay, within the default deviation")
        if len(firing) > 1:
            lines.append(f"{len(firing)} rules tie; the prediction is their equal mixture")
        for k, answer in firing:
            lines += [
                f"rule {k + 1} fires: {answer.rule.show()}",
                *self._pointing(answer),
                *self._inputs(answer),
            ]
        if self.warnings:
            lines.append("unlike the training data: do not rely on it")
            lines += [f"  {warned}" for warned in self.warnings[:SHOWN]]
            lines += [f"  ... and {len(self.warnings) - SHOWN} more"] * (len(self.warnings) > SHOWN)
        lines += self._expectation(next_state)
        lines += self._others()
        return "\n".join(lines)

    def _pointing(self, answer: RuleAnswer) -> list[str]:
        roles = self.domain.action(answer.rule.action).objects
        lines = []
        for label, shell, masks in (
            ("looks at", answer.rule.gamma, answer.inputs),
            ("changes", answer.rule.delta, answer.outputs),
        ):
            if label == "changes" and answer.rule.delta == answer.rule.gamma:
                continue  # of a rule with heads, too: who changes stands below
            for name, mask in zip(shell.slot_names(roles), masks, strict=True):
                lines.append(f"  {label} {name} = {_listing([self.state.ids[int(i)] for i in np.flatnonzero(mask)])}")
        return lines

    def _inputs(self, answer: RuleAnswer) -> list[str]:
        if not len(answer.x):
            return []
        pairs = zip(answer.rule.input_names, answer.x, strict=True)
        lines = ["  inputs: " + ", ".join(f"{name}={value:.4g}" for name, value in pairs)]
        return lines + [f"  inputs count {text}" for text in [_origins(answer.rule)] if text]

    def _expectation(self, next_state: State | None) -> list[str]:
        held, choices = np.flatnonzero(self.predicted), self.outcomes
        apart = [one for one in choices if len(one.outcomes) > 1]
        may = "may change" if apart else "change"
        lines = [f"expected: {len(held)} of {len(self.state)} objects {may}"] if len(held) else []
        for choice in apart[:SHOWN]:
            lines += self._choice(choice, next_state)
        lines += [f"  ... and {len(apart) - SHOWN} more"] * (len(apart) > SHOWN)
        said = {one.objects[0]: one.outcomes[0] for one in choices if len(one.outcomes) == 1}
        mixed = {i for choice in apart for i in choice.objects}
        alone = [int(i) for i in held if i not in mixed]
        for i in alone[:SHOWN]:
            mean, std = (said[i].mean[0], said[i].std[0]) if i in said else (self.mean[i], self.std[i])
            lines.append(f"  {self.state.ids[i]}: {self._cells(i, mean, std, next_state)}")
            lines += self._parts(i, ", outliers included" if i in said else "")
        lines += [f"  ... and {len(alone) - SHOWN} more"] * (len(alone) > SHOWN)
        outliers = max((one.outliers for one in choices), default=0.0)
        lines += [f"  outliers, {outliers:.1%} of these objects, are left out of ±"] * (outliers >= FEW)
        return lines + self._rest(next_state)

    def _cells(self, i: int, mean: np.ndarray, std: np.ndarray, next_state: State | None) -> str:
        """`x 0.1 -> 0.3 ± 0.01, y ...` of one object; with the state that followed, what was observed."""
        cells = []
        for column in self.domain.dynamic:
            name = self.domain.property_names[column]
            before, after, wide = self.state.values[i, column], mean[column], std[column]
            cell = f"{name} {digits(before, wide)} -> {digits(after, wide)} ± {wide:.2g}"
            if next_state is not None:
                seen = self._seen(next_state, i)[column]
                cell += f" (observed {digits(seen, wide)}, {(seen - after) / wide:+.1f} sd)"
            cells.append(cell)
        return ", ".join(cells)

    def _seen(self, next_state: State, i: int) -> np.ndarray:
        """What was observed of an object, (properties,): of values that repeat, those nearest to the ones before."""
        row = next_state.ids.index(self.state.ids[i])
        seen = next_state.values[row].astype(np.float64)
        for column in self.domain.dynamic:
            kind = self.domain.properties[column].kind
            seen[column] = float(kind.image(float(self.state.values[i, column]), next_state.values[row, column]))
        return seen

    def posterior(self, choice: Choice, next_state: State) -> np.ndarray:
        """P(outcome | what was observed of its objects), (outcomes,); see `Choice.responsibilities`."""
        return choice.responsibilities(np.stack([self._seen(next_state, i) for i in choice.objects]))

    def _choice(self, choice: Choice, next_state: State | None) -> list[str]:
        """Each outcome with its probability; what was observed stands beside the most responsible one."""
        ids = [self.state.ids[i] for i in choice.objects]
        whose = f"{ids[0]}, " if len(ids) == 1 else f"{_listing(ids)} together, "
        lines, shares, most = [f"  {whose}one of {len(choice.outcomes)} outcomes:"], None, -1
        if next_state is not None:
            shares = self.posterior(choice, next_state)
            most = int(np.argmax(shares))
        for k, one in enumerate(choice.outcomes):
            seen = next_state if k == most else None
            told = "" if shares is None or k != most else f"; observed (posterior {_chance(shares[k])})"
            lines.append(f"    {one.name} {_chance(one.probability)}{told}")
            if not one.changes and seen is None:
                continue
            for at, i in enumerate(choice.objects[:SHOWN]):
                lines.append(f"      {self.state.ids[i]}: {self._cells(i, one.mean[at], one.std[at], seen)}")
            more = len(choice.objects) - SHOWN
            lines += [f"      ... and {more} more"] * (more > 0)
        return lines

    def _rest(self, next_state: State | None) -> list[str]:
        """Who is expected to stay; or, where the rule's process moves what nothing holds, how."""
        rest = [int(i) for i in np.flatnonzero(~self.predicted)]
        if not rest:
            return []
        fired = [answer.rule for answer in self.rules if answer.fires]
        if not any(isinstance(rule, HeadRule) and rule.process.spec.free for rule in fired):
            within = ", ".join(
                f"{self.domain.property_names[c]} ± {self.std[rest[0], c]:.2g}" for c in self.domain.dynamic
            )
            return [f"expected to stay ({within}): {_listing([self.state.ids[i] for i in rest])}"]
        lines = ["expected of everything else, whatever is done:"]
        for i in rest[:SHOWN]:
            lines.append(f"  {self.state.ids[i]}: {self._cells(i, self.mean[i], self.std[i], next_state)}")
        return lines + [f"  ... and {len(rest) - SHOWN} more"] * (len(rest) > SHOWN)

    def _parts(self, i: int, of: str = "") -> list[str]:
        """The aleatoric and epistemic parts of an object's deviation; nothing where no ensemble can tell."""
        if not self.epistemic[i].any():
            return []
        parts = [
            f"{self.domain.property_names[c]} ± {self.aleatoric[i, c]:.2g} and ± {self.epistemic[i, c]:.2g}"
            for c in self.domain.dynamic
        ]
        return [f"    aleatoric and epistemic{of}: {', '.join(parts)}"]

    def _others(self) -> list[str]:
        lines = []
        for k, answer in enumerate(self.rules):
            if answer.fires:
                continue
            if not answer.applies:
                lines.append(f"rule {k + 1} does not apply: {answer.rule.show()}")
                continue
            lines.append(f"rule {k + 1} applies with a lower score ({answer.rule.score}) and would predict:")
            for i in np.flatnonzero(answer.outputs.any(axis=0))[:SHOWN]:
                cells = [
                    f"{name} {digits(m, s)} ± {s:.2g}"
                    for name, m, s in zip(self.domain.dynamic_names, answer.mean[i], answer.std[i], strict=True)
                ]
                lines.append(f"  {self.state.ids[i]}: " + ", ".join(cells))
        return lines


@dataclasses.dataclass(frozen=True, eq=False)
class Predictions(Sequence[Prediction]):
    """What is expected of several actions in one state: `mean` and `std` (actions, objects, properties).

    `[k]` is the whole prediction of the k-th action, made when it is asked for.
    """

    actions: tuple[ActionCall, ...]
    mean: np.ndarray
    std: np.ndarray
    make: Callable[[int], Prediction]

    def __len__(self) -> int:
        return len(self.actions)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self.make(k) for k in range(*index.indices(len(self)))]
        return self.make(range(len(self))[index])


def aleatoric_of(std: np.ndarray, epistemic: np.ndarray) -> np.ndarray:
    """sqrt(std² - epistemic²), 0 where rounding would make it less."""
    rest = np.square(std.astype(np.float64)) - np.square(epistemic.astype(np.float64))
    return np.sqrt(np.maximum(rest, 0.0)).astype(std.dtype)


def _origins(rule: Rule | HeadRule) -> str:
    """`x from 5400003, t from 1700000000`: what is subtracted before a rule looks at it; empty if nothing is."""
    origins = rule.origins
    if origins is None:
        return ""
    names = (*rule.domain.property_names, *rule.domain.action(rule.action).parameters)
    pairs = zip(names, (*origins.values, *origins.parameters), strict=True)
    return ", ".join(f"{name} from {origin:.15g}" for name, origin in pairs if origin)


def _chance(probability: float) -> str:
    """`0.31`; what is not quite 0 or 1 does not look like it."""
    if 0 < probability < 0.005:
        return "<0.01"
    return ">0.99" if 0.995 <= probability < 1 else f"{probability:.2f}"


def _listing(ids: Sequence[object]) -> str:
    """{a, b, c}, cut after a dozen."""
    more = f", ... {len(ids)} in all" if len(ids) > SHOWN else ""
    return "{" + ", ".join(str(one) for one in ids[:SHOWN]) + more + "}"


WIDER = 3.0
"""Outliers are shown only if they move that many times as far as what stays."""


def _outliers(domain: Domain, noise: DefaultNoise) -> list[str]:
    """`x ± 0.2 (0.5%)`: how far outliers move, and how often there are some."""
    if noise.outlier_share is None:
        return []
    parts = (np.sqrt(noise.variance), noise.outlier_share, np.sqrt(noise.outlier_variance))
    cells = zip(domain.dynamic_names, *map(np.asarray, parts), strict=True)
    return [f"{name} ± {far:.3g} ({often:.2%})" for name, near, often, far in cells if far > WIDER * near]


def _loadings(rule: Rule) -> list[str]:
    """`x 0.93 to 0.95`: the loadings of the slots, by property; independent properties are left out."""
    if rule.copula is None:
        return []
    found = []
    for name, column in zip(rule.domain.dynamic_names, np.asarray(rule.copula.loading).T, strict=True):
        low, high = f"{column.min():.2f}", f"{column.max():.2f}"
        if column.any():
            found.append(f"{name} {low}" if low == high else f"{name} {low} to {high}")
    return found


def describe_model(domain: Domain, rules: Sequence[Rule | HeadRule], noise: DefaultNoise) -> str:
    """The whole model as text: one block per rule, then what holds when none applies."""

    def deviations(noise: DefaultNoise) -> str:
        cells = zip(domain.dynamic_names, np.sqrt(noise.resolved(domain.resolutions).variance), strict=True)
        return ", ".join(f"{name} ± {value:.3g}" for name, value in cells)

    lines = [f"{domain.name}: {len(rules)} rule{'s' * (len(rules) != 1)}"]
    for k, rule in enumerate(rules):
        lines.append(f"rule {k + 1}  {rule.show()}")
        if isinstance(rule, HeadRule):
            lines += describe_head_rule(rule)
            lines += [f"    counts {far}" for far in [_origins(rule)] if far]
            continue
        chosen = rule.spec.features
        parts = (("without", chosen.dropped), ("and with", chosen.extra))
        changed = "; ".join(f"{how} {', '.join(names)}" for how, names in parts if names)
        inputs = f"{len(rule.input_names)} inputs" + f" ({changed})" * bool(changed)
        text = f"predicts {', '.join(domain.dynamic_names)} of {_slots(rule)} from {inputs}"
        lines += textwrap.wrap(text, WIDE, initial_indent="    ", subsequent_indent="        ")
        if far := _origins(rule):
            lines.append(f"    counts {far}")
        if shared := _loadings(rule):
            lines.append(f"    errors are correlated: {', '.join(shared)}")
        lines.append(f"    everything else stays: {deviations(rule.noise)}")
        if outliers := _outliers(domain, rule.noise.resolved(domain.resolutions)):
            lines.append(f"    with outliers: {', '.join(outliers)}")
    lines.append(f"no rule applies: everything stays: {deviations(noise)}")
    return "\n".join(lines)


def _slots(rule: Rule) -> str:
    return ", ".join(rule.delta.slot_names(rule.domain.action(rule.action).objects))
