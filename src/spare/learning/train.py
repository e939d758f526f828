"""LearnDist (section 4.1): weighted experience and lists of references in, predictor and default variances out.

1. `extract` gives x, y for the rows a rule applies to; here they are normalised and padded.
2. `engine` trains mean and variance networks of all candidates.
3. Default variances come in closed form from the objects that the rule does not predict.
4. The density of every transition under the trained rule is evaluated once, for losses and votes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from spare.errors import FitError
from spare.language.references import Shell
from spare.learning.cache import Memo
from spare.learning.copula import fit_together
from spare.learning.dataset import Extractor, Table
from spare.learning.engine import Capacity, Nets, Problem, grown, initial_nets, real_outputs, train
from spare.learning.likelihood import log_values, row_components
from spare.learning.noise import Rest, fit_rest
from spare.learning.presets import Preset, Training
from spare.learning.problems import Scaling, padded_problem, take_scale, with_reflection
from spare.learning.threads import in_parallel
from spare.model.predictors import Network, Predictor
from spare.model.rule import Rule


@dataclasses.dataclass(frozen=True)
class Fitted:
    """One trained rule and what it says about every transition it was shown.

    log_values (n, Q): log p(s' | s, a; T) in nats, summed over the objects that the rule predicts and over the `rest`;
    NaN where it does not apply. Samples that some members were not trained on are judged by those alone. `together`
    says how what the rule predicts moves with each other, where that was asked for; `log_values` does not contain it.
    """

    table: Table
    nets: tuple[Nets, ...]
    scaling: Scaling
    rest: Rest
    log_values: tuple[np.ndarray, np.ndarray]
    together: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def log_prob(self) -> np.ndarray:
        """log p(s' | s, a; T) of every transition (n,), NaN where the rule does not apply."""
        return self.log_values[0].sum(axis=1) + self.log_values[1].sum(axis=1)

    @property
    def default_variance(self) -> np.ndarray:
        """v (Q,) of what the rule does not predict."""
        return self.rest.variance

    def rule(self, extractor: Extractor) -> Rule:
        """The trained rule, with networks cut down to their real size."""
        domain = extractor.experience.domain
        targets = tuple("change" if change else "absolute" for change in extractor.changes)
        shells = (self.table.gamma, self.table.delta)
        return Rule(
            domain,
            extractor.action,
            shells,
            self.predictor(),
            self.default_variance,
            targets=targets,
            inputs=extractor.inputs,
            framed=extractor.framed,
            ignores=extractor.ignores.get(self.table.gamma, ()),
            adds=extractor.adds.get(self.table.gamma, ()),
            surprises=self.rest.surprises,
            together=self.together,
        )

    def predictor(self) -> Predictor:
        """phi: both networks of every member, with normalisation inside."""
        # `device_put` moves what NumPy has prepared; `jnp.asarray` would compile a program for every shape.
        inputs, shape = self.table.x.shape[1], self.table.y.shape[1:]

        def stack(networks: Sequence[Network | None]) -> Any:
            cut = [net and _cut(net, inputs, shape[0] * shape[1]) for net in networks]
            return jax.tree.map(lambda *leaves: jax.device_put(np.stack(leaves)), *cut)

        s = self.scaling
        parts = (jax.device_put(part.astype(np.float32)) for part in (s.x_mean, s.x_scale, s.y_mean, s.y_scale))
        return Predictor(stack([n.mean for n in self.nets]), stack([n.variance for n in self.nets]), *parts)


def _cut(net: Network, inputs: int, outputs: int) -> Network:
    """The network without its padding."""
    weights, biases = list(net.weights), list(net.biases)
    weights[0] = weights[0][:inputs]
    columns = real_outputs(len(biases[-1]), outputs, 2 if net.skips else 1)
    weights[-1], biases[-1] = weights[-1][:, columns], biases[-1][columns]
    return Network(tuple(weights), tuple(biases), net.activation, net.skips)


Pair = tuple[Shell, Shell]


@dataclasses.dataclass(frozen=True)
class Plan:
    """How candidates are trained: preset, weights (n,) of training and validation, padded shape, seed, threads.

    `folds` (F, n) says which samples each member of an ensemble leaves out of its training and is validated on; member
    m has fold m mod F. Without it every member leaves out the validation samples, which `training` must then not
    contain; with it, both weights may name the same samples. `others` (n,) is the loss of each sample under the other
    rules of a model: what a sample costs that a candidate of a search does not apply to. `effort` is the share of the
    schedule that is trained.

    `parent` is a trained rule: candidates whose lists extend its own by one pointer begin with its networks.

    `warm` holds earlier results to start from instead of fresh networks, with the short schedule; `memo` remembers
    finished trainings between runs; `bystanders` is a prior on default variances, imagined objects per sample.

    A weight of 0 leaves a transition out. The same seed gives the same bits, whatever the number of threads and
    whoever else is trained: a candidate's own seed depends on the plan's and on its lists alone.
    """

    preset: Preset
    training: np.ndarray
    validation: np.ndarray
    capacity: Capacity
    seed: int
    threads: int | None = None
    warm: Mapping[Pair, Fitted] = dataclasses.field(default_factory=dict)
    bystanders: float = 0.0
    memo: Memo | None = None
    folds: np.ndarray | None = None
    others: np.ndarray | None = None
    effort: float = 1.0
    parent: Fitted | None = None

    def room(self, table: Table) -> Capacity:
        """The padded shape; wider where a rule sees more than the references of its lists offer."""
        wide = -(-table.x.shape[1] // 8) * 8  # in steps: every shape is compiled anew
        return self.capacity if table.x.shape[1] <= self.capacity.inputs else self.capacity._replace(inputs=wide)

    def held_out(self, member: int) -> np.ndarray:
        """Which samples a member is validated on and not trained on, (n,)."""
        if self.folds is None:
            return self.validation > 0
        return self.folds[member % len(self.folds)]


def fit_predictors(
    extractor: Extractor,
    pairs: Sequence[Pair],
    plan: Plan,
) -> list[Fitted]:
    """LearnDist for many candidate rules at once, one per pair (Gamma, Delta)."""
    return fit_jobs(extractor, [(pair, plan) for pair in pairs], plan.threads)


def fit_jobs(
    extractor: Extractor,
    jobs: Sequence[tuple[Pair, Plan]],
    threads: int | None = None,
) -> list[Fitted]:
    """The same for candidates that each have a plan (weights) of their own; long ones begin first, so none is late.

    One candidate alone has its members trained side by side.
    """
    tables = [extractor.table(*pair) for pair, _ in jobs]
    rows = [int((table.applies & (plan.training > 0)).sum()) for table, (_, plan) in zip(tables, jobs, strict=True)]
    order = sorted(range(len(jobs)), key=lambda i: -rows[i])
    inside = threads if len(jobs) == 1 else 1
    calls = [functools.partial(_remembered, extractor, tables[i], jobs[i][1], inside) for i in order]
    results = dict(zip(order, in_parallel(calls, threads), strict=True))
    return [results[i] for i in range(len(jobs))]


def training_call(extractor: Extractor, pair: Pair, plan: Plan) -> Callable[[], Fitted]:
    """One training, to be run on any thread; who the pair points at is found here and now."""
    return functools.partial(_remembered, extractor, extractor.table(*pair), plan)


def _remembered(extractor: Extractor, table: Table, plan: Plan, threads: int | None = 1) -> Fitted:
    """Train, unless an earlier run already finished exactly this training."""
    if plan.memo is None:
        return _fit_one(extractor, table, plan, threads)
    key = _key(extractor, table, plan)
    found = plan.memo.get(key)
    if found is not None:
        return _revive(found, table, plan.preset.training)
    fitted = _fit_one(extractor, table, plan, threads)
    plan.memo.put(key, _preserve(fitted))
    return fitted


def _key(extractor: Extractor, table: Table, plan: Plan) -> str:
    """Everything that the result of a training depends on, as 32 hex digits."""
    digest = hashlib.sha256(
        repr((plan.preset, plan.capacity, plan.seed, plan.bystanders, plan.effort, table.gamma, table.delta)).encode()
    )
    digest.update(extractor.experience.fingerprint.encode())
    digest.update(repr((extractor.changes.tolist(), extractor.view(table.gamma))).encode())
    warm = plan.warm.get((table.gamma, table.delta))
    folds = () if plan.folds is None else (plan.folds,)
    earlier = [part for one in (warm, plan.parent) if one for part in _preserve(one).values()]
    for part in (plan.training, plan.validation, *folds, *earlier):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:32]


_LOG_VALUES, _SURPRISES = ("predicted", "unpredicted"), ("surprise_share", "surprise_variance")
_TOGETHER = ("loading", "apart")


def _preserve(fitted: Fitted) -> dict[str, np.ndarray]:
    """A trained rule as named arrays."""
    arrays = {"default_variance": fitted.default_variance, "plain_variance": fitted.rest.plain}
    arrays |= dict(zip(_LOG_VALUES, fitted.log_values, strict=True))
    arrays |= dict(zip(_SURPRISES, fitted.rest.surprises or (), strict=False))
    arrays |= dict(zip(_TOGETHER, fitted.together or (), strict=False))
    arrays |= {f"scaling.{k}": part for k, part in dataclasses.asdict(fitted.scaling).items()}
    for member, nets in enumerate(fitted.nets):
        for label, net in (("mean", nets.mean), ("variance", nets.variance)):
            for layer, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True) if net else ()):
                arrays[f"{member}.{label}.{layer}.weight"] = np.asarray(weight)
                arrays[f"{member}.{label}.{layer}.bias"] = np.asarray(bias)
    return arrays


