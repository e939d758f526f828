"""Training one member of a head (`model/heads.py`), in one compiled program whatever its outcomes are.

Every head is trained in the same form: a pinned outcome and three free ones, of which `offset` leaves open those that
the head has. So a whole search compiles one program for training and one for looking at what was trained.

    loss of a row = -log sum over k of exp(log w_k(x) + offset_k) p_k(y | x)

`offset` also says what is known of the outcome from elsewhere: where outcomes belong to the whole rule, log w_k and the
evidence of all other objects of the transition. Gradients are those of EM: responsibilities of outcomes and of the wide
component are held fixed, which lets every value be weighed by variance^beta (beta-NLL).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from spare.learning.engine import Batches, Descent, descend
from spare.learning.presets import Schedule
from spare.model.heads import HeadSpec, HeadWeights, Said, Units, gauss, say
from spare.model.predictors import Network
from spare.programs import PROGRAMS

FREE = 3
"""Outcomes of the form in which heads are trained that a network predicts."""
OUTCOMES = 1 + FREE
"""All of them: the first is pinned."""
CLOSED = -1e9
"""The offset of an outcome that a head does not have."""
GATE_PRIOR = 4.0
"""Log weights are linear in x, but for this prior: a row says little about them, and a network learns it by heart."""
SLOPES = 1.0
"""A prior on the linear part of log weights and log variances: a few events separate any number of inputs."""
IMAGINED = 2.0
"""Outliers that every head is taken to have seen, as far away as changes are large."""
FORM = HeadSpec(0, (), OUTCOMES, pinned=True, scope="object")
MOST_STEPS = 2500
WIDER = (1.0, 1.1, 1.25, 1.45, 1.75, 2.2)
"""By how much deviations of held-out predictions are widened, of which the best is taken."""


class HeadRows(NamedTuple):
    """Rows of a head, padded and normalised: x (R, D), y (R, Q), weight (R,), offset (R, K).

    held (R, Q): which properties each row has, or None if all have all.
    """

    x: Any
    y: Any
    weight: Any
    offset: Any
    held: Any = None

    def heard(self, said: Said) -> Said:
        """What is said of these rows, but for what they do not have."""
        return said if self.held is None else said.hiding(self.held, self.y)


class HeadProblem(NamedTuple):
    """What a member is trained and validated on, in units of y; with `gated` 0 outcomes come from elsewhere alone.

    count: rows to train on; free: those of them that tell of outcomes that are not pinned.
    wide (Q,): how far outliers are expected to go before any was seen.
    """

    rows: HeadRows
    check: HeadRows
    units: Units
    count: Any
    free: Any
    wide: Any
    gated: Any = np.float32(1.0)
    rate: Any = np.float32(0.0)


def offsets_of(spec: HeadSpec) -> np.ndarray:
    """(K,): 0 for the outcomes of the training form that the head has."""
    found = np.full(OUTCOMES, CLOSED, np.float32)
    found[0 if spec.pinned else 1 : 1 + spec.free] = 0.0
    return found


def _terms(weights: HeadWeights, rows: HeadRows, units: Units, gated: Any = 1.0) -> tuple[Said, Any]:
    """What is said of rows, and the log weight of every outcome."""
    said = rows.heard(say(FORM, weights, rows.x, units))
    # log_gate is normalised over all of them: leave out the closed ones and normalise again.
    gate = said.log_gate + jnp.where(rows.offset <= 0.5 * CLOSED, CLOSED, 0.0)
    gate = gate - jax.nn.logsumexp(gate, axis=-1, keepdims=True)
    return said, gated * gate


def surrogate(weights: HeadWeights, rows: HeadRows, problem: HeadProblem, beta: float) -> Any:
    """Loss of each row whose gradient is that of the exact loss, but for the weights variance^beta."""
    said, gate = _terms(weights, rows, problem.units, problem.gated)
    y = rows.y[:, None, :]
    narrow, wide = gauss(y, said.mean, said.variance), gauss(y, said.mean, said.wide)
    log_near, log_far = jnp.log1p(-jnp.exp(said.log_tail)), said.log_tail
    near, far = gate + log_near + narrow.sum(-1), gate + log_far + wide.sum(-1)
    both = jnp.stack([near, far], axis=-1) + rows.offset[..., None]
    share = jax.lax.stop_gradient(jax.nn.softmax(both.reshape(both.shape[0], -1), axis=-1).reshape(both.shape))
    weigh = jax.lax.stop_gradient(jnp.clip(said.variance, 1e-8, 1.0) ** beta)
    near = gate + log_near + (weigh * narrow).sum(-1)
    far = gate + log_far + (weigh * wide).sum(-1)
    assert weights.net is not None
    bent = jnp.square(jax.vmap(weights.net)(rows.x)[:, :OUTCOMES]).sum(axis=-1)
    # One imagined row that is no outlier, and a few that are: training data may hold none, and others will.
    added = weights.tail[1 + problem.wide.shape[-1] :]
    far_off = (added + 0.5 * jnp.square(problem.wide * jnp.exp(-added))).sum()
    spreads = OUTCOMES + FREE * problem.wide.shape[-1]
    sloped = jnp.square(weights.linear[:, :OUTCOMES]).sum() + jnp.square(weights.linear[:, spreads:]).sum()
    prior = (GATE_PRIOR * bent + SLOPES * sloped - log_far - log_near + IMAGINED * far_off) / problem.count
    return prior - (share * jnp.stack([near, far], axis=-1)).sum(axis=(1, 2))


def exact(weights: HeadWeights, rows: HeadRows, problem: HeadProblem) -> Any:
    """-log p of each row."""
    said, gate = _terms(weights, rows, problem.units, problem.gated)
    return -jax.nn.logsumexp(gate + said.log_outcomes(rows.y) + rows.offset, axis=-1)


def _trained(schedule: Schedule, weights: HeadWeights, problem: HeadProblem, batches: Batches) -> HeadWeights:
    rows = problem.rows

    def objective(weights: HeadWeights, index: Any) -> Any:
        real = (index >= 0) * 1.0
        part = jax.tree.map(lambda one: one[jnp.maximum(index, 0)], rows)
        real = real * part.weight
        return (real * surrogate(weights, part, problem, schedule.beta)).sum() / jnp.maximum(real.sum(), 1e-9)

    def validate(weights: HeadWeights) -> Any:
        total = problem.check.weight.sum()
        loss = (problem.check.weight * exact(weights, problem.check, problem)).sum()
        return jnp.where(total > 0, loss / jnp.maximum(total, 1e-9), jnp.nan)

    # The means of free outcomes are learned from few rows, their weights from all: one network for both.
    less = schedule.decay / jnp.sqrt(1.0 * problem.free * problem.count)
    # What is linear in x is meant as it is: a prior towards 0 would bend it.
    decay = weights._replace(
        net=jax.tree.map(lambda _: less, weights.net),
        linear=0.0,
        stay=0.0,
        tail=0.0,
    )
    how = Descent(problem.rate, decay, schedule.check_every)
    return descend(weights, objective, validate, batches, how)


class Outlook(NamedTuple):
    """What a member says of all rows: log p_k (W, R, K) for each widening, log w_k (R, K), mean, variance (R, K, Q).

    parts (2, R, K): log densities of the narrow and the wide part of every outcome, as they are.
    """

    log_outcomes: Any
    gate: Any
    mean: Any
    variance: Any
    parts: Any


def _looked(weights: HeadWeights, rows: HeadRows, units: Units) -> Outlook:
    said, gate = _terms(weights, rows, units)

    def wider(factor: Any) -> Any:
        return rows.heard(say(FORM, weights, rows.x, units, factor)).log_outcomes(rows.y)

    parts = jnp.stack(said.log_parts(rows.y))
    return Outlook(jax.lax.map(wider, jnp.asarray(WIDER)), gate, said.mean, said.variance, parts)


def minibatches(count: int, schedule: Schedule, rng: np.random.Generator) -> Batches:
    """Epoch after epoch of all rows to train on in random order, as a table of `steps` minibatches.

    The table has room for MOST_STEPS, so that schedules of any length share a program.
    """
    per_epoch = -(-count // schedule.batch)
    epochs = -(-schedule.steps // per_epoch)
    order = np.full((epochs, per_epoch * schedule.batch), -1, np.int32)
    for epoch in order:
        epoch[:count] = rng.permutation(count)
    table = np.full((MOST_STEPS, schedule.batch), -1, np.int32)
    table[: schedule.steps] = order.reshape(-1, schedule.batch)[: schedule.steps]
    return Batches(table, np.int32(schedule.steps))


class Start(NamedTuple):
    """Where a member starts, normalised: free outcomes at centres (F, Q) + x slopes (F, D, Q).

    stay (Q,): variance of the pinned one; wide (Q,): added deviation of the wide component.
    """

    centres: np.ndarray
    slopes: np.ndarray
    stay: np.ndarray
    wide: np.ndarray


def initial(schedule: Schedule, width: int, start: Start, seed: Any) -> HeadWeights:
    """Fresh weights for inputs padded to `width`: means begin as a linear function, the network adds what is not."""
    rng = np.random.default_rng(seed)
    _, real, quantities = start.slopes.shape
    fans = (max(real, 1), *schedule.hidden, FORM.outputs(quantities))
    weights = []
    for k in range(len(fans) - 1):
        limit = np.sqrt(6.0 / (fans[k] + fans[k + 1]))
        weights.append(rng.uniform(-limit, limit, (fans[k], fans[k + 1])).astype(np.float32))
    first = np.zeros((width, fans[1]), np.float32)
    first[:real] = weights[0][:real]
    weights[0] = first
    weights[-1] *= 0.3
    biases = [np.zeros(size, np.float32) for size in fans[1:]]
    biases[-1][OUTCOMES : OUTCOMES + FREE * quantities] = start.centres.ravel()
    net = Network(tuple(weights), tuple(biases), "silu", True)  # type: ignore[arg-type]
    linear = np.zeros((width, fans[-1]), np.float32)
    linear[:real, OUTCOMES : OUTCOMES + FREE * quantities] = np.concatenate([*start.slopes], axis=1)
    tail = np.concatenate([[np.log(0.1)], np.full(quantities, 1.0), np.log(start.wide)]).astype(np.float32)
    return HeadWeights(net, linear, np.log(start.stay).astype(np.float32), tail)


def train_member(
    schedule: Schedule, weights: HeadWeights, problem: HeadProblem, rng: np.random.Generator
) -> HeadWeights:
    """The member, trained; the program is compiled once for each padded shape."""
    batches = minibatches(int(problem.count), schedule, rng)
    arguments = (weights, problem._replace(rate=np.float32(schedule.rate)), batches)
    fixed = dataclasses.replace(schedule, steps=1, rate=0.0)

    def train(*given: Any) -> HeadWeights:
        return _trained(fixed, *given)

    found = PROGRAMS.get("head", train, arguments, fixed)(*arguments)
    return jax.tree.map(np.asarray, found)


def look(weights: HeadWeights, rows: HeadRows, units: Units) -> Outlook:
    """What a trained member says of rows."""
    arguments = (weights, rows, units)
    return Outlook(*(np.asarray(part) for part in PROGRAMS.get("head look", _looked, arguments)(*arguments)))


def reordered(weights: HeadWeights, order: Sequence[int]) -> HeadWeights:
    """The same member with free outcome order[k] as its k-th."""
    net = weights.net
    assert net is not None
    quantities = weights.stay.shape[-1]
    columns = [0, *(1 + k for k in order)]
    for block in range(2):
        for k in order:
            start = OUTCOMES + (FREE * block + k) * quantities
            columns += range(start, start + quantities)
    last, bias = np.asarray(net.weights[-1])[:, columns], np.asarray(net.biases[-1])[columns]
    linear = np.asarray(weights.linear)[:, columns]
    changed = Network((*net.weights[:-1], last), (*net.biases[:-1], bias), net.activation, net.skips)  # type: ignore[arg-type]
    return weights._replace(net=changed, linear=linear)


def cut(spec: HeadSpec, weights: list[HeadWeights], inputs: int, quantities: int) -> HeadWeights:
    """The members of a head, without padding and without outcomes that it does not have."""
    stay, tail = (np.stack([np.asarray(getattr(one, name)) for one in weights]) for name in ("stay", "tail"))
    if not spec.free:
        return HeadWeights(None, None, stay, tail)
    kept = np.flatnonzero(offsets_of(spec) > 0.5 * CLOSED)
    columns = kept.tolist() if spec.outcomes > 1 and spec.scope == "object" else []
    for block in range(2):
        for k in kept[kept > 0] - 1:
            start = OUTCOMES + (FREE * block + k) * quantities
            columns += range(start, start + quantities)
    layers: list[Any] = []
    biases: list[Any] = []
    nets = [one.net for one in weights if one.net is not None]
    for k in range(len(nets[0].weights)):
        layers.append(np.stack([np.asarray(net.weights[k]) for net in nets]))
        biases.append(np.stack([np.asarray(net.biases[k]) for net in nets]))
    layers[0] = layers[0][:, :inputs]
    layers[-1], biases[-1] = layers[-1][:, :, columns], biases[-1][:, columns]
    linear = np.stack([np.asarray(one.linear) for one in weights])[:, :inputs][:, :, columns]
    net = Network(tuple(map(jnp.asarray, layers)), tuple(map(jnp.asarray, biases)), "silu", True)
    return HeadWeights(net, jnp.asarray(linear), stay, tail)
