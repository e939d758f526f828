"""The contract of a transition model, checked from outside: ours, a baseline, or a user's own.

1. Shapes: what comes back fits the experience, is finite, and leaves static properties alone.
2. Determinism: the same question gets the same bits; a draw depends on its seed.
3. Indifference: to the order of objects and transitions, to ids and weights, and to the future when drawing.
4. Honesty: draws follow the density. For x drawn from p and any shift d, E[p(x + d) / p(x)] = 1.
5. Saving: what can be saved comes back with the same bits, and is saved again as the same bytes.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spare.data.experience import Experience, expect_experience
from spare.data.ragged import Ragged
from spare.errors import SpareError
from spare.language.discrete import Link
from spare.language.domain import Domain
from spare.model.model import TransitionModel, load
from spare.testing.report import Finding, Report

HALVINGS = 8
DRAWS = 2048
PATIENT = 50
"""How many times as many draws are made before their spread is called wrong."""
STRICT = 5.0
"""Standard errors that an average over draws may be off: by chance once in two million times."""


def check_model(
    model: Any,
    experience: Experience,
    *,
    seed: int = 0,
    most: int = 48,
    reload: Callable[[str, Domain], TransitionModel] = load,
) -> Report:
    """Run a `TransitionModel` through its contract on the first `most` transitions.

    Gives a `Report` whose findings say what is wrong and what to do; `reload` reads what `model.save` writes.
    """
    data = expect_experience(experience)[:most]
    checks = {
        "shapes": _shapes,
        "determinism": _determinism,
        "order": _order,
        "names and weights": _indifference,
        "draws": _draws,
    }
    findings = [Finding("model", "it lacks log_prob, sample, predict or domain", "See spare.TransitionModel")]
    if isinstance(model, TransitionModel):
        findings = _domain(model, data)
    done: list[str] = ["protocol"]
    for name, check in checks.items() if not findings else ():
        done.append(name)
        try:
            findings += check(model, data, seed)
        except Exception as error:  # the model is somebody else's code: whatever it raises is a finding
            findings.append(Finding(name, f"it raises {type(error).__name__}: {error}", "Handle any valid experience"))
    if hasattr(model, "save") and not findings:
        done.append("saving")
        findings += _saving(model, data, reload)
    return Report(type(model).__name__, tuple(done), tuple(findings))


def _domain(model: TransitionModel, data: Experience) -> list[Finding]:
    if not len(data):
        return [Finding("experience", "it is empty", "Give at least one transition")]
    if model.domain.fingerprint != data.domain.fingerprint:
        return [Finding("domain", f"the model knows {model.domain!r}", f"Give data of it, not of {data.domain!r}")]
    if not model.domain.resolved:
        return [Finding("domain", "a property has no resolution", "Use experience.resolved() before learning")]
    return []


def _shapes(model: TransitionModel, data: Experience, seed: int) -> Iterator[Finding]:
    log_prob, drawn = np.asarray(model.log_prob(data)), np.asarray(model.sample(data, seed))
    if log_prob.shape != (len(data),) or not np.isfinite(log_prob).all():
        yield Finding("log_prob", f"shape {log_prob.shape}, or not finite", f"Return {len(data)} finite nats")
    static = [k for k, prop in enumerate(data.domain.properties) if prop.static]
    if drawn.shape != data.values.shape or not np.isfinite(drawn).all():
        yield Finding("sample", f"shape {drawn.shape}, or not finite", f"Return finite values of {data.values.shape}")
    elif not np.array_equal(drawn[:, static], data.values[:, static]):
        yield Finding("sample", "static properties change", "Copy them from the state")
    said = model.predict(data.states[0], data.actions[0])
    for name in ("mean", "std"):
        part = np.asarray(getattr(said, name, None))
        if part.shape != data.states[0].values.shape or not np.isfinite(part.astype(float)).all():
            yield Finding("predict", f"its {name} has shape {part.shape}, or is not finite", "One row per object")
        elif name == "std" and (part < 0).any():
            yield Finding("predict", "a standard deviation is negative", "Return the square root of the variance")


def _determinism(model: TransitionModel, data: Experience, seed: int) -> Iterator[Finding]:
    if not np.array_equal(model.log_prob(data), model.log_prob(data)):
        yield Finding("log_prob", "two calls differ", "Take randomness from explicit seeds only")
    first = model.sample(data, seed)
    if not np.array_equal(first, model.sample(data, seed)):
        yield Finding("sample", "two calls with one seed differ", "Take randomness from the seed only")
    if np.array_equal(first, model.sample(data, seed + 1)):
        yield Finding("sample", "another seed gives the same draw", "Use the seed")


def shuffled(data: Experience, seed: int) -> tuple[Experience, np.ndarray]:
    """(the same transitions with the objects of each in another order, row numbers in the old order)."""
    rng = np.random.default_rng(seed)
    last = int(data.domain.has_world)  # the world itself stays where it is
    orders = [np.concatenate([rng.permutation(int(n) - last), np.arange(n - last, n)]) for n in data.counts]
    rows = np.concatenate([order + start for order, start in zip(orders, data.offsets[:-1], strict=True)])
    objects = data.objects.copy()
    for i, order in enumerate(orders):
        where = np.argsort(order)
        objects[i] = np.where(objects[i] < 0, -1, where[np.maximum(objects[i], 0)])
    parts: dict[str, Any] = {"ids": data.ids[rows], "objects": objects}
    parts |= {name: _relinked(data, getattr(data, name)[rows], rows) for name in ("values", "next_values")}
    if data.vanished is not None:
        parts["vanished"] = data.vanished[rows]
    for name in ("pairs", "next_pairs"):
        parts[name] = {key: _repaired(data, lists, rows) for key, lists in getattr(data, name).items()}
    return dataclasses.replace(data, **parts), rows


def _places(data: Experience, rows: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """(transition, local row) -> local row in the new order; arrivals stay where they are."""
    place = np.empty(len(rows), np.int64)
    place[rows] = np.arange(len(rows)) - data.offsets[data.owner]

    def found(owner: np.ndarray, local: np.ndarray) -> np.ndarray:
        old = (local >= 0) & (local < data.counts[owner])
        return np.where(old, place[np.where(old, data.offsets[owner] + local, 0)], local)

    return found


def _relinked(data: Experience, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Values with links to the rows of the new order."""
    for column, prop in enumerate(data.domain.properties):
        if isinstance(prop.kind, Link):
            mine = data.domain.held(values)[:, column]
            local = values[mine, column].astype(np.int64)
            values[mine, column] = _places(data, rows)(data.owner[mine], local)
    return values


