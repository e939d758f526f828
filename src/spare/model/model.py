"""The sparse relational transition model: rules, a score, and equation 1 of the paper.

    p(s' | s, a) = mean over the rules with the highest score of p(s' | s, a; T)     if any rule applies
                   N(s, Sigma_default)                                               otherwise

Tied rules are a mixture of joint densities: one rule is drawn for the whole state. Functions of one `Scene` are
jit-able and batch with vmap; functions of an `Experience` run on the host, a padded batch at a time.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, overload, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from spare.arguments import check_kind, check_seed, check_sequence, described
from spare.arrays import precision
from spare.content import same
from spare.data.checks import check_call, check_state
from spare.data.experience import Experience, expect_experience
from spare.data.extras import check_stored
from spare.data.named import parameters_of
from spare.data.precision import Numbers, needs_double
from spare.data.ragged import positions_within
from spare.data.scene import Batch, Scene, batches, object_slots, pairs_of, round_up
from spare.data.state import ActionCall, State
from spare.errors import DataError, DefinitionError, FileError, SpareError, UsageError
from spare.forks import check_threads
from spare.io import manifest as manifests
from spare.io.atomic import replacing
from spare.io.schemas import differences
from spare.language.domain import Domain, expect_domain
from spare.language.formulas import differences as differences_of_formulas
from spare.language.formulas import fingerprints
from spare.language.references import EVERYONE
from spare.language.registry import find_domain
from spare.model.distributions import Chances, RuleDistribution, firing, mix_rules, rule_weights
from spare.model.explain import Prediction, Predictions, RuleAnswer, aleatoric_of, describe_model
from spare.model.familiar import Seen, Warned, warnings_of
from spare.model.headrule import HeadDistribution, HeadRule
from spare.model.noise import DefaultNoise
from spare.model.outcomes import choices
from spare.model.rollout import Rollout, roll_out
from spare.model.rule import Binding, Rule
from spare.programs import PROGRAMS


@runtime_checkable
class TransitionModel(Protocol):
    """p(s' | s, a): what SPARE models, baselines and a user's own models have in common."""

    domain: Domain

    def log_prob(self, experience: Experience) -> np.ndarray:
        """log p(s' | s, a) in nats, one per transition."""
        ...

    def sample(self, experience: Experience, seed: int) -> np.ndarray:
        """One draw of s' for each transition, in the layout of `experience.next_values`."""
        ...

    def predict(self, state: State, action: ActionCall) -> Any:
        """What is expected of each object, with `mean` and `std` of shape (objects, properties)."""
        ...


class Provenance(dict[str, Any]):
    """Where a model comes from (JSON values). Equal to any other, so that it never makes a program compile anew."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Provenance)

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


class SceneDistribution(eqx.Module):
    """p(s' | s, a) of one scene (equation 1): every rule's binding and distribution, which rules fire, the default.

    `values` (N, Q) are the values before; `noise` (resolved) holds where no rule applies; `has`: which of them objects
    have, None if all.
    """

    domain: Domain = eqx.field(static=True)
    bindings: tuple[Binding, ...]
    rules: tuple[RuleDistribution | HeadDistribution, ...]
    fires: Bool[Array, " K"]
    valid: Bool[Array, " N"]
    values: Float[Array, "N Q"]
    noise: DefaultNoise
    has: Bool[Array, "N Q"] | None = None

    def _stays(self, after: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        found = self.noise.log_density(after - self.values, self.domain.leaves)
        return self._those(jnp.where(self.valid[:, None], found, 0.0), 0.0)

    def _those(self, found: Any, otherwise: Any) -> Any:
        """What was found (..., N, Q) of properties that objects have, and something else of others."""
        return found if self.has is None else jnp.where(self.has, found, otherwise)

    def log_prob(self, after: Float[Array, "N Q"]) -> Float[Array, ""]:
        """log p(s' | s, a)."""
        return mix_rules(self.fires, jnp.stack([*(r.log_prob(after) for r in self.rules), self._stays(after).sum()]))

    def log_values(self, after: Float[Array, "N Q"]) -> Float[Array, "N Q"]:
        """log density of each value alone; sums to `log_prob` if one rule fires that has no copula."""
        found = mix_rules(self.fires, jnp.stack([*(r.log_values(after) for r in self.rules), self._stays(after)]))
        return self._those(found, 0.0)

    def moments(self) -> tuple[Float[Array, "N Q"], Float[Array, "N Q"]]:
        """Mean and variance of each changeable value."""
        means, variances = self._moments()
        weight = rule_weights(self.fires)[:, None, None]
        mean = (weight * means).sum(axis=0)
        return mean, (weight * (variances + jnp.square(means - mean))).sum(axis=0)

    def _moments(self) -> tuple[Float[Array, "K1 N Q"], Float[Array, "K1 N Q"]]:
        parts = [rule.moments() for rule in self.rules]
        parts.append(self.noise.moments(self.values, self.domain.leaves))
        means, variances = (jnp.stack(part) for part in zip(*parts, strict=True))
        return self._those(means, self.values), self._those(variances, 0.0)

    def epistemic(self) -> Float[Array, "N Q"]:
        """The part of the variance that is not noise: members disagree, or tied rules do."""
        means, weight = self._moments()[0], rule_weights(self.fires)[:, None, None]
        between = jnp.square(means - (weight * means).sum(axis=0))
        own = jnp.stack([*(rule.epistemic() for rule in self.rules), jnp.zeros_like(self.values)])
        return (weight * (own + between)).sum(axis=0)

    def held(self) -> Bool[Array, " N"]:
        """Whom a firing rule predicts: some output slot or head holds the object, or its process moves by itself."""
        found = [
            binding.outputs.any(axis=0) | _moves(rule) for rule, binding in zip(self.rules, self.bindings, strict=True)
        ]
        if not found:
            return jnp.zeros_like(self.valid)
        return self.valid & (jnp.stack(found) & self.fires[:, None]).any(axis=0)

    def responsibilities(self, after: Float[Array, "N Q"]) -> Float[Array, " K"]:
        """P(rule and outcome | s, a, s'), outcomes rule by rule; 0 for rules that do not fire."""
        if not self.rules:
            return jnp.zeros(0, self.values.dtype)
        parts = [
            rule.responsibilities(after) if isinstance(rule, HeadDistribution) else jnp.ones(1) for rule in self.rules
        ]
        log_rule = jnp.where(self.fires, jnp.stack([rule.log_prob(after) for rule in self.rules]), -jnp.inf)
        top = jnp.max(jnp.where(self.fires, log_rule, -jnp.inf), initial=-jnp.inf)
        share = jnp.exp(log_rule - jnp.where(jnp.isfinite(top), top, 0.0))
        share = share / jnp.where(self.fires.any(), share.sum(), 1.0)
        return jnp.concatenate([one * part for one, part in zip(share, parts, strict=True)])

    def sample(self, key: PRNGKeyArray) -> Float[Array, "N Q"]:
        """One draw: one of the firing rules for the whole state, then every value.

        Of the draws of all rules one is taken, so they may have their random numbers in common.
        """
        own, which = jax.random.split(key) if len(self.rules) > 1 else (key, key)
        given = Chances.of(own, self.values)
        draws = [self.noise.draw(given.outlier, self.values, given.scores, self.domain.leaves)]
        for rule in self.rules:
            draws.append(rule.draw(own, given) if isinstance(rule, RuleDistribution) else rule.sample(own, given))
        weight = jnp.roll(rule_weights(self.fires), 1)
        chosen = jax.random.categorical(which, jnp.log(weight)) if len(self.rules) > 1 else jnp.argmax(weight)
        return self._those(jnp.stack(draws)[chosen], self.values)


def _asked(rule: Rule | HeadRule, scene: Scene, binding: Binding, member: Any) -> Any:
    """What a rule says of a scene, or what one member of it does."""
    if member is None:
        return rule.distribution(scene, binding)
    if isinstance(rule, HeadRule):
        return rule.distribution(scene, binding, member % rule.members)
    return rule.distribution(scene, binding).alone(member % rule.predictor.members)


def _moves(rule: RuleDistribution | HeadDistribution) -> bool:
    """Whether objects that a rule does not hold are expected to do more than stay."""
    return isinstance(rule, HeadDistribution) and not rule.stays


class Model(eqx.Module):
    """T = {T_k} with the score C, and the default noise of states that no rule applies to.

    A rule is a `Rule`, as in the paper, or a `HeadRule`, which has what models need of one.

    `noise` is variances (Q,) or a `DefaultNoise`.
    """

    domain: Domain = eqx.field(static=True)
    rules: tuple[Rule, ...]
    noise: DefaultNoise
    provenance: Provenance = eqx.field(static=True)

    def __init__(
        self,
        domain: Domain,
        rules: Sequence[Rule | HeadRule],
        noise: DefaultNoise | Float[Array, " Q"] | np.ndarray,
        provenance: dict[str, Any] | None = None,
    ) -> None:
        check_threads()
        if provenance is not None and not isinstance(provenance, dict):
            raise DefinitionError(f"provenance: expected a dictionary, got {described(provenance)}")
        self.provenance = Provenance(provenance or {})
        self.domain = expect_domain(domain)
        self.rules = check_sequence("rules", rules, "[rule]")
        for rule in self.rules:
            if not isinstance(rule, HeadRule):
                advice = "make one with spare.Rule(domain, spec, predictor, noise)"
                check_kind("rules", rule, Rule, advice, DefinitionError)
        _ = domain.resolutions  # a model without resolutions has no density
        for position, rule in enumerate(self.rules):
            if rule.domain != domain:
                raise DefinitionError(f"rule {position} belongs to {rule.domain!r}, not to {domain!r}")
        self.noise = DefaultNoise.of(noise).checked(len(domain.dynamic))

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        """The same domain and the same rules with the same numbers, wherever they come from."""
        return same(self, other) if isinstance(other, Model) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fit had to say about this model, failures to learn first; they are kept in its file."""
        return tuple(self.provenance.get("notes", ()))

    def distribution(self, scene: Scene, member: Any = None) -> SceneDistribution:
        """p(s' | s, a) of one scene, jit-able: every rule is bound and asked once.

        With a `member`, a number below `members`, draws are those of this member of every ensemble.
        """
        bindings = tuple(rule.bind(scene) for rule in self.rules)
        rules = tuple(_asked(rule, scene, one, member) for rule, one in zip(self.rules, bindings, strict=True))
        scores = [jnp.where(one.applies, rule.score, 0) for rule, one in zip(self.rules, bindings, strict=True)]
        values = scene.values[:, np.array(self.domain.dynamic)]
        noise = self.noise.resolved(jnp.asarray(self.domain.resolutions, self.noise.variance.dtype))
        fires = firing(jnp.array(scores, int))
        held = self.domain.held_dynamic(scene.values)
        return SceneDistribution(self.domain, bindings, rules, fires, scene.valid, values, noise, held)

    @property
    def members(self) -> int:
        """M: how many ways of seeing the world the ensembles of all rules have, each rule's equally often."""
        counts = [rule.members if isinstance(rule, HeadRule) else rule.predictor.members for rule in self.rules]
        return math.lcm(*counts)

    def advance(self, scene: Scene, key: PRNGKeyArray, member: Any) -> Float[Array, "N P"]:
        """One draw of s' as one member sees it, jit-able: all properties, static ones as they are."""
        drawn = self.distribution(scene, member).sample(key)
        drawn = jnp.where(scene.valid[:, None], drawn, scene.values[:, np.array(self.domain.dynamic)])
        return scene.values.at[:, np.array(self.domain.dynamic)].set(drawn)

    # -- from a state on -----------------------------------------------------------------------------------------

    def step(self, state: State, call: ActionCall, *, seed: int) -> State:
        """One draw of the state that follows: ids and static properties stay, angles wrap."""
        return self.rollout(state, [call], samples=1, seed=seed).states(0)[-1]

    def rollout(self, state: State, calls: Sequence[ActionCall], *, samples: int = 64, seed: int = 0) -> Rollout:
        """`samples` trajectories of these calls: each keeps one member of the ensemble, and draws jointly at each step.

        Sample k has member k modulo `members`; its draws depend on (seed, k) and on the calls before alone.
        """
        check_threads()
        return roll_out(self, state, calls, samples, key_of(seed))

    # -- an experience, on the host -----------------------------------------------------------------------------

    def log_prob(self, experience: Experience) -> np.ndarray:
        """log p(s' | s, a) in nats, float64, one per transition."""
        result = np.empty(len(self._known(experience)))
        for batch, values in self._each(experience, "log_prob"):
            result[batch.index[batch.index >= 0]] = np.asarray(values)[batch.index >= 0]
        return _finite(result, "log-likelihood", np.arange(len(experience)))

    def log_prob_values(self, experience: Experience) -> np.ndarray:
        """log p of every (object, changeable property), float64 (total, Q), rows as in `experience.values`."""
        result = np.empty((len(self._known(experience).values), len(self.domain.dynamic)))
        for batch, values in self._each(experience, "log_values"):
            result[_rows(experience, batch)] = np.asarray(values)[batch.scene.valid]
        return _finite(result, "log-likelihood", experience.owner)

    def mean(self, experience: Experience) -> np.ndarray:
        """E[s'] of every object, (total, P) in the precision of the experience, rows as in `experience.values`."""
        return self.moments(experience)[0]

    def moments(self, experience: Experience) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard deviation) of every object's properties, (total, P); static ones never vary.

        Both have as many bits as the experience, or 64 if the model was learned from such data.
        """
        mean, std = self._spreads(experience, epistemic=False)
        return mean, std

    def uncertainty(self, experience: Experience) -> tuple[np.ndarray, np.ndarray]:
        """(aleatoric, epistemic), standard deviations, (total, P); their squares add to the variance.

        Aleatoric is what the members of an ensemble agree on, the geometric mean of their variances; epistemic is how
        far they, or tied rules, disagree about the mean or the noise: more data shrink it, and it grows where there
        were none. A rule with a single member cannot tell, and gives 0.
        """
        _, std, epistemic = self._spreads(experience, epistemic=True)
        return aleatoric_of(std, epistemic), epistemic

    def _spreads(self, experience: Experience, *, epistemic: bool) -> tuple[np.ndarray, ...]:
        """(mean, deviation, and, where asked for, epistemic deviation), (total, P)."""
        stays = self._stays(self._known(experience).values)
        found = [stays, *(np.zeros_like(stays) for _ in range(1 + epistemic))]
        columns, owners = np.array(self.domain.dynamic), experience.owner
        for batch, (mean, *variances) in self._each(experience, "spreads" if epistemic else "moments"):
            cells = np.ix_(_rows(experience, batch), columns)
            for whole, part in zip(found, (mean, *map(np.sqrt, variances)), strict=True):
                whole[cells] = np.asarray(part)[batch.scene.valid]
        for whole, what in zip(found, ("expected state", "deviation", "deviation"), strict=False):
            _finite(whole, what, owners)
        return tuple(found)

    def predicted(self, experience: Experience) -> np.ndarray:
        """Which objects a firing rule predicts, or a process moves, (total,) bool: all others are expected to stay."""
        result = np.zeros(len(self._known(experience).values), bool)
        for batch, held in self._each(experience, "held"):
            result[_rows(experience, batch)] = np.asarray(held)[batch.scene.valid]
        return result

    def responsibilities(self, experience: Experience) -> np.ndarray:
        """P(outcome | s, a, s'), exact, (n, K) float64: what happened in each transition, as the model sees it.

        Columns are the outcomes of the first rule, then those of the next. A rule has the outcomes of the whole rule,
        else those of an action's object; one, if it has neither: a model of one such rule gives ones, (n, 1). A row of
        rules that tie says which of them it was, too. Rows add to 1, or to 0 where no rule applies.
        """
        count = sum(rule.outcomes if isinstance(rule, HeadRule) else 1 for rule in self.rules)
        result = np.zeros((len(self._known(experience)), count))
        for batch, values in self._each(experience, "responsibilities"):
            result[batch.index[batch.index >= 0]] = np.asarray(values)[batch.index >= 0]
        return _finite(result, "share of outcomes", np.arange(len(experience)))

    def warnings(self, experience: Experience) -> tuple[tuple[Warned, ...], ...]:
        """For each transition, the inputs of firing rules that lie outside what these were learned from.

        Calibrated on held-out samples: about one in thirty transitions like the training data gets a warning. A rule
        that nobody trained knows no ranges and never warns.
        """
        result: list[tuple[Warned, ...]] = [()] * len(self._known(experience))
        for batch, (fires, seen) in self._each(experience, "seen"):
            index = batch.index[batch.index >= 0]
            rows: dict[int, list[Seen]] = {}
            for k, (rule, (entries, doubts)) in enumerate(zip(self.rules, seen, strict=True)):
                known, own = rule.familiar, self.domain.action_index(rule.action)
                if known is None:
                    continue
                fired = np.asarray(fires)[: len(index)]
                mine = np.flatnonzero(fired[:, k] | (~fired.any(axis=1) & (batch.scene.action[: len(index)] == own)))
                looked = jax.tree.map(lambda part, mine=mine: np.asarray(part)[mine], entries)
                values, doubt = known.values(rule.gauges, looked), np.asarray(doubts)[mine]
                odd = known.odd(values, doubt)
                for row, gauge, far, fine in zip(mine, values, doubt, ~odd, strict=True):
                    if not (fine and fired[row, k]):
                        one = Seen(known, rule.gauges, gauge, float(far), k + 1, bool(fired[row, k]))
                        rows.setdefault(int(row), []).append(one)
            for row, several in rows.items():
                result[index[row]] = warnings_of(several)
        return tuple(result)

    def familiar(self, experience: Experience) -> np.ndarray:
        """Which transitions start like those that the model was learned from, (n,) bool: those without `warnings`."""
        return np.array([not warned for warned in self.warnings(experience)], bool)

    def sample(self, experience: Experience, seed: int) -> np.ndarray:
        """One draw of s' for each transition, (total, P); transition i's draw depends on (seed, i) only."""
        result, columns = self._stays(self._known(experience).values), np.array(self.domain.dynamic)
        for batch, values in self._each(experience, "sample", key_of(seed)):
            result[np.ix_(_rows(experience, batch), columns)] = np.asarray(values)[batch.scene.valid]
        return _finite(result, "draw", experience.owner)

    @overload
    def predict(self, state: State, action: ActionCall) -> Prediction: ...

    @overload
    def predict(self, state: State, action: Sequence[ActionCall]) -> Predictions: ...

    def predict(self, state: State, action: ActionCall | Sequence[ActionCall]) -> Prediction | Predictions:
        """Who is pointed at, which rule fires, what is expected of each object; `.explain()` says it in words.

        Of several actions in one state: all in one compiled call, with `mean` and `std` (actions, objects, properties);
        `[k]` is the prediction of the k-th.
        """
        check_threads()
        if not isinstance(action, ActionCall):
            return self._predict_many(state, action)
        scene = make_scene(self.domain, state, action, double=self.double)
        with precision(double=scene.values.dtype == np.float64):
            found = PROGRAMS.call("predict", _predict, (self, scene), options=None)
        return self._prediction(state, action, found)

    def _predict_many(self, state: State, given: Sequence[ActionCall]) -> Predictions:
        """The same of several actions: as few shapes as there are sizes of batches."""
        check_state(self.domain, state)
        calls = check_sequence("action", given, "[spare.ActionCall('push', ('a',), (0.1,))]", DataError)
        if not calls:
            raise DataError("predict: the list of actions is empty; give at least one")
        scenes = [make_scene(self.domain, state, call, double=self.double) for call in calls]
        scenes += scenes[-1:] * (round_up(len(scenes)) - len(scenes))
        double = any(scene.values.dtype == np.float64 for scene in scenes)
        real = np.float64 if double else np.float32
        batch = jax.tree.map(lambda *parts: np.stack(parts), *scenes)
        batch = batch._replace(values=batch.values.astype(real), parameters=batch.parameters.astype(real))
        with precision(double=double):
            found = PROGRAMS.call("predict many", _predict_each, (self, batch), options=None)
        found, columns, stays = (
            jax.tree.map(np.asarray, found),
            np.array(self.domain.dynamic),
            self._stays(state.values),
        )
        mean = np.repeat(stays[None], len(calls), axis=0)
        std = np.zeros_like(mean)
        mean[..., columns] = found.spreads[0][: len(calls), : len(state)]
        std[..., columns] = np.sqrt(found.spreads[1][: len(calls), : len(state)])
        for whole, what in ((mean, "expected state"), (std, "deviation")):
            _finite(whole, what, np.arange(len(calls)))

        def one(k: int) -> Prediction:
            return self._prediction(state, calls[k], jax.tree.map(lambda part: part[k], found))

        return Predictions(calls, mean, std, one)

    def _prediction(self, state: State, action: ActionCall, found: _Described) -> Prediction:
        """What was computed of one action, for people."""
        size, columns, stays = len(state), np.array(self.domain.dynamic), self._stays(state.values)
        parts = (stays, np.zeros_like(stays), np.zeros_like(stays))
        for whole, part, what in zip(parts, found.spreads, ("expected state", "deviation", "deviation"), strict=True):
            whole[:, columns] = np.asarray(part)[:size] if what == "expected state" else np.sqrt(part)[:size]
            _finite(whole, what, np.zeros(size, np.int64))
        rules = tuple(
            RuleAnswer(
                rule=rule,
                applies=bool(binding.applies),
                fires=bool(fires),
                inputs=np.asarray(binding.inputs)[:, :size],
                outputs=np.asarray(binding.outputs)[:, :size],
                x=np.asarray(x),
                mean=np.asarray(mean)[:size],
                std=np.sqrt(variance)[:size],
                outcomes=choices(rule, np.asarray(binding.outputs)[:, :size], outcomes, state.values)
                if isinstance(rule, HeadRule)
                else (),
            )
            for rule, binding, fires, (x, mean, variance, *_), outcomes in zip(
                self.rules, found.bindings, np.asarray(found.fires), found.answers, found.outcomes, strict=True
            )
        )
        mean, std, epistemic = parts
        seen = []
        for k, (answer, (*_, entries, doubt)) in enumerate(zip(rules, found.answers, strict=True)):
            known, every = answer.rule.familiar, answer.rule.gauges
            if known is not None and answer.rule.action == action.action:
                values = known.values(every, jax.tree.map(np.asarray, entries))
                seen.append(Seen(known, every, values, float(doubt), k + 1, answer.fires))
        warnings = warnings_of(seen)
        return Prediction(self.domain, state, action, mean, std, rules, epistemic, warnings)

    def _known(self, experience: Experience) -> Experience:
        """The experience, if it is one, and of the model's domain."""
        check_threads()
        if expect_experience(experience).domain.fingerprint != self.domain.fingerprint:
            raise DataError(f"the model knows {self.domain!r}, the data belong to {experience.domain!r}")
        return experience

    def _each(self, experience: Experience, what: str, *given: Any) -> Iterator[tuple[Batch, Any]]:
        """Batches of the experience, and what is read off the distribution of each of their scenes."""
        read = functools.partial(_tiled, _READS[what])
        data = self._known(experience)
        data = data if self.double else data.as_precise_as(self.domain)
        for batch in batches(data, CELLS, full=True):
            with precision(double=self.double or data.double):
                found = PROGRAMS.call(what, read, (self, batch, *given), options=None)
            yield batch, found

    @property
    def double(self) -> bool:
        """Whether it was learned from numbers that need 64 bits: it then computes in as many, whatever it is asked.

        Another model does so for data that need it.
        """
        return any(rule.origins is not None for rule in self.rules)

    def _stays(self, values: np.ndarray) -> np.ndarray:
        """The values before, to be overwritten by those of an answer: a copy with the bits that this can have."""
        return values.astype(np.float64) if self.double else values.copy()

    def __str__(self) -> str:
        check_threads()
        return describe_model(self.domain, self.rules, self.noise)

    # -- files --------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one model file, atomically; `spare.load` gives back a model that predicts the same bits."""
        check_threads()
        try:
            self.domain.check_unchanged()
            manifest, tensors = self.pack()
            for name, tensor in tensors.items():
                if not np.isfinite(tensor).all():
                    raise FileError(f"{name} holds numbers that are not finite")
            data = manifests.encode(manifest, tensors)
            Model.unpack(*manifests.decode(data), self.domain)
        except SpareError as error:
            raise FileError(f"{path}: not written, because {error}") from error
        with replacing(path) as target:
            target.write_bytes(data)

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The model as a manifest (JSON values) and tensors."""
        tensors, rules = {name: np.asarray(part, np.float32) for name, part in self.noise.arrays().items()}, []
        for k, rule in enumerate(self.rules):
            entry, arrays = rule.pack()
            rules.append(entry)
            tensors |= {f"rule.{k}.{name}": array for name, array in arrays.items()}
        used = {pointer.reference for rule in self.rules for shell in (rule.gamma, rule.delta) for pointer in shell}
        used -= {EVERYONE}  # every domain has it
        framed = {rule.action for rule in self.rules if rule.spec.framed}
        schema = self.domain.schema()
        schema["references"] = [one for one in schema["references"] if one["name"] in used]
        manifest = {
            "format": manifests.FORMAT,
            "check": "",
            "domain": schema,
            "fingerprint": self.domain.fingerprint,
            "resolutions": dict(zip(self.domain.dynamic_names, self.domain.resolutions.tolist(), strict=True)),
            "formulas": fingerprints(self.domain, sorted(used), sorted(framed)),
            "rules": rules,
            "provenance": dict(self.provenance),
        }
        return manifest, tensors

    @classmethod
    def unpack(cls, manifest: dict[str, Any], tensors: dict[str, np.ndarray], domain: Domain) -> Model:
        """The model that a manifest and its tensors describe; every shape is checked by `Rule` and `Model`."""
        left, rules = dict(tensors), []

        def take(name: str) -> np.ndarray:
            if name not in left:
                raise FileError(f"tensor {name!r} is missing")
            return left.pop(name)

        for k, entry in enumerate(manifest["rules"]):
            try:
                kind = HeadRule if "heads" in entry else Rule
                rules.append(kind.unpack(domain, entry, lambda name, k=k: take(f"rule.{k}.{name}")))
            except DefinitionError as error:
                raise FileError(f"rule {k + 1}: {error}") from error
        others = [name for name in DefaultNoise._fields[1:] if f"noise.{name}" in left]
        noise = DefaultNoise(**{name: take(f"noise.{name}") for name in ("variance", *others)})
        if left:
            raise FileError(f"tensors that belong to nothing: {', '.join(sorted(left)[:5])}")
        return cls(domain, rules, noise, manifest["provenance"])


def load(path: str | os.PathLike[str], domain: Domain | None = None, *, check_formulas: bool = True) -> Model:
    """Read a model file; its domain may be left out if it is registered (see `spare.language.registry`).

    A file says by fingerprints (`spare.language.formulas`) what the formulas computed that the model was made with; a
    domain with others is refused, unless `check_formulas` is false: then the rules point by the formulas of today.
    """
    check_threads()
    if domain is not None:
        expect_domain(domain).check_unchanged()
    manifest, tensors = manifests.read(path)
    try:
        chosen = _domain_of(manifest, domain)
        if check_formulas:
            _check_formulas(manifest, chosen)
        return Model.unpack(manifest, tensors, chosen)
    except SpareError as error:
        raise FileError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FileError(f"{path}: the model file is damaged ({type(error).__name__}: {error})") from error


def _domain_of(manifest: dict[str, Any], domain: Domain | None) -> Domain:
    """The domain that was given or that is registered, if the file fits it; what does not fit is named."""
    schema = manifest["domain"]
    chosen = domain if domain is not None else find_domain(schema["name"])
    if chosen is None:
        raise FileError(f"it needs the domain {schema['name']!r}: pass domain=..., or --domain MODULE:NAME")
    own = chosen.schema()
    if schema["name"] != own["name"]:
        raise FileError(f"it needs the domain {schema['name']!r}, not {own['name']!r}")
    for kind in ("properties", "actions", "references", "types", "relations"):
        found = differences(schema, own, kind)
        if found:
            raise FileError(f"the domain's {kind} differ: {'; '.join(found[:4])}")
    wanted = {name: float(number) for name, number in manifest["resolutions"].items()}
    had = {p.name: p.resolution for p in chosen.properties if not p.static}
    if {*wanted} != {*had}:
        raise FileError(f"it has resolutions for {', '.join(sorted(wanted))}; {', '.join(sorted(had))} can change")
    return chosen if wanted == had else chosen.with_resolutions(wanted)


def _check_formulas(manifest: dict[str, Any], domain: Domain) -> None:
    """Refuse a domain whose formulas compute something else than those that the model was made with."""
    found = differences_of_formulas(manifest["formulas"], domain)
    if found:
        raise FileError(
            f"{', '.join(found[:4])}: what the domain {domain.name!r} computes there is not what the model was learned "
            "with, so it would point at other objects or see other numbers; use the domain of then, learn again, or "
            "load it as it is with spare.load(path, domain, check_formulas=False)"
        )


def key_of(seed: Any) -> PRNGKeyArray:
    """The key of a seed of up to 64 bits; JAX alone would take its lower 32 and forget the rest."""
    high, low = divmod(check_seed(seed), 2**32)
    return jax.random.fold_in(jax.random.key(low), high) if high else jax.random.key(low)


def expect_model(given: Any, what: str = "model") -> TransitionModel:
    """What was given, if it is a model; otherwise a sentence that says what it is instead."""
    if isinstance(given, TransitionModel) and not isinstance(given, type):
        return given
    advice = "learn one with spare.fit(domain, experience, seed=0).model"
    if isinstance(given, str | os.PathLike):
        advice = "read the file with spare.load(path)"
    elif isinstance(getattr(given, "model", None), TransitionModel):
        advice = "pass its .model"
    elif isinstance(given, Experience):
        advice = "the model comes first, then the experience"
    raise UsageError(f"{what}: expected a model (see spare.TransitionModel), got {described(given)}; {advice}")


def make_scene(domain: Domain, state: State, action: ActionCall, *, double: bool = False) -> Scene:
    """One checked state and action, padded like a batch of one so that few shapes are ever compiled.

    In 64-bit numbers if `double`, or if 32 would lose digits of the state that matter.
    """
    state = check_stored(domain, check_state(domain, state), "state")
    template, objects = check_call(domain, state, action)
    size = max(ALONE, object_slots(len(state)))
    given = np.array([parameters_of(domain, action, f"action {action.action!r}")], np.float64).reshape(1, -1)
    double = double or needs_double(domain, Numbers(state.values, state.values, given, np.array([template])))
    real = np.float64 if double else np.float32
    values = np.zeros((size, len(domain.properties)), real)
    values[: len(state)] = state.values
    chosen = np.zeros(domain.roles, np.int32)
    chosen[: len(objects)] = objects
    parameters = np.zeros(domain.parameters, real)
    parameters[: given.shape[1]] = given[0]
    return Scene(values, np.arange(size) < len(state), np.int32(template), chosen, parameters, pairs_of(state))


def _finite(result: np.ndarray, what: str, owners: np.ndarray) -> np.ndarray:
    """The result, if every number in it is finite; 32-bit numbers end at 3e38, and squares of 2e19 are beyond it."""
    if not np.isfinite(result).all():
        i = int(owners[np.argwhere(~np.isfinite(result))[0][0]])
        raise DataError(
            f"transition {i}: its {what} is not a finite number under this model; its values are too large, or too far "
            "from what the model has seen, for 32-bit numbers: rescale the properties and learn again"
        )
    return result


def _rows(experience: Experience, batch: Batch) -> np.ndarray:
    """Rows of the flat arrays, in the order of a batch's valid cells."""
    chosen = batch.index[batch.index >= 0]
    counts = experience.counts[chosen]
    return np.repeat(experience.offsets[chosen], counts) + positions_within(counts)


def _wide(batch: Batch) -> Batch:
    """The batch in JAX's default float type."""
    real = jnp.result_type(float)
    scene = batch.scene._replace(
        values=jnp.asarray(batch.scene.values, real), parameters=jnp.asarray(batch.scene.parameters, real)
    )
    return batch._replace(scene=scene, next_values=jnp.asarray(batch.next_values, real))


ALONE = 32
"""The least number of objects that a single scene is padded to: so few cost nothing beside the call itself."""
CELLS, TILE = 1 << 13, 512
"""Padded objects in a batch, and in what a program looks at at once: as fast as larger ones, and small in memory."""
Read = Callable[..., Any]


def _tiled(read: Read, model: Model, batch: Batch, *given: Any) -> Any:
    """read(distribution, next values (N, Q), index, ...) of every scene of a batch, a tile after another.

    Only tiles with transitions in them: one program serves any number, at a cost that grows with it.
    """
    batch = _wide(batch)
    after = batch.next_values[:, :, np.array(model.domain.dynamic)]
    height, size = batch.scene.valid.shape
    rows = min(height, max(1, TILE // size))

    def one(scene: Scene, after: Array, index: Array) -> Any:
        return read(model.distribution(scene), after, index, *given)

    def tile(number: Any) -> Any:
        parts = (batch.scene, after, batch.index)
        return jax.vmap(one)(*jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, number * rows, rows), parts))

    def step(number: Any, found: Any) -> Any:
        return jax.tree.map(
            lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, number * rows, 0), found, tile(number)
        )

    nothing = jax.tree.map(lambda x: jnp.zeros((height, *x.shape[1:]), x.dtype), jax.eval_shape(tile, 0))
    return jax.lax.fori_loop(0, -(-(batch.index >= 0).sum() // rows), step, nothing)


_READS: dict[str, Read] = {
    "log_prob": lambda found, after, _: found.log_prob(after),
    "log_values": lambda found, after, _: found.log_values(after),
    "held": lambda found, *_: found.held(),
    "responsibilities": lambda found, after, _: found.responsibilities(after),
    "moments": lambda found, *_: found.moments(),
    "spreads": lambda found, *_: (*found.moments(), found.epistemic()),
    "seen": lambda found, *_: (found.fires, tuple((rule.entries, rule.doubt) for rule in found.rules)),
    "sample": lambda found, _, index, key: found.sample(jax.random.fold_in(key, index)),
}
"""What is read off the distribution of each scene of a batch: one program each."""


class _Described(NamedTuple):
    """What `predict` needs: bindings, which rules fire, (mean, variance, epistemic), and what each rule says.

    That is x, mean, variance, all entries and the disagreement; and the outcomes of each of its heads.
    """

    bindings: tuple[Binding, ...]
    fires: Array
    spreads: tuple[Array, Array, Array]
    answers: tuple[tuple[Array, Array, Array, Any, Array], ...]
    outcomes: tuple[tuple[Any, ...], ...]


def _predict_each(model: Model, scenes: Scene) -> _Described:
    return jax.vmap(lambda scene: _predict(model, scene))(scenes)


def _predict(model: Model, scene: Scene) -> _Described:
    found = model.distribution(scene)
    answers = tuple((rule.x, *rule.moments(), rule.entries, rule.doubt) for rule in found.rules)
    outcomes = tuple(rule.outcomes() if isinstance(rule, HeadDistribution) else () for rule in found.rules)
    return _Described(found.bindings, found.fires, (*found.moments(), found.epistemic()), answers, outcomes)
