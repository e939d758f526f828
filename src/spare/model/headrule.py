"""Rules with heads: T = (A, pointers, heads, process), for one scene at a time.

1. `bind`          follows the list from the action's objects. Pointers are optional: one that finds nobody leaves an
                   empty slot. A rule applies to every call of its action in which its required slots hold somebody.
2. Each head is asked about every member of its slot (`heads.py`); an object belongs to the first head that holds it.
3. Whoever no head holds follows the process: it stays, drifts, or moves by its own properties.
4. A head over a closure may see what is expected of those one step before (`previous(b1).x`): it is then asked step by
   step, each time with the mean of what the whole ensemble expects of the step before.

    p(s' | s, a) = mean over members m of
        sum over outcomes z of w_z(x) [ (1 - apart) G_z + apart A_z ]  x  product over all other objects

A_z has every object of the rule's scope by itself, with its wide component. G_z has them without it and with one
common factor for each property, y_o = mean + deviation (a_o u + sqrt(1 - a_o²) e_o). Members are mixed for the whole
transition: one member speaks for all of a draw. Densities of single values are exact marginals of this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from spare.content import same
from spare.data.scene import Scene
from spare.errors import DefinitionError
from spare.language.domain import Domain
from spare.language.frames import FrameColumns, FramePose, from_frame, to_frame, variances_from_frame
from spare.language.references import Pointer, Shell
from spare.language.relations import Closure
from spare.model.copula import common_part, factor_log_density
from spare.model.distributions import Chances
from spare.model.familiar import Familiar, Gauge, Looked, check_names, disagreements
from spare.model.features import Observed, SceneSlots, observe
from spare.model.heads import Head, HeadSpec, Said, matching, take_member
from spare.model.predictors import Network, Take, load_network
from spare.model.rows import RowLayout
from spare.model.rule import Binding, follow
from spare.model.watched import Watched, origins_in, watched


@dataclasses.dataclass(frozen=True)
class HeadRuleSpec:
    """A rule with heads apart from its numbers: action, list, which pointers are required, and the frame.

    `origins`: what is subtracted from each property, then from each parameter of the action, before a network sees it;
    empty: nothing. In a frame it does not concern what the frame itself shifts or turns.
    """

    action: str
    shell: Shell
    required: tuple[int, ...] = ()
    framed: bool = False
    origins: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As a model file holds it."""
        found = {
            "action": self.action,
            "gamma": [[p.reference, [*p.arguments]] for p in self.shell],
            "required": list(self.required),
            "framed": self.framed,
        }
        return {**found, "origins": list(self.origins)} if self.origins else found

    @classmethod
    def from_json(cls, entry: Mapping[str, Any], domain: Domain) -> HeadRuleSpec:
        """What `to_json` wrote, if it fits the domain."""
        roles = len(domain.action(entry["action"]).objects)
        shell = Shell(roles, tuple(Pointer(name, tuple(slots)) for name, slots in entry["gamma"]))
        domain.check_shell(shell, entry["action"])
        if entry["framed"] and domain.action(entry["action"]).frame is None:
            raise DefinitionError(f"action {entry['action']!r} has no frame; a rule in the frame needs one")
        origins = tuple(float(one) for one in entry.get("origins", ()))
        return cls(entry["action"], shell, tuple(entry["required"]), entry["framed"], origins)