def _repaired(data: Experience, lists: Ragged, rows: np.ndarray) -> Ragged:
    owner, move = lists.owner, _places(data, rows)
    source, target = (move(owner, lists.columns[side].astype(np.int64)) for side in ("source", "target"))
    order = np.lexsort((target, source, owner))
    parts = {"source": source[order].astype(np.int32), "target": target[order].astype(np.int32)}
    return Ragged(lists.offsets, parts)


def _order(model: TransitionModel, data: Experience, seed: int) -> Iterator[Finding]:
    before = np.asarray(model.log_prob(data))
    other, rows = shuffled(data, seed)
    advice = "Treat objects as a set: no formula may use their position"
    if not _near(model.log_prob(other), before):
        yield Finding("log_prob", "it depends on the order of objects", advice)
    start, stop = int(data.offsets[0]), int(data.offsets[1])
    here = np.asarray(model.predict(data.states[0], data.actions[0]).mean)[rows[start:stop]]
    if not _near(model.predict(other.states[0], other.actions[0]).mean, here):
        yield Finding("predict", "it depends on the order of objects", advice)
    turned = np.arange(len(data))[::-1]
    if not _near(model.log_prob(data[turned]), before[turned]):
        yield Finding("log_prob", "it depends on the other transitions", "Score each transition by itself")


def _near(found: Any, expected: np.ndarray) -> bool:
    """Equal but for the rounding of 32-bit sums."""
    return np.allclose(np.asarray(found), expected, rtol=2e-4, atol=2e-3)


def _indifference(model: TransitionModel, data: Experience, seed: int) -> Iterator[Finding]:
    renamed = dataclasses.replace(data, ids=np.arange(len(data.values), dtype=np.int64)[::-1].copy())
    if not _near(model.log_prob(renamed), model.log_prob(data)):
        yield Finding("log_prob", "it depends on the ids of objects", "Use properties only")
    if not _near(model.log_prob(data.weighted(np.linspace(0, 3, len(data)))), model.log_prob(data)):
        yield Finding("log_prob", "it depends on weights", "A density does not: weights are for learning")
    elsewhere = np.where([p.static for p in data.domain.properties], data.values, data.values + 1)
    blind = dataclasses.replace(data, next_values=elsewhere.astype(data.values.dtype))
    if not np.array_equal(model.sample(blind, seed), model.sample(data, seed)):
        yield Finding("sample", "it looks at the next state", "Draw from (s, a) alone")


