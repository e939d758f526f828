"""`make fuzz`: model and Parquet files broken in every way, read in processes of their own.

    python -m tests.fuzz.run --models 100000 --parquet 20000

A case fails if the reader raises anything but our own errors, takes more than a second, makes the process larger by
more than 200 MB and the file's size, or ends it. Each case can be made again from its number.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

ALLOWED_SECONDS = 1.0
ALLOWED_BYTES = 200 << 20


def sources(kind: str, folder: pathlib.Path) -> list[bytes]:
    """The good files that are broken."""
    from tests.fuzz import samples

    return samples.models(folder) if kind == "models" else samples.parquets(folder)


def reader(kind: str) -> Callable[[pathlib.Path], Any]:
    """What a user does with such a file."""
    from spare.commands.inspect import _words, inspect

    def model(path: pathlib.Path) -> None:
        from spare.model import diagram
        from spare.model.model import load

        loaded = load(path)
        _words(inspect(path))
        str(loaded)
        diagram.mermaid(loaded)
        diagram.svg(loaded)

    def parquet(path: pathlib.Path) -> None:
        from spare.data.experience import Experience

        Experience.load(path)
        _words(inspect(path))

    return model if kind == "models" else parquet


def case(kind: str, files: list[bytes], seed: int, number: int) -> bytes:
    """The bytes of one case."""
    from tests.fuzz import mutations

    rng = random.Random(f"{seed}-{kind}-{number}")
    change = mutations.damaged_model if kind == "models" else mutations.damaged_parquet
    return change(rng.choice(files), rng)


def judge(read: Callable[[pathlib.Path], Any], path: pathlib.Path, content: bytes) -> tuple[str, str]:
    """(verdict, message): `fine` and `refused` are well; everything else is not."""
    from spare.errors import SpareError

    path.write_bytes(content)
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    try:
        read(path)
        verdict, text = "fine", ""
    except SpareError as error:
        verdict, text = "refused", str(error)
        if not text.isprintable() or str(path) not in text:
            verdict = "unclear"
    except Exception as error:
        verdict, text = "leaked", f"{type(error).__name__}: {error}"
    took = time.thread_time() - begin
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if took > ALLOWED_SECONDS:
        return "slow", f"{took:.1f} s; {text}"
    if grown > ALLOWED_BYTES + len(content):
        return "large", f"{grown >> 20} MB; {text}"
    return verdict, text


def work(kind: str, seed: int, start: int, stop: int, folder: pathlib.Path) -> None:
    """The worker: one line per case that is not well, and the number it is at in a file."""
    files, read = sources(kind, folder), reader(kind)
    for good in files:
        if judge(read, folder / "warm-up", good)[0] != "fine":
            raise SystemExit(f"an unbroken file is not read: {judge(read, folder / 'warm-up', good)}")
    counts: collections.Counter[str] = collections.Counter()
    for number in range(start, stop):
        (folder / "at").write_text(str(number))
        verdict, text = judge(read, folder / "case", case(kind, files, seed, number))
        counts[verdict] += 1
        if verdict not in ("fine", "refused"):
            print(json.dumps({"kind": kind, "case": number, "verdict": verdict, "text": text[:300]}), flush=True)
    print(json.dumps({"counts": counts}), flush=True)


def oversee(kind: str, seed: int, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Run a worker; when it dies, say at which case, and start another behind it."""
    while start < stop:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            options = [kind, str(seed), str(start), str(stop), name]
            command = [sys.executable, "-m", "tests.fuzz.run", "--work", *options]
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            out, err = worker.communicate()
            found = [json.loads(line) for line in out.splitlines()]
            yield from found
            if found and "counts" in found[-1]:
                return
            at = folder / "at"
            if not at.exists():
                raise SystemExit(err)
            reached = int(at.read_text())
            yield {"kind": kind, "case": reached, "verdict": "crashed", "text": f"{worker.returncode} {err[-300:]}"}
            yield {"counts": {"before a crash": reached - start}}
            start = reached + 1


def main() -> int:
    """All cases in pieces, with the state of things after each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=100_000)
    parser.add_argument("--parquet", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--piece", type=int, default=2500)
    parser.add_argument("--work", nargs=5)
    asked = parser.parse_args()
    if asked.work:
        kind, seed, start, stop, folder = asked.work
        work(kind, int(seed), int(start), int(stop), pathlib.Path(folder))
        return 0
    bad, begin = 0, time.monotonic()
    for kind, total in (("models", asked.models), ("parquet", asked.parquet)):
        counts: collections.Counter[str] = collections.Counter()
        for start in range(0, total, asked.piece):
            stop = min(start + asked.piece, total)
            for one in oversee(kind, asked.seed, start, stop):
                counts.update(one.get("counts", {}))
                if "case" in one:
                    bad += 1
                    print(json.dumps(one), flush=True)
            print(f"{kind}: {stop} of {total}, {dict(counts)}, {time.monotonic() - begin:.0f} s", flush=True)
    print("no crash, no hang, no leak" if not bad else f"{bad} cases are not well")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
