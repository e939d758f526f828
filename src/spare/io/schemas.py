"""The schema of a domain in a file (`Domain.schema`): checked for form without the domain, and compared with one.

Files name things and never hold code. Every name in a checked schema is safe to print.
"""

from __future__ import annotations

from typing import Any

from spare.errors import DefinitionError, FileError
from spare.names import check_identifier, check_label, check_unique, shown

MOST = 256
MOST_THINGS = 4096
"""Properties, types, relations, references or actions of a domain."""
_KINDS = {
    **{"properties": "property", "actions": "action", "references": "reference"},
    **{"types": "type", "relations": "relation"},
}


def damaged(text: str) -> FileError:
    """The error for a manifest or header that does not have the form it should."""
    return FileError(f"its manifest is damaged: {text}")


def check_format(header: dict[str, Any], newest: int) -> None:
    """Refuse a header that states no format, or one that this version does not know."""
    version = header.get("format")
    if type(version) is not int or version < 1:
        raise damaged("it does not say which format it has")
    if version > newest:
        raise FileError(
            f"written by a newer SPARE (format {version}, this one reads up to {newest}); "
            "install a newer version to read it"
        )


def listed(value: Any, what: str, most: int = MOST) -> list[Any]:
    """A list of at most `most` things."""
    if not isinstance(value, list) or len(value) > most:
        raise damaged(f"{what} is not a list of at most {most}")
    return value


def entry(value: Any, what: str, keys: set[str]) -> dict[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(value, dict):
        raise damaged(f"{what} is {type(value).__name__}, not an object")
    for key in sorted({*keys, *value}):
        if key not in value or key not in keys:
            name = value.get("name")
            who = f"{what} {name[:64]!r}" if isinstance(name, str) else what
            raise damaged(f"{who} {'lacks' if key in keys else 'has an unknown'} {key[:64]!r}")
    return value


def check_schema(value: Any) -> dict[str, Any]:
    """The schema, if it could have come from a `Domain`."""
    schema = entry(
        value, "domain", {"name", "properties", "references", "actions"} | _also(value, "types", "relations")
    )
    try:
        check_label("domain", schema["name"])
        for one in listed(schema["properties"], "properties", MOST_THINGS):
            _check_property(one)
        for one in listed(schema["references"], "references", MOST_THINGS):
            _check_reference(entry(one, "reference", {"name", "arity", "relation", "aggregators"}))
        for one in listed(schema["actions"], "actions", MOST_THINGS):
            _check_action(entry(one, "action", {"name", "objects", "parameters"} | _also(one, "types", "kinds")))
        for one in listed(schema.get("types", []), "types", MOST_THINGS):
            _check_type(entry(one, "type", {"name", "properties"}), schema["properties"])
        for one in listed(schema.get("relations", []), "relations", MOST_THINGS):
            _check_relation(entry(one, "relation", {"name", "source", "target", "static", "acyclic"}))
        for kind, one in _KINDS.items():
            check_unique(one, [thing["name"] for thing in schema.get(kind, [])], "domain")
    except DefinitionError as error:
        raise damaged(str(error)) from error
    return schema


def _also(value: Any, *names: str) -> set[str]:
    """Those of these keys that are there."""
    return {name for name in names if isinstance(value, dict) and name in value}


def _check_type(one: dict[str, Any], properties: list[dict[str, Any]]) -> None:
    check_identifier("type", one["name"])
    known = {prop["name"] for prop in properties}
    for name in listed(one["properties"], f"properties of {one['name']!r}", MOST_THINGS):
        if not isinstance(name, str) or name not in known:
            raise damaged(f"type {one['name']!r} has a property that the domain does not have")


def _check_relation(one: dict[str, Any]) -> None:
    check_identifier("relation", one["name"])
    for side in ("source", "target"):
        for name in listed(one[side], f"{side} of {one['name']!r}", MOST_THINGS):
            check_identifier("type", name)
    if not isinstance(one["static"], bool) or not isinstance(one["acyclic"], bool):
        raise damaged(f"relation {one['name']!r} does not say whether it is static or acyclic")


def _check_kind(what: str, kind: Any) -> None:
    if not (isinstance(kind, dict) and isinstance(kind.get("name"), str)):
        raise damaged(f"{what} has no proper kind")
    check_identifier("kind", kind["name"])


def _check_property(value: Any) -> None:
    special = isinstance(value, dict) and "kind" in value
    one = entry(value, "property", {"name", "unit", "static"} | ({"kind"} if special else set()))
    check_identifier("property", one["name"])
    if special:
        _check_kind(f"property {one['name']!r}", one["kind"])
    unit = one["unit"]
    if not isinstance(unit, str) or not unit.isprintable() or len(unit) > 16 or not isinstance(one["static"], bool):
        raise damaged(f"property {one['name']!r} has no proper unit, or does not say whether it is static")


def _check_reference(one: dict[str, Any]) -> None:
    check_label("reference", one["name"])
    relation = one["relation"]
    if type(one["arity"]) is not int or not 0 <= one["arity"] <= 16:
        raise damaged(f"reference {one['name']!r} has no proper arity")
    if not isinstance(relation, str) or not relation.isprintable() or len(relation) > 1024:
        raise damaged(f"reference {one['name']!r} does not say what it is made of")
    for how in listed(one["aggregators"], f"aggregators of {one['name']!r}", 8):
        check_identifier("aggregator", how)


def _check_action(one: dict[str, Any]) -> None:
    check_label("action", one["name"])
    for role in listed(one["objects"], f"objects of {one['name']!r}"):
        check_identifier("object role", role)
    for parameter in listed(one["parameters"], f"parameters of {one['name']!r}"):
        check_identifier("parameter", parameter)
    for names in listed(one.get("types", []), f"types of {one['name']!r}"):
        for name in listed(names, f"types of {one['name']!r}", MOST_THINGS):
            check_identifier("type", name)
    for kind in listed(one.get("kinds", []), f"kinds of {one['name']!r}"):
        _check_kind(f"action {one['name']!r}", kind)


def differences(theirs: dict[str, Any], ours: dict[str, Any], kind: str) -> list[str]:
    """What differs between a file's properties, actions or references and a domain's, one phrase each."""
    one, there = _KINDS[kind], {thing["name"]: thing for thing in theirs.get(kind, [])}
    here = {thing["name"]: thing for thing in ours.get(kind, [])}
    found = [
        f"{one} {name!r} is missing from the domain (it has {', '.join(here)})" for name in there if name not in here
    ]
    for name in there:
        if name in here and there[name] != here[name]:
            changes = [
                f"{key} {_text(value)} in the file, {_text(here[name].get(key))} in the domain"
                for key, value in there[name].items()
                if value != here[name].get(key)
            ]
            found.append(f"{one} {name!r} is different: {'; '.join(changes)}")
    if kind != "references":
        found += [f"{one} {name!r} of the domain is not in the file" for name in here if name not in there]
        if not found and list(there) != list(here):
            found.append(f"the order is {', '.join(there)} in the file, {', '.join(here)} in the domain")
    return found


def _text(value: Any) -> str:
    return ", ".join(map(shown, value)) or "none" if isinstance(value, list) else shown(value)
