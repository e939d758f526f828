"""Action templates A(alpha, o): named object roles, with types, and parameters, with kinds."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from spare.arguments import check_kind, named
from spare.arrays import array_module
from spare.errors import DefinitionError, one_of
from spare.language.frames import Frame
from spare.language.kinds import Kind, Real
from spare.language.properties import REAL
from spare.language.types import Parameter, roles_and_types
from spare.names import check_identifier, check_label, check_unique


@named
@dataclasses.dataclass(frozen=True)
class Action:
    """A(alpha, o): an action template with named object roles and parameters.

    `objects` names the roles, or says of which type each is: `{"block": "block", "to": ("table", "block")}`; there may
    be none. `parameters` are names of real numbers, or `Parameter(name, kind)`. After construction both are
    names alone, `role_types` has the types that each role may have (empty: any), and `kinds` the parameters' kinds.
    """

    name: str
    objects: Any = ()
    parameters: Any = ()
    frame: Frame | None = None
    role_types: tuple[tuple[str, ...], ...] = ()
    kinds: tuple[Kind, ...] = ()

    def __post_init__(self) -> None:
        check_label("action", self.name)
        owner = f"action {self.name!r}"
        roles, types = roles_and_types(owner, self.objects)
        several = tuple(self.parameters) if isinstance(self.parameters, tuple | list) else ()
        named = [one.name if isinstance(one, Parameter) else one for one in several]
        names = check_unique("parameter", named if several else self.parameters, owner)
        kinds = tuple(one.kind if isinstance(one, Parameter) else REAL for one in several) or (REAL,) * len(names)
        object.__setattr__(self, "objects", roles)
        object.__setattr__(self, "parameters", names)
        object.__setattr__(self, "role_types", self.role_types or types)
        object.__setattr__(self, "kinds", self.kinds or kinds)
        for role in self.objects:
            check_identifier("object role", role)
        for parameter in self.parameters:
            check_identifier("parameter", parameter)
        if self.frame is not None:
            check_kind(f"action {self.name!r}, frame", self.frame, Frame, "or leave it out", DefinitionError)
        if self.frame is not None and isinstance(self.frame.origin, str) and self.frame.origin not in self.objects:
            raise DefinitionError(
                f"action {self.name!r}: frame origin: {one_of('role', self.frame.origin, self.objects)}"
            )

    @functools.cached_property
    def inputs(self) -> tuple[str, ...]:
        """What networks see of the parameters: their names, and `gear=low`, `gear=high` of a category."""
        pairs = zip(self.parameters, self.kinds, strict=True)
        return tuple(entry for name, kind in pairs for entry in kind.names(name))

    def encode(self, parameters: Any) -> Any:
        """The numbers of `inputs` along the last axis, for parameters (..., d)."""
        if all(type(kind) is Real for kind in self.kinds):
            return parameters
        parts = [part for k, kind in enumerate(self.kinds) for part in kind.encode(parameters[..., k])]
        return array_module(parameters).stack(parts, axis=-1)

    def schema(self) -> dict[str, Any]:
        """As JSON values; types and kinds where there are any."""
        found: dict[str, Any] = {"name": self.name, "objects": [*self.objects], "parameters": [*self.parameters]}
        if any(self.role_types):
            found["types"] = [[*names] for names in self.role_types]
        if any(kind != REAL for kind in self.kinds):
            found["kinds"] = [kind.schema() for kind in self.kinds]
        return found
