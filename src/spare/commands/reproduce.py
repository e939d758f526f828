"""`spare reproduce`: the figures and tables of the paper, from scratch."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import sys
from typing import TYPE_CHECKING, Annotated

import tyro

from spare.commands.common import check_target, program_cache
from spare.commands.interrupts import ending_soon
from spare.names import shown

if TYPE_CHECKING:
    from distributed import Client

    from spare.lab.experiments.runner import Summary


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper's figures and tables and check its claims; an interrupted run continues where it stopped."""

    experiments: Annotated[tuple[str, ...], tyro.conf.Positional]
    """fig4a fig4b fig4c fig5a fig5b fig6 fig7 table1 table2 table3 table4 mixed, or all; beyond the paper: samples
    heights clutter worlds."""
    out: pathlib.Path = pathlib.Path("results")
    """Folder for finished runs, data, figures, claims.json and reproduction.md."""
    quick: bool = False
    """A small run of everything for a first look; its verdicts mean little."""
    jobs: int = -1
    """How many worker processes; -1 for one per core."""
    cluster: str | None = None
    """Address of a Dask scheduler, such as tcp://host:8786: its workers compute."""
    page: pathlib.Path | None = None
    """Also write the page of the run here."""
    json: bool = False
    """Print the claims as JSON and nothing else."""

    def run(self) -> int:
        """Compute, write, and say which claims hold; exit code 1 if a run failed."""
        from spare.lab.experiments.catalogue import chosen
        from spare.lab.experiments.runner import reproduce
        from spare.lab.experiments.runs import FULL, QUICK
        from spare.lab.experiments.store import Store
        from spare.lab.worlds.push.generation import workers

        experiments, jobs = chosen(self.experiments), workers(self.jobs)
        if self.page is not None:
            check_target(self.page)
        with ending_soon(self._kept), self._far() as client:
            store = Store(self.out, QUICK if self.quick else FULL)
            with store.held():
                summary = reproduce(experiments, store, jobs=jobs, cache=program_cache(), cluster=client, say=self._say)
        if self.page is not None:
            self._copy_page()
        if self.json:
            print((self.out / "claims.json").read_text("utf-8"), end="")
        else:
            _show(summary, self.out)
        return 1 if summary.failed else 0

    def _kept(self) -> str:
        return f"interrupted; finished runs are kept in {self.out}. Run the same command to continue"

    def _far(self) -> contextlib.AbstractContextManager[Client | None]:
        from spare.lab.experiments.cluster import connected

        return contextlib.nullcontext() if self.cluster is None else connected(self.cluster)

    def _copy_page(self) -> None:
        from spare.io.atomic import replacing

        assert self.page is not None
        with replacing(self.page) as target:
            target.write_text((self.out / "reproduction.md").read_text("utf-8"), "utf-8")

    def _say(self, text: str) -> None:
        if not self.json:
            print(shown(text), file=sys.stderr, flush=True)


def _show(summary: Summary, out: pathlib.Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Claims")
    for name in ("claim", "source", "required", "found", "verdict"):
        table.add_column(name, overflow="fold")
    for claims in summary.claims.values():
        for one in claims:
            table.add_row(one.name, one.source, one.bound, str(one.estimate), one.verdict)
    Console().print(table)
    for name, reason in summary.failed.items():
        print(shown(f"failed: {name}: {reason}"), file=sys.stderr)
    print(out / "reproduction.md")
