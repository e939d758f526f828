"""Processes that are killed, interrupted or started twice. Nothing that was finished is lost; resuming is exact.

A few kills each by default; `make faults` asks for as many as SPARE_TEST_KILLS says.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

import spare
from spare.lab.worlds import queue as toy
from spare.learning.cache import Kept, open_run
from tests.faults.helpers import command, environment, one_sentence, refuses, run

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("SPARE_TEST_KILLS", "0"))

SAVER = """
import sys
from spare.lab.worlds import queue as toy
models = [toy.true_model(k) for k in (1, 2)]
print("ready", flush=True)
for k in range(10**9):
    models[k % 2].save(sys.argv[1])
"""


WRITER = """
import sys
from spare.io.atomic import replacing
contents = [open(path, "rb").read() for path in sys.argv[2:]]
print("ready", flush=True)
for k in range(10**9):
    with replacing(sys.argv[1]) as target:
        target.write_bytes(contents[k % 2])
"""


def learner(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.faults.learner", *map(str, arguments)]


def killed_after(line: list[str], seconds: float, folder: pathlib.Path, cache: pathlib.Path) -> bool:
    """Start a process and kill it after a while; whether it was still at work."""
    process = subprocess.Popen(
        line, cwd=folder, env=environment(cache), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    return process.wait() == -signal.SIGKILL


def finish(line: list[str], folder: pathlib.Path, cache: pathlib.Path) -> float:
    """Run a process to its end; the seconds it took."""
    begin = time.monotonic()
    subprocess.run(line, cwd=folder, env=environment(cache), check=True, capture_output=True, timeout=600)
    return time.monotonic() - begin


def test_kill_during_save(tmp_path: pathlib.Path) -> None:
    """Killed at any moment while it saves over and over: the file is always there and always loads."""
    folder, rng = tmp_path / "at-work", random.Random(0)
    folder.mkdir()
    path, models = folder / "m.spare", [tmp_path / f"{k}.spare" for k in (1, 2)]
    for k, one in enumerate(models):
        toy.true_model(k + 1).save(one)
    shutil.copy(models[0], path)
    contents, torn, kills = [one.read_bytes() for one in models], 0, KILLS * 4 or 2
    for k in range(kills):
        # The first few are `Model.save` itself; the many others start faster, and write the same bytes the same way.
        line = [sys.executable, "-c", *((SAVER, path) if k < 2 else (WRITER, path, *models))]
        process = subprocess.Popen(line, env=environment(), stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        process.wait()
        process.stdout.close()
        assert path.read_bytes() in contents
        spare.load(path)
        torn += len(list(folder.glob(".*.tmp")))
        assert len(os.listdir(folder)) <= 2, "temporary files pile up"
    toy.true_model().save(path)
    assert os.listdir(folder) == ["m.spare"]
    print(f"{kills} kills, {torn} while a temporary file was open")


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Data of two rules, and what an uninterrupted run learns from them with one rule and with two."""
    folder = tmp_path_factory.mktemp("kills")
    parts = [toy.generate(50, seed=0, followers=1), toy.generate(50, seed=1, followers=0)]
    spare.concatenate(parts).save(folder / "data.parquet")
    return folder


