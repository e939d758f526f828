"""The page of `spare bench worlds`: for each world a table of learners by number of transitions, then every claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from spare.lab.experiments.claims import Claim
from spare.lab.experiments.known_claims import PARTS, Numbers, tally
from spare.lab.experiments.known_worlds import LEARNERS, LINKS
from spare.lab.experiments.statistics import Estimate, over_runs
from spare.lab.worlds.catalogue import ABOUT, BENCH
from spare.names import shown

VERDICTS = ("holds", "does not hold", "not decided", "no numbers")
GROUPS = {
    "near": "near the truth",
    "wide": "five times the objects",
    "long": "long chains",
    "ahead": "ahead of every rival",
    "not-empty": "no silent empty rule",
    "kinds": "hidden kinds",
    "covered": "coverage",
    "seconds": "seconds",
}
FURTHER = {"acted": "the action's own objects", "bystanders": "bystanders", "joint": "a whole next state (nats)"}


def page(
    numbers: Numbers, claims: Sequence[Claim], failed: Mapping[str, str], left_out: Mapping[str, str], quick: bool
) -> str:
    """The page as Markdown."""
    plan = numbers.plan
    lines = ["# Worlds with a known density", "", f"`{command(numbers, quick)}` wrote this page."]
    if quick:
        lines += ["", "**A quick look**: short trainings and few runs. Its verdicts mean little."]
    lines += [
        "",
        f"Nats per value on {plan.test} unseen transitions (higher is better), each value alone, every variance "
        f"including resolution²; means over {plan.seeds} data sets with 95 % intervals, every learner on the same "
        "transitions. Moved: changed by more than ten resolutions. The truth is the density that the data are drawn "
        "from; of a simulator, what repeats of the same action with other noise lead to.",
    ]
    lines += ["", *(f"- {name} is left out: {reason}" for name, reason in left_out.items())]
    lines += ["", "## Claims", "", *_tally(claims)]
    for world in plan.worlds:
        lines += ["", f"## {world}", "", ABOUT[world], *_world(numbers, world)]
    open_ones = [one for one in claims if one.verdict != "holds"]
    lines += ["", f"## Claims that do not hold or are not decided ({len(open_ones)} of {len(claims)})", ""]
    lines += _claims(open_ones)
    lines += ["", "## Claims that hold", "", *_claims([one for one in claims if one.verdict == "holds"])]
    if failed:
        lines += ["", "## Runs that failed", ""]
        lines += [f"- {escape(shown(f'{name}: {reason}'), quote=False)}" for name, reason in failed.items()]
    return "\n".join(lines) + "\n"


def command(numbers: Numbers, quick: bool) -> str:
    """What to type to make the page again."""
    plan = numbers.plan
    words = ["spare bench worlds"]
    if list(plan.worlds) != list(BENCH):
        words.append(f"--worlds {','.join(plan.worlds)}")
    words.append(f"--sizes {','.join(map(str, plan.sizes))} --seeds {plan.seeds}")
    return " ".join([*words, "--quick"] if quick else words)


def _tally(claims: Sequence[Claim]) -> list[str]:
    lines = ["| about | " + " | ".join(VERDICTS) + " |", "|---" * (1 + len(VERDICTS)) + "|"]
    for group, counts in tally(claims).items():
        cells = [str(counts.get(verdict, 0)) for verdict in VERDICTS]
        lines.append(f"| {GROUPS.get(group, group)} | " + " | ".join(cells) + " |")
    return lines


def _world(numbers: Numbers, world: str) -> list[str]:
    """Tables: moved and all objects at home and with five times the objects; then what else was measured of SPARE."""
    plan, lines = numbers.plan, []
    tests = {"home": "", "wide": ", five times the objects"}
    tests |= {str(k): f", chains of {k} links" for k in LINKS} if world == "chain" else {}
    for part, what in (*PARTS.items(), *FURTHER.items()):
        for test, where in tests.items() if part in PARTS else [("home", "")]:
            head = [f"*{what}{where}*", "", "| |" + "".join(f" {n:,} |" for n in plan.sizes)]
            rows = [_row(numbers, world, one, part, test) for one in LEARNERS if one in plan.learners]
            rows = [row for row in rows if row]  # not every world has bystanders, not every learner takes more objects
            lines += ["", *head, "|---" * (1 + len(plan.sizes)) + "|", *rows] if rows else []
    return [*lines, *_about(numbers, world)]


def _row(numbers: Numbers, world: str, learner: str, part: str, test: str) -> str:
    found = [over_runs(numbers.nats(world, learner, n, part, test)) for n in numbers.plan.sizes]
    if not any(one.runs for one in found):
        return ""
    return f"| {LEARNERS[learner]} | " + " | ".join(one.short() for one in found) + " |"


def _about(numbers: Numbers, world: str) -> list[str]:
    """Coverage and seconds of every learner; whether SPARE's rules are empty, and its notes."""
    plan = numbers.plan
    lines = ["", "*coverage of 90 % intervals on what moved / on all values; seconds of the fit*", ""]
    lines += ["| |" + "".join(f" {n:,} |" for n in plan.sizes), "|---" * (1 + len(plan.sizes)) + "|"]
    for learner in (one for one in LEARNERS if one in plan.learners):
        cells = []
        for samples in plan.sizes:
            inside = [
                over_runs(numbers.over(world, learner, samples, lambda one, key=key: one["tests"]["home"][key]))
                for key in ("covered", "covered_all")
            ]
            seconds = over_runs(numbers.over(world, learner, samples, lambda one: one.get("seconds")))
            cells.append(f"{_percent(inside[0])} / {_percent(inside[1])}; {_plain(seconds)}")
        lines.append(f"| {LEARNERS[learner]} | " + " | ".join(cells) + " |")
    for samples in plan.sizes:
        empty = numbers.over(world, "spare", samples, lambda one: one["empty"])
        if empty:
            lines += [
                "",
                f"At {samples:,} transitions SPARE's rule is empty in {int(sum(empty))} of {len(empty)} runs.",
            ]
            lines += [f"- {escape(shown(note), quote=False)}" for note in _notes(numbers, world, samples)]
    return lines


def _notes(numbers: Numbers, world: str, samples: int) -> list[str]:
    runs = numbers.plan.of(world, "spare", samples)
    found = [numbers.results.value(run) or {} for run in runs]
    return list(dict.fromkeys(note for one in found for note in one.get("notes", ())))


def _percent(one: Estimate) -> str:
    return f"{one.mean:.0%}" if one.runs else "-"


def _plain(one: Estimate) -> str:
    return f"{one.mean:.1f} s" if one.runs else "-"


def _claims(claims: Sequence[Claim]) -> list[str]:
    lines = ["| claim | required | found | verdict |", "|---|---|---|---|"]
    return lines + [f"| {one.says} | {one.bound} | {_found(one)} | {one.verdict} |" for one in claims]


def _found(claim: Claim) -> str:
    return str(claim.estimate) if claim.estimate.runs else "-"
