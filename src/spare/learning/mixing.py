"""Settings of the many-rule learner, with the reasons for those that the paper does not have."""

from __future__ import annotations

import dataclasses

from spare.arguments import settings
from spare.errors import UsageError
from spare.learning.clusters import Clustering


@settings
@dataclasses.dataclass(frozen=True)
class Mixing:
    """Settings of the many-rule learner.

    rules K; clustering: how memberships start; with several, EM runs from each, and the rules that explain the
    validation samples best are kept; kappa: trained shells per rule; epsilon: weight kept for unexplored shells;
    iterations and tolerance (mean absolute change of memberships) say when to stop; floor: the smallest membership;
    restart: give a rule that lost its samples the worst-explained ones; warm: continue training networks whose
    samples hardly changed; bystanders: imagined objects per sample that did not move, in each rule's default
    variance. Where every object of a rule's own samples is predicted, only samples that belong elsewhere would set
    it, and they would never leave; margin: nats per pointer by which a longer shell must be better to get weight
    from a search or a sample's vote (0 in the paper), and a sample then has no vote for a shell that holds just the
    objects which a shorter one holds: where two shells say the same, chance would decide otherwise;
    polish: last iterations in which each rule has its heaviest shell alone (as in the final model), ten times the
    bystanders, no claim on samples that it does not apply to while another rule does, and memberships follow from
    likelihoods and shares as in textbook EM: samples which a hardened membership, a lighter shell, a wide default
    or the empty-lists rule kept with the wrong rule go to the right one; searches: how often each rule's lists are
    searched for again on the samples it then has, each time followed by more such iterations: votes only choose
    among shells that were explored when samples were still mixed up. What a search brings is kept only if the rules
    then explain no worse the validation samples, and all samples.
    """

    rules: int
    clustering: Clustering | tuple[Clustering, ...] = (Clustering(), Clustering(loss="total"))
    kappa: int = 3
    epsilon: float = 0.05
    iterations: int = 8
    tolerance: float = 2e-3
    floor: float = 1e-4
    restart: bool = True
    warm: bool = True
    warm_below: float = 0.05
    bystanders: float = 1.0
    margin: float = 1.0
    polish: int = 4
    searches: int = 2

    @property
    def clusterings(self) -> tuple[Clustering, ...]:
        """The starts to try."""
        return self.clustering if isinstance(self.clustering, tuple) else (self.clustering,)

    @property
    def most(self) -> int:
        """How many iterations there can be at most."""
        return self.iterations + self.polish * (1 + self.searches)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", int(self.rules))
        if self.rules < 1:
            raise UsageError(f"the number of rules must be 1 or more, got {self.rules}")
        if self.kappa < 1 or self.iterations < 0:
            raise UsageError("EM: kappa must be at least 1 and iterations at least 0")
        if not (0 <= self.epsilon < 1 and 0 < self.floor < 1 / self.rules):
            raise UsageError("EM: epsilon must be in [0, 1) and the floor in (0, 1 / rules)")
