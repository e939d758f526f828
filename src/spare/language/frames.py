"""An action's frame: the coordinates in which its effect looks the same wherever it happens.

A frame has an origin and, unless it only shifts, a heading, both computed from the action's objects and parameters.

    positions    shifted and turned: R(-heading) (v - origin)
    directions   turned only: velocities, forces
    angles       the heading is subtracted

Changes of position are turned alone. Rotations and shifts have unit Jacobian, so densities stay comparable.
Everything here works on arrays of NumPy and of JAX alike; leading axes are batches.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from spare.arguments import check_sequence, described, named
from spare.arrays import array_module
from spare.errors import DefinitionError, one_of
from spare.language.checks import asked, check_number, check_place
from spare.language.relations import Objects

Groups = tuple[tuple[str, ...], ...]
Columns = tuple[tuple[int, ...], ...]


class FramePose(NamedTuple):
    """A frame in one scene (or, with leading axes, in many): origin (..., 3), heading (...) or None if it has none."""

    origin: Any
    heading: Any

    def at(self, rows: np.ndarray) -> FramePose:
        """The poses of these rows of a batch."""
        return FramePose(self.origin[rows], None if self.heading is None else self.heading[rows])


class _Given(SimpleNamespace):
    """The action's parameters by attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying and debugging tools fall through
            raise AttributeError(name)
        raise DefinitionError(one_of("parameter", name, vars(self)))


class FrameColumns(NamedTuple):
    """Which columns of an array are positions, directions (groups of two or three each) and angles (groups of one)."""

    positions: Columns
    directions: Columns
    angles: Columns


@named
@dataclasses.dataclass(frozen=True)
class Frame:
    """(origin, heading) of an action: the coordinates in which its effect looks the same everywhere.

    `origin`      takes one object per role and then the action's parameters (as attributes) and returns a tuple of
                  coordinates; or the name of a role: the origin is at that object
    `heading`     takes the same and returns an angle in radians; None: the frame only shifts
    `positions`   groups of two or three properties, or of parameters, that are places: shifted, and the first two
                  turned with the heading
    `directions`  groups that are velocities, forces or offsets: turned, never shifted
    `angles`      properties or parameters that are directions in the plane, in radians: the heading is subtracted
    `mirror`      the world is the same after y -> -y in the frame
    `extents`     pairs of properties that are sizes along the world's x and y axes: the world is the same after a
                  quarter turn in which the two swap
    """

    origin: Callable[..., tuple[Any, ...]] | str
    heading: Callable[..., Any] | None = None
    positions: Groups = ()
    directions: Groups = ()
    angles: tuple[str, ...] = ()
    mirror: bool = False
    extents: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.origin, str) and not callable(self.origin):
            raise DefinitionError(f"frame: the origin is a role's name or a function, got {described(self.origin)}")
        if self.heading is not None and not callable(self.heading):
            raise DefinitionError(f"frame: the heading is a function or None, got {described(self.heading)}")
        if not isinstance(self.mirror, bool | np.bool_):
            raise DefinitionError(f"frame: mirror must be True or False, got {described(self.mirror)}")
        for name, kind, example in (
            ("positions", "groups of 2 or 3 coordinates", "(('x', 'y'),)"),
            ("directions", "groups of 2 or 3 coordinates", "(('vx', 'vy'),)"),
            ("extents", "pairs, the sizes along x and along y", "(('width', 'length'),)"),
        ):
            groups = check_sequence(f"frame, {name}", getattr(self, name), example)
            for group in groups:
                if isinstance(group, str) or len(check_sequence(f"frame, {name}", group, example)) not in (
                    (2,) if name == "extents" else (2, 3)
                ):
                    raise DefinitionError(f"frame: {name} are {kind}, such as {example}, got {group!r}")
            object.__setattr__(self, name, tuple(tuple(group) for group in groups))
        object.__setattr__(self, "angles", check_sequence("frame, angles", self.angles, "('yaw',)"))
        if not self.positions:
            raise DefinitionError("frame: name at least one group of properties that is a position")
        if self.heading is None and (self.extents or self.angles or self.directions):
            raise DefinitionError("frame: directions, angles and extents turn with a heading; this frame has none")

    def describe(self) -> str:
        """All that the frame declares, without its formulas, in one line of JSON."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return json.dumps({name: value for name, value in given.items() if not callable(value)}, sort_keys=True)

    def columns(self, names: Sequence[str]) -> FrameColumns:
        """The groups whose first two coordinates are all among `names`, as column numbers."""

        def found(groups: Groups) -> Columns:
            known = {*names}
            return tuple(tuple(names.index(n) for n in one if n in known) for one in groups if {*one[:2]} <= known)

        return FrameColumns(found(self.positions), found(self.directions), found(tuple((n,) for n in self.angles)))

    def pairs(self, names: Sequence[str]) -> Columns:
        """The columns of the extents."""
        return tuple((names.index(a), names.index(b)) for a, b in self.extents if a in names and b in names)

    def pose(self, names: tuple[str, ...], roles: dict[str, Any], parameters: dict[str, Any]) -> FramePose:
        """The pose in one scene, from the values (P,) of each role's object and the action's parameters by name."""
        objects, given = [Objects(names, values) for values in roles.values()], _Given(**parameters)
        kind = next(iter(roles.values())).dtype
        if isinstance(self.origin, str):
            place = Objects(names, roles[self.origin])
            found = tuple(place[name] for name in self.positions[0])
        else:
            found = check_place(asked(self.origin, *objects, given))
        origin = [jnp.asarray(part, kind) for part in found]
        origin += [jnp.zeros((), kind)] * (3 - len(origin))
        heading = None
        if self.heading is not None:
            heading = jnp.asarray(check_number(asked(self.heading, *objects, given), "the heading"), kind)
        return FramePose(jnp.stack(origin[:3]), heading)


def _parts(values: Any) -> list[Any]:
    return [values[..., k] for k in range(values.shape[-1])]


def _turn(values: Any, columns: FrameColumns, pose: FramePose, sign: float) -> Any:
    """Rotate the first two coordinates of positions and directions, and each angle, by sign * heading."""
    if pose.heading is None:
        return values
    xp = array_module(values)
    cos, sin, parts = xp.cos(pose.heading), sign * xp.sin(pose.heading), _parts(values)
    for group in (*columns.positions, *columns.directions):
        x, y = parts[group[0]], parts[group[1]]
        parts[group[0]], parts[group[1]] = cos * x - sin * y, sin * x + cos * y
    for (column,) in columns.angles:
        parts[column] = parts[column] + sign * pose.heading
    return xp.stack(parts, axis=-1) if parts else values


def _shift(values: Any, columns: FrameColumns, pose: FramePose, sign: float) -> Any:
    parts = _parts(values)
    for group in columns.positions:
        for axis, column in enumerate(group):
            parts[column] = parts[column] + sign * pose.origin[..., axis]
    return array_module(values).stack(parts, axis=-1) if parts else values


def to_frame(values: Any, columns: FrameColumns, pose: FramePose) -> Any:
    """World to frame: positions R(-heading) (v - origin), directions R(-heading) v, angles v - heading."""
    return _turn(_shift(values, columns, pose, -1.0), columns, pose, -1.0)


def from_frame(values: Any, columns: FrameColumns, pose: FramePose) -> Any:
    """Frame to world: positions R(heading) v + origin, directions R(heading) v, angles v + heading."""
    return _shift(_turn(values, columns, pose, 1.0), columns, pose, 1.0)


def variances_from_frame(variances: Any, columns: FrameColumns, pose: FramePose) -> Any:
    """Diagonal of R diag(variances) R^T: variances along the world's axes of values independent in the frame."""
    if pose.heading is None:
        return variances
    xp = array_module(variances)
    cos2, sin2, parts = xp.square(xp.cos(pose.heading)), xp.square(xp.sin(pose.heading)), _parts(variances)
    for group in (*columns.positions, *columns.directions):
        x, y = parts[group[0]], parts[group[1]]
        parts[group[0]], parts[group[1]] = cos2 * x + sin2 * y, sin2 * x + cos2 * y
    return xp.stack(parts, axis=-1)


