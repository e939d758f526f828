"""Real pushes, simulated once per session and shared."""

from __future__ import annotations

import pytest

from spare.lab.worlds.push import engines
from spare.lab.worlds.push.episode import Sample, make_sample
from spare.lab.worlds.push.settings import ENGINES, Settings


@pytest.fixture(scope="session")
def worlds():
    """One engine of each kind."""
    made = {name: engines.make(name) for name in ENGINES}
    yield made
    for engine in made.values():
        engine.close()


@pytest.fixture(scope="session")
def pushes(worlds) -> dict[str, list[Sample]]:
    """The same 50 draws of a stack of three with four extra blocks, in both engines."""
    return {
        name: [make_sample(worlds[name], Settings.make(3, extra=4, engine=name), i) for i in range(50)]
        for name in ENGINES
    }


@pytest.fixture(scope="session")
def mixed(tmp_path_factory):
    """(file, experience): 60 transitions of stacks of 2, 3 and 4 with five extra blocks."""
    from spare.lab.worlds import push

    path = tmp_path_factory.mktemp("push") / "mixed.parquet"
    return path, push.generate(60, stack=(2, 3, 4), extra=5, seed=3, out=path)
