"""Slots of a rule: whom the pointers of a shell find in a scene, and the numbers that describe a slot's members."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from spare.batches import Scene
from spare.domain import Domain
from spare.frames import turn_names
from spare.periodic import shown_names
from spare.references import Shell
from spare.relations import Objects


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


def entries(domain: Domain, action: str, gamma: Shell, inputs: tuple[str, ...], framed: bool) -> tuple[str, ...]:
    """What each entry of x is, in order: `d`, `cos(heading)`, `target.x`, `mean(b1).x`, `count(b2)`."""
    template, seen = domain.action(action), shown_names(domain, inputs)
    names = [*template.parameters, *(turn_names() if framed else ())]
    slots = gamma.slot_names(template.objects)
    names += [f"{role}.{prop}" for role in template.objects for prop in seen]
    for slot, pointer in zip(slots[gamma.roles :], gamma, strict=True):
        for how in domain.reference(pointer.reference).aggregators:
            names += [f"count({slot})"] if how == "count" else [f"{how}({slot}).{p}" for p in seen]
    return tuple(names)
