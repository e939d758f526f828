"""Fingerprints of formulas, as a model file carries them: so that a model is not used with other formulas unnoticed.

A fingerprint says the same thing in two ways:

1. `program`  the digest of the traced program (`traces.trace`), exact, and comparable under the same versions of JAX
              and Python, which stand beside it. There any other program is another formula.
2. `probe`    what the formula answers on fixed made-up scenes: comparable under all versions. A reference has a digest
              of the masks that it selects in 2,048 scenes of six objects: whole numbers, which tie and touch; one
              scale for everything, from 1e-4 to 1e3; and a scale for each property. That notices a threshold that
              changes by a tenth. Frames and kinds have numbers, which may differ by rounding.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spare.arrays import array_module
from spare.language.domain import Action, Domain
from spare.language.kinds import Kind
from spare.language.references import Reference
from spare.language.traces import DIGITS, versions

SCENES, OBJECTS, TUPLES = 2048, 6, 36
FEW = 16
"""Scenes of which a frame's pose is kept."""
TOLERANCE = 1e-3
_OPTIONS = {"xla_backend_optimization_level": 0}

Fingerprints = dict[str, Any]


def fingerprints(domain: Domain, references: Iterable[str], frames: Iterable[str]) -> Fingerprints:
    """JSON values: the versions, and a program and a probe of these references, of these actions' frames, of kinds."""
    programs = domain.programs
    return {
        "versions": versions(),
        "references": {n: {"program": programs.references[n], "probe": _masks(domain, n)} for n in references},
        "frames": {n: {"program": programs.frames[n], "probe": _poses(domain, n)} for n in frames},
        "kinds": {n: {"program": one, "probe": _densities(domain, n)} for n, one in programs.kinds.items()},
    }


def differences(stored: Fingerprints, domain: Domain) -> list[str]:
    """What computes something else in this domain than where the fingerprints were taken, one phrase each."""
    exact, programs = stored["versions"] == versions(), domain.programs
    kinds: tuple[tuple[str, str, Mapping[str, str], Callable[[Domain, str], Any]], ...] = (
        ("references", "reference", programs.references, _masks),
        ("frames", "the frame of action", programs.frames, _poses),
        ("kinds", "the kind of property", programs.kinds, _densities),
    )
    found = []
    for key, what, mine, probe in kinds:
        for name, one in stored[key].items():
            same = name in mine and one["program"] == mine[name]
            if not same and (exact or name not in mine or not _alike(one["probe"], probe(domain, name))):
                found.append(f"{what} {name!r}")
    return found


