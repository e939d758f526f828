"""`spare generate`: make experience with one of SPARE's own worlds."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated

import tyro

from spare.commands.common import numbers
from spare.commands.interrupts import again, ending_soon, leaving

if TYPE_CHECKING:
    from spare.data.experience import Experience


@dataclasses.dataclass(frozen=True)
class Generate:
    """Simulate a world and write experience: same seed, same file. An interrupted run continues where it stopped."""

    world: Annotated[str, tyro.conf.Positional]
    """Which world: push (a robot pushes stacks of blocks on a cluttered table)."""
    out: pathlib.Path
    """The Parquet file to write."""
    samples: int = 1500
    """How many transitions."""
    stack: str = "3"
    """Height of the stack; several, separated by commas, are mixed: 2,3,4."""
    share: str | None = None
    """Share of the samples that have each height, for example 0.7,0.2,0.1 (default: equal)."""
    extra: int = 0
    """Blocks beside the stack that are not pushed."""
    noise: float = 0.0025
    """Standard deviation, in m, of the noise on the executed push."""
    engine: str = "bullet"
    """Physics engine: bullet or mujoco."""
    seed: int = 0
    """Sample i depends only on (seed, i)."""
    jobs: int = 1
    """Worker processes; -1 is one per core. The file does not depend on it."""
    max_rejects: float = 0.2
    """Stop when a larger share of the attempts is rejected."""
    json: bool = False
    """Print the summary as JSON, and no progress."""

    def run(self) -> int:
        """Generate, write, and say what came out."""
        from spare.errors import UsageError, one_of

        if self.world != "push":
            raise UsageError(one_of("world", self.world, ("push",)))
        import time

        from spare.lab.worlds.push.generation import generate
        from spare.lab.worlds.push.store import leave

        def kept() -> str:
            if not pathlib.Path(f"{self.out}.parts").is_dir():
                return f"interrupted before any sample was finished. To start again: {again()}"
            return f"interrupted; finished samples are kept in {self.out}.parts. To continue: {again()}"

        began = time.perf_counter()
        leaving(leave)
        with ending_soon(kept):
            data = generate(
                self.samples,
                stack=numbers("stack", self.stack, int),
                share=None if self.share is None else numbers("share", self.share, float),
                extra=self.extra,
                seed=self.seed,
                engine=self.engine,
                noise=self.noise,
                jobs=self.jobs,
                out=self.out,
                max_rejects=self.max_rejects,
                progress=not self.json,
            )
        _report(self, data, time.perf_counter() - began)
        return 0


def _report(asked: Generate, data: Experience, seconds: float) -> None:
    """One line for people, or JSON for machines."""
    import json

    from spare.lab.worlds.push.episode import tally
    from spare.lab.worlds.push.generation import touch_share

    rejects = data.metadata["push"]["rejects"]
    failed = sum(rejects.values())
    facts = {
        "file": str(asked.out),
        "samples": len(data),
        "rejects": rejects,
        "reject_share": failed / (failed + len(data)),
        "touch_share": touch_share(data),
        "seconds": seconds,
    }
    if asked.json:
        print(json.dumps(facts))
        return
    print(
        f"{asked.out}: {len(data)} transitions in {seconds:.1f} s ({len(data) / seconds:.0f}/s); "
        f"rejected {facts['reject_share']:.2%} of attempts ({tally(rejects)}); "
        f"{facts['touch_share']:.1%} of the pushes touch"
    )
