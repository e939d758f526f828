"""Boosted trees, one row per object: what somebody with a table would try first.

    x = (properties of o, for each of the action's objects: is it o, its properties, o's offset and distance from it,
         the action's parameters, which action it is),    y = change of each changeable property of o

1. Means: one booster per property on squared error; how many trees is chosen on held-out transitions, in folds.
2. Variances: a second booster on g, the log of squared residuals of what the first had held out; the variance
   is exp(a + b g), with a and b that make the Gaussian likelihood of what the second held out in turn largest.
3. In the action's frame, and on mirrored data where the frame allows it, as all learners here.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor  # before any limit: one holds for what is loaded
from threadpoolctl import threadpool_limits

from spare.data.experience import Experience
from spare.errors import DefinitionError
from spare.lab.baselines.gaussian import GaussianModel, Part, RowGaussians
from spare.lab.baselines.graph_data import encoded
from spare.language.domain import Action, Domain
from spare.language.frames import harmonic_names
from spare.learning.dataset import ObservedRows, observe_rows
from spare.learning.fit import prepare

LOG_CHI = 1.2704
"""-E[log z²] of a standard Gaussian: the log of a squared residual is so much below that of its variance."""
FLOOR = 0.3
"""Residuals count as at least so many resolutions: what is smaller makes no difference to a density."""
SHIFTS, SLOPES = np.linspace(-2.0, 4.0, 41), (0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0)
"""What a, from the middle of g on, and b are chosen from."""


@dataclasses.dataclass(frozen=True)
class TreeSettings:
    """How boosters are grown; `most` trees at most, and `variance` trees for the variances."""

    most: int = 200
    variance: int = 60
    leaves: int = 15
    smallest: int = 10
    learning_rate: float = 0.08
    folds: int = 4
    framed: bool = True

    def __post_init__(self) -> None:
        if min(self.most, self.variance, self.smallest) < 1 or min(self.leaves, self.folds) < 2:
            raise DefinitionError("trees: numbers of trees must be at least 1, of leaves and folds at least 2")


class Boosters(NamedTuple):
    """Of one property: mean of its change; g, the log of squared residuals; (a, b): the variance is exp(a + b g)."""

    mean: Any
    spread: Any
    line: tuple[float, float]

    def variance(self, x: np.ndarray) -> np.ndarray:
        """exp(a + b g) of every row."""
        return np.exp(self.line[0] + self.line[1] * self.spread.predict(x))


class Trees(GaussianModel):
    """Two boosters for each property; any number of objects, any action of the domain."""

    def __init__(self, domain: Domain, settings: TreeSettings, properties: list[Boosters]) -> None:
        super().__init__(domain, settings.framed)
        self.settings, self.properties = settings, properties

    def answer(self, part: Part) -> RowGaussians:
        """What the boosters say of every object."""
        x = row_features(part.data, part.action, part.seen, self.framed)
        with _alone():
            change = np.stack([one.mean.predict(x) for one in self.properties], axis=1)
            variance = np.stack([one.variance(x) for one in self.properties], axis=1)
        return RowGaussians(change[None], variance[None])


def row_features(data: Experience, action: str, seen: ObservedRows, framed: bool) -> np.ndarray:
    """(total, D) for the transitions of one action; NaN, which trees take as unknown, for what other actions have."""
    domain, owner = data.domain, data.owner
    values = encoded(domain, domain.property_names, seen.values)
    parts = [values]
    for role in range(domain.roles):
        if role < len(domain.action(action).objects):
            row = (data.offsets[:-1] + data.objects[:, role])[owner]
            flag = (row == np.arange(len(row)))[:, None].astype(np.float64)
            gap = values - values[row]
            parts += [flag, values[row], gap, np.linalg.norm(gap, axis=1, keepdims=True)]
        else:
            parts.append(np.full((len(values), 2 + 2 * values.shape[1]), np.nan))
    for one in domain.actions:
        mine = one.name == action
        parts.append(seen.parameters[owner] if mine else np.full((len(values), _width(one, framed)), np.nan))
        parts.append(np.full((len(values), 1), float(mine)))
    return np.concatenate(parts, axis=1)


def _width(action: Action, framed: bool) -> int:
    """How many numbers a learner sees of an action's parameters: in a frame with a heading, its harmonics too."""
    turned = framed and action.frame is not None and action.frame.heading is not None
    return len(action.parameters) + (len(harmonic_names()) if turned else 0)


