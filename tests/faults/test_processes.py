"""Other processes: spawned, forked, workers of joblib and Dask. What is sent arrives, and equals what was sent."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import cloudpickle
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.io.locks import BusyError
from spare.lab.worlds import queue as toy
from tests.faults.helpers import environment, python
from tests.learning.helpers import quick

pytestmark = pytest.mark.slow


def made_here() -> spare.Domain:
    """A domain whose formulas are lambdas, and which no module has a name for."""
    return spare.Domain(
        "line",
        properties=[spare.Property("x", resolution=0.01)],
        references=[spare.Reference("left", lambda o, p: o.x < p.x - 0.25)],
        actions=[spare.Action("go", ("who",), frame=spare.Frame(lambda t, a: (t.x, 0.0), positions=(("x", "x"),)))],
    )


@functools.cache
def things() -> dict[str, Any]:
    """One of everything that a program may send."""
    data = toy.generate(60, seed=0)
    result = spare.fit(toy.domain, data, seed=0, preset=quick(max_references=1, training={"steps": 30}))
    model, (state, call) = result.model, (data.states[0], data.actions[0])
    return {
        "domain": toy.domain,
        "domain with lambdas": made_here(),
        "domain with other resolutions": made_here().with_resolutions({"x": 0.5}),
        "experience": data,
        "model": model,
        "rule": model.rules[0],
        "fit result": result,
        "search result": result.history[0],
        "prediction": model.predict(state, call),
        "evaluation": spare.evaluate(model, data, seed=0, draws=2),
        "state": state,
        "action call": call,
        "transition": data[0],
        "preset": result.preset,
    }


RETURNS = """
import pickle, sys
things = pickle.load(open(sys.argv[1], "rb"))
again = pickle.loads(pickle.dumps(things))
assert all(again[name] == one for name, one in things.items())
assert hash(things["domain"]) == int(sys.argv[3]), "the hash of a domain is salted"
assert len({things["domain"], again["domain"]}) == 1
things["scores"] = things["model"].log_prob(things["experience"])
pickle.dump(things, open(sys.argv[2], "wb"))
"""


def test_everything_comes_back_from_a_spawned_process(tmp_path: pathlib.Path) -> None:
    """Domains (with lambdas too), experience, models and results, sent and sent back: equal, with equal hashes."""
    sent, came = tmp_path / "sent", tmp_path / "came"
    sent.write_bytes(pickle.dumps(things()))
    done = python(RETURNS, sent, came, hash(toy.domain), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    back = pickle.loads(came.read_bytes())
    for name, one in things().items():
        assert back[name] == one, name
    assert np.array_equal(back["scores"], things()["model"].log_prob(things()["experience"]))
    assert back["domain"] is toy.domain
    assert back["fit result"].history[0].rounds[0].model is not None


def test_everything_is_copied() -> None:
    """copy, deepcopy, pickle and cloudpickle of the same: equal, and other content is not."""
    for name, one in things().items():
        for again in (
            copy.copy(one),
            copy.deepcopy(one),
            pickle.loads(pickle.dumps(one)),
            cloudpickle.loads(cloudpickle.dumps(one)),
        ):
            assert again == one, name
    data, model = things()["experience"], things()["model"]
    assert data[:10] != data[:11]
    assert data.weighted(np.full(len(data), 2.0)) != data
    assert spare.Model(model.domain, model.rules, np.full(2, 0.5)) != model
    assert data.states[0] != data.states[1]
    assert made_here() == made_here()
    assert len({made_here(), made_here(), made_here().with_resolutions({"x": 0.5})}) == 2


def test_views_of_an_experience_are_sent_with_it() -> None:
    """`experience.states`, `next_states` and `actions` are pickled and copied like the experience they belong to."""
    data = things()["experience"]
    for view in (data.states, data.next_states, data.actions):
        for again in (
            pickle.loads(pickle.dumps(view)),
            copy.deepcopy(view),
            cloudpickle.loads(cloudpickle.dumps(view)),
        ):
            assert list(again[:3]) == list(view[:3])
            assert len(again) == len(view)


def score(model: Any, data: Any) -> tuple[Any, Any, np.ndarray]:
    """What a worker does with what it is sent."""
    return model, data, model.log_prob(data)


def _check(answers: list[tuple[Any, Any, np.ndarray]]) -> None:
    model, data = things()["model"], things()["experience"]
    for one, seen, scores in answers:
        assert one == model
        assert one.domain == model.domain
        assert seen == data
        assert np.array_equal(scores, model.log_prob(data))


def test_workers_of_joblib() -> None:
    """A model and data go to joblib's workers and come back; a domain with lambdas of this process does, too."""
    joblib = pytest.importorskip("joblib")
    call = joblib.delayed(score)
    with joblib.parallel_config("loky", n_jobs=2):
        _check(joblib.Parallel()([call(things()["model"], things()["experience"])] * 2))
        (own,) = joblib.Parallel()([joblib.delayed(lambda domain: domain)(made_here())])
    joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
    assert own == made_here()


