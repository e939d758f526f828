"""What the runs say: seconds, ratios, likelihoods with their spread, and the share of the machine's peak."""

import math
import statistics

from peak import training_operations

WANTED = {"per predictor": 40.0, "whole search": 25.0}


def summarise(runs: dict, conditions: dict, training: dict) -> dict:
    """Medians over processes; likelihoods as mean and standard deviation over seeds."""
    return {
        "speed": speed(runs),
        "likelihood": likelihood(runs),
        "lists": [[ours["cold"]["best"], keras["best"]] for ours, keras in _pairs(runs)],
        "peak": share_of_peak(runs["spare"][0]["predictors"], conditions["peak"], training),
        "where": where_time_goes(runs["spare"]),
        "versions": {**runs["keras"][0]["versions"], **runs["spare"][0]["versions"], "python": conditions["python"]},
        "predictors": [[len(ours["cold"]["explored"]), len(keras["explored"])] for ours, keras in _pairs(runs)],
    }


def _pairs(runs: dict) -> list[tuple[dict, dict]]:
    return list(zip(runs["spare"], runs["keras"], strict=True))


def speed(runs: dict) -> list[dict]:
    """One line per way of measuring: SPARE, Keras, their ratio, and what is wanted of it."""
    measured, keras, warm = runs["spare"][0]["predictors"], runs["keras"], runs["spare"][0]["warm"]
    trained = [trial for run in keras for trial in run["explored"]]
    trial = {key: statistics.median(t[key] for t in trained) for key in ("seconds", "cpu")}
    searches = {
        side: {key: statistics.median(r[key] for r in rows) for key in ("seconds", "cpu")}
        for side, rows in (("ours", [run["cold"] for run in runs["spare"]]), ("keras", keras))
    }
    started = {
        "ours": {"seconds": statistics.median(r["imports"] + r["cold"]["seconds"] for r in runs["spare"])},
        "keras": {"seconds": statistics.median(r["imports"] + r["seconds"] for r in keras)},
    }
    within = {key: warm[key] / len(warm["explored"]) for key in ("seconds", "cpu")}
    lines = [
        _line("per predictor", measured["round"], trial),
        _line("per predictor, one thread", measured["alone"], trial),
        _line("per predictor, within a warm search", within, trial),
        _line("whole search", searches["ours"], searches["keras"]),
        _line("whole search, with start of the process", started["ours"], started["keras"]),
    ]
    if runs["tuned"]:
        (tuned,) = runs["tuned"]["explored"]
        lines.append(_line("per predictor, Keras with XLA and 32 steps a call", measured["round"], tuned))
    return lines


def _line(name: str, ours: dict, keras: dict) -> dict:
    line = {"name": name, "spare": ours["seconds"], "keras": keras["seconds"], "wanted": WANTED.get(name)}
    line["ratio"] = line["keras"] / line["spare"]
    if "cpu" in ours and "cpu" in keras:
        line["cpu_ratio"] = keras["cpu"] / ours["cpu"]
    return line


def likelihood(runs: dict) -> list[dict]:
    """Nats per transition (log p, higher is better) of each list that both sides trained on every seed."""
    lines = []
    for name in [trial["name"] for trial in runs["spare"][0]["cold"]["explored"]]:
        for kind in ("validation", "test"):
            ours = [_find(run["cold"]["explored"], name, kind) for run in runs["spare"]]
            keras = [_find(run["explored"], name, kind) for run in runs["keras"]]
            both = [(a, b) for a, b in zip(ours, keras, strict=True) if a is not None and b is not None]
            if both:
                lines.append({"name": name, "kind": kind, "seeds": len(both), **_agreement(*zip(*both, strict=True))})
    return lines


def _find(explored: list[dict], name: str, kind: str) -> float | None:
    found = [trial[kind] for trial in explored if trial["name"] == name and trial[kind] is not None]
    return -found[0] if found else None


def _agreement(ours: tuple[float, ...], keras: tuple[float, ...]) -> dict:
    """Means, standard deviations over seeds, and whether the means differ by no more than these together."""
    deviations = [statistics.stdev(side) if len(side) > 1 else math.nan for side in (ours, keras)]
    means = [statistics.fmean(side) for side in (ours, keras)]
    spread = math.hypot(*deviations)
    same = None if math.isnan(spread) else abs(means[0] - means[1]) <= spread
    return {"means": means, "deviations": deviations, "spread": spread, "same": same}


def share_of_peak(measured: dict, peak: dict, training: dict) -> dict:
    """GFLOP/s of SPARE's training: one thread against one thread's peak, a full round against that of all."""
    passes = training["epochs"] * len(training["phases"])
    work = training_operations(measured["rows"], measured["sizes"], list(training["hidden"]), passes) / 1e9
    rates = {"one": work / measured["alone"]["seconds"], "all": work / measured["round"]["seconds"]}
    cpu = work / measured["alone"]["cpu"]
    shares = {key: rates[key] / peak[key] for key in rates}
    return {"operations": work, "rates": rates, "peak": peak, "shares": shares, "per_cpu_second": cpu}


def where_time_goes(spare: list[dict]) -> dict:
    """Seconds of a cold search that the warm one did not need, and the rounds of both."""
    cold, warm = spare[0]["cold"], spare[0]["warm"]
    return {
        "imports": spare[0]["imports"],
        "cold": cold["seconds"],
        "warm": warm["seconds"],
        "compilation_cpu": cold["cpu"] - warm["cpu"],
        "programs": spare[0]["compiled"],
        "rounds": [cold["rounds"], warm["rounds"]],
    }
