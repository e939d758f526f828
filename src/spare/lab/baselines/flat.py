"""One network over all objects in a row: the paper's baseline (section 5.2), and PETS as an ensemble of it.

    x = (alpha, properties of o_1, ..., o_N),   y = changeable properties of o_1, ..., o_N after the action

The action's objects come first; the rest in one of three orders (appendix B). The number of objects is fixed.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import numpy as np

from spare.data.experience import Experience
from spare.data.scene import round_up
from spare.errors import DataError, DefinitionError, FitError, one_of
from spare.lab.baselines.gaussian import GaussianModel, Part, RowGaussians
from spare.lab.baselines.graph_data import encoded
from spare.language.domain import Domain
from spare.language.references import Shell
from spare.learning.bindings import Bindings
from spare.learning.dataset import DesignMatrix, ObservedRows, observe_rows
from spare.learning.engine import Capacity, Nets, Recipe, initial_nets, train_nets
from spare.learning.families import NetworkFamily
from spare.learning.fit import prepare
from spare.learning.folds import split_weights
from spare.learning.presets import Training
from spare.learning.problems import padded_problem, take_scale
from spare.learning.threads import in_parallel
from spare.model.predictors import Predictor
from spare.programs import PROGRAMS

ORDERS = ("none", "xtheny", "stack")


LONG = Training(phases=("mean", "variance") * 6 + ("mean",), set_targets="mean")
"""300 epochs in twelve phases of 25, by turns for mean and variance, and a last one for the mean, as our rules have."""


@dataclasses.dataclass(frozen=True)
class FlatSettings:
    """How a flat network is built and trained.

    `order`      none: as the data list them (which generators draw at random); xtheny: sorted by the changeable
                 properties, the first one first; stack: those found by following `chain` from the action's first
                 object again and again, then the rest as xtheny
    `inputs`     dynamic: only properties that can change (the paper); all: static ones too
    `targets`    absolute: new values (the paper); change: differences
    `framed`     use the action's frame, where it has one
    `bootstrap`  each member of an ensemble sees its own resampling of the data (PETS)
    """

    training: Training = LONG
    order: str = "xtheny"
    chain: str = "above"
    inputs: Literal["dynamic", "all"] = "dynamic"
    targets: Literal["absolute", "change"] = "absolute"
    bootstrap: bool = False
    framed: bool = False
    validation: float = 0.15

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise DefinitionError(one_of("order", self.order, ORDERS))

    def changes(self, domain: Domain) -> np.ndarray:
        """Which properties are predicted as changes, (Q,): all, or only those with a period."""
        return domain.targets(self.targets == "change")


PAPER = FlatSettings()
"""The paper's baseline."""

PETS = FlatSettings(
    Training(hidden=(150, 150), activation="silu", phases=("joint",), steps=3000, learning_rate=1e-3, members=5),
    inputs="all",
    targets="change",
    bootstrap=True,
)
"""An ensemble of five, trained with early stopping on resampled data."""


def ordering(data: Experience, action: str, settings: FlatSettings) -> np.ndarray:
    """(n, N) object rows of every transition, the action's objects first, the rest in the chosen order."""
    counts = data.counts
    if len(np.unique(counts)) > 1:
        odd = int(np.flatnonzero(counts != counts[0])[0])
        raise DataError(
            f"a flat network takes a fixed number of objects: transition 0 has {counts[0]}, transition {odd} has "
            f"{counts[odd]}; use a graph network or SPARE, or split the data"
        )
    roles = len(data.domain.action(action).objects)
    rank = np.full(len(data.values), len(data.values), np.int64)
    if settings.order == "stack":
        _rank_along(data, settings.chain, action, rank)
    first = data.offsets[:-1, None] + data.objects[:, :roles]
    for role in range(roles - 1, -1, -1):
        rank[first[:, role]] = role - roles
    keys: list[np.ndarray] = []
    if settings.order != "none":
        keys = [data.values[:, column] for column in reversed(data.domain.dynamic)]
    owner = data.owner
    return np.lexsort((*keys, rank, owner)).reshape(len(data), -1)


def _rank_along(data: Experience, chain: str, action: str, rank: np.ndarray) -> None:
    """Rank k for what the reference finds when it is followed k + 1 times from the first of the action's objects."""
    if data.domain.reference(chain).arity != 1:
        raise DefinitionError(f"order 'stack': reference {chain!r} must take one argument to be followed")
    bindings, at = Bindings(data, action), 0
    for k in range(int(data.counts.max())):
        at = (chain, (at,))
        found = bindings.mask(at) & (rank > k)
        if not found.any():
            return
        rank[found] = k


