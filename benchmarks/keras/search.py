"""GreedySelect (algorithm 1 of the paper) over `learn.py`. Runs in the extra environment, as a process of its own.

It talks to `run.py` in JSON lines: on standard output a list of pointers whose extensions it wants, on standard input
the name of an .npz file with their numbers. Waiting for them is not counted as time of the search.
"""

import json
import os
import random
import sys
import time

BEGIN = time.perf_counter()
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from learn import Candidate, World, learn  # noqa: E402


class Search:
    """One greedy search; `records` keeps every trained candidate with its losses and seconds."""

    def __init__(self, world: World, ask) -> None:
        self.world, self.ask = world, ask
        self.records: list[dict] = []
        self.rounds: list[float] = []
        self.skipped = 0
        self.empty: np.ndarray | None = None
        self.fitted = ~world.test

    def run(self, longest: int) -> dict:
        """Grow the list while the validation loss falls, at most `longest` times."""
        (parent,) = self.ask(None)
        current = self._trial(parent)
        self.rounds.append(current["seconds"])
        for _ in range(longest):
            wanted = self._screen(parent, self.ask(current["pointers"]))
            trials = [self._trial(candidate) for candidate in wanted]
            self.rounds.append(sum(trial["seconds"] for trial in trials))
            losses = [trial["validation"] for trial in trials]
            if not trials or min(losses) >= current["validation"]:
                break
            best = int(np.argmin(losses))
            parent, current = wanted[best], trials[best]
        return current

    def _trial(self, candidate: Candidate) -> dict:
        keras.backend.clear_session()
        begin, cpu = time.perf_counter(), time.process_time()
        losses = learn(candidate, self.world)
        seconds, spent = time.perf_counter() - begin, time.process_time() - cpu
        if self.empty is None:
            self.empty = losses
        losses = np.where(candidate.applies, losses, self.empty)
        world = self.world
        record = {
            "name": candidate.name,
            "pointers": candidate.pointers,
            "validation": float(world.validation @ losses / world.validation.sum()),
            "test": float(losses[world.test].mean()),
            "seconds": seconds,
            "cpu": spent,
            "rows": int((candidate.applies & (world.training > 0)).sum()),
            "sizes": [candidate.x.shape[1], int(np.prod(candidate.y.shape[1:]))],
        }
        if not np.isfinite(record["validation"]):
            raise SystemExit(f"rule [{candidate.name}]: its loss is not a number")
        self.records.append(record)
        return record

    def _screen(self, parent: Candidate, candidates: list[Candidate]) -> list[Candidate]:
        """Leave out what can bring nothing: twins, no training sample, objects that a slot before holds already."""
        wanted, seen = [], set()
        used, owner = self.world.training > 0, self.world.owner
        for candidate in candidates:
            inside = (candidate.applies & self.fitted)[owner]
            masks = candidate.outputs[:, inside]
            known = any(np.array_equal(masks[-1], mask) for mask in masks[:-1])
            known &= bool((candidate.applies[used] == parent.applies[used]).all())
            key = candidate.outputs[:, self.fitted[owner]].tobytes()
            if known or key in seen or not candidate.applies[used].any():
                self.skipped += 1
            else:
                wanted.append(candidate)
            seen.add(key)
        return wanted


def read_world(path: str, settings: dict) -> World:
    with np.load(path) as file:
        return World(**{name: file[name] for name in file.files}, settings=settings)


def read_candidates(path: str) -> list[Candidate]:
    with np.load(path) as file:
        labels = json.loads(str(file["labels"]))
        names = ("x", "y", "spread", "applies", "outputs")
        return [Candidate(**label, **{n: file[f"{n}{k}"] for n in names}) for k, label in enumerate(labels)]


class Line:
    """The conversation with `run.py`; `waited` is how long it took."""

    def __init__(self) -> None:
        self.waited = 0.0

    def ask(self, pointers: list | None) -> list[Candidate]:
        """The candidates that extend a list of pointers; None asks for the rule with empty lists."""
        begin = time.perf_counter()
        print(json.dumps({"extend": pointers}), flush=True)
        candidates = read_candidates(sys.stdin.readline().strip())
        self.waited += time.perf_counter() - begin
        return candidates


def main() -> None:
    job = json.loads(sys.argv[1])
    imports = time.perf_counter() - BEGIN
    # Not keras.utils.set_random_seed: with it `fit` shuffles every epoch alike. Initial weights draw from here.
    random.seed(job["seed"])
    world, line = read_world(job["world"], job["settings"]), Line()
    search = Search(world, line.ask)
    begin, cpu = time.perf_counter(), time.process_time()
    best = search.run(job["longest"])
    report = {
        "best": best["name"],
        "explored": search.records,
        "rounds": search.rounds,
        "skipped": search.skipped,
        "seconds": time.perf_counter() - begin - line.waited,
        "cpu": time.process_time() - cpu,
        "imports": imports,
        "waited": line.waited,
        "versions": {"tensorflow": tf.__version__, "keras": keras.__version__, "numpy": np.__version__},
    }
    print(json.dumps({"result": report}), flush=True)


if __name__ == "__main__":
    main()
