"""What changed between two trainings."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from flows.engine.results import LabelValue
from flows.report import content as reports
from flows.report.model import Frozen, Rate, RunConfig, Training
from flows.steps.graph.lookup import pick
from pipeline.arrays import Int64
from pipeline.blocks.sampling import Greatest
from pipeline.diagnostics.drift import Change, flipped, flips, rate_change
from storage.arrays.groups import read_array
from storage.errors import as_text, listed
from storage.runs.run import Run, below
from storage.version import FORMAT_VERSION, OLDEST_READ

COLUMNS = ("given_label", "predicted_label", "label_quality", "is_label_issue")
ROWS = 20
"""Rows listed, those whose label quality changed most."""
CHUNK_ROWS = 1 << 18

Pair = tuple[Any, Any]
"""A value before and after."""
NUMBERS = {
    "n_rows": "rows",
    "n_features": "features",
    "k": "k",
    "threshold": "threshold",
    "n_label_issues": "labels suspected wrong",
    "recall": "recall of neighbors",
    "support": "support of the rates",
}
"""Fields of a report that are compared → their names."""
MOST_CLASSES = 100
"""Classes whose drift is shown."""
SHOWN = 20
"""Differences of one kind that the text lists."""


@dataclass(frozen=True)
class Flips:
    """Verdicts that differ between two trainings on the same rows; numbers of rows."""

    n_rows: int
    given_changed: int
    predicted_changed: int
    predicted_to_1: int | None
    """Of two classes; else None."""
    predicted_to_0: int | None
    newly_suspect: int
    no_longer_suspect: int
    flipped: int
    """Rows whose predicted label or verdict differs."""
    share: float
    largest: list[dict[str, Any]]
    """At most `ROWS` of these, greatest change of label quality first: row, and a pair by the name
    of each of `COLUMNS`."""
    comparable: bool = True


@dataclass(frozen=True)
class Incomparable:
    """Why rows of two trainings cannot be compared."""

    reason: str
    comparable: bool = False


def compare_rows(runs: tuple[Run, Run], reports: tuple[Training, Training]) -> Flips | Incomparable:
    """Counts of verdicts that flipped, and the rows that changed most."""
    reason = difference(runs, reports)
    if reason is not None:
        return Incomparable(reason)
    counts: Counter[str] = Counter()
    most = Greatest(ROWS)
    for start in range(0, reports[0].n_rows, CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        before, after = (
            {name: read_array(run.group("labels"), name, rows) for name in COLUMNS} for run in runs
        )
        counts.update(flips(before, after))
        here = np.flatnonzero(flipped(before, after))
        step = after["label_quality"][here].astype(np.float64) - before["label_quality"][here]
        most.see(start + here, np.abs(step))
    share = counts["flipped"] / counts["n_rows"]
    fields: dict[str, Any] = dict(counts)
    if len(reports[0].classes) > 2:
        fields |= dict.fromkeys(("predicted_to_1", "predicted_to_0"))
    return Flips(**fields, share=share, largest=_largest(runs, most.row))


def difference(runs: tuple[Run, Run], reports: tuple[Training, Training]) -> str | None:
    """Why the rows of two trainings cannot be compared; None where they can.

    They can if their features are stored as equal bytes, by the sizes and checksums in both
    ledgers, and labels have the same classes; the labels themselves may differ.
    """
    a, b = reports
    for run in runs:
        if (made := run.config(OLDEST_READ)["format_version"]) != FORMAT_VERSION:
            return f"{run.location.name} is of format version {made}, this is {FORMAT_VERSION}"
    if a.n_rows != b.n_rows:
        return f"the pools have {a.n_rows:,} and {b.n_rows:,} rows"
    if _stored(runs[0]) != _stored(runs[1]):
        return "the pools have as many rows, but their features differ"
    if a.label_values != b.label_values:
        return f"labels are {a.label_values} and {b.label_values}"
    return None


def _stored(run: Run) -> dict[str, tuple[int, str]]:
    """Size and checksum of every chunk of features."""
    return {
        key: stored
        for record in run.ledger.records("ingest-pool").values()
        for key, stored in record.files.items()
        if "/pool/x/" in key
    }


def _largest(runs: tuple[Run, Run], rows: Int64) -> list[dict[str, Any]]:
    columns = [
        zip(*(pick(run, "labels", name, rows).tolist() for run in runs), strict=True)
        for name in COLUMNS
    ]
    every = zip(rows.tolist(), *columns, strict=True)
    return [dict(zip(("row", *COLUMNS), one, strict=True)) for one in every]


class Drift(Frozen):
    """Whether the noise rates moved beyond their intervals."""

    rates: dict[str, Change]
    """p0 and p1, or for each of more classes the share of its rows that are labeled as another;
    unknown where a training's rates are unsupported or without an interval."""
    meanings: dict[str, str]
    """What each rate is."""
    label_values: list[LabelValue] | None = None
    """Of both trainings, where they are the same."""
    warnings: list[str]
    """A sentence per rate that drifted, and one if rates are no longer known."""
    features: str | None = None
    """How features and classes differ, if they do: then it need not be the noise that changed."""
    titles: dict[str, str] = Field(default={}, exclude=True)
    """How a table calls each rate."""


