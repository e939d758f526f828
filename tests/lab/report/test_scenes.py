"""Transitions as a page draws them: checked against the data, and by the pixels of a real browser."""

from __future__ import annotations

import itertools
import json
import pathlib
import re

import numpy as np
import pytest

from spare.commands.cli import main
from spare.data.experience import Experience
from spare.lab.experiments.scenes import drawable, representative, scenes
from spare.lab.worlds import billiards, flights, push, queue, tray
from tests.browser import NEEDED, show

DRAWN = "[...document.querySelectorAll('figure.scene')].every((one) => one.dataset.drawn === 'yes')"


@pytest.fixture(scope="module")
def pushes(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, Experience]:
    """(file, experience): 12 pushes of stacks of three among two extra blocks."""
    path = tmp_path_factory.mktemp("scenes") / "push.parquet"
    return path, push.generate(12, stack=3, extra=2, seed=3, out=path)


def _render(*words: str | pathlib.Path) -> int:
    return main(["render", *map(str, words)])


def test_a_scene_holds_what_was_observed(pushes: tuple[pathlib.Path, Experience]) -> None:
    _, data = pushes
    (scene,) = scenes(data, [7])
    one = data[7]
    assert scene["title"].startswith("#7  push(target 0; xg ")
    assert scene["explained"] is None
    assert scene["floor"] == pytest.approx(0, abs=1e-3)
    for shown, before, after in zip(scene["objects"], one.state.values, one.next_state.values, strict=True):
        np.testing.assert_allclose(shown["before"], before[:3], atol=1e-5)
        np.testing.assert_allclose(shown["after"], after[:3], atol=1e-5)
        np.testing.assert_allclose(shown["size"], before[3:], atol=1e-5)
    roles = {int(shown["name"]): shown["role"] for shown in scene["objects"]}
    assert roles == {0: "acted", 1: "moved", 2: "moved", 3: "other", 4: "other"}
    start, end = scene["arrow"]  # from the gripper to the target
    np.testing.assert_allclose(start, one.action.parameters[:3], atol=1e-5)
    np.testing.assert_allclose(end, one.state.values[0, :3], atol=1e-5)


@pytest.mark.slow
def test_expectations_and_references_of_a_model() -> None:
    data, model = queue.generate(20, 0), queue.true_model(2)
    (scene,) = scenes(data, [4], model)
    prediction = model.predict(data.states[4], data.actions[4])
    held = [k for k, one in enumerate(scene["objects"]) if one["expected"] is not None]
    assert held == np.flatnonzero(prediction.predicted).tolist()
    assert len(held) == 3
    for k in held:
        np.testing.assert_allclose(scene["objects"][k]["expected"][:2], prediction.mean[k, :2], atol=1e-4)
        spread = np.sqrt(np.diag(scene["objects"][k]["covariance"]))[:2]
        np.testing.assert_allclose(spread, prediction.std[k, :2], rtol=0.3)
    assert [name for *_, name in scene["references"]] == ["behind", "behind"]
    assert {k for a, b, _ in scene["references"] for k in (a, b)} == set(held)
    assert scene["explained"] == prediction.explain(data.next_states[4])


@pytest.mark.parametrize("world", [tray, billiards, queue, flights], ids=lambda world: world.domain.name)
def test_any_domain_with_a_place_is_drawn(world) -> None:
    data = world.generate(8, 1)
    found = scenes(data, representative(data, 3))
    assert len(found) == 3
    assert drawable(world.domain) == (world is not flights)
    for scene in found:
        assert ("objects" in scene) == drawable(world.domain)
        if "objects" in scene:
            assert {one["role"] for one in scene["objects"]} > {"acted"}
            assert (scene["arrow"] is not None) == (world is not queue)
            assert all(min(one["size"]) > 0 and one["round"] for one in scene["objects"])


def test_representative_transitions(pushes: tuple[pathlib.Path, Experience]) -> None:
    _, data = pushes
    chosen = representative(data, 6)
    assert len(set(chosen)) == 6
    change = [np.abs(data[k].next_state.values - data[k].state.values).max() for k in chosen]
    assert all(a >= b for a, b in itertools.pairwise(change))
    assert sorted(representative(data[:3], 6)) == [0, 1, 2]


def test_render_writes_one_page_that_names_no_other(
    pushes: tuple[pathlib.Path, Experience], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = pushes
    assert _render(path, "--index", "3,7,11", "--out", tmp_path / "some.html") == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "some.html")
    page = (tmp_path / "some.html").read_text()
    assert page.count("<canvas") == 3
    assert [json.loads(one)["title"][:3] for one in re.findall(r'<script type="application/json">(.*?)</script>', page)]
    assert "default-src 'none'" in page
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)\s*=", page)
    assert "predicted" not in re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    assert _render(path, "--gallery") == 0
    assert (path.parent / "push-gallery.html").read_text().count("<canvas") == 6
    assert _render(path) == 0
    assert (path.parent / "push-0.html").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--index", "12"], "push.parquet holds transitions 0 to 11"),
        (["--index", "-1"], "holds transitions 0 to 11"),
        (["--index", "one"], "--index 'one': give one number"),
        (["--out", "nowhere/x.html"], "does not exist"),
        (["--model", "missing.spare"], "no such file"),
    ],
)
def test_render_bad_input(
    words: list[str],
    message: str,
    pushes: tuple[pathlib.Path, Experience],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _render(pushes[0], *words) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_render_something_else(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.parquet").write_bytes(b"not parquet")
    assert _render(tmp_path / "x.parquet") == 2
    assert "not a readable experience file" in capsys.readouterr().err
    assert _render(tmp_path / "y.parquet") == 2
    assert "no such file" in capsys.readouterr().err
    flights.generate(4, 0).save(tmp_path / "flights.parquet")
    assert _render(tmp_path / "flights.parquet", "--domain", "spare.lab.worlds.flights:domain") == 2
    assert "cannot be drawn" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.browser
@NEEDED
def test_the_page_shows_the_scene_in_a_browser_without_a_network(
    pushes: tuple[pathlib.Path, Experience], tmp_path: pathlib.Path
) -> None:
    """The target is red and larger than a spot, the rest of the stack yellow; no tick boxes without a model."""
    page = tmp_path / "seven.html"
    assert _render(pushes[0], "--index", "7", "--out", page) == 0
    ask = {"boxes": "document.querySelectorAll('input[type=checkbox]').length"}
    shown = show(page, size=(900, 900), wait=DRAWN, settle=0.2, ask=ask)
    assert not shown.complaints
    assert not shown.calls, "the page asked for something"
    assert shown.answers["boxes"] == 0
    red, green, blue = shown.pixels.transpose(2, 0, 1)
    assert ((red > 90) & (red > 1.8 * green) & (red > 1.8 * blue)).sum() > 3000
    assert ((red > 120) & (green > 0.6 * red) & (blue < 0.5 * red)).sum() > 3000
    assert ((blue > 120) & (blue > red + 80) & (blue > green + 40)).sum() > 300, "no arrow"
