"""The contract checks find what is wrong, and nothing where nothing is."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.lab.worlds import queue as toy
from spare.testing import check_domain, check_model


class Plain:
    """Somebody's own model in NumPy: everything stays, with deviation `width`."""

    width = 0.1

    def __init__(self, domain: spare.Domain) -> None:
        self.domain = domain

    def log_prob(self, experience: spare.Experience) -> np.ndarray:
        columns = list(self.domain.dynamic)
        error = (experience.next_values - experience.values)[:, columns].astype(np.float64)
        values = -0.5 * (error / self.width) ** 2 - np.log(self.width) - 0.5 * np.log(2 * np.pi)
        return np.add.reduceat(values.sum(axis=1), experience.offsets[:-1])

    def sample(self, experience: spare.Experience, seed: int) -> np.ndarray:
        moving = ~np.array([p.static for p in self.domain.properties])
        noise = np.random.default_rng(seed).standard_normal(experience.values.shape)
        return (experience.values + self.width * noise * moving).astype(np.float32)

    def predict(self, state: spare.State, action: spare.ActionCall) -> Any:
        moving = ~np.array([p.static for p in self.domain.properties])
        return SimpleNamespace(mean=state.values, std=np.broadcast_to(self.width * moving, state.values.shape))


class Peeks(Plain):
    def sample(self, experience: spare.Experience, seed: int) -> np.ndarray:
        return super().sample(experience, seed) + 0 * experience.next_values + 1e-3 * (experience.next_values > 1)


class Ordered(Plain):
    def log_prob(self, experience: spare.Experience) -> np.ndarray:
        return super().log_prob(experience) + experience.values[experience.offsets[:-1], 0]


class Forgetful(Plain):
    def sample(self, experience: spare.Experience, seed: int) -> np.ndarray:
        return super().sample(experience, 1)


class Careless(Plain):
    def log_prob(self, experience: spare.Experience) -> np.ndarray:
        return super().log_prob(experience) + np.random.default_rng().normal()


class Overconfident(Plain):
    def log_prob(self, experience: spare.Experience) -> np.ndarray:
        other = Plain(self.domain)
        other.width = 0.6 * self.width
        return other.log_prob(experience)


class Drifting(Plain):
    def sample(self, experience: spare.Experience, seed: int) -> np.ndarray:
        moving = ~np.array([p.static for p in self.domain.properties])
        return (super().sample(experience, seed) + 0.05 * moving).astype(np.float32)


class Careful(Plain):
    def log_prob(self, experience: spare.Experience) -> np.ndarray:
        return experience.weights * super().log_prob(experience)


class Named(Plain):
    def log_prob(self, experience: spare.Experience) -> np.ndarray:
        return super().log_prob(experience) + experience.ids[experience.offsets[:-1]]


class Breaks(Plain):
    def log_prob(self, experience: spare.Experience) -> np.ndarray:
        raise KeyError("boom")


class Short(Plain):
    def log_prob(self, experience: spare.Experience) -> np.ndarray:
        return super().log_prob(experience)[:-1]


class Moves(Plain):
    def sample(self, experience: spare.Experience, seed: int) -> np.ndarray:
        return super().sample(experience, seed) + np.float32(0.5)


@pytest.mark.slow
def test_a_model_of_ours_keeps_the_contract() -> None:
    report = check_model(toy.true_model(), toy.generate(12, seed=0))
    assert report.ok, str(report)
    assert report.checked[-1] == "saving"
    assert "nothing found" in str(report)


def test_somebodys_own_model_keeps_the_contract() -> None:
    assert check_model(Plain(toy.domain), toy.generate(12, seed=0)).require().findings == ()


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (Peeks, "looks at the next state"),
        (Ordered, "depends on the order of objects"),
        (Forgetful, "another seed gives the same draw"),
        (Careless, "two calls differ"),
        (Overconfident, "do not follow the density"),
        (Drifting, "not centred on predict's mean"),
        (Careful, "depends on weights"),
        (Named, "depends on the ids"),
        (Breaks, "raises KeyError"),
        (Short, "11"),
        (Moves, "static properties change"),
    ],
)
def test_what_is_wrong_with_a_model_is_found(kind: type[Plain], found: str) -> None:
    report = check_model(kind(toy.domain), toy.generate(12, seed=0))
    assert not report.ok
    assert found in str(report)
    with pytest.raises(spare.DefinitionError):
        report.require()