def killed_while_learning(
    line: list[str], folder: pathlib.Path, cache: pathlib.Path, moment: tuple[int, float]
) -> bool:
    """Kill a run some seconds after so many trainings are done; whether it was still at work."""
    trainings, seconds = moment
    process = subprocess.Popen(line, cwd=folder, env=environment(cache), stderr=subprocess.DEVNULL)
    runs = folder / f"{line[4]}.run"
    while process.poll() is None and len(list(runs.glob("*.safetensors"))) < trainings:
        time.sleep(0.005)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    return process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(("rules", "kills"), [(1, KILLS // 2 or 2), *([(2, KILLS // 2)] if KILLS else [])])
def test_kill_during_learning(problem: pathlib.Path, rules: int, kills: int) -> None:
    """Killed at a random moment of a search or (in `make faults`) of EM, then resumed: the same bytes."""
    cache, out, rng = problem / "cache", f"m{rules}.spare", random.Random(rules)
    finish(learner("data.parquet", out, rules), problem, cache)
    expected = (problem / out).read_bytes()
    hit = kept = 0
    for k in range(kills):
        (problem / out).unlink()
        moment = (rng.randrange(5 if rules == 1 else 30), rng.uniform(0, 0.5)) if k else (2, 0.0)
        hit += killed_while_learning(learner("data.parquet", out, rules), problem, cache, moment)
        kept += len(list((problem / f"{out}.run").glob("*.safetensors")))
        finish(learner("data.parquet", out, rules), problem, cache)
        assert (problem / out).read_bytes() == expected
        assert not (problem / f"{out}.run").exists()
        print(f"{rules} rules: {hit} of {k + 1} killed at work, {kept} finished trainings reused", flush=True)
    assert hit > 0
    assert kept > 0


@pytest.mark.skipif(not KILLS, reason="part of `make faults`")
@pytest.mark.parametrize("options", [("--max-references", 1), ("--rules", 2, "--max-references", 1)])
def test_kill_during_fit_command(problem: pathlib.Path, options: tuple[object, ...]) -> None:
    """The same with `spare fit` itself, with one rule and with two."""
    cache, rng = problem / "cache", random.Random(len(options))
    line = command("fit", "data.parquet", "--out", "c.spare", "--threads", 1, "--json", *options)
    finish(line, problem, cache)
    expected, seconds = (problem / "c.spare").read_bytes(), finish(line, problem, cache)
    for _ in range(max(2, KILLS // 10)):
        (problem / "c.spare").unlink()
        killed_after(line, rng.uniform(0.2, 0.95) * seconds, problem, cache)
        finish(line, problem, cache)
        assert (problem / "c.spare").read_bytes() == expected


def _until(condition, seconds: float = 120.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.02)


def test_interrupt_of_fit(problem: pathlib.Path) -> None:
    """Ctrl-C ends `spare fit` after at most two seconds of work, even while it compiles; it says how to go on."""
    line = command("fit", "data.parquet", "--out", "i.spare", "--rules", 2, "--threads", 1)
    folder = problem / "i.spare.run"
    for trainings in (0, 1) if KILLS else (0,):
        process = subprocess.Popen(line, cwd=problem, env=environment(), stderr=subprocess.PIPE, text=True)
        _until(lambda n=trainings: folder.exists() and len(list(folder.glob("*.safetensors"))) >= n)
        time.sleep(0.3)  # past the moment in which the folder is taken, when there is nothing to go on with yet
        watched = psutil.Process(process.pid)
        before = sum(watched.cpu_times()[:2])
        process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stderr is not None
        text = process.stderr.read()
        process.stderr.close()
        assert process.returncode == 130, text
        assert usage.ru_utime + usage.ru_stime - before < 2.5
        assert "Traceback" not in text
        told = (
            "trainings are kept in i.spare.run. To continue: spare fit data.parquet --out i.spare --rules 2 --threads 1"
        )
        assert text.rstrip().endswith(told)
        shutil.rmtree(folder)


def test_interrupt_of_generate(tmp_path: pathlib.Path) -> None:
    """Ctrl-C ends `spare generate`; finished samples are kept, and the command to go on is told."""
    line = command("generate", "push", "--samples", 5000, "--out", "p.parquet", "--json")
    process = subprocess.Popen(line, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    _until(lambda: any(tmp_path.glob("p.parquet.parts/*.parquet")))
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 130, text
    assert "Traceback" not in text
    assert "To continue: spare generate push --samples 5000 --out p.parquet --json" in text
    assert not (tmp_path / "p.parquet").exists()


@pytest.mark.skipif(not KILLS, reason="part of `make faults`; tests/domains/push/test_generate.py has another")
def test_kill_of_generate(tmp_path: pathlib.Path) -> None:
    """Killed at a random moment and started again: the same file as without."""
    line = command("generate", "push", "--samples", 75, "--json", "--out")
    seconds = finish([*line, "whole.parquet"], tmp_path, tmp_path)
    rng = random.Random(0)
    for _ in range(max(1, KILLS // 10)):
        killed_after([*line, "p.parquet"], rng.uniform(0.3, 0.9) * seconds, tmp_path, tmp_path)
        finish([*line, "p.parquet"], tmp_path, tmp_path)
        assert (tmp_path / "p.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
        (tmp_path / "p.parquet").unlink()
    assert os.listdir(tmp_path) == ["whole.parquet"]


def reproduced(folder: pathlib.Path) -> dict[str, object]:
    """What is in a results folder, but for times: how long things took, and when."""
    found: dict[str, object] = {}
    for path in sorted(one for one in folder.rglob("*") if one.is_file() and one.name not in ("lock", "run.json")):
        name, content = str(path.relative_to(folder)), path.read_bytes()
        if path.suffix == ".json":
            told = json.loads(content)
            found[name] = {key: told[key] for key in told if key not in ("finished", "seconds", "processor")}
        else:
            found[name] = content if path.suffix != ".md" else content.split(b"runs took")[0]
    return found


def test_kill_of_reproduce(tmp_path: pathlib.Path) -> None:
    """`spare reproduce` killed while it makes data or runs, then started again: the same runs, figures and claims."""
    line, rng, hit, kept = [sys.executable, "-m", "tests.faults.reproducer"], random.Random(0), 0, 0
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    finish([*line, "--jobs", "1", "--out", str(whole)], tmp_path, tmp_path)
    expected = reproduced(whole)
    assert len([name for name in expected if name.startswith("runs/")]) == 5
    assert not json.loads((whole / "claims.json").read_text())["failed"]
    for k in range(max(1, KILLS // 5)):
        jobs = str(1 + k % 2)
        places, seconds = rng.choice(("runs/*.json", "data/*.parquet")), rng.uniform(0, 0.5)
        places, most, seconds = (places, rng.randrange(1, 5), seconds) if k else ("runs/*.json", 2, 0.0)
        process = subprocess.Popen(
            [*line, "--jobs", jobs, "--out", str(resumed)],
            cwd=tmp_path,
            env=environment(tmp_path),
            stderr=subprocess.DEVNULL,
        )
        _until(lambda p=process, w=places, n=most: p.poll() is not None or len(list(resumed.glob(w))) >= n)
        time.sleep(seconds)
        process.kill()
        hit += process.wait() == -signal.SIGKILL
        kept += len(list((resumed / "runs").glob("*.json")))
        finish([*line, "--jobs", jobs, "--out", str(resumed)], tmp_path, tmp_path)
        assert reproduced(resumed) == expected
        shutil.rmtree(resumed)
        print(f"reproduce: {hit} of {k + 1} killed at work, {kept} finished runs kept", flush=True)
    assert hit > 0
    assert kept > 0


def test_two_writers_of_one_run(tmp_path: pathlib.Path) -> None:
    """The second `spare fit` stops at once and names the process that is at work."""
    toy.generate(30, seed=0).save(tmp_path / "d.parquet")
    (tmp_path / "m.spare.run").mkdir()
    with open(tmp_path / "m.spare.run" / "lock", "w") as lock:
        lock.write("4711\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = one_sentence(run("fit", "d.parquet", "--out", "m.spare", folder=tmp_path))
    assert "another run (process 4711) is writing here" in text
    assert not (tmp_path / "m.spare").exists()


def test_lock_of_a_dead_owner(tmp_path: pathlib.Path) -> None:
    """A lock file without a living owner is taken over; its number is ours then."""
    code = "import os, sys, pathlib; from spare.learning.cache import open_run\n"
    code += "open_run(pathlib.Path(sys.argv[1]), {}); os.kill(os.getpid(), 9)"
    folder = tmp_path / "m.run"
    result = subprocess.run([sys.executable, "-c", code, str(folder)], env=environment(), check=False)
    assert result.returncode == -signal.SIGKILL
    cache = open_run(folder, {})
    assert (folder / "lock").read_text() == f"{os.getpid()}\n"
    cache.close(finished=True)
    assert not folder.exists()


def test_lock_that_is_a_link(tmp_path: pathlib.Path) -> None:
    """Refused: what a link points to is never overwritten."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "m.run").mkdir()
    (tmp_path / "m.run" / "lock").symlink_to(victim)
    refuses(lambda: open_run(tmp_path / "m.run", {}), "cannot be used as a run folder")
    assert victim.read_text() == "precious"


def test_damaged_checkpoint_is_trained_again(tmp_path: pathlib.Path) -> None:
    """A checkpoint with a flipped bit, cut short or of another kind counts as missing."""
    cache = open_run(tmp_path / "m.run", {})
    arrays = {"a": np.arange(6, dtype=np.float64), "b": np.full((2, 3), np.nan, np.float32)}
    cache.put("key", Kept(arrays, {"kind": "networks"}))
    path = tmp_path / "m.run" / "key.safetensors"
    whole = path.read_bytes()
    found = cache.get("key")
    assert found is not None
    assert all(np.array_equal(found.arrays[name], arrays[name], equal_nan=True) for name in arrays)
    flipped = bytearray(whole)
    flipped[-3] ^= 4
    for bad in (bytes(flipped), whole[:-1], b"", b"junk", b"PK\x03\x04" + whole):
        path.write_bytes(bad)
        assert cache.get("key") is None
    cache.close(finished=True)


@pytest.mark.parametrize("record", ["", "[]", "{", '{"a": 1, "a": 2}', "null", "\x00"])
def test_damaged_record_of_a_run(tmp_path: pathlib.Path, record: str) -> None:
    """A record that cannot be read belongs to another run: refused, and `--fresh` gets past it."""
    folder = tmp_path / "m.run"
    cache = open_run(folder, {"seed": 1})
    cache.put("key", Kept({"a": np.ones(2)}, {}))
    cache.close(finished=False)
    (folder / "run.json").write_text(record)
    refuses(lambda: open_run(folder, {"seed": 1}), "another run .its record cannot be read.*--fresh")
    open_run(folder, {"seed": 1}, fresh=True).close(finished=False)
    assert json.loads((folder / "run.json").read_text()) == {"seed": 1}


def test_torn_files_of_a_killed_run_are_removed(tmp_path: pathlib.Path) -> None:
    """What a killed process was writing in its run folder is gone after the next start."""
    folder = tmp_path / "m.run"
    open_run(folder, {}).close(finished=False)
    (folder / ".key.safetensors.0123456789ab.tmp").write_text("torn")
    open_run(folder, {}).close(finished=False)
    assert sorted(os.listdir(folder)) == ["lock", "run.json"]


def test_unfinished_run_is_inspected(tmp_path: pathlib.Path) -> None:
    """`spare inspect` of a run folder says how far it is and how to go on."""
    cache = open_run(tmp_path / "m.spare.run", {"seed": 7})
    cache.put("key", Kept({"a": np.ones(2)}, {}))
    cache.close(finished=False)
    result = run("inspect", "m.spare.run", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "an unfinished `spare fit`, 1 trainings are done" in result.stdout
    assert "seed 7" in result.stdout