def _revive(arrays: dict[str, np.ndarray], table: Table, training: Training) -> Fitted:
    """A trained rule from named arrays."""
    layers = range(len(training.hidden) + 1)

    def net(member: int, label: str) -> Network:
        weights: Any = tuple(arrays[f"{member}.{label}.{layer}.weight"] for layer in layers)
        biases: Any = tuple(arrays[f"{member}.{label}.{layer}.bias"] for layer in layers)
        return Network(weights, biases, training.activation, training.shared)

    members = sum(name.endswith(".mean.0.weight") for name in arrays)
    second = [None if training.shared else net(m, "variance") for m in range(members)]
    nets = tuple(Nets(net(m, "mean"), second[m], None, None) for m in range(members))
    scaling = Scaling(*(arrays[f"scaling.{field.name}"] for field in dataclasses.fields(Scaling)))
    surprises = (arrays[_SURPRISES[0]], arrays[_SURPRISES[1]]) if _SURPRISES[0] in arrays else None
    rest = Rest(arrays["default_variance"], arrays["plain_variance"], surprises)
    together = (arrays[_TOGETHER[0]], arrays[_TOGETHER[1]]) if _TOGETHER[0] in arrays else None
    return Fitted(table, nets, scaling, rest, (arrays[_LOG_VALUES[0]], arrays[_LOG_VALUES[1]]), together)


