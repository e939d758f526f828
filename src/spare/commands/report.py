"""`spare report`: one HTML page about results or a model."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from spare.commands.common import check_target, load_data, load_model, remember_programs

if TYPE_CHECKING:
    from spare.lab.report.html import Page


@dataclasses.dataclass(frozen=True)
class Report:
    """Write one self-contained HTML page about results, a demo, a record of control, or a model and data."""

    source: Annotated[pathlib.Path, tyro.conf.Positional]
    """A folder that `spare reproduce`, `spare demo` or `spare control` wrote, or a model file."""
    data: Annotated[pathlib.Path | None, tyro.conf.Positional] = None
    """With a model file: unseen transitions to score it on."""
    out: pathlib.Path | None = None
    """Where the page goes; report.html in the folder, or beside the model, when not given."""
    domain: str | None = None
    """A domain of your own, with a model file: package.module:name."""

    def run(self) -> int:
        """Read, write, say where."""

        folder = self.source if self.source.is_dir() else self.source.parent
        out = self.out or folder / "report.html"
        check_target(out)
        self._page().write(out)
        print(out)
        return 0

    def _page(self) -> Page:
        from spare.errors import FileError, UsageError
        from spare.lab.experiments.comparison import KIND
        from spare.lab.experiments.store import read_json
        from spare.lab.report.comparison import comparison_page
        from spare.lab.report.results import results_page

        if not self.source.exists():
            raise FileError(f"{self.source}: there is no such file or folder")
        if not self.source.is_dir():
            if self.data is None:
                raise UsageError(
                    f"{self.source}: a report on a model also needs unseen transitions: name a second file"
                )
            return comparison_page(self.source, self._scored(self.data))
        if self.data is not None:
            raise UsageError(f"{self.data}: data are named with a model file, not with a folder of results")
        if (self.source / "record.json").is_file():
            from spare.lab.report.executed import executed_page

            return executed_page(self.source / "record.json")
        path = self.source / "run.json"
        if not path.is_file():
            raise FileError(f"{self.source}: no run.json in it; name a folder of `spare reproduce` or `spare demo`")
        record = read_json(path)
        return comparison_page(path, record) if record.get("kind") == KIND else results_page(self.source)

    def _scored(self, data: pathlib.Path) -> dict[str, Any]:
        """The record of a model that was learned elsewhere."""
        from spare.lab.baselines.simple import no_change
        from spare.lab.experiments.comparison import FORMAT, scored
        from spare.lab.experiments.learned import describe
        from spare.lab.experiments.scenes import representative, scenes
        from spare.lab.experiments.store import circumstances

        remember_programs()
        model, test = load_model(self.source, self.domain), load_data(data, self.domain)
        still = no_change(model.domain, test.with_domain(model.domain))
        return {
            "format": FORMAT,
            "title": f"A model of {model.domain.name}",
            "about": f"{self.source.name}, scored on the {len(test):,} transitions of {data.name}.",
            "learned": {**describe(model), "scenes": scenes(test, representative(test, 3), model)},
            "methods": {
                "spare": scored(model, test, label="this model"),
                "no-change": scored(still, test, label="nothing moves"),
            },
            "caption": "`nothing moves` knows the mean change of these very transitions.",
            "facts": {"test data": test.fingerprint},
            "made": circumstances(),
        }
