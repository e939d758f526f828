"""An action's frame: the coordinates in which its effect looks the same wherever it happens.

A frame has an origin and a heading, computed from the action's objects and parameters. Positions enter it by a shift
and a rotation, changes by the rotation alone. Rotations have unit Jacobian, so densities stay comparable.
Everything here works on arrays of numpy and of JAX alike; leading axes are batches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from spare.errors import DefinitionError
from spare.language.domain import Action, Domain
from spare.language.relations import Objects


class Placed(NamedTuple):
    """A frame in one scene (or, with leading axes, in many): origin (..., 3) and heading (...)."""

    origin: Any
    heading: Any


def place(domain: Domain, action: Action, roles: Any, parameters: Any) -> Placed:
    """The action's frame for role objects (roles, P) and parameters (d,) of one scene."""
    frame = action.frame
    if frame is None:
        raise DefinitionError(f"action {action.name!r} has no frame")
    objects = [Objects(domain.property_names, roles[k]) for k in range(len(action.objects))]
    given = SimpleNamespace(**{name: parameters[k] for k, name in enumerate(action.parameters)})
    origin = [jnp.asarray(part, roles.dtype) for part in frame.origin(*objects, given)]
    origin += [jnp.zeros((), roles.dtype)] * (3 - len(origin))
    return Placed(jnp.stack(origin[:3]), jnp.asarray(frame.heading(*objects, given), roles.dtype))


def place_all(domain: Domain, action: Action, roles: np.ndarray, parameters: np.ndarray) -> Placed:
    """The same for n scenes at once, as float64 arrays on the host."""
    placed = _placer(domain, action)(roles, parameters)
    return Placed(np.asarray(placed.origin, np.float64), np.asarray(placed.heading, np.float64))


@functools.lru_cache(maxsize=64)
def _placer(domain: Domain, action: Action) -> Callable[..., Placed]:
    """The compiled function of one action's frame, kept so that it is compiled once."""
    return jax.jit(jax.vmap(lambda r, p: place(domain, action, r, p)))


def groups(names: tuple[str, ...], vectors: tuple[tuple[str, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Column numbers of the groups whose first two coordinates are all among `names`; an angle is a group of one."""
    return tuple(tuple(names.index(n) for n in group if n in names) for group in vectors if set(group[:2]) <= {*names})


def _turn(values: Any, columns: tuple[tuple[int, ...], ...], placed: Placed, sign: float) -> Any:
    """Rotate the first two coordinates of each position, and each angle, by sign * heading."""
    module = np if isinstance(values, np.ndarray) else jnp
    cos, sin = module.cos(placed.heading), sign * module.sin(placed.heading)
    parts = [values[..., k] for k in range(values.shape[-1])]
    for group in columns:
        if len(group) == 1:
            parts[group[0]] = parts[group[0]] + sign * placed.heading
            continue
        x, y = parts[group[0]], parts[group[1]]
        parts[group[0]], parts[group[1]] = cos * x - sin * y, sin * x + cos * y
    return module.stack(parts, axis=-1)


def _shift(values: Any, columns: tuple[tuple[int, ...], ...], placed: Placed, sign: float) -> Any:
    module = np if isinstance(values, np.ndarray) else jnp
    parts = [values[..., k] for k in range(values.shape[-1])]
    for group in columns:
        for axis, column in enumerate(group if len(group) > 1 else ()):
            parts[column] = parts[column] + sign * placed.origin[..., axis]
    return module.stack(parts, axis=-1)


def enter(values: Any, columns: tuple[tuple[int, ...], ...], placed: Placed) -> Any:
    """Positions from the world into the frame: R(-heading) (v - origin)."""
    return _turn(_shift(values, columns, placed, -1.0), columns, placed, -1.0)


def leave(values: Any, columns: tuple[tuple[int, ...], ...], placed: Placed) -> Any:
    """Positions from the frame into the world: R(heading) v + origin."""
    return _shift(_turn(values, columns, placed, 1.0), columns, placed, 1.0)


def leave_variances(variances: Any, columns: tuple[tuple[int, ...], ...], placed: Placed) -> Any:
    """Diagonal of R diag(variances) R^T: variances along the world's axes of values independent in the frame."""
    cos2, sin2 = jnp.square(jnp.cos(placed.heading)), jnp.square(jnp.sin(placed.heading))
    parts = [variances[..., k] for k in range(variances.shape[-1])]
    for group in columns:
        if len(group) == 1:
            continue
        x, y = parts[group[0]], parts[group[1]]
        parts[group[0]], parts[group[1]] = cos2 * x + sin2 * y, sin2 * x + cos2 * y
    return jnp.stack(parts, axis=-1)


QUARTER = np.pi / 2


def quarters(heading: Any) -> Any:
    """How many quarter turns bring the heading within 45 degrees of 0."""
    module = np if isinstance(heading, np.ndarray) else jnp
    return module.round(heading / QUARTER)


def swapped(values: Any, turned: Any, pairs: tuple[tuple[int, ...], ...]) -> Any:
    """Sizes along the world's axes after so many quarter turns: an odd number swaps the two columns of each pair."""
    module = np if isinstance(values, np.ndarray) else jnp
    odd, parts = turned % 2 == 1, [values[..., k] for k in range(values.shape[-1])]
    for a, b in pairs:
        parts[a], parts[b] = module.where(odd, parts[b], parts[a]), module.where(odd, parts[a], parts[b])
    return module.stack(parts, axis=-1)


HARMONICS = 4
"""cos and sin of 1, 2, 3 and 4 times the heading are inputs.

Shapes that do not turn with the frame, such as boxes along the world's axes, look the same after a quarter or half
turn, and what a push does to them changes sign four times around. A small network does not find that in the heading's
own cos and sin, however long it is trained, and finds it at once in those of its multiples.
"""


def turns(heading: Any) -> Any:
    """(cos h, sin h, cos 2h, sin 2h, ...) along a new last axis."""
    module = np if isinstance(heading, np.ndarray) else jnp
    return module.stack([f(k * heading) for k in range(1, HARMONICS + 1) for f in (module.cos, module.sin)], axis=-1)


def turn_names() -> tuple[str, ...]:
    """What the entries of `turns` are called."""
    times = ["heading", *(f"{k} heading" for k in range(2, HARMONICS + 1))]
    return tuple(f"{name}({one})" for one in times for name in ("cos", "sin"))


def mirrored(values: np.ndarray, columns: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """y -> -y in the frame, for every position; an angle changes its sign."""
    result = values.copy()
    for group in columns:
        result[..., group[min(1, len(group) - 1)]] *= -1.0
    return result
