"""Roll-outs: where a sequence of actions leads, as sampled trajectories.

1. A trajectory keeps one member of the ensemble from start to end: what the model does not know does not average out
   along the way. At each step outcomes, common factors and values are drawn jointly (`Simulator.advance`).
2. All trajectories of a call are one compiled program: members, then trajectories of a member, then steps. States are
   padded as everywhere (`data/scene.py`), calls and samples to few sizes.
3. What is read off them (`trajectories.py`): means, deviations, the aleatoric and the epistemic part.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from spare.arguments import check_sequence, check_whole
from spare.arrays import precision
from spare.data.checks import check_call, check_state
from spare.data.precision import Numbers, needs_double
from spare.data.scene import Scene, object_slots, pairs_of, round_up
from spare.data.state import ActionCall, State
from spare.errors import DataError
from spare.language.domain import Domain
from spare.language.kinds import Periodic
from spare.model.trajectories import Rollout
from spare.programs import PROGRAMS

MOST_SAMPLES = 1 << 20
"""More trajectories than anybody needs at once."""


@runtime_checkable
class Simulator(Protocol):
    """What roll-outs and planners need of a model: draws of s' by one member of its ensemble.

    It is a pytree (an Equinox module, say), whose arrays are inputs of compiled programs.
    """

    @property
    def domain(self) -> Domain:
        """What the states are made of."""
        ...

    @property
    def members(self) -> int:
        """How many members the ensemble has; 1 without one."""
        ...

    def advance(self, scene: Scene, key: PRNGKeyArray, member: Any) -> Float[Array, "N P"]:
        """One draw of s' of a padded scene, jit-able: all properties, static ones and padding as they are."""
        ...


class Calls(NamedTuple):
    """Actions as arrays, leading axes ...: template (...), rows of objects (..., roles), parameters (..., d)."""

    action: Any
    objects: Any
    parameters: Any


class Padded(NamedTuple):
    """A state padded to N objects: values (N, P), which rows are objects, where angles begin to wrap (P,)."""

    values: Any
    valid: Any
    low: Any
    pairs: Any = None
    """Stored relations by name, (E, 2) rows each: as they are at the start, since no rule predicts them."""


def padded(domain: Domain, state: State, real: Any = np.float32) -> Padded:
    """A checked state, padded.

    Angles wrap into -period / 2 .. period / 2, or into 0 .. period if some value of the state is beyond half a period.
    """
    check_state(domain, state)
    size = object_slots(len(state))
    values = np.zeros((size, len(domain.properties)), real)
    values[: len(state)] = state.values
    low = np.zeros(len(domain.properties), real)
    for column, prop in enumerate(domain.properties):
        if isinstance(prop.kind, Periodic):
            half = prop.kind.period / 2
            low[column] = 0.0 if (state.values[:, column] > half * 1.001).any() else -half
    return Padded(values, np.arange(size) < len(state), low, pairs_of(state))


def wrap(domain: Domain, values: Any, low: Any) -> Any:
    """Values (..., P) whose angles are brought back into low .. low + period; static ones stay as they are."""
    for column in domain.dynamic:
        kind = domain.properties[column].kind
        if isinstance(kind, Periodic):
            inside = values[..., column] - kind.period * jnp.floor((values[..., column] - low[column]) / kind.period)
            values = values.at[..., column].set(inside)
    return values


def advanced(simulator: Simulator, start: Padded, values: Any, call: Calls, chance: tuple[Any, Any]) -> Any:
    """Values (N, P) after one call, of the state with these values; `chance` is a key and a member."""
    scene = Scene(values, start.valid, call.action, call.objects, call.parameters, start.pairs)
    return wrap(simulator.domain, simulator.advance(scene, *chance), start.low)


def as_calls(domain: Domain, state: State, calls: Sequence[ActionCall], length: int, real: Any = np.float32) -> Calls:
    """Checked calls as arrays, the last one repeated up to this length."""
    found = Calls(np.zeros(length, np.int32), np.zeros((length, domain.roles), np.int32), None)
    parameters = np.zeros((length, domain.parameters), real)
    for k, call in enumerate(calls):
        template, objects = check_call(domain, state, call, f"step {k + 1}")
        found.action[k:], found.objects[k:, : len(objects)] = template, objects
        parameters[k:, : len(call.parameters)] = call.parameters
    return found._replace(parameters=parameters)


def roll_out(
    simulator: Simulator, state: State, calls: Sequence[ActionCall], samples: int, key: PRNGKeyArray
) -> Rollout:
    """See `Model.rollout`; for any simulator."""
    domain = simulator.domain
    chosen = check_sequence("calls", calls, "[spare.ActionCall('push', ('a',), (0.1,))]", DataError)
    if not chosen:
        raise DataError("rollout: the list of calls is empty; give at least one")
    count = check_whole("samples", samples, 1, MOST_SAMPLES)
    double = getattr(simulator, "double", False) or _large(domain, state, chosen)
    real = np.float64 if double else np.float32
    start = padded(domain, state, real)
    arrays = as_calls(domain, state, chosen, round_up(len(chosen)), real)
    each = round_up(-(-count // simulator.members))
    with precision(double=double):
        numbers = np.arange(each * simulator.members, dtype=np.int32).reshape(each, simulator.members).T
        found = PROGRAMS.call("rollout", _rolled, (simulator, start, arrays, numbers, key), options=None)
    found = np.asarray(found)[:count, : len(chosen), : len(state)]
    first = np.broadcast_to(state.values.astype(found.dtype), (count, 1, *found.shape[2:]))
    found = np.concatenate([first, found], axis=1)
    if not np.isfinite(found).all():
        step = int(np.argwhere(~np.isfinite(found))[:, 1].min())
        raise DataError(f"rollout: values are not finite after step {step}; the calls lead too far from what is known")
    return Rollout(simulator, state, chosen, found, np.arange(count) % simulator.members)


def _large(domain: Domain, state: State, calls: Sequence[ActionCall]) -> bool:
    """Whether 32 bits would lose digits that matter."""
    check_state(domain, state)
    for k, call in enumerate(calls):
        template, _ = check_call(domain, state, call, f"step {k + 1}")
        given = np.array([call.parameters], np.float64).reshape(1, -1)
        if needs_double(domain, Numbers(state.values, state.values, given, np.array([template]))):
            return True
    return False


def _rolled(simulator: Simulator, start: Padded, calls: Calls, numbers: Any, key: PRNGKeyArray) -> Array:
    """Trajectories (samples, H, N, P); sample k depends on (key, k) alone."""

    def trajectory(member: Any, number: Any) -> Array:
        own = jax.random.fold_in(key, number)

        def step(values: Any, what: tuple[Any, Calls]) -> tuple[Any, Any]:
            chance = (jax.random.fold_in(own, what[0]), member)
            after = advanced(simulator, start, values, what[1], chance)
            return after, after

        steps = jnp.arange(calls.action.shape[0])
        return jax.lax.scan(step, jnp.asarray(start.values), (steps, calls))[1]

    found = jax.vmap(lambda member, mine: jax.vmap(functools.partial(trajectory, member))(mine))(
        jnp.arange(numbers.shape[0]), numbers
    )
    return jnp.swapaxes(found, 0, 1).reshape(-1, *found.shape[2:])
