"""The JSON manifest of a model file, checked for form without the domain.

    format       1; a newer one is refused
    check        16 hex digits of a SHA-256 over the rest of the manifest and every tensor
    domain       the domain's schema with the references that are used
    fingerprint  of the domain
    resolutions  of every property that can change
    formulas     what the code of the domain computes, as far as the model uses it: versions of JAX and Python, and
                 digests of the program and of a probe of each reference, frame, and kind that is not SPARE's own
    rules        `RuleSpec.to_json`, whether it has outliers and a copula, and a description of its predictor; numbers
                 are in tensors `rule.<k>.<name>`, but for `origins`, which have 64 bits and are there if needed; where
                 it is known, the names of inputs whose ranges are kept
    provenance   versions, seed, preset, fingerprint of the data; `notes` are sentences of the fit for people

This module does not need JAX, so that a file can be inspected at once.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from spare.errors import DefinitionError, FileError
from spare.io import strictjson, tensors
from spare.io.schemas import MOST, check_format, check_schema, damaged, entry, listed
from spare.names import check_identifier, check_label

FORMAT = 1
MOST_RULES = 1024
MOST_POINTERS = 64
MOST_ENTRIES = 1 << 16
LARGEST_ORIGIN = 1e38
LONGEST_NOTE = 2000
_KEY = "spare"
_HEAD_RULE = {"action", "gamma", "required", "framed", "heads", "process", "gate"}
_HEAD = {"slot", "inputs", "outcomes", "pinned", "scope", "relative", "network"}
_PARTS = {"format", "check", "domain", "fingerprint", "resolutions", "formulas", "rules", "provenance"}
_RULE = {
    *("action", "gamma", "delta", "targets", "inputs"),
    *("framed", "dropped", "extra", "outliers", "copula", "predictor"),
}


Manifest = dict[str, Any]
Tensors = Mapping[str, np.ndarray]


def digest(manifest: Manifest, arrays: Tensors) -> str:
    """16 hex digits over everything in the file except themselves."""
    stated = {key: value for key, value in manifest.items() if key != "check"}
    return tensors.digest(arrays, json.dumps(stated, sort_keys=True).encode())


def encode(manifest: Manifest, arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a model file, sealed with its check."""
    strictjson.write(manifest, "the manifest")
    sealed = {**manifest, "check": digest(manifest, arrays)}
    return tensors.encode(arrays, {_KEY: strictjson.write(sealed, "the manifest")})


def decode(data: bytes) -> tuple[Manifest, dict[str, np.ndarray]]:
    """(manifest, tensors) of the bytes of a model file, checked for form but not for meaning."""
    metadata, arrays = tensors.decode(data)
    if _KEY not in metadata:
        raise FileError("a safetensors file, but not one of SPARE's: it has no manifest")
    manifest = strictjson.parse(metadata[_KEY], "its manifest")
    if not isinstance(manifest, dict):
        raise damaged("it is not an object")
    check_format(manifest, FORMAT)
    if manifest.get("check") != digest(manifest, arrays):
        raise FileError("damaged: its content does not agree with its check sum; copy or download it again")
    for name, array in arrays.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise FileError(f"tensor {name!r} is not made of finite 32-bit numbers")
    return check_manifest(manifest), arrays


def read(path: str | os.PathLike[str]) -> tuple[Manifest, dict[str, np.ndarray]]:
    """(manifest, tensors) of a model file."""
    data = tensors.read_bytes(path)
    try:
        return decode(data)
    except FileError as error:
        raise FileError(f"{pathlib.Path(path)}: {error}") from error


def check_manifest(value: Any) -> Manifest:
    """The manifest, if every part has the form it should; whether it fits a domain is checked when it is loaded."""
    try:
        return _check(entry(value, "the manifest", _PARTS))
    except DefinitionError as error:
        raise damaged(str(error)) from error


