"""The summary as text for a terminal and as the page docs/bench-keras.md."""

import math
import statistics


def _speed_rows(summary: dict) -> list[list[str]]:
    rows = []
    for line in summary["speed"]:
        wanted = "" if line["wanted"] is None else f"{line['wanted']:.0f}: {_verdict(line['ratio'] >= line['wanted'])}"
        cpu = f"{line['cpu_ratio']:.1f}" if "cpu_ratio" in line else ""
        rows.append([line["name"], f"{line['spare']:.2f}", f"{line['keras']:.2f}", f"{line['ratio']:.1f}", cpu, wanted])
    return rows


def _verdict(holds: bool | None) -> str:
    return "" if holds is None else "yes" if holds else "no"


def _likelihood_rows(summary: dict) -> list[list[str]]:
    rows = []
    for line in summary["likelihood"]:
        sides = [f"{mean:.1f} ± {sd:.1f}" for mean, sd in zip(line["means"], line["deviations"], strict=True)]
        rows.append([line["name"], line["kind"], str(line["seeds"]), *sides, _verdict(line["same"])])
    return rows


def _by_chance(summary: dict) -> float:
    """P(|difference of means| > both deviations together) for n seeds of equal normal sides, deviations known."""
    seeds = statistics.median(line["seeds"] for line in summary["likelihood"])
    return math.erfc(math.sqrt(seeds / 2))


SPEED = ["seconds", "SPARE", "Keras", "ratio", "ratio of processor time", "wanted"]
LIKELIHOOD = ["list of references", "data", "seeds", "SPARE", "Keras", "same within spread"]


def _peak_lines(summary: dict) -> list[str]:
    peak = summary["peak"]
    return [
        f"One predictor is {peak['operations']:.1f} GFLOP of matrix products. "
        f"One thread: {peak['rates']['one']:.0f} of {peak['peak']['one']:.0f} GFLOP/s ({peak['shares']['one']:.0%}); "
        f"all cores: {peak['rates']['all']:.0f} of {peak['peak']['all']:.0f} GFLOP/s ({peak['shares']['all']:.0%}); "
        f"per second of processor time: {peak['per_cpu_second']:.0f} GFLOP.",
    ]


def _where_lines(summary: dict) -> list[str]:
    where = summary["where"]
    rounds = "; ".join(", ".join(f"{seconds:.1f}" for seconds in side) for side in where["rounds"])
    return [
        f"SPARE's own time: imports {where['imports']:.1f} s; a cold search {where['cold']:.1f} s, the same one warm "
        f"{where['warm']:.1f} s; {where['programs']} programs compiled, {where['compilation_cpu']:.1f} s of processor "
        f"time more than warm; seconds by round, cold and warm: {rounds}.",
    ]


def table(summary: dict) -> str:
    """Columns for a terminal."""
    parts = [_columns([SPEED, *_speed_rows(summary)]), _columns([LIKELIHOOD, *_likelihood_rows(summary)])]
    parts += ["\n".join(_peak_lines(summary)), "\n".join(_where_lines(summary))]
    return "\n\n".join(parts)


def _columns(rows: list[list[str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _markdown_table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def markdown(summary: dict, conditions: dict) -> str:
    """The page: the command, the conditions, the tables, and what they do and do not say."""
    train, test = conditions["transitions"]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(summary["versions"].items()))
    trained = ", ".join(f"{ours} and {keras}" for ours, keras in summary["predictors"])
    lists = "\n".join(f"- SPARE `{ours}`; Keras `{keras}`" for ours, keras in summary["lists"])
    return f"""# SPARE and plain Keras on the paper's greedy search

`{conditions["command"]}` measured this page and wrote it.

The same greedy search (algorithm 1, preset `paper`: two 2 x 150 ReLU networks, Adam, batch 32, 25-epoch phases
M V M V M, validation loss decides, at most {conditions["longest"]} references) on the
same {train} training and {test} test transitions of the push world ({conditions["objects"]:.1f} objects each), with the
same split for the same seed. Keras gets its numbers from SPARE's own extraction, which
is not counted against it; SPARE's extraction is counted. The two run by turns, never at once. SPARE's search
starts in a fresh process with no compilation cache: compiling is counted.

{_markdown_table([SPEED, *_speed_rows(summary)])}

*Per predictor* is one training of five phases: for SPARE in a round with four candidates a core, compiled before (two
references above, or one if that is the most; its median); for Keras the median over every training of its searches,
one after the other, as `model.fit` is used; TensorFlow may use all cores. *Whole search* is the median over seeds of
the search, compilation included, imports not. Predictors trained (SPARE and Keras, by seed): {trained}.
Processor time counts all
threads: it does not see that SPARE keeps every core busy, but hardly depends on who else uses the machine. With
`--tuned` a line shows Keras with `jit_compile=True, steps_per_execution=32`, its compilation counted.

## Likelihood
Mean log p in nats per transition, all objects, ± standard deviation over seeds (split and initial weights both differ);
*same* means that the means differ by no more than both deviations together. That is a strict rule: two equal sides
break it by chance in about {_by_chance(summary):.0%} of rows. SPARE keeps a model, hence a test
likelihood, of each round's best only; a list appears for the seeds where both sides trained it.

{_markdown_table([LIKELIHOOD, *_likelihood_rows(summary)])}

Lists found, by seed:
{lists}

## Share of the machine
{" ".join(_peak_lines(summary))} The peak is the best of several 2048 x 2048 float32 products in the same run. Counted
are products at real sizes, forward and backward; not Adam, activations, shuffling or padding.

{" ".join(_where_lines(summary))}

## Conditions
{conditions["cores"]} cores ({conditions["processor"]}); load average before each process, SPARE then Keras: \
{", ".join(f"{load:.1f}" for load in conditions["load"])}. A load above 0 before a process means that others used the
machine, and that seconds, and ratios of seconds, are no measurement of the machine by itself.

{versions}.
"""
