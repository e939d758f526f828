"""The tables of docs/reliability.md, written from the tests themselves: `python -m tests.faults.listing`.

A fault is a test in this folder; its docstring says how the fault is handled. An invariant is a property test.
"""

from __future__ import annotations

import ast
import pathlib

from tests.faults.helpers import ROOT

PAGE = ROOT / "docs/reliability.md"
GROUPS = {
    "test_model_files.py": "Model files",
    "test_parquet_files.py": "Experience files",
    "test_old_answers.py": "Formulas, resolutions and versions that change",
    "test_processes.py": "Other processes",
    "test_disk.py": "Disks and folders",
    "test_folders.py": "Folders that are not what they seem",
    "test_beside.py": "Code beside the data",
    "test_kills.py": "Kills, interrupts, locks",
    "test_interrupts.py": "Ctrl-C at once, and lost clusters",
    "test_usage.py": "Calls that ask for something else",
    "test_names.py": "Hostile names",
    "test_records.py": "Hostile records of runs",
    "test_numerics.py": "Numbers",
    "test_digits.py": "Digits, dates and missing cells",
    "test_long_running.py": "Processes that run for weeks",
    "test_unfamiliar.py": "States unlike the training data",
}


def tests_of(path: pathlib.Path) -> list[tuple[str, str]]:
    """(name, first line of the docstring) of every test in a file."""
    found = []
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            text = (ast.get_docstring(node) or "").split("\n")[0]
            found.append((node.name.removeprefix("test_"), text))
    return found


def faults() -> dict[str, list[tuple[str, str]]]:
    """All faults by group."""
    folder = pathlib.Path(__file__).parent
    return {group: tests_of(folder / name) for name, group in GROUPS.items()}


def fault_tables() -> str:
    """One table per group."""
    lines: list[str] = []
    for group, rows in faults().items():
        lines += [f"### {group}", "", "| fault | what happens |", "|---|---|"]
        lines += [f"| `{name}` | {text} |" for name, text in rows]
        lines.append("")
    return "\n".join(lines)


def invariant_list() -> str:
    """Every property test, by file."""
    lines = []
    for path in sorted((ROOT / "tests/properties").glob("test_*.py")):
        names = ", ".join(name.replace("_", " ") for name, _ in tests_of(path))
        lines.append(f"- `{path.name}`: {names}")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with its generated parts renewed."""
    for mark, content in (("faults", fault_tables()), ("invariants", invariant_list())):
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        head, rest = text.split(begin)
        text = head + begin + content + end + rest.split(end)[1]
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
