"""LearnDist in plain Keras, as the paper's appendix B tells it. Runs in the extra environment; knows nothing of SPARE.

1. Two `keras.Sequential` networks of two ReLU layers, each with its own Adam at default settings.
2. `model.fit` for 25 epochs at a time, mean and variance by turns (M V M V M), the other network's output fixed.
3. Default variances in closed form; the density of every transition in float64.

Normalisation, the bounds of the log variance and the resolution's share of every variance are those of SPARE, so
that the likelihoods of the two can be compared.
"""

import dataclasses

import keras
import numpy as np

LOG_2PI = float(np.log(2 * np.pi))


@dataclasses.dataclass(frozen=True)
class World:
    """What all candidates share: n transitions with R object rows, as plain arrays, and the settings of training.

    owner (R,): whose row it is; moved, before (R, Q); training, validation (n,) weights; test (n,) flags.
    """

    owner: np.ndarray
    before: np.ndarray
    moved: np.ndarray
    resolution: np.ndarray
    training: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    settings: dict

    @property
    def total(self) -> int:
        """n."""
        return len(self.training)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One rule's x (n, D), y (n, S, Q), applies (n,) and outputs (S, R), as SPARE's extraction gave them."""

    name: str
    pointers: list
    x: np.ndarray
    y: np.ndarray
    spread: np.ndarray
    applies: np.ndarray
    outputs: np.ndarray


def network(inputs: int, outputs: int, settings: dict) -> keras.Sequential:
    """Fully connected, ReLU between layers, Glorot weights (the default of `Dense`)."""
    layers = [keras.layers.Dense(width, activation="relu") for width in settings["hidden"]]
    return keras.Sequential([keras.Input((inputs,)), *layers, keras.layers.Dense(outputs)])


def bounded_variance(raw, floor, settings):
    """exp(raw) between smooth bounds, plus the resolution's share."""
    low, high = settings["log_variance"]
    tame = keras.ops.clip(raw, -60.0, 60.0)
    return np.exp(low) + 1.0 / (np.exp(-high) + keras.ops.exp(-tame)) + floor


def mean_loss(fixed_and_target, mean):
    """sum (y - mu)² / (2 var); the target carries y and the fixed variance side by side."""
    target, variance = keras.ops.split(fixed_and_target, 2, axis=-1)
    return 0.5 * keras.ops.sum(keras.ops.square(target - mean) / variance, axis=-1)


def variance_loss(floor, settings):
    """The loss sum (r² / var + log var) / 2, where the target is the fixed squared residual r²."""

    def loss(squared, raw):
        variance = bounded_variance(raw, floor, settings)
        return 0.5 * keras.ops.sum(squared / variance + keras.ops.log(variance), axis=-1)

    return loss


def train(x, y, floor, weights, settings):
    """(mean, variance) of every row after the five phases, in normalised units; rows of weight 0 are left out."""
    usable = weights > 0
    own = None if (weights[usable] == weights[usable][0]).all() else weights[usable]
    nets = {"mean": network(x.shape[1], y.shape[1], settings), "variance": network(x.shape[1], y.shape[1], settings)}
    extra = {"jit_compile": True, "steps_per_execution": settings["steps_at_once"]} if settings["tuned"] else {}
    for name, loss in (("mean", mean_loss), ("variance", variance_loss(floor, settings))):
        nets[name].compile(optimizer=keras.optimizers.Adam(settings["learning_rate"]), loss=loss, **extra)

    def now():
        mean = nets["mean"].predict(x, batch_size=len(x), verbose=0)
        raw = nets["variance"].predict(x, batch_size=len(x), verbose=0)
        return mean, np.asarray(bounded_variance(raw, floor, settings))

    for phase in settings["phases"]:
        mean, variance = now()
        target = np.concatenate([y, variance], axis=1) if phase == "mean" else np.square(y - mean)
        options = {"batch_size": settings["batch"], "epochs": settings["epochs"], "shuffle": True, "verbose": 0}
        nets[phase].fit(x[usable], target[usable], sample_weight=own, **options)
    return now()


def learn(candidate: Candidate, world: World) -> np.ndarray:
    """-log p in nats of every transition under the trained rule; NaN where the rule does not apply."""
    usable = candidate.applies & (world.training > 0)
    x, slots = candidate.x[usable], candidate.y.shape[1:]
    x_mean, x_scale = x.mean(axis=0), x.std(axis=0)
    x_scale = np.where(x_scale > 1e-6 * np.maximum(np.abs(x_mean), 1e-6), x_scale, 1.0)
    y_mean = candidate.y[usable].mean(axis=0)
    y_scale = np.sqrt((np.square(candidate.y[usable] - y_mean) + candidate.spread[usable]).mean(axis=0))
    y_scale = np.maximum(y_scale, world.resolution)
    floor = np.square(world.resolution / y_scale).astype(np.float32).reshape(-1)
    keep = candidate.applies[:, None]
    normal_x = np.where(keep, (candidate.x - x_mean) / x_scale, 0.0).astype(np.float32)
    normal_y = np.where(keep[:, :, None], (candidate.y - y_mean) / y_scale, 0.0).astype(np.float32)
    weights = np.where(usable, world.training, 0.0)
    mean, variance = train(normal_x, normal_y.reshape(world.total, -1), floor, weights, world.settings)
    mean = y_mean + y_scale * mean.astype(np.float64).reshape(-1, *slots)
    variance = np.square(y_scale) * variance.astype(np.float64).reshape(-1, *slots)
    return np.where(candidate.applies, loss_of(candidate, world, usable, (mean, variance)), np.nan)


def loss_of(candidate: Candidate, world: World, usable: np.ndarray, gaussians: tuple) -> np.ndarray:
    """Each object's values by the mean of the densities of the slots that hold it, or by the default variance."""
    held = candidate.outputs
    still = ~held.any(axis=0)
    left = still & usable[world.owner]
    rest = np.square(world.resolution)
    if left.any():
        rest = np.maximum(np.square(world.moved[left]).mean(axis=0), rest)
    mean, variance = (part[world.owner] for part in gaussians)
    after = world.before + world.moved
    terms = log_normal(after[:, None, :] - mean, variance)
    terms = np.where(held.T[:, :, None], terms, -np.inf)
    mixed = np.logaddexp.reduce(terms, axis=1) - np.log(np.maximum(held.sum(axis=0), 1))[:, None]
    rows = np.where(still[:, None], log_normal(world.moved, rest), mixed).sum(axis=1)
    return -np.bincount(world.owner, rows, minlength=world.total)


def log_normal(difference: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """log N(difference; 0, variance)."""
    return -0.5 * (np.square(difference) / variance + np.log(variance) + LOG_2PI)
