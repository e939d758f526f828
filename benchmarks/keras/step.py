"""The trainings of EM in plain Keras, one after another. Runs in the extra environment, as its own process."""

import dataclasses
import json
import os
import random
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from learn import learn
from search import read_candidates, read_world


def main() -> None:
    job = json.loads(sys.argv[1])
    random.seed(0)
    world, weights = read_world(job["world"], job["settings"]), np.load(job["weights"])
    seconds = []
    for candidate, training in zip(read_candidates(job["candidates"]), weights, strict=True):
        keras.backend.clear_session()
        weighted = dataclasses.replace(world, training=training)
        begin = time.perf_counter()
        learn(candidate, weighted)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