class Comparison(Drift):
    """What changed from one finished training to another."""

    before: str
    after: str
    """The two folders."""
    numbers: dict[str, Pair]
    """n_rows, k, threshold, …"""
    differences: dict[str, dict[str, Pair]]
    """Parameters, source files and versions that differ."""
    rows: Flips | Incomparable


def drift(before: Training, after: Training) -> Drift:
    """Whether the noise rates moved beyond their intervals, from two reports."""
    kind = shared(before, after)
    old, new = kind.rates(before), kind.rates(after)
    shared_names = [name for name in old if name in new and new[name].meaning == old[name].meaning]
    common = sorted(shared_names, key=lambda name: -new[name].rows)
    pairs = {str(name): (old[name], new[name]) for name in common[:MOST_CLASSES]}
    changes = {name: _change(*pair) for name, pair in pairs.items()}
    meanings = {name: rate.meaning for name, (_, rate) in pairs.items()}
    features = _other_features(before, after)
    beside = f"; {features}" if features else ""
    but = f"{beside}, so this need not be the noise" if features else ""
    warnings = [
        f"{rate} = {meanings[rate]} {'rose' if c.change > 0 else 'fell'} from {c.before:.3f} to "
        f"{c.after:.3f}, by {abs(c.change):.3f} (95 % interval of the change {c.interval[0]:+.3f} "
        f"to {c.interval[1]:+.3f}){but}"
        for rate, c in changes.items()
        if c.verdict == "drifted"
    ]
    if after.support == "unsupported" != before.support:
        no_more = f"the rates were {before.support} and are unsupported, so drift is not known"
        warnings += [no_more + beside]
    titles = {name: rate.title for name, (_, rate) in pairs.items()}
    return Drift(
        rates=changes,
        meanings=meanings,
        warnings=warnings,
        features=features,
        titles=titles,
        label_values=after.label_values if before.label_values == after.label_values else None,
    )


def shared(before: Training, after: Training) -> type[Training]:
    """The kind that two trainings share: their own, or else any of single labels."""
    return type(before) if type(before) is type(after) else Training


def _change(before: Rate, after: Rate) -> Change:
    sides = [(rate.estimate, rate.interval) for rate in (before, after)]
    return rate_change(*sides, reliable=before.reliable and after.reliable)


def _other_features(before: Training, after: Training) -> str | None:
    """What differs between the features and the classes of two trainings, in words."""
    features = [side.config.feature_names for side in (before, after)]
    scales = [f"their scale was {before.scale} and is {after.scale}"]
    each = {
        "features": _came_and_went(*features) + (scales if before.scale != after.scale else []),
        "classes": _came_and_went(before.classes, after.classes),
    }
    changed = [f"the {what} changed ({', '.join(how)})" for what, how in each.items() if how]
    return " and ".join(changed) or None


def _came_and_went(old: Sequence[object], new: Sequence[object]) -> list[str]:
    """Values that only one side has, or that their order differs, in words."""
    came, went = ([n for n in a if n not in set(b)] for a, b in ((new, old), (old, new)))
    if old != new and not (came or went):
        return ["their order"]
    return ([f"{listed(came)} came"] if came else []) + ([f"{listed(went)} went"] if went else [])


