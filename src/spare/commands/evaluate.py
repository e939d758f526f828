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


GROUPS = {"acted": "acted on", "moved": "others that moved", "bystanders": "bystanders"}


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Score a model on transitions: true nats and errors by group of objects, coverage of intervals, CRPS."""

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
    """Failures and notes first; then the three groups of objects, and all of them together."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for failure in result.failures:
        print(f"failure: {failure}")
    for note in result.notes:
        print(f"note: {note}")
    table = Table(title=f"{result.transitions} transitions, {result.objects_moved:.1f} objects move in each")
    for name in ("objects", "how many", "nats per value", *(f"RMSE, {name}" for name in result.rmse)):
        table.add_column(name, justify="left" if name == "objects" else "right", no_wrap=name == "objects")
    for name, one in result.groups.items():
        nats = "" if one.per_value is None else f"{one.per_value:.3f}"
        table.add_row(
            GROUPS[name], f"{one.objects}", nats, *(f"{one.rmse[p]:.4g}" if one.rmse else "" for p in result.rmse)
        )
    console.print(table)
    whole = Table(title="together")
    whole.add_column("score")
    whole.add_column("value", justify="right")
    whole.add_row("log-likelihood, nats per transition", f"{result.log_prob:.2f} ± {result.log_prob_error:.2f}")
    whole.add_row("log-likelihood, nats per value, all objects", f"{result.per_value:.3f}")
    if result.per_value_moved is not None:
        whole.add_row("log-likelihood, nats per value, moved objects", f"{result.per_value_moved:.3f}")
    for level, share in result.coverage.items():
        whole.add_row(f"{level} intervals cover (moved objects)", f"{share:.1%}")
    for name, crps in result.crps.items():
        whole.add_row(f"CRPS of {name} (moved objects)", f"{crps:.4g}")
    console.print(whole)
