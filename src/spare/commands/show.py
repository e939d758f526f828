"""`spare show`: a model's rules, readable."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated, Literal

import tyro

from spare.commands.common import load_model


@dataclasses.dataclass(frozen=True)
class Show:
    """Print a model's rules as text, as a Mermaid diagram, or as an SVG picture."""

    model: Annotated[pathlib.Path, tyro.conf.Positional]
    """Model file."""
    format: Literal["text", "mermaid", "svg"] = "text"
    """What to print."""
    domain: str | None = None
    """A domain of your own: package.module:name."""

    def run(self) -> int:
        """Print it."""
        model = load_model(self.model, self.domain)
        if self.format == "text":
            print(model)
            for k, one in enumerate(model.provenance.get("rules", [])):
                print(f"rule {k + 1}: {one['share']:.0%} of the samples, typical one: {one['typical']}")
            return 0
        from spare import diagram

        print(diagram.mermaid(model) if self.format == "mermaid" else diagram.svg(model))
        return 0
