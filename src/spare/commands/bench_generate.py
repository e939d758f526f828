"""`spare bench generate`: is the generator as fast as its engine, do workers help, does memory stay flat."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class BenchGenerate:
    """Overhead over the bare engine (goal 1.3), two workers against one (goal 1.8), memory over 10,000 samples."""

    quick: bool = False
    """A smaller run for a first look."""
    seed: int = 0
    """Seed of the samples over which memory is watched."""
    json: bool = False
    """Print the numbers as JSON and nothing else."""

    def run(self) -> int:
        """Measure and print."""
        import json

        from spare.domains.push import bench

        facts = bench.run(quick=self.quick, seed=self.seed, quiet=self.json)
        if self.json:
            print(json.dumps(facts, indent=1))
        else:
            bench.show(facts)
        return 0
