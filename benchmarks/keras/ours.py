"""SPARE's side, in a process of its own: one cold search with `preset="paper"`, then what is measured warm."""

import json
import os
import statistics
import sys
import time

BEGIN = time.perf_counter()
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

import jax  # noqa: E402
import numpy as np  # noqa: E402

import spare  # noqa: E402
from spare.lab.worlds import push  # noqa: E402
from spare.language.references import Shell  # noqa: E402
from spare.learning.fit import make_dataset, prepare  # noqa: E402
from spare.learning.folds import split_weights  # noqa: E402
from spare.learning.presets import PRESETS  # noqa: E402
from spare.learning.problems import capacity_for  # noqa: E402
from spare.learning.threads import cores  # noqa: E402
from spare.learning.train import Plan, fit_predictors  # noqa: E402
from spare.programs import PROGRAMS  # noqa: E402

PAPER = PRESETS["paper"]


class Clock:
    """Seconds and processor seconds since it was made."""

    def __init__(self) -> None:
        self.begin, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {"seconds": time.perf_counter() - self.begin, "cpu": time.process_time() - self.cpu}


def search(train: spare.Experience, test: spare.Experience, job: dict) -> dict:
    """One greedy search with its losses; the test likelihood is that of each round's best."""
    clock = Clock()
    result = spare.fit(push.domain, train, seed=job["seed"], preset=PAPER, max_references=job["longest"])
    took = clock.read()
    (history,) = result.history
    roles = push.domain.actions[0].objects
    tests = {
        round_.best.gamma.show(roles): -float(round_.model.log_prob(test).mean())
        for round_ in history.rounds
        if round_.best is not None and round_.model is not None
    }
    explored = [
        {"name": e.gamma.show(roles), "validation": e.loss, "test": tests.get(e.gamma.show(roles))}
        for e in history.explored
    ]
    rounds = [round_.seconds for round_ in history.rounds]
    return {"best": history.best.gamma.show(roles), "explored": explored, "rounds": rounds, **took}


def predictors(train: spare.Experience, job: dict) -> dict:
    """Training alone, programs compiled: one candidate on one thread, and a full round on every core."""
    data, _ = prepare(push.domain, train)
    (action,) = data.domain.actions
    dataset = make_dataset(data, action.name, PAPER)
    weights = split_weights(data.weights, PAPER.search.validation, job["seed"])
    shell = Shell(len(action.objects))
    for slot in range(min(2, job["longest"])):
        shell = shell.extend(spare.Pointer("above", (slot,)))
    capacity = capacity_for(dataset, job["longest"])
    table = dataset.matrix(shell, shell)
    result = {
        "name": shell.show(action.objects),
        "rows": int((table.applies & (weights[0] > 0)).sum()),
        "sizes": [table.x.shape[1], int(np.prod(table.y.shape[1:]))],
        "padded": [capacity.inputs, capacity.slots * capacity.quantities],
        "cores": cores(),
    }
    for name, threads, candidates in (("alone", 1, 1), ("round", None, 4 * cores())):
        plan = Plan(PAPER, *weights, capacity, job["seed"], threads)
        times = []
        for _ in range(job["repeats"]):
            clock = Clock()
            fit_predictors(dataset, [(shell, shell)] * candidates, plan)
            times.append({key: value / candidates for key, value in clock.read().items()})
        result[name] = {key: statistics.median(t[key] for t in times) for key in ("seconds", "cpu")}
        result[name]["every"] = [t["seconds"] for t in times]
    return result


def main() -> None:
    job = json.loads(sys.argv[1])
    imports = time.perf_counter() - BEGIN
    train, test = (spare.Experience.load(job[name], domain=push.domain) for name in ("train", "test"))
    report = {"imports": imports, "cold": search(train, test, job), "compiled": PROGRAMS.compiled}
    if job["repeats"]:
        report["warm"] = search(train, test, job)
        report["predictors"] = predictors(train, job)
    report["versions"] = {"spare": spare.__version__, "jax": jax.__version__, "numpy": np.__version__}
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
