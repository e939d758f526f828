"""Named choices of training and search; what differs between them is written down here and nowhere else.

`default` learns rules with heads: optional pointers, a head for each slot, outcomes, processes. `dense` is the same
with one head for everyone and no references, as a yardstick. `paper` is what the paper did: one predictor for all slots
of a rule, required pointers. `shared` is the paper's kind of rule with everything that was found to help it; several
rules for one action are learned with it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from spare.arguments import described, settings
from spare.errors import DefinitionError, one_of
from spare.language.domain import Domain
from spare.model.predictors import ACTIVATIONS, may_skip

Phase = Literal["mean", "variance", "joint"]
Delta = Literal["same", "interleaved", "nested"]


JUDGED = 150
"""How many samples a paired test should rest on."""


@settings
@dataclasses.dataclass(frozen=True)
class Training:
    """LearnDist: a sequence of `phases`, Adam, minibatches, `members` networks in an ensemble.

    A `mean` or `variance` phase trains one network for `epochs` passes while the other is fixed, as in the paper.
    A `joint` phase trains both for `steps` minibatches at a learning rate that falls along a cosine, weighs each
    value's loss by variance^`beta` (beta-NLL, gradients stopped: no value is given up for lost early on), checks the
    validation rows every `check_every` steps and keeps the best weights.

    `weight_decay`   every step of a joint phase takes rate x weight_decay / rows of each weight away (rows to train on,
                     mirror images included): the same prior for any number of samples
    `most_held_out`  members of an ensemble hold out at most so many samples; 0: the share that the search holds out
    `family`         what is trained (see `families.py`): networks, one for means and one for variances, as in the
                     paper; residual, one for both (see `Network`), whose hidden layers are 3, 5, 7, ... of one width,
                     and which needs joint phases; or one that was registered
    `set_targets`    mean: a set's target is the mean of its members, as the paper trained; exact: the likelihood of
                     every member, m ((ybar - mu)² + s²) / var + m log var for m members with mean ybar, variance s²
    `outliers`       objects that a rule does not predict may be outliers (see `noise.py`)
    `copula`         errors about objects that a rule does predict may be correlated (see `copula.py`); without it, as
                     in the paper, values are independent
    """

    hidden: tuple[int, ...] = (150, 150)
    activation: str = "relu"
    phases: tuple[Phase, ...] = ("mean", "variance", "mean", "variance", "mean")
    epochs: int = 25
    steps: int = 1500
    check_every: int = 25
    beta: float = 0.5
    weight_decay: float = 0.0
    batch: int = 32
    learning_rate: float = 1e-3
    set_targets: Literal["mean", "exact"] = "exact"
    members: int = 1
    outliers: bool = False
    copula: bool = False
    family: str = "networks"
    most_held_out: int = 0

    def __post_init__(self) -> None:
        if (
            not self.phases
            or min((*self.hidden, self.epochs, self.batch, self.members, self.steps, self.check_every)) < 1
        ):
            raise DefinitionError("training: sizes, epochs, steps, batch, members and check_every must be 1 or more")
        for value, names in (
            *((one, ("mean", "variance", "joint")) for one in self.phases),
            (self.set_targets, ("mean", "exact")),
        ):
            if value not in names:
                raise DefinitionError(one_of("training setting", value, names))
        if not 0 < self.learning_rate < 1:
            raise DefinitionError(f"training: learning_rate must be between 0 and 1, got {self.learning_rate}")
        if not (0 <= self.weight_decay < math.inf and self.most_held_out >= 0):
            raise DefinitionError("training: weight_decay and most_held_out must be 0 or more")
        if self.activation not in ACTIVATIONS:
            raise DefinitionError(one_of("activation", self.activation, ACTIVATIONS))
        if self.residual and not ({*self.phases} == {"joint"} and may_skip(self.hidden)):
            raise DefinitionError("training: a residual network needs joint phases and 3, 5, ... equal hidden layers")

    @property
    def residual(self) -> bool:
        """Whether one residual network gives means and variances."""
        return self.family == "residual"

    def shortened(self) -> Training:
        """The schedule for networks that start almost right: the last mean phase, or a quarter of the steps."""
        if "joint" in self.phases:
            return dataclasses.replace(self, steps=max(1, self.steps // 4), learning_rate=self.learning_rate / 2)
        return dataclasses.replace(self, phases=self.phases[-2:], epochs=max(1, self.epochs // 2))


@settings
@dataclasses.dataclass(frozen=True)
class Search:
    """GreedySelect: how many references at most, when to stop, and what counts where a rule does not apply.

    `stop`          paper: any improvement of the validation loss; paired: one that a one-sided paired t-test over
                    the validation samples supports at level `alpha`, so that the shorter shell wins a tie
    `inapplicable`  empty: the loss of the rule with empty lists; covariance: an empirical default covariance
    `prune`         after the climb, drop pointers without which the loss is not significantly worse, then climb again:
                    a set such as "everyone in line" often comes first and is not needed once its members are found
    `folds`         how many times each candidate is trained, each time with other samples held out: losses and tests
                    then rest on `folds` times as many samples, and no sample is judged by a network that saw it;
                    auto: as many as bring the judged samples to 150, at most 6
    `ridge`         how many candidates of a growing round are trained, at most: those that ridge regression on random
                    features, which takes milliseconds, ranks first (see `screen.py`). 0: all
    `halving`       the share of the training that each candidate of a round gets first, on one fold; the best four are
                    then trained in full and judged. 1 with one fold: all are trained in full
    `delta`         same: Delta = Gamma; interleaved: each round extends Gamma, Delta or both; nested: a search for
                    Gamma inside each step of a search for Delta
    `refine`        when the lists are found: which properties are better predicted as new values and which as changes,
                    how sets are seen, and which inputs the rule does without, by validation (see `refine.py`)
    """

    max_references: int = 4
    validation: float = 0.15
    stop: Literal["paper", "paired"] = "paired"
    alpha: float = 0.01
    inapplicable: Literal["empty", "covariance"] = "empty"
    prune: bool = True
    folds: int | Literal["auto"] = 1
    ridge: int = 0
    halving: float = 1.0
    delta: Delta = "same"
    refine: bool = False

    def __post_init__(self) -> None:
        if self.max_references < 0:
            raise DefinitionError(f"max_references must be 0 or more, got {self.max_references}")
        if not 0 < self.validation < 1:
            raise DefinitionError(f"validation must be a share between 0 and 1, got {self.validation}")
        if self.folds != "auto" and not 1 <= self.folds < 1 + 1 / self.validation:
            raise DefinitionError(f"folds must be 'auto', or at least 1 and fit into the data, got {self.folds}")
        if self.ridge < 0:
            raise DefinitionError(f"ridge must be 0 or more, got {self.ridge}")
        if not 0 < self.halving <= 1:
            raise DefinitionError(f"halving must be a share of the training, above 0 and at most 1, got {self.halving}")
        if not 0 < self.alpha < 1:
            raise DefinitionError(f"alpha must be between 0 and 1, got {self.alpha}")
        for value, names in ((self.stop, ("paper", "paired")), (self.inapplicable, ("empty", "covariance"))):
            if value not in names:
                raise DefinitionError(one_of("search setting", value, names))
        if self.delta not in ("same", "interleaved", "nested"):
            raise DefinitionError(one_of("delta", self.delta, ("same", "interleaved", "nested")))

    def folds_for(self, samples: int) -> int:
        """How many folds a search over so many samples uses."""
        if self.folds != "auto":
            return self.folds
        held = max(1, round(self.validation * samples))
        return int(min(-(-JUDGED // held), max(1, samples // held), 6))


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long and how a head is trained: residual networks of `hidden` layers, Adam with a cosine rate.

    `beta` weighs each value's loss by variance^beta; every step takes rate x `decay` / rows of each weight away.
    """

    hidden: tuple[int, ...] = (64, 64, 64)
    steps: int = 1000
    batch: int = 48
    rate: float = 4e-3
    beta: float = 0.25
    decay: float = 50.0
    check_every: int = 50


