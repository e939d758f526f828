"""`spare render`: pictures of a generated transition."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated, Any

import tyro


@dataclasses.dataclass(frozen=True)
class Render:
    """Draw one transition before and after its push (PNG), or as an animation, a 3-D page, or a gallery of six."""

    data: Annotated[pathlib.Path, tyro.conf.Positional]
    """A file written by `spare generate push`."""
    index: int = 0
    """Which transition, counted from 0."""
    gif: bool = False
    """An animation of the push."""
    page: bool = False
    """An interactive 3-D page: one HTML file that needs no network."""
    gallery: bool = False
    """Six representative transitions: an HTML page, or a PNG if --out ends in .png."""
    out: pathlib.Path | None = None
    """The file to write (default: beside the data, named after it)."""

    def run(self) -> int:
        """Draw, write, and say where it is."""
        from spare.errors import UsageError

        if self.gif + self.page + self.gallery > 1:
            raise UsageError("choose one of --gif, --page and --gallery")
        from spare.data.experience import Experience

        target = self.target()
        if not target.parent.is_dir():
            raise UsageError(f"{target}: the folder {target.parent} does not exist; create it first")
        content = self.draw(Experience.load(self.data), target)
        from spare.io.atomic import replacing

        with replacing(target) as temporary:
            temporary.write_bytes(content)
        print(target)
        return 0

    def target(self) -> pathlib.Path:
        """The file to write."""
        if self.out is not None:
            return self.out
        ending = ".gif" if self.gif else ".html" if self.page or self.gallery else ".png"
        return self.data.with_name(f"{self.data.stem}-{'gallery' if self.gallery else self.index}{ending}")

    def draw(self, data: Any, target: pathlib.Path) -> bytes:
        """The content of the file."""
        import io

        from spare.lab.worlds.push import figures

        memory = io.BytesIO()
        if self.gallery and target.suffix != ".png":
            return figures.gallery_page(data).encode()
        if self.gallery:
            figures.gallery(data).save(memory, "PNG", optimize=True)
            return memory.getvalue()
        scenario = figures.simulate_again(data, self.index)
        if self.page:
            from spare.lab.worlds.push.page import page

            return page(scenario).encode()
        if self.gif:
            figures.save_gif(figures.animation(scenario), memory)
        else:
            figures.before_and_after(scenario).save(memory, "PNG", optimize=True)
        return memory.getvalue()