def test_models_that_do_not_fit_are_told_so(data: spare.Experience) -> None:
    assert "the model knows" in str(check_model(Plain(toy.domain), data))
    assert "lacks log_prob" in str(check_model(object(), data))
    assert "it is empty" in str(check_model(Plain(toy.domain), toy.generate(2, seed=0)[:0]))


def test_a_good_domain_has_no_findings() -> None:
    report = check_domain(toy.domain, toy.generate(40, seed=0))
    assert report.findings == (), str(report)


def _raises(o: Any, p: Any) -> Any:
    def look(values: np.ndarray) -> np.ndarray:
        if values.size and np.abs(values).max() > 0:
            raise ValueError("a measurement is missing")
        return values > 0

    return jax.pure_callback(look, jax.ShapeDtypeStruct(o.x.shape, bool), o.x, vmap_method="sequential")


def test_what_is_wrong_with_a_domain_is_found() -> None:
    here = toy.domain
    references = [
        *here.references,
        spare.Reference("never", lambda o, p: o.x > p.x + 1e6),
        spare.Reference("anyone", lambda o, p: jnp.abs(o.x - p.x) >= 0),
        spare.Reference("twin", here.reference("line").relation),
        spare.Reference("first", lambda o, p: jnp.arange(o.x.shape[0]) == 0 if o.x.ndim else o.x > p.x),
    ]
    domain = spare.Domain(
        "queue",
        properties=here.properties,
        references=references,
        actions=[*here.actions, spare.Action("wait", objects=("target",), parameters=("t",))],
    )
    data = toy.generate(30, seed=0)
    values = data.values.copy()
    after = data.next_values.copy()
    values[:, 2] = after[:, 2] = 70.0
    after[:, 1] = values[:, 1]
    parameters = np.full((30, 1), 0.5, np.float32)
    changed = spare.Experience.from_arrays(
        domain,
        values=values,
        next_values=after,
        offsets=data.offsets,
        action=data.action,
        objects=data.objects,
        parameters=parameters,
    )
    text = str(check_domain(domain, changed))
    for found in (
        "property 'mass': it is always 70",
        "property 'y': it never changes. Declare it static=True",
        "action 'usher': parameter 'd' is always 0.5",
        "action 'wait': it never occurs",
        "reference 'never': it never finds anything",
        "reference 'anyone': it always finds every other object",
        "reference 'twin': it always finds the same as 'line'",
        "! reference 'first': it depends on the order of objects",
    ):
        assert found in text, text


def test_a_reference_that_raises_on_data() -> None:
    here = toy.domain
    domain = spare.Domain(
        "queue", properties=here.properties, references=[spare.Reference("bad", _raises)], actions=here.actions
    )
    report = check_domain(domain, toy.generate(10, seed=0))
    assert not report.ok
    assert "reference 'bad': it raises on these data" in str(report)


@pytest.mark.slow
def test_resolutions_that_hide_everything(tmp_path: pathlib.Path) -> None:
    here = toy.domain
    coarse = here.with_resolutions({"x": 50.0})
    assert "no change is larger than its resolution 50" in str(check_domain(coarse, toy.generate(10, seed=0)))
    far = toy.generate(10, seed=0)
    shift = np.array([1e6, 0, 0], np.float32)
    columns = {name: getattr(far, name) for name in ("offsets", "action", "objects", "parameters")}
    moved = spare.Experience.from_arrays(
        here, values=far.values + shift, next_values=far.next_values + shift, **columns
    )
    assert "32-bit numbers are 0.062 apart" in str(check_domain(here, moved))