@settings
@dataclasses.dataclass(frozen=True)
class Heads:
    """How rules with heads are learned (see `learning/general`).

    `search`, `final`  how heads are trained while they are chosen, and in the end
    `alpha`            level of the paired test that every choice must pass
    `max_references`   how many slots get a head, at most
    `validation`       share of the transitions that a fold holds out
    `members`          networks in the ensemble
    `dense`            one head for everyone, no references: the yardstick
    """

    search: Schedule = Schedule(steps=700)
    final: Schedule = Schedule(steps=2000)
    alpha: float = 0.01
    max_references: int = 4
    validation: float = 0.15
    members: int = 5
    dense: bool = False

    def __post_init__(self) -> None:
        if self.max_references < 0:
            raise DefinitionError(f"max_references must be 0 or more, got {self.max_references}")
        if not 0 < self.validation < 1 or not 0 < self.alpha < 1 or self.members < 1:
            raise DefinitionError("heads: validation and alpha are shares between 0 and 1, members is 1 or more")


@settings
@dataclasses.dataclass(frozen=True)
class Preset:
    """One way of learning: training, search, and which properties enter x and how they are predicted.

    `training` how candidates of a search are trained
    `final`    how the ensemble of a rule that was found is trained; None: as the candidates
    `inputs`   dynamic: only properties that can change (positions, in the paper); all: static ones too
    `targets`  absolute: new values; change: differences
    `framed`   use the action's frame, where it has one: positions in it, mirrored data where it says so
    `heads`    learn rules with heads, by these settings; None: one predictor for all slots of a rule, as in the paper
    """

    name: str
    training: Training = Training()
    search: Search = Search()
    inputs: Literal["dynamic", "all"] = "all"
    targets: Literal["absolute", "change"] = "absolute"
    framed: bool = True
    final: Training | None = None
    heads: Heads | None = None

    def __post_init__(self) -> None:
        for value, names in ((self.inputs, ("dynamic", "all")), (self.targets, ("absolute", "change"))):
            if value not in names:
                raise DefinitionError(one_of("preset setting", value, names))

    @property
    def last(self) -> Training:
        """How the ensemble of a rule that was found is trained."""
        return self.final or self.training

    def judging(self) -> Training:
        """Networks like those of the ensemble, on the schedule of the candidates: to choose inputs and targets by."""
        mine = self.training
        schedule = {"steps": mine.steps, "epochs": mine.epochs, "learning_rate": mine.learning_rate}
        return dataclasses.replace(self.last, most_held_out=0, copula=False, **schedule)

    def for_many(self) -> Preset:
        """The same for rules that compete for samples.

        An object that a rule leaves out must cost it dearly there, so there are no outliers; all rules see their
        inputs in the same way; candidates are screened by successive halving, and the networks of the ensemble are
        those of the candidates, with which EM was measured.
        """
        training = dataclasses.replace(self.training, outliers=False, copula=False)
        schedule = ("steps", "epochs", "learning_rate", "members")
        final = self.final and dataclasses.replace(training, **{name: getattr(self.final, name) for name in schedule})
        search = dataclasses.replace(self.search, refine=False, ridge=0)
        return dataclasses.replace(self, training=training, final=final, search=search)

    def input_names(self, domain: Domain) -> tuple[str, ...]:
        """The properties of a slot that enter x."""
        return domain.dynamic_names if self.inputs == "dynamic" else domain.property_names


