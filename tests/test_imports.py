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

LAYERS = (
    *("errors", "names", "arrays", "content", "forks", "arguments", "programs"),
    *("io", "language", "data", "model", "learning"),
    *("planning", "bridges"),
    *("testing", "lab"),
    "spare",  # the public names, loaded on first use
    *("commands", "__main__"),
)
"""The modules and packages at the root, from low to high: each imports only what stands before it, or its own."""
CORE = ("io", "language", "data", "model", "learning")


def _name(path: pathlib.Path) -> str:
    """`spare.learning.fit` for src/spare/learning/fit.py, `spare` for the package itself."""
    return ".".join(("spare", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


TREES = {_name(path): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def layer(module: str) -> str:
    """`learning` for `spare.learning.fit`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def imports(module: str) -> set[str]:
    """The modules of ours that a module imports, at its top, inside functions, or for types alone."""
    found = set()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            both = [(f"{node.module}.{alias.name}", node.module or "") for alias in node.names]
            found |= {inner if inner in TREES else outer for inner, outer in both}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "spare"} - {module}


def texts(module: str) -> set[str]:
    """Strings of a module that name one of ours, as `importlib` would take them; docstrings do not count."""
    strings = {node.value for node in ast.walk(TREES[module]) if isinstance(node, ast.Constant)}
    return {text for text in strings if isinstance(text, str) and text in TREES} - {"spare"}


def test_every_folder_has_a_layer() -> None:
    assert {layer(module) for module in TREES} <= {*LAYERS}


def test_no_import_goes_up() -> None:
    rank = {name: level for level, name in enumerate(LAYERS)}
    wrong = [
        f"{module} imports {target}"
        for module in TREES
        for target in sorted(imports(module) | texts(module))
        if rank[layer(target)] > rank[layer(module)]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other() -> None:
    """Not even through others, and not even inside functions."""
    graph = {module: imports(module) & TREES.keys() for module in TREES}
    found = [
        f"{module} imports {one}" for module in TREES for one in sorted(graph[module]) if module in _all(graph, one)
    ]
    assert not found, "imports that close a cycle:\n" + "\n".join(found)


def _all(graph: dict[str, set[str]], start: str) -> set[str]:
    """Everything that a module imports, through others too."""
    found, stack = {start}, [start]
    while stack:
        new = graph[stack.pop()] - found
        found |= new
        stack += new
    return found


def test_the_core_stands_alone() -> None:
    """The core names neither the lab nor the commands, not even in a string."""
    wrong = [
        f"{module}: {node.value!r}"
        for module, tree in TREES.items()
        if layer(module) in CORE
        for node in ast.walk(_without_docstrings(tree))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if any(f"spare.{name}" in node.value for name in ("lab", "commands", "testing"))
    ]
    assert not wrong, "\n".join(wrong)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """The tree without strings that stand alone."""

    class Remover(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
            return None if isinstance(node.value, ast.Constant) else node

    return Remover().visit(ast.parse(ast.unparse(tree)))


def test_modules_are_named_at_run_time_in_few_places() -> None:
    """The public names, domains by name, and two of the lab and commands that look down."""
    calls = {
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "import_module"
    }
    assert calls <= {"spare", "spare.commands.common", "spare.lab.worlds.push", "spare.commands.bench"}


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
    assert best_of_three("-m", "spare", "--help") < 0.5