class Flat(GaussianModel):
    """The trained network (or ensemble) of one action, for states of `count` objects."""

    def __init__(self, domain: Domain, action: str, settings: FlatSettings, predictor: Predictor) -> None:
        super().__init__(domain, settings.framed and domain.action(action).frame is not None)
        self.action, self.settings, self.predictor = action, settings, predictor
        self.count = predictor.y_mean.shape[0]

    def answer(self, part: Part) -> RowGaussians:
        """One pass over all transitions; answers go back to the rows that the inputs came from."""
        if part.action != self.action:
            raise DataError(f"this network was trained on action {self.action!r}, not on {part.action!r}")
        if len(part.data.values) != self.count * len(part.data):
            raise DataError(
                f"this flat network takes states of {self.count} objects; transition {part.transitions[0]} "
                f"has {part.data.counts[0]}"
            )
        order = ordering(part.data, part.action, self.settings)
        x = _inputs(part.data, part.seen, order, self.settings)
        size = round_up(len(x))
        padded = np.zeros((size, x.shape[1]), np.float32)
        padded[: len(x)] = x
        found = PROGRAMS.call("flat", _ask, (self.predictor, padded))
        mean, variance = (np.asarray(one, np.float64)[: len(x)] for one in found)
        shape = (mean.shape[1], len(part.data.values), mean.shape[3])
        change, spread = np.empty(shape), np.empty(shape)
        flat = order.reshape(-1)
        change[:, flat] = np.moveaxis(mean, 0, 1).reshape(shape)
        spread[:, flat] = np.moveaxis(variance, 0, 1).reshape(shape)
        change -= np.where(self.settings.changes(self.domain), 0.0, part.seen.values[:, list(self.domain.dynamic)])
        return RowGaussians(change, spread)


def _ask(predictor: Predictor, x: Any) -> Any:
    found = jax.vmap(predictor)(x)
    return found.location, found.variance


def _inputs(data: Experience, seen: ObservedRows, order: np.ndarray, settings: FlatSettings) -> np.ndarray:
    """x (n, D): the action's parameters, then the properties of each object in order."""
    domain = data.domain
    names = domain.dynamic_names if settings.inputs == "dynamic" else domain.property_names
    values = encoded(domain, names, seen.values)[order]
    return np.concatenate([seen.parameters, values.reshape(len(order), -1)], axis=1)


def fit_flat(
    domain: Domain,
    experience: Experience,
    *,
    seed: int,
    settings: FlatSettings = PAPER,
    threads: int | None = None,
) -> Flat:
    """Train the flat network on the transitions of one action, all with the same number of objects."""
    data, _ = prepare(domain, experience)
    actions = sorted({int(index) for index in data.action})
    if len(actions) != 1:
        raise FitError(f"a flat network learns one action at a time; these data have {len(actions)}")
    action = data.domain.actions[actions[0]].name
    order, seen = ordering(data, action, settings), observe_rows(data, action, settings.framed)
    matrix = _matrix(data, seen, order, settings)
    weights = split_weights(data.weights, settings.validation, seed)
    scaling = take_scale(matrix, weights[0], data.domain)
    capacity = Capacity(round_up(len(data)), matrix.x.shape[1], *matrix.y.shape[1:])

    def member(k: int) -> Nets:
        rng = np.random.default_rng([seed, 31, k])
        used = _resampled(weights[0], rng) if settings.bootstrap else weights[0]
        problem = padded_problem(matrix, (used, weights[1]), scaling, capacity, data.domain.resolutions, False)
        sizes = (matrix.x.shape[1], matrix.y.shape[1] * matrix.y.shape[2])
        nets = initial_nets(settings.training, capacity, sizes, rng)
        recipe = Recipe(settings.training, data.domain.leaves)
        return train_nets(recipe, nets, problem, int(rng.integers(2**31)))

    calls = [lambda k=k: member(k) for k in range(settings.training.members)]
    return Flat(data.domain, action, settings, NetworkFamily().predictor(list(in_parallel(calls, threads)), scaling))


def _resampled(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weights times how often each sample is drawn, with replacement, from those that have a weight."""
    used = np.flatnonzero(weights > 0)
    times = np.bincount(rng.integers(len(used), size=len(used)), minlength=len(used))
    result = np.zeros_like(weights)
    result[used] = weights[used] * times
    return result


def _matrix(data: Experience, seen: ObservedRows, order: np.ndarray, settings: FlatSettings) -> DesignMatrix:
    """The rows to train on, in the form that rules are trained from: every object is a slot of its own."""
    before = seen.values[:, list(data.domain.dynamic)]
    after = (seen.after - np.where(settings.changes(data.domain), before, 0.0))[order]
    n, count = order.shape
    roles = len(data.domain.actions[int(data.action[0])].objects)
    held, always = np.ones((n, count), np.int64), np.ones(n, bool)
    x = _inputs(data, seen, order, settings)
    return DesignMatrix(
        Shell(roles), Shell(roles), x, after, np.zeros_like(after), held, always, np.zeros((0, 0), bool)
    )