PRESETS = {
    "paper": Preset(
        "paper",
        Training(set_targets="mean"),
        Search(stop="paper", prune=False),
        inputs="dynamic",
        framed=False,
    ),
    "shared": Preset(
        "shared",
        Training(hidden=(64, 64), activation="silu", phases=("joint",), learning_rate=2e-3, outliers=True),
        Search(folds="auto", ridge=2, halving=1 / 3, refine=True),
        targets="change",
        final=Training(
            hidden=(64,) * 5,
            activation="silu",
            phases=("joint",),
            steps=3750,
            learning_rate=4e-3,
            beta=0.25,
            weight_decay=50.0,
            members=5,
            outliers=True,
            copula=True,
            family="residual",
            most_held_out=50,
        ),
    ),
}
PRESETS["default"] = dataclasses.replace(PRESETS["shared"], name="default", heads=Heads())
PRESETS["dense"] = dataclasses.replace(PRESETS["shared"], name="dense", heads=Heads(dense=True))


def find_preset(name: str | Preset) -> Preset:
    """The preset of that name; a `Preset` stays as it is."""
    if isinstance(name, Preset):
        return name
    if not isinstance(name, str):
        raise DefinitionError(f"preset: expected 'default', 'paper' or a spare.Preset, got {described(name)}")
    if name not in PRESETS:
        raise DefinitionError(one_of("preset", name, PRESETS))
    return PRESETS[name]
