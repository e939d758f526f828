"""Transition rules T = (A, Gamma, Delta, phi, v_default), for one scene at a time (section 3.2 of the paper).

1. `point`     follows Gamma and Delta from the action's objects: one Boolean mask per slot; does the rule apply?
2. `features`  builds x: the action's parameters and the (aggregated) properties of the input slots.
3. `components` asks the predictor, and moves its answer to absolute values of each object.
4. `log_values` is the density per (object, property): a mixture over the members and slots that hold the object, and
   N(s, v_default), or that with surprises, for everyone else. Every variance is sigma² + resolution².
5. `log_together` is what it is worth beyond that if objects move together.

Everything here is written for one padded scene; `model.py` maps it over batches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from spare.data.scene import Scene
from spare.errors import DefinitionError, one_of
from spare.language.domain import Domain
from spare.language.frames import (
    QUARTER,
    Placed,
    enter,
    groups,
    leave,
    leave_variances,
    place,
    quarters,
    swapped,
    turns,
)
from spare.language.periodic import show
from spare.language.references import Shell
from spare.model.components import Components
from spare.model.copula import Together, check_together, draw_scores, loadings, together_log_density
from spare.model.density import Still, check_surprises, check_variances, normal_log_density, object_log_density
from spare.model.features import View, aggregate, aggregators, entries, follow, further_names, used
from spare.model.predictors import AbstractPredictor, Gaussians

TARGETS = ("absolute", "change")


class Pointed(NamedTuple):
    """Who each slot holds: masks for the input slots (Gamma) and output slots (Delta), and whether all hold someone."""

    inputs: Bool[Array, "Si N"]
    outputs: Bool[Array, "So N"]
    applies: Bool[Array, ""]


class Rule(eqx.Module):
    """T = (A, Gamma, Delta, phi, v_default): for an action, whom it looks at, whom it changes, and how.

    `default_variance` (Q,) is v, the variance of a changeable property of an object the rule does not predict;
    `targets` says per such property whether phi predicts its new value or its change (one word for all stands for
    changes where a property has a period); `inputs` names the properties that enter x (all of them when not given).
    With `framed`, positions enter and leave the predictor in the action's frame and the heading is an input; densities
    are those of the values in the frame.
    `ignores` names entries of x (see `input_names`) that the predictor does not see, `adds` some by aggregators that
    a slot's reference does not offer, such as `sum(b1).x`.
    `surprises`, (share, variance) of shape (Q,) each, say that an object the rule does not predict may move after all:
    (1 - share) N(s, v) + share N(s, variance), every variance with resolution². None is the paper's N(s, v).
    `together`, (loading, apart) of shapes (S, Q) and (Q,), says how the objects it does predict move with each other
    (see `together.py`). None is the paper's product over values.
    """

    domain: Domain = eqx.field(static=True)
    action: str = eqx.field(static=True)
    gamma: Shell = eqx.field(static=True)
    delta: Shell = eqx.field(static=True)
    predictor: AbstractPredictor
    default_variance: Float[Array, " Q"]
    targets: tuple[str, ...] = eqx.field(static=True)
    inputs: tuple[str, ...] = eqx.field(static=True)
    framed: bool = eqx.field(static=True)
    ignores: tuple[str, ...] = eqx.field(static=True)
    surprises: tuple[Float[Array, " Q"], Float[Array, " Q"]] | None
    adds: tuple[str, ...] = eqx.field(static=True)
    together: Together | None

    def __init__(  # noqa: PLR0913 - the parts of T, as the paper lists them
        self,
        domain: Domain,
        action: str,
        shells: Shell | tuple[Shell, Shell],
        predictor: AbstractPredictor,
        default_variance: Float[Array, " Q"] | np.ndarray,
        *,
        targets: str | tuple[str, ...] = "absolute",
        inputs: tuple[str, ...] | None = None,
        framed: bool = False,
        ignores: tuple[str, ...] = (),
        surprises: tuple[Any, Any] | None = None,
        adds: tuple[str, ...] = (),
        together: tuple[Any, Any] | None = None,
    ) -> None:
        gamma, delta = (shells, shells) if isinstance(shells, Shell) else shells
        self.domain = domain
        self.action = domain.action(action).name
        self.gamma = domain.check_shell(gamma, action)
        self.delta = domain.check_shell(delta, action)
        self.predictor = predictor
        self.default_variance = jnp.asarray(default_variance, jnp.result_type(float))
        quantities = len(domain.dynamic)
        every = ["change" if again else targets for again in domain.periodic] if isinstance(targets, str) else targets
        self.targets = tuple(every)
        self.inputs = domain.property_names if inputs is None else tuple(inputs)
        self.framed = framed
        self.ignores = tuple(ignores)
        real = self.default_variance.dtype
        self.surprises = None if surprises is None else tuple(jnp.asarray(part, real) for part in surprises)  # type: ignore[assignment]
        self.adds = tuple(adds)
        self.together = None if together is None else Together(*(jnp.asarray(part, real) for part in together))
        if framed and domain.action(action).frame is None:
            raise DefinitionError(f"action {action!r} has no frame; a rule in the frame needs one")
        self._check(quantities)

    def _check_outputs(self, quantities: int) -> None:
        if len(self.targets) != quantities or any(target not in TARGETS for target in self.targets):
            raise DefinitionError(f"targets: {quantities} of 'absolute' or 'change' are needed, got {self.targets}")
        if any(self.targets[k] != "change" for k in np.flatnonzero(self.domain.periodic)):
            raise DefinitionError("targets: a property with a period is predicted as a change")
        if self.default_variance.shape != (quantities,):
            raise DefinitionError(
                f"default_variance: {quantities} values are needed ({', '.join(self.domain.dynamic_names)}), "
                f"got shape {self.default_variance.shape}"
            )
        check_variances(self.default_variance)
        if self.surprises is not None:
            check_surprises(self.surprises, quantities)
        if self.together is not None:
            check_together(self.together, (self.delta.slots, quantities))

    def _check(self, quantities: int) -> None:
        self._check_outputs(quantities)
        for name in self.inputs:
            self.domain.property(name)
        offered = entries(self.domain, self.action, self.gamma, View(self.inputs, self.framed))
        others = further_names(self.domain, self.action, self.gamma, self.inputs)
        for chosen, every in ((self.ignores, offered), (self.adds, others)):
            for name in chosen:
                if name not in every:
                    raise DefinitionError(one_of("input", name, every))
            if len({*chosen}) != len(chosen):
                raise DefinitionError("ignores, adds: name inputs once")
        if not self.input_names():
            raise DefinitionError("ignores: leave at least one input")
        size = jax.ShapeDtypeStruct((self.input_size,), jnp.float32)
        try:
            shape = eqx.filter_eval_shape(self.predictor, size).mean.shape
        except TypeError as error:
            raise DefinitionError(
                f"the predictor does not take the {self.input_size} inputs of this rule: {error}"
            ) from error
        if len(shape) != 3 or shape[1:] != (self.delta.slots, quantities):
            raise DefinitionError(
                f"the predictor gives outputs of shape {shape[1:]}, the rule needs "
                f"({self.delta.slots} slots, {quantities} properties)"
            )

    @property
    def score(self) -> int:
        """C(T, s) where the rule applies: |Gamma| + |Delta| + 1."""
        return len(self.gamma) + len(self.delta) + 1

    @property
    def input_size(self) -> int:
        """The length of x."""
        return len(self.input_names())

    @property
    def view(self) -> View:
        """How the rule sees what its slots hold."""
        return View(self.inputs, self.framed, self.ignores, self.adds)

    def input_names(self) -> tuple[str, ...]:
        """What each entry of x is: `d`, `target.x`, `mean(b1).x`, `count(b2)`; those the rule ignores left out."""
        every = entries(self.domain, self.action, self.gamma, self.view)
        return tuple(every[k] for k in used(self.domain, self.action, self.gamma, self.view))

    def point(self, scene: Scene) -> Pointed:
        """Follow both lists; the rule applies if the action is its own and no slot is empty."""
        inputs = follow(self.domain, scene, self.gamma)
        outputs = inputs if self.delta == self.gamma else follow(self.domain, scene, self.delta)
        mine = scene.action == self.domain.action_index(self.action)
        return Pointed(inputs, outputs, mine & inputs.any(axis=1).all() & outputs.any(axis=1).all())

    def features(self, scene: Scene, inputs: Bool[Array, "Si N"]) -> Float[Array, " D"]:
        """x: the action's parameters, then each slot's aggregated properties, in a fixed order."""
        template = self.domain.action(self.action)
        parts = [scene.parameters[: len(template.parameters)]]
        values = scene.values
        if self.framed and template.frame is not None:
            placed = self.place(scene)
            values = enter(values, groups(self.domain.property_names, template.frame.groups), placed)
            parts = [enter(parts[0], groups(template.parameters, template.frame.points), placed)]
            heading = placed.heading
            if pairs := groups(self.domain.property_names, template.frame.extents):
                turned = quarters(heading)
                values, heading = swapped(values, turned, pairs), heading - QUARTER * turned
            parts += [turns(heading)]
        values = show(self.domain, self.inputs, values)
        parts += [values[scene.objects[role]] for role in range(self.gamma.roles)]
        ways = aggregators(self.domain, self.action, self.gamma, self.view)
        for mask, way in zip(inputs[self.gamma.roles :], ways, strict=True):
            parts += [aggregate(values, mask, how) for how in way]
        x = jnp.concatenate(parts)
        if not self.ignores and not self.adds:
            return x
        return x[np.array(used(self.domain, self.action, self.gamma, self.view), int)]

    def place(self, scene: Scene) -> Placed:
        """The action's frame in this scene."""
        return place(self.domain, self.domain.action(self.action), scene.values[scene.objects], scene.parameters)

    def _vectors(self) -> tuple[tuple[int, ...], ...]:
        """Columns of the position groups among changeable properties."""
        frame = self.domain.action(self.action).frame
        return groups(self.domain.dynamic_names, frame.groups) if frame else ()

    def dynamic_values(self, scene: Scene, values: Float[Array, "N P"]) -> Float[Array, "N Q"]:
        """The changeable properties in the predictor's coordinates: the frame's, or the world's."""
        chosen = values[:, np.array(self.domain.dynamic)]
        return enter(chosen, self._vectors(), self.place(scene)) if self.framed else chosen

    def components(self, scene: Scene, pointed: Pointed) -> Components:
        """The predictor's Gaussians, spread over the objects that each output slot holds (h of the paper)."""
        found: Gaussians = self.predictor(self.features(scene, pointed.inputs))
        members, slots, quantities = found.mean.shape
        resolution = jnp.asarray(self.domain.resolutions, found.mean.dtype)
        changes = jnp.array([target == "change" for target in self.targets])
        base = jnp.where(changes, self.dynamic_values(scene, scene.values), 0.0)
        flat = members * slots
        mean = found.mean.reshape(flat, 1, quantities) + base[None]
        variance = (found.variance + jnp.square(resolution)).reshape(flat, 1, quantities)
        return Components(
            jnp.tile(pointed.outputs, (members, 1)),
            jnp.repeat(found.log_weight, slots),
            mean,
            jnp.broadcast_to(variance, mean.shape),
        )

    def default_spread(self) -> Float[Array, " Q"]:
        """v + resolution²: the variance of what stays put."""
        return self.default_variance + jnp.square(jnp.asarray(self.domain.resolutions, self.default_variance.dtype))

    def still(self) -> Still:
        """What is expected of an object that the rule does not predict."""
        if self.surprises is None:
            return Still(self.default_spread())
        share, variance = self.surprises
        return Still(self.default_spread(), share, variance + jnp.square(jnp.asarray(self.domain.resolutions)))

    def log_values(self, scene: Scene, next_values: Float[Array, "N P"], pointed: Pointed) -> Float[Array, "N Q"]:
        """log p(s'[o, P]) for every object and changeable property, as if the rule applied; 0 on padding."""
        dynamic = np.array(self.domain.dynamic)
        parts = self.components(scene, pointed)
        density = jax.vmap(object_log_density, in_axes=(0, 0, 1, (None, 1, 1), None))
        components = (parts.log_weight, parts.mean, parts.variance)
        moved = next_values[:, dynamic] - scene.values[:, dynamic]
        after = self.dynamic_values(scene, next_values)
        values = density(after, moved, parts.mask, components, self.still())
        return jnp.where(scene.valid[:, None], values, 0.0)

    def log_together(self, scene: Scene, next_values: Float[Array, "N P"], pointed: Pointed) -> Float[Array, ""]:
        """log p(s' | s, a) beyond the sum of `log_values`: what it is worth that objects move together."""
        if self.together is None:
            return jnp.zeros((), scene.values.dtype)
        parts = self.components(scene, pointed)
        scores = parts.scores(self.dynamic_values(scene, next_values))
        return together_log_density(scores, self._loadings(pointed, parts), self.together.apart)

    def _loadings(self, pointed: Pointed, parts: Components) -> Float[Array, "N Q"]:
        """How much each value has in common with those of other objects; `together` must be there."""
        assert self.together is not None
        resolutions = jnp.asarray(self.domain.resolutions, parts.mean.dtype)
        return loadings(self.together, pointed.outputs, parts.moments()[1], resolutions)

    def moments(self, scene: Scene, pointed: Pointed) -> tuple[Float[Array, "N Q"], Float[Array, "N Q"]]:
        """Mean and variance of p(s'[o, P]) for every object and changeable property."""
        parts = self.components(scene, pointed)
        here = scene.values[:, np.array(self.domain.dynamic)]
        mean, spread = parts.moments()
        if self.framed:
            placed = self.place(scene)
            mean, spread = leave(mean, self._vectors(), placed), leave_variances(spread, self._vectors(), placed)
        held = parts.held[:, None]
        return jnp.where(held, mean, here), jnp.where(held, spread, self.still().variance)

    def ignorance(self, scene: Scene, pointed: Pointed) -> Float[Array, "N Q"]:
        """Var mu_m + mean v_m - exp(mean log v_m) over members m with mean mu_m and variance v_m of s'[o, P].

        The part of the variance that is disagreement of the ensemble, about the mean or about the noise: far from all
        data members are as far apart on the one as on the other.
        """
        found = self.components(scene, pointed).ignorance(self.predictor.members)
        return leave_variances(found, self._vectors(), self.place(scene)) if self.framed else found

    def sample(self, key: PRNGKeyArray, scene: Scene, pointed: Pointed) -> Float[Array, "N Q"]:
        """One draw of s': every (object, property) for itself, or all of a property by their common cause."""
        parts = self.components(scene, pointed)
        which, noise = jax.random.split(key)
        common = jax.random.fold_in(key, 2)
        drawn = jax.random.normal(noise, parts.mean.shape[1:], parts.mean.dtype)
        if self.together is None:
            told = parts.draw(which, drawn)
        else:
            told = parts.values_at(draw_scores(common, self._loadings(pointed, parts), self.together.apart))
        if self.framed:
            told = leave(told, self._vectors(), self.place(scene))
        here, still = scene.values[:, np.array(self.domain.dynamic)], self.still()
        spread = jnp.broadcast_to(still.narrow, here.shape)
        if still.share is not None:
            surprised = jax.random.bernoulli(jax.random.fold_in(which, 1), still.share, here.shape)
            spread = jnp.where(surprised, still.wide, spread)
        return jnp.where(parts.held[:, None], told, here + jnp.sqrt(spread) * drawn)

    def show(self) -> str:
        """`push(target): above(target) -> b1, above(b1) -> b2`."""
        roles = self.domain.action(self.action).objects
        text = f"{self.action}({', '.join(roles)}): {self.gamma.show(roles)}"
        return text if self.delta == self.gamma else f"{text}  changes: {self.delta.show(roles)}"


def stay_log_values(
    scene: Scene, next_values: Float[Array, "N P"], spread: Float[Array, " Q"], dynamic: np.ndarray
) -> Float[Array, "N Q"]:
    """log N(s'; s, spread) for every object and changeable property."""
    here, there = scene.values[:, dynamic], next_values[:, dynamic]
    return normal_log_density(there, here, jnp.broadcast_to(spread, here.shape))
