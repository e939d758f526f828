"""Aleatoric and epistemic parts add up, follow the law of total variance; the epistemic one is about the data."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import spare
from spare.learning.presets import PRESETS
from tests.properties.answers import pooled
from tests.strategies import plain

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [5, 14])
def test_epistemic_is_disagreement_of_members_and_of_tied_rules(seed: int) -> None:
    """By the oracle: each member of each firing rule speaks alone, all equally often.

    Var E[s' | who speaks], and of each rule the mean of its members' variances less their geometric mean.
    """
    drawn = pooled(seed)
    data = drawn.data[:60]
    aleatoric, epistemic = drawn.model.uncertainty(data)
    total = drawn.model.moments(data)[1]
    np.testing.assert_allclose(np.hypot(aleatoric, epistemic), total, rtol=1e-4, atol=1e-6)
    names, several = data.domain.property_names, 0
    for i in range(len(data)):
        world, call, _ = plain(data, i)
        firing = drawn.oracle.firing(world, call)
        said: dict = {}
        for k in firing:
            rule = drawn.oracle.rules[k]
            for member in rule.phi.members:
                alone = copy.copy(drawn.oracle)
                alone.rules = [copy.copy(rule)]
                alone.rules[0].phi = copy.copy(rule.phi)
                alone.rules[0].phi.members = [member]
                weight = 1.0 / (len(firing) * len(rule.phi.members))
                for key, (mean, variance) in alone.moments(world, call).items():
                    said.setdefault(key, []).append((k, weight, mean, variance))
        several += any(len(parts) > 1 for parts in said.values())
        rows = slice(*data.offsets[i : i + 2])
        for (o, name), parts in said.items():
            centre = sum(w * m for _, w, m, _ in parts)
            wanted = sum(w * (m - centre) ** 2 for _, w, m, _ in parts)
            for k in firing:
                own = [variance for j, _, _, variance in parts if j == k]
                typical = math.exp(sum(map(math.log, own)) / len(own))
                wanted += (sum(own) / len(own) - typical) / len(firing)
            assert epistemic[rows][o, names.index(name)] ** 2 == pytest.approx(wanted, rel=2e-3, abs=1e-6)
        if not firing:
            assert not epistemic[rows].any()
    assert several > 5


def _world(count: int, seed: int, low: float, high: float) -> spare.Experience:
    """One object that an action of strength a moves by sin(3 a), give or take 0.05."""
    domain = spare.Domain(
        "line",
        properties=[spare.Property("x", resolution=0.01)],
        references=[],
        actions=[spare.Action("move", objects=("target",), parameters=("a",))],
    )
    rng, builder = np.random.default_rng(seed), spare.Builder(domain)
    for strength in rng.uniform(low, high, count):
        x = rng.uniform(-1, 1)
        after = x + np.sin(3 * strength) + rng.normal(0, 0.05)
        state, later = (spare.State(("only",), np.array([[value]])) for value in (x, after))
        builder.add(state, spare.ActionCall("move", ("only",), (float(strength),)), later)
    return builder.build()


@pytest.fixture(scope="module")
def models() -> dict[int, spare.Model]:
    """Learned by the default preset from few and from more transitions with strengths between -1 and 1."""
    data = {count: _world(count, 1, -1, 1) for count in (20, 500)}
    return {n: spare.fit(one.domain, one, seed=0, preset=PRESETS["shared"]).model for n, one in data.items()}


def _typical(model: spare.Model, low: float, high: float) -> tuple[float, float]:
    """Root mean squares of (noise, epistemic) where strengths are in a range."""
    return tuple(float(np.sqrt(np.mean(part**2))) for part in model.uncertainty(_world(100, 2, low, high)))  # type: ignore[return-value]


def test_epistemic_grows_away_from_the_data_and_shrinks_with_more(models: dict[int, spare.Model]) -> None:
    """Noise is what the world has; epistemic is small among many samples, larger among few, largest where none were."""
    noise, little = _typical(models[500], -1, 1)
    assert noise == pytest.approx(0.051, rel=0.2)
    assert little < 0.5 * noise
    assert _typical(models[20], -1, 1)[1] > 1.5 * little
    assert _typical(models[500], 3, 4)[1] > 5 * little


def test_explain_tells_what_is_not_known(models: dict[int, spare.Model]) -> None:
    """A warning far from the data, none among them."""
    state = spare.State(("only",), np.array([[0.0]]))
    near, far = (models[500].predict(state, spare.ActionCall("move", ("only",), (a,))) for a in (0.2, 4.0))
    assert "aleatoric and epistemic: x ± 0.0" in near.explain()
    assert "do not rely on it" not in near.explain()
    assert "do not rely on it" in far.explain()
    np.testing.assert_allclose(np.hypot(far.aleatoric, far.epistemic), far.std, rtol=1e-5)
