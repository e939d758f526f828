"""Who each pointer finds in each transition, for a whole experience at once.

A slot is identified by its expression: a role number, or a reference applied to expressions, such as
`("above", (("above", (0,)),))`. Shells that share an expression share its mask, so a search evaluates each
expression once. Masks are flat: one Boolean per object row of the experience.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spare.arrays import precision
from spare.data.experience import Experience
from spare.data.ragged import positions_within
from spare.data.scene import Batch, Scene, batches
from spare.language.domain import Domain
from spare.language.references import Pointer, Shell
from spare.language.relations import Closure, Relation
from spare.model.features import Pairs
from spare.programs import PROGRAMS

Expression = int | tuple[str, tuple[Any, ...]]


def expressions(shell: Shell) -> tuple[Expression, ...]:
    """What each slot of a shell stands for, in terms of the action's objects."""
    slots: list[Expression] = list(range(shell.roles))
    for pointer in shell:
        slots.append((pointer.reference, tuple(slots[k] for k in pointer.arguments)))
    return tuple(slots)


# These programs run for milliseconds, once per search: optimising them costs more than it gives.
_OPTIONS = {"xla_backend_optimization_level": 0}


def _select(domain: Domain, action: str, names: tuple[str, ...], scene: Scene, arguments: Any) -> Any:
    """What each of these references finds: one program for all, and for what they have in common."""

    def one(scene: Scene, arguments: Any) -> Any:
        view = domain.scene_view(action, scene)
        return [domain.reference(name).relation.select(view, tuple(arguments)) for name in names]

    return jax.vmap(one)(scene, arguments)


MOST_PAIRS = 5e7
"""Pairs of objects of one transition that are looked at, over all transitions."""
PAIRED = 1 << 21
"""So many of them at once."""


def _around(domain: Domain, action: str, relation: Relation, scene: Scene) -> Any:
    """Whom a relation of arity 1 finds from each object, (B, N, N)."""

    def one(scene: Scene) -> Any:
        view = domain.scene_view(action, scene)
        return jax.vmap(lambda row: relation.pick(view, (row,)))(jnp.arange(scene.valid.shape[0]))

    return jax.vmap(one)(scene)


def _cut(part: Any, start: int, size: int) -> Any:
    """Rows start, ..., start + size - 1, the last one repeated where there are no more."""
    return part[np.minimum(np.arange(start, start + size), len(part) - 1)]