def _draws(model: TransitionModel, data: Experience, seed: int) -> Iterator[Finding]:
    columns = list(data.domain.dynamic)
    said = model.predict(data.states[0], data.actions[0])
    mean, std = (np.asarray(part, np.float64)[:, columns] for part in (said.mean, said.std))
    many = data[np.zeros(DRAWS, np.int64)]
    real = data.values.dtype.type
    drawn = np.asarray(model.sample(many, seed), real)
    values = drawn.reshape(DRAWS, -1, drawn.shape[1])[:, :, columns].astype(np.float64)
    spread = values.std(axis=0)
    rounding = 4 * np.spacing(np.abs(mean).astype(real) + real(1e-6))
    off = np.abs(values.mean(axis=0) - mean) > STRICT * spread / np.sqrt(DRAWS) + rounding
    if off.any():
        who, which = np.argwhere(off)[0]
        name = data.domain.dynamic_names[which]
        yield Finding("sample", f"draws of {name!r} are not centred on predict's mean", "Make both say the same")
    if not np.allclose(spread, std, rtol=0.2, atol=1e-6):  # a deviation can be that of one draw in a thousand
        more = np.asarray(model.sample(data[np.zeros(PATIENT * DRAWS, np.int64)], seed + 1), np.float64)
        spread = more.reshape(PATIENT * DRAWS, -1, more.shape[1])[:, :, columns].std(axis=0)
    if not np.allclose(spread, std, rtol=0.2, atol=1e-6):
        yield Finding("sample", "draws do not spread as predict's std says", "Make both say the same")
    for who in {int(data.objects[0, 0]), int(np.argmin(std.sum(axis=1)))}:
        ratio = _ratio(model, many, drawn, who, std)
        error = ratio.std() / np.sqrt(DRAWS) + 1e-3
        if not abs(ratio.mean() - 1) < STRICT * error + 0.02:
            yield Finding(
                "log_prob",
                f"draws do not follow the density: E[p(x + d) / p(x)] is {ratio.mean():.3f}, not 1",
                "Check the normalisation of log_prob, and that sample draws from the same distribution",
            )


def _ratio(model: TransitionModel, many: Experience, drawn: np.ndarray, who: int, std: np.ndarray) -> np.ndarray:
    """p(x + d) / p(x) of draws x, with d one standard deviation of one value, or less where the density is sharper.

    Values can depend on each other, or be mixed: then a whole standard deviation of one leads where there is no
    density, the ratio is 0 but for a few huge ones, and no number of draws shows its mean.
    """
    rows, column = many.offsets[:-1] + who, many.domain.dynamic[0]
    before = np.asarray(model.log_prob(dataclasses.replace(many, next_values=drawn)))

    def apart(step: float) -> np.ndarray:
        moved = drawn.copy()
        moved[rows, column] += drawn.dtype.type(step)
        return np.asarray(model.log_prob(dataclasses.replace(many, next_values=moved))) - before

    step = float(std[who, 0])
    for _ in range(HALVINGS):
        if np.median(np.abs(apart(step))) <= 1:
            break
        step /= 2
    return np.exp(np.clip(apart(step), -50, 50))


def _saving(model: Any, data: Experience, reload: Callable[[str, Domain], TransitionModel]) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        first, second = os.path.join(folder, "first"), os.path.join(folder, "second")
        try:
            model.save(first)
            again: Any = reload(first, model.domain)
            again.save(second)
        except SpareError as error:
            yield Finding("save", f"it does not come back: {error}", "Save what load reads")
            return
        if not np.array_equal(again.log_prob(data), model.log_prob(data)):
            yield Finding("save", "the loaded model predicts other bits", "Save every number exactly")
        with open(first, "rb") as one, open(second, "rb") as other:
            if one.read() != other.read():
                yield Finding("save", "saved again, the file differs", "Leave time and randomness out", serious=False)
