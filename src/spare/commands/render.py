"""`spare render`: transitions in 3-D, on one page."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated

import tyro

from spare.commands.common import check_index, check_target, load_data, load_model, numbers, remember_programs


@dataclasses.dataclass(frozen=True)
class Render:
    """Draw transitions on one self-contained HTML page: what was observed and, with a model, what it predicts."""

    data: Annotated[pathlib.Path, tyro.conf.Positional]
    """Parquet file of transitions whose objects have the properties x and y."""
    index: str = "0"
    """Which transition, counted from 0; several are separated by commas: 3,7,12."""
    gallery: bool = False
    """Six representative transitions instead, from much change to little."""
    model: pathlib.Path | None = None
    """A model file, for its predictions and references."""
    out: pathlib.Path | None = None
    """The page to write; beside the data and named after it when not given."""
    domain: str | None = None
    """A domain of your own: package.module:name."""

    def run(self) -> int:
        """Draw, write, and say where it is."""
        from spare.errors import UsageError
        from spare.lab.experiments.scenes import drawable, representative, scenes
        from spare.lab.report.html import Page
        from spare.lab.report.learned import scenes_section

        data = load_data(self.data, self.domain)
        out = self.out or self.data.with_name(f"{self.data.stem}-{'gallery' if self.gallery else self.index}.html")
        check_target(out)
        if not drawable(data.domain):
            raise UsageError(f"{self.data}: cannot be drawn: objects of {data.domain.name!r} have no x and y")
        chosen = representative(data, 6) if self.gallery else list(numbers("index", self.index, int))
        for index in chosen:
            check_index(index, data, self.data)
        if self.model is not None:
            remember_programs()
        model = None if self.model is None else load_model(self.model, self.domain)
        section = scenes_section(scenes(data, chosen, model), "Transitions")
        predicted = "" if self.model is None else f", with what {self.model.name} predicts"
        about = f"{len(chosen)} of the {len(data):,} transitions in {self.data.name}{predicted}."
        Page(f"Transitions of {data.domain.name}", about, [section] if section else []).write(out)
        print(out)
        return 0