def _check(manifest: Manifest) -> Manifest:
    schema = check_schema(manifest["domain"])
    if not _hex(manifest["fingerprint"]):
        raise damaged("the domain's fingerprint is not 16 hex digits")
    _check_resolutions(manifest["resolutions"])
    _check_formulas(entry(manifest["formulas"], "formulas", {"versions", "references", "frames", "kinds"}))
    known = {reference["name"] for reference in schema["references"]}
    for k, rule in enumerate(listed(manifest["rules"], "rules", MOST_RULES)):
        label = f"rule {k + 1}"
        more = {"familiar", "origins"} & {*rule} if isinstance(rule, dict) else set()
        if isinstance(rule, dict) and "heads" in rule:
            _check_head_rule(label, entry(rule, label, _HEAD_RULE | more), known)
            continue
        _check_rule(label, entry(rule, label, _RULE | more), known)
    _check_provenance(manifest["provenance"], len(manifest["rules"]))
    return manifest


def _check_resolutions(value: Any) -> None:
    if not isinstance(value, dict):
        raise damaged("the resolutions are not listed by property")
    for name, number in value.items():
        check_identifier("property", name)
        if not _positive(number):
            raise damaged(f"the resolution of {name!r} is {str(number)[:32]!r}, not a positive number")


def _check_formulas(formulas: dict[str, Any]) -> None:
    for name, version in entry(formulas["versions"], "versions", {"jax", "python"}).items():
        if not isinstance(version, str) or not version.isprintable() or len(version) > 64:
            raise damaged(f"the version of {name} is {str(version)[:32]!r}")
    for kind in ("references", "frames", "kinds"):
        if not isinstance(formulas[kind], dict) or len(formulas[kind]) > MOST:
            raise damaged(f"the formulas of {kind} are not listed by name")
        for name, one in formulas[kind].items():
            check_label("formula", name)
            found = entry(one, f"the formula of {name!r}", {"program", "probe"})
            probe = found["probe"] if kind != "references" else [found["probe"]]
            for number in listed(probe, f"the probe of {name!r}"):
                if not (_hex(number) if kind == "references" else type(number) in (int, float)):
                    raise damaged(f"the probe of {name!r} holds {str(number)[:32]!r}")
            if not _hex(found["program"]):
                raise damaged(f"the program of {name!r} is not 16 hex digits")


def _hex(mark: Any) -> bool:
    return isinstance(mark, str) and len(mark) == 16 and mark.isalnum() and mark.isascii()


def _positive(number: Any) -> bool:
    return type(number) in (int, float) and 0 < number < 1e300 and math.isfinite(number)


def _check_rule(label: str, rule: dict[str, Any], known: set[str]) -> None:
    check_label("action", rule["action"])
    for name in ("gamma", "delta"):
        for pointer in listed(rule[name], f"{label}, {name}", MOST_POINTERS):
            _check_pointer(f"{label}, {name}", pointer, known)
    for name in ("targets", "inputs"):
        for one in listed(rule[name], f"{label}, {name}"):
            check_identifier(name, one)
    for name in ("dropped", "extra", "familiar"):
        _check_entries(label, name, rule.get(name, []))
    _check_origins(label, rule.get("origins", []))
    for name in ("framed", "outliers", "copula"):
        if not isinstance(rule[name], bool):
            raise damaged(f"{label}: {name!r} is neither true nor false")
    _check_predictor(label, rule["predictor"])


def _check_entries(label: str, name: str, value: Any) -> None:
    for one in listed(value, f"{label}, {name}", MOST_ENTRIES):
        if not isinstance(one, str) or not one.isprintable() or not 0 < len(one) <= 256:
            raise damaged(f"{label}: one of its {name} features is called {str(one)[:64]!r}")


