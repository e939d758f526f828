"""Interrupts commands at random moments: `python -m tests.faults.interrupter [HOW MANY]` prints what became of each.

A command is interrupted alone, as by `kill -INT`, or with its whole group of processes, as by Ctrl-C in a terminal.
What it leaves is looked at: its exit code and what it printed, processes that still run, files that are half written.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import psutil

from spare.lab.worlds import queue as toy
from tests.faults.helpers import environment

FIRST = 10.0
"""Seconds from the start in which commands are interrupted."""
SOON = 2.0
"""Seconds in which a command must have ended."""
MARK = "SPARE_TEST_MARK"
COMMANDS = {
    "fit": ("fit", "data.parquet", "--out", "m.spare", "--rules", 2),
    "evaluate": ("evaluate", "true.spare", "many.parquet", "--draws", 400),
    "generate": ("generate", "push", "--samples", 20000, "--jobs", 2, "--out", "p.parquet"),
    "inspect": ("inspect", "true.spare"),
    "report": ("report", "true.spare", "many.parquet", "--out", "r.html"),
}
"""Each but one has more than ten seconds of work."""
LONG = ("fit", "evaluate", "generate", "report")


@dataclasses.dataclass(frozen=True)
class Interrupt:
    """What became of one command."""

    name: str
    moment: float
    group: bool
    code: int
    seconds: float
    """From the signal to the end of the process."""
    processor: float
    """The processor time that it took meanwhile, of all its threads."""
    text: str
    orphans: tuple[str, ...]
    torn: tuple[str, ...]
    load: float
    began: bool
    """Whether a line of ours had been run when the signal came."""

    @property
    def fault(self) -> str:
        """What is wrong with it, or nothing."""
        if not self.began and self.code != 130:
            return ""  # Python itself was interrupted, before it came to us
        lines = self.text.strip().splitlines()
        wrong = {
            f"exit code {self.code}": self.code != 130,
            "a traceback": "Traceback" in self.text or "Exception ignored" in self.text or "Error" in self.text,
            "no sentence": not lines or not lines[-1].startswith("spare: interrupted"),
            f"{self.seconds:.1f} s": self.late,
            f"orphans {self.orphans}": bool(self.orphans),
            f"left {self.torn}": bool(self.torn),
        }
        return ", ".join(words for words, is_so in wrong.items() if is_so)

    @property
    def late(self) -> bool:
        """Two seconds; where others compete for the processors, two seconds of work."""
        busy = self.load > (os.cpu_count() or 1)
        return self.seconds > SOON if not busy else min(self.seconds, self.processor) > SOON or self.seconds > 5 * SOON


def prepared(folder: pathlib.Path) -> None:
    """What the commands read."""
    toy.generate(200, seed=0, followers=1).save(folder / "data.parquet")
    toy.generate(40_000, seed=1, followers=1).save(folder / "many.parquet")
    toy.true_model().save(folder / "true.spare")


def interrupted(name: str, moment: float, inputs: pathlib.Path, *, group: bool) -> Interrupt:
    """Start a command in a folder of its own, and interrupt it after so many seconds."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(dir=inputs) as place:
        folder, first = pathlib.Path(place), pathlib.Path(place) / "began"
        for one in inputs.glob("*.*"):
            (folder / one.name).symlink_to(one)
        process = subprocess.Popen(
            # The file shows that Python has come to us; nothing else is changed by it.
            [sys.executable, "-c", BEGIN, str(first), *map(str, COMMANDS[name])],
            cwd=folder,
            env={**environment(), MARK: mark, "PYTHONSAFEPATH": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        time.sleep(moment)
        began = first.exists()
        before = _processor(process.pid)
        start = time.monotonic()
        (os.killpg if group else os.kill)(process.pid, signal.SIGINT)  # no error if it has just ended
        try:
            text, usage = _ended(process)
        except subprocess.TimeoutExpired:
            process.kill()
            text, usage = (process.communicate()[0] or "") + "\n(killed)", 0.0
        seconds = time.monotonic() - start
        orphans = left_behind(mark)
        torn = [path.name for path in folder.rglob("*.tmp")]
        torn += [path.name for path in folder.glob("p.parquet.parts") if not any(path.glob("*.parquet"))]
        load = os.getloadavg()[0]
    return Interrupt(
        name, moment, group, process.returncode, seconds, usage - before, text, orphans, tuple(torn), load, began
    )


BEGIN = "import os, sys; os.close(os.open(sys.argv.pop(1), os.O_CREAT | os.O_WRONLY)); "
BEGIN += "from spare.commands.entry import main; sys.exit(main())"


def _ended(process: subprocess.Popen[str]) -> tuple[str, float]:
    """(what it printed, processor seconds of its whole life) when it has ended."""
    assert process.stdout is not None
    limit = time.monotonic() + 30
    while True:
        found, status, usage = os.wait4(process.pid, os.WNOHANG)
        if found:
            break
        if time.monotonic() > limit:
            raise subprocess.TimeoutExpired(process.args, 30)
        time.sleep(0.005)
    process.returncode = os.waitstatus_to_exitcode(status)
    text = process.stdout.read()  # to the end: what its children say too
    process.stdout.close()
    return text, usage.ru_utime + usage.ru_stime


def _processor(number: int) -> float:
    try:
        return sum(psutil.Process(number).cpu_times()[:2])
    except psutil.Error:
        return 0.0


def left_behind(mark: str, patience: float = 5.0) -> tuple[str, ...]:
    """Processes that a command has left behind; those that clean up after workers may take a moment."""
    limit = time.monotonic() + patience
    while found := [one for one in psutil.process_iter() if _marked(one, mark)]:
        if time.monotonic() > limit:
            lines = []
            for one in found:
                lines.append(" ".join(one.cmdline()))
                one.kill()
            return tuple(lines)
        time.sleep(0.05)
    return ()


def _marked(one: psutil.Process, mark: str) -> bool:
    try:
        return one.environ().get(MARK) == mark and one.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def campaign(number: int, inputs: pathlib.Path, seed: int = 0) -> list[Interrupt]:
    """So many interrupts, of every command in turn, at random moments."""
    rng, done = random.Random(seed), []
    for k in range(number):
        name = LONG[k % len(LONG)]
        one = interrupted(name, rng.uniform(0, FIRST), inputs, group=rng.random() < 0.5)
        print(
            f"{k + 1:4d} {one.name:9s} after {one.moment:5.2f} s: {one.code:4d} in {one.seconds:4.2f} s "
            f"({one.processor:.2f} s of work, load {one.load:.1f}) {one.fault}",
            flush=True,
        )
        done.append(one)
    return done


def main(number: int) -> int:
    """A campaign, and what came of it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it would be ignored
    with tempfile.TemporaryDirectory() as place:
        prepared(pathlib.Path(place))
        done = campaign(number, pathlib.Path(place), seed=int(os.environ.get("SPARE_TEST_SEED", "0")))
    seconds = sorted(one.seconds for one in done)
    print(f"exit codes {dict(collections.Counter(one.code for one in done))}")
    print(f"before a line of ours was run: {sum(not one.began for one in done)}")
    print(f"seconds: median {seconds[len(seconds) // 2]:.2f}, longest {seconds[-1]:.2f}")
    for one in done:
        if one.fault:
            how = "with its group" if one.group else "alone"
            print(f"{one.name} after {one.moment:.2f} s, {how}: {one.fault}\n{one.text[-2000:]}")
    return sum(bool(one.fault) for one in done)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
