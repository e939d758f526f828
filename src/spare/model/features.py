"""Slots of a rule: whom the pointers of a list find in a scene, and how a rule sees them (`View`): the entries of x."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from spare.data.scene import Scene
from spare.language.domain import Domain
from spare.language.frames import turn_names
from spare.language.periodic import shown_names
from spare.language.references import AGGREGATORS, Shell
from spare.language.relations import Objects


def follow(domain: Domain, scene: Scene, shell: Shell) -> Bool[Array, "S N"]:
    """One mask per slot: the action's objects, then what each pointer finds from earlier slots."""
    objects = Objects(domain.property_names, scene.values)
    positions = jnp.arange(scene.valid.shape[0])
    singles = [scene.objects[role] for role in range(shell.roles)]
    masks = [(positions == index) & scene.valid for index in singles]
    for pointer in shell:
        relation = domain.reference(pointer.reference).relation
        if all(slot < shell.roles for slot in pointer.arguments):  # single objects need no loop over members
            found = relation.pick(objects, scene.valid, tuple(singles[slot] for slot in pointer.arguments))
        else:
            found = relation.select(objects, scene.valid, tuple(masks[slot] for slot in pointer.arguments))
        masks.append(found)
    return jnp.stack(masks)


def aggregate(values: Float[Array, "N P"], mask: Bool[Array, " N"], how: str) -> Float[Array, " F"]:
    """g(set): one number per property (mean, max, min, sum), or the size of the set (count)."""
    chosen = mask[:, None]
    count = mask.sum()
    if how == "count":
        return count[None].astype(values.dtype)
    if how == "max":
        return jnp.where(count > 0, jnp.where(chosen, values, -jnp.inf).max(axis=0), 0.0)
    if how == "min":
        return jnp.where(count > 0, jnp.where(chosen, values, jnp.inf).min(axis=0), 0.0)
    total = jnp.where(chosen, values, 0.0).sum(axis=0)
    return total if how == "sum" else total / jnp.maximum(count, 1)


@dataclasses.dataclass(frozen=True)
class View:
    """How a rule sees what its slots hold: the properties `inputs` of each, in the action's frame or in the world.

    A set is seen through the aggregators of the reference that found it. `ignores` names entries of x that the
    predictor does not see after all, `adds` entries by other aggregators that it does (see `entries`, `further`).
    """

    inputs: tuple[str, ...]
    framed: bool = False
    ignores: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()


def described(slot: str, how: str, seen: tuple[str, ...]) -> tuple[str, ...]:
    """What an aggregator's entries are called: `mean(b1).x` for each property, or `count(b1)`."""
    return (f"count({slot})",) if how == "count" else tuple(f"{how}({slot}).{name}" for name in seen)


def aggregators(domain: Domain, action: str, gamma: Shell, view: View) -> tuple[tuple[str, ...], ...]:
    """For each pointer the aggregators that its reference offers, then the others that an added entry needs."""
    others = further(domain, action, gamma, view.inputs)
    return tuple(
        (*domain.reference(pointer.reference).aggregators, *(how for how in ways if {*ways[how]} & {*view.adds}))
        for pointer, ways in zip(gamma, others, strict=True)
    )


def entries(domain: Domain, action: str, gamma: Shell, view: View) -> tuple[str, ...]:
    """What can enter x, in order: `d`, `cos(heading)`, `target.x`, `mean(b1).x`, `count(b2)`; see `used`."""
    template, seen = domain.action(action), shown_names(domain, view.inputs)
    names = [*template.parameters, *(turn_names() if view.framed else ())]
    slots = gamma.slot_names(template.objects)
    names += [f"{role}.{prop}" for role in template.objects for prop in seen]
    for slot, ways in zip(slots[gamma.roles :], aggregators(domain, action, gamma, view), strict=True):
        names += [name for how in ways for name in described(slot, how, seen)]
    return tuple(names)


def further(
    domain: Domain, action: str, gamma: Shell, inputs: tuple[str, ...]
) -> tuple[dict[str, tuple[str, ...]], ...]:
    """For each pointer, by aggregator, the entries that its reference does not offer."""
    seen, slots = shown_names(domain, inputs), gamma.slot_names(domain.action(action).objects)
    found = []
    for slot, pointer in zip(slots[gamma.roles :], gamma, strict=True):
        offered = domain.reference(pointer.reference).aggregators
        found.append({how: described(slot, how, seen) for how in AGGREGATORS if how not in offered})
    return tuple(found)


def further_names(domain: Domain, action: str, gamma: Shell, inputs: tuple[str, ...]) -> tuple[str, ...]:
    """All of them in order: what `View.adds` may name."""
    every = further(domain, action, gamma, inputs)
    return tuple(name for ways in every for names in ways.values() for name in names)


def used(domain: Domain, action: str, gamma: Shell, view: View) -> list[int]:
    """Which of the `entries` are x: those that a reference offers and the rule does not ignore, and the added ones."""
    others = {*further_names(domain, action, gamma, view.inputs)}
    return [
        k
        for k, name in enumerate(entries(domain, action, gamma, view))
        if (name in view.adds if name in others else name not in view.ignores)
    ]
