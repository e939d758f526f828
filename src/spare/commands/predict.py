"""`spare predict`: what a model expects of one transition, and what happened."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Annotated

import tyro

from spare.commands.common import check_index, load_data, load_model, remember_programs


@dataclasses.dataclass(frozen=True)
class Predict:
    """Explain one prediction: which rule fired, who was pointed at, what is expected, what happened."""

    model: Annotated[pathlib.Path, tyro.conf.Positional]
    """Model file."""
    data: Annotated[pathlib.Path, tyro.conf.Positional]
    """Parquet file of transitions."""
    index: int = 0
    """Which transition."""
    domain: str | None = None
    """A domain of your own: package.module:name."""
    json: bool = False
    """Print means and deviations (in all, by noise, by what is not known) as JSON and nothing else."""

    def run(self) -> int:
        """Predict and explain."""
        remember_programs()
        model, data = load_model(self.model, self.domain), load_data(self.data, self.domain)
        check_index(self.index, data, self.data)
        prediction = model.predict(data.states[self.index], data.actions[self.index])
        after = data.next_states[self.index]
        if self.json:
            names = model.domain.property_names
            rows = [
                {
                    "object": one,
                    "predicted": bool(moved),
                    "mean": dict(zip(names, prediction.mean[i].tolist(), strict=True)),
                    "std": dict(zip(names, prediction.std[i].tolist(), strict=True)),
                    "noise": dict(zip(names, prediction.noise[i].tolist(), strict=True)),
                    "ignorance": dict(zip(names, prediction.ignorance[i].tolist(), strict=True)),
                    "was": dict(zip(names, after.values[i].tolist(), strict=True)),
                }
                for i, (one, moved) in enumerate(zip(prediction.state.ids, prediction.predicted, strict=True))
            ]
            fired = [k + 1 for k, answer in enumerate(prediction.rules) if answer.fires]
            print(json.dumps({"rules": fired, "objects": rows}, indent=1))
        else:
            print(prediction.explain(after))
            nats = model.log_prob(data[self.index : self.index + 1])[0]
            print(f"log-likelihood of what happened: {nats:.2f} nats")
        return 0
