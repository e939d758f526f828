"""What to look at before learning in a new domain: references, properties and actions, on real data.

Every reference is asked, on up to `most` transitions, from the action's own objects and from random ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from spare.arrays import precision
from spare.data.experience import Experience, expect_experience
from spare.data.precision import spacing
from spare.data.scene import Scene, padded_pairs
from spare.forks import check_threads
from spare.language.domain import Domain, expect_domain
from spare.language.kinds import Real
from spare.language.references import Reference
from spare.language.types import TYPE
from spare.testing.models import shuffled
from spare.testing.report import Finding, Report

TUPLES = 6
SLOW_SECONDS = 2e-3
SLOW_TIMES = 20.0
FEW = 20
"""From fewer transitions nothing is said about frames."""
CORRELATED = 0.5
"""The least correlation of a true position with the origin of its frame."""


def check_domain(domain: Domain, experience: Experience, *, seed: int = 0, most: int = 128) -> Report:
    """Findings about a domain on data: what never applies, varies or occurs, is slow, raises, or looks misdeclared."""
    check_threads()
    expect_domain(domain)
    data = expect_experience(experience).with_domain(domain)
    if not len(data):
        empty = Finding("experience", "it is empty", "Give at least one transition")
        return Report(f"domain {domain.name!r}", (), (empty,))
    few = data[np.random.default_rng(seed).permutation(len(data))[:most]]
    findings = [*_types(data), *_properties(data), *_actions(data), *_frames(data)]
    answers: dict[str, _Answers] = {}
    for reference in domain.references:
        try:
            with precision(double=few.double):
                answers[reference.name] = _ask(reference, few, seed)
        except Exception as error:  # formulas are the user's code: whatever they raise is a finding
            text = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            findings.append(Finding(_name(reference), f"it raises on these data: {text}", "Repair its formula"))
    for reference in domain.references:
        if reference.name in answers:
            findings += _reference(reference, answers)
    return Report(
        f"domain {domain.name!r}", ("types", "properties", "actions", "frames", "references"), tuple(findings)
    )


def _name(reference: Reference) -> str:
    return f"reference {reference.name!r}"


def _types(data: Experience) -> Iterator[Finding]:
    """Types that nobody has, and relations that never hold."""
    seen = {*data.types.tolist()} | {*(data.arrivals_types().tolist())}
    for code, name in enumerate(data.domain.types):
        if code not in seen:
            text = "there is no object of it in these data"
            yield Finding(f"type {name!r}", text, "Collect some, or leave it out: nothing can be learned of it", False)
    for name, lists in data.pairs.items():
        if not lists.total and not (name in data.next_pairs and data.next_pairs[name].total):
            yield Finding(f"relation {name!r}", "it never holds", "Check how it was read, or leave it out", False)


def _properties(data: Experience) -> Iterator[Finding]:
    held = data.held
    for column, prop in enumerate(data.domain.properties):
        mine = held[:, column]
        seen = np.stack([data.values[mine, column], data.next_values[mine, column]]).astype(np.float64)
        subject, changes = f"property {prop.name!r}", np.abs(seen[1] - seen[0])
        if not mine.any() or (prop.name == TYPE and data.domain.types):
            continue
        if np.ptp(seen) == 0:
            yield Finding(
                subject, f"it is always {seen[0, 0]:g}", "Leave it out: it does not tell objects apart", False
            )
        elif not prop.static and not changes.any():
            advice = "Declare it static=True: it is then an input, and no prediction is wasted on it"
            yield Finding(subject, "it never changes", advice, False)
        elif prop.resolution is not None and not prop.static and changes.max() < prop.resolution:
            text = f"no change is larger than its resolution {prop.resolution:g} (the largest is {changes.max():.3g})"
            yield Finding(subject, text, "Lower the resolution, or nothing can be learned about it", False)
        if type(prop.kind) is not Real:
            continue
        full = next((one for one in (2 * np.pi, 360.0) if 0.9 * one < np.ptp(seen) < 1.01 * one), None)
        if prop.period is None and full is not None and changes.max() > 0.9 * full:
            text = f"its values span almost {full:.4g} and it sometimes changes by {changes.max():.3g}"
            yield Finding(subject, text, f"If it is an angle, declare period={full:.6g}", False)
        step = spacing(seen, data.values.dtype.type)
        if not prop.static and prop.resolution is not None and step > prop.resolution:
            bits = 8 * data.values.itemsize
            text = f"it reaches {np.abs(seen).max():.3g}, where {bits}-bit numbers are {step:.2g} apart"
            advice = "Subtract an offset" if data.double else "Give it in 64-bit numbers"
            yield Finding(subject, text, f"{advice}, or raise the resolution", False)


def _actions(data: Experience) -> Iterator[Finding]:
    for index, action in enumerate(data.domain.actions):
        rows = data.action == index
        subject = f"action {action.name!r}"
        if not rows.any():
            yield Finding(
                subject, "it never occurs", "Collect data for it, or leave it out: no rule can be learned", False
            )
            continue
        for k, parameter in enumerate(action.parameters):
            seen = data.parameters[rows, k]
            if len(seen) > 1 and np.ptp(seen) == 0:
                yield Finding(
                    subject, f"parameter {parameter!r} is always {seen[0]:g}", "Vary it, or leave it out", False
                )
        moved = data.next_values != data.values
        if not np.add.reduceat(moved.any(axis=1).astype(int), data.offsets[:-1])[rows].any():
            yield Finding(subject, "nothing ever changes after it", "Check that next states are not the states", False)


def _frames(data: Experience) -> Iterator[Finding]:
    """Directions that are declared as positions: of another unit, or not moving with the frame's origin."""
    domain = data.domain
    for index, action in enumerate(domain.actions):
        rows = np.flatnonzero(data.action == index)
        if action.frame is None or not len(rows):
            continue
        mine = data[rows]
        places = mine.values[mine.offsets[:-1, None] + mine.objects[:, : len(action.objects)]].astype(np.float64)
        with precision(double=mine.double):
            origin = domain.poses(action, places.astype(mine.values.dtype), mine.parameters).origin
        groups = [group for group in action.frame.positions if {*group} <= {*domain.property_names}]
        units = [tuple(domain.property(name).unit for name in group[:2]) for group in groups]
        for group, unit in zip(groups, units, strict=True):
            columns = [domain.property_names.index(name) for name in group[:2]]
            text = None
            if unit != units[0]:
                text = f"its position {', '.join(group)} is in {unit[0]!r}, the first position in {units[0][0]!r}"
            elif group != groups[0] and not _moves_with(places[:, :, columns], origin):
                text = f"its position {', '.join(group)} does not move with the frame's origin"
            if text:
                advice = "If it is a velocity, a force or an offset, name it in Frame(directions=...)"
                yield Finding(f"action {action.name!r}", text, advice, False)


