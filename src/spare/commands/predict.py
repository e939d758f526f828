"""`spare predict`: what a model predicts for one transition, and what was observed."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from spare.commands.common import check_index, load_data, load_model, remember_programs

if TYPE_CHECKING:
    from spare.data.state import State
    from spare.model.explain import Prediction


@dataclasses.dataclass(frozen=True)
class Predict:
    """Explain one prediction: which rule fired, what it referred to, what it predicts, what was observed."""

    model: Annotated[pathlib.Path, tyro.conf.Positional]
    """Model file."""
    data: Annotated[pathlib.Path, tyro.conf.Positional]
    """Parquet file of transitions."""
    index: int = 0
    """Which transition."""
    domain: str | None = None
    """A domain of your own: package.module:name."""
    json: bool = False
    """Print means and deviations (total, aleatoric, epistemic), outcomes and warnings as JSON and nothing else."""

    def run(self) -> int:
        """Predict and explain."""
        remember_programs()
        model, data = load_model(self.model, self.domain), load_data(self.data, self.domain)
        check_index(self.index, data, self.data)
        prediction = model.predict(data.states[self.index], data.actions[self.index])
        after = data.next_states[self.index]
        if self.json:
            columns = {
                "mean": prediction.mean,
                "std": prediction.std,
                "aleatoric": prediction.aleatoric,
                "epistemic": prediction.epistemic,
                "observed": after.values,
            }
            rows = [
                {"object": one, "predicted": bool(predicted)}
                | {
                    what: dict(zip(model.domain.property_names, values[i].tolist(), strict=True))
                    for what, values in columns.items()
                }
                for i, (one, predicted) in enumerate(zip(prediction.state.ids, prediction.predicted, strict=True))
            ]
            fired = [k + 1 for k, answer in enumerate(prediction.rules) if answer.fires]
            warned = [dataclasses.asdict(one) for one in prediction.warnings]
            told = {"rules": fired, "warnings": warned, "outcomes": outcomes(prediction, after), "objects": rows}
            print(json.dumps(told, indent=1))
        else:
            print(prediction.explain(after))
            nats = model.log_prob(data[self.index : self.index + 1])[0]
            print(f"log-likelihood of the observation: {nats:.2f} nats")
        return 0


def outcomes(prediction: Prediction, after: State | None = None) -> list[dict[str, Any]]:
    """What may happen, apart, as JSON values: by choice its objects and outcomes, each with mean and std of them.

    With the state that followed, `posterior` is the share of an outcome in what was observed.
    """
    ids, names = prediction.state.ids, prediction.domain.property_names
    found = []
    for choice in prediction.outcomes:
        shares = prediction.posterior(choice, after) if after is not None else [None] * len(choice.outcomes)
        told = []
        for one, share in zip(choice.outcomes, shares, strict=True):
            parts = {"mean": one.mean, "std": one.std}
            rows = [
                {"object": ids[i]} | {k: dict(zip(names, v[at].tolist(), strict=True)) for k, v in parts.items()}
                for at, i in enumerate(choice.objects)
            ]
            posterior = {} if share is None else {"posterior": float(share)}
            told.append({"outcome": one.name, "probability": one.probability, **posterior, "objects": rows})
        found.append({"objects": [ids[i] for i in choice.objects], "outliers": choice.outliers, "outcomes": told})
    return found