def _alike(one: Any, other: Any) -> bool:
    """Equal digests, or numbers that are equal but for rounding."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return len(one) == len(other) and bool(np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE))


@functools.lru_cache(maxsize=512)
def _masks(domain: Domain, name: str) -> str:
    """A digest of whom a reference selects from tuples of objects; in every action, if it may read parameters."""
    reference, digest = domain.reference(name), hashlib.sha256()
    for action in domain.actions if domain.reads_parameters(reference) else (None,):
        digest.update(np.packbits(_selected(domain, reference, action)).tobytes())
    return digest.hexdigest()[:DIGITS]


def _selected(domain: Domain, reference: Reference, action: Action | None) -> np.ndarray:
    """(scenes, tuples, objects): who is selected from each of the first tuples of objects."""
    values, parameters = _scenes(len(domain.properties), domain.parameters)
    values, pairs = _plausible(domain, values), _pairs(domain)
    chosen = list(itertools.islice(itertools.product(range(OBJECTS), repeat=reference.arity), TUPLES))
    tuples = np.array(chosen, np.int32)

    def one(values: Any, parameters: Any) -> Any:
        view = domain.view(action, values, jnp.ones(OBJECTS, bool), parameters, pairs)
        return jax.vmap(lambda row: reference.relation.pick(view, tuple(row)))(tuples)

    return _run(jax.vmap(one), values, parameters)


@functools.lru_cache(maxsize=64)
def _poses(domain: Domain, name: str) -> list[float]:
    """Origin, cos and sin of the heading in a few scenes, each divided by the size of what is in the scene."""
    action = domain.action(name)
    values, parameters = _scenes(len(domain.properties), domain.parameters)
    values = _plausible(domain, values)
    some = np.linspace(0, SCENES - 1, FEW).astype(int)
    roles, given = values[some][:, np.arange(len(action.objects)) % OBJECTS], parameters[some]

    def one(roles: Any, given: Any) -> Any:
        pose = domain.pose(action, roles, given)
        turn = [] if pose.heading is None else [jnp.cos(pose.heading), jnp.sin(pose.heading)]
        size = 1.0 + jnp.abs(roles).max() + jnp.abs(given).max(initial=0.0)
        return jnp.concatenate([pose.origin / size, jnp.stack(turn)] if turn else [pose.origin / size])

    return _numbers(_run(jax.vmap(one), roles, given))


def _plausible(domain: Domain, values: np.ndarray) -> np.ndarray:
    """The same scenes with codes, rows and Booleans where properties are such, and 0 for what objects do not have."""
    if domain.plain:
        return values
    found = np.stack([p.kind.plausible(values[..., k]) for k, p in enumerate(domain.properties)], axis=-1)
    return np.where(domain.held(found), found, 0.0).astype(np.float32)


def _pairs(domain: Domain) -> dict[str, np.ndarray]:
    """Made-up pairs of each stored relation, the same in every scene: a ring, and one that is missing."""
    ring = np.stack([np.arange(OBJECTS), (np.arange(OBJECTS) + 1) % OBJECTS], axis=1).astype(np.int32)
    return {one.name: np.concatenate([ring[k % 2 :], [[-1, -1]]]) for k, one in enumerate(domain.relations)}


@functools.lru_cache(maxsize=64)
def _densities(domain: Domain, name: str) -> list[float]:
    """What a network sees of a few values of a property, their log density, and that of a few changes."""
    kind = domain.property(name).kind
    values = np.array([0.0, 1.0, 0.3, -2.0, 5.0], np.float32)

    def all_of(values: Any) -> Any:
        return jnp.stack([jnp.asarray(part, jnp.float32) for part in _answers(kind, values)])

    return _numbers(_run(all_of, values))


def _answers(kind: Kind, values: Any) -> tuple[Any, ...]:
    xp = array_module(values)
    location, variance = xp.full_like(values, 0.4), xp.full_like(values, 0.7)
    density = kind.leaf.log_density(values, location, variance)
    return *kind.encode(values), density, kind.leaf.stay_log_density(values, variance)


def _numbers(found: np.ndarray) -> list[float]:
    """Numbers that JSON has, to six digits."""
    flat = np.nan_to_num(found.astype(np.float64).reshape(-1), nan=-1e9, posinf=1e9, neginf=-1e9)
    return [float(f"{number:.6g}") for number in flat]


def _run(function: Callable[..., Any], *arguments: np.ndarray) -> np.ndarray:
    """The function on the processor in 32-bit numbers, whatever this process uses otherwise."""
    with jax.enable_x64(False), jax.default_device(jax.local_devices(backend="cpu")[0]):
        return np.asarray(jax.jit(function, compiler_options=_OPTIONS)(*arguments))


@functools.lru_cache(maxsize=8)
def _scenes(properties: int, parameters: int) -> tuple[np.ndarray, np.ndarray]:
    """Made-up values (scenes, objects, properties) and parameters (scenes, parameters), the same everywhere.

    `RandomState` is frozen: no version of NumPy may change what it draws. Every other scene has no negative numbers,
    as sizes have none.
    """
    draw = np.random.RandomState(20190507).random_sample
    width = OBJECTS * properties + parameters
    uniform, whole, owner = draw((SCENES, width)), draw((SCENES, width)), np.arange(width)
    column = np.where(owner < OBJECTS * properties, owner % max(1, properties), owner)
    together, alone = 10.0 ** (7 * draw((SCENES, 1)) - 4), 10.0 ** (5 * draw((SCENES, width)) - 3)
    signed = np.where(np.arange(SCENES)[:, None] % 2 == 0, uniform, 2 * uniform - 1)
    kinds = np.arange(SCENES)[:, None] % 6 // 2
    found = np.select([kinds == 0, kinds == 1], [np.floor(4 * whole), together * signed], alone[:, column] * signed)
    found = found.astype(np.float32)
    return found[:, : OBJECTS * properties].reshape(SCENES, OBJECTS, properties), found[:, OBJECTS * properties :]