def _moves_with(places: np.ndarray, origin: np.ndarray) -> bool:
    """Whether places (n, roles, 2) of the action's objects are correlated with the origin (n, 3) along an axis."""
    if len(places) < FEW:
        return True
    for role in range(places.shape[1]):
        for axis in range(2):
            here, there = places[:, role, axis], origin[:, axis]
            if min(np.ptp(here), np.ptp(there)) > 0 and abs(np.corrcoef(here, there)[0, 1]) > CORRELATED:
                return True
    return not (np.ptp(origin, axis=0) > 0).any()


class _Answers(NamedTuple):
    """(n, T, N) who was found, and among whom; whether another order of objects changed that; seconds per state."""

    found: np.ndarray
    others: np.ndarray
    ordered: bool
    seconds: float


def _ask(reference: Reference, data: Experience, seed: int) -> _Answers:
    """Evaluate one reference from the action's objects and from random tuples, twice, and once reordered."""
    rng = np.random.default_rng(seed)
    counts = data.counts
    chosen = rng.integers(0, counts[:, None, None], (len(data), TUPLES, reference.arity))
    roles = data.objects[:, np.arange(reference.arity) % max(1, min(data.domain.roles, reference.arity))]
    chosen[:, 0] = np.where(roles < 0, chosen[:, 0], roles)
    size = int(counts.max())
    ask = jax.jit(jax.vmap(_asker(reference, data.domain)))
    scenes = _padded(data, size)
    found = np.asarray(ask(scenes, chosen))
    begin = time.perf_counter()
    np.asarray(ask(scenes, chosen))
    seconds = (time.perf_counter() - begin) / len(data)
    other, rows = shuffled(data, seed)
    local = rows - np.repeat(data.offsets[:-1], counts)
    ordered = False
    again = _padded(other, size)
    orders = np.split(local, data.offsets[1:-1])
    places = np.stack([np.argsort(order)[tuple_] for order, tuple_ in zip(orders, chosen, strict=True)])
    turned = np.asarray(ask(again, places))
    for i, order in enumerate(orders):
        ordered |= not np.array_equal(turned[i][:, : len(order)], found[i][:, order])
    others = scenes.valid[:, None, :] & ~(chosen[..., None] == np.arange(size)).any(axis=2)
    return _Answers(found, others, ordered, seconds)


def _asker(reference: Reference, domain: Domain) -> Any:
    action = domain.actions[0] if len(domain.actions) == 1 else None

    def one(scene: Scene, tuples: Any) -> Any:
        view = domain.view(action, scene.values, scene.valid, scene.parameters, scene.pairs)
        arguments = tuple(tuples[:, k] for k in range(reference.arity))
        if not arguments:
            return jnp.broadcast_to(reference.relation.pick(view, ()), (TUPLES, *view.valid.shape))
        return jax.vmap(lambda *chosen: reference.relation.pick(view, chosen))(*arguments)

    return one


def _padded(data: Experience, size: int) -> Scene:
    values = np.zeros((len(data), size, len(data.domain.properties)), data.values.dtype)
    valid = np.arange(size) < data.counts[:, None]
    values[valid] = data.values
    rows = np.arange(len(data))
    pairs = {name: padded_pairs(lists, rows, len(data)) for name, lists in data.pairs.items()} or None
    return Scene(values, valid, data.action, data.objects, data.parameters, pairs)


def _reference(reference: Reference, answers: dict[str, _Answers]) -> Iterator[Finding]:
    mine, subject = answers[reference.name], _name(reference)
    if mine.ordered:
        yield Finding(
            subject, "it depends on the order of objects", "Let formulas use properties only, never positions"
        )
    if not mine.found.any():
        yield Finding(subject, "it never finds anything", "Check its formula and its units, or leave it out", False)
        return
    if np.array_equal(mine.found, mine.others):
        yield Finding(subject, "it always finds every other object", "Make it choose, or leave it out", False)
    for name, other in answers.items():
        if name == reference.name:
            break
        if mine.found.shape == other.found.shape and np.array_equal(mine.found, other.found):
            text = f"it always finds the same as {name!r}"
            yield Finding(subject, text, "Leave one of them out: a search tries both", False)
            break
    quickest = min(one.seconds for one in answers.values())
    if mine.seconds > SLOW_SECONDS and mine.seconds > SLOW_TIMES * quickest:
        text = f"it takes {1e3 * mine.seconds:.2g} ms per state, {mine.seconds / quickest:.0f} times the quickest"
        yield Finding(subject, text, "Inverses of closest and of combinations ask every object: write a formula", False)
