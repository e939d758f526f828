"""`spare show`: a model's rules, readable."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from spare.commands.common import in_words, load_model

if TYPE_CHECKING:
    from spare.model.headrule import HeadRule
    from spare.model.heads import Head
    from spare.model.model import Model
    from spare.model.noise import DefaultNoise
    from spare.model.rule import Rule


@dataclasses.dataclass(frozen=True)
class Show:
    """Print a model's rules as text, as a Mermaid diagram, or as an SVG picture."""

    model: Annotated[pathlib.Path, tyro.conf.Positional]
    """Model file."""
    format: Literal["text", "mermaid", "svg"] = "text"
    """What to print."""
    domain: str | None = None
    """A domain of your own: package.module:name."""
    json: bool = False
    """Print the rules as JSON and nothing else."""

    def run(self) -> int:
        """Print it."""
        model = load_model(self.model, self.domain)
        if self.json:
            print(json.dumps(summary(model), indent=1))
            return 0
        if self.format == "text":
            print(in_words(model))
            return 0
        from spare.model import diagram

        print(diagram.mermaid(model) if self.format == "mermaid" else diagram.svg(model))
        return 0


def _copula(rule: Rule) -> dict[str, Any] | None:
    """By property, the loadings of the slots and the share of independent draws; None for independent values."""
    if rule.copula is None:
        return None
    columns = zip(rule.domain.dynamic_names, rule.copula.loading.T.tolist(), rule.copula.apart.tolist(), strict=True)
    return {name: {"loading": slots, "independent": share} for name, slots, share in columns if any(slots)}


def _with_heads(rule: HeadRule) -> dict[str, Any]:
    """A rule with heads as JSON values."""
    from spare.model.words import outcome_names, rest_deviations

    roles = rule.domain.action(rule.action).objects
    names = rule.gamma.slot_names(roles)

    def head(one: Head) -> dict[str, Any]:
        kinds = [*outcome_names(rule, one.spec)[: one.spec.pinned], *["a Gaussian of the inputs"] * one.spec.free]
        return {
            "predicts": names[one.spec.slot],
            "inputs": list(one.spec.inputs),
            "outcomes": kinds,
            "scope": one.spec.scope,
            "loading": dict(zip(rule.domain.dynamic_names, one.loading.tolist(), strict=True)),
        }

    process = "stay" if rule.process.spec.pinned else "net" if rule.process.spec.inputs else "drift"
    return {
        "rule": rule.show(),
        "action": rule.action,
        "gamma": rule.gamma.show(roles),
        "heads": [head(one) for one in rule.heads],
        "process": {"kind": process, "inputs": list(rule.process.spec.inputs)},
        "independent": float(rule.apart),
        "default_deviation": rest_deviations(rule),
    }


def summary(model: Model) -> dict[str, Any]:
    """A model as JSON values: notes of its fit; rules with lists, inputs, targets, and the deviation of the rest."""

    def deviation(noise: DefaultNoise) -> dict[str, float]:
        spread = noise.resolved(model.domain.resolutions).variance.tolist()
        return {name: v**0.5 for name, v in zip(model.domain.dynamic_names, spread, strict=True)}

    from spare.model.headrule import HeadRule

    rules: list[dict[str, Any]] = []
    for rule in model.rules:
        roles = model.domain.action(rule.action).objects
        if isinstance(rule, HeadRule):
            rules.append(_with_heads(rule))
            continue
        rules.append(
            {
                "rule": rule.show(),
                "action": rule.action,
                "gamma": rule.gamma.show(roles),
                "delta": rule.delta.show(roles),
                "inputs": list(rule.input_names),
                "dropped_inputs": list(rule.spec.features.dropped),
                "extra_inputs": list(rule.spec.features.extra),
                "copula": _copula(rule),
                "targets": dict(zip(model.domain.dynamic_names, rule.spec.targets, strict=True)),
                "default_deviation": deviation(rule.noise),
            }
        )
    return {
        "notes": list(model.notes),
        "domain": model.domain.name,
        "rules": rules,
        "default_deviation": deviation(model.noise),
        "provenance": {name: value for name, value in model.provenance.items() if name != "notes"},
    }
