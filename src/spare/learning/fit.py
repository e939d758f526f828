"""`spare.fit`: from experience to a model, one search per action template."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from spare.arguments import check_kind, check_seed, check_whole, described, is_whole
from spare.content import ByContent
from spare.data.experience import Experience, expect_experience
from spare.data.precision import origins, spacing
from spare.errors import FitError, UsageError, one_of
from spare.forks import check_threads
from spare.io.manifest import LONGEST_NOTE
from spare.io.schemas import MOST
from spare.language.domain import Domain, expect_domain
from spare.learning.bindings import Bindings
from spare.learning.cache import TrainingCache
from spare.learning.dataset import Dataset
from spare.learning.families import find_family
from spare.learning.folds import fold_masks, split_weights
from spare.learning.general.learn import GeneralResult, Learning, learn
from spare.learning.general.notes import failures
from spare.learning.history import SearchResult
from spare.learning.many import ManyResult, better_by_test, learn_rules
from spare.learning.mixing import Mixing
from spare.learning.noise import default_variance
from spare.learning.presets import Heads, Preset, Search, Training, find_preset
from spare.learning.problems import capacity_for
from spare.learning.search import GreedySearch
from spare.learning.train import Plan
from spare.model.model import Model
from spare.model.spec import FeatureSpec

Settings = TypeVar("Settings", Search, Heads)
MOST_RULES = 6
MOST_MECHANISMS = 3
"""So many ways in which an action can work one rule tells apart, by its outcomes."""
JUDGES = 3
"""How many networks, at least, judge inputs and targets; each holds out other samples."""


@dataclasses.dataclass(frozen=True, eq=False)
class FitResult(ByContent):
    """What learning gives back: the model, how it was found, and what a user should know about it.

    `history` has one `GeneralResult` (a rule with heads), `SearchResult` (one of the paper's rules) or `ManyResult`
    (several) per action template that occurs; `notes` are sentences for people, failures to learn first.
    """

    model: Model
    history: tuple[SearchResult | ManyResult | GeneralResult, ...]
    preset: Preset
    seed: int
    notes: tuple[str, ...]


def fit(  # noqa: PLR0913 - the facade: everything after the data is a keyword with a default
    domain: Domain,
    experience: Experience,
    *,
    seed: int,
    preset: str | Preset = "default",
    rules: int | Mixing | Literal["auto"] = 1,
    threads: int | None = None,
    listener: Callable[[str], Any] | None = None,
    cache: TrainingCache | None = None,
    **search: Any,
) -> FitResult:
    """Learn a model from experience: one search per action template (sections 4.1 to 4.3 of the paper).

    `preset` is `default`, `paper` or a `Preset`. `rules` is how many ways in which each action can work are expected:
    the default tells up to three apart as outcomes of one rule, as many as held-out likelihood supports (`"auto"` and 1
    mean the same there); more, or a `Mixing`, which says how, are rules of the paper's kind, by EM. Further keywords
    override the preset's search settings, such as `max_references=4`, `delta="interleaved"`, `stop="paper"`.
    Transitions of weight 0 are left out.
    """
    check_threads()
    seed = check_seed(seed)
    threads = None if threads is None else check_whole("threads", threads, 1)
    rules = _check_rules(rules)
    if listener is not None and not callable(listener):
        raise UsageError(f"listener: expected a function of an action's name, got {described(listener)}")
    if cache is not None:
        check_kind("cache", cache, TrainingCache, "open one with spare.learning.cache.open_run, or leave it out")
    expect_domain(domain)
    expect_experience(experience)
    chosen = find_preset(preset)
    for training in (chosen.training, chosen.last):
        find_family(training.family)
    domain.check_unchanged()
    data, notes = prepare(domain, experience)
    domain = data.domain
    heads = chosen.heads
    if heads is not None and (reason := _not_for_heads(data, rules)):
        heads, notes = None, [f"rules with heads are not learned here, because {reason}", *notes]
    if heads is not None:
        heads = _overridden(heads, search)
        found = learn(data, Learning(heads, seed, threads, cache, listener))
        default = default_variance(data, np.ones(len(data.values), bool), data.weights)
        told = (*failures(found), *_fewer(found, rules), *notes, *_missing(data))
        facts = provenance(chosen, seed, data, (), told)
        model = Model(domain, [one.rule for one in found], default, facts)
        return FitResult(model, tuple(found), dataclasses.replace(chosen, heads=heads), seed, told)
    chosen = dataclasses.replace(chosen, search=_overridden(chosen.search, search))
    task = Task(chosen, seed, threads, cache)
    results: list[SearchResult | ManyResult] = []
    for index, action in enumerate(domain.actions):
        rows = np.flatnonzero(data.action == index)
        if not len(rows):
            continue
        view = listener(action.name) if listener else None
        results.append(task.learn(data[rows], action.name, rules, view))
    notes += _missing(data)
    learned = [rule for result in results for rule in result.model.rules]
    facts = provenance(chosen, seed, data, results, notes)
    return FitResult(Model(domain, learned, _default(data, results), facts), tuple(results), chosen, seed, tuple(notes))


def _check_rules(rules: Any) -> int | Mixing | Literal["auto"]:
    """How many rules to learn, if it is a number of them, a `Mixing`, or left to the data."""
    if isinstance(rules, Mixing) or is_whole(rules):
        return rules if isinstance(rules, Mixing) else check_whole("rules", rules, 1)
    if not isinstance(rules, str) or rules != "auto":
        raise UsageError(f"rules must be a whole number, 'auto' or a spare.Mixing, got {described(rules)}")
    return "auto"


def _not_for_heads(data: Experience, rules: int | Mixing | Literal["auto"]) -> str:
    """Why rules with heads cannot be learned from these data, or nothing."""
    if isinstance(rules, Mixing) or (rules != "auto" and rules > MOST_MECHANISMS):
        return f"more than {MOST_MECHANISMS} rules for one action, or a Mixing, were asked for"
    if not all(leaf.shifts for leaf in data.domain.leaves):
        return "some property is not a number or an angle"
    return ""


def _fewer(found: Sequence[GeneralResult], rules: int | Mixing | Literal["auto"]) -> list[str]:
    """What is said where several rules were asked for: they are outcomes of one rule, or there are fewer."""
    if not isinstance(rules, int) or rules == 1:
        return []
    told = []
    for one in found:
        count, name = one.rule.outcomes, one.action
        if count >= rules:
            told.append(f"action {name!r}: the {count} rules are outcomes of one rule, which tells them apart")
        else:
            told.append(
                f"action {name!r}: {rules} rules were asked for, but held-out transitions tell {count} "
                f"mechanism{'s' if count > 1 else ''} apart. If there are more, they differ in something that neither "
                "the properties nor what happens show; or there are too few transitions"
            )
    return told


def _missing(data: Experience) -> list[str]:
    """A note on every action that never occurs."""
    seen = {*np.unique(data.action).tolist()}
    names = [action.name for index, action in enumerate(data.domain.actions) if index not in seen]
    return [f"action {name!r} never occurs: no rule was learned for it" for name in names]


def _overridden(chosen: Settings, settings: dict[str, Any]) -> Settings:
    """Settings with some replaced; what `fit` does not know is named, with what comes near it."""
    known = [field.name for field in dataclasses.fields(chosen)]
    trained = [field.name for field in dataclasses.fields(Training)]
    for name in settings:
        if name in trained and name not in known:
            raise UsageError(
                f"fit: {name!r} is a setting of training: make a preset of your own, spare.Preset('mine', "
                f"spare.Training({name}=...)), and pass preset=..."
            )
        if name not in known:
            own = ("seed", "preset", "rules", "threads", "listener", "cache")
            raise UsageError(f"fit: {one_of('keyword', name, (*own, *known))}")
    return dataclasses.replace(chosen, **settings)


def provenance(
    chosen: Preset,
    seed: int,
    data: Experience,
    results: Sequence[SearchResult | ManyResult],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Where a model comes from: versions, seed, settings, data, notes, each rule's share where there are several."""
    facts: dict[str, Any] = {
        "spare": importlib.metadata.version("spare-models"),
        "jax": importlib.metadata.version("jax"),
        "preset": chosen.name,
        "seed": seed,
        "data": data.fingerprint,
        "transitions": len(data),
    }
    if notes:
        facts["notes"] = [note[:LONGEST_NOTE] for note in notes[:MOST]]
    shares = [
        {"share": round(one.share, 4), "typical": one.typical}
        for result in results
        if isinstance(result, ManyResult)
        for one in result.shares
    ]
    return {**facts, "rules": shares} if shares else facts


def prepare(domain: Domain, experience: Experience) -> tuple[Experience, list[str]]:
    """Transitions with weight, seen through a domain with every resolution filled in, and notes about them."""
    data = experience.with_domain(domain)
    if not len(data):
        raise FitError("there are no transitions to learn from")
    if not (data.weights > 0).any():
        raise FitError("every transition has weight 0: there is nothing to learn from")
    data = data[np.flatnonzero(data.weights > 0)]
    data, filled = data.resolved()
    notes = [f"property {name!r}: resolution {value:.3g} taken from the data" for name, value in filled.items()]
    for column, prop in enumerate(domain.properties):
        seen = np.concatenate([data.values[:, column], data.next_values[:, column]])
        if np.ptp(seen) == 0:
            notes.append(f"property {prop.name!r} is constant ({seen[0]:g}) in these data")
        resolution = data.domain.properties[column].resolution
        step = spacing(seen, seen.dtype.type)
        if not prop.static and resolution is not None and step > resolution:
            advice = "subtract an offset" if data.double else "give it in 64-bit numbers"
            notes.append(
                f"property {prop.name!r} reaches {np.abs(seen).max():.3g}, where {8 * seen.itemsize}-bit numbers are "
                f"{step:.2g} apart, more than its resolution {resolution:g}; {advice}, or raise the resolution"
            )
    return data, notes


def make_dataset(data: Experience, action: str, chosen: Preset) -> Dataset:
    """The dataset of one action's transitions under a preset."""
    framed = chosen.framed and data.domain.action(action).frame is not None
    zeros = origins(data.domain, data.numbers, data.domain.action_index(action))
    features = FeatureSpec(chosen.input_names(data.domain), framed, origins=zeros)
    return Dataset(Bindings(data, action), features, data.domain.targets(chosen.targets == "change"))


@dataclasses.dataclass(frozen=True)
class Task:
    """How the transitions of one action are learned from."""

    preset: Preset
    seed: int
    threads: int | None = None
    cache: TrainingCache | None = None

    def plan(
        self, data: Experience, dataset: Dataset, members: int | None = None, training: Training | None = None
    ) -> Plan:
        """The plan for all of `data`: `members` networks (as many as the search has folds), trained so (as candidates).

        Each holds out the search's validation share, or what `training.most_held_out` says if that is less.
        """
        search, capacity = self.preset.search, capacity_for(dataset, self.preset.search.max_references)
        count = members or search.folds_for(len(data))
        training = dataclasses.replace(training or self.preset.training, members=count)
        share = search.validation
        if training.most_held_out:
            share = min(share, training.most_held_out / len(data))
        weights = split_weights(data.weights, share, self.seed)
        chosen = dataclasses.replace(self.preset, training=training)
        held = None
        if count > 1 and search.folds != 1:
            held = fold_masks(len(data), share, count, self.seed)
            weights = (data.weights, np.where(held.any(axis=0), data.weights, 0.0))
        return Plan(chosen, *weights, capacity, self.seed, self.threads, cache=self.cache, folds=held)

    def judging(self, data: Experience, dataset: Dataset) -> Plan | None:
        """The plan by which inputs and targets are chosen, if the preset's refines what it found."""
        search = self.preset.search
        if not search.refine:
            return None
        members = 1 if search.folds == 1 else max(JUDGES, search.folds_for(len(data)))
        return self.plan(data, dataset, members, self.preset.judging())

    def finish(self, data: Experience, dataset: Dataset) -> Plan | None:
        """The plan for the rules that were found, if the preset's ensemble is another, or larger than the search's."""
        members = self.preset.last.members
        if self.preset.final is None and members <= self.preset.search.folds_for(len(data)):
            return None
        return self.plan(data, dataset, members, self.preset.last)

    def learn(
        self, data: Experience, action: str, rules: int | Mixing | Literal["auto"], view: Any = None
    ) -> SearchResult | ManyResult:
        """One rule by greedy search, or several by EM."""
        if rules == "auto":
            return self._auto(data, action, view)
        mixing = rules if isinstance(rules, Mixing) else Mixing(rules)
        if mixing.rules > 1 and self.preset != self.preset.for_many():
            return dataclasses.replace(self, preset=self.preset.for_many()).learn(data, action, mixing, view)
        dataset = make_dataset(data, action, self.preset)
        # EM trains the same shells again and again: one fold is enough there.
        plan = self.plan(data, dataset, None if mixing.rules == 1 else 1)
        if mixing.rules == 1:
            heard = view.stage("search") if hasattr(view, "stage") else view
            judging, finish = self.judging(data, dataset), self.finish(data, dataset)
            return GreedySearch(dataset, plan, heard, judging=judging, finish=finish).run()
        return learn_rules(dataset, plan, mixing, view, finish=self.finish(data, dataset))

    def _auto(self, data: Experience, action: str, view: Any) -> SearchResult | ManyResult:
        """Add rules while held-out samples are explained better for it; then learn again from all samples."""
        seen, held_out = data.split(self.preset.search.validation, self.seed)
        fair = dataclasses.replace(self, preset=self.preset.for_many())
        chosen, best = 1, fair.learn(seen, action, 1, view)
        for count in range(2, MOST_RULES + 1):
            trial = fair.learn(seen, action, count, view)
            if not better_by_test(best.model, trial.model, held_out, self.preset.search.alpha):
                break
            chosen, best = count, trial
        return self.learn(data, action, chosen, view)


def _default(data: Experience, results: Sequence[SearchResult | ManyResult]) -> np.ndarray:
    """Sigma_default of the whole model: that of the only search, or the empirical one over all transitions."""
    if len(results) == 1:
        return np.asarray(results[0].model.noise.variance)
    return default_variance(data, np.ones(len(data.values), bool), data.weights)
