"""A domain of one's own: a tray that carries what stands on it, from definition to explanation.

Run it: python examples/tray.py
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import spare

on = spare.Reference("on", lambda o, p: (jnp.abs(o.x - p.x) < p.width / 2) & (o.y > p.y) & (o.y < p.y + 0.3))
nearest = spare.Reference.closest("nearest", lambda o, p: jnp.hypot(o.x - p.x, o.y - p.y))

domain = spare.Domain(
    "tray",
    properties=[
        spare.Property("x", unit="m", resolution=1e-3),
        spare.Property("y", unit="m", resolution=1e-3),
        spare.Property("width", unit="m", static=True),
    ],
    references=[on, nearest],
    actions=[spare.Action("slide", objects=("tray",), parameters=("dx",))],
)


def record(transitions: int, seed: int) -> spare.Experience:
    """Slide a tray with cups on it past cups that stand elsewhere: the loop a user would write around a robot."""
    rng = np.random.default_rng(seed)
    builder = spare.Builder(domain)
    for _ in range(transitions):
        cups, others = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        values = np.zeros((1 + cups + others, 3))
        values[0] = (rng.uniform(-1, 1), 0.8, 0.6)
        values[1 : 1 + cups] = np.stack(
            [values[0, 0] + rng.uniform(-0.25, 0.25, cups), np.full(cups, 0.9), np.full(cups, 0.08)], 1
        )
        values[1 + cups :] = np.stack([rng.uniform(-3, 3, others), np.full(others, 0.1), np.full(others, 0.08)], 1)
        dx = float(rng.uniform(-0.5, 0.5))
        after = values.copy()
        after[: 1 + cups, 0] += dx + 0.01 * rng.standard_normal(1 + cups)
        ids = ["tray", *(f"cup{k}" for k in range(cups)), *(f"other{k}" for k in range(others))]
        builder.add(spare.State(ids, values), spare.ActionCall("slide", ("tray",), (dx,)), spare.State(ids, after))
    return builder.build()


def main() -> None:
    """Record, learn, evaluate, explain."""
    train, test = record(300, seed=0).split(test=100, seed=0)
    result = spare.fit(domain, train, seed=0)
    print(result.model)
    scores = spare.evaluate(result.model, test, seed=0)
    print(
        f"{scores.per_value_moved:.2f} nats per value of what moved; error {1000 * scores.rmse_moved['x']:.1f} mm in x"
    )
    print(result.model.predict(test.states[0], test.actions[0]).explain(test.next_states[0]))


if __name__ == "__main__":
    main()