def _check_head_rule(label: str, rule: dict[str, Any], known: set[str]) -> None:
    """A rule with heads: its list, and what each head, its process and its gate say of themselves."""
    check_label("action", rule["action"])
    for pointer in listed(rule["gamma"], f"{label}, gamma", MOST_POINTERS):
        _check_pointer(f"{label}, gamma", pointer, known | {"everyone"})
    for slot in listed(rule["required"], f"{label}, required", MOST_POINTERS):
        _check_slot(label, slot)
    if not isinstance(rule["framed"], bool):
        raise damaged(f"{label}: 'framed' is neither true nor false")
    _check_entries(label, "familiar", rule.get("familiar", []))
    _check_origins(label, rule.get("origins", []))
    heads = listed(rule["heads"], f"{label}, heads", MOST_POINTERS)
    for k, head in enumerate([*heads, rule["process"]]):
        one = entry(head, f"{label}, head {k + 1}", _HEAD)
        _check_slot(label, one["slot"])
        if (
            type(one["outcomes"]) is not int
            or not all(isinstance(one[n], bool) for n in ("pinned", "relative"))
            or not isinstance(one["scope"], str)
        ):
            raise damaged(f"{label}: head {k + 1} has no outcomes")
        _check_network(label, one)
    if rule["gate"] is not None:
        _check_network(label, entry(rule["gate"], f"{label}, gate", {"inputs", "network"}))


def _check_slot(label: str, slot: Any) -> None:
    if type(slot) is not int or not 0 <= slot < 1024:
        raise damaged(f"{label}: slot {str(slot)[:32]!r}")


def _check_network(label: str, part: dict[str, Any]) -> None:
    """Names of inputs, and a description of a network or None."""
    for one in listed(part["inputs"], f"{label}, inputs", MOST_ENTRIES):
        if not isinstance(one, str) or not one.isprintable() or not 0 < len(one) <= 256:
            raise damaged(f"{label}: one of its inputs is called {str(one)[:64]!r}")
    if part["network"] is not None:
        entry(part["network"], f"{label}, network", {"activation", "layers"})


def _check_origins(label: str, value: Any) -> None:
    for number in listed(value, f"{label}, origins", 2 * MOST):
        if type(number) not in (int, float) or not abs(number) < LARGEST_ORIGIN:
            raise damaged(f"{label}: one of its origins is {str(number)[:32]!r}, not a number")


def _check_predictor(label: str, value: Any) -> None:
    """A kind of predictor and what it says of itself; the class that is registered for the kind checks the rest."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise damaged(f"{label}: its predictor has no kind")
    check_label("predictor", value["kind"])


def _check_pointer(label: str, pointer: Any, known: set[str]) -> None:
    if len(listed(pointer, label, 2)) != 2:
        raise damaged(f"{label}: a pointer is a name and a list of slots")
    name, slots = pointer
    check_label("reference", name)
    if name not in known:
        raise damaged(f"{label}: reference {name!r} is not among the references it lists")
    for slot in listed(slots, f"{label}: arguments of {name!r}", 16):
        if type(slot) is not int or not 0 <= slot < 1024:
            raise damaged(f"{label}: {name!r} points at slot {str(slot)[:32]!r}")


def _check_provenance(value: Any, rules: int) -> None:
    """JSON values; what is shown to people must be what it is called: shares of rules, notes."""
    if not isinstance(value, dict):
        raise damaged("the provenance is not an object")
    for one in listed(value.get("rules", []), "provenance, rules", rules):
        number: Any = one.get("share") if isinstance(one, dict) else None
        typical: Any = one.get("typical") if isinstance(one, dict) else None
        if type(number) not in (int, float) or not 0 <= number <= 1 or type(typical) is not int or typical < 0:
            raise damaged("a rule's share of the samples is not a share")
    for note in listed(value.get("notes", []), "provenance, notes", MOST):
        if not isinstance(note, str) or not note.isprintable() or not 0 < len(note) <= LONGEST_NOTE:
            raise damaged(f"one of the notes is {str(note)[:64]!r}, not a sentence")
