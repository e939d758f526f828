"""`spare demo`: the whole of SPARE in one command, on the push world."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spare.arguments import check_seed, check_whole
from spare.commands.common import remember_programs
from spare.commands.live import SearchView
from spare.io.atomic import replacing

if TYPE_CHECKING:
    from spare.data.experience import Experience
    from spare.lab.experiments.methods import Learned, Scored
    from spare.learning.fit import FitResult


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
        check_whole("samples", self.samples, 10, 10**7)
        check_seed(self.seed)
        remember_programs()
        from spare.lab.worlds import push
        from spare.learning.threads import cores

        begin = time.perf_counter()
        self.out.mkdir(parents=True, exist_ok=True)
        test_size = max(20, self.samples // 4)
        _say(f"1. A robot pushes stacks of three among four other blocks: {self.samples + test_size} pushes")
        data = push.generate(samples=self.samples + test_size, stack=3, extra=4, seed=self.seed, jobs=cores())
        train, test = data.split(test_size, seed=self.seed)
        train.save(self.out / "train.parquet")
        test.save(self.out / "test.parquet")
        _say(f"2. Learning from {len(train)} of them which objects matter, and what happens to those")
        learned = self._learn(train)
        how = learned["spare"].how
        assert how is not None
        print(f"\n{how.model}\n")
        _say(f"3. How good is it on {len(test)} unseen pushes?")
        methods = self._compare(learned, test)
        _say("4. One of them, explained")
        print(how.model.predict(test.states[0], test.actions[0]).explain(test.next_states[0]))
        page = self._report(how, methods, test, begin)
        _say(f"done in {time.perf_counter() - begin:.0f} s; model, data, scores and figures are in {self.out}")
        print(page)
        return 0

    def _learn(self, train: Experience) -> dict[str, Learned]:
        """Our model, saved with its diagram, and the others, by method."""
        import spare
        from spare.lab.baselines.flat import fit_flat
        from spare.lab.baselines.graph import GraphSettings, fit_graph
        from spare.lab.baselines.simple import no_change
        from spare.lab.experiments.methods import MEMBERS, Learned
        from spare.lab.worlds import push
        from spare.model import diagram

        start = time.perf_counter()
        with contextlib.closing(SearchView("push", push.domain.action("push").objects)) as view:
            how = spare.fit(push.domain, train, seed=self.seed, listener=lambda _: view)
        found = {"spare": Learned(how.model, how, time.perf_counter() - start)}
        how.model.save(self.out / "model.spare")
        with replacing(self.out / "rules.svg") as target:
            target.write_text(diagram.svg(how.model), "utf-8")
        graph = GraphSettings(members=MEMBERS)  # an ensemble, as ours is
        others: dict[str, Callable[[], Scored]] = {
            "graph": lambda: fit_graph(push.domain, train, seed=self.seed, settings=graph),
            "flat": lambda: fit_flat(push.domain, train, seed=self.seed),
            "no-change": lambda: no_change(push.domain, train),
        }
        for name, learn in others.items():
            start = time.perf_counter()
            found[name] = Learned(learn(), None, time.perf_counter() - start)
        return found

    def _compare(self, learned: dict[str, Learned], test: Experience) -> dict[str, Any]:
        """Scores of every method, printed as a table and written to evaluation.json."""
        import spare
        from spare.lab.experiments.comparison import scored
        from spare.lab.experiments.methods import LABELS

        methods = {}
        heads = "".join(f"{name:>10s}" for name in ("pushed", "moved", "others"))
        print(f"   {'nats per value':16s}{heads}{'error, mm':>12s}{'learned in':>12s}")
        for name, (model, _, seconds) in learned.items():
            methods[name] = one = scored(model, test, label=LABELS[name], seconds=seconds)
            error = one["errors"]["error, mm"]
            nats = "".join("          " if g["nats"] is None else f"{g['nats']:10.2f}" for g in one["groups"].values())
            print(f"   {LABELS[name]:16s}{nats}{error:12.1f}{seconds:10.0f} s", flush=True)
        full = {LABELS[name]: spare.evaluate(one.model, test, seed=0).as_dict() for name, one in learned.items()}
        with replacing(self.out / "evaluation.json") as target:
            target.write_text(json.dumps(full, indent=1), "utf-8")
        return methods

    def _report(self, how: FitResult, methods: dict[str, Any], test: Experience, begin: float) -> pathlib.Path:
        """run.json, figures/ and report.html."""
        from spare.lab.experiments.comparison import calibration, save_comparison
        from spare.lab.experiments.learned import describe
        from spare.lab.experiments.scenes import representative, scenes
        from spare.lab.report.comparison import comparison_page

        record = {
            "title": f"What SPARE learned from {self.samples} pushes",
            "about": f"A robot pushes stacks of three blocks among four others. From {self.samples} pushes SPARE "
            f"learned which blocks matter and where they go; it is scored on {len(test)} unseen pushes.",
            "learned": describe(how.model, how.history) | {"scenes": scenes(test, representative(test, 3), how.model)},
            "methods": methods,
            "caption": f"{len(test)} unseen pushes, blocks that moved by more than 1 mm; higher nats and lower errors "
            f"are better. All learned from the same {self.samples} pushes.",
            "figures": [[f"{self.samples}", "training pushes"], [f"{methods['spare']['seconds']:.0f} s", "to learn"]],
            "facts": {
                "command": f"spare demo --samples {self.samples} --seed {self.seed}",
                "whole demo": f"{time.perf_counter() - begin:.0f} s",
                "test data": test.fingerprint,
            },
        }
        saved = save_comparison(self.out / "run.json", record)
        (self.out / "figures").mkdir(exist_ok=True)
        calibration({name: one["ranks"] for name, one in methods.items()}).save(self.out / "figures")
        page = self.out / "report.html"
        comparison_page(self.out / "run.json", saved).write(page)
        return page


def _say(text: str) -> None:
    print(f"\n{text}", file=sys.stderr)
