"""How many outcomes a head has, and whether they are each object's or the whole rule's.

Simple first, each step by the paired test on held-out transitions: one Gaussian; two outcomes with one pinned to
"follows its process"; three with one pinned; two free ones; three free ones. Then, where several objects have outcomes,
one outcome for the whole rule: heads are trained on, each told by the others of its transition which outcome it is, and
a gate that sees the transition as a whole learns the weights.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from spare.language.references import Shell
from spare.learning.engine import Descent, descend
from spare.learning.general.inputs import InputSearch
from spare.learning.general.judge import Judge, JudgedHead, Prepared, rows_to_train
from spare.learning.general.training import (
    CLOSED,
    FREE,
    OUTCOMES,
    HeadWeights,
    Outlook,
    look,
    minibatches,
    offsets_of,
    reordered,
)
from spare.learning.presets import Schedule
from spare.learning.statistics import sparse_improvement
from spare.learning.threads import in_parallel
from spare.model.heads import HeadSpec
from spare.model.predictors import Network
from spare.programs import PROGRAMS

STEPS = ((2, True), (3, True), (2, False), (3, False))
SWEEPS = 2
"""How often every head is trained on, told by the others which outcome it is."""
STRONGEST = 60.0
"""Nats of evidence from others that count at most."""


def choose_outcomes(search: InputSearch, head: JudgedHead) -> JudgedHead:
    """The head with the outcomes that the paired test asks for."""
    best = search.fit(dataclasses.replace(head.spec, outcomes=1, pinned=False))
    for outcomes, pinned in STEPS:
        if not _next(best.spec, outcomes, pinned):
            continue
        trial = search.fit(dataclasses.replace(head.spec, outcomes=outcomes, pinned=pinned))
        mean, p_value = sparse_improvement(search.gain(best, trial), search.judge.folds.judged)
        if mean > 0 and p_value < search.alpha:
            best = trial
    return best


def _next(spec: HeadSpec, outcomes: int, pinned: bool) -> bool:
    """Whether a head of this kind is tried after the one found so far: three after two, free ones if none is pinned."""
    if outcomes == 3:
        return spec.outcomes == 2 and spec.pinned == pinned
    return pinned or spec.outcomes == 1


def rule_outcomes(search: InputSearch, heads: list[JudgedHead]) -> list[JudgedHead]:
    """The heads with outcomes of the whole rule, where the paired test asks for it."""
    mixed = [k for k, head in enumerate(heads) if head.spec.outcomes > 1]
    rows = search.judge.rows
    counts = sum((np.bincount(rows.owner[heads[k].rows], minlength=len(rows.data)) for k in mixed), np.zeros(1))
    if not mixed or np.max(counts) < 2:
        return heads
    most = max(heads[k].spec.outcomes for k in mixed)
    pinned = all(heads[k].spec.pinned for k in mixed)
    specs = [dataclasses.replace(heads[k].spec, outcomes=most, pinned=pinned, scope="rule") for k in mixed]
    names = gate_inputs(search.judge, search.shell, specs)
    together = Together(search.judge, search.shell, search.masks, specs, names)
    shared, joint = together.fit()
    apart = sum((rows.per_transition(heads[k].log_density, heads[k].rows) for k in mixed), np.zeros(len(rows.data)))
    mean, p_value = sparse_improvement(joint - apart, search.judge.folds.judged)
    if not (mean > 0 and p_value < search.alpha):
        return heads
    new = dict(zip(mixed, shared, strict=True))
    return [new.get(k, head) for k, head in enumerate(heads)]


def gate_inputs(judge: Judge, shell: Shell, specs: Sequence[HeadSpec]) -> tuple[str, ...]:
    """What the gate of a rule sees: the inputs of its heads that belong to the transition as a whole."""
    entries = judge.rows.layout(shell).entries
    return tuple(dict.fromkeys(name for spec in specs for name in spec.inputs if entries[name].common))


class GateFit(NamedTuple):
    """Gates of every fold, normalisation of their inputs, and log weights (F, n, K) of every transition."""

    nets: tuple[Network, ...]
    mean: np.ndarray
    scale: np.ndarray
    log_weights: np.ndarray


class Together:
    """Trains heads whose outcomes are the whole rule's."""

    def __init__(
        self, judge: Judge, shell: Shell, masks: dict[int, np.ndarray], specs: list[HeadSpec], names: tuple[str, ...]
    ) -> None:
        self.judge, self.shell, self.masks, self.specs, self.names = judge, shell, masks, specs, names
        self.open = offsets_of(specs[0])
        self.gates: GateFit | None = None

    def fit(self) -> tuple[list[JudgedHead], np.ndarray]:
        """(the heads, log p of all their rows by transition, held out)."""
        judge, rows = self.judge, self.judge.rows
        alone = [dataclasses.replace(spec, scope="object") for spec in self.specs]
        start = judge.fit(self.shell, self.masks, alone)
        prepared = [judge.prepared(self.shell, self.masks[spec.slot], spec) for spec in alone]
        layout = rows.layout(self.shell)
        x = layout.common(self.names, rows.observed.before, rows.slots(self.shell))
        mean, scale = x.mean(axis=0), x.std(axis=0)
        scale = np.where(scale > 1e-9, scale, 1.0)
        normal = ((x - mean) / scale).astype(np.float32)
        folds = range(len(judge.folds.held))
        calls = [
            functools.partial(self._fold, fold, [h.members[fold] for h in start], prepared, normal) for fold in folds
        ]
        found = list(in_parallel(calls, judge.threads))
        heads = []
        for k, spec in enumerate(self.specs):
            made = judge.judged(prepared[k], [(one.members[k], one.looks[k]) for one in found])
            heads.append(dataclasses.replace(made, spec=spec))
        weights = np.stack([one.log_weights for one in found])
        self.gates = GateFit(tuple(one.gate for one in found), mean, scale, weights)
        return heads, self._joint(heads, weights)

    def _joint(self, heads: list[JudgedHead], weights: np.ndarray) -> np.ndarray:
        """log p of the rows of all heads by transition, with the gate of a fold that did not see it."""
        rows, held = self.judge.rows, self.judge.folds.held
        total = np.zeros((len(rows.data), OUTCOMES))
        for head in heads:
            total += per_outcome(rows, np.where(head.seen[:, None], head.log_outcomes, 0.0), head.rows)
        which = np.argmax(held, axis=0)
        gate = weights[which, np.arange(len(rows.data))]
        return np.where(held.any(axis=0), logsumexp(gate + total, axis=1), 0.0)

    def _fold(self, fold: int, members: list[HeadWeights], prepared: list[Prepared], x: np.ndarray) -> FoldFit:
        judge = self.judge
        held = judge.folds.held[fold]
        problems, everys = [], []
        for head in prepared:
            out = held[judge.rows.owner[head.rows]]
            problem, every = judge.problem(head, ~out, out)
            problems.append(problem)
            everys.append(every)

        def evidence(k: int, weights: HeadWeights) -> np.ndarray:
            said = look(weights, everys[k], problems[k].units)
            rows = prepared[k].rows
            return per_outcome(judge.rows, said.log_outcomes[0, : len(rows)].clip(-1e4), rows)

        known = [evidence(k, one) for k, one in enumerate(members)]
        if self.specs[0].free > 1:
            members, known = self._aligned(members, known, evidence, ~held)
        gate_steps = Schedule(hidden=(32, 32, 32), steps=400, check_every=25)
        seed = [judge.seed, fold]
        gate, weights = train_gate(x, limited(np.sum(known, axis=0)) + self.open, held, gate_steps, seed)
        short = dataclasses.replace(
            judge.schedule, steps=max(200, judge.schedule.steps // 2), rate=judge.schedule.rate / 2
        )
        for _ in range(SWEEPS):
            for k in range(len(members)):
                others = limited(weights + np.sum(known, axis=0) - known[k])
                told = self._told(prepared[k], problems[k], others, known[k], ~held)
                members[k] = judge.trainer.train(members[k], told, [judge.seed, fold, k], short)
                known[k] = evidence(k, members[k])
            gate, weights = train_gate(x, limited(np.sum(known, axis=0)) + self.open, held, gate_steps, seed)
        looks = [look(one, everys[k], problems[k].units) for k, one in enumerate(members)]
        return FoldFit(members, looks, gate, weights)

    def _aligned(self, members: list[HeadWeights], known: list[np.ndarray], evidence: Any, train: np.ndarray) -> Any:
        """Free outcomes of every head in the order in which they go best with those of the first."""
        total, free = known[0], self.specs[0].free
        orders = [(*one, *range(free, FREE)) for one in itertools.permutations(range(free))]
        for k in range(1, len(members)):
            tried = [members[k], *(reordered(members[k], one) for one in orders[1:])]
            turned = [(evidence(k, one), one) for one in tried]
            scores = [logsumexp(total + one + self.open, axis=1)[train].sum() for one, _ in turned]
            known[k], members[k] = turned[int(np.argmax(scores))]
            total = total + known[k]
        return members, known

    def _told(self, head: Prepared, problem: Any, others: np.ndarray, mine: np.ndarray, train: np.ndarray) -> Any:
        """The problem of one head with what all other objects of each transition say of its outcome.

        Other members of the same slot count as others, but for the row itself: their evidence is what the whole slot
        says without it.
        """
        owner = self.judge.rows.owner[head.rows]
        counts = np.maximum(np.bincount(owner, minlength=len(mine)), 1)[:, None]
        same = limited(mine * (counts - 1) / counts)
        offset = (limited(others + same) + self.open)[owner]
        held = ~train[owner]
        used = rows_to_train(head, ~held)
        checked = np.flatnonzero(held & (head.weight > 0))[: problem.check.weight.shape[0]]
        twice = 2 if head.image is not None else 1

        def laid(part: Any, chosen: np.ndarray) -> Any:
            new = np.array(part.offset)
            new[: len(chosen)] = offset[chosen]
            return part._replace(offset=new.astype(np.float32))

        rows = laid(problem.rows, np.tile(used, twice))
        return problem._replace(rows=rows, check=laid(problem.check, checked), gated=np.float32(0.0))


class FoldFit(NamedTuple):
    """Members of every head, what they say of all rows, the gate and its log weights (n, K)."""

    members: list[HeadWeights]
    looks: list[Outlook]
    gate: Network
    log_weights: np.ndarray


def per_outcome(rows: Any, numbers: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Sums over the rows of each transition, outcome by outcome, (n, K)."""
    return np.stack([rows.per_transition(column, chosen) for column in numbers.T], axis=1)


def limited(evidence: np.ndarray) -> np.ndarray:
    """Evidence relative to the best outcome, bounded: no transition is ever quite sure."""
    return np.maximum(evidence - evidence.max(axis=1, keepdims=True), -STRONGEST)


def _gate_loss(net: Network, x: Any, evidence: Any) -> Any:
    closed = jnp.where(evidence <= 0.5 * CLOSED, CLOSED, 0.0)
    return -jax.nn.logsumexp(jax.nn.log_softmax(jax.vmap(net)(x) + closed, axis=-1) + evidence, axis=-1)


def train_gate(
    x: np.ndarray, evidence: np.ndarray, held: np.ndarray, schedule: Schedule, seed: Any
) -> tuple[Network, np.ndarray]:
    """(network, log weights (n, K)): log w_k(x) that explains the evidence of transitions that are not held out."""
    rng = np.random.default_rng(seed)
    fans = (max(x.shape[1], 1), *schedule.hidden, OUTCOMES)
    weights: list[Any] = []
    for k in range(len(fans) - 1):
        limit = np.sqrt(6.0 / (fans[k] + fans[k + 1]))
        weights.append(rng.uniform(-limit, limit, (fans[k], fans[k + 1])).astype(np.float32))
    weights[0] = weights[0][: x.shape[1]]
    start = Network(tuple(weights), tuple(np.zeros(w, np.float32) for w in fans[1:]), "silu", True)  # type: ignore[arg-type]
    rows = np.flatnonzero(~held if not held.all() else held).astype(np.int32)
    every = np.zeros(len(held), np.int32)
    every[: len(rows)] = rows
    batches = minibatches(len(rows), schedule, rng)
    evidence = evidence.astype(np.float32)

    def run(start: Network, x: Any, evidence: Any, rows: Any, held: Any, batches: Any) -> Any:
        def objective(net: Network, index: Any) -> Any:
            real, chosen = (index >= 0) * 1.0, rows[jnp.maximum(index, 0)]
            return (real * _gate_loss(net, x[chosen], evidence[chosen])).sum() / jnp.maximum(real.sum(), 1.0)

        def validate(net: Network) -> Any:
            return (held * _gate_loss(net, x, evidence)).sum()

        net = descend(start, objective, validate, batches, Descent(2e-3, 50.0 / x.shape[0], schedule.check_every))
        closed = jnp.where(evidence <= 0.5 * CLOSED, CLOSED, 0.0)
        return net, jax.nn.log_softmax(jax.vmap(net)(x) + closed, axis=-1)

    arguments = (start, x, evidence, every, held.astype(np.float32), batches)
    found = PROGRAMS.get("gate", run, arguments, schedule)(*arguments)
    return jax.tree.map(np.asarray, found)
