"""Tree search for discrete choices: which template, which objects; and the same with parameters refined inside.

    a node        a state that one draw of the world leads to
    an action     an option, with one of a few drawn vectors of numbers z
    its value     minus what the rest of the horizon costs; at a leaf, as if the cost stayed as it is

Several trees are grown, each with its own member and random numbers, by the Gumbel variant of MuZero's search (mctx):
it considers a drawn set of actions at the root and halves it again and again. What the trees prefer is added up.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from spare.errors import UsageError
from spare.planning.evaluation import Candidates, Evaluation, Warm
from spare.planning.problems import Situation
from spare.planning.samplers import ICEM, check_options


class _Node(NamedTuple):
    """A state in each of B trees: values (B, N, P), steps taken (B,), whether the goal was reached (B,)."""

    values: Any
    depth: Any
    reached: Any


@dataclasses.dataclass(frozen=True)
class TreeSearch:
    """Trees over options and drawn numbers.

    Its reason to exist: where the order of discrete choices decides, samplers draw the right sequence too rarely, and a
    tree finds it a step at a time. It needs mctx: pip install spare-models[planning].
    """

    simulations: int = 128
    trees: int = 5
    draws: int = 8
    considered: int = 32

    def __post_init__(self) -> None:
        check_options(self, simulations=2, trees=1, draws=1, considered=2)
        if importlib.util.find_spec("mctx") is None:
            raise UsageError("TreeSearch: mctx is missing; pip install spare-models[planning]")

    def search(self, score: Evaluation, situation: Situation, warm: Warm, key: PRNGKeyArray) -> tuple[Candidates, Any]:
        """What the trees prefer at the root, then the path that the first of them which agrees has followed most."""
        import mctx as library

        mctx: Any = library  # its types know chex's arrays alone
        valid, horizon = jnp.asarray(situation.options.valid), warm.option.shape[0]
        free, count = situation.options.low.shape[1], valid.shape[0] * self.draws
        drawing, growing = jax.random.split(key)
        z = jax.random.uniform(drawing, (self.draws, free)).at[0].set(jnp.where(warm.known[0], warm.z[0], 0.5))
        allowed = jnp.repeat(valid, self.draws)
        familiar = (jnp.arange(count) == warm.option[0] * self.draws) & warm.known[0]
        logits = jnp.where(allowed, 0.0, -1e9) + jnp.where(familiar, 2.0, 0.0)
        members = jnp.arange(self.trees) % score.problem.model.members

        def grow(_: Any, key: PRNGKeyArray, action: Any, node: _Node) -> tuple[Any, _Node]:
            def one(values: Any, action: Any, own: Any, member: Any) -> Any:
                now = Candidates(action // self.draws, z[action % self.draws])
                return score.step(values, now, (own, member))

            after, cost, arrived = jax.vmap(one)(node.values, action, jax.random.split(key, self.trees), members)
            depth, reached = node.depth + 1, node.reached | arrived
            left = jnp.maximum(horizon - depth, 0)
            over = (depth >= horizon) | reached
            cost = jnp.where(jnp.isnan(cost), 0.0, cost)
            found = mctx.RecurrentFnOutput(
                reward=jnp.where(node.reached, 0.0, -cost),
                discount=jnp.where(over, 0.0, score.problem.discount),
                prior_logits=jnp.broadcast_to(jnp.where(allowed, 0.0, -1e9), (self.trees, count)),
                value=jnp.where(over, 0.0, -cost * left),
            )
            return found, _Node(after, depth, reached)

        start = jnp.broadcast_to(jnp.asarray(situation.state.values), (self.trees, *situation.state.values.shape))
        root = mctx.RootFnOutput(
            prior_logits=jnp.broadcast_to(logits, (self.trees, count)),
            value=jnp.zeros(self.trees),
            embedding=_Node(start, jnp.zeros(self.trees, int), jnp.zeros(self.trees, bool)),
        )
        found = mctx.gumbel_muzero_policy(
            None,
            growing,
            root,
            grow,
            num_simulations=self.simulations,
            invalid_actions=jnp.broadcast_to(~allowed, (self.trees, count)),
            max_depth=horizon,
            max_num_considered_actions=min(self.considered, count),
        )
        best = jnp.argmax(jnp.where(allowed, found.action_weights.sum(axis=0), -1.0))
        path = _path(found.search_tree, best, horizon)
        return Candidates(path // self.draws, z[path % self.draws]), jnp.zeros((), int)


def _path(tree: Any, first: Any, horizon: int) -> Any:
    """(H,) actions: `first`, then the most visited child again and again; the last one repeated where a tree ends."""
    visits = tree.children_visits[:, 0, :][:, first]
    which = jnp.argmax(visits)
    index, counts = tree.children_index[which], tree.children_visits[which]

    def step(carry: tuple[Any, Any], _: Any) -> tuple[Any, Any]:
        node, action = carry
        child = jnp.where(node < 0, -1, index[node, action])
        seen = (child >= 0) & (counts[child].sum() > 0)
        following = jnp.where(seen, jnp.argmax(counts[child]), action)
        return (jnp.where(seen, child, -1), following), action

    return jax.lax.scan(step, (jnp.asarray(0, index.dtype), first), None, length=horizon)[1]


@dataclasses.dataclass(frozen=True)
class RefinedTree:
    """Templates and objects by `tree`, then their parameters by `inside`, which starts from what the tree preferred.

    Its reason to exist: a tree is coarse in numbers and a sampler is blind in choices; together they are neither.
    """

    tree: TreeSearch = dataclasses.field(default_factory=TreeSearch)
    inside: ICEM = dataclasses.field(default_factory=lambda: ICEM(candidates=256, elites=24, iterations=4))

    def search(self, score: Evaluation, situation: Situation, warm: Warm, key: PRNGKeyArray) -> tuple[Candidates, Any]:
        """The tree's plan, refined."""
        first, second = jax.random.split(key)
        found, _ = self.tree.search(score, situation, warm, first)
        known = jnp.ones(warm.option.shape, bool)
        return self.inside.search(score, situation, Warm(found.option, found.z, known), second)
