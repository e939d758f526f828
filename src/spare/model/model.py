"""The sparse relational transition model: rules, a score, and equation 1 of the paper.

    p(s' | s, a) = mean over the rules with the highest score of p(s' | s, a; T)     if any rule applies
                   N(s, Sigma_default)                                               otherwise

Tied rules are a mixture of joint densities: one rule is drawn for the whole state. Functions of one `Scene` are
jit-able and batch with vmap; functions of an `Experience` run on the host, a padded batch at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from spare.data.checks import check_call, check_state
from spare.data.columns import positions_within
from spare.data.experience import Experience
from spare.data.scene import Batch, Scene, batches, round_up
from spare.data.state import ActionCall, State
from spare.errors import DataError, DefinitionError
from spare.language.domain import Domain
from spare.model.density import check_variances, mix_rules, rule_weights
from spare.model.explain import Prediction, RuleAnswer, describe_model, noise_of
from spare.model.rule import Pointed, Rule, stay_log_values


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


class Model(eqx.Module):
    """T = {T_k} with the score C and the default variances sigma_i for states that no rule applies to."""

    domain: Domain = eqx.field(static=True)
    rules: tuple[Rule, ...]
    default_variance: Float[Array, " Q"]
    provenance: Provenance = eqx.field(static=True)

    def __init__(
        self,
        domain: Domain,
        rules: tuple[Rule, ...] | list[Rule],
        default_variance: Float[Array, " Q"] | np.ndarray,
        provenance: dict[str, Any] | None = None,
    ) -> None:
        self.provenance = Provenance(provenance or {})
        self.domain = domain
        self.rules = tuple(rules)
        self.default_variance = jnp.asarray(default_variance, jnp.result_type(float))
        _ = domain.resolutions  # a model without resolutions has no density
        for position, rule in enumerate(self.rules):
            if rule.domain != domain:
                raise DefinitionError(f"rule {position} belongs to {rule.domain!r}, not to {domain!r}")
        if self.default_variance.shape != (len(domain.dynamic),):
            raise DefinitionError(f"default_variance: {len(domain.dynamic)} values are needed")
        check_variances(self.default_variance)

    # -- one scene, jit-able ------------------------------------------------------------------------------------

    def point(self, scene: Scene) -> tuple[Pointed, ...]:
        """For every rule, whom its slots hold and whether it applies."""
        return tuple(rule.point(scene) for rule in self.rules)

    def scores(self, pointed: tuple[Pointed, ...]) -> Int[Array, " K"]:
        """C(T_k, s): 0 where a rule does not apply, else its number of references plus one."""
        parts = [jnp.where(p.applies, rule.score, 0) for rule, p in zip(self.rules, pointed, strict=True)]
        return jnp.array(parts, int)

    def fires(self, pointed: tuple[Pointed, ...]) -> Bool[Array, " K"]:
        """argmax over T of C(T, s): the applying rules with the highest score."""
        scores = self.scores(pointed)
        return (scores > 0) & (scores == scores.max()) if self.rules else jnp.zeros(0, bool)

    def default_spread(self) -> Float[Array, " Q"]:
        """sigma + resolution²: the variance of every value when no rule applies."""
        return self.default_variance + jnp.square(jnp.asarray(self.domain.resolutions, self.default_variance.dtype))

    def rule_log_values(
        self, scene: Scene, next_values: Float[Array, "N P"]
    ) -> tuple[Bool[Array, " K"], Float[Array, "K1 N Q"]]:
        """(which rules fire, log p per value of each rule and, last, of the default), 0 on padding."""
        pointed = self.point(scene)
        dynamic = np.array(self.domain.dynamic)
        still = stay_log_values(scene, next_values, self.default_spread(), dynamic)
        still = jnp.where(scene.valid[:, None], still, 0.0)
        parts = [r.log_values(scene, next_values, p) for r, p in zip(self.rules, pointed, strict=True)]
        return self.fires(pointed), jnp.stack([*parts, still])

    def scene_log_prob(self, scene: Scene, next_values: Float[Array, "N P"]) -> Float[Array, ""]:
        """Equation 1: log p(s' | s, a)."""
        fires, values = self.rule_log_values(scene, next_values)
        pairs = zip(self.rules, self.point(scene), strict=True)
        beyond = [rule.log_together(scene, next_values, pointed) for rule, pointed in pairs]
        return mix_rules(fires, values.sum(axis=(1, 2)) + jnp.stack([*beyond, jnp.zeros((), values.dtype)]))

    def scene_log_values(self, scene: Scene, next_values: Float[Array, "N P"]) -> Float[Array, "N Q"]:
        """log density of each value alone; sums to `scene_log_prob` if one rule fires that has no `together`."""
        return mix_rules(*self.rule_log_values(scene, next_values))

    def scene_moments(self, scene: Scene) -> tuple[Float[Array, "N Q"], Float[Array, "N Q"]]:
        """Mean and variance of each changeable value under equation 1."""
        pointed = self.point(scene)
        here = scene.values[:, np.array(self.domain.dynamic)]
        parts = [rule.moments(scene, p) for rule, p in zip(self.rules, pointed, strict=True)]
        parts.append((here, jnp.broadcast_to(self.default_spread(), here.shape)))
        weight = rule_weights(self.fires(pointed))[:, None, None]
        means = jnp.stack([mean for mean, _ in parts])
        spreads = jnp.stack([spread for _, spread in parts])
        mean = (weight * means).sum(axis=0)
        return mean, (weight * (spreads + jnp.square(means - mean))).sum(axis=0)

    def scene_ignorance(self, scene: Scene) -> Float[Array, "N Q"]:
        """The part of `scene_moments`' variance that is not noise: members disagree, or tied rules do."""
        pointed = self.point(scene)
        here = scene.values[:, np.array(self.domain.dynamic)]
        parts = [(r.moments(scene, p)[0], r.ignorance(scene, p)) for r, p in zip(self.rules, pointed, strict=True)]
        parts.append((here, jnp.zeros_like(here)))
        weight = rule_weights(self.fires(pointed))[:, None, None]
        means = jnp.stack([mean for mean, _ in parts])
        between = jnp.square(means - (weight * means).sum(axis=0))
        return (weight * (jnp.stack([own for _, own in parts]) + between)).sum(axis=0)

    def scene_sample(self, key: PRNGKeyArray, scene: Scene) -> Float[Array, "N P"]:
        """One draw of s': one of the firing rules for the whole state, then every value."""
        pointed = self.point(scene)
        which, noise, *keys = jax.random.split(key, 2 + len(self.rules))
        dynamic = np.array(self.domain.dynamic)
        here = scene.values[:, dynamic]
        still = here + jnp.sqrt(self.default_spread()) * jax.random.normal(noise, here.shape, here.dtype)
        draws = [r.sample(k, scene, p) for k, r, p in zip(keys, self.rules, pointed, strict=True)]
        chosen = jax.random.categorical(which, jnp.log(rule_weights(self.fires(pointed))))
        return scene.values.at[:, dynamic].set(jnp.stack([*draws, still])[chosen])

    # -- an experience, on the host -----------------------------------------------------------------------------

    def log_prob(self, experience: Experience) -> np.ndarray:
        """log p(s' | s, a) in nats, float64, one per transition."""
        result = np.empty(len(experience))
        for batch, values in self._each(experience, _batch_log_prob):
            result[batch.index[batch.index >= 0]] = np.asarray(values)[batch.index >= 0]
        return _finite(result, "log-likelihood", np.arange(len(experience)))

    def log_prob_values(self, experience: Experience) -> np.ndarray:
        """log p of every (object, changeable property), float64 (total, Q), rows as in `experience.values`."""
        result = np.empty((len(experience.values), len(self.domain.dynamic)))
        for batch, values in self._each(experience, _batch_log_values):
            result[_rows(experience, batch)] = np.asarray(values)[batch.scene.valid]
        return _finite(result, "log-likelihood", _owners(experience))

    def mean(self, experience: Experience) -> np.ndarray:
        """E[s'] of every object, float32 (total, P), rows as in `experience.values`."""
        return self.moments(experience)[0]

    def moments(self, experience: Experience) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard deviation) of every object's properties, float32 (total, P); static ones never vary."""
        mean, std = experience.values.copy(), np.zeros_like(experience.values)
        columns = np.array(self.domain.dynamic)
        for batch, (centre, spread) in self._each(experience, _batch_moments):
            rows = _rows(experience, batch)
            mean[np.ix_(rows, columns)] = np.asarray(centre)[batch.scene.valid]
            std[np.ix_(rows, columns)] = np.sqrt(np.asarray(spread)[batch.scene.valid])
        owners = _owners(experience)
        return _finite(mean, "expected state", owners), _finite(std, "deviation", owners)

    def uncertainty(self, experience: Experience) -> tuple[np.ndarray, np.ndarray]:
        """(noise, ignorance), standard deviations, float32 (total, P): noise² + ignorance² is the predicted variance.

        Noise is what the members of an ensemble agree on, the geometric mean of their variances; ignorance is how far
        they, or tied rules, disagree about the mean or the noise: more data shrink it, and it grows where there were
        none. A rule with a single member cannot tell, and says 0.
        """
        noise, ignorance = self.moments(experience)[1], np.zeros_like(experience.values)
        columns = np.array(self.domain.dynamic)
        for batch, spread in self._each(experience, _batch_ignorance):
            ignorance[np.ix_(_rows(experience, batch), columns)] = np.sqrt(np.asarray(spread)[batch.scene.valid])
        return noise_of(noise, ignorance), _finite(ignorance, "deviation", _owners(experience))

    def sample(self, experience: Experience, seed: int) -> np.ndarray:
        """One draw of s' for each transition, float32 (total, P); transition i's draw depends on (seed, i) only."""
        result = experience.values.copy()
        key = jax.random.key(seed)

        def draw(model: Model, batch: Batch) -> Array:
            return _batch_sample(model, key, batch)

        for batch, values in self._each(experience, draw):
            result[_rows(experience, batch)] = np.asarray(values)[batch.scene.valid]
        return _finite(result, "draw", _owners(experience))

    def predict(self, state: State, action: ActionCall) -> Prediction:
        """Who is pointed at, which rule fires, what is expected of each object; `.explain()` says it in words."""
        scene = make_scene(self.domain, state, action)
        pointed, fires, moments, ignored, answers = _describe(self, scene)
        size = len(state)
        mean, std, ignorance = state.values.copy(), np.zeros_like(state.values), np.zeros_like(state.values)
        columns = np.array(self.domain.dynamic)
        ignorance[:, columns] = np.sqrt(np.asarray(ignored)[:size])
        mean[:, columns] = np.asarray(moments[0])[:size]
        std[:, columns] = np.sqrt(np.asarray(moments[1])[:size])
        for part, what in ((mean, "expected state"), (std, "deviation"), (ignorance, "deviation")):
            _finite(part, what, np.zeros(size, np.int64))
        rules = tuple(
            RuleAnswer(
                rule=rule,
                applies=bool(p.applies),
                fires=bool(fire),
                inputs=np.asarray(p.inputs)[:, :size],
                outputs=np.asarray(p.outputs)[:, :size],
                x=np.asarray(x),
                mean=np.asarray(centre)[:size],
                std=np.sqrt(np.asarray(spread)[:size]),
            )
            for rule, p, fire, (x, centre, spread) in zip(self.rules, pointed, np.asarray(fires), answers, strict=True)
        )
        return Prediction(self.domain, state, action, mean, std, rules, ignorance)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one model file, atomically; `spare.load` gives back a model that predicts the same bits."""
        from spare.model.files import save

        save(self, path)

    def _each(self, experience: Experience, function: Callable[..., Any]) -> Iterator[tuple[Batch, Any]]:
        if experience.domain.fingerprint != self.domain.fingerprint:
            raise DataError(f"the model knows {self.domain!r}, the data belong to {experience.domain!r}")
        for batch in batches(experience):
            yield batch, function(self, batch)

    def __str__(self) -> str:
        return describe_model(self.domain, self.rules, np.asarray(self.default_spread()))


def make_scene(domain: Domain, state: State, action: ActionCall) -> Scene:
    """One checked state and action, padded like a batch of one so that few shapes are ever compiled."""
    check_state(domain, state)
    template, objects = check_call(domain, state, action)
    size = round_up(len(state))
    values = np.zeros((size, len(domain.properties)), np.float32)
    values[: len(state)] = state.values
    chosen = np.zeros(domain.roles, np.int32)
    chosen[: len(objects)] = objects
    parameters = np.zeros(domain.parameters, np.float32)
    parameters[: len(action.parameters)] = action.parameters
    return Scene(values, np.arange(size) < len(state), np.int32(template), chosen, parameters)


def _owners(experience: Experience) -> np.ndarray:
    """The transition of each object row."""
    return np.repeat(np.arange(len(experience)), experience.counts)


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


@eqx.filter_jit
def _batch_log_prob(model: Model, batch: Batch) -> Array:
    batch = _wide(batch)
    return jax.vmap(model.scene_log_prob)(batch.scene, batch.next_values)


@eqx.filter_jit
def _batch_log_values(model: Model, batch: Batch) -> Array:
    batch = _wide(batch)
    return jax.vmap(model.scene_log_values)(batch.scene, batch.next_values)


@eqx.filter_jit
def _batch_moments(model: Model, batch: Batch) -> Any:
    return jax.vmap(model.scene_moments)(_wide(batch).scene)


@eqx.filter_jit
def _batch_ignorance(model: Model, batch: Batch) -> Array:
    return jax.vmap(model.scene_ignorance)(_wide(batch).scene)


@eqx.filter_jit
def _batch_sample(model: Model, key: PRNGKeyArray, batch: Batch) -> Array:
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(batch.index)
    return jax.vmap(model.scene_sample)(keys, _wide(batch).scene)


@eqx.filter_jit
def _describe(model: Model, scene: Scene) -> Any:
    pointed = model.point(scene)
    answers = tuple(
        (rule.features(scene, p.inputs), *rule.moments(scene, p)) for rule, p in zip(model.rules, pointed, strict=True)
    )
    return pointed, model.fires(pointed), model.scene_moments(scene), model.scene_ignorance(scene), answers