@pytest.mark.filterwarnings("default")
def test_workers_of_dask() -> None:
    """The same on a worker of Dask, which is a process of its own."""
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        _check([client.submit(score, things()["model"], things()["experience"], pure=False).result(timeout=240)])
        own = client.submit(lambda domain: domain, made_here(), pure=False).result(timeout=240)
    assert own == made_here()


OWN = """
import pickle, sys
sys.modules["cloudpickle"] = None
import spare
def make():
    left = spare.Reference("left", lambda o, p: o.x < p.x)
    go = spare.Action("go", ("who",))
    return spare.Domain("line", properties=[spare.Property("x", resolution=0.01)], actions=[go], references=[left])
try:
    pickle.dumps([make()])
except spare.DefinitionError as error:
    print(error)
"""


def test_domain_that_cannot_be_sent(tmp_path: pathlib.Path) -> None:
    """Lambdas that no module holds, and no cloudpickle: a sentence says what to do."""
    done = python(OWN, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "'line' cannot be sent to another process" in done.stdout
    assert "install cloudpickle" in done.stdout


def test_worker_with_other_code(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of a domain is missing where it is sent, or another one there: refused with a sentence."""
    text = "import spare\ndomain = spare.Domain('line', properties=[spare.Property('x', resolution={})], references=[],"
    text += " actions=[spare.Action('go', ('who',))])\n"
    (tmp_path / "a_line_of_mine.py").write_text(text.format(0.01))
    monkeypatch.syspath_prepend(tmp_path)
    import a_line_of_mine  # type: ignore[import-not-found]

    sent = pickle.dumps(a_line_of_mine.domain)
    assert b"a_line_of_mine:domain" in sent
    (tmp_path / "there").mkdir()
    (tmp_path / "sent").write_bytes(sent)
    code = "import pickle\nimport spare\ntry:\n    pickle.load(open('../sent', 'rb'))\n"
    code += "except spare.DefinitionError as error:\n    print(error)"
    missing = python(code, folder=tmp_path / "there")
    assert "'a_line_of_mine:domain', which this process cannot import" in missing.stdout, missing.stderr
    (tmp_path / "there" / "a_line_of_mine.py").write_text(text.format(0.02))
    other = python(code, folder=tmp_path / "there")
    assert "has something else there; let all processes run the same code" in other.stdout, other.stderr
    cloudpickle.register_pickle_by_value(a_line_of_mine)
    try:
        assert b"a_line_of_mine:domain" not in pickle.dumps(a_line_of_mine.domain)
    finally:
        cloudpickle.unregister_pickle_by_value(a_line_of_mine)


FORKS = """
import multiprocessing, subprocess, sys, warnings
warnings.filterwarnings("ignore", "os.fork")
import spare
from spare.lab.worlds import queue as toy
data, model = toy.generate(8, seed=0), toy.true_model()
model.log_prob(data)
model.save("m.spare")

ENTRIES = {
    "log_prob": lambda: model.log_prob(data),
    "log_prob_values": lambda: model.log_prob_values(data),
    "mean": lambda: model.mean(data),
    "uncertainty": lambda: model.uncertainty(data),
    "sample": lambda: model.sample(data, 0),
    "predict": lambda: model.predict(data.states[0], data.actions[0]),
    "evaluate": lambda: spare.evaluate(model, data, seed=0),
    "fit": lambda: spare.fit(toy.domain, data, seed=0),
    "load": lambda: spare.load("m.spare"),
    "save": lambda: model.save("n.spare"),
    "print": lambda: str(model),
}

def work(name):
    if name == "exec":
        code = "from spare.lab.worlds import queue as t; print(len(t.true_model().log_prob(t.generate(3, seed=0))))"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
    if name == "data":
        return repr(data[:3])
    return ENTRIES[name]()

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        for name in ENTRIES:
            try:
                pool.apply_async(work, (name,)).get(60)
            except spare.ForkError as error:
                assert "spawn" in str(error) and "forkserver" in str(error) and "loky" in str(error)
            else:
                raise SystemExit(f"{name} gave an answer")
        print(pool.apply_async(work, ("data",)).get(60))
        print(pool.apply_async(work, ("exec",)).get(200))
    model.log_prob(data)
"""


def test_fork_after_jax_has_started(tmp_path: pathlib.Path) -> None:
    """Every entry that would wait forever names the remedy; data, and programs that the child starts, are not hurt."""
    (tmp_path / "forks.py").write_text(FORKS)
    line = [sys.executable, "forks.py"]
    done = subprocess.run(
        line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Experience('queue': 3 transitions, 11 to 14 objects)", "3"]


def test_fork_before_jax_has_started(tmp_path: pathlib.Path) -> None:
    """A child that is forked first computes as usual."""
    code = "import os, spare\nfrom spare.lab.worlds import queue as toy\npid = os.fork()\n"
    code += "if not pid:\n    toy.true_model().log_prob(toy.generate(3, seed=0))\n    os._exit(7)\n"
    code += "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    done = python(code, folder=tmp_path)
    assert done.stdout == "7\n", done.stderr


def test_copies_of_experience_are_read_only() -> None:
    """copy, deepcopy, pickles, `dataclasses.replace` and slices can be written to as little as the original."""
    data = dataclasses.replace(things()["experience"], info={"note": np.arange(60)})
    for one in (
        data,
        copy.copy(data),
        copy.deepcopy(data),
        pickle.loads(pickle.dumps(data)),
        dataclasses.replace(data, values=data.values.copy()),
        data[3:9],
        data[[1, 2]],
        data.weighted(np.ones(60)),
    ):
        arrays = [getattr(one, field.name) for field in dataclasses.fields(one)]
        arrays = [array for array in arrays if isinstance(array, np.ndarray)] + list(one.info.values())
        assert len(arrays) == 9
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


def test_errors_come_back_from_workers() -> None:
    """Every error of ours, sent from a worker, is the same error with the same sentence."""
    kinds = [getattr(spare, name) for name in dir(spare) if name.endswith("Error")]
    for error in (*(kind("a sentence") for kind in kinds), BusyError(pathlib.Path("folder"), "7")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))


def test_formulas_are_compared_by_what_they_compute() -> None:
    """The same formula written twice is one domain; another threshold, in a closure or in an array, is another."""

    def domain(limit: Any) -> spare.Domain:
        reference = spare.Reference("left", lambda o, p: (o.x < p.x - jnp.asarray(limit)).all(axis=0) | (o.x < -9))
        return spare.Domain(
            "line", properties=[spare.Property("x")], references=[reference], actions=[spare.Action("go", ("who",))]
        )

    limits = [np.full((2, 1), 0.5), np.array([[0.5], [0.51]]), np.full((2, 1), 0.49)]
    assert len({domain(limit) for limit in limits for _ in range(2)}) == 3
