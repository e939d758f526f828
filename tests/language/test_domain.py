"""Domains are checked as a whole when they are made."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import spare
from spare.lab.worlds import queue as toy

X = spare.Property("x", resolution=0.1)
PUSH = spare.Action("push", objects=("target",))


def make(**changes: Any) -> spare.Domain:
    parts: dict[str, Any] = {"properties": [X], "references": [], "actions": [PUSH], **changes}
    return spare.Domain(parts.pop("name", "d"), **parts)


@pytest.mark.parametrize("name", ["", " ", "1x", "a b", "x" * 65, "x\n", "<b>", "é", None, 3])
def test_names_are_checked_everywhere(name: Any) -> None:
    for attempt in (
        lambda: spare.Property(name),
        lambda: spare.Action(name, objects=("t",)),
        lambda: spare.Action("a", objects=(name,)),
        lambda: spare.Action("a", objects=("t",), parameters=(name,)),
        lambda: spare.Reference(name, lambda o, p: o.x < p.x),
        lambda: make(name=name),
    ):
        with pytest.raises((spare.DefinitionError, TypeError)):  # the run-time type check may speak first
            attempt()


def test_duplicate_names_are_refused() -> None:
    left = spare.Reference("left", lambda o, p: o.x < p.x)
    for changes, message in (
        ({"properties": [X, X]}, "property 'x' appears twice"),
        ({"references": [left, left]}, "reference 'left' appears twice"),
        ({"actions": [PUSH, PUSH]}, "action 'push' appears twice"),
    ):
        with pytest.raises(spare.DefinitionError, match=message):
            make(**changes)
    with pytest.raises(spare.DefinitionError, match="action 'a': object role 't' appears twice"):
        spare.Action("a", objects=("t", "t"))
    with pytest.raises(spare.DefinitionError, match="parameter 'd' appears twice"):
        spare.Action("a", objects=("t",), parameters=("d", "d"))


@pytest.mark.parametrize("resolution", [0.0, -1.0, float("nan"), float("inf"), -1e-9])
def test_a_resolution_is_a_positive_number(resolution: float) -> None:
    with pytest.raises(spare.DefinitionError, match="property 'x': resolution must be a positive number"):
        spare.Property("x", resolution=resolution)


def test_a_name_where_names_are_expected_is_not_spelled_out() -> None:
    action: Any = spare.Action
    with pytest.raises((spare.DefinitionError, TypeError)):
        action("a", objects="ab")
    with pytest.raises((spare.DefinitionError, TypeError)):
        action("a", objects=("t",), parameters="dx")


def test_something_to_act_on_and_to_predict_is_needed() -> None:
    for changes, message in (
        ({"properties": []}, "at least one property"),
        ({"actions": []}, "at least one property and one action"),
        ({"properties": [spare.Property("w", static=True)]}, "every property is static"),
    ):
        with pytest.raises(spare.DefinitionError, match=message):
            make(**changes)
    assert make(actions=[spare.Action("a", objects=())]).actions[0].objects == ()


def test_formulas_are_traced_over_the_properties() -> None:
    formulas: tuple[tuple[Any, str], ...] = (
        (lambda o, p: o.z < p.z, "reference 'f': unknown property 'z'; valid: x"),
        (lambda o, p: o["nope"] < 1, "unknown property 'nope'; valid: x"),
        (lambda o, p: o.x - p.x, "reference 'f'"),
        (lambda o, p: (o.x > p.x).astype(jnp.int32), "Boolean per object"),
        (lambda o, p: jnp.zeros((2, 2), bool), "reference 'f'"),
        (lambda o, p: 1 / 0, "division by zero"),
        (lambda o, p: bool(o.x > p.x), "its formula fails on objects with properties x"),
    )
    reference: Any = spare.Reference
    for formula, message in formulas:
        with pytest.raises(spare.DefinitionError, match=message):
            make(references=[reference("f", formula)])
    with pytest.raises(spare.DefinitionError, match="unknown property 'z'"):
        make(references=[spare.Reference.closest("c", lambda o, p: o.z - p.z)])
    with pytest.raises(spare.DefinitionError, match="unknown property 'z'"):
        make(references=[spare.Reference("f", lambda o, p: o.z < p.z).closure()])


def test_properties_may_have_any_legal_name() -> None:
    for name in ("values", "one", "names", "x"):
        domain = make(
            properties=[X, spare.Property(name, resolution=0.1)] if name != "x" else [X],
            references=[spare.Reference("more", lambda o, p, name=name: getattr(o, name) > getattr(p, name))],
        )
        assert domain.reference("more").arity == 1


def test_unknown_names_are_answered_with_the_valid_ones(tray: spare.Domain) -> None:
    for attempt, message in (
        (lambda: tray.property("z"), "unknown property 'z'; valid: x, y, width"),
        (lambda: tray.reference("on"), "unknown reference 'on'; valid: beside, between"),
        (lambda: tray.action("jump"), "unknown action 'jump'; valid: slide, swap"),
        (lambda: tray.with_resolutions({"z": 1.0}), "unknown property 'z'"),
    ):
        with pytest.raises(spare.DefinitionError, match=message):
            attempt()


def test_shells_must_fit_the_action_and_the_arities(tray: spare.Domain) -> None:
    shell = spare.Shell(1, (spare.Pointer("beside", (0,)), spare.Pointer("between", (0, 1))))
    assert tray.check_shell(shell, "slide") is shell
    with pytest.raises(spare.DefinitionError, match="action 'swap' has 2 objects, the shell was made for 1"):
        tray.check_shell(shell, "swap")
    with pytest.raises(spare.DefinitionError, match=r"'between' takes 2 argument\(s\), the pointer gives \(0,\)"):
        tray.check_shell(spare.Shell(1, (spare.Pointer("between", (0,)),)), "slide")
    with pytest.raises(spare.DefinitionError, match="unknown reference 'on'"):
        tray.check_shell(spare.Shell(1, (spare.Pointer("on", (0,)),)), "slide")


def test_what_a_domain_says_of_itself(tray: spare.Domain) -> None:
    assert tray.property_names == ("x", "y", "width")
    assert tray.dynamic_names == ("x", "y")
    assert (tray.roles, tray.parameters, tray.resolved) == (2, 2, True)
    assert repr(tray) == "Domain('tray': properties x, y, width; references beside, between; actions slide, swap)"
    np.testing.assert_array_equal(tray.resolutions, [1e-3, 1e-3])


def test_fingerprints_follow_what_data_depends_on(tray: spare.Domain) -> None:
    def with_changes(**changes: Any) -> str:
        parts = {"properties": tray.properties, "references": tray.references, "actions": tray.actions, **changes}
        return spare.Domain(parts.pop("name", "tray"), **parts).fingerprint

    assert with_changes() == with_changes(references=()) == tray.fingerprint
    assert tray.with_resolutions({"x": 5.0}).fingerprint == tray.fingerprint
    assert tray.with_resolutions({"x": 5.0}) != tray
    different = {
        with_changes(name="other"),
        with_changes(properties=tray.properties[::-1]),
        with_changes(properties=(*tray.properties[:2], spare.Property("width"))),
        with_changes(actions=tray.actions[:1]),
        tray.fingerprint,
    }
    assert len(different) == 5


def test_open_resolutions_are_an_error_until_filled() -> None:
    domain = make(properties=[X, spare.Property("y"), spare.Property("w", static=True)])
    assert not domain.resolved
    with pytest.raises(spare.DefinitionError, match=r"no resolution for y; .*experience.resolved\(\)"):
        _ = domain.resolutions
    np.testing.assert_array_equal(domain.with_resolutions({"y": 0.5}).resolutions, [0.1, 0.5])


def test_frames_are_checked() -> None:
    def frame(**changes: Any) -> spare.Frame:
        parts: dict[str, Any] = {
            "origin": lambda t, a: (t.x, t.y),
            "heading": lambda t, a: a.d,
            "positions": (("x", "y"),),
        }
        return spare.Frame(**{**parts, **changes})

    def domain(one: spare.Frame) -> spare.Domain:
        properties = [X, spare.Property("y", resolution=0.1), spare.Property("w", static=True)]
        return make(properties=properties, actions=[spare.Action("a", ("t",), ("d",), frame=one)])

    assert domain(frame()).actions[0].frame is not None
    for wrong in ({"positions": ()}, {"positions": (("x",),)}, {"directions": (("d",),)}):
        with pytest.raises(spare.DefinitionError, match="frame"):
            frame(**wrong)
    for wrong, message in (
        ({"positions": (("x", "w"),)}, "frame property 'w' is static"),
        ({"positions": (("x", "q"),)}, "unknown property 'q'"),
        ({"positions": (("x", "y"), ("d", "e"))}, "unknown parameter 'e'; valid: d"),
    ):
        with pytest.raises(spare.DefinitionError, match=message):
            domain(frame(**wrong))


def test_the_toy_domain_is_as_documented() -> None:
    assert toy.domain.property_names == ("x", "y", "mass")
    assert toy.domain.dynamic_names == ("x", "y")