class Bindings:
    """Who is in each slot: masks of slot expressions over an experience of one action, computed on demand and kept."""

    def __init__(self, experience: Experience, action: str) -> None:
        self.experience = experience
        self.action = action
        self._batches: list[tuple[Batch, np.ndarray]] = []
        self._masks: dict[Expression, np.ndarray] = {}
        self._depths: dict[Expression, np.ndarray] = {}
        self._pairs: dict[int, Pairs] = {}
        for batch in batches(experience):
            chosen = batch.index[batch.index >= 0]
            counts = experience.counts[chosen]
            self._batches.append((batch, np.repeat(experience.offsets[chosen], counts) + positions_within(counts)))

    def mask(self, expression: Expression) -> np.ndarray:
        """Which object rows the expression selects, (total,) bool."""
        if expression not in self._masks:
            if isinstance(expression, int):
                self._keep(expression, self._role(expression))
            else:
                self._point(*expression)
        return self._masks[expression]

    def masks(self, shell: Shell) -> np.ndarray:
        """One mask per slot, (slots, total)."""
        found = [self.mask(expression) for expression in expressions(shell)]
        return np.stack(found) if found else np.zeros((0, len(self.experience.values)), bool)

    def depths(self, shell: Shell) -> np.ndarray:
        """How many steps of a closure lead to each row of each slot, (slots, total); 1 where it is no closure."""
        found = [self.depth(expression) for expression in expressions(shell)]
        return np.stack(found) if found else np.zeros((0, len(self.experience.values)))

    def depth(self, expression: Expression) -> np.ndarray:
        """Steps from the arguments to each row: of a closure the number of its base's steps, else 1; 0 outside."""
        if expression not in self._depths:
            mask = self.mask(expression)
            found = mask.astype(np.float64)
            if not isinstance(expression, int):
                relation = self.experience.domain.reference(expression[0]).relation
                if isinstance(relation, Closure):
                    found = self._closure_depth(expression, relation)
            self._depths[expression] = found
        return self._depths[expression]

    def _closure_depth(self, expression: tuple[str, tuple[Any, ...]], relation: Closure) -> np.ndarray:
        domain, flat = self.experience.domain, self.mask(expression[1][0])
        result = np.zeros(len(self.experience.values))
        for batch, rows in self._batches:
            valid = batch.scene.valid
            padded = np.zeros(valid.shape, bool)
            padded[valid] = flat[rows]
            given = (batch.scene, padded)

            def deep(scene: Scene, start: Any) -> Any:
                def one(scene: Scene, start: Any) -> Any:
                    view = domain.scene_view(self.action, scene)
                    return relation.depth(view, start)

                return jax.vmap(one)(scene, start)

            key = (domain, self.action, expression[0])
            with precision(double=self.experience.double):
                found = PROGRAMS.get("depth", deep, given, key, _OPTIONS)(*given)
            result[rows] = np.asarray(found)[valid]
        return result

    @property
    def pairable(self) -> bool:
        """Whether there are so few pairs of objects that each can be looked at."""
        return float(np.square(self.experience.counts.astype(np.float64)).sum()) <= MOST_PAIRS

    def pairs(self, reference: int) -> Pairs:
        """Whom a reference of arity 1, by its number in the domain, finds from every object row."""
        if reference not in self._pairs:
            domain, name = self.experience.domain, self.experience.domain.references[reference].name
            relation, parts = domain.references[reference].relation, []
            around = functools.partial(_around, domain, self.action, relation)
            for batch, rows in self._batches:
                valid = batch.scene.valid
                number = np.zeros(valid.shape, np.int64)
                number[valid] = rows
                step = min(len(valid), max(1, PAIRED // valid.shape[1] ** 2))
                for start in range(0, len(valid), step):
                    scene = jax.tree.map(lambda part, start=start, step=step: _cut(part, start, step), batch.scene)
                    with precision(double=self.experience.double):
                        found = PROGRAMS.get("around", around, (scene,), (domain, self.action, name), _OPTIONS)(scene)
                    which, source, target = np.nonzero(np.asarray(found))
                    here = np.minimum(start + which, len(valid) - 1)
                    real = (start + which < len(valid)) & valid[here, source]
                    parts.append((number[here, source][real], number[here, target][real]))
            self._pairs[reference] = Pairs(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        return self._pairs[reference]

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

    def _keep(self, expression: Expression, mask: np.ndarray) -> None:
        mask.flags.writeable = False
        self._masks[expression] = mask

    def _point(self, name: str, arguments: tuple[Expression, ...]) -> None:
        """Evaluate the reference, and with it every other one that takes as many arguments: a search asks for all."""
        domain = self.experience.domain
        arity = domain.reference(name).arity
        names = tuple(reference.name for reference in domain.references if reference.arity == arity)
        if name not in names:  # everyone, which no domain lists
            names = (*names, name)
        flat = [self.mask(argument) for argument in arguments]
        results = np.zeros((len(names), len(self.experience.values)), bool)
        for batch, rows in self._batches:
            valid = batch.scene.valid
            padded = np.zeros((len(flat), *valid.shape), bool)
            for position, mask in enumerate(flat):
                padded[position][valid] = mask[rows]
            given = (batch.scene, np.moveaxis(padded, 0, 1))
            select = functools.partial(_select, domain, self.action, names)
            with precision(double=self.experience.double):
                found = PROGRAMS.get("select", select, given, (domain, self.action, names), _OPTIONS)(*given)
            for result, selected in zip(results, found, strict=True):
                result[rows] = np.asarray(selected)[valid]
        for one, result in zip(names, results, strict=True):
            self._keep((one, arguments), result)
