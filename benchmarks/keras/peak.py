"""The machine's float32 matrix-multiply peak, and how many operations one training takes."""

import itertools
import json
import os
import subprocess
import sys
import time

SIZE, TRIES = 2048, 20


def training_operations(rows: int, sizes: list[int], hidden: list[int], passes: int) -> float:
    """Multiplications and additions of `passes` epochs over `rows`: forward, weight gradients, hidden gradients.

    Real sizes (padding is no work done), matrix products only (Adam and activations are no products).
    """
    widths = [sizes[0], *hidden, sizes[1]]
    layers = [a * b for a, b in itertools.pairwise(widths)]
    return 2.0 * (3 * sum(layers) - layers[0]) * rows * passes


def measure() -> dict[str, float]:
    """GFLOP/s of one large product: on one thread, and on all."""
    return {"one": _in_process(1), "all": _in_process(len(os.sched_getaffinity(0)))}


def _in_process(threads: int) -> float:
    """Thread pools are sized when a library is loaded, so each measurement is a process of its own."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    done = subprocess.run([sys.executable, __file__], env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def _best() -> float:
    import numpy as np

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE), dtype=np.float32) for _ in range(2))
    a @ b
    seconds = []
    for _ in range(TRIES):
        begin = time.perf_counter()
        a @ b
        seconds.append(time.perf_counter() - begin)
    return 2.0 * SIZE**3 / min(seconds) / 1e9


if __name__ == "__main__":
    print(json.dumps(_best()))
