"""From what a search found to a rule: the ensemble, its calibration, the gate and the common factor."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from spare.language.references import Pointer, Shell
from spare.learning.general.judge import Judge, JudgedHead
from spare.learning.general.outcomes import Together, gate_inputs
from spare.learning.general.ranges import Doubts, learn_ranges
from spare.learning.general.rows import ActionRows
from spare.learning.general.training import CLOSED, cut
from spare.model.copula import common_part, factor_log_density
from spare.model.headrule import Gate, HeadRule, HeadRuleSpec
from spare.model.heads import Head, HeadSpec
from spare.model.predictors import Network
from spare.model.rows import OF_SLOTS, RowLayout

LARGEST_LOADING = 0.98


@dataclasses.dataclass(frozen=True)
class Draft:
    """What a search found for one action: the list, and heads whose slots and inputs refer to it."""

    shell: Shell
    heads: tuple[HeadSpec, ...]


def compact(draft: Draft, layout: RowLayout) -> Draft:
    """The same with the pointers alone that some head predicts or looks at, and what those start from."""
    used = {head.slot for head in draft.heads}
    for head in draft.heads:
        used |= {e.slot for e in layout.chosen(head.inputs) if e.about in OF_SLOTS}
    shell, roles = draft.shell, draft.shell.roles
    for slot in range(shell.slots - 1, roles - 1, -1):
        if slot in used:
            used |= {*shell.pointers[slot - roles].arguments}
    kept = [slot for slot in range(roles, shell.slots) if slot in used]
    number = {slot: slot for slot in range(roles)} | {slot: roles + k for k, slot in enumerate(kept)}
    pointers = []
    for slot in kept:
        pointer = shell.pointers[slot - roles]
        pointers.append(Pointer(pointer.reference, tuple(number[one] for one in pointer.arguments)))
    smaller = Shell(roles, tuple(pointers))
    other = RowLayout(layout.domain, layout.action, smaller, layout.framed)
    by_entry = {entry._replace(name=""): name for name, entry in other.entries.items()}

    def renamed(name: str) -> str:
        entry = layout.entries[name]
        slot = number[entry.slot] if entry.about in OF_SLOTS else entry.slot
        return by_entry[entry._replace(name="", slot=slot)]

    heads = tuple(
        dataclasses.replace(h, slot=number[h.slot], inputs=tuple(renamed(name) for name in h.inputs))
        for h in draft.heads
    )
    return Draft(smaller, heads)


def head_masks(rows: ActionRows, draft: Draft) -> dict[int, np.ndarray]:
    """Which rows each head predicts, by slot: the first one that holds a row has it."""
    every, taken, found = rows.bindings.masks(draft.shell), np.zeros(len(rows.owner), bool), {}
    for head in draft.heads:
        found[head.slot] = every[head.slot] & ~taken
        taken |= every[head.slot]
    return found


def built(judged: JudgedHead, loading: np.ndarray | None = None) -> Head:
    """The head of a model from its trained members."""
    spec, scaling = judged.spec, judged.scaling
    quantities = len(scaling.y_scale)
    made = cut(spec, list(judged.members), len(spec.inputs), quantities)
    floats = (
        scaling.x_mean,
        scaling.x_scale,
        scaling.y_mean,
        scaling.y_scale,
        np.full(quantities, judged.wider),
        np.zeros(quantities) if loading is None else loading,
    )
    parts = (jnp.asarray(part, jnp.float32) for part in (made.stay, made.tail, *floats))
    return Head(spec, made.net, made.linear, *parts)


def make_rule(
    judge: Judge, draft: Draft, process: Head, doubts: np.ndarray | None = None
) -> tuple[HeadRule, list[JudgedHead]]:
    """The trained rule, and its heads with what held-out rows say.

    `doubts` (R,): how far the members of the process disagree about each row, if it has a network.
    """
    rows, masks = judge.rows, head_masks(judge.rows, draft)
    shared = [spec for spec in draft.heads if spec.scope == "rule"]
    together = Together(judge, draft.shell, masks, shared, gate_inputs(judge, draft.shell, shared)) if shared else None
    gate, found = None, {}
    if together is not None:
        found = {head.spec.slot: head for head in together.fit()[0]}
        gate = made_gate(together)
    alone = [spec for spec in draft.heads if spec.scope != "rule"]
    found |= {head.spec.slot: head for head in (judge.fit(draft.shell, masks, alone) if alone else [])}
    heads = [found[spec.slot] for spec in draft.heads]
    loadings, apart = common_factor(rows, heads)
    spec = HeadRuleSpec(rows.action, draft.shell, (), rows.framed, rows.origins)
    made = tuple(built(head, loading) for head, loading in zip(heads, loadings, strict=True))
    rule = HeadRule(rows.data.domain, spec, made, process, gate, apart)
    weights = None if together is None or together.gates is None else together.gates.log_weights
    known = learn_ranges(judge, rule, heads, [masks[one.slot] for one in draft.heads], Doubts(doubts, weights))
    return dataclasses.replace(rule, familiar=known), heads


# -- outcomes of the whole rule -------------------------------------------------------------------------------------


def made_gate(together: Together) -> Gate:
    """The gate of a rule from those of its members, without the outcomes that it does not have."""
    fit = together.gates
    assert fit is not None
    kept = np.flatnonzero(together.open > 0.5 * CLOSED)
    nets = [
        Network((*net.weights[:-1], net.weights[-1][:, kept]), (*net.biases[:-1], net.biases[-1][kept]), "silu", True)
        for net in fit.nets
    ]
    stacked = jax.tree.map(lambda *parts: jnp.stack([jnp.asarray(part) for part in parts]), *nets)
    return Gate(together.names, stacked, jnp.asarray(fit.mean, jnp.float32), jnp.asarray(fit.scale, jnp.float32))


# -- what objects have in common ------------------------------------------------------------------------------------


def common_factor(rows: ActionRows, heads: list[JudgedHead]) -> tuple[list[np.ndarray], float]:
    """(loadings of each head (Q,), share of transitions without a common factor), from held-out rows.

    Heads whose outcomes are each object's have none. Kept if the gain is worth its parameters (BIC).
    """
    quantities = rows.y.shape[1]
    nothing = [np.zeros(quantities) for _ in heads]
    able = [k for k, head in enumerate(heads) if head.spec.outcomes == 1 or head.spec.scope == "rule"]
    if not able:
        return nothing, 1.0
    parts = _scored(rows, [heads[k] for k in able])
    counts = np.bincount(parts.owner, minlength=len(rows.data))
    if (counts > 1).sum() < 10:
        return nothing, 1.0
    back = parts.owner

    def total(part: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(back, column, minlength=len(rows.data)) for column in part.T], axis=1)

    near, apart = (np.bincount(back, part, minlength=len(rows.data)) for part in (parts.near, parts.apart))
    judged = counts > 0

    def loss(raw: np.ndarray) -> float:
        loading = LARGEST_LOADING * np.tanh(raw[:-1].reshape(len(able), quantities))
        share = 0.001 + 0.998 / (1 + np.exp(-raw[-1]))
        load = loading[parts.head] * parts.common
        factor = factor_log_density(parts.score, load, total, lambda one: one[back]).sum(axis=1)
        both = np.logaddexp(np.log1p(-share) + near + factor, np.log(share) + apart)
        return -float(both[judged].sum())

    start = np.concatenate([np.full(len(able) * quantities, 0.7), [-1.0]])
    found = minimize(loss, start, method="L-BFGS-B", bounds=[(-3, 3)] * len(start), options={"maxiter": 40})
    gain = -found.fun - float(apart[judged].sum())
    if not np.isfinite(found.fun) or gain < 0.5 * len(start) * np.log(judged.sum()):
        return nothing, 1.0
    loading = LARGEST_LOADING * np.tanh(found.x[:-1].reshape(len(able), quantities))
    for position, k in enumerate(able):
        nothing[k] = loading[position]
    return nothing, float(0.001 + 0.998 / (1 + np.exp(-found.x[-1])))


@dataclasses.dataclass(frozen=True)
class _Scored:
    """Held-out rows of heads with a common factor: head, owner, scores and common parts (R, Q), densities (R,)."""

    head: np.ndarray
    owner: np.ndarray
    score: np.ndarray
    common: np.ndarray
    near: np.ndarray
    apart: np.ndarray


def _scored(rows: ActionRows, heads: list[JudgedHead]) -> _Scored:
    parts = []
    resolutions = rows.data.domain.resolutions
    for k, head in enumerate(heads):
        seen = np.flatnonzero(head.seen)
        kind = 0 if head.spec.pinned and head.spec.outcomes == 1 else 1
        if head.spec.scope == "rule":  # of the first free outcome, where it is the likely one
            joint = head.log_outcomes
            seen = seen[(joint[:, 1] - logsumexp(joint, axis=1))[seen] > np.log(0.5)]
        mean, variance = head.mean[seen, kind], head.variance[seen, kind]
        y = rows.changes(relative=head.spec.relative)[head.rows[seen]]
        score = (y - mean) / np.sqrt(variance)
        near = -0.5 * (np.square(score) + np.log(2 * np.pi * variance)).sum(axis=1)
        apart = head.log_outcomes[seen, kind]
        parts.append(
            (np.full(len(seen), k), rows.owner[head.rows[seen]], score, common_part(variance, resolutions), near, apart)
        )
    return _Scored(*(np.concatenate(part) for part in zip(*parts, strict=True)))
