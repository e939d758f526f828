"""What a user must be told of what was learned, and what to try: failures first."""

from __future__ import annotations

from collections.abc import Sequence

from spare.language.references import EVERYONE
from spare.learning.general.learn import GeneralResult

MANY = 0.1
"""From this share of changed objects on that no head predicts, it is said."""
OFTEN = 0.02
"""So many changed objects per transition, besides the action's own, are worth a word."""


def failures(results: Sequence[GeneralResult]) -> list[str]:
    """Sentences about what was not learned, one action after another."""
    found = []
    for one in results:
        found += _of(one)
    return found


def _of(result: GeneralResult) -> list[str]:
    rule, name, notes = result.rule, result.action, []
    roles = rule.spec.shell.roles
    slots = [head.spec.slot for head in rule.heads]
    others = [slot for slot in slots if slot >= roles]
    dense = [slot for slot in others if rule.spec.shell.pointers[slot - roles].reference == EVERYONE]
    if not slots and result.process == "stay":
        notes.append(
            f"action {name!r}: NOTHING WAS LEARNED: no change is predicted better than 'everything stays'. Do its "
            "effects depend on something that is not among the properties and parameters? Are there enough transitions?"
        )
    elif result.changed > OFTEN and not others and result.uncovered > MANY:
        notes.append(
            f"action {name!r}: {result.changed:.2g} other objects change per transition and NONE OF THEM IS PREDICTED: "
            "no reference, and no head over all objects, says which ones or how. Try a reference that points at them, "
            "a property that tells them apart, an action frame, or more transitions"
        )
    elif result.changed > OFTEN and result.uncovered > MANY:
        notes.append(
            f"action {name!r}: {result.uncovered:.0%} of the other objects that change are not predicted. Try a "
            "reference that points at them, or more transitions"
        )
    if dense:
        whom = "everyone" if len(others) == len(dense) else "everyone else"
        notes.append(
            f"action {name!r}: the references do not say who changes, so one head predicts {whom}: as accurate, "
            "but less readable. Try a reference that points at those who change"
        )
    return notes
