"""`spare demo`: the whole of SPARE in one command, on the push world."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import time

from spare.commands.common import remember_programs
from spare.commands.live import SearchView


@dataclasses.dataclass(frozen=True)
class Demo:
    """Generate push data, learn a model from it, evaluate it, explain one prediction, draw it."""

    out: pathlib.Path = pathlib.Path("runs/demo")
    """Folder for everything the demo makes."""
    samples: int = 400
    """Training transitions; a quarter more are generated for the test."""
    seed: int = 0
    """Seed of data and learning."""

    def run(self) -> int:
        """Do it, step by step, saying what happens."""
        remember_programs()
        import spare
        from spare import diagram
        from spare.domains import push
        from spare.learning.engine import cores

        begin = time.perf_counter()
        self.out.mkdir(parents=True, exist_ok=True)
        test_size = max(20, self.samples // 4)
        self._say(f"1. A robot pushes stacks of three among four other blocks: {self.samples + test_size} pushes")
        data = push.generate(samples=self.samples + test_size, stack=3, extra=4, seed=self.seed, jobs=cores())
        train, test = data.split(test_size, seed=self.seed)
        train.save(self.out / "train.parquet")
        test.save(self.out / "test.parquet")
        self._say(f"2. Learning from {len(train)} of them which objects matter, and what happens to those")
        result = spare.fit(push.domain, train, seed=self.seed, listener=self._view)
        result.model.save(self.out / "model.spare")
        (self.out / "rules.svg").write_text(diagram.svg(result.model))
        print(f"\n{result.model}\n")
        self._say(f"3. How good is it on {len(test)} pushes it has not seen?")
        self._score(result.model, test)
        self._say("4. One of them, explained")
        print(result.model.predict(test.states[0], test.actions[0]).explain(test.next_states[0]))
        self._say(f"done in {time.perf_counter() - begin:.0f} s; model, data, rules and scores are in")
        print(self.out)
        return 0

    def _view(self, action: str) -> SearchView:
        from spare.domains import push

        return SearchView(action, push.domain.action(action).objects, 4)

    def _score(self, model: object, test: object) -> None:
        import numpy as np

        import spare

        still = spare.Model(model.domain, [], np.zeros(3))  # type: ignore[attr-defined]
        scores = {"SPARE": spare.evaluate(model, test, seed=0), "nothing moves": spare.evaluate(still, test, seed=0)}  # type: ignore[arg-type]
        for name, score in scores.items():
            error = 1000 * max(score.rmse_moved["x"], score.rmse_moved["y"])
            print(f"   {name:14s} {score.per_value_moved:10.2f} nats per value of moved blocks, error {error:6.1f} mm")
        text = json.dumps({name: score.as_dict() for name, score in scores.items()}, indent=1)
        (self.out / "evaluation.json").write_text(text)

    @staticmethod
    def _say(text: str) -> None:
        print(f"\n{text}", file=sys.stderr)
