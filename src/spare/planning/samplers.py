"""Planners that try candidates: predictive sampling, iCEM, MPPI, and gradient descent through the model.

Each is a frozen set of options with one method, `search`, traced into one compiled program. It gets `score`, the
evaluation of candidates, what is left of the plan before, and a key, and gives the best plan that it found.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from spare.arguments import check_whole, is_real
from spare.errors import DefinitionError
from spare.planning.evaluation import Belief, Candidates, Evaluation, Scores, Warm
from spare.planning.problems import Situation


@runtime_checkable
class Planner(Protocol):
    """What `spare.planning.plan` needs of a planner; frozen and hashable, since programs are kept by it."""

    def search(self, score: Evaluation, situation: Situation, warm: Warm, key: PRNGKeyArray) -> tuple[Candidates, Any]:
        """(the best plan (H,), how many trajectories had a cost that is not a number), jit-able."""
        ...


def check_options(one: Any, **least: float | int) -> None:
    """Refuse options of a planner below these: whole numbers of at least, others above."""
    for name, low in least.items():
        value = getattr(one, name)
        if isinstance(low, int):
            check_whole(f"{type(one).__name__}, {name}", value, low, 1 << 20)
        elif not (is_real(value) and low < value):
            raise DefinitionError(f"{type(one).__name__}, {name}: it must be above {low:g}, got {value!r}")


@dataclasses.dataclass(frozen=True)
class PredictiveSampling:
    """The best of many draws around the plan before: one evaluation, nothing to tune.

    Its reason to exist: it is the fastest, and the yardstick that every other planner must beat.
    """

    candidates: int = 512
    spread: float = 0.3

    def __post_init__(self) -> None:
        check_options(self, candidates=2, spread=0.0)

    def search(self, score: Evaluation, situation: Situation, warm: Warm, key: PRNGKeyArray) -> tuple[Candidates, Any]:
        """argmin over the warm plan and candidates - 1 draws around it."""
        drawing, scoring = jax.random.split(key)
        plans = with_warm(Belief.around(situation, warm, self.spread).draw(drawing, self.candidates), warm)
        found = score(plans, scoring)
        return plans.at(jnp.argmin(found.score)), found.invalid


@dataclasses.dataclass(frozen=True)
class ICEM:
    """The cross-entropy method with coloured noise and elites that are kept (iCEM).

    Again and again: draw plans, keep the best `elites`, fit the belief to them. Noise is correlated along the steps,
    so that plans go somewhere. Its reason to exist: of the samplers it is the best where an evaluation is cheap.
    """

    candidates: int = 512
    iterations: int = 5
    elites: int = 32
    kept: float = 0.3
    rate: float = 0.8
    colour: float = 2.0
    spread: float = 0.4
    floor: float = 0.01

    def __post_init__(self) -> None:
        check_options(self, candidates=4, iterations=1, elites=1, spread=0.0, rate=0.0)
        if self.elites >= self.candidates:
            raise DefinitionError(f"ICEM: {self.elites} elites of {self.candidates} candidates; there must be fewer")

    def search(self, score: Evaluation, situation: Situation, warm: Warm, key: PRNGKeyArray) -> tuple[Candidates, Any]:
        """Iterations of drawing and fitting; the best plan of the last one."""
        belief, keep = Belief.around(situation, warm, self.spread), max(1, round(self.kept * self.elites))
        mixing = coloured(warm.option.shape[0], self.colour)
        first = with_warm(belief.draw(jax.random.fold_in(key, 1 << 16), keep, mixing), warm)

        def improve(carry: tuple[Belief, Candidates, Any], number: Any) -> tuple[Any, Any]:
            belief, old, _ = carry
            drawing, scoring = jax.random.split(jax.random.fold_in(key, number))
            fresh = belief.draw(drawing, self.candidates - keep, mixing)
            plans = jax.tree.map(lambda *parts: jnp.concatenate(parts), old, fresh)
            found = score(plans, scoring)
            best = jax.lax.top_k(-found.score, self.elites)[1]
            elite = plans.at(best)
            weight = jnp.full(self.elites, 1.0 / self.elites)
            belief = belief.refit(elite, weight, self.rate, self.floor)
            return (belief, elite.at(jnp.arange(keep)), elite.at(0)), found.invalid

        start = (belief, first, first.at(0))
        (_, _, best), invalid = jax.lax.scan(improve, start, jnp.arange(self.iterations))
        return best, invalid.sum()


@dataclasses.dataclass(frozen=True)
class MPPI:
    """Model-predictive path integral control: the belief moves to the mean of all plans, weighted by exp(-score / T).

    T is `temperature` times the deviation of the scores. Its reason to exist: averages are smooth from step to step,
    where the best of many draws jumps; noisy costs hurt it least.
    """

    candidates: int = 512
    iterations: int = 3
    temperature: float = 0.3
    spread: float = 0.25
    colour: float = 1.0

    def __post_init__(self) -> None:
        check_options(self, candidates=4, iterations=1, temperature=0.0, spread=0.0)

    def search(self, score: Evaluation, situation: Situation, warm: Warm, key: PRNGKeyArray) -> tuple[Candidates, Any]:
        """Iterations of weighing; the average plan, or the best draw where options differ or the average is worse."""
        mixing = coloured(warm.option.shape[0], self.colour)

        def improve(carry: tuple[Belief, Candidates], number: Any) -> tuple[Any, Any]:
            belief, middle = carry
            drawing, scoring = jax.random.split(jax.random.fold_in(key, number))
            plans = with_first(belief.draw(drawing, self.candidates, mixing), middle)
            found = score(plans, scoring)
            usable = jnp.isfinite(found.score)
            worst = jnp.where(usable, found.score, -jnp.inf).max()
            scores = jnp.where(usable, found.score, worst)
            weight = jax.nn.softmax(-scores / (self.temperature * jnp.std(scores) + 1e-9))
            new = belief.refit(plans, weight, 1.0, 1.0)._replace(std=belief.std)
            option = jnp.argmax(new.share, axis=-1)
            average = Candidates(option, new.mean[jnp.arange(option.shape[0]), option])
            # The first candidate is the average before: where it is beaten by far, the belief had several modes.
            best = plans.at(jnp.argmin(scores))
            better = scores.min() < scores[0] - jnp.std(scores)
            keep = jax.tree.map(lambda one, two: jnp.where(better, one, two), best, plans.at(0))
            return (new, average), (found.invalid, keep)

        belief = Belief.around(situation, warm, self.spread)
        option = jnp.where(warm.known, warm.option, jnp.argmax(belief.share, axis=-1))
        middle = Candidates(option, belief.mean[jnp.arange(option.shape[0]), option])
        (_, average), (invalid, _) = jax.lax.scan(improve, (belief, middle), jnp.arange(self.iterations))
        last = belief.draw(jax.random.fold_in(key, 1 << 16), self.candidates, mixing)
        plans = with_first(last, average)
        found = score(plans, jax.random.fold_in(key, 1 << 17))
        best = jnp.argmin(found.score)
        clear = found.score[best] < found.score[0] - jnp.std(jnp.where(jnp.isfinite(found.score), found.score, 0.0))
        chosen = jnp.where(clear, best, 0)
        return plans.at(chosen), invalid.sum() + found.invalid


@dataclasses.dataclass(frozen=True)
class GradientDescent:
    """Adam on the numbers of several plans at once, through the model and with fixed random numbers.

    Options are drawn, not descended. Its reason to exist: with many parameters and a smooth cost it needs the fewest
    evaluations. Constraints and goals have no slope: they only choose among the plans that it visits.
    """

    starts: int = 32
    steps: int = 30
    rate: float = 0.08
    spread: float = 0.4

    def __post_init__(self) -> None:
        check_options(self, starts=1, steps=1, rate=0.0, spread=0.0)

    def search(self, score: Evaluation, situation: Situation, warm: Warm, key: PRNGKeyArray) -> tuple[Candidates, Any]:
        """The best plan that was visited from any start."""
        drawing, scoring = jax.random.split(key)
        plans = with_warm(Belief.around(situation, warm, self.spread).draw(drawing, self.starts), warm)

        def total(z: Any) -> tuple[Any, Scores]:
            found = score(Candidates(plans.option, z), scoring)
            return jnp.where(jnp.isfinite(found.objective), found.objective, 0.0).sum(), found

        def descend(carry: tuple[Any, ...], number: Any) -> tuple[Any, Any]:
            z, first, second, least, kept = carry
            (_, found), slope = jax.value_and_grad(total, has_aux=True)(z)
            slope = jnp.where(jnp.isfinite(slope), slope, 0.0)
            better = (found.score < least)[:, None, None]
            least, kept = jnp.minimum(found.score, least), jnp.where(better, z, kept)
            first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * jnp.square(slope)
            size = first / (1 - 0.9 ** (number + 1.0)) / (jnp.sqrt(second / (1 - 0.99 ** (number + 1.0))) + 1e-8)
            fade = 0.5 * (1 + jnp.cos(jnp.pi * number / self.steps))
            return (jnp.clip(z - self.rate * fade * size, 0, 1), first, second, least, kept), found.invalid

        none = jnp.zeros_like(plans.z)
        start = (plans.z, none, none, jnp.full(self.starts, jnp.inf, plans.z.dtype), plans.z)
        (_, _, _, least, kept), invalid = jax.lax.scan(descend, start, jnp.arange(self.steps))
        return Candidates(plans.option, kept).at(jnp.argmin(least)), invalid.sum()


def with_first(plans: Candidates, one: Candidates) -> Candidates:
    """The plans with the first one replaced."""
    return jax.tree.map(lambda many, new: many.at[0].set(new), plans, one)


def with_warm(plans: Candidates, warm: Warm) -> Candidates:
    """The plans, of which the first is the warm start where that says something."""
    option = jnp.where(warm.known, warm.option, plans.option[0])
    return with_first(plans, Candidates(option, jnp.where(warm.known[:, None], warm.z, plans.z[0])))


def coloured(steps: int, exponent: float) -> np.ndarray:
    """(H, H): white noise (H,) times it has a spectrum that falls with frequency to this power, and variance 1."""
    length = 2 * steps
    frequency = np.maximum(np.fft.rfftfreq(length), 1.0 / length)
    spectrum = frequency**-exponent
    covariance = np.fft.irfft(spectrum, length)[:steps]
    lags = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    matrix = covariance[lags] / covariance[0]
    values, vectors = np.linalg.eigh(matrix)
    root = vectors @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return (root / np.sqrt(np.square(root).sum(axis=0))).astype(np.float32)
