"""Many rules from one experience (section 4.3): a clustering start, then an EM-like alternation.

1. k-means on what a single rule sees gives memberships z (n, K).
2. For each rule, a greedy search on samples weighted by z starts its distribution pi over shells.
3. M-step: train the kappa heaviest shells of every rule on its weighted samples; samples vote for the shell that
   explains them best; pi is shared out by votes; train again where the heaviest shells changed.
4. E-step: z_ij is multiplied by the likelihood of sample i under mixture rule j, and normalised.
5. Repeat 3 and 4 until memberships settle. Everything is in log space; a floor lets a membership recover.

Multiplying memberships anew each time hardens them; the likelihood need not rise at every step.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from spare.content import ByContent
from spare.errors import FitError, UsageError
from spare.language.references import Shell
from spare.learning.clusters import features, memberships
from spare.learning.dataset import Dataset
from spare.learning.history import Listener, SearchResult
from spare.learning.mixing import Mixing
from spare.learning.mixtures import ShellWeights, all_shells, mix
from spare.learning.search import GreedySearch
from spare.learning.train import Fitted, Pair, Plan, fit_jobs

NEGLIGIBLE = 0.01


@dataclasses.dataclass(frozen=True, eq=False)
class Iteration(ByContent):
    """After one M- and E-step: memberships (n, K), each rule's shell weights, likelihood, and what was flagged.

    log_likelihood: mean over samples of log sum_j share_j p(s' | s, a; T_j); change: mean absolute change of z.
    """

    number: int
    memberships: np.ndarray
    shells: tuple[ShellWeights, ...]
    log_likelihood: float
    change: float
    starved: tuple[int, ...]
    seconds: float


@runtime_checkable
class EMListener(Protocol):
    """Hears how EM goes, for live views."""

    def stage(self, text: str) -> Listener | None:
        """A part begins (the single rule, the search of rule j); the listener for its search, if any."""
        ...

    def iteration(self, done: Iteration, most: int) -> None:
        """One iteration is over."""
        ...


@dataclasses.dataclass
class RuleState:
    """One mixture rule while it is learned: pi, and the trained predictors of its heaviest shells."""

    shells: ShellWeights
    fitted: dict[Shell, Fitted]
    weights: np.ndarray

    def losses(self, shell: Shell, empty: Shell) -> np.ndarray:
        """-log p of every sample; by the empty-lists rule where the shell's does not apply."""
        own = self.fitted[shell].log_prob
        return -np.where(np.isnan(own), self.fitted[empty].log_prob, own)


class EM:
    """Steps 1 to 5 on the transitions of one action."""

    def __init__(
        self,
        dataset: Dataset,
        plan: Plan,
        mixing: Mixing,
        listener: EMListener | None = None,
        start: np.ndarray | None = None,
    ) -> None:
        self.dataset, self.plan, self.mixing, self.listener = dataset, plan, mixing, listener
        self.empty = Shell(len(dataset.experience.domain.action(dataset.action).objects))
        longest = plan.preset.search.max_references
        self.total = all_shells(dataset.experience.domain, dataset.action, longest)
        self.weights = np.maximum(plan.training, plan.validation)
        self.single: SearchResult | None = None
        self._start, self._polishing = start, False

    @property
    def kappa(self) -> int:
        """How many shells of each rule are trained and mixed now."""
        return 1 if self._polishing else self.mixing.kappa

    def starts(self) -> list[np.ndarray]:
        """The memberships to start from: those given, or what each way of clustering says."""
        return [self._start] if self._start is not None else self._clustered()

    def run(self, start: np.ndarray, of: str = "") -> tuple[np.ndarray, list[RuleState], list[Iteration]]:
        """(memberships, rules, history); history starts with iteration 0, the start itself. `of` names it in views."""
        self._polishing = False
        begin, z = time.perf_counter(), self.floored(start)
        states = [self._begin(z[:, j], j, of) for j in range(z.shape[1])]
        history = [self._record(0, z, states, np.inf, begin)]
        z = self._iterate(z, states, history, self.mixing.iterations)
        self._polishing = self.mixing.polish > 0
        z = self._iterate(z, states, history, self.mixing.polish)
        judges = self.plan.validation, self.weights
        for number in range(self.mixing.searches if self._polishing else 0):
            before = [state.shells.top(1) for state in states]
            kept = z, [dataclasses.replace(state) for state in states], len(history)
            likelihood = self._likelihoods(states)
            others = [-np.delete(likelihood, j, axis=1).max(axis=1) for j in range(z.shape[1])]
            lost, again = self.starved(z), f"{of}, again ({number + 1})"
            states[:] = [
                states[j] if j in lost else self._begin(z[:, j], j, again, others[j]) for j in range(z.shape[1])
            ]
            if [state.shells.top(1) for state in states] == before:
                break
            z = self._iterate(z, states, history, self.mixing.polish)
            if any(self._explained(z, states, w) < self._explained(*kept[:2], w) for w in judges):
                # Few samples can mislead a search.
                z, states = kept[:2]
                del history[kept[2] :]
                break
        return z, states, history

    def _iterate(self, z: np.ndarray, states: list[RuleState], history: list[Iteration], most: int) -> np.ndarray:
        """M- and E-steps until memberships settle, at most so many; the new memberships."""
        for _ in range(most):
            begin = time.perf_counter()
            starved = self._m_step(z, states)
            likelihood = self._likelihoods(states)
            fresh = self.e_step(*self._claims(z, likelihood, states))
            if self.mixing.restart:
                fresh = self._restart(fresh, likelihood, starved)
            change = float(np.abs(fresh - z)[self.weights > 0].mean())
            z = fresh
            history.append(self._record(len(history), z, states, change, begin, starved))
            if change < self.mixing.tolerance:
                break
        return z

    def _explained(self, z: np.ndarray, states: Sequence[RuleState], over: np.ndarray) -> float:
        """Mean log p, rules mixed by their shares, of the samples weighted by `over`."""
        share = self.weights @ z / self.weights.sum()
        return float(over @ mix(share.tolist(), self._likelihoods(states).T) / over.sum())

    # -- start --------------------------------------------------------------------------------------------------

    def _clustered(self) -> list[np.ndarray]:
        view = self.listener.stage("one rule for all samples") if self.listener else None
        self.single = GreedySearch(self.dataset, self.plan, view).run()
        starts = []
        for how in self.mixing.clusterings:
            points = features(self.dataset, self.single, self.single.losses, how)
            z = memberships(points, self.weights, self.mixing.rules, how, self.plan.seed)
            if not any(np.allclose(z, other, atol=1e-3) for other in starts):
                starts.append(z)
        return starts

    def floored(self, z: np.ndarray) -> np.ndarray:
        """Memberships with none below the floor, each row summing to 1."""
        if z.shape != (len(self.weights), self.mixing.rules) or not np.isfinite(z).all():
            raise UsageError(f"memberships must be finite, of shape ({len(self.weights)}, {self.mixing.rules})")
        z = np.maximum(z, self.mixing.floor)
        return z / z.sum(axis=1, keepdims=True)

    def _begin(self, column: np.ndarray, j: int, of: str = "", others: np.ndarray | None = None) -> RuleState:
        """pi of one rule from a greedy search on its weighted samples; `others` is what the other rules say of them."""
        view = self.listener.stage(f"rule {j + 1}: search{of}") if self.listener else None
        plan = dataclasses.replace(self.rule_plan(column, j), others=others)
        found = GreedySearch(self.dataset, plan, view).run()
        margin = self.mixing.margin
        losses = {e.gamma: e.loss + margin * len(e.gamma) for e in found.explored if e.gamma == e.delta}
        shells = ShellWeights.from_losses(losses, self.mixing.epsilon, self.total)
        fitted = {found.best.gamma: found.fitted[0], self.empty: found.fitted[1]}
        return RuleState(shells, fitted, column)

    def rule_plan(self, column: np.ndarray, j: int, warm: RuleState | None = None, base: Plan | None = None) -> Plan:
        """Training on samples weighted by one rule's memberships; samples with next to none are left out."""
        base = base or self.plan
        share = np.where(column >= NEGLIGIBLE * column.max(), column, 0.0)
        training, validation = base.training * share, base.validation * share
        if not (training > 0).any() or not (validation > 0).any():
            raise FitError(f"rule {j + 1}: no sample is left to train or to validate it on; ask for fewer rules")
        start = {(shell, shell): fitted for shell, fitted in warm.fitted.items()} if warm else {}
        seed = self.plan.seed + 7919 * (j + 1)
        return dataclasses.replace(
            base,
            training=training,
            validation=validation,
            seed=seed,
            warm=start,
            bystanders=self.mixing.bystanders * (10.0 if self._polishing else 1.0),
        )

    def starved(self, z: np.ndarray) -> tuple[int, ...]:
        """The rules that have lost their samples: next to no membership, or none to train or to validate on."""
        mass = self.weights @ z
        least = max(2.0, 0.01 * self.weights.sum() / z.shape[1])
        kept = z >= NEGLIGIBLE * z.max(axis=0)
        some = [(kept * part[:, None] > 0).any(axis=0) for part in (self.plan.training, self.plan.validation)]
        return tuple(j for j in range(z.shape[1]) if mass[j] < least or not (some[0][j] and some[1][j]))

    # -- M-step -------------------------------------------------------------------------------------------------

    def _m_step(self, z: np.ndarray, states: Sequence[RuleState]) -> tuple[int, ...]:
        """Train, vote, train what is new; the numbers of rules that have lost their samples and keep what they had."""
        starved = self.starved(z)
        plans: dict[int, Plan] = {}
        for j, state in enumerate(states):
            if j in starved:
                continue
            moved = np.abs(z[:, j] - state.weights).sum() / max(state.weights.sum(), 1e-300)
            warm = state if self.mixing.warm and moved < self.mixing.warm_below else None
            plans[j] = self.rule_plan(z[:, j], j, warm)
            state.fitted, state.weights = {}, z[:, j]
        self._train(states, plans)
        for j in plans:
            states[j].shells = self.vote(states[j], z[:, j])
        self._train(states, plans)
        return starved

    def _train(self, states: Sequence[RuleState], plans: dict[int, Plan]) -> None:
        """The heaviest shells of every rule, and its empty-lists rule, that are not trained yet: one batch."""
        jobs = []
        for j, plan in plans.items():
            wanted = dict.fromkeys([*states[j].shells.top(self.kappa), self.empty])
            missing = [shell for shell in wanted if shell not in states[j].fitted]
            # The empty-lists rule stands in where a shell does not apply: no prior may make it look certain.
            plain = dataclasses.replace(plan, bystanders=0.0)
            jobs += [
                (j, shell, ((shell, shell), plain if shell == self.empty else plan))
                for shell in missing
                if self._trainable(shell, plan)
            ]
        for (j, shell, _), fitted in zip(jobs, self.train([job for _, _, job in jobs]), strict=True):
            states[j].fitted[shell] = fitted

    def train(self, jobs: Sequence[tuple[Pair, Plan]]) -> list[Fitted]:
        """One batch of trainings, of all rules together."""
        return fit_jobs(self.dataset, jobs, self.plan.threads)

    def _trainable(self, shell: Shell, plan: Plan) -> bool:
        return bool((self.dataset.matrix(shell, shell).applies & (plan.training > 0)).any())

    def _top(self, state: RuleState) -> list[Shell]:
        """The heaviest shells that are trained; before the first M-step that may only be the search's own choice."""
        trained = [shell for shell in state.shells.top(self.kappa) if shell in state.fitted]
        return trained or [shell for shell in state.fitted if shell != self.empty] or [self.empty]

    def vote(self, state: RuleState, column: np.ndarray) -> ShellWeights:
        """V(k) = sum of w_i z_i over the samples whose loss, plus the margin for length, is smallest under shell k.

        With a margin, a sample has no vote for a shell that holds just the objects which a shorter one holds.
        """
        top = self._top(state)
        losses = np.stack([state.losses(shell, self.empty) + self.mixing.margin * len(shell) for shell in top])
        if self.mixing.margin:
            losses[self._repeats(state, top)] = np.inf
        best = np.argmin(losses, axis=0)
        share = self.weights * column
        return state.shells.voted({shell: float(share[best == k].sum()) for k, shell in enumerate(top)})

    def _repeats(self, state: RuleState, top: Sequence[Shell]) -> np.ndarray:
        """(shells, n): which samples each shell says nothing new about: a shorter one holds the same objects."""
        offsets = self.dataset.experience.offsets[:-1]
        held = [self.dataset.bindings.masks(shell).any(axis=0) for shell in top]
        applies = [state.fitted[shell].matrix.applies for shell in top]
        found = np.zeros((len(top), len(offsets)), bool)
        for k, long in enumerate(top):
            for j, short in enumerate(top):
                if len(short) < len(long):
                    other = np.maximum.reduceat(held[k] != held[j], offsets)
                    found[k] |= ~other & applies[k] & applies[j]
        return found

    # -- E-step -------------------------------------------------------------------------------------------------

    def _likelihoods(self, states: Sequence[RuleState]) -> np.ndarray:
        """log p(s' | s, a; T_j) of every sample under every mixture rule, (n, K)."""
        columns = []
        for state in states:
            top = self._top(state)
            terms = -np.stack([state.losses(shell, self.empty) for shell in top])
            columns.append(mix([state.shells[shell] for shell in top], terms))
        return np.stack(columns, axis=1)

    def _claims(
        self, z: np.ndarray, likelihood: np.ndarray, states: Sequence[RuleState]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(prior, likelihood) of the E-step: the memberships before; or, when polishing, shares and applicability."""
        if not self._polishing:
            return z, likelihood
        applies = np.stack([state.fitted[self._top(state)[0]].matrix.applies for state in states], axis=1)
        barred = ~applies & applies.any(axis=1, keepdims=True)
        share = self.weights @ z / self.weights.sum()
        return np.broadcast_to(share, z.shape), np.where(barred, -np.inf, likelihood)

    def e_step(self, z: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
        """z_ij p_ij / sum_j z_ij p_ij, in log space, floored; z is the memberships before, or the rules' shares."""
        joint = np.log(z) + likelihood
        joint -= joint.max(axis=1, keepdims=True)
        weight = np.exp(joint)
        return self.floored(weight / weight.sum(axis=1, keepdims=True))

    def _restart(self, z: np.ndarray, likelihood: np.ndarray, starved: Sequence[int]) -> np.ndarray:
        """Give each starved rule a share of the samples that no rule explains well."""
        if not starved:
            return z
        z = z.copy()
        worst = np.argsort(likelihood.max(axis=1))[: max(2, len(z) // (2 * z.shape[1]))]
        for position, j in enumerate(starved):
            z[worst[position :: len(starved)], j] = 1.0
        return self.floored(z / z.sum(axis=1, keepdims=True))

    def _record(
        self,
        number: int,
        z: np.ndarray,
        states: Sequence[RuleState],
        change: float,
        begin: float,
        starved: tuple[int, ...] = (),
    ) -> Iteration:
        mean = self._explained(z, states, self.weights)
        seconds = time.perf_counter() - begin
        done = Iteration(number, z, tuple(s.shells for s in states), mean, change, starved, seconds)
        if self.listener:
            self.listener.iteration(done, self.mixing.most)
        return done