def mirrored(values: np.ndarray, columns: FrameColumns) -> np.ndarray:
    """y -> -y in the frame, for every position and direction; an angle changes its sign."""
    result = values.copy()
    for group in (*columns.positions, *columns.directions):
        result[..., group[1]] *= -1.0
    for (column,) in columns.angles:
        result[..., column] *= -1.0
    return result


QUARTER = np.pi / 2


def quarters(heading: Any) -> Any:
    """How many quarter turns bring the heading within 45 degrees of 0."""
    return array_module(heading).round(heading / QUARTER)


def swapped(values: Any, turned: Any, pairs: Columns) -> Any:
    """Sizes along the world's axes after so many quarter turns: an odd number swaps the two columns of each pair."""
    xp, odd, parts = array_module(values), turned % 2 == 1, _parts(values)
    for a, b in pairs:
        parts[a], parts[b] = xp.where(odd, parts[b], parts[a]), xp.where(odd, parts[a], parts[b])
    return xp.stack(parts, axis=-1)


HARMONICS = 4
"""cos and sin of 1, 2, 3 and 4 times the heading are inputs.

Shapes that do not turn with the frame, such as boxes along the world's axes, look the same after a quarter or half
turn, and what a push does to them changes sign four times around. A small network does not find that in the heading's
own cos and sin, however long it is trained, and finds it at once in those of its multiples.
"""


def harmonics(heading: Any) -> Any:
    """(cos h, sin h, cos 2h, sin 2h, ...) along a new last axis."""
    xp = array_module(heading)
    return xp.stack([f(k * heading) for k in range(1, HARMONICS + 1) for f in (xp.cos, xp.sin)], axis=-1)


def harmonic_names() -> tuple[str, ...]:
    """What the entries of `harmonics` are called."""
    times = ["heading", *(f"{k} heading" for k in range(2, HARMONICS + 1))]
    return tuple(f"{name}({one})" for one in times for name in ("cos", "sin"))
