"""Rules with heads in words.

push(target): above*(target) -> b1
    target: x, y, z from d, heading, target.width
    each of b1: x, y, z from d, heading, target.width, depth, own x, own y, own z
    errors are correlated: x 0.9, y 0.9, z 0.98
    everything else stays: x ± 0.001, y ± 0.001, z ± 0.001
"""

from __future__ import annotations

import textwrap

import jax.numpy as jnp
import numpy as np

from spare.language.references import EVERYONE
from spare.model.headrule import HeadRule
from spare.model.heads import Head, HeadSpec, Said

WIDE = 100
WAYS = ("one", "another", "a third", "a fourth")
FEW = 0.005
"""Wide components with a smaller share are not worth a word."""


def describe_head_rule(rule: HeadRule) -> list[str]:
    """What each head predicts, from what, with which outcomes; then what everything else does."""
    names = rule.gamma.slot_names(rule.domain.action(rule.action).objects)
    lines = []
    for head in rule.heads:
        text = (
            f"{_whom(rule, head, names)}: {', '.join(rule.domain.dynamic_names)} from {_inputs(head)}"
            f"{_outcomes(rule, head)}"
        )
        lines += textwrap.wrap(text, WIDE, initial_indent="    ", subsequent_indent="        ")
    if shared := _loadings(rule):
        lines.append(f"    errors are correlated: {', '.join(shared)}")
    return [*lines, f"    {describe_process(rule)}"]


def _whom(rule: HeadRule, head: Head, names: tuple[str, ...]) -> str:
    slot, roles = head.spec.slot, rule.gamma.roles
    if slot < roles:
        return names[slot]
    first = rule.gamma.pointers[slot - roles].reference == EVERYONE
    before = any(one.spec.slot >= roles for one in rule.heads if one is not head)
    return ("everyone else" if before else "everyone") if first else f"each of {names[slot]}"


def _inputs(head: Head) -> str:
    """`d, heading, target.width, own x`: harmonics of the heading are one thing."""
    found: list[str] = []
    for name in head.spec.inputs:
        plain = "heading" if name.endswith("heading)") else name.replace("own.", "own ")
        plain = f"depth in {plain[6:-1]}" if plain.startswith("depth(") else plain
        if plain.startswith("previous("):
            plain = f"expected change of {plain.split(').')[1]} of the one before"
        found += [plain] if plain not in found else []
    return ", ".join(found) or "nothing (a constant)"


def outcome_names(rule: HeadRule, spec: HeadSpec) -> tuple[str, ...]:
    """What the outcomes of a head are called: `nothing changes`, `it changes`, or `it changes one way`.

    A pinned outcome of a head that speaks of changes beyond a process that moves objects is to go on by itself.
    """
    still = "it goes on by itself" if spec.relative and rule.process.spec.free else "nothing changes"
    ways = ["it changes"] if spec.free == 1 else [f"it changes {WAYS[k]} way" for k in range(spec.free)]
    return (*[still] * spec.pinned, *ways)


def _outcomes(rule: HeadRule, head: Head) -> str:
    spec = head.spec
    if spec.outcomes == 1:
        return ""
    kinds = [
        *outcome_names(rule, spec)[: spec.pinned],
        "it changes" if spec.free == 1 else f"{spec.free} ways to change",
    ]
    whose = "one outcome for all of them" if spec.scope == "rule" else "an outcome for each"
    return f"; {spec.outcomes} outcomes ({' or '.join(kinds)}), {whose}"


def _loadings(rule: HeadRule) -> list[str]:
    """`x 0.93 to 0.95`: the loadings of heads, by property; independent properties are left out."""
    if float(rule.apart) >= 1 or not rule.heads:
        return []
    found = []
    table = np.abs(np.stack([np.asarray(head.loading) for head in rule.heads]))
    for name, column in zip(rule.domain.dynamic_names, table.T, strict=True):
        used = column[column > 0.05]
        if len(used):
            low, high = f"{used.min():.2f}", f"{used.max():.2f}"
            found.append(f"{name} {low}" if low == high else f"{name} {low} to {high}")
    return found


def typical(head: Head, resolutions: np.ndarray) -> Said:
    """What a head says of a row with average inputs."""
    return head(jnp.asarray(head.x_mean)[None], jnp.asarray(resolutions, jnp.float32))


def rest_deviations(rule: HeadRule) -> dict[str, float]:
    """The deviation of every property of what follows the process, resolution included."""
    said = typical(rule.process, rule.domain.resolutions)
    spread = np.sqrt(np.asarray(said.variance).mean(axis=(0, 1, 2)))
    return {name: float(value) for name, value in zip(rule.domain.dynamic_names, spread, strict=True)}


def describe_process(rule: HeadRule) -> str:
    """`everything else stays: x ± 0.001`, `each object: x drifts +0.02 ± 0.004`, or what its motion depends on."""
    spread, spec = rest_deviations(rule), rule.process.spec
    whom = "everything else" if rule.heads else "everything"
    if spec.pinned:
        return f"{whom} stays: " + ", ".join(f"{name} ± {value:.2g}" for name, value in spread.items())
    said = typical(rule.process, rule.domain.resolutions)
    if not spec.inputs:
        mean = np.asarray(said.mean).mean(axis=(0, 1, 2))
        cells = [f"{name} drifts {m:+.2g} ± {v:.2g}" for (name, v), m in zip(spread.items(), mean, strict=True)]
        return f"{whom}: " + ", ".join(cells)
    cells = ", ".join(f"{name} ± {value:.2g}" for name, value in spread.items())
    return f"{whom} moves by itself, from {_inputs(rule.process)}: {cells}"
