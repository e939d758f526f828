"""`spare predict`: what a model predicts for one transition, and what was observed."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Annotated

import tyro

from spare.commands.common import check_index, load_data, load_model, remember_programs


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
    """Print means and deviations (total, aleatoric, epistemic) and warnings as JSON and nothing else."""

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
            print(json.dumps({"rules": fired, "warnings": warned, "objects": rows}, indent=1))
        else:
            print(prediction.explain(after))
            nats = model.log_prob(data[self.index : self.index + 1])[0]
            print(f"log-likelihood of the observation: {nats:.2f} nats")
        return 0
