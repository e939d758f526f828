"""Transition rules T = (A, Gamma, Delta, phi, v_default), for one scene at a time (section 3.2 of the paper).

1. `bind`          follows Gamma and Delta from the action's objects: one Boolean mask per slot; does the rule apply?
2. `features`      builds x: the action's parameters and the (aggregated) properties of the input slots.
3. `distribution`  asks the predictor once, moves its answer to the objects of each output slot, and gives everyone
                   else the default noise.

Everything here is written for one padded scene; `model.py` maps it over batches.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from spare.arguments import check_kind
from spare.content import same
from spare.data.scene import Scene
from spare.errors import DefinitionError, one_of
from spare.forks import check_threads
from spare.language.domain import Domain, expect_domain
from spare.language.frames import FramePose, to_frame
from spare.language.references import Shell
from spare.model.copula import OneFactorCopula
from spare.model.distributions import Components, RuleDistribution
from spare.model.familiar import Familiar, Gauge, check_names, disagreement, gauges
from spare.model.features import Layout, Observed, SceneSlots, observe, origins_of
from spare.model.noise import DefaultNoise
from spare.model.predictors import PREDICTORS, AbstractPredictor, Take, predictor_name
from spare.model.spec import RuleSpec


class Binding(NamedTuple):
    """Who each slot holds: masks for the input slots (Gamma) and output slots (Delta), and whether all hold someone."""

    inputs: Bool[Array, "Si N"]
    outputs: Bool[Array, "So N"]
    applies: Bool[Array, ""]


def follow(domain: Domain, scene: Scene, action: str, shell: Shell) -> Bool[Array, "S N"]:
    """One mask per slot: the action's objects, then what each pointer finds from earlier slots."""
    view = domain.scene_view(action, scene)
    positions = jnp.arange(scene.valid.shape[0])
    singles = [scene.objects[role] for role in range(shell.roles)]
    masks = [(positions == index) & scene.valid for index in singles]
    for pointer in shell:
        relation = domain.reference(pointer.reference).relation
        if all(slot < shell.roles for slot in pointer.arguments):  # single objects need no loop over members
            found = relation.pick(view, tuple(singles[slot] for slot in pointer.arguments))
        else:
            found = relation.select(view, tuple(masks[slot] for slot in pointer.arguments))
        for slot in pointer.arguments:
            found = found & ~masks[slot]
        masks.append(found & scene.valid)
    return jnp.stack(masks) if masks else jnp.zeros((0, *scene.valid.shape), bool)


@functools.lru_cache(maxsize=256)
def _layout(domain: Domain, spec: RuleSpec) -> Layout:
    return Layout.of(domain, spec)


