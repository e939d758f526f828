"""Several actions: a network of its own for each of them, as one transition model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from spare.data.experience import Experience
from spare.errors import DataError, one_of
from spare.lab.baselines.gaussian import GaussianModel, Part, RowGaussians
from spare.language.domain import Domain
from spare.learning.fit import prepare


class PerAction(GaussianModel):
    """What the model of each action says of that action's transitions."""

    def __init__(self, domain: Domain, models: Mapping[str, GaussianModel]) -> None:
        super().__init__(domain, any(one.framed for one in models.values()))
        self.models = dict(models)

    def answer(self, part: Part) -> RowGaussians:
        """The answer of the action's own model."""
        if part.action not in self.models:
            raise DataError(f"no transitions of it were learned from: {one_of('action', part.action, self.models)}")
        return self.models[part.action].answer(part)


def fit_each(
    fit: Callable[[Domain, Experience], GaussianModel], domain: Domain, experience: Experience
) -> GaussianModel:
    """`fit` on the transitions of every action that occurs; with one action, simply what it gives."""
    data, _ = prepare(domain, experience)
    found = {}
    for index, action in enumerate(data.domain.actions):
        rows = np.flatnonzero(data.action == index)
        if len(rows):
            found[action.name] = fit(data.domain, data[rows])
    return next(iter(found.values())) if len(found) == 1 else PerAction(data.domain, found)
