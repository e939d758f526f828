"""`python benchmarks/keras/em.py`: EM iterations in SPARE and, one after another, their trainings in plain Keras.

1. Push data with stacks of 2, 3 and 4 blocks; memberships start at 0.8 with the height's own rule, 0.1 with the others.
2. SPARE: seconds per EM iteration, votes and E-step included, compiled before, without warm starts.
3. Keras: the very trainings that those iterations did, with the same lists and the same weights of samples.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from environment import ROOT, keras_python
from export import Exporter

from spare.lab.bench.em import Case
from spare.lab.worlds import push
from spare.learning.presets import PRESETS

HERE = pathlib.Path(__file__).resolve().parent


def keras_trainings(case: Case, exporter: Exporter, folder: pathlib.Path) -> list[float]:
    """Seconds of every training of EM, in a process of Keras; the shells and weights go over as arrays."""
    jobs = [job for jobs in case.batches for job in jobs]
    path = folder / "step.npz"
    exporter.write(path, [pair[0] for pair, _ in jobs])
    np.save(folder / "weights.npy", np.stack([plan.training for _, plan in jobs]))
    job = {
        "world": str(exporter.world(0)),
        "candidates": str(path),
        "weights": str(folder / "weights.npy"),
        "settings": exporter.settings(),
    }
    done = subprocess.run(
        [str(keras_python()), str(HERE / "step.py"), json.dumps(job)], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=900)
    parser.add_argument("--seeds", type=int, default=3, help="how many data sets")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "bench-keras-em.md")
    chosen = parser.parse_args()
    rows = []
    for seed in range(chosen.seeds):
        load = os.getloadavg()[0]
        data = push.generate(chosen.samples, stack=(2, 3, 4), seed=seed, jobs=2)
        case = Case.make(data, data, seed, quick=False)
        ours = [np.mean(case.run().seconds) for _ in range(3)]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            theirs = keras_trainings(case, Exporter(data, data[:0], PRESETS["paper"], folder), folder)
        rows.append((seed, len(theirs), float(np.median(ours)), sum(theirs) / case.iterations, load))
        print(rows[-1], file=sys.stderr, flush=True)
        chosen.out.write_text(page(rows, chosen.samples))
    print(page(rows, chosen.samples))


def page(rows: list[tuple], samples: int) -> str:
    """docs/bench-keras-em.md."""
    lines = [
        f"| {seed} | {count} | {ours:.2f} | {theirs:.1f} | {theirs / ours:.1f} | {load:.1f} |"
        for seed, count, ours, theirs, load in rows
    ]
    ratios = [theirs / ours for _, _, ours, theirs, _ in rows]
    table = "\n".join(lines)
    return f"""# One EM iteration in SPARE and its trainings in plain Keras

`python benchmarks/keras/em.py` measured this page and wrote it; `make bench-keras` makes the environment it needs.

{samples} pushes of stacks of 2, 3 and 4 blocks, three rules, preset `paper`, at most three references, memberships that
start at 0.8 with the height's own rule and 0.1 with each other one, four iterations. *SPARE* is the mean time of an EM
iteration: all trainings in one batch, the votes, training again where the heaviest shells changed, and the E-step;
programs compiled before, no warm starts; the median of three runs. *Keras* is the same trainings (the same lists, the
same weights of samples), one after another, and nothing else, by iteration.

| data seed | trainings | SPARE, s | Keras, s | ratio | load before |
|---|---|---|---|---|---|
{table}

Ratios: median {np.median(ratios):.1f}, from {min(ratios):.1f} to {max(ratios):.1f}.
"""


if __name__ == "__main__":
    main()