def _digest(pair: Pair) -> int:
    """A whole number that depends on the lists alone."""
    text = "|".join(";".join(f"{p.reference}{p.arguments}" for p in shell) for shell in pair)
    return zlib.crc32(text.encode())


def _fit_one(extractor: Extractor, table: Table, plan: Plan, threads: int | None) -> Fitted:
    usable = table.applies & (plan.training > 0)
    weights = np.where(usable, plan.training, 0.0)
    training = plan.preset.training
    name = table.gamma.show(extractor.experience.domain.action(extractor.action).objects)
    if not usable.any():
        raise FitError(f"rule [{name}]: it applies to none of the training samples, so there is nothing to learn from")
    warm = plan.warm.get((table.gamma, table.delta))
    training = training.shortened() if warm else training
    resolutions = extractor.experience.domain.resolutions
    shown, both = with_reflection(extractor, table, (weights, plan.validation))
    scaling = warm.scaling if warm else take_scale(shown, both[0], resolutions)
    sizes = (table.x.shape[1], table.y.shape[1] * table.y.shape[2])
    parent = plan.parent if plan.parent and not warm and grows_from(table, plan.parent.table) else None
    if parent:
        scaling = parent.scaling.extended(scaling)

    def trained(member: int) -> tuple[Nets, np.ndarray, np.ndarray]:
        rng = np.random.default_rng([plan.seed, _digest((table.gamma, table.delta)), member])
        nets = initial_nets(training, plan.room(table), sizes, rng)
        if warm:
            old = warm.nets[member % len(warm.nets)]
            nets = nets._replace(mean=old.mean, variance=old.variance)
        elif parent:
            old = parent.nets[member % len(parent.nets)]
            known = (parent.table.x.shape[1], parent.table.y.shape[1] * parent.table.y.shape[2])
            nets = grown(nets, old, known)
        problem = member_problem(extractor, table, plan, scaling, member)
        return train(training, nets, problem, int(rng.integers(2**31)), plan.effort)

    numbers = members_of(table, plan)
    if not numbers:
        raise FitError(f"rule [{name}]: every member holds out all samples that it applies to; hold out fewer")
    done = in_parallel([functools.partial(trained, member) for member in numbers], threads)
    members, means, variances = zip(*done, strict=True)
    normal = (np.stack(means), np.stack(variances))
    if not all(np.isfinite(part).all() for part in normal):
        raise FitError(f"rule [{name}]: training gave numbers that are not finite; check the data's scale")
    still = ~table.outputs.any(axis=0) & np.repeat(usable, extractor.experience.counts)
    rest = fit_rest(
        extractor.experience,
        still,
        weights,
        bystanders=plan.bystanders * weights.sum(),
        surprises=training.surprises,
    )
    shared = (scaling, judges(plan, numbers))
    values = log_values(extractor, table, normal, shared, rest)
    together = None
    if training.together:
        together = fit_together(row_components(extractor, table, normal, shared), extractor, table, plan.validation)
    return Fitted(table, tuple(members), scaling, rest, values, together)


