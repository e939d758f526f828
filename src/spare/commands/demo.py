"""`spare demo`: the whole of SPARE in one command, on the push world."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

from spare.commands.common import remember_programs
from spare.commands.live import SearchView
from spare.io.atomic import replacing


@dataclasses.dataclass(frozen=True)
class Demo:
    """Generate push data, learn a model from it, compare it with others, explain one prediction, write a report."""

    out: pathlib.Path = pathlib.Path("runs/demo")
    """Folder for everything the demo makes."""
    samples: int = 400
    """Training transitions; a quarter more are generated for the test."""
    seed: int = 0
    """Seed of data and learning."""

    def run(self) -> int:
        """Do it, step by step, saying what happens; the last line is the report's path."""
        remember_programs()
        from spare.lab.worlds import push
        from spare.learning.threads import cores

        begin = time.perf_counter()
        self.out.mkdir(parents=True, exist_ok=True)
        test_size = max(20, self.samples // 4)
        self._say(f"1. A robot pushes stacks of three among four other blocks: {self.samples + test_size} pushes")
        data = push.generate(samples=self.samples + test_size, stack=3, extra=4, seed=self.seed, jobs=cores())
        train, test = data.split(test_size, seed=self.seed)
        train.save(self.out / "train.parquet")
        test.save(self.out / "test.parquet")
        self._say(f"2. Learning from {len(train)} of them which objects matter, and what happens to those")
        models, seconds, how = self._learn(train)
        print(f"\n{how.model}\n")
        self._say(f"3. How good is it on {len(test)} pushes it has not seen?")
        methods = self._compare(models, seconds, test)
        self._say("4. One of them, explained")
        print(how.model.predict(test.states[0], test.actions[0]).explain(test.next_states[0]))
        page = self._report(how, methods, (train, test), begin)
        self._say(f"done in {time.perf_counter() - begin:.0f} s; model, data, rules, scores and figures are beside")
        print(page)
        return 0

    def _learn(self, train: Any) -> tuple[dict[str, Any], dict[str, float], Any]:
        """Ours, saved with its diagram, and the others: models and seconds by method."""
        import spare
        from spare.lab.baselines.flat import fit_flat
        from spare.lab.baselines.graph import GraphSettings, fit_graph
        from spare.lab.baselines.simple import no_change
        from spare.lab.experiments.methods import MEMBERS
        from spare.lab.worlds import push
        from spare.model import diagram

        start = time.perf_counter()
        view = SearchView("push", push.domain.action("push").objects, 4)
        with contextlib.closing(view):
            how = spare.fit(push.domain, train, seed=self.seed, listener=lambda _: view)
        seconds = {"spare": time.perf_counter() - start}
        how.model.save(self.out / "model.spare")
        with replacing(self.out / "rules.svg") as target:
            target.write_text(diagram.svg(how.model), "utf-8")
        models: dict[str, Any] = {"spare": how.model}
        graph = GraphSettings(members=MEMBERS)  # an ensemble, as ours is
        others: dict[str, Callable[[], Any]] = {
            "graph": lambda: fit_graph(push.domain, train, seed=self.seed, settings=graph),
            "flat": lambda: fit_flat(push.domain, train, seed=self.seed),
            "no-change": lambda: no_change(push.domain, train),
        }
        for name, learn in others.items():
            start = time.perf_counter()
            models[name] = learn()
            seconds[name] = time.perf_counter() - start
        return models, seconds, how

    def _compare(self, models: dict[str, Any], seconds: dict[str, float], test: Any) -> dict[str, Any]:
        """Scores of every method, printed as a table and written to evaluation.json."""
        import spare
        from spare.lab.experiments.methods import LABELS
        from spare.lab.experiments.run import scored

        methods = {}
        print(f"   {'':16s}{'nats per value of moved blocks':>32s}{'error, mm':>12s}{'learned in':>12s}")
        for name, model in models.items():
            one = scored(model, test, label=LABELS[name], seconds=seconds[name])
            methods[name] = one
            error = one["errors"]["error, mm"]
            print(f"   {LABELS[name]:16s}{one['nats']:32.2f}{error:12.1f}{seconds[name]:10.0f} s", flush=True)
        full = {LABELS[name]: spare.evaluate(model, test, seed=0).as_dict() for name, model in models.items()}
        with replacing(self.out / "evaluation.json") as target:
            target.write_text(json.dumps(full, indent=1), "utf-8")
        return methods

    def _report(self, how: Any, methods: dict[str, Any], data: tuple[Any, Any], begin: float) -> pathlib.Path:
        """run.json, figures/ and report.html."""
        from spare.lab.experiments.learned import learned
        from spare.lab.experiments.run import calibration, save_run
        from spare.lab.experiments.scenes import representative, scenes
        from spare.lab.experiments.store import read_json
        from spare.lab.report.render import write
        from spare.lab.report.run import run_document

        train, test = data
        record = {
            "title": "What SPARE learned from a few pushes",
            "about": f"A robot pushes stacks of three blocks among four others. From {len(train)} pushes SPARE learned "
            f"which blocks matter and where they go; {len(test)} pushes that it has not seen tell how well.",
            "learned": {**learned(how), "scenes": scenes(test, representative(test, 3), how.model)},
            "methods": methods,
            "caption": f"{len(test)} unseen pushes, blocks that moved by more than 1 mm; higher nats and lower errors "
            f"are better. All learned from the same {len(train)} pushes.",
            "figures": [[f"{len(train)}", "training pushes"], [f"{methods['spare']['seconds']:.0f} s", "to learn"]],
            "facts": {
                "command": f"spare demo --samples {self.samples} --seed {self.seed}",
                "whole demo": f"{time.perf_counter() - begin:.0f} s",
                "test data": test.fingerprint,
            },
        }
        save_run(self.out / "run.json", record)
        (self.out / "figures").mkdir(exist_ok=True)
        calibration(methods).save(self.out / "figures")
        page = self.out / "report.html"
        write(run_document(self.out / "run.json", read_json(self.out / "run.json")), page)
        return page

    @staticmethod
    def _say(text: str) -> None:
        print(f"\n{text}", file=sys.stderr)