class _Rows(NamedTuple):
    """x (R, D) and changes (R, Q) of all object rows of all actions, the fold and the weight of each row."""

    x: np.ndarray
    change: np.ndarray
    fold: np.ndarray
    weight: np.ndarray


def fit_trees(domain: Domain, experience: Experience, *, seed: int, settings: TreeSettings | None = None) -> Trees:
    """Grow boosters on the transitions of all actions, with any numbers of objects."""
    settings = settings or TreeSettings()
    data, _ = prepare(domain, experience)
    rows = _rows(data, settings, seed)
    resolutions = data.domain.resolutions
    with _alone():
        found = [_grow(rows, q, float(resolutions[q]), settings, seed) for q in range(rows.change.shape[1])]
    return Trees(data.domain, settings, found)


def _rows(data: Experience, settings: TreeSettings, seed: int) -> _Rows:
    """What boosters learn from; rows of one transition, and their mirror images, are in the same fold."""
    folds = np.random.default_rng([seed, 53]).permutation(len(data)) % min(settings.folds, max(2, len(data)))
    parts: list[_Rows] = []
    for index, action in enumerate(data.domain.actions):
        chosen = np.flatnonzero(data.action == index)
        if not len(chosen):
            continue
        mine = data[chosen]
        mirror = settings.framed and action.frame is not None and action.frame.mirror
        for turned in (False, True)[: 1 + mirror]:
            seen = observe_rows(mine, action.name, settings.framed, mirror=turned)
            x = row_features(mine, action.name, seen, settings.framed)
            change = seen.after - seen.values[:, list(data.domain.dynamic)]
            parts.append(_Rows(x, change, folds[chosen][mine.owner], mine.weights[mine.owner]))
    return _Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _alone() -> Any:
    """One thread: those of scikit-learn spin while they wait, which takes sixty times as long on a busy machine."""
    return threadpool_limits(1)


def _booster(settings: TreeSettings, trees: int, seed: int) -> Any:
    off: Any = False  # its types know only the text "auto"
    return HistGradientBoostingRegressor(
        max_iter=trees,
        learning_rate=settings.learning_rate,
        max_leaf_nodes=settings.leaves,
        min_samples_leaf=settings.smallest,
        early_stopping=off,
        random_state=seed,
    )


def _grow(rows: _Rows, q: int, resolution: float, settings: TreeSettings, seed: int) -> Boosters:
    """The boosters of one property; see the module."""
    y, folds = rows.change[:, q], np.unique(rows.fold)
    staged = np.empty((settings.most, len(y)))
    for fold in folds:
        held = rows.fold == fold
        one = _booster(settings, settings.most, seed).fit(rows.x[~held], y[~held], rows.weight[~held])
        staged[:, held] = np.stack(list(one.staged_predict(rows.x[held])))
    trees = 1 + int(np.argmin(np.square(staged - y) @ rows.weight))
    left = np.square(y - staged[trees - 1])
    mean = _booster(settings, trees, seed).fit(rows.x, y, rows.weight)
    size = np.log(np.maximum(left, (FLOOR * resolution) ** 2)) + LOG_CHI
    guess = np.empty(len(y))
    for fold in folds:
        held = rows.fold == fold
        one = _booster(settings, settings.variance, seed).fit(rows.x[~held], size[~held], rows.weight[~held])
        guess[held] = one.predict(rows.x[held])
    spread = _booster(settings, settings.variance, seed).fit(rows.x, size, rows.weight)
    return Boosters(mean, spread, _line(left, guess, resolution, rows.weight))


def _line(left: np.ndarray, guess: np.ndarray, resolution: float, weight: np.ndarray) -> tuple[float, float]:
    """argmin over (a, b) of the Gaussian loss of squared residuals under exp(a + b g) + resolution²."""
    middle, best = float(np.median(guess)), (np.inf, 0.0, 1.0)
    for slope in SLOPES:
        wide = np.exp(SHIFTS[:, None] + middle + slope * (guess - middle)) + resolution**2
        losses = (left / wide + np.log(wide)) @ weight
        k = int(np.argmin(losses))
        best = min(best, (float(losses[k]), float(SHIFTS[k] + (1 - slope) * middle), slope))
    return best[1:]
