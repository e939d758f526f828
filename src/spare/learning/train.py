"""LearnDist (section 4.1): weighted experience and lists of references in, predictor and default noise out.

1. `dataset` gives x, y for the rows a rule applies to; `problems` normalises and pads them.
2. A family of predictors trains every member of an ensemble.
3. The default noise comes from the objects that the rule does not predict.
4. The density of every transition under the trained rule is evaluated once, for losses and votes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from spare.content import ByContent
from spare.errors import FitError
from spare.language.references import Shell
from spare.language.traces import code_digest
from spare.learning.cache import Kept, TrainingCache
from spare.learning.copula import fit_copula
from spare.learning.dataset import Dataset, DesignMatrix
from spare.learning.engine import Capacity, Problem, Recipe
from spare.learning.familiar import learn_familiar
from spare.learning.families import Family, find_family
from spare.learning.likelihood import Judges, Outputs, log_values, row_components
from spare.learning.noise import default_variance, fit_noise
from spare.learning.presets import Preset, Training
from spare.learning.problems import Scaling, padded_problem, take_scale, with_reflection
from spare.learning.threads import in_parallel
from spare.learning.versions import arithmetic, versions
from spare.model.copula import OneFactorCopula
from spare.model.familiar import disagreement
from spare.model.noise import DefaultNoise
from spare.model.predictors import PREDICTORS, AbstractPredictor, predictor_name
from spare.model.rule import Rule


@dataclasses.dataclass(frozen=True, eq=False)
class Fitted(ByContent):
    """One trained rule and what it says about every transition it was shown.

    predicted, unpredicted (n, Q): log p(s' | s, a; T) in nats, summed over the objects that the rule predicts and over
    the others; NaN where it does not apply. Samples that some members were not trained on are judged by those alone.
    The copula is learned where it was asked for, and is not in these densities. `variance` (Q,) is the paper's v, with
    outliers or without: how far what the rule leaves out moves. `doubts` (n,) is how far the members disagree about
    each transition (see `model/familiar.py`), None if there is one member; `seen`, `held_out` (n,) are the samples it
    was learned from, and those among them that some members were not trained on.
    """

    matrix: DesignMatrix
    predictor: AbstractPredictor
    scaling: Scaling
    noise: DefaultNoise
    variance: np.ndarray
    predicted: np.ndarray
    unpredicted: np.ndarray
    copula: OneFactorCopula | None
    doubts: np.ndarray | None
    seen: np.ndarray
    held_out: np.ndarray

    @property
    def log_prob(self) -> np.ndarray:
        """log p(s' | s, a; T) of every transition (n,), NaN where the rule does not apply."""
        return self.predicted.sum(axis=1) + self.unpredicted.sum(axis=1)

    def rule(self, dataset: Dataset) -> Rule:
        """The trained rule."""
        spec = dataset.spec(self.matrix.gamma, self.matrix.delta)
        familiar = learn_familiar(dataset, self.matrix.gamma, self.seen, self.doubts, self.held_out)
        return Rule(dataset.experience.domain, spec, self.predictor, self.noise, self.copula, familiar)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was learned as named arrays, for the cache."""
        parts = {name: getattr(self, name) for name in ("variance", "predicted", "unpredicted")}
        parts |= {} if self.doubts is None else {"doubts": self.doubts}
        parts |= {f"noise.{name}": part for name, part in self.noise._asdict().items() if part is not None}
        parts |= {f"copula.{name}": part for name, part in (self.copula._asdict() if self.copula else {}).items()}
        parts |= {f"scaling.{name}": part for name, part in dataclasses.asdict(self.scaling).items()}
        return parts | {f"predictor.{name}": part for name, part in self.predictor.arrays().items()}


Pair = tuple[Shell, Shell]


@dataclasses.dataclass(frozen=True)
class Plan:
    """How candidates are trained: preset, weights (n,) of training and validation, padded shape, seed, threads.

    `folds` (F, n) says which samples each member of an ensemble leaves out of its training and is validated on; member
    m has fold m mod F. Without it every member leaves out the validation samples, which `training` must then not
    contain; with it, both weights may name the same samples. `others` (n,) is the loss of each sample under the other
    rules of a model: what a sample costs that a candidate of a search does not apply to. `effort` is the share of the
    schedule that is trained.

    `warm` holds earlier results to start from instead of fresh networks, with the short schedule; `cache` remembers
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
    cache: TrainingCache | None = None
    folds: np.ndarray | None = None
    others: np.ndarray | None = None
    effort: float = 1.0

    def room(self, matrix: DesignMatrix) -> Capacity:
        """The padded shape; wider where a rule sees more than the references of its lists offer."""
        wide = -(-matrix.x.shape[1] // 8) * 8  # in steps: every shape is compiled anew
        return self.capacity if matrix.x.shape[1] <= self.capacity.inputs else self.capacity._replace(inputs=wide)

    def held_out(self, member: int) -> np.ndarray:
        """Which samples a member is validated on and not trained on, (n,)."""
        if self.folds is None:
            return self.validation > 0
        return self.folds[member % len(self.folds)]


def fit_predictors(dataset: Dataset, pairs: Sequence[Pair], plan: Plan) -> list[Fitted]:
    """LearnDist for many candidate rules at once, one per pair (Gamma, Delta)."""
    return fit_jobs(dataset, [(pair, plan) for pair in pairs], plan.threads)


def fit_jobs(dataset: Dataset, jobs: Sequence[tuple[Pair, Plan]], threads: int | None = None) -> list[Fitted]:
    """The same for candidates that each have a plan (weights) of their own; long ones begin first, so none is late.

    One candidate alone has its members trained side by side.
    """
    matrices = [dataset.matrix(*pair) for pair, _ in jobs]
    rows = [int((one.applies & (plan.training > 0)).sum()) for one, (_, plan) in zip(matrices, jobs, strict=True)]
    order = sorted(range(len(jobs)), key=lambda i: -rows[i])
    inside = threads if len(jobs) == 1 else 1
    calls = [functools.partial(_remembered, dataset, matrices[i], jobs[i][1], inside) for i in order]
    results = dict(zip(order, in_parallel(calls, threads), strict=True))
    return [results[i] for i in range(len(jobs))]


def training_call(dataset: Dataset, pair: Pair, plan: Plan) -> Callable[[], Fitted]:
    """One training, to be run on any thread; bindings are computed before it is handed over."""
    return functools.partial(_remembered, dataset, dataset.matrix(*pair), plan)


def _remembered(dataset: Dataset, matrix: DesignMatrix, plan: Plan, threads: int | None = 1) -> Fitted:
    """Train, unless an earlier run already finished exactly this training."""
    if plan.cache is None:
        return _fit_one(dataset, matrix, plan, threads)
    key = training_key(dataset, matrix, plan)
    found = plan.cache.get(key)
    if found is not None:
        return _revived(found, matrix, plan)
    fitted = _fit_one(dataset, matrix, plan, threads)
    description = {**fitted.predictor.describe(), "kind": predictor_name(fitted.predictor)}
    plan.cache.put(key, Kept(fitted.arrays(), description))
    return fitted


def training_key(dataset: Dataset, matrix: DesignMatrix, plan: Plan) -> str:
    """Everything that the result of a training depends on, as 32 hex digits.

    Settings, versions and code; the domain with its resolutions and what its formulas, frames and kinds compute; all
    numbers of the experience and of the matrix, weights, folds, and where it starts from.
    """
    domain, family = dataset.experience.domain, find_family(plan.preset.training.family)
    spec = dataset.spec(matrix.gamma, matrix.delta)
    settings = (plan.preset, plan.capacity, plan.seed, plan.bystanders, plan.effort, spec, dataset.mirror)
    made_by = (versions(), arithmetic(), code_digest(type(family)))
    digest = hashlib.sha256(repr((settings, made_by, domain.digest, dataset.experience.fingerprint)).encode())
    warm = plan.warm.get((matrix.gamma, matrix.delta))
    numbers = {name: getattr(matrix, name) for name in ("x", "y", "spread", "size", "applies", "outputs")}
    numbers |= {"training": plan.training, "validation": plan.validation}
    numbers |= {} if plan.folds is None else {"folds": plan.folds}
    numbers |= {f"warm.{name}": part for name, part in warm.arrays().items()} if warm else {}
    for name, part in numbers.items():
        array = np.ascontiguousarray(part)
        digest.update(f"{name} {array.dtype} {array.shape}\x00".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:32]


def _revived(found: Kept, matrix: DesignMatrix, plan: Plan) -> Fitted:
    """A trained rule from what the cache has kept of it."""
    arrays, description = found.arrays, found.description

    def part(prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

    copula = part("copula.")
    return Fitted(
        matrix,
        PREDICTORS[description["kind"]].from_arrays(description, part("predictor.").__getitem__),
        Scaling(**part("scaling.")),
        DefaultNoise(**part("noise.")),
        arrays["variance"],
        arrays["predicted"],
        arrays["unpredicted"],
        OneFactorCopula(**copula) if copula else None,
        arrays.get("doubts"),
        *_samples(matrix, plan),
    )


def _samples(matrix: DesignMatrix, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """(learned from, held out from some member), (n,) bool each."""
    seen = matrix.applies & ((plan.training > 0) | (plan.validation > 0))
    return seen, seen & (plan.validation > 0 if plan.folds is None else plan.folds.any(axis=0))


def _doubts(outputs: Outputs, scaling: Scaling, dataset: Dataset, matrix: DesignMatrix) -> np.ndarray | None:
    """How far the members disagree about each transition, (n,)."""
    if len(outputs.mean) < 2:
        return None
    n, slots, _ = matrix.y.shape
    mean, variance = (np.asarray(part[:, :n, :slots], np.float64) for part in outputs)
    location, spread = scaling.y_mean + scaling.y_scale * mean, np.square(scaling.y_scale) * variance
    return disagreement(location, spread, dataset.experience.domain.leaves)


def _digest(pair: Pair) -> int:
    """A whole number that depends on the lists alone."""
    text = "|".join(";".join(f"{p.reference}{p.arguments}" for p in shell) for shell in pair)
    return zlib.crc32(text.encode())


def _fit_one(dataset: Dataset, matrix: DesignMatrix, plan: Plan, threads: int | None) -> Fitted:
    usable = matrix.applies & (plan.training > 0)
    weights = np.where(usable, plan.training, 0.0)
    name = matrix.gamma.show(dataset.roles)
    if not usable.any():
        raise FitError(f"rule [{name}]: it applies to none of the training samples, so there is nothing to learn from")
    warm = plan.warm.get((matrix.gamma, matrix.delta))
    training = plan.preset.training.shortened() if warm else plan.preset.training
    data, domain = dataset.experience, dataset.experience.domain
    shown, both = with_reflection(dataset, matrix, (weights, plan.validation))
    scaling = warm.scaling if warm else take_scale(shown, both[0], domain)
    numbers = members_of(matrix, plan)
    if not numbers:
        raise FitError(f"rule [{name}]: every member holds out all samples that it applies to; hold out fewer")
    trainer = _MemberTrainer(find_family(training.family), training, warm)
    calls = [functools.partial(trainer.train, dataset, matrix, plan, scaling, member) for member in numbers]
    members, means, variances = zip(*in_parallel(calls, threads), strict=True)
    outputs = Outputs(np.stack(means), np.stack(variances))
    if not all(np.isfinite(part).all() for part in outputs):
        raise FitError(f"rule [{name}]: training gave numbers that are not finite; check the data's scale")
    still = ~matrix.outputs.any(axis=0) & np.repeat(usable, data.counts)
    bystanders = plan.bystanders * weights.sum()
    noise = fit_noise(data, still, weights, bystanders=bystanders, outliers=training.outliers)
    change, parts = row_components(dataset, matrix, outputs, Judges(scaling, judges(plan, numbers)))
    predicted, unpredicted = log_values(dataset, matrix, change, parts, noise)
    copula = fit_copula(change, parts, dataset, matrix, plan.validation) if training.copula else None
    predictor = trainer.family.predictor(members, scaling)
    plain = noise.outlier_share is None
    variance = noise.variance if plain else default_variance(data, still, weights, bystanders)
    doubts = _doubts(outputs, scaling, dataset, matrix)
    samples = _samples(matrix, plan)
    return Fitted(matrix, predictor, scaling, noise, variance, predicted, unpredicted, copula, doubts, *samples)


@dataclasses.dataclass(frozen=True)
class _MemberTrainer:
    """Trains the members of one ensemble, from fresh weights or from those of an earlier result."""

    family: Family
    training: Training
    warm: Fitted | None

    def train(
        self, dataset: Dataset, matrix: DesignMatrix, plan: Plan, scaling: Scaling, number: int
    ) -> tuple[object, np.ndarray, np.ndarray]:
        """(the trained member, mean and variance that it gives every row)."""
        rng = np.random.default_rng([plan.seed, _digest((matrix.gamma, matrix.delta)), number])
        sizes, room = (matrix.x.shape[1], matrix.y.shape[1] * matrix.y.shape[2]), plan.room(matrix)
        member = self.family.init(self.training, room, sizes, rng)
        if self.warm:
            old = self.family.members(self.warm.predictor, room)
            member = old[number % len(old)]
        problem = member_problem(dataset, matrix, plan, scaling, number)
        recipe = Recipe(self.training, dataset.experience.domain.leaves)
        member = self.family.train(recipe, member, problem, int(rng.integers(2**31)), plan.effort)
        return member, *self.family.outputs(member, problem)


def members_of(matrix: DesignMatrix, plan: Plan) -> list[int]:
    """The members of an ensemble: none whose fold holds out all that the rule applies to."""
    used = matrix.applies & (plan.training > 0)
    return [member for member in range(plan.preset.training.members) if (used & ~plan.held_out(member)).any()]


def member_problem(dataset: Dataset, matrix: DesignMatrix, plan: Plan, scaling: Scaling, member: int) -> Problem:
    """What a member is trained and validated on."""
    held, exact = plan.held_out(member), plan.preset.training.set_targets == "exact"
    weights = np.where(matrix.applies & ~held, plan.training, 0.0)
    shown, both = with_reflection(dataset, matrix, (weights, np.where(held, plan.validation, 0.0)))
    return padded_problem(shown, both, scaling, plan.room(matrix), dataset.experience.domain.resolutions, exact)


def judges(plan: Plan, members: Sequence[int]) -> np.ndarray:
    """Which members judge each sample, (M, n): those that were not trained on it, or all where every one was."""
    judge = np.stack([plan.held_out(member) for member in members])
    return judge | ~judge.any(axis=0)
