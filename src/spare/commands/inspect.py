"""`spare inspect`: what a file holds, without its domain and without running anything."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(frozen=True)
class Inspect:
    """Say what a file is: a model, experience, an unfinished run, or something else. No domain is needed."""

    file: Annotated[pathlib.Path, tyro.conf.Positional]
    """Any file or folder."""
    json: bool = False
    """Print the facts as JSON and nothing else."""

    def run(self) -> int:
        """Look and say; other or damaged files get one sentence and exit code 2."""
        facts = inspect(self.file)
        print(json.dumps(facts, indent=1) if self.json else "\n".join(_words(facts)))
        return 0


def inspect(path: pathlib.Path) -> dict[str, Any]:
    """The facts about a file, or a `FileError` whose sentence says what it is instead."""
    from spare.errors import FileError
    from spare.io.atomic import open_regular
    from spare.io.guess import looks_like

    if os.path.isdir(path):  # unlike Path.is_dir, false for a name that is too long
        return _run_folder(path)
    with open_regular(path) as file:
        try:
            head, size = file.read(4096), file.seek(0, 2)
        except OSError as error:
            raise FileError(f"{path}: cannot be read: {error.strerror or error}") from error
    if head[:4] == b"PAR1":
        return _experience(path, size)
    if len(head) > 8 and head[8:9] == b"{":
        return _model(path, size)
    raise FileError(f"{path}: {looks_like(head)}; not a file of SPARE's")


def _model(path: pathlib.Path, size: int) -> dict[str, Any]:
    from spare.io.manifest import read

    manifest, tensors = read(path)
    return {
        "kind": "model",
        "file": str(path),
        "bytes": size,
        "tensors": len(tensors),
        "numbers": sum(int(array.size) for array in tensors.values()),
        "members": [_members(path, tensors, k, rule) for k, rule in enumerate(manifest["rules"])],
        "manifest": manifest,
    }


def _members(path: pathlib.Path, tensors: dict[str, np.ndarray], k: int, rule: dict[str, Any]) -> int:
    """How many networks a rule's ensemble has; 1 for predictors of another kind."""
    from spare.errors import FileError

    if "heads" in rule:
        stay = tensors.get(f"rule.{k}.process.stay")
        if stay is None or not stay.ndim:
            raise FileError(f"{path}: rule {k + 1} has no process; the file is damaged")
        return int(stay.shape[0])
    names = list(rule["predictor"].get("networks", {}))
    if not names:
        return 1
    bias = tensors.get(f"rule.{k}.predictor.{names[0]}.0.bias")
    if bias is None or not bias.ndim:
        raise FileError(f"{path}: rule {k + 1} has no network; the file is damaged")
    return int(bias.shape[0])


def _experience(path: pathlib.Path, size: int) -> dict[str, Any]:
    from spare.io.parquet import describe

    header, groups, schema = describe(path)
    return {
        "kind": "experience",
        "file": str(path),
        "bytes": size,
        "transitions": sum(group.rows for group in groups),
        "row_groups": len(groups),
        "in_memory": sum(group.unfolded for group in groups),
        "columns": {name: str(schema.field(name).type) for name in schema.names},
        "header": header,
    }


def _run_folder(path: pathlib.Path) -> dict[str, Any]:
    """An unfinished run: what it belongs to, and how far it is."""
    from spare.errors import FileError
    from spare.learning.cache import read_record

    found = read_record(path / "run.json") if (path / "run.json").exists() else None
    if found is None:
        raise FileError(f"{path}: a folder, and not one of an unfinished run; give a file")
    finished = sum(1 for _ in path.glob("*.safetensors"))
    return {"kind": "run", "file": str(path), "trainings": finished, "run": found}


def _words(facts: dict[str, Any]) -> list[str]:
    from spare.names import shown

    words = {"model": _model_words, "experience": _experience_words, "run": _run_words}[facts["kind"]]
    return [shown(line) for line in words(facts)]


def _domain_words(schema: dict[str, Any]) -> list[str]:
    from spare.language.registry import ships

    own = "installed" if ships(schema["name"]) else "your own: pass --domain MODULE:NAME where it is used"

    def prop(one: dict[str, Any]) -> str:
        kind = _kind_words(one.get("kind", {}))
        facts = [text for text in (one["unit"], "static" if one["static"] else "", kind) if text]
        return one["name"] + (f" ({', '.join(facts)})" if facts else "")

    def action(one: dict[str, Any]) -> str:
        given = f"; {', '.join(one['parameters'])}" if one["parameters"] else ""
        return f"{one['name']}({', '.join(one['objects'])}{given})"

    return [
        f"domain {schema['name']} ({own})",
        f"    properties: {', '.join(map(prop, schema['properties']))}",
        f"    actions: {', '.join(map(action, schema['actions']))}",
        *(f"    type {one['name']}: {', '.join(one['properties']) or 'nothing'}" for one in schema.get("types", [])),
        *(f"    relation {one['name']}{' (static)' if one['static'] else ''}" for one in schema.get("relations", [])),
    ]


