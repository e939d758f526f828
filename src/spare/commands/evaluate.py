"""`spare evaluate`: score a model on data."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import TYPE_CHECKING, Annotated

import tyro

from spare.commands.common import load_data, load_model, remember_programs

if TYPE_CHECKING:
    from spare.model.evaluation import Evaluation


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Score a model on transitions: true nats, errors, coverage of intervals, CRPS."""

    model: Annotated[pathlib.Path, tyro.conf.Positional]
    """Model file."""
    data: Annotated[pathlib.Path, tyro.conf.Positional]
    """Parquet file of transitions."""
    draws: int = 100
    """Samples per transition for intervals and CRPS."""
    seed: int = 0
    """Seed of the samples."""
    domain: str | None = None
    """A domain of your own: package.module:name."""
    json: bool = False
    """Print the scores as JSON and nothing else."""

    def run(self) -> int:
        """Evaluate and print."""
        from spare.errors import UsageError

        if self.draws < 10:
            raise UsageError(f"--draws {self.draws}: at least 10 samples per transition are needed")
        remember_programs()
        from spare.model.evaluation import evaluate

        model = load_model(self.model, self.domain)
        result = evaluate(model, load_data(self.data, self.domain), seed=self.seed, draws=self.draws)
        if self.json:
            print(json.dumps(result.as_dict(), indent=1))
        else:
            _table(result)
        return 0


def _table(result: Evaluation) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"{result.transitions} transitions, {result.objects_moved:.1f} objects move in each")
    table.add_column("score")
    table.add_column("value", justify="right")
    table.add_row("log-likelihood, nats per transition", f"{result.log_prob:.2f} ± {result.log_prob_error:.2f}")
    table.add_row("log-likelihood, nats per value, all objects", f"{result.per_value:.3f}")
    if result.per_value_moved is not None:
        table.add_row("log-likelihood, nats per value, moved objects", f"{result.per_value_moved:.3f}")
    for level, share in result.coverage.items():
        table.add_row(f"{level} intervals cover (moved objects)", f"{share:.1%}")
    console.print(table)
    errors = Table(title="errors per property")
    for name in ("property", "RMSE, all", "RMSE, moved", "CRPS, moved"):
        errors.add_column(name, justify="left" if name == "property" else "right")
    for name in result.rmse:
        cells = (result.rmse[name], result.rmse_moved[name], result.crps[name])
        errors.add_row(name, *(f"{cell:.4g}" for cell in cells))
    console.print(errors)