def grows_from(table: Table, parent: Table) -> bool:
    """Whether each list is the parent's, or the parent's and one pointer more: then so are x and y."""
    pairs = ((table.gamma, parent.gamma), (table.delta, parent.delta))
    return all(one == old or (len(one) == len(old) + 1 and tuple(one)[:-1] == tuple(old)) for one, old in pairs)


def members_of(table: Table, plan: Plan) -> list[int]:
    """The members of an ensemble: none whose fold holds out all that the rule applies to."""
    used = table.applies & (plan.training > 0)
    return [member for member in range(plan.preset.training.members) if (used & ~plan.held_out(member)).any()]


def member_problem(extractor: Extractor, table: Table, plan: Plan, scaling: Scaling, member: int) -> Problem:
    """What a member is trained and validated on."""
    held, exact = plan.held_out(member), plan.preset.training.set_targets == "exact"
    weights = np.where(table.applies & ~held, plan.training, 0.0)
    shown, both = with_reflection(extractor, table, (weights, np.where(held, plan.validation, 0.0)))
    return padded_problem(shown, both, scaling, plan.room(table), extractor.experience.domain.resolutions, exact)


def judges(plan: Plan, members: Sequence[int]) -> np.ndarray:
    """Which members judge each sample, (M, n): those that were not trained on it, or all where every one was."""
    judge = np.stack([plan.held_out(member) for member in members])
    return judge | ~judge.any(axis=0)
