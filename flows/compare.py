"""What changed between two trainings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from flows import report as reports
from flows.flips import compare_rows
from pipeline.drift import Change, rate_change
from storage.location import Location
from storage.run import Run

RATES = {"p0": "P(given 1 | true 0)", "p1": "P(given 0 | true 1)"}
NUMBERS = {
    "n_rows": "rows",
    "n_features": "features",
    "k": "k",
    "threshold": "threshold",
    "n_label_issues": "labels suspected wrong",
    "recall": "recall of neighbours",
    "support": "support of the rates",
}
"""Fields of a report that are compared → their names."""
SHOWN = 20
"""Differences of one kind that the text lists."""
Report = Mapping[str, Any]


def drift(before: Report, after: Report) -> dict[str, Any]:
    """Whether the noise rates moved beyond their intervals, from two reports.

    Returns
    -------
    rates : for p0 and p1 before, after, change, its 95 % interval, and the verdict steady,
        drifted, or unknown where a training's rates are unsupported or without an interval
    warnings : a sentence for each rate that drifted; empty where none did
    """
    reliable = all(
        r["support"] != "unsupported" and r["noise"] != "minmax" for r in (before, after)
    )
    changes: dict[str, Change] = {}
    for rate in RATES:
        sides = [(r[rate], tuple(r[f"{rate}_interval"])) for r in (before, after)]
        changes[rate] = rate_change(*sides, reliable=reliable)
    warnings = [
        f"{rate} = {RATES[rate]} {'rose' if c.change > 0 else 'fell'} from {c.before:.3f} to "
        f"{c.after:.3f}, by {abs(c.change):.3f} (95 % interval of the change {c.interval[0]:+.3f} "
        f"to {c.interval[1]:+.3f})"
        for rate, c in changes.items()
        if c.verdict == "drifted"
    ]
    return {"rates": {name: asdict(c) for name, c in changes.items()}, "warnings": warnings}


def compare(before: str, after: str) -> dict[str, Any]:
    """What changed from one finished training to another.

    Returns
    -------
    before, after : the two folders
    rates, warnings : as of `drift`
    numbers : n_rows, k, threshold, ... as (before, after)
    differences : parameters, source files and versions that differ, as (before, after)
    rows : as of `flips.compare_rows`

    Raises
    ------
    InputError
        a folder is not a finished run.
    StorageError
        verdicts are missing or damaged.
    """
    runs = Run(Location.of(before)), Run(Location.of(after))
    told = reports.load(runs[0]), reports.load(runs[1])
    return {
        "before": runs[0].location.url,
        "after": runs[1].location.url,
        **drift(*told),
        "numbers": {name: [told[0][name], told[1][name]] for name in NUMBERS},
        "differences": _differences(told[0]["config"], told[1]["config"]),
        "rows": compare_rows(runs, told),
    }


def _differences(before: Report, after: Report) -> dict[str, dict[str, list[Any]]]:
    def source(config: Report) -> dict[str, Any]:
        files = {f"{file['role']} {file['name']}": file for file in config["source"]["files"]}
        known = {name: file["digest"][:12] for name, file in files.items()}
        return {"label": config["label_name"], "kind": config["source"]["kind"], **known}

    return {
        "parameters": _differing(before["parameters"], after["parameters"]),
        "source": _differing(source(before), source(after)),
        "versions": _differing(before["versions"], after["versions"]),
    }


def _differing(before: Report, after: Report) -> dict[str, list[Any]]:
    names = [*before, *(name for name in after if name not in before)]
    pairs = {name: [before.get(name), after.get(name)] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def compare_text(found: Report) -> str:
    """The comparison as a person reads it."""
    lines = [
        f"before: {found['before']}",
        f"after:  {found['after']}",
        "",
        f"{'':<26}{'before':>11}{'after':>11}{'change':>9}  95 % interval",
    ]
    for rate, c in found["rates"].items():
        low, high = c["interval"]
        lines.append(
            f"  {rate} {RATES[rate]:<21}{c['before']:>11.3f}{c['after']:>11.3f}{c['change']:>+9.3f}"
            f"  {low:+.3f} to {high:+.3f}  {c['verdict']}"
        )
    for name, (a, b) in found["numbers"].items():
        lines.append(f"  {NUMBERS[name]:<24}{_shown(a):>11}{_shown(b):>11}")
    lines += ["", *(f"DRIFT: {line}" for line in found["warnings"])]
    for what, pairs in found["differences"].items():
        lines += [f"{what}: {line}" for line in _changed(pairs)]
    return "\n".join([*lines, *rows_text(found["rows"])]) + "\n"


def _changed(pairs: Report) -> Iterable[str]:
    for name, (a, b) in list(pairs.items())[:SHOWN]:
        yield f"{name} was {_shown(a)} and is {_shown(b)}"
    if len(pairs) > SHOWN:
        yield f"and {len(pairs) - SHOWN:,} more"


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def rows_text(rows: Report) -> list[str]:
    """What became of the rows, in a few lines."""
    if not rows["comparable"]:
        return [f"rows: not comparable one by one: {rows['reason']}"]
    return [
        f"rows: {rows['flipped']:,} of {rows['n_rows']:,} verdicts flipped ({rows['share']:.2%})",
        f"  predicted label: {rows['predicted_to_1']:,} became 1, {rows['predicted_to_0']:,} "
        "became 0",
        f"  given label: {rows['newly_suspect']:,} newly suspect, {rows['no_longer_suspect']:,} "
        f"no longer; {rows['given_changed']:,} were changed in the source",
    ]