class Rule(eqx.Module):
    """T = (A, Gamma, Delta, phi, v_default): for an action, whom it looks at, whom it changes, and how.

    `spec`       the lists, what enters x, and what is predicted; `RuleSpec.of` makes one
    `predictor`  phi: x -> location and variance of every value of every output slot
    `noise`      what is expected of objects that the rule does not predict: variances (Q,), or a `DefaultNoise`
    `copula`     what the values that it does predict have in common; None is the paper's product over values
    `familiar`   the range of every input in what it was learned from, dropped ones included; None if nobody knows

    In a frame, densities are those of the values in the frame.
    """

    domain: Domain = eqx.field(static=True)
    spec: RuleSpec = eqx.field(static=True)
    predictor: AbstractPredictor
    noise: DefaultNoise
    copula: OneFactorCopula | None
    familiar: Familiar | None

    def __init__(
        self,
        domain: Domain,
        spec: RuleSpec,
        predictor: AbstractPredictor,
        noise: DefaultNoise | Float[Array, " Q"] | np.ndarray,
        copula: OneFactorCopula | None = None,
        familiar: Familiar | None = None,
    ) -> None:
        check_threads()
        check_kind("spec", spec, RuleSpec, "make one with spare.RuleSpec.of(domain, action, shell)", DefinitionError)
        quantities = len(expect_domain(domain).dynamic)
        self.domain = domain
        self.spec = spec.checked(domain)
        self.predictor = predictor
        self.noise = DefaultNoise.of(noise).checked(quantities)
        self.copula = None
        if copula is not None:
            real = self.noise.variance.dtype
            loaded = OneFactorCopula(*(jnp.asarray(part, real) for part in copula))
            self.copula = loaded.checked(spec.delta.slots, quantities)
        self._check_predictor(quantities)
        self.familiar = None if familiar is None else Familiar.of(*familiar).checked(len(self.gauges))

    def _check_predictor(self, quantities: int) -> None:
        size = len(self.input_names)
        try:
            shape = eqx.filter_eval_shape(self.predictor, jax.ShapeDtypeStruct((size,), jnp.float32)).location.shape
        except TypeError as error:
            raise DefinitionError(f"the predictor does not take the {size} inputs of this rule: {error}") from error
        if len(shape) != 3 or shape[1:] != (self.delta.slots, quantities):
            raise DefinitionError(
                f"the predictor gives outputs of shape {shape[1:]}, the rule needs "
                f"({self.delta.slots} slots, {quantities} properties)"
            )

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        """The same domain, lists and numbers."""
        return same(self, other) if isinstance(other, Rule) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def action(self) -> str:
        """A: the action's name."""
        return self.spec.action

    @property
    def gamma(self) -> Shell:
        """Gamma: whom the rule looks at."""
        return self.spec.gamma

    @property
    def delta(self) -> Shell:
        """Delta: whom the rule changes."""
        return self.spec.delta

    @property
    def layout(self) -> Layout:
        """The entries of x; kept by domain and spec, so that a rule carries little to be compared by."""
        return _layout(self.domain, self.spec)

    @property
    def gauges(self) -> tuple[Gauge, ...]:
        """The numbers whose ranges `familiar` keeps."""
        return gauges(self.layout)

    @property
    def score(self) -> int:
        """C(T, s) where the rule applies: |Gamma| + |Delta| + 1."""
        return self.spec.score

    @property
    def input_names(self) -> tuple[str, ...]:
        """What each entry of x is: `d`, `target.x`, `mean(b1).x`, `count(b2)`; dropped ones left out."""
        return self.layout.names

    @property
    def origins(self) -> Observed | None:
        """What is subtracted before anything is computed in 32 bits, float64; None if nothing is."""
        return origins_of(self.domain, self.action, self.spec.features)

    def bind(self, scene: Scene) -> Binding:
        """Follow both lists; the rule applies if the action is its own and no slot is empty."""
        inputs = follow(self.domain, scene, self.action, self.gamma)
        outputs = inputs if self.delta == self.gamma else follow(self.domain, scene, self.action, self.delta)
        mine = scene.action == self.domain.action_index(self.action)
        return Binding(inputs, outputs, mine & inputs.any(axis=1).all() & outputs.any(axis=1).all())

    def pose(self, scene: Scene) -> FramePose | None:
        """The action's frame in this scene, if the rule works in it."""
        if not self.spec.features.framed:
            return None
        return self.domain.pose(self.domain.action(self.action), scene.values[scene.objects], scene.parameters)

    def features(self, scene: Scene, binding: Binding) -> Float[Array, " D"]:
        """x: the action's parameters, then each slot's aggregated properties, in a fixed order."""
        return self.layout.chosen(self.entries(scene, binding))

    def entries(self, scene: Scene, binding: Binding) -> Float[Array, " E"]:
        """The same with what the rule drops."""
        raw = Observed(scene.values, scene.parameters)
        observed = observe(self.domain, self.action, raw, self.pose(scene), origins=self.origins)
        return self.layout.entries(observed, SceneSlots(scene.objects, binding.inputs))

    def distribution(self, scene: Scene, binding: Binding) -> RuleDistribution:
        """p(s' | s, a; T), as if the rule applied."""
        entries = self.entries(scene, binding)
        x = self.layout.chosen(entries)
        found = self.predictor(x)
        members, slots, quantities = found.location.shape
        pose, frame = self.pose(scene), self.domain.action(self.action).frame
        columns = None if pose is None or frame is None else frame.columns(self.domain.dynamic_names)
        values = scene.values[:, np.array(self.domain.dynamic)]
        inside = values if pose is None or columns is None else to_frame(values, columns, pose)
        origins, origin = self.origins, None
        if origins is not None:
            origin = jnp.asarray(origins.values[np.array(self.domain.dynamic)], values.dtype)
            inside = inside - origin
        resolutions = jnp.asarray(self.domain.resolutions, found.location.dtype)
        changes = jnp.array([target == "change" for target in self.spec.targets])
        location = found.location.reshape(members * slots, 1, quantities) + jnp.where(changes, inside, 0.0)[None]
        variance = (found.variance + jnp.square(resolutions)).reshape(members * slots, 1, quantities)
        components = Components(
            jnp.tile(binding.outputs, (members, 1)),
            jnp.repeat(found.log_weight, slots),
            location,
            jnp.broadcast_to(variance, location.shape),
            self.domain.leaves,
        )
        noise = self.noise.resolved(jnp.asarray(self.domain.resolutions, self.noise.variance.dtype))
        return RuleDistribution(
            domain=self.domain,
            columns=columns,
            members=self.predictor.members,
            valid=scene.valid,
            values=values,
            x=x,
            entries=entries,
            doubt=disagreement(found.location, found.variance + jnp.square(resolutions), self.domain.leaves),
            pose=pose,
            origin=origin,
            components=components,
            noise=noise,
            copula=self.copula,
            outputs=binding.outputs,
        )

    def show(self) -> str:
        """`push(target): above(target) -> b1, above(b1) -> b2`."""
        return self.spec.show(self.domain.action(self.action).objects)

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The rule as a model file holds it: JSON values, and arrays by name."""
        arrays = self.noise.arrays()
        if self.copula is not None:
            arrays |= {"copula.loading": self.copula.loading, "copula.apart": self.copula.apart}
        known: dict[str, Any] = {}
        if self.familiar is not None:
            known, ranges = self.familiar.pack(self.gauges)
            arrays |= ranges
        arrays |= {f"predictor.{name}": array for name, array in self.predictor.arrays().items()}
        entry = {
            **self.spec.to_json(),
            "outliers": self.noise.outlier_share is not None,
            "copula": self.copula is not None,
            "predictor": {**self.predictor.describe(), "kind": predictor_name(self.predictor)},
            **known,
        }
        return entry, {name: np.asarray(array, np.float32) for name, array in arrays.items()}

    @classmethod
    def unpack(cls, domain: Domain, entry: Mapping[str, Any], take: Take) -> Rule:
        """The rule that `pack` wrote; `take` gives an array by name."""
        kind = entry["predictor"]["kind"]
        if kind not in PREDICTORS:
            raise DefinitionError(f"{one_of('predictor', kind, PREDICTORS)}; import the package that registers it")
        predictor = PREDICTORS[kind].from_arrays(entry["predictor"], lambda name: take(f"predictor.{name}"))
        noise = DefaultNoise(take("noise.variance"))
        if entry["outliers"]:
            noise = DefaultNoise(noise.variance, take("noise.outlier_share"), take("noise.outlier_variance"))
        copula = OneFactorCopula(take("copula.loading"), take("copula.apart")) if entry["copula"] else None
        known = Familiar.unpack(entry, take)
        found = cls(domain, RuleSpec.from_json(entry, domain), predictor, noise, copula, known)
        check_names(entry, found.gauges)
        return found
