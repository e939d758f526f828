"""`python benchmarks/keras/em.py`: the trainings of one EM iteration in SPARE and, one after another, in plain Keras.

1. Push data with stacks of 2, 3 and 4 blocks; memberships of 0.8 with the height's own rule, 0.1 with the others.
2. SPARE: seconds per EM iteration, votes and E-step included, compiled before, without warm starts.
3. Keras: the same trainings (each rule's heaviest shells and its empty lists, samples weighted by membership).
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

from spare.bench.em import Case
from spare.domains import push
from spare.learning.presets import PRESETS

HERE = pathlib.Path(__file__).resolve().parent


def keras_step(case: Case, exporter: Exporter, folder: pathlib.Path) -> dict:
    """Seconds of every training of the last EM step, in a process of Keras; the shells go over as arrays."""
    jobs = case.jobs()
    path = folder / "step.npz"
    exporter.write(path, [shell for _, shell in jobs])
    world = exporter.world(0)
    np.save(folder / "memberships.npy", case.start)
    job = {
        "world": str(world),
        "candidates": str(path),
        "memberships": str(folder / "memberships.npy"),
        "rules": [j for j, _ in jobs],
        "settings": exporter.settings(),
    }
    done = subprocess.run(
        [str(keras_python()), str(HERE / "step.py"), json.dumps(job)], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


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
        case.run(threads=None, warm=False)
        ours = [case.run(threads=None, warm=False)["seconds"] for _ in range(3)]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            theirs = keras_step(case, Exporter(data, data[:0], PRESETS["paper"], folder), folder)
        rows.append((seed, case.trainings, float(np.median(ours)), sum(theirs["seconds"]), load))
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

{samples} pushes of stacks of 2, 3 and 4 blocks, three rules, preset `paper`, at most three references, memberships of
0.8 with the height's own rule and 0.1 with each other one. *SPARE* is the mean time of an EM iteration: all trainings
in one batch, the votes, training again where the heaviest shells changed, and the E-step; programs compiled before, no
warm starts; the median of three runs. *Keras* is the same number of trainings, of the shells of the last iteration
with the same weights, one after another, and nothing else.

| data seed | trainings | SPARE, s | Keras, s | ratio | load before |
|---|---|---|---|---|---|
{table}

Ratios: median {np.median(ratios):.1f}, from {min(ratios):.1f} to {max(ratios):.1f}.
"""


if __name__ == "__main__":
    main()
