"""The Chemical world of fine-grained causal dynamics learning (ICML 2024): ten nodes of five colours set each other.

An action gives one node a new colour. Then, in order, every node that has a parent among those that were reached draws
its colour anew from its own network of its parents' colours, and is reached itself. If node 0 is red (colour 0) after
the action, fewer parents count: node 0 alone (fork), or the node before (chain); otherwise all nodes before.

A node's network is drawn once for a seed: one-hot colours of all nodes, others than parents set to 0 -> 40 (ReLU) -> 5
(softmax), weights orthogonal with gain 3, biases uniform within 0.2.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np

from spare.arguments import check_seed, check_whole
from spare.data.experience import Experience
from spare.errors import UsageError, one_of
from spare.language.actions import Action
from spare.language.discrete import Categorical
from spare.language.domain import Domain
from spare.language.properties import Property
from spare.language.types import Parameter

NODES, COLOURS, HIDDEN = 10, 5, 40
Local = Literal["fork", "chain"]
_COLOUR = Categorical(["red", "yellow", "green", "blue", "violet"])
domain = Domain(
    "chemical",
    properties=[
        Property("node", kind=Categorical([f"node {k}" for k in range(NODES)]), static=True),
        Property("colour", kind=_COLOUR),
    ],
    actions=[Action("paint", objects=("target",), parameters=(Parameter("colour_given", _COLOUR),))],
)


def _orthogonal(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Gain 3 times a matrix with orthogonal rows or columns."""
    q, r = np.linalg.qr(rng.normal(size=(max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))
    return 3.0 * (q if rows >= columns else q.T)


@dataclasses.dataclass(frozen=True, eq=False)
class Chemistry:
    """The mechanisms of one seed: for each node weights (50, 40), (40, 5) and biases; `local` says what red does."""

    local: Local
    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray

    @classmethod
    def of(cls, seed: int, local: Local) -> Chemistry:
        """Drawn by a seed."""
        if local not in ("fork", "chain"):
            raise UsageError(f"local: {one_of('graph', local, ('fork', 'chain'))}")
        rng = np.random.default_rng(check_seed(seed))
        first = np.stack([_orthogonal(rng, NODES * COLOURS, HIDDEN) for _ in range(NODES)])
        second = np.stack([_orthogonal(rng, HIDDEN, COLOURS) for _ in range(NODES)])
        biases = [rng.uniform(-0.2, 0.2, (NODES, size)) for size in (HIDDEN, COLOURS)]
        return cls(local, first, biases[0], second, biases[1])

    def parents(self, node: int, *, red: bool) -> np.ndarray:
        """Which nodes count for a node, (10,) bool."""
        places = np.arange(NODES)
        if not red:
            return places < node
        return places == node - 1 if self.local == "chain" else (places == 0) & (node > 0)

    def law(self, node: int, colours: np.ndarray, *, red: bool) -> np.ndarray:
        """P(colour) (n, 5) of a node, given the colours (n, 10) of all."""
        seen = np.eye(COLOURS)[colours] * self.parents(node, red=red)[:, None]
        hidden = np.maximum(seen.reshape(len(colours), -1) @ self.first[node] + self.first_bias[node], 0.0)
        logits = hidden @ self.second[node] + self.second_bias[node]
        chance = np.exp(logits - logits.max(axis=1, keepdims=True))
        return chance / chance.sum(axis=1, keepdims=True)

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """The root uniform, all others drawn in order from their networks."""
        colours = np.zeros((1, NODES), int)
        colours[0, 0] = rng.integers(COLOURS)
        for node in range(1, NODES):
            colours[0, node] = _draw(rng, self.law(node, colours, red=bool(colours[0, 0] == 0)))[0]
        return colours[0]

    def step(self, rng: np.random.Generator, colours: np.ndarray, target: int, colour: int) -> np.ndarray:
        """A next state (10,)."""
        return self.steps(rng, colours[None], target, colour)[0]

    def steps(self, rng: np.random.Generator, colours: np.ndarray, target: int, colour: int) -> np.ndarray:
        """Next states of states (n, 10) in which the root is red in all or in none after the action."""
        after = colours.copy()
        after[:, target] = colour
        red, reached = bool(after[0, 0] == 0), np.arange(NODES) == target
        for node in range(target + 1, NODES):
            if (reached & self.parents(node, red=red)).any():
                after[:, node] = _draw(rng, self.law(node, after, red=red))
                reached[node] = True
        return after

    def marginals(self, colours: np.ndarray, target: int, colour: int, draws: int = 1000, seed: int = 0) -> np.ndarray:
        """P(colour') (10, 5) of every node alone, by this many draws; exact for nodes that nothing reaches."""
        drawn = self.steps(np.random.default_rng(seed), np.repeat(colours[None], draws, axis=0), target, colour)
        return np.stack([np.bincount(drawn[:, node], minlength=COLOURS) for node in range(NODES)]) / draws


def _draw(rng: np.random.Generator, chance: np.ndarray) -> np.ndarray:
    """One colour of each row of probabilities (n, 5)."""
    return np.minimum((rng.random((len(chance), 1)) > np.cumsum(chance, axis=1)).sum(axis=1), COLOURS - 1)


def generate(samples: int, seed: int, *, local: Local = "fork", mechanisms: int = 0, steps: int = 25) -> Experience:
    """Random actions, `steps` in each episode, in the world of the seed `mechanisms`."""
    check_whole("samples", samples, 1)
    world, rng = Chemistry.of(mechanisms, local), np.random.default_rng(check_seed(seed))
    before, after = np.zeros((samples, NODES), int), np.zeros((samples, NODES), int)
    targets, colours = rng.integers(0, NODES, samples), rng.integers(0, COLOURS, samples)
    state = np.zeros(NODES, int)
    for i in range(samples):
        state = world.start(rng) if i % steps == 0 else state
        before[i] = state
        state = after[i] = world.step(rng, state, int(targets[i]), int(colours[i]))
    nodes = np.tile(np.arange(NODES), samples)
    return Experience.from_arrays(
        domain,
        values=np.stack([nodes, before.reshape(-1)], axis=1),
        next_values=np.stack([nodes, after.reshape(-1)], axis=1),
        offsets=np.arange(0, samples * NODES + 1, NODES),
        action=np.zeros(samples, int),
        objects=targets[:, None],
        parameters=colours[:, None].astype(float),
        info={"episode": np.arange(samples) // steps, "time": np.arange(samples) % steps},
        metadata={"local": local, "mechanisms": mechanisms, "seed": seed},
    )
