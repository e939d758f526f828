"""`spare.fit`: from experience to a model, one search per action template."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from spare.domain import Domain
from spare.errors import FitError
from spare.experience import Experience
from spare.learning.extract import Extractor, default_variance
from spare.learning.fit import Plan, capacity_for
from spare.learning.greedy import GreedySearch, Listener, SearchResult
from spare.learning.pointing import Pointing
from spare.learning.presets import Preset, find_preset
from spare.model import Model


@dataclasses.dataclass(frozen=True)
class FitResult:
    """What learning gives back: the model, how it was found, and what a user should know about it.

    `history` has one `SearchResult` per action template that occurs; `notes` are sentences for people.
    """

    model: Model
    history: tuple[SearchResult, ...]
    preset: Preset
    seed: int
    notes: tuple[str, ...]


def fit(
    domain: Domain,
    experience: Experience,
    *,
    seed: int,
    preset: str | Preset = "default",
    threads: int | None = None,
    listener: Callable[[str], Listener] | None = None,
    **search: Any,
) -> FitResult:
    """Learn a model of one rule per action template (sections 4.1 and 4.2 of the paper).

    `preset` is `default`, `paper` or a `Preset`; further keywords override its search settings, such as
    `max_references=4`, `delta="interleaved"`, `stop="paper"`. Transitions of weight 0 are left out.
    """
    chosen = find_preset(preset)
    chosen = dataclasses.replace(chosen, search=dataclasses.replace(chosen.search, **search))
    data, notes = prepare(domain, experience)
    domain = data.domain
    results = []
    for index, action in enumerate(domain.actions):
        rows = np.flatnonzero(data.action == index)
        if not len(rows):
            notes.append(f"action {action.name!r} never occurs: no rule was learned for it")
            continue
        view = listener(action.name) if listener else None
        results.append(learn_rule(data[rows], action.name, chosen, seed, threads, view))
    rules = [rule for result in results for rule in result.model.rules]
    return FitResult(Model(domain, rules, _default(data, results)), tuple(results), chosen, seed, tuple(notes))


def prepare(domain: Domain, experience: Experience) -> tuple[Experience, list[str]]:
    """Transitions with weight, seen through a domain with every resolution filled in, and notes about them."""
    data = experience.with_domain(domain)
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
        step = float(np.spacing(np.abs(seen).max()))
        if not prop.static and resolution is not None and step > resolution:
            notes.append(
                f"property {prop.name!r} reaches {np.abs(seen).max():.3g}, where 32-bit numbers are {step:.2g} apart, "
                f"more than its resolution {resolution:g}; subtract an offset, or raise the resolution"
            )
    return data, notes


def make_extractor(data: Experience, action: str, chosen: Preset) -> Extractor:
    """The extractor of one action's transitions under a preset."""
    roles = len(data.domain.action(action).objects)
    changes = np.full(len(data.domain.dynamic), chosen.targets == "change")
    return Extractor(Pointing(data, roles), action, chosen.input_names(data.domain), changes)


def split_weights(weights: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(training, validation) weights: a `share` of the samples, drawn by seed, is held out."""
    n = len(weights)
    held = round(share * n)
    if held < 1 or held >= n:
        least = int(np.floor(0.5 / share)) + 1
        raise FitError(
            f"{n} samples cannot be split into training and {share:.0%} validation; at least {least} are needed"
        )
    chosen = np.zeros(n, bool)
    chosen[np.random.default_rng([seed, 15]).permutation(n)[:held]] = True
    return np.where(chosen, 0.0, weights), np.where(chosen, weights, 0.0)


def learn_rule(
    data: Experience,
    action: str,
    chosen: Preset,
    seed: int,
    threads: int | None = None,
    listener: Listener | None = None,
) -> SearchResult:
    """One greedy search on transitions of one action."""
    weights = split_weights(data.weights, chosen.search.validation, seed)
    extractor = make_extractor(data, action, chosen)
    plan = Plan(chosen, *weights, capacity_for(extractor, chosen.search.max_references), seed, threads)
    return GreedySearch(extractor, plan, listener).run()


def _default(data: Experience, results: list[SearchResult]) -> np.ndarray:
    """Sigma_default of the whole model: that of the only search, or the empirical one over all transitions."""
    if len(results) == 1:
        return np.asarray(results[0].model.default_variance)
    return default_variance(data, np.ones(len(data.values), bool), data.weights)