def since_text(name: str, before: Training, after: Training, drift: Drift) -> list[str]:
    """What changed since the training `name`, drifted or not, a line each."""
    rates = [
        f"{rate} {c.before:.3f} → {c.after:.3f} ({c.verdict})" for rate, c in drift.rates.items()
    ]
    numbers = [
        f"{NUMBERS[key]} {_shown(a)} → {_shown(b)}"
        for key in ("n_rows", "n_features", "n_label_issues", "support")
        if (a := getattr(before, key, None)) != (b := getattr(after, key, None))
    ]
    more = [] if drift.features is None else [drift.features]
    rates = rates or ["the two have no rate in common"]
    return [f"since {name}: {', '.join(rates[:SHOWN])}", *filter(None, ["; ".join(numbers)]), *more]


def compare(before: str, after: str) -> Comparison:
    """What changed from one finished training to another.

    Raises `InputError` where a folder is not a finished run; `StorageError` where verdicts are
    missing or damaged.
    """
    runs = Run.of(before), Run.of(after)
    sides = reports.load(runs[0]), reports.load(runs[1])
    for run in runs:
        run.check(below("labels"))
    return Comparison(
        before=runs[0].location.name,
        after=runs[1].location.name,
        **dict(drift(*sides)),
        numbers={
            name: (getattr(sides[0], name, None), getattr(sides[1], name, None))
            for name in NUMBERS
            if any(hasattr(side, name) for side in sides)
        },
        differences=_differences(sides[0].config, sides[1].config),
        rows=compare_rows(runs, sides),
    )


def _differences(before: RunConfig, after: RunConfig) -> dict[str, dict[str, Pair]]:
    def source(config: RunConfig) -> dict[str, str | None]:
        digests = {f"{file.role} {file.name}": file.digest[:12] for file in config.source.files}
        return {"label": config.label_name, "kind": config.source.kind, **digests}

    return {
        "parameters": _differing(before.parameters, after.parameters),
        "source": _differing(source(before), source(after)),
        "versions": _differing(before.versions, after.versions),
    }


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Pair]:
    names = [*before, *(name for name in after if name not in before)]
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def compare_text(comparison: Comparison) -> str:
    """The comparison as a person reads it."""
    wide = max([24, *map(len, comparison.titles.values())])
    lines = [
        f"before: {comparison.before}",
        f"after:  {comparison.after}",
        "",
        f"  {'':<{wide}}{'before':>11}{'after':>11}{'change':>9}  95 % interval",
    ]
    for rate, c in comparison.rates.items():
        low, high = c.interval
        lines.append(
            f"  {comparison.titles[rate]:<{wide}}{c.before:>11.3f}{c.after:>11.3f}"
            f"{c.change:>+9.3f}  {low:+.3f} to {high:+.3f}  {c.verdict}"
        )
    for name, (a, b) in comparison.numbers.items():
        lines.append(f"  {NUMBERS[name]:<{wide}}{_shown(a):>11} {_shown(b):>11}")
    other = comparison.features
    kind = "DRIFT" if other is None else "CHANGED"
    lines += ["", *(f"{kind}: {line}" for line in comparison.warnings or filter(None, [other]))]
    for what, pairs in comparison.differences.items():
        lines += [f"{what}: {line}" for line in _changed(pairs)]
    rows = comparison.rows
    if isinstance(rows, Incomparable):
        lines.append(f"rows: not comparable one by one: {rows.reason}")
    else:
        lines += [
            f"rows: {rows.flipped:,} of {rows.n_rows:,} verdicts flipped ({rows.share:.2%})",
            f"  predicted label: {_moves(rows, comparison.label_values)}",
            f"  given label: {rows.newly_suspect:,} newly suspect, {rows.no_longer_suspect:,} "
            f"no longer; {rows.given_changed:,} were changed in the source",
        ]
    return as_text(lines)


def _changed(pairs: Mapping[str, Pair]) -> Iterable[str]:
    for name, (a, b) in list(pairs.items())[:SHOWN]:
        yield f"{name} was {_shown(a)} and is {_shown(b)}"
    if len(pairs) > SHOWN:
        yield f"and {len(pairs) - SHOWN:,} more"


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if type(value) is int else str(value)


def _moves(rows: Flips, labels: list[LabelValue] | None) -> str:
    if rows.predicted_to_1 is not None and rows.predicted_to_0 is not None:
        zero, one = labels or (0, 1)
        return f"{rows.predicted_to_1:,} became {one}, {rows.predicted_to_0:,} became {zero}"
    return f"{rows.predicted_changed:,} changed"