def _model_words(facts: dict[str, Any]) -> list[str]:
    manifest = facts["manifest"]
    schema, made = manifest["domain"], manifest["provenance"]
    roles = {action["name"]: action["objects"] for action in schema["actions"]}
    lines = [f"{facts['file']}: a SPARE model, format {manifest['format']}, {facts['bytes'] / 1e3:.1f} kB"]
    lines += [f"note: {note}" for note in made.get("notes", [])]
    lines += _domain_words(schema)
    used = [f"{one['name']} ({one['relation']}, {'+'.join(one['aggregators'])})" for one in schema["references"]]
    lines.append(f"    references used: {', '.join(used) or 'none'}")
    lines += _formula_words(manifest["formulas"])
    lines.append(
        f"    resolutions: {', '.join(f'{name} {value:g}' for name, value in manifest['resolutions'].items())}"
    )
    for k, rule in enumerate(manifest["rules"]):
        lines += _rule_words(k, rule, roles.get(rule["action"], []), facts["members"][k])
    lines.append(f"{facts['numbers']} numbers in {facts['tensors']} tensors")
    plain = {key: value for key, value in made.items() if not isinstance(value, list | dict)}
    lines.append("made with: " + (", ".join(f"{key} {value}" for key, value in plain.items()) or "not recorded"))
    return lines


def _formula_words(formulas: dict[str, Any]) -> list[str]:
    """Fingerprints of the formulas, by which another one is noticed."""
    named = {"references": "", "frames": "frame of ", "kinds": "kind of "}
    found = [f"{what}{name} {one['program']}" for key, what in named.items() for name, one in formulas[key].items()]
    made = ", ".join(f"{name} {version}" for name, version in formulas["versions"].items())
    return [f"    formulas: {', '.join(found)} (under {made})"] if found else []


COUNTED = "    computes in 64-bit numbers, which it counts from origins of its own"


def _rule_words(k: int, rule: dict[str, Any], roles: list[str], members: int) -> list[str]:
    def shell(pointers: list[Any]) -> str:
        names = [*roles, *(f"b{t + 1}" for t in range(len(pointers)))]
        parts = []
        for t, (name, slots) in enumerate(pointers):
            given = ", ".join(names[slot] if slot < len(names) else str(slot) for slot in slots)
            parts.append(f"{name}({given}) -> b{t + 1}")
        return ", ".join(parts) or "-"

    text = f"rule {k + 1}  {rule['action']}({', '.join(roles)}): {shell(rule['gamma'])}"
    if "heads" in rule:
        return [text, *_head_words(rule, roles, members)]
    if rule["delta"] != rule["gamma"]:
        text += f"  changes: {shell(rule['delta'])}"
    nets = rule["predictor"].get("networks", {}).values()
    inside = " and ".join(f"a network of {net['layers']} layers ({net['activation']})" for net in nets)
    inside = inside or f"predictor {rule['predictor']['kind']}"
    frame = ", in the action's frame" if rule["framed"] else ""
    lines = [text, f"    from {', '.join(rule['inputs'])}; {inside}, {members} in the ensemble{frame}"]
    lines += [f"    {name} inputs: {', '.join(rule[name])}" for name in ("dropped", "extra") if rule[name]]
    if rule.get("origins"):
        lines.append(COUNTED)
    parts = {"outliers": "outlier component for objects it does not predict", "copula": "copula over its predictions"}
    return lines + [f"    {text}" for name, text in parts.items() if rule[name]]


def _head_words(rule: dict[str, Any], roles: list[str], members: int) -> list[str]:
    """One line for each head of a rule, and for its process."""
    names = [*roles, *(f"b{t + 1}" for t in range(len(rule["gamma"])))]

    def words(head: dict[str, Any]) -> str:
        pinned = ", the first pinned to no change" if head["pinned"] else ""
        outcomes = f"{head['outcomes']} outcome{'s' * (head['outcomes'] > 1)} by {head['scope']}{pinned}"
        return f"from {', '.join(head['inputs']) or 'nothing'}; {outcomes}"

    lines = []
    for head in rule["heads"]:
        slot = head["slot"]
        lines.append(f"    head of {names[slot] if slot < len(names) else slot}: {words(head)}")
    frame = ", in the action's frame" if rule["framed"] else ""
    lines += [f"    process: {words(rule['process'])}", f"    {members} in the ensemble{frame}"]
    return lines + [COUNTED] * bool(rule.get("origins"))


def _kind_words(kind: dict[str, Any]) -> str:
    """`categorical red, green`, `link to block`, `integer from 0`, `periodic 360`."""
    parts = []
    for name, value in sorted(kind.items()):
        if name == "name" or value is None or value is False or value == []:
            continue
        word = {"low": "from ", "high": "up to ", "to": "to "}.get(name, "")
        told = (
            ", ".join(map(str, value[:8])) + (", ..." if len(value) > 8 else "") if isinstance(value, list) else value
        )
        parts.append(name if value is True else f"{word}{told}")
    return " ".join([str(kind.get("name", "")), *sorted(parts, key=lambda one: one.startswith("up to"))]).strip()


def _experience_words(facts: dict[str, Any]) -> list[str]:
    header = facts["header"]
    lines = [
        f"{facts['file']}: SPARE experience, {facts['transitions']} transitions, format {header['format']}, "
        f"{facts['bytes'] / 1e3:.1f} kB ({facts['in_memory'] / 1e6:.1f} MB in memory) in {facts['row_groups']} pieces"
    ]
    lines += _domain_words(header["domain"])
    known = ", ".join(one["name"] for one in header["domain"]["references"])
    lines.append(f"    references when it was written: {known or 'none'}")
    info = [name.removeprefix("info.") for name in facts["columns"] if name.startswith("info.")]
    lines.append(f"info columns: {', '.join(info) or 'none'}")
    lines.append(f"metadata: {', '.join(header['metadata']) or 'none'}")
    return lines


def _run_words(facts: dict[str, Any]) -> list[str]:
    settings = ", ".join(f"{key} {value}" for key, value in facts["run"].items() if value is not None)
    return [
        f"{facts['file']}: an unfinished `spare fit`, {facts['trainings']} trainings are done",
        f"    it belongs to: {settings or 'nothing that can be read'}",
        "    run the same command to go on; --fresh starts again",
    ]