class Gate(eqx.Module):
    """w_z(x) of outcomes that belong to the whole rule: M networks over inputs of the transition."""

    inputs: tuple[str, ...] = eqx.field(static=True)
    net: Network
    x_mean: Float[Array, " D"]
    x_scale: Float[Array, " D"]

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, "M K"]:
        """log w_z by member."""
        normal = (x - self.x_mean) / self.x_scale
        return jax.nn.log_softmax(eqx.filter_vmap(lambda net: net(normal))(self.net), axis=-1)

    def alone(self, member: Any) -> Gate:
        """The same with one member of the ensemble."""
        return Gate(self.inputs, take_member(self.net, member), self.x_mean, self.x_scale)

    @property
    def outcomes(self) -> int:
        """K."""
        return self.net.biases[-1].shape[-1]

    def describe(self) -> dict[str, Any]:
        """What a file must know beside the arrays."""
        layers = {"activation": self.net.activation, "layers": len(self.net.weights)}
        return {"inputs": list(self.inputs), "network": layers}

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers by name, float32."""
        found = {name: np.asarray(getattr(self, name), np.float32) for name in ("x_mean", "x_scale")}
        for layer, (weight, bias) in enumerate(zip(self.net.weights, self.net.biases, strict=True)):
            found[f"both.{layer}.weight"] = np.asarray(weight, np.float32)
            found[f"both.{layer}.bias"] = np.asarray(bias, np.float32)
        return found

    @classmethod
    def from_arrays(cls, description: Mapping[str, Any], take: Take) -> Gate:
        """What `describe` and `arrays` came from."""
        net = load_network("both", description["network"], take, constant=True)
        return cls(tuple(description["inputs"]), net, jnp.asarray(take("x_mean")), jnp.asarray(take("x_scale")))


def follow_depths(domain: Domain, scene: Scene, spec: HeadRuleSpec, masks: Any, wanted: set[int]) -> Any:
    """(S, N): how many steps of a closure lead to each object of the wanted slots; 1 elsewhere in a slot."""
    view = domain.scene_view(spec.action, scene)
    found = []
    for slot in range(spec.shell.slots):
        depth = masks[slot].astype(scene.values.dtype)
        if slot in wanted and slot >= spec.shell.roles:
            pointer = spec.shell.pointers[slot - spec.shell.roles]
            relation = domain.reference(pointer.reference).relation
            if isinstance(relation, Closure):
                depth = relation.depth(view, masks[pointer.arguments[0]]).astype(scene.values.dtype)
        found.append(depth)
    return jnp.stack(found)


def _check_inputs(layout: RowLayout, spec: HeadSpec, earlier: Sequence[HeadSpec]) -> None:
    """Whether a head of this list can have these inputs, after these heads."""
    for entry in layout.chosen(spec.inputs):
        if entry.about != "previous":
            continue
        if entry.slot != spec.slot or spec.outcomes > 1:
            raise DefinitionError(f"input {entry.name!r} is for a head of that slot, with one outcome")
        start = layout.shell.pointers[entry.slot - layout.shell.roles].arguments[0]
        first = [one.outcomes for one in earlier if one.slot == start]
        if first[:1] != [1]:
            raise DefinitionError(
                f"input {entry.name!r} needs an earlier head, with one outcome, of what the closure starts from"
            )


def _mean_change(said: Said) -> Any:
    """(N, Q): the mean over members of what a head with one outcome expects of every object."""
    return said.mean[:, :, -1].mean(axis=0)


class HeadRule(eqx.Module):
    """T = (A, pointers, heads, process) with an ensemble of M members; see the module's description.

    `heads`    in the order in which they claim objects
    `process`  a head over everyone else, in the world's coordinates, of own properties alone
    `gate`     weights of outcomes that belong to the whole rule, if some head has such outcomes
    `apart`    share of transitions without a common factor; 1 where there is none
    `familiar` the ranges of what it was learned from (see `watched.py`); None if nobody knows
    """

    domain: Domain = eqx.field(static=True)
    spec: HeadRuleSpec = eqx.field(static=True)
    heads: tuple[Head, ...]
    process: Head
    gate: Gate | None
    apart: Float[Array, ""]
    familiar: Familiar | None

    def __init__(  # noqa: PLR0913 - its parts, each of which a file has under its name
        self,
        domain: Domain,
        spec: HeadRuleSpec,
        heads: tuple[Head, ...],
        process: Head,
        gate: Gate | None = None,
        apart: Any = 1.0,
        familiar: Familiar | None = None,
    ) -> None:
        domain.check_shell(spec.shell, spec.action)
        self.domain, self.spec, self.heads, self.process = domain, spec, tuple(heads), process
        self.gate, self.apart = gate, jnp.asarray(apart, process.stay.dtype)
        quantities = len(domain.dynamic)
        for head in (*self.heads, process):
            if head.y_mean.shape != (quantities,) or head.members != process.members:
                raise DefinitionError(f"a head of this rule has {process.members} members and {quantities} properties")
        specs = [head.spec for head in self.heads]
        for k, one in enumerate(specs):
            if one.slot >= spec.shell.slots:
                raise DefinitionError(f"a head predicts slot {one.slot}; the rule has {spec.shell.slots}")
            _check_inputs(self.layout, one, specs[:k])
        for name in process.spec.inputs:
            if self.world.entries.get(name) is None or self.world.entries[name].about not in ("own", "around"):
                raise DefinitionError(f"a process sees an object and what it points at alone, not {name!r}")
        shared = {head.spec.outcomes for head in self.heads if head.spec.scope == "rule" and head.spec.outcomes > 1}
        if shared and (gate is None or shared != {gate.outcomes}):
            raise DefinitionError("outcomes of the whole rule need a gate, with as many outcomes as each head")
        if gate is not None:
            self.layout.chosen(gate.inputs)
        expected = len(domain.properties) + len(domain.action(spec.action).parameters)
        if spec.origins and len(spec.origins) != expected:
            raise DefinitionError(f"origins: {expected} numbers are needed, got {len(spec.origins)}")
        self.familiar = None if familiar is None else Familiar.of(*familiar).checked(len(self.gauges))

    # -- what rules have in common --------------------------------------------------------------------------------

    @property
    def action(self) -> str:
        """A: the action's name."""
        return self.spec.action

    @property
    def gamma(self) -> Shell:
        """Whom the rule looks at."""
        return self.spec.shell

    @property
    def delta(self) -> Shell:
        """The same list: which of its slots are predicted is said by the heads."""
        return self.spec.shell

    @property
    def score(self) -> int:
        """C(T, s) where the rule applies: required pointers plus one."""
        return len(self.spec.required) + 1

    @property
    def layout(self) -> RowLayout:
        """The entries that heads may see."""
        return RowLayout(self.domain, self.spec.action, self.spec.shell, self.spec.framed)

    @property
    def world(self) -> RowLayout:
        """The entries that the process may see."""
        return RowLayout(self.domain, self.spec.action, self.spec.shell, False)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Entries of the transition as a whole that some head sees; those of single objects are left out."""
        used = {name for head in self.heads for name in head.spec.inputs} | {*(self.gate.inputs if self.gate else ())}
        return tuple(name for name, entry in self.layout.entries.items() if entry.common and name in used)

    @property
    def members(self) -> int:
        """M."""
        return self.process.members

    @property
    def watched(self) -> Watched:
        """What it looks at of a state to tell whether it has seen such a one."""
        gate = () if self.gate is None else self.gate.inputs
        specs = tuple(head.spec for head in self.heads)
        return watched(self.layout, specs, self.process.spec, gate, self.spec.origins)

    @property
    def gauges(self) -> tuple[Gauge, ...]:
        """The numbers whose ranges `familiar` keeps."""
        return self.watched.gauges

    @property
    def origins(self) -> Observed | None:
        """What is subtracted before a head sees it, float64; None if nothing is."""
        return origins_in(self.layout, self.spec.origins)

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        """The same domain, lists and numbers."""
        return same(self, other) if isinstance(other, HeadRule) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def bind(self, scene: Scene) -> Binding:
        """Follow the list; outputs (H, N) are the objects that each head predicts."""
        slots = follow(self.domain, scene, self.action, self.spec.shell)
        taken, held = jnp.zeros(scene.valid.shape, bool), []
        for head in self.heads:
            held.append(slots[head.spec.slot] & ~taken)
            taken = taken | slots[head.spec.slot]
        outputs = jnp.stack(held) if held else jnp.zeros((0, *scene.valid.shape), bool)
        mine = scene.action == self.domain.action_index(self.action)
        for slot in self.spec.required:
            mine = mine & slots[slot].any()
        return Binding(slots, outputs, mine)

    def pose(self, scene: Scene) -> FramePose | None:
        """The action's frame in this scene, if the rule works in it."""
        if not self.spec.framed:
            return None
        return self.domain.pose(self.domain.action(self.action), scene.values[scene.objects], scene.parameters)

    def distribution(self, scene: Scene, binding: Binding, member: Any = None) -> HeadDistribution:
        """p(s' | s, a; T), as if the rule applied; as one member of the ensemble sees it, if one is given.

        What heads count from, the change that the process expects, remains that of all members.
        """
        pose, frame = self.pose(scene), self.domain.action(self.action).frame
        columns = None if pose is None or frame is None else frame.columns(self.domain.dynamic_names)
        raw, origins = Observed(scene.values, scene.parameters), origins_in(self.world, self.spec.origins)
        seen = observe(self.domain, self.action, raw, pose, origins=self.origins)
        plain = observe(self.domain, self.action, raw, None, origins=origins)
        names = [*self.watched.rows, *(name for head in self.heads for name in head.spec.inputs)]
        used = [self.layout.entries[name] for name in names]
        deep = {entry.slot for entry in used if entry.about in ("depth", "previous")}
        depths = follow_depths(self.domain, scene, self.spec, binding.inputs, deep) if deep else None
        view = self.domain.scene_view(self.action, scene)

        def found(reference: int, row: Any) -> Any:
            return self.domain.references[reference].relation.pick(view, (row,))

        slots = SceneSlots(scene.objects, binding.inputs, depths, found)
        resolutions = jnp.asarray(self.domain.resolutions, scene.values.dtype)
        values = scene.values[:, np.array(self.domain.dynamic)]
        process = self._heard(scene, self.process(self.world.x(self.process.spec.inputs, plain, slots), resolutions))
        expected = process.moments(process.log_gate)[0].mean(axis=0)
        slots = self._with_previous(seen, slots, resolutions)
        heads, gate, orders = self.heads, self.gate, self.orders()
        if member is not None:
            process, orders = take_member((process, orders), member)
            heads = tuple(head.alone(member) for head in heads)
            gate = None if gate is None else gate.alone(member)
        inputs = [self.layout.x(head.spec.inputs, seen, slots) for head in heads]
        if member is None:
            said = tuple(head(x, resolutions) for head, x in zip(heads, inputs, strict=True))
        else:
            said = tuple(self._said_once(head, x, scene) for head, x in zip(heads, inputs, strict=True))
        said = tuple(self._heard(scene, one) for one in said)
        log_gate = None if gate is None else gate(self.layout.common(gate.inputs, seen, slots))
        return HeadDistribution(
            domain=self.domain,
            columns=columns,
            scopes=tuple(head.spec.scope if head.spec.outcomes > 1 else "one" for head in self.heads),
            pinned=tuple(head.spec.pinned for head in self.heads),
            relative=tuple(head.spec.relative for head in self.heads),
            moving=bool(self.process.spec.inputs),
            valid=scene.valid,
            values=values,
            expected=expected,
            x=self.layout.common(self.input_names, seen, slots),
            entries=self._looked(seen, plain, slots, scene.valid, binding.outputs),
            pose=pose,
            outputs=binding.outputs,
            said=said,
            process=process,
            log_gate=log_gate,
            loadings=jnp.stack([head.loading for head in self.heads])
            if self.heads
            else jnp.zeros((0, len(resolutions))),
            apart=self.apart,
            orders=orders,
            outcome_of=self.outcome_of,
            stays=self.process.spec.free == 0,
            held=self.domain.held_dynamic(scene.values),
        )

    def _with_previous(self, seen: Observed, slots: SceneSlots, resolutions: Any) -> SceneSlots:
        """The slots with what all members together expect one step before, where some head looks at that."""
        entries, expected = self.layout.entries, {}
        last = [k for k, one in enumerate(self.heads) if any(entries[n].about == "previous" for n in one.spec.inputs)]
        for k, head in enumerate(self.heads[: max(last, default=-1) + 1]):
            slot = head.spec.slot
            if k in last:
                start = self.gamma.pointers[slot - self.gamma.roles].arguments[0]
                slots = self._stepwise(head, seen, slots, expected[start], resolutions)
            if k != max(last):
                said = head(self.layout.x(head.spec.inputs, seen, slots), resolutions)
                expected.setdefault(slot, _mean_change(said))
        return slots

    def _stepwise(self, head: Head, seen: Observed, slots: SceneSlots, first: Any, resolutions: Any) -> SceneSlots:
        """The slots with the change expected of those one step before each member of the head's slot.

        first (N, Q): what the head of the slot that the closure starts from expects; the first step follows it.
        """
        slot = head.spec.slot
        depth = slots.depth(slot)
        start = slots.masks[self.gamma.pointers[slot - self.gamma.roles].arguments[0]]

        def with_previous(before: Any) -> SceneSlots:
            return dataclasses.replace(slots, before={**slots.before, slot: before})

        def step(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            k, moved, before = carry
            last = jnp.where(k == 1, start, depth == k - 1)
            mean = jnp.where(last[:, None], moved, 0.0).sum(axis=0) / jnp.maximum(last.sum(), 1)
            here = (depth == k)[:, None]
            before = jnp.where(here, mean, before)
            said = head(self.layout.x(head.spec.inputs, seen, with_previous(before)), resolutions)
            return k + 1, jnp.where(here, _mean_change(said).astype(moved.dtype), moved), before

        carry = (jnp.ones((), depth.dtype), first, jnp.zeros_like(first))
        return with_previous(jax.lax.while_loop(lambda carry: carry[0] <= depth.max(), step, carry)[2])

    def _said_once(self, head: Head, x: Any, scene: Scene) -> Said:
        """What a head says of its objects, asked about one row where that is enough: most of the time of a draw.

        It is for the slot of one of the action's objects, which is a single one, and for inputs that all rows share.
        """
        resolutions = jnp.asarray(self.domain.resolutions, scene.values.dtype)
        alone = head.spec.slot < self.spec.shell.roles
        if not alone and not all(self.layout.entries[name].common for name in head.spec.inputs):
            return head(x, resolutions)
        row = scene.objects[head.spec.slot] if alone else 0
        found = head(jax.lax.dynamic_slice_in_dim(x, row, 1), resolutions)
        tail = found.log_tail  # one number; all else is said row by row
        rows = jax.tree.map(
            lambda part: jnp.broadcast_to(part, (1, len(x), *part.shape[2:])), found._replace(log_tail=None)
        )
        return rows._replace(log_tail=tail)

    def _heard(self, scene: Scene, said: Said) -> Said:
        """What is said of objects, but for what they do not have."""
        held = self.domain.held_dynamic(scene.values)
        return said if held is None else said.hiding(held, jnp.zeros(held.shape, scene.values.dtype))

    @property
    def outcome_of(self) -> int | None:
        """The head whose outcomes are those of a transition: of the whole rule, else of an action's object; or None."""
        several = [(k, head.spec) for k, head in enumerate(self.heads) if head.spec.outcomes > 1]
        whole = [k for k, spec in several if spec.scope == "rule"]
        own = [k for k, spec in several if spec.slot < self.gamma.roles]
        return next(iter(whole + own), None)

    @property
    def outcomes(self) -> int:
        """K: how many outcomes a transition has; 1 where there are none, or where each object has its own."""
        return 1 if self.outcome_of is None else self.heads[self.outcome_of].spec.outcomes

    def orders(self) -> tuple[Any, ...]:
        """For each head (M, K): which outcome of a member is the k-th of the first member; see `heads.matching`."""
        together = [head for head in self.heads if head.spec.outcomes > 1 and head.spec.scope == "rule"]
        shared = matching(together) if together else None
        return tuple(
            shared if head.spec.scope == "rule" and shared is not None else matching([head]) for head in self.heads
        )

    def _looked(self, seen: Observed, plain: Observed, slots: SceneSlots, valid: Any, outputs: Any) -> Looked:
        """What gauges are read from."""
        look = self.watched
        rows = [self.layout.x(look.rows, seen, slots), self.world.x(look.world, plain, slots)]
        others = valid & ~outputs.any(axis=0)
        if self.spec.framed:
            for k, head in enumerate(self.heads):
                others = others | outputs[k] if head.spec.relative else others
        held = jnp.concatenate([outputs, others[None]])
        return Looked(self.layout.common(look.common, seen, slots), jnp.concatenate(rows, axis=-1), held)

    def show(self) -> str:
        """`push(target): above*(target) -> b1`."""
        roles = self.domain.action(self.action).objects
        return f"{self.action}({', '.join(roles)}): {self.spec.shell.show(roles)}"

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The rule as a model file holds it: JSON values, and arrays by name."""
        arrays = {"apart": np.asarray(self.apart, np.float32).reshape(1)}
        parts: dict[str, Any] = {f"head.{k}": head for k, head in enumerate(self.heads)} | {"process": self.process}
        if self.gate is not None:
            parts["gate"] = self.gate
        for label, part in parts.items():
            arrays |= {f"{label}.{name}": array for name, array in part.arrays().items()}
        entry = {
            **self.spec.to_json(),
            "heads": [head.describe() for head in self.heads],
            "process": self.process.describe(),
            "gate": None if self.gate is None else self.gate.describe(),
        }
        if self.familiar is not None:
            known, ranges = self.familiar.pack(self.gauges)
            entry |= known
            arrays |= {name: np.asarray(part, np.float32) for name, part in ranges.items()}
        return entry, arrays

    @classmethod
    def unpack(cls, domain: Domain, entry: Mapping[str, Any], take: Take) -> HeadRule:
        """The rule that `pack` wrote; `take` gives an array by name."""

        def under(label: str) -> Take:
            return lambda name: take(f"{label}.{name}")

        heads = tuple(Head.from_arrays(one, under(f"head.{k}")) for k, one in enumerate(entry["heads"]))
        gate = None if entry["gate"] is None else Gate.from_arrays(entry["gate"], under("gate"))
        process = Head.from_arrays(entry["process"], under("process"))
        spec, apart = HeadRuleSpec.from_json(entry, domain), jnp.asarray(take("apart"))[0]
        found = cls(domain, spec, heads, process, gate, apart, Familiar.unpack(entry, take))
        check_names(entry, found.gauges)
        return found


class HeadDistribution(eqx.Module):
    """p(s' | s, a; T) of one scene with N objects and Q properties that can change, as if the rule applied.

    `said` and `process` have axes (M, N, K, Q); `expected` (N, Q) is the change that the process expects; heads speak
    of changes beyond it, in the frame. `scopes` and `pinned`: of each head. `moving`: the process has a network.
    `orders` and `outcome_of`: see the rule; `stays`: whether its process leaves objects where they are.
    """

    domain: Domain = eqx.field(static=True)
    columns: FrameColumns | None = eqx.field(static=True)
    scopes: tuple[str, ...] = eqx.field(static=True)
    pinned: tuple[bool, ...] = eqx.field(static=True)
    relative: tuple[bool, ...] = eqx.field(static=True)
    moving: bool = eqx.field(static=True)
    valid: Bool[Array, " N"]
    values: Float[Array, "N Q"]
    expected: Float[Array, "N Q"]
    x: Float[Array, " D"]
    entries: Looked
    pose: FramePose | None
    outputs: Bool[Array, "H N"]
    said: tuple[Said, ...]
    process: Said
    log_gate: Float[Array, "M K"] | None
    loadings: Float[Array, "H Q"]
    apart: Float[Array, ""]
    orders: tuple[Any, ...]
    outcome_of: int | None = eqx.field(static=True)
    stays: bool = eqx.field(static=True)
    held: Bool[Array, "N Q"] | None = None

    def _inside(self, values: Any) -> Any:
        return values if self.pose is None or self.columns is None else to_frame(values, self.columns, self.pose)

    def _outside(self, values: Any) -> Any:
        return values if self.pose is None or self.columns is None else from_frame(values, self.columns, self.pose)

    def _variances(self, variances: Any) -> Any:
        if self.pose is None or self.columns is None:
            return variances
        return variances_from_frame(variances, self.columns, self.pose)

    def _start(self, head: int) -> Float[Array, "N Q"]:
        """Where a change of a head begins, in the frame: where the process expects an object, or where it is."""
        return self._inside(self.values + self.expected if self.relative[head] else self.values)

    @property
    def doubt(self) -> Float[Array, ""]:
        """How far members disagree about some value: of objects that heads hold, and of others if a network moves them.

        sqrt(epistemic / aleatoric) as in `familiar.disagreement`, of changes, without the wide component.
        """
        asked = [(said.narrow(self._weights(k)), self.outputs[k]) for k, said in enumerate(self.said)]
        if self.moving:
            asked.append((self.process.narrow(self.process.log_gate), self.valid & ~self._held))
        found = jnp.zeros((), self.values.dtype)
        for moments, held in asked:
            found = jnp.maximum(found, jnp.where(held[:, None], disagreements(*moments), 0.0).max())
        return found

    @property
    def _held(self) -> Bool[Array, " N"]:
        return self.outputs.any(axis=0)

    def _alone(self, head: int) -> Said:
        """What a head says of one object by itself: the wide component counts where objects are apart."""
        said = self.said[head]
        if self.scopes[head] == "object":
            return said
        return said._replace(log_tail=said.log_tail + jnp.log(self.apart))

    def _weights(self, head: int) -> Any:
        """log weights of a head's outcomes, (M, N, K)."""
        said = self.said[head]
        if self.scopes[head] == "rule":
            assert self.log_gate is not None
            return jnp.broadcast_to(self.log_gate[:, None, :], said.log_gate.shape)
        return said.log_gate

    def log_values(self, after: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        """log p(s'[o, P]) for every object and changeable property, each value alone; 0 on padding."""
        inside, change = self._inside(after), after - self.values
        found = self.process.log_values(change[None], self.process.log_gate)
        for k in range(len(self.said)):
            y = inside - self._start(k)
            found = jnp.where(self.outputs[k][:, None], self._alone(k).log_values(y[None], self._weights(k)), found)
        mixed = jax.nn.logsumexp(found, axis=0) - jnp.log(found.shape[0])
        return jnp.where(self.valid[:, None], mixed, 0.0)

    def log_prob(self, after: Float[Array, "N Q"]) -> Float[Array, ""]:
        """log p(s' | s, a; T), all objects together."""
        rest, ends = self._log_ends(after)
        total = rest + jax.nn.logsumexp(ends, axis=1)
        return jax.nn.logsumexp(total) - jnp.log(total.shape[0])

    def _log_ends(self, after: Float[Array, "N Q"]) -> tuple[Any, Any]:
        """By member: log density of what has no outcome of the whole rule (M,), and of the rest in each one (M, K).

        The latter with its weight; a single 0 where nothing is left.
        """
        inside, change = self._inside(after), after - self.values
        alone = self.process.log_density(change[None])
        free = self.valid & ~self._held
        total = jnp.where(free, alone, 0.0).sum(axis=1)
        members = total.shape[0]
        outcomes = 1 if self.log_gate is None else self.log_gate.shape[1]
        gate = jnp.zeros((members, 1)) if self.log_gate is None else self.log_gate
        apart, close = jnp.zeros((members, outcomes)), jnp.zeros((members, outcomes))
        scores, loads = [], []
        for k, said in enumerate(self.said):
            mine, y = self.outputs[k][None, :, None], inside - self._start(k)
            if self.scopes[k] == "object":
                total = total + jnp.where(self.outputs[k], said.log_density(y[None]), 0.0).sum(axis=1)
                continue
            apart = apart + jnp.where(mine, said.log_outcomes(y[None]), 0.0).sum(axis=1)
            close = close + jnp.where(mine, said.log_parts(y[None])[0], 0.0).sum(axis=1)
            scores.append(jnp.where(mine[..., None], (y[None, :, None] - said.mean) / jnp.sqrt(said.variance), 0.0))
            loads.append(jnp.where(mine[..., None], self._loads(k), 0.0))
        if scores:
            wide = (members, self.valid.shape[0], outcomes, change.shape[1])
            score = sum(jnp.broadcast_to(one, wide) for one in scores)
            load = sum(jnp.broadcast_to(one, wide) for one in loads)
            factor = factor_log_density(score, load, lambda p: p.sum(axis=1), lambda t: t[:, None]).sum(axis=-1)
            both = jnp.logaddexp(
                jnp.log1p(-jnp.minimum(self.apart, 1 - 1e-6)) + close + factor, jnp.log(self.apart) + apart
            )
            both = jnp.where(self.apart >= 1, apart, both)
            return total, gate + both
        return total, jnp.zeros((members, 1), total.dtype)

    def responsibilities(self, after: Float[Array, "N Q"]) -> Float[Array, " K"]:
        """P(outcome | s, a, s'; T), exact over members; outcomes are the whole rule's, or those of an action's object.

        A single 1 where a transition has no outcomes of its own.
        """
        if self.outcome_of is None:
            return jnp.ones(1, self.values.dtype)
        rest, ends = self._log_ends(after)
        if self.scopes[self.outcome_of] == "object":
            said, mine = self.said[self.outcome_of], self.outputs[self.outcome_of][None, :, None]
            y = self._inside(after) - self._start(self.outcome_of)
            parts = said.log_gate + said.log_outcomes(y[None])
            parts = parts - jax.nn.logsumexp(parts, axis=2, keepdims=True)
            ends = jnp.where(mine, parts, 0.0).sum(axis=1) + jax.nn.logsumexp(ends, axis=1)[:, None]
        ends = jnp.take_along_axis(rest[:, None] + ends, self.orders[self.outcome_of], axis=1)
        return jax.nn.softmax(jax.nn.logsumexp(ends, axis=0))

    def outcomes(self) -> tuple[tuple[Any, Any, Any, Any], ...]:
        """Of each head: probability (N, K), mean (N, K, Q), covariance (N, K, Q, Q) in the world, share of outliers ().

        The covariance is that of the narrow component, and how far members are apart; outliers are left out.
        """
        return tuple(self._outcomes(k) for k in range(len(self.said)))

    def _outcomes(self, head: int) -> tuple[Any, Any, Any, Any]:
        said, order = self._alone(head), self.orders[head][:, None]
        weight = jnp.take_along_axis(jnp.exp(self._weights(head)), order, axis=2)
        mean, variance = (jnp.take_along_axis(part, order[..., None], axis=2) for part in (said.mean, said.variance))
        share = weight / jnp.maximum(weight.sum(axis=0), jnp.finfo(weight.dtype).tiny)
        ends = self._outside(self._start(head)[None, :, None] + mean)
        middle = (share[..., None] * ends).sum(axis=0)
        turn = jax.jacfwd(self._outside)(jnp.zeros_like(mean[0, 0, 0]))
        own, apart = jnp.einsum("ij,mnkj,lj->mnkil", turn, variance, turn), ends - middle
        covariance = (share[..., None, None] * (own + apart[..., None] * apart[..., None, :])).sum(axis=0)
        return weight.mean(axis=0), middle, covariance, jnp.exp(said.log_tail).mean()

    def _loads(self, head: int) -> Any:
        """Loadings of a head's objects and outcomes, (M, N, K, Q); resolution is each value's own, the pinned has 0."""
        said, resolutions = self.said[head], jnp.asarray(self.domain.resolutions, self.values.dtype)
        load = self.loadings[head] * common_part(said.variance, resolutions)
        load = load if self.held is None else jnp.where(self.held[:, None, :], load, 0.0)
        pinned = (jnp.arange(said.mean.shape[2]) == 0) & self.pinned[head]
        return jnp.where(pinned[:, None], 0.0, load)

    def _by_member(self) -> tuple[Any, Any]:
        """Mean of the change and variance of every value by member, (M, N, Q), in the world."""
        mean, variance = self.process.moments(self.process.log_gate)
        ends = self.values + mean
        for k in range(len(self.said)):
            found, spread = self._alone(k).moments(self._weights(k))
            mine = self.outputs[k][:, None]
            moved = jax.vmap(self._outside)(self._start(k) + found)
            ends = jnp.where(mine, moved, ends)
            variance = jnp.where(mine, jax.vmap(self._variances)(spread), variance)
        return ends, variance

    def moments(self) -> tuple[Float[Array, "N Q"], Float[Array, "N Q"]]:
        """Mean and variance of p(s'[o, P]) for every object and changeable property."""
        means, variances = self._by_member()
        return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)

    def epistemic(self) -> Float[Array, "N Q"]:
        """The part of the variance that is disagreement of the ensemble, about the mean or about the noise."""
        means, variances = self._by_member()
        typical = variances.mean(axis=0)
        ratio = jnp.where(variances > 0, variances / jnp.where(typical > 0, typical, 1.0), 1.0)
        return means.var(axis=0) - typical * jnp.expm1(jnp.minimum(jnp.log(ratio).mean(axis=0), 0.0))

    def sample(self, key: PRNGKeyArray, given: Chances | None = None) -> Float[Array, "N Q"]:
        """One draw of s': a member, an outcome of the rule, outcomes of objects, then values.

        An object belongs to one head or to the process, so all of these share the numbers that chance gives it; what
        the objects have in common is one more call of the generator.
        """
        given = Chances.of(key, self.values) if given is None else given
        low = np.finfo(self.values.dtype).tiny
        common = jax.random.uniform(jax.random.fold_in(key, 1), (3 + self.values.shape[1],), self.values.dtype, low)
        members = self.process.mean.shape[0]
        member = jnp.minimum((common[0] * members).astype(int), members - 1)
        process, said, gate = take_member((self.process, self.said, self.log_gate), member)
        process, said, gate = jax.tree.map(lambda part: part[0], (process, said, gate))
        apart, factor = common[1] < self.apart, jax.scipy.special.ndtri(common[3:])
        drawn = self.values + draw(given, process, chances(process.log_gate, given.component[:, :1]), True)
        for k, one in enumerate(said):
            own = self.scopes[k] == "object"
            chosen = chances(one.log_gate, given.component[:, :1])
            if self.scopes[k] == "rule":
                chosen = jnp.broadcast_to(chances(gate, common[2:3]), chosen.shape)
            shared = None if own else jnp.where(apart, 0.0, take_member(self._loads(k), member)[0])
            coins = True if own else apart
            moved = self._outside(self._start(k) + draw(given, one, chosen, coins, shared, factor))
            drawn = jnp.where(self.outputs[k][:, None], moved, drawn)
        return drawn


def chances(log_gate: Float[Array, "*n K"], uniform: Float[Array, "*n 1"]) -> Bool[Array, "*n K"]:
    """Which outcome it is: the one in whose share of the unit interval the number falls."""
    edges = jnp.cumsum(jnp.exp(log_gate), axis=-1)[..., :-1]
    which = (uniform >= edges).sum(axis=-1, keepdims=True)
    return which == jnp.arange(log_gate.shape[-1])


def draw(given: Chances, said: Said, chosen: Any, coins: Any, loads: Any = None, factor: Any = 0.0) -> Any:
    """A draw of y (N, Q): the chosen outcome (N, K) of every object, wide where `coins` allows it, values.

    Outcomes are few: summing over them is faster than looking one up.
    """

    def pick(part: Any) -> Any:
        return jnp.where(chosen[:, :, None], part, 0.0).sum(axis=1)

    out = coins & (given.outlier[:, :1] < jnp.exp(said.log_tail))
    scores = given.scores
    if loads is not None:
        load = pick(loads)
        scores = load * factor + jnp.sqrt(1.0 - jnp.square(load)) * scores
    return pick(said.mean) + jnp.sqrt(jnp.where(out, pick(said.wide), pick(said.variance))) * scores
