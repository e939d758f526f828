"""The push data of an experiment: made once per results folder, and the same wherever it is made.

Sample i of a data set depends on its settings and on i alone, so a shorter set is the beginning of a longer one, and a
worker that does not see the folder makes the same numbers itself.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable

from spare.data.experience import Experience
from spare.errors import FileError
from spare.lab.worlds import push
from spare.lab.worlds.push.settings import Ranges

TEST_SEEDS = 10_000
"""Seeds of test sets begin here: no training set has the same."""


@dataclasses.dataclass(frozen=True)
class PushData:
    """`samples` pushes of stacks of these heights (with these shares) among `extra` other blocks.

    `table` is the side of the table in m, where it is not the usual one.
    """

    heights: tuple[int, ...]
    shares: tuple[float, ...]
    extra: int
    seed: int
    samples: int
    table: float | None = None

    @property
    def family(self) -> str:
        """The name of all data sets that differ in length alone."""
        stacks = "-".join(f"{h}x{s:g}" for h, s in zip(self.heights, self.shares, strict=True))
        room = "" if self.table is None else f"-table{self.table:g}"
        return f"push-{stacks}-extra{self.extra}{room}-seed{self.seed}"

    def make(self, jobs: int = 1, out: pathlib.Path | None = None) -> Experience:
        """Simulate."""
        ranges = Ranges() if self.table is None else Ranges(table=self.table)
        return push.generate(
            self.samples,
            stack=self.heights,
            share=self.shares,
            extra=self.extra,
            seed=self.seed,
            ranges=ranges,
            jobs=jobs,
            out=out,
        )

    def load(self, folder: pathlib.Path) -> Experience:
        """The first `samples` of what the folder has, or simulated here and now."""
        path = folder / f"{self.family}.parquet"
        if path.is_file():
            found = Experience.load(path, push.domain)
            if len(found) >= self.samples:
                return found[: self.samples]
        return self.make()


def stacks(extra: int, seed: int, samples: int, height: int = 3) -> PushData:
    """Training pushes of stacks of one height."""
    return PushData((height,), (1.0,), extra, seed, samples)


def unseen(one: PushData, samples: int) -> PushData:
    """Test pushes of the same kind."""
    return dataclasses.replace(one, seed=TEST_SEEDS + one.seed, samples=samples)


def missing(wanted: Iterable[PushData], folder: pathlib.Path) -> list[PushData]:
    """The longest of each family that the folder does not have yet, in order of name."""
    longest: dict[str, PushData] = {}
    for one in wanted:
        if one.family not in longest or one.samples > longest[one.family].samples:
            longest[one.family] = one
    return [one for _, one in sorted(longest.items()) if _length(folder / f"{one.family}.parquet") < one.samples]


def _length(path: pathlib.Path) -> int:
    """How many pushes a file has; a damaged one has none, and is made again."""
    if not path.is_file():
        return 0
    from spare.io.parquet import describe

    try:
        return sum(group.rows for group in describe(path)[1])
    except FileError:
        return 0
