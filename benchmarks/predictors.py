"""What a rule's predictor could be: other families beside a mean and a variance network, with the lists given.

    python benchmarks/predictors.py [--counts 30 100 1000] [--seeds 5] [--data results-samples/data] [--out page.md]

Every family learns the same pushes of stacks of three among four extra blocks, in the action's frame, with the mirror
images; networks are ensembles of five that leave out other samples. Told are nats per value of the stack on unseen
pushes, and how many values lie in 90 % intervals. `inputs` are either all or those that matter, given by hand, since
the choice of inputs changes more than any family does.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import pathlib
import sys
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from spare.lab.experiments.data import stacks, unseen
from spare.lab.experiments.methods import STACK
from spare.lab.experiments.statistics import over_runs
from spare.learning.fit import make_dataset, prepare
from spare.learning.folds import fold_masks
from spare.learning.presets import PRESETS
from spare.model.predictors import bounded_variance

MEMBERS, HELD, STEPS, RATE, BATCH, HIDDEN = 5, 0.15, 3750, 4e-3, 32, (64, 64)
LEFT_OUT = ("yg", "zg", "target.x", "target.y", "target.z", "target.height", "(b1).width", "(b1).length")
LEFT_OUT += ("(b2).width", "(b2).length")
LARGEST_PROCESS = 100


@dataclasses.dataclass(frozen=True)
class Family:
    """`kind`: gauss, wide (a second Gaussian at the same mean), two (at another mean), process (Gaussian process).

    residual: one residual network for mean and variance.
    """

    kind: str = "gauss"
    offsets: bool = False
    decay: float = 0.0
    mirrored: bool = False


FAMILIES = {
    "a mean and a variance net (candidates of `default`)": Family(),
    "one residual net for both (the ensemble of `default`)": Family("residual"),
    "with offsets between slots as inputs": Family(offsets=True),
    "two Gaussians, one mean": Family("wide"),
    "two Gaussians, two means": Family("two"),
    "weight decay of 50 / samples": Family(decay=50.0),
    "averaged with the mirror image": Family(mirrored=True),
    "Gaussian process, shared kernel": Family("process"),
}


class Task(NamedTuple):
    """Normalised inputs and outputs: training rows with their mirror images, unseen rows with theirs."""

    x: np.ndarray
    y: np.ndarray
    unseen_x: np.ndarray
    unseen_y: np.ndarray
    floor: Any
    scale: np.ndarray
    samples: int


def prepared(samples: int, seed: int, folder: pathlib.Path, offsets: bool, few: bool) -> Task:
    """The table of the true lists, in the action's frame."""
    train = stacks(4, seed, samples)
    data, _ = prepare(train.load(folder).domain, train.load(folder))
    test = unseen(train, 250).load(folder).with_domain(data.domain)
    sides = []
    for part in (data, test):
        dataset = make_dataset(part, part.domain.actions[0].name, PRESETS["shared"])
        assert dataset.reflection is not None
        tables = [one.matrix(STACK, STACK) for one in (dataset, dataset.reflection)]
        names = dataset.layout(STACK).names
        x = np.concatenate([one.x for one in tables])
        chosen = [k for k, name in enumerate(names) if not (few and name.endswith(LEFT_OUT))]
        shifts = _offsets(names, x) if offsets else []
        y = np.concatenate([one.y for one in tables])
        sides.append((np.concatenate([x[:, chosen], *shifts], axis=1), y.reshape(len(y), -1)))
    (x, y), (unseen_x, unseen_y) = sides
    resolution = np.tile(data.domain.resolutions, y.shape[1] // len(data.domain.resolutions))
    centre, spread = x.mean(axis=0), x.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    middle, scale = y.mean(axis=0), np.maximum(y.std(axis=0), resolution)
    return Task(
        (x - centre) / spread,
        (y - middle) / scale,
        (unseen_x - centre) / spread,
        (unseen_y - middle) / scale,
        jnp.asarray(np.square(resolution / scale), jnp.float32),
        scale,
        samples,
    )


def _offsets(names: tuple[str, ...], x: np.ndarray) -> list[np.ndarray]:
    """Each slot's position minus that of the slot it was reached from."""
    slots = [[names.index(f"{slot}.{axis}") for axis in "xyz"] for slot in ("target", "mean(b1)", "mean(b2)")]
    return [x[:, after] - x[:, before] for before, after in itertools.pairwise(slots)]


def network(layers: Any, x: Any) -> Any:
    """silu between layers."""
    for weight, bias in layers[:-1]:
        x = jax.nn.silu(x @ weight + bias)
    return x @ layers[-1][0] + layers[-1][1]


def residual(layers: Any, x: Any) -> Any:
    """Two layers in, two whose answer is added, two out."""
    for k in (0, 2, 4):
        (weight, bias), (second, shift) = layers[k : k + 2]
        answer = jax.nn.silu(x @ weight + bias) @ second + shift
        x = x + answer if k == 2 else answer
    return x


def fresh(rng: np.random.Generator, sizes: tuple[int, ...]) -> list[Any]:
    """Glorot-uniform weights, zero biases."""
    pairs = itertools.pairwise(sizes)
    return [(rng.uniform(-1, 1, (i, o)) * np.sqrt(6 / (i + o)), np.zeros(o)) for i, o in pairs]


def mixture(kind: str, nets: Any, x: Any, floor: Any) -> tuple[Any, Any, Any]:
    """(log weight, mean, variance) of each component of each output, (n, O, K)."""
    outputs = len(floor)
    mean, raw = jnp.split(residual(nets[0], x), 2, axis=1) if len(nets) == 1 else (network(net, x) for net in nets)
    if kind in ("gauss", "residual"):
        return jnp.zeros((*mean.shape, 1)), mean[..., None], (bounded_variance(raw) + floor)[..., None]
    narrow = bounded_variance(raw[:, :outputs])
    wide = narrow * (1 + jnp.square(jax.nn.softplus(raw[:, outputs : 2 * outputs] + 2)))
    logit = raw[:, 2 * outputs :] - 2
    weights = jnp.stack([jax.nn.log_sigmoid(-logit), jax.nn.log_sigmoid(logit)], axis=-1)
    near = mean[:, :outputs]
    far = near + mean[:, outputs:] if kind == "two" else near
    return weights, jnp.stack([near, far], axis=-1), jnp.stack([narrow, wide], axis=-1) + floor[:, None]


def log_density(parts: tuple[Any, Any, Any], y: Any) -> Any:
    """log sum of weighted normal densities, (n, O)."""
    weight, mean, variance = parts
    terms = -0.5 * (jnp.square(y[..., None] - mean) / variance + jnp.log(2 * jnp.pi * variance))
    return jax.scipy.special.logsumexp(weight + terms, axis=-1)


def trained(family: Family, task: Task, seed: int) -> list[Any]:
    """Five members by beta-NLL with early stopping, as `default` trains its ensemble."""
    rng, outputs = np.random.default_rng([seed, 5]), task.y.shape[1]
    width = {"gauss": (1, 1), "wide": (1, 3), "two": (2, 3), "residual": (2,)}[family.kind]
    hidden = (HIDDEN[0],) * 5 if family.kind == "residual" else HIDDEN
    rows, targets = jnp.asarray(task.x, jnp.float32), jnp.asarray(task.y, jnp.float32)
    schedule = optax.cosine_decay_schedule(RATE, STEPS)
    optimiser = optax.adamw(schedule, eps=1e-7, weight_decay=family.decay / task.samples)

    def loss(nets: Any, x: Any, y: Any, beta: float) -> Any:
        parts = mixture(family.kind, nets, x, task.floor)
        weight, mean, variance = parts
        share = jnp.exp(weight)
        middle = (share * mean).sum(axis=-1, keepdims=True)
        whole = (share * (variance + jnp.square(mean - middle))).sum(axis=-1)
        return -(jax.lax.stop_gradient(whole**beta) * log_density(parts, y)).sum(axis=-1).mean()

    @jax.jit
    def run(nets: Any, batches: Any, held: Any) -> Any:
        def step(k: Any, carry: Any) -> Any:
            nets, state, best, lowest = carry
            taken = batches[k]
            gradients = jax.grad(loss)(nets, rows[taken], targets[taken], 0.5)
            change, state = optimiser.update(gradients, state, nets)
            nets = optax.apply_updates(nets, change)

            def check() -> Any:
                now = loss(nets, rows[held], targets[held], 0.0)
                return jax.tree.map(lambda new, old: jnp.where(now < lowest, new, old), (nets, now), (best, lowest))

            return nets, state, *jax.lax.cond((k + 1) % 25 == 0, check, lambda: (best, lowest))

        return jax.lax.fori_loop(0, STEPS, step, (nets, optimiser.init(nets), nets, jnp.inf))[2]

    members = []
    for held in fold_masks(task.samples, HELD, MEMBERS, seed):
        sizes = [(task.x.shape[1], *hidden, outputs * count) for count in width]
        nets = jax.tree.map(lambda part: jnp.asarray(part, jnp.float32), [fresh(rng, one) for one in sizes])
        usable = np.flatnonzero(np.tile(~held, 2))
        batch = min(BATCH, len(usable))
        per, epochs = len(usable) // batch, -(-STEPS * batch // (len(usable) // batch * batch))
        order = np.concatenate([rng.permutation(usable)[: per * batch] for _ in range(epochs)])
        members.append(run(nets, jnp.asarray(order.reshape(-1, batch)[:STEPS]), jnp.asarray(np.flatnonzero(held))))
    return members


def by_networks(family: Family, task: Task, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(log density, distribution function) of every unseen value, normalised, (n, O) each."""
    members, half = trained(family, task, seed), len(task.unseen_x) // 2
    seen, after = jnp.asarray(task.unseen_x, jnp.float32), jnp.asarray(task.unseen_y, jnp.float32)
    found = [mixture(family.kind, nets, seen, task.floor) for nets in members]
    weight, mean, variance = (jnp.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
    weight = weight - np.log(MEMBERS)
    density = log_density((weight, mean, variance), after)
    share = (jnp.exp(weight) * jax.scipy.stats.norm.cdf(after[..., None], mean, jnp.sqrt(variance))).sum(axis=-1)
    if family.mirrored:
        density = jnp.logaddexp(density[:half], density[half:]) - np.log(2)
    return np.asarray(density[:half]), np.asarray(share[:half])


def by_process(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian process per output; one kernel (squared exponential and linear) whose marginal likelihood is best."""
    rows, seen = jnp.asarray(task.x), jnp.asarray(task.unseen_x[: len(task.unseen_x) // 2])
    targets, n = jnp.asarray(task.y), len(task.x)

    def kernel(p: Any, a: Any, b: Any) -> Any:
        apart = jnp.square(a).sum(axis=1)[:, None] + jnp.square(b).sum(axis=1) - 2 * a @ b.T
        linear = (a * jnp.exp(p["linear"])) @ (b * jnp.exp(p["linear"])).T
        return jnp.exp(2 * p["size"] - 0.5 * apart / jnp.exp(2 * p["length"])) + linear + jnp.exp(2 * p["offset"])

    def factor(p: Any, noise: Any) -> Any:
        return jnp.linalg.cholesky(kernel(p, rows, rows) + (jnp.exp(2 * noise) + 1e-4) * jnp.eye(n))

    def loss(p: Any) -> Any:
        def one(y: Any, noise: Any) -> Any:
            lower = factor(p, noise)
            white = jax.scipy.linalg.solve_triangular(lower, y, lower=True)
            return 0.5 * white @ white + jnp.log(jnp.diag(lower)).sum()

        priors = 0.5 * jnp.square(p["length"] - 1.5) + 0.1 * jnp.square(p["linear"] + 2).sum()
        return jax.vmap(one)(targets.T, p["noise"]).sum() + priors + 0.5 * jnp.square(p["noise"] + 1.5).sum()

    optimiser = optax.adam(0.05)

    def step(_: Any, carry: Any) -> Any:
        p, state = carry
        change, state = optimiser.update(jax.grad(loss)(p), state)
        return optax.apply_updates(p, change), state

    start = {"length": 1.5, "size": 0.0, "offset": -1.0}
    p: Any = {name: jnp.asarray(value) for name, value in start.items()}
    p |= {"linear": jnp.full(task.x.shape[1], -1.5), "noise": jnp.full(task.y.shape[1], -1.0)}
    p, _ = jax.jit(lambda p: jax.lax.fori_loop(0, 200, step, (p, optimiser.init(p))))(p)
    cross, own = kernel(p, rows, seen), jax.vmap(lambda one: kernel(p, one[None], one[None])[0, 0])(seen)

    def predict(y: Any, noise: Any) -> Any:
        lower = factor(p, noise)
        part = jax.scipy.linalg.solve_triangular(lower, cross, lower=True)
        mean = cross.T @ jax.scipy.linalg.cho_solve((lower, True), y)
        return mean, jnp.maximum(own - jnp.square(part).sum(axis=0), 0.0) + jnp.exp(2 * noise)

    mean, variance = jax.vmap(predict, out_axes=1)(targets.T, p["noise"])
    variance, after = jnp.maximum(variance, task.floor), jnp.asarray(task.unseen_y[: len(seen)])
    density = -0.5 * (jnp.square(after - mean) / variance + jnp.log(2 * jnp.pi * variance))
    return np.asarray(density), np.asarray(jax.scipy.stats.norm.cdf(after, mean, jnp.sqrt(variance)))


def measured(family: Family, samples: int, seed: int, folder: pathlib.Path, few: bool) -> tuple[float, float]:
    """(nats per value, share inside 90 % intervals)."""
    task = prepared(samples, seed, folder, family.offsets, few)
    density, share = by_process(task) if family.kind == "process" else by_networks(family, task, seed)
    return float((density - np.log(task.scale)).mean()), float(((share > 0.05) & (share < 0.95)).mean())


def main() -> int:
    """A table, line by line as it is measured; a page at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[30, 100, 1000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("results-samples/data"))
    parser.add_argument("--out", type=pathlib.Path, default=None)
    options = parser.parse_args()
    lines = ["| pushes | inputs | family | nats per value of the stack | in 90 % intervals |", "|---|---|---|---|---|"]
    say = functools.partial(print, flush=True)
    say("\n".join(lines))
    for samples in options.counts:
        for few in (False, True):
            for label, family in FAMILIES.items():
                if family.kind == "process" and samples > LARGEST_PROCESS:
                    continue
                begin = time.perf_counter()
                found = [measured(family, samples, seed, options.data, few) for seed in range(options.seeds)]
                nats = over_runs([one for one, _ in found])
                inside = np.mean([share for _, share in found])
                interval = f"{nats.mean:.3f} [{nats.low:.3f}, {nats.high:.3f}]"
                lines.append(f"| {samples:,} | {'few' if few else 'all'} | {label} | {interval} | {inside:.3f} |")
                say(lines[-1], f" {(time.perf_counter() - begin) / options.seeds:.0f} s")
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
