"""Heads trained on folds, and what they say of rows that they did not see.

`Judge.fit` trains a head once for every fold and keeps, for each of its rows that some fold holds out, log p_k of every
outcome and log w_k. Deviations are widened first by what suits the held-out rows best: a single network is
overconfident, and that would speak against every head. Heads are remembered by slot, inputs and outcomes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import zlib
from typing import NamedTuple

import jax
import numpy as np
from scipy.special import expit, logsumexp

from spare.data.scene import round_up
from spare.language.references import Shell
from spare.learning.bindings import expressions
from spare.learning.cache import Kept, TrainingCache
from spare.learning.general.rows import ActionRows, Folds
from spare.learning.general.starts import Lines, lines, ordered_like, slopes
from spare.learning.general.training import (
    CLOSED,
    FREE,
    OUTCOMES,
    WIDER,
    HeadProblem,
    HeadRows,
    HeadWeights,
    Outlook,
    Start,
    initial,
    look,
    offsets_of,
    train_member,
)
from spare.learning.presets import Schedule
from spare.learning.threads import in_parallel
from spare.model.heads import HeadSpec, Units
from spare.model.rows import OF_SLOTS

VERSION = 3
"""Of the training of heads; a cache does not reuse what another version trained."""
MOST_ROWS = 20_000
"""A head is trained on at most so many rows, drawn at random."""
REST_DEVIATIONS = 4.5
"""A row has changed if some value changed by more than its resolution and so many deviations of what rests."""


class Scaling(NamedTuple):
    """How x and y of a head are normalised, and where its outcomes start."""

    x_mean: np.ndarray
    x_scale: np.ndarray
    y_mean: np.ndarray
    y_scale: np.ndarray
    start: Start


@dataclasses.dataclass(frozen=True)
class JudgedHead:
    """A head trained on folds. Arrays follow `rows`, the object rows of its slot.

    log_outcomes, gate (rows, K)  held-out log p_k and log w_k, in the units of the properties
    mean, variance (rows, K, Q)   held-out, in the units of the properties, widened
    seen (rows,)                  which rows are judged
    wider                         by how much deviations were widened
    evidence (rows, K)            log p_k by all members, those that saw the row included
    """

    spec: HeadSpec
    rows: np.ndarray
    log_outcomes: np.ndarray
    gate: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    seen: np.ndarray
    wider: float
    scaling: Scaling
    evidence: np.ndarray
    members: tuple[HeadWeights, ...] = ()

    @functools.cached_property
    def log_density(self) -> np.ndarray:
        """log p of every row with outcomes of the scope of an object, (rows,); 0 where it is not judged."""
        return np.where(self.seen, logsumexp(self.gate + self.log_outcomes, axis=1), 0.0)


@dataclasses.dataclass(frozen=True)
class Room:
    """The padded shape of every head of a search: rows to train on, rows to check, rows to look at, inputs."""

    rows: int
    check: int
    every: int
    inputs: int


@dataclasses.dataclass(frozen=True)
class Trainer:
    """How heads are trained: schedule, seed, threads, and where finished trainings are kept."""

    schedule: Schedule
    seed: int
    threads: int | None = None
    cache: TrainingCache | None = None

    def train(self, start: HeadWeights, problem: HeadProblem, seed: list[int], schedule: Schedule) -> HeadWeights:
        """A member, trained or looked up: what it is called depends on every number that enters its training."""
        key = ""
        if self.cache is not None:
            digest = hashlib.sha256(repr((VERSION, schedule, seed)).encode())
            for part in jax.tree.leaves((start, problem)):
                digest.update(np.ascontiguousarray(part).tobytes())
            key = digest.hexdigest()[:32]
            if (found := self.cache.get(key)) is not None:
                return revived(start, found.arrays)
        weights = train_member(schedule, start, problem, np.random.default_rng(seed))
        if self.cache is not None:
            arrays = {f"{k}": np.asarray(part) for k, part in enumerate(jax.tree.leaves(weights))}
            self.cache.put(key, Kept(arrays, {"kind": "head"}))
        return weights


def revived(like: HeadWeights, arrays: dict[str, np.ndarray]) -> HeadWeights:
    """Weights that were kept, in the structure of those that a training starts from."""
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[f"{k}"] for k in range(len(arrays))])


class Judge:
    """Trains heads of one action on folds, in parallel, each once."""

    def __init__(self, rows: ActionRows, folds: Folds, trainer: Trainer, *, rest: np.ndarray) -> None:
        self.rows, self.folds, self.trainer = rows, folds, trainer
        self.seed, self.threads, self.schedule = trainer.seed, trainer.threads, trainer.schedule
        self.rest = rest
        """Variance of what rests, (Q,)."""
        self._known: dict[tuple[object, ...], JudgedHead] = {}
        count = min(len(rows.data.values), MOST_ROWS)
        frames = (action.frame for action in rows.data.domain.actions)
        double = 2 if any(frame is not None and frame.mirror for frame in frames) else 1
        self.room = Room(round_up(count * double), round_up(max(64, -(-count // 4))), round_up(count), 32)

    def fit(self, shell: Shell, masks: dict[int, np.ndarray], specs: list[HeadSpec]) -> list[JudgedHead]:
        """The heads of these specs over a rule's list; `masks` says which rows each slot predicts."""
        keys = [self._key(shell, masks[spec.slot], spec) for spec in specs]
        fresh = {key: spec for key, spec in zip(keys, specs, strict=True) if key not in self._known}
        prepared = {key: self.prepared(shell, masks[spec.slot], spec) for key, spec in fresh.items()}
        calls = [
            functools.partial(self._member, prepared[key], fold, zlib.crc32(repr((fresh[key], fold)).encode()))
            for key in fresh
            for fold in range(len(self.folds.held))
        ]
        found = list(in_parallel(calls, self.threads))
        for k, key in enumerate(fresh):
            size = len(self.folds.held)
            self._known[key] = self.judged(prepared[key], found[k * size : (k + 1) * size])
        return [dataclasses.replace(self._known[key], spec=spec) for key, spec in zip(keys, specs, strict=True)]

    def _key(self, shell: Shell, mask: np.ndarray, spec: HeadSpec) -> tuple[object, ...]:
        used = tuple(self._meaning(shell, name) for name in spec.inputs)
        kind = (spec.outcomes, spec.pinned, spec.scope, spec.relative)
        return (zlib.crc32(mask.tobytes()), int(mask.sum()), used, *kind)

    def _meaning(self, shell: Shell, name: str) -> object:
        entry = self.rows.layout(shell).entries[name]
        about = expressions(shell)[entry.slot] if entry.about in OF_SLOTS else entry.slot
        found = (entry.about, about, entry.how, entry.column)
        return (*found, zlib.crc32(self.rows.previous[about].tobytes())) if entry.about == "previous" else found

    def everywhere(self, shell: Shell, head: JudgedHead) -> Everywhere:
        """What a trained head with one outcome says of all object rows, whether they are its own or not.

        Held-out rows are judged by the members that did not see them, others by all.
        """
        mask = np.ones(len(self.rows.owner), bool)
        rows = np.flatnonzero(mask)
        parts, quantities = np.zeros((len(mask), 2)), self.rows.y.shape[1]
        mean, variance = np.zeros((len(mask), quantities)), np.ones((len(mask), quantities))
        scale, kind = head.scaling.y_scale, 1 if head.spec.free else 0
        for start in range(0, len(rows), MOST_ROWS):
            part = rows[start : start + MOST_ROWS]
            x, y = self.rows.x(shell, head.spec.inputs, part), self.rows.changes(relative=head.spec.relative)[part]
            made = Prepared(head.spec, part, x, y, np.ones(len(part)), None, head.scaling)
            units, every = self.looking(made)
            found = [look(weights, every, units) for weights in head.members]
            held = np.stack([one[self.rows.owner[part]] for one in self.folds.held])
            judges = held | ~held.any(axis=0)
            for side in range(2):
                said = np.stack([one.parts[side, : len(part), kind] for one in found])
                said = np.where(judges, said, -np.inf)
                parts[part, side] = logsumexp(said, axis=0) - np.log(judges.sum(axis=0)) - self.rows.volume(scale, part)
            means = np.stack([one.mean[: len(part), kind] for one in found])
            spreads = np.stack([one.variance[: len(part), kind] for one in found]) * head.wider**2
            mean[part] = head.scaling.y_mean + scale * means.mean(axis=0)
            variance[part] = np.square(scale) * spreads.mean(axis=0)
        return Everywhere(parts, mean, variance)

    def looking(self, head: Prepared) -> tuple[Units, HeadRows]:
        """Units of y, and rows to look at, normalised and padded."""
        scaling, width = head.scaling, self.inputs(head.x.shape[1])
        x = (head.x - scaling.x_mean) / scaling.x_scale
        y = (head.y - scaling.y_mean) / scaling.y_scale
        every = padded(x, y, head.weight, offsets_of(head.spec), self.room.every, width, self.rows.held_of(head.rows))
        units = Units(
            np.asarray(scaling.y_mean, np.float32),
            np.asarray(scaling.y_scale, np.float32),
            np.asarray(np.square(self.rows.data.domain.resolutions / scaling.y_scale), np.float32),
        )
        return units, every

    # -- one head -----------------------------------------------------------------------------------------------

    def prepared(self, shell: Shell, mask: np.ndarray, spec: HeadSpec) -> Prepared:
        """x, y and scaling of the rows of a head."""
        rows = np.flatnonzero(mask)
        if len(rows) > MOST_ROWS:
            rows = np.sort(np.random.default_rng([self.seed, 5]).choice(rows, MOST_ROWS, replace=False))
        x, y = self.rows.x(shell, spec.inputs, rows), self.rows.changes(relative=spec.relative)[rows]
        image = self.rows.x(shell, spec.inputs, rows, mirror=True) if self.rows.mirror else None
        weight = self.folds.weights[self.rows.owner[rows]]
        return Prepared(
            spec, rows, x, y, weight, image, self._scaling(spec, x, self.rows.filled(y, rows), weight, image)
        )

    def moved(self, y: np.ndarray) -> np.ndarray:
        """Which changes y (rows, Q) are more than noise, (rows,)."""
        resolutions = self.rows.data.domain.resolutions
        limit = np.maximum(resolutions, REST_DEVIATIONS * np.sqrt(self.rest + resolutions**2))
        return np.any(np.abs(y) > limit, axis=1)

    def _scaling(
        self, spec: HeadSpec, x: np.ndarray, y: np.ndarray, weight: np.ndarray, image: np.ndarray | None
    ) -> Scaling:
        seen = x if image is None else np.concatenate([x, image])
        x_mean, x_scale = seen.mean(axis=0), seen.std(axis=0)
        x_scale = np.where(x_scale > 1e-6 * np.maximum(np.abs(x_mean), 1e-6), x_scale, 1.0)
        resolutions = self.rows.data.domain.resolutions
        moved = self.moved(y)
        free = y[moved] if spec.pinned and moved.sum() >= 5 else y
        y_mean = np.median(free, axis=0) if len(free) else np.zeros(y.shape[1])
        apart = np.abs(free - y_mean)
        limit = 5 * np.quantile(apart, 0.9, axis=0) if len(free) else np.zeros(y.shape[1])
        limit = np.where(limit > 0, limit, np.inf)
        y_mean = y_mean + np.clip(free - y_mean, -limit, limit).mean(axis=0) if len(free) else y_mean
        if image is not None:
            frame = self.rows.data.domain.action(self.rows.action).frame
            assert frame is not None
            for group in frame.columns(self.rows.data.domain.dynamic_names).positions:
                y_mean[group[1]] = 0.0  # the mirror image has the opposite
        apart = np.minimum(np.abs(free - y_mean), limit) if len(free) else np.ones((1, y.shape[1]))
        y_scale = np.maximum(np.sqrt(np.square(apart).mean(axis=0)), resolutions)
        stay = np.clip(self.rest / np.square(y_scale), 1e-8, 1.0)
        # Outliers go as far as the farthest rows of this head did, as changes do, or as values differ: a wrong record
        # may say anything, also of what never changes.
        far = np.sort(np.abs(y - y_mean), axis=0)[-max(1, len(y) // 50) :] if len(y) else np.ones((1, len(y_scale)))
        wide = np.maximum(np.sqrt(np.square(far).mean(axis=0)), self._large) / y_scale
        found = self._lines(spec, (x - x_mean) / x_scale, (y - y_mean) / y_scale, moved)
        return Scaling(x_mean, x_scale, y_mean, y_scale, Start(*found, stay, np.clip(wide, 0.5, 1e4)))

    def _lines(self, spec: HeadSpec, x: np.ndarray, y: np.ndarray, moved: np.ndarray) -> Lines:
        """Where the means of free outcomes start, by normalised rows; those that did not move are the pinned one's."""
        if spec.pinned and moved.sum() >= 5:
            x, y = x[moved], y[moved]
        limit = 5 * np.quantile(np.abs(y), 0.9, axis=0) if len(y) else np.zeros(y.shape[1])
        limit = np.where(limit > 0, limit, np.inf)
        target = np.clip(y, -limit, limit)
        centres, tilted = np.zeros((FREE, y.shape[1])), np.repeat(slopes(x, target)[None], FREE, axis=0)
        if spec.free > 1 and len(y) >= 8 and np.ptp(target, axis=0).max() > 1e-6:
            found = lines(x, np.clip(target, -3, 3), spec.free, self.seed % 2**31)
            centres[: spec.free], tilted[: spec.free] = found
        return Lines(centres, tilted)

    def _start(self, head: Prepared, train: np.ndarray) -> Start:
        """Where a member starts: as the rows have it that it is trained on, for the others are to judge it.

        Outcomes are in the order of those of all rows.
        """
        scaling, used = head.scaling, rows_to_train(head, train)
        x = (head.x[used] - scaling.x_mean) / scaling.x_scale
        raw = self.rows.filled(head.y[used], head.rows[used])
        found = self._lines(head.spec, x, (raw - scaling.y_mean) / scaling.y_scale, self.moved(raw))
        every = Lines(scaling.start.centres, scaling.start.slopes)
        return scaling.start._replace(**ordered_like(found, every, head.spec.free)._asdict())

    @functools.cached_property
    def _large(self) -> np.ndarray:
        """What counts as far away, (Q,): typical changes, or a third of how much values differ."""
        values = self.rows.observed.values[:, list(self.rows.data.domain.dynamic)]
        return np.maximum(np.sqrt(np.square(self.rows.y).mean(axis=0)), values.std(axis=0) / 3)

    def _member(self, head: Prepared, fold: int, salt: int) -> tuple[HeadWeights, object]:
        held = self.folds.held[fold][self.rows.owner[head.rows]]
        problem, every = self.problem(head, ~held, held)
        first = self._start(head, ~held)
        start = initial(self.schedule, self.inputs(head.x.shape[1]), first, [self.seed, salt, 1])
        weights = self.trainer.train(start, problem, [self.seed, salt], self.schedule)
        return weights, look(weights, every, problem.units)

    def inputs(self, size: int) -> int:
        """Padded number of inputs."""
        return max(self.room.inputs, round_up(size))

    def problem(self, head: Prepared, train: np.ndarray, check: np.ndarray) -> tuple[HeadProblem, HeadRows]:
        """What is trained on and checked, and all rows to look at; padded."""
        scaling, width = head.scaling, self.inputs(head.x.shape[1])
        x = (head.x - scaling.x_mean) / scaling.x_scale
        y = (head.y - scaling.y_mean) / scaling.y_scale
        own = offsets_of(head.spec)
        used = rows_to_train(head, train)
        parts = [(x[used], y[used], head.weight[used])]
        if head.image is not None:
            image = (head.image - scaling.x_mean) / scaling.x_scale
            other = self.rows.changes(relative=head.spec.relative, mirror=True)[head.rows]
            reflected = (other - scaling.y_mean) / scaling.y_scale
            parts.append((image[used], reflected[used], head.weight[used]))
        joined = [np.concatenate(part) for part in zip(*parts, strict=True)]
        count = len(joined[0])
        mean = joined[2].mean() if count else 1.0
        mine = self.rows.held_of(np.tile(head.rows[used], len(parts)))
        rows = padded(joined[0], joined[1], joined[2] / mean, own, self.room.rows, width, mine)
        held = np.flatnonzero(check & (head.weight > 0))[: self.room.check]
        mine = self.rows.held_of(head.rows[held])
        checked = padded(x[held], y[held], head.weight[held], own, self.room.check, width, mine)
        units, every = self.looking(head)
        wide = np.asarray(scaling.start.wide, np.float32)
        free = max(int(self.moved(head.y[used]).sum()) * len(parts), 1) if head.spec.pinned else count
        return HeadProblem(rows, checked, units, np.int32(count), np.int32(free), wide), every

    def judged(self, head: Prepared, found: list[tuple[HeadWeights, Outlook]]) -> JudgedHead:
        """What members that were trained on folds say of the rows that they did not see."""
        size, scale = len(head.rows), head.scaling.y_scale
        owner = self.rows.owner[head.rows]
        outcomes = np.full((len(WIDER), size, OUTCOMES), CLOSED)
        gate, seen = np.full((size, OUTCOMES), CLOSED), np.zeros(size, bool)
        mean = np.zeros((size, OUTCOMES, len(scale)))
        variance = np.ones_like(mean)
        for fold, (_, outlook) in enumerate(found):
            rows = np.flatnonzero(self.folds.held[fold][owner])
            volume = self.rows.volume(scale, head.rows[rows])
            outcomes[:, rows] = outlook.log_outcomes[:, rows] - np.reshape(volume, (-1, 1))
            gate[rows], seen[rows] = outlook.gate[rows], True
            mean[rows] = head.scaling.y_mean + scale * outlook.mean[rows]
            variance[rows] = np.square(scale) * outlook.variance[rows]
        weight = np.where(seen, head.weight, 0.0)
        scores = [(weight * logsumexp(gate + one, axis=1)).sum() for one in outcomes]
        best = int(np.argmax(scores))
        volume = np.reshape(self.rows.volume(scale, head.rows), (-1, 1))
        evidence = np.mean([one.log_outcomes[best, :size] for _, one in found], axis=0) - volume
        return JudgedHead(
            head.spec,
            head.rows,
            outcomes[best],
            gate,
            mean,
            variance * WIDER[best] ** 2,
            seen,
            WIDER[best],
            head.scaling,
            evidence,
            tuple(weights for weights, _ in found),
        )


def rows_to_train(head: Prepared, train: np.ndarray) -> np.ndarray:
    """The rows of a head that are to be trained on; all of them, where a fold holds out every one."""
    used = np.flatnonzero(train & (head.weight > 0))
    return used if len(used) else np.flatnonzero(head.weight > 0)


class Everywhere(NamedTuple):
    """Of all R object rows: log densities of the narrow and the wide part (R, 2), mean and variance (R, Q)."""

    parts: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    def log_density(self, among: np.ndarray) -> np.ndarray:
        """log p of every row (R,), with the share of the wide part that suits the rows `among` (R,) best."""
        narrow, wide = self.parts[among].T
        share = 0.02
        if len(narrow):
            for _ in range(30):
                odds = np.log(share) - np.log1p(-share) + wide - narrow
                share = float(np.clip((expit(odds).sum() + 0.5) / (len(odds) + 1.0), 1e-4, 0.5))
        return np.logaddexp(np.log1p(-share) + self.parts[:, 0], np.log(share) + self.parts[:, 1])


class Prepared(NamedTuple):
    """The rows of one head, in the units of the properties."""

    spec: HeadSpec
    rows: np.ndarray
    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    image: np.ndarray | None
    scaling: Scaling


def padded(  # noqa: PLR0913 - the rows, and the shape that they are laid out in
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    offset: np.ndarray,
    size: int,
    width: int,
    held: np.ndarray | None = None,
) -> HeadRows:
    """Rows laid out in the padded shape; padding has weight 0."""
    rows = len(x)
    wide = np.zeros((size, width), np.float32)
    wide[:rows, : x.shape[1]] = x
    target = np.zeros((size, y.shape[1]), np.float32)
    target[:rows] = y
    weights = np.zeros(size, np.float32)
    weights[:rows] = weight
    has = None
    if held is not None:
        has = np.ones((size, y.shape[1]), bool)
        has[:rows] = held
    return HeadRows(wide, target, weights, np.broadcast_to(offset, (size, OUTCOMES)).astype(np.float32), has)
