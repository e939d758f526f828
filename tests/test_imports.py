"""Who may import whom, read from the source; and how fast a first import is."""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys

import pytest

import spare

ROOT = pathlib.Path(spare.__file__).parent

# From low to high: a module imports only what stands before it, or its own group or package.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("names", "workers"),
    ("strictjson",),
    ("thrift",),
    ("atomic", "folders", "tensors", "schemas", "footer"),
    ("manifest",),
    ("relations",),
    ("references",),
    ("domain",),
    ("periodic",),
    ("experience",),
    ("checks",),
    ("intake",),
    ("builder", "tables", "batches", "catalogue", "arrow", "parquet"),
    ("frames",),
    ("density", "components", "together"),
    ("predictor",),
    ("slots",),
    ("rule",),
    ("prediction",),
    ("model",),
    ("domains",),
    ("mixture_rule",),
    ("files",),
    ("evaluation", "diagram"),
    ("testing",),
    ("learning",),
    ("baselines",),
    ("experiments",),
    ("bench",),
    ("report",),
    ("spare",),  # the public names, loaded on first use
    ("commands",),
    ("cli",),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# Methods that lead to a higher layer, imported where they are called; (importer, imported).
LAZY = {
    ("experience", "intake"),
    ("experience", "tables"),
    ("experience", "parquet"),
    ("experience", "batches"),
    ("model", "files"),
}


def modules() -> dict[str, ast.Module]:
    """`learning.fit` -> its tree, for every module of the package."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__").replace("__init__", "spare")] = ast.parse(
            path.read_text("utf-8")
        )
    return found


def imports(tree: ast.Module) -> list[tuple[str, bool]]:
    """(first name after `spare.`, whether at the top of the module) of each import of our own."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "spare":
                known = len(parts) > 1 and parts[1] in LEVEL
                found.append((parts[1] if known else "spare", node in tree.body))
    return found


def test_every_module_has_a_layer() -> None:
    assert {name.split(".")[0] for name in modules()} <= set(LEVEL)


def test_no_import_goes_up() -> None:
    wrong = []
    for name, tree in modules().items():
        source = name.split(".")[0]
        if source == "spare":
            continue
        for target, top in imports(tree):
            if LEVEL[target] > LEVEL[source] and (top or (source, target) not in LAZY):
                wrong.append(f"{name} imports {target}")
    assert not wrong


def test_the_exceptions_are_still_needed() -> None:
    trees = modules()
    for source, target in LAZY:
        assert (target, False) in imports(trees[source])


def test_modules_are_named_at_run_time_in_few_places() -> None:
    """The public names, our own domains by name, and two that look down: push's parts and the benchmarks."""
    calls = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "import_module"
    }
    assert calls <= {"spare", "catalogue", "domains.push", "commands.bench"}


def test_the_public_names_are_all_there() -> None:
    assert sorted(spare.__all__) == list(spare.__all__)
    for name in spare.__all__:
        assert getattr(spare, name).__name__ == name
    assert set(dir(spare)) == {*spare.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = spare.nothing


def best_of_three(*command: str) -> float:
    """Processor seconds of a fresh process, at its best: what a clock shows when nothing else runs."""
    times = []
    for _ in range(3):
        before = os.times()
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(times)


def test_importing_takes_less_than_a_second() -> None:
    assert best_of_three("-c", "import spare") < 1.0


def test_help_answers_within_half_a_second() -> None:
    assert best_of_three("-m", "spare.commands.cli", "--help") < 0.5
