"""`make bench-keras`: the paper's greedy search in plain Keras and in SPARE, side by side on the same data.

1. Push data are generated (or read), and split into training and test transitions.
2. For each seed: SPARE in a fresh process, then Keras in a fresh process, never both at once, on the same split.
3. Seconds, likelihoods and the share of the machine's matrix-multiply peak are compared, printed and written down.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from environment import ROOT, keras_python
from export import Exporter
from peak import measure
from report import summarise
from show import markdown, table

from spare.data.experience import Experience
from spare.lab.worlds import push
from spare.learning.presets import find_preset

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Bench:
    """Everything one run needs: the two interpreters' jobs and the numbers they share."""

    keras: pathlib.Path
    exporter: Exporter
    files: dict[str, str]
    longest: int
    repeats: int


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="SPARE against plain Keras on the paper's greedy search.")
    parser.add_argument("--data", type=pathlib.Path, help="push transitions (Parquet); generated if not given")
    parser.add_argument("--samples", type=int, default=1500, help="how many transitions to generate")
    parser.add_argument("--extra", type=int, default=4, help="extra blocks in generated scenes")
    parser.add_argument("--seeds", type=int, default=3, help="how many searches on each side")
    parser.add_argument("--longest", type=int, default=4, help="most references in a list")
    parser.add_argument("--repeats", type=int, default=3, help="how often warm training is measured")
    parser.add_argument("--tuned", action="store_true", help="also one predictor of Keras with XLA, for information")
    parser.add_argument("--quick", action="store_true", help="300 samples, two references, one seed; writes no page")
    parser.add_argument("--json", action="store_true", help="print everything measured as JSON")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "bench-keras.md", help="the page to write")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.samples, chosen.longest, chosen.seeds, chosen.repeats = min(chosen.samples, 300), 2, 1, 1
    return chosen


def load(chosen: argparse.Namespace) -> tuple[Experience, Experience]:
    """Training and test transitions: five sixths and one sixth, as the paper's 1,250 and 250."""
    if chosen.data:
        data = Experience.load(chosen.data, domain=push.domain)
        data = data[: min(len(data), chosen.samples)]
    else:
        say(f"generating {chosen.samples} transitions ...")
        data = push.generate(samples=chosen.samples, stack=3, extra=chosen.extra, seed=0)
    return data.split(test=len(data) // 6, seed=0)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_spare(bench: Bench, seed: int, repeats: int) -> dict:
    """One process of SPARE's side."""
    job = {**bench.files, "seed": seed, "longest": bench.longest, "repeats": repeats}
    load_before = os.getloadavg()[0]
    command = [sys.executable, str(HERE / "ours.py"), json.dumps(job)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {**json.loads(done.stdout), "load": load_before}


def run_keras(bench: Bench, seed: int, longest: int, tuned: bool = False) -> dict:
    """One process of the Keras side, which asks for the candidates of each round as it goes."""
    settings, world = bench.exporter.settings(tuned), str(bench.exporter.world(seed))
    job = {"seed": seed, "longest": longest, "world": world, "settings": settings}
    load_before = os.getloadavg()[0]
    command = [str(bench.keras), str(HERE / "search.py"), json.dumps(job)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            message = json.loads(line)
            if "result" in message:
                return {**message["result"], "load": load_before}
            print(bench.exporter.extensions(message["extend"]), file=process.stdin, flush=True)
    raise SystemExit("the Keras side stopped before its search was done; see its message above")


def compare(bench: Bench, seeds: int, tuned: bool) -> Iterator[dict]:
    """Both sides by turns, seed by seed, everything so far after each; `tuned`: first one predictor with XLA."""
    runs = {"spare": [], "keras": [], "tuned": run_keras(bench, 0, 0, tuned=True) if tuned else None}
    for seed in range(seeds):
        say(f"seed {seed}: SPARE ...")
        runs["spare"].append(run_spare(bench, seed, bench.repeats if seed == 0 else 0))
        say(f"seed {seed}: {runs['spare'][-1]['cold']['seconds']:.1f} s; Keras ...")
        runs["keras"].append(run_keras(bench, seed, bench.longest))
        say(f"seed {seed}: {runs['keras'][-1]['seconds']:.1f} s")
        yield runs


def describe(chosen: argparse.Namespace, train: Experience, test: Experience) -> dict:
    """What the reader must know of the conditions."""
    given = sys.argv[1:]
    return {
        "command": " ".join(["python", "benchmarks/keras/run.py", *given]) if given else "make bench-keras",
        "transitions": [len(train), len(test)],
        "objects": float(train.counts.mean()),
        "cores": len(os.sched_getaffinity(0)),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "longest": chosen.longest,
        "peak": measure(),
    }


def main() -> None:
    chosen = arguments()
    python, preset = keras_python(), find_preset("paper")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        train, test = load(chosen)
        files = {"train": str(folder / "train.parquet"), "test": str(folder / "test.parquet")}
        train.save(files["train"])
        test.save(files["test"])
        bench = Bench(python, Exporter(train, test, preset, folder), files, chosen.longest, chosen.repeats)
        conditions = describe(chosen, train, test)
        for runs in compare(bench, chosen.seeds, chosen.tuned):
            conditions["load"] = [run["load"] for run in (*runs["spare"], *runs["keras"])]
            again = measure()
            conditions["peak"] = {key: max(value, again[key]) for key, value in conditions["peak"].items()}
            summary = summarise(runs, conditions, dataclasses.asdict(preset.training))
            if not chosen.quick:
                chosen.out.write_text(markdown(summary, conditions))
    print(json.dumps({"summary": summary, "conditions": conditions, "runs": runs}) if chosen.json else table(summary))


if __name__ == "__main__":
    main()
