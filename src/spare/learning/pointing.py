"""Who each pointer finds in each transition, for a whole experience at once.

A slot is identified by its expression: a role number, or a reference applied to expressions, such as
`("above", (("above", (0,)),))`. Shells that share an expression share its mask, so a search evaluates each
expression once. Masks are flat: one Boolean per object row of the experience.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

from spare.batches import Batch, positions_within
from spare.domain import Domain
from spare.experience import Experience
from spare.references import Pointer, Shell
from spare.relations import Objects

Expression = int | tuple[str, tuple[Any, ...]]


def expressions(shell: Shell) -> tuple[Expression, ...]:
    """What each slot of a shell stands for, in terms of the action's objects."""
    slots: list[Expression] = list(range(shell.roles))
    for pointer in shell:
        slots.append((pointer.reference, tuple(slots[k] for k in pointer.arguments)))
    return tuple(slots)


# These programs run for milliseconds, once per search: optimising them costs more than it gives.
@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options={"xla_backend_optimization_level": 0})
def _select(domain: Domain, reference: str, values: Any, valid: Any, arguments: Any) -> Any:
    relation = domain.reference(reference).relation

    def one(values: Any, valid: Any, arguments: Any) -> Any:
        return relation.select(Objects(domain.property_names, values), valid, tuple(arguments))

    return jax.vmap(one)(values, valid, arguments)


class Pointing:
    """Masks of slot expressions over an experience of one action, computed on demand and kept."""

    def __init__(self, experience: Experience, roles: int) -> None:
        self.experience = experience
        self.roles = roles
        self._batches: list[tuple[Batch, np.ndarray]] = []
        self._masks: dict[Expression, np.ndarray] = {}
        for batch in experience.batches():
            chosen = batch.index[batch.index >= 0]
            counts = experience.counts[chosen]
            self._batches.append((batch, np.repeat(experience.offsets[chosen], counts) + positions_within(counts)))

    def mask(self, expression: Expression) -> np.ndarray:
        """Which object rows the expression selects, (total,) bool."""
        if expression not in self._masks:
            found = self._role(expression) if isinstance(expression, int) else self._reference(*expression)
            found.flags.writeable = False
            self._masks[expression] = found
        return self._masks[expression]

    def masks(self, shell: Shell) -> np.ndarray:
        """One mask per slot, (slots, total)."""
        return np.stack([self.mask(expression) for expression in expressions(shell)])

    def after(self, shell: Shell, pointer: Pointer) -> np.ndarray:
        """What one more pointer would find."""
        return self.mask(expressions(shell.extend(pointer))[-1])

    def held(self, masks: np.ndarray) -> np.ndarray:
        """How many objects each slot holds in each transition, (slots, transitions)."""
        return np.add.reduceat(masks.astype(np.int64), self.experience.offsets[:-1], axis=-1)

    def _role(self, role: int) -> np.ndarray:
        mask = np.zeros(len(self.experience.values), bool)
        mask[self.experience.offsets[:-1] + self.experience.objects[:, role]] = True
        return mask

    def _reference(self, name: str, arguments: tuple[Expression, ...]) -> np.ndarray:
        flat = [self.mask(argument) for argument in arguments]
        result = np.zeros(len(self.experience.values), bool)
        for batch, rows in self._batches:
            valid = batch.scene.valid
            padded = np.zeros((len(flat), *valid.shape), bool)
            for position, mask in enumerate(flat):
                padded[position][valid] = mask[rows]
            found = _select(self.experience.domain, name, batch.scene.values, valid, np.moveaxis(padded, 0, 1))
            result[rows] = np.asarray(found)[valid]
        return result
