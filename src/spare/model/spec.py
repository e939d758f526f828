"""What a rule is apart from its numbers: shared by rules, the learner, model files and keys of finished trainings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from spare.errors import DefinitionError, one_of
from spare.language.domain import Domain, expect_domain
from spare.language.references import Pointer, Shell

TARGETS = ("absolute", "change")


@dataclasses.dataclass(frozen=True)
class FeatureSpec:
    """Which numbers a rule sees of what its slots hold: the entries of x.

    `inputs`   properties of every slot; a set is seen through the aggregators of the reference that found it
    `framed`   positions and directions in the action's frame, with harmonics of its heading; otherwise the world's
    `dropped`  entries of x, by name (`mean(b1).x`), that the predictor does not see
    `extra`    entries by aggregators that the reference does not offer (`sum(b1).x`) that it sees as well
    `origins`  what is subtracted from each property, then from each parameter of the action; empty: nothing. In a frame
               it does not concern what the frame itself shifts or turns
    """

    inputs: tuple[str, ...]
    framed: bool = False
    dropped: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    origins: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class RuleSpec:
    """(A, Gamma, Delta), what enters x, and whether phi predicts each property's new value or its change.

    `targets` has one of `absolute` and `change` for each property that can change. `RuleSpec.of` fills in defaults.
    """

    action: str
    gamma: Shell
    delta: Shell
    features: FeatureSpec
    targets: tuple[str, ...]

    @classmethod
    def of(  # noqa: PLR0913 - the facade: everything after the lists is a keyword with a default
        cls,
        domain: Domain,
        action: str,
        gamma: Shell,
        delta: Shell | None = None,
        *,
        targets: str | tuple[str, ...] = "absolute",
        inputs: tuple[str, ...] | None = None,
        framed: bool = False,
        dropped: tuple[str, ...] = (),
        extra: tuple[str, ...] = (),
    ) -> RuleSpec:
        """The spec of a rule of this domain: Delta = Gamma, all properties as inputs, when nothing else is said.

        One word for `targets` stands for all properties whose kind allows it.
        """
        expect_domain(domain)
        if isinstance(targets, str):
            if targets not in TARGETS:
                raise DefinitionError(one_of("target", targets, TARGETS))
            targets = target_names(domain.targets(targets == "change"))
        features = FeatureSpec(
            domain.property_names if inputs is None else tuple(inputs), framed, tuple(dropped), tuple(extra)
        )
        return cls(action, gamma, gamma if delta is None else delta, features, tuple(targets)).checked(domain)

    def checked(self, domain: Domain) -> RuleSpec:
        """The spec, if it fits the domain; names of entries are checked by `features.Layout`."""
        for shell in (self.gamma, self.delta):
            domain.check_shell(shell, self.action)
        for name in self.features.inputs:
            domain.property(name)
        if len(self.targets) != len(domain.dynamic) or any(target not in TARGETS for target in self.targets):
            raise DefinitionError(
                f"targets: {len(domain.dynamic)} of 'absolute' or 'change' are needed, got {self.targets}"
            )
        for name, kind, target in zip(domain.dynamic_names, domain.kinds, self.targets, strict=True):
            if kind.changes is not None and target != TARGETS[kind.changes]:
                raise DefinitionError(f"targets: property {name!r} is predicted as {TARGETS[kind.changes]!r}")
        if self.features.framed and domain.action(self.action).frame is None:
            raise DefinitionError(f"action {self.action!r} has no frame; a rule in the frame needs one")
        expected = len(domain.properties) + len(domain.action(self.action).parameters)
        if self.features.origins and len(self.features.origins) != expected:
            raise DefinitionError(f"origins: {expected} numbers are needed, got {len(self.features.origins)}")
        return self

    @property
    def framed(self) -> bool:
        """Whether the rule works in the action's frame."""
        return self.features.framed

    @property
    def score(self) -> int:
        """C(T, s) where the rule applies: |Gamma| + |Delta| + 1."""
        return len(self.gamma) + len(self.delta) + 1

    def show(self, roles: tuple[str, ...]) -> str:
        """`push(target): above(target) -> b1, above(b1) -> b2`."""
        text = f"{self.action}({', '.join(roles)}): {self.gamma.show(roles)}"
        return text if self.delta == self.gamma else f"{text}  changes: {self.delta.show(roles)}"

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON values, as a model file holds it."""
        lists = {
            name: [[p.reference, [*p.arguments]] for p in shell]
            for name, shell in (("gamma", self.gamma), ("delta", self.delta))
        }
        chosen: dict[str, list[Any]] = {
            name: list(getattr(self.features, name)) for name in ("inputs", "dropped", "extra")
        }
        if self.features.origins:
            chosen["origins"] = list(self.features.origins)
        return {"action": self.action, **lists, "targets": [*self.targets], "framed": self.features.framed, **chosen}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any], domain: Domain) -> RuleSpec:
        """The spec that `to_json` wrote, if it fits the domain."""
        roles = len(domain.action(entry["action"]).objects)
        gamma, delta = (
            Shell(roles, tuple(Pointer(name, tuple(slots)) for name, slots in entry[key])) for key in ("gamma", "delta")
        )
        inputs, dropped, extra = (tuple(entry[name]) for name in ("inputs", "dropped", "extra"))
        origins = tuple(float(one) for one in entry.get("origins", ()))
        features = FeatureSpec(inputs, entry["framed"], dropped, extra, origins)
        return cls(entry["action"], gamma, delta, features, tuple(entry["targets"])).checked(domain)


def target_names(changes: Any) -> tuple[str, ...]:
    """`absolute` or `change` for each entry of a Boolean array."""
    return tuple(TARGETS[int(change)] for change in changes)
