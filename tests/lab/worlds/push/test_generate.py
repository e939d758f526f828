"""Data that is the same however it was made: one worker, two, killed workers, killed runs."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

import spare
from spare.errors import DataError, FileError, UsageError
from spare.lab.worlds import push
from spare.lab.worlds.push import store
from spare.lab.worlds.push.chunks import make_chunk
from spare.lab.worlds.push.generation import generate, settings_of, simulate
from spare.lab.worlds.push.settings import Ranges, Settings

pytestmark = pytest.mark.slow

RUN = "import sys; from spare.lab.worlds import push; push.generate({n}, extra=2, seed=6, jobs={jobs}, out=sys.argv[1])"


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> pathlib.Path:
    """100 samples made by one process, without interruption."""
    path = tmp_path_factory.mktemp("reference") / "one.parquet"
    generate(100, extra=2, seed=6, out=path)
    return path


def _start(path: pathlib.Path, samples: int = 100, jobs: int = 1) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RUN.format(n=samples, jobs=jobs), str(path)])


def _wait_for(condition, seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.02)


def test_the_file_says_what_it_is(reference):
    data = spare.Experience.load(reference)
    assert len(data) == 100
    assert data.domain == push.domain
    assert (data.counts == 5).all()
    assert data.info["index"].tolist() == list(range(100))
    assert settings_of(data) == Settings.make(3, extra=2, seed=6)
    assert sum(data.metadata["push"]["rejects"].values()) <= 1
    assert data.info["touched"].mean() > 0.9
    assert all(
        state.ids[0] == 0 and call.objects == (0,) for state, call in zip(data.states, data.actions, strict=True)
    )
    assert push.stack_mask(data).sum() == 300
    np.testing.assert_array_equal(data.values[:, 3:], data.next_values[:, 3:])
    assert not list(reference.parent.glob("*.parts"))


def test_a_longer_run_begins_with_the_shorter_one(reference):
    short, data = generate(12, extra=2, seed=6), spare.Experience.load(reference)
    assert data[:12].fingerprint == short.fingerprint
    assert generate(12, extra=2, seed=7).fingerprint != short.fingerprint


def test_two_workers_write_the_same_file(reference, tmp_path):
    generate(100, extra=2, seed=6, jobs=2, out=tmp_path / "two.parquet")
    assert (tmp_path / "two.parquet").read_bytes() == reference.read_bytes()


def test_a_killed_run_goes_on_and_writes_the_same_file(reference, tmp_path):
    path = tmp_path / "resumed.parquet"
    parts = tmp_path / "resumed.parquet.parts"
    for kept in (1, 2):
        process = _start(path)
        _wait_for(lambda kept=kept: len(list(parts.glob("*.parquet"))) >= kept)
        process.kill()
        process.wait()
        assert not path.exists()
    before = {part.name: part.stat().st_mtime_ns for part in parts.glob("*.parquet")}
    done = threading.Event()
    after: dict[str, int] = {}

    def look() -> None:
        while not done.is_set():
            after.update({p.name: s.st_mtime_ns for p in parts.glob("*.parquet") if (s := _stat(p))})
            time.sleep(0.02)

    watcher = threading.Thread(target=look)
    watcher.start()
    generate(100, extra=2, seed=6, jobs=2, out=path)
    done.set()
    watcher.join()
    assert path.read_bytes() == reference.read_bytes()
    assert before.items() <= after.items(), "finished chunks were made again"
    assert not parts.exists()


def _stat(path: pathlib.Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def test_a_killed_worker_is_replaced_and_its_samples_are_made_again(reference, tmp_path):
    path = tmp_path / "survived.parquet"
    killed: list[int] = []
    done = threading.Event()

    def kill_one() -> None:
        """Kill the first process below this one that is busy simulating."""
        while not done.is_set() and not killed:
            for child in psutil.Process().children(recursive=True):
                try:
                    busy = "loky" in " ".join(child.cmdline()) and child.cpu_times().user > 0.8
                    if busy and list((tmp_path / "survived.parquet.parts").glob("*.parquet")):
                        child.send_signal(signal.SIGKILL)
                        killed.append(child.pid)
                        return
                except psutil.NoSuchProcess:
                    continue
            time.sleep(0.01)

    hunter = threading.Thread(target=kill_one)
    hunter.start()
    generate(100, extra=2, seed=6, jobs=2, out=path)
    done.set()
    hunter.join()
    assert killed, "no worker was caught at work"
    assert path.read_bytes() == reference.read_bytes()


def test_workers_end_when_their_run_is_killed(tmp_path):
    process = _start(tmp_path / "gone.parquet", samples=5000, jobs=2)
    parts = tmp_path / "gone.parquet.parts"
    _wait_for(lambda: len(list(parts.glob("*.parquet"))) >= 1)
    family = psutil.Process(process.pid).children(recursive=True)
    workers = [child for child in family if "loky.backend.popen" in " ".join(child.cmdline())]
    process.kill()
    process.wait()
    assert len(workers) == 2
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive


def test_workers_do_not_load_jax():
    code = (
        "import sys\n"
        "from spare.lab.worlds.push.chunks import make_chunk\n"
        "from spare.lab.worlds.push.settings import Settings\n"
        "make_chunk(Settings.make(2), 0, 1)\n"
        "assert not {'jax', 'pyarrow'} & sys.modules.keys()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_only_one_generator_at_a_time(tmp_path):
    path = tmp_path / "busy.parquet"
    with store.holding(path), pytest.raises(UsageError, match="another process is generating this file"):
        generate(5, out=path)
    generate(5, out=path)
    assert len(spare.Experience.load(path)) == 5


def test_unfinished_samples_with_other_settings_are_not_mixed_in(tmp_path):
    path = tmp_path / "mixed.parquet"
    with store.holding(path) as parts:
        generate_record = {"settings": Settings.make(3, noise=0.001).to_json(), "versions": {}}
        parts.check(generate_record)
        parts.save(0, 5, generate(5, noise=0.001))
    with pytest.raises(UsageError, match=r"other settings .*noise 0.001, now 0.0025"):
        generate(5, out=path)
    assert not path.exists()


def test_a_damaged_part_is_made_again(tmp_path):
    path = tmp_path / "damaged.parquet"
    whole = generate(30, seed=2)
    with store.holding(path) as parts:
        from spare.lab.worlds.push.generation import record

        parts.check(record(Settings.make(3, seed=2)))
        (parts.folder / "00000000-00000025.parquet").write_bytes(b"PAR1 but not really")
        (parts.folder / "00000025-00000030.parquet").write_bytes(b"")
    assert generate(30, seed=2, out=path).fingerprint == whole.fingerprint


def test_a_file_that_is_there_is_replaced_whole(tmp_path):
    path = tmp_path / "twice.parquet"
    generate(5, out=path)
    generate(6, seed=1, out=path)
    assert len(spare.Experience.load(path)) == 6


def test_rejects_are_few_counted_and_bounded():
    data = generate(60, stack=(2, 3, 4), extra=8, seed=11, engine="mujoco")
    assert sum(data.metadata["push"]["rejects"].values()) <= 1
    in_the_way = Ranges(sway=-0.1)
    message = r"of \d+ attempts were rejected \(.*extra moved.*more than the bound of 5%"
    with pytest.raises(DataError, match=message):
        generate(400, stack=2, extra=14, ranges=in_the_way, max_rejects=0.05)


def test_shares_of_heights(mixed):
    _, data = mixed
    heights, counts = np.unique(data.info["height"], return_counts=True)
    assert heights.tolist() == [2, 3, 4]
    assert (np.abs(counts - 20) <= 2).all()
    uneven = Settings.make((2, 4), (0.9, 0.1))
    assert sum(uneven.height_of(i) == 4 for i in range(1000)) in range(97, 104)


@pytest.mark.parametrize("samples", [0, -3, 1.5, True])
def test_bad_samples(samples):
    with pytest.raises((UsageError, TypeError), match="samples"):
        generate(samples)


@pytest.mark.parametrize("jobs", [0, -2])
def test_bad_jobs(jobs):
    with pytest.raises(UsageError, match="jobs must be a whole number"):
        generate(5, jobs=jobs)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        generate(5, out=tmp_path / "no" / "x.parquet")
    with pytest.raises(FileError, match="this is a folder"):
        generate(5, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_under_the_final_name(tmp_path):
    """The kernel refuses to write more than a few bytes, as it does when a disk is full."""
    code = (
        "import resource, sys; from spare.lab.worlds import push; import spare\n"
        "import spare.lab.worlds.push.generation, spare.data.files\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "try: push.generate(30, out=sys.argv[1])\n"
        "except spare.FileError as error: print(error); sys.exit(2)\n"
    )
    path = tmp_path / "full.parquet"
    result = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert result.returncode == 2, result.stderr
    assert "cannot be written" in result.stdout
    assert not list(tmp_path.iterdir())


def test_every_chunk_comes_once():
    settings = Settings.make(2, seed=1)
    chunks = list(simulate(settings, [(0, 3), (3, 5)], jobs=1))
    assert sorted((c.start, c.stop) for c in chunks) == [(0, 3), (3, 5)]
    whole = make_chunk(settings, 0, 5)
    np.testing.assert_array_equal(
        np.concatenate([c.columns["values"] for c in sorted(chunks, key=lambda c: c.start)]),
        whole.columns["values"],
    )
