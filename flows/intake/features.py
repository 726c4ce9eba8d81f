"""What is suspicious of features, which may be as it should be: of each what the first check says
that says something, and what some say of all together."""

from shlex import quote

import numpy as np

from flows.intake.coding import worth_encoding
from flows.intake.glance import FeatureCandidate
from flows.intake.health import COARSE, SHOWN, Finding
from flows.options.params import Method
from pipeline.arrays import Int64
from pipeline.blocks.scaling import SPREAD_ROWS, spreads
from pipeline.diagnostics.health import (
    constant_near,
    is_coarse_in_float32,
    is_like_ids,
    nearly_tells,
    shares_labels,
    squeezing,
)
from storage.errors import amount, listed
from storage.sources.request import is_place
from storage.sources.values.texts import parse_options

DECIMAL = "decimal"
"""The kind of finding without whose remedy nothing else can be looked at."""


def doubtful(columns: list[FeatureCandidate], y: Int64, method: Method) -> list[Finding]:
    """What may be as it should be.

    y : (row,) codes of labels, -1 where there are none
    """
    findings = [
        next(filter(None, (check(column, y, method) for check in OF_ONE)), None)
        for column in columns
    ]
    findings += [check(columns, method) for check in OF_ALL]
    return [finding for finding in findings if finding is not None]


def commas(column: FeatureCandidate, y: Int64, method: Method) -> Finding | None:
    """Numbers with decimal commas."""
    if not column.has_commas or column.spellings:
        return None
    text = f"numbers with a decimal comma, such as {column.example!r}"
    return _one(DECIMAL, column, text, "--decimal ,")


def nested(column: FeatureCandidate, y: Int64, method: Method) -> Finding | None:
    """Values of a type that is no feature."""
    if not column.refused or column.spellings:
        return None
    return _one("nested", column, f"neither numbers nor text, but {column.example}", _out(column))


def spelled(column: FeatureCandidate, y: Int64, method: Method) -> Finding | None:
    """Text that is to be parsed, or cannot be as asked."""
    if not column.spellings or (method.encode != "none" and "boolean" in column.spellings):
        return None
    if column.refused:
        text = f"{column.example!r} is not to be read as --parse says: training refuses it"
        return _one("parse", column, text, _out(column))
    text = f"holds what can be read as numbers, such as {column.example!r}"
    comma = " or --decimal ," if column.has_commas else ""
    return _one("parse", column, text, parse_options(column.name, list(column.spellings)) + comma)


def broken(column: FeatureCandidate, y: Int64, method: Method) -> Finding | None:
    """Numbers, but for a few values."""
    if not column.n_broken:
        return None
    text = (
        f"numbers, but for {amount(column.n_broken, 'row')}, such as {column.example!r}: "
        "correct them (an empty cell is a gap), or leave it out"
    )
    return _one("broken", column, text, _out(column))


def over_lines(column: FeatureCandidate, y: Int64, method: Method) -> Finding | None:
    """Text that holds line breaks."""
    if not column.over_lines:
        return None
    text = "text over several lines, which may be a quote that is not closed: training refuses that"
    return _one("lines", column, text, _out(column))


def like_ids(column: FeatureCandidate, y: Int64, method: Method) -> Finding | None:
    """Values of which no two are equal, as those of ids."""
    name, values = column.name, column.values
    if column.parsed or not is_like_ids(values):
        return None
    wide = not column.is_text and np.ptp(values) >= len(values) - 1
    if not (column.is_text or wide):
        return None
    what = "texts, no two of them equal" if column.is_text else "whole numbers, no two equal"
    either = f"--id-column {quote(name)} or " if column.names_rows else ""
    either += _out(column)
    # so few of so wide a range hardly repeat, whatever they are
    by_chance = wide and np.ptp(values) > len(values) ** 2 / 8
    if by_chance and not name.lower().endswith("id"):
        text = f"{name!r}: {what}: if it is an id, give {either}"
        return Finding(kind="id-like", columns=[name], text=text)
    return _one("id-like", column, f"{what}: it looks like an id", either)


def together(column: FeatureCandidate, y: Int64, method: Method) -> Finding | None:
    """Values whose rows share their label."""
    if not shares_labels(column.values, y):
        return None
    text = "rows of one value have one label, as those of a patient or a video may"
    return _one("together", column, text, f"--together {quote(column.name)} or {_out(column)}")


def words(column: FeatureCandidate, y: Int64, method: Method) -> Finding | None:
    """Text that nothing makes numbers of."""
    if not column.is_text or method.encode != "none":
        return None
    text = f"text, such as {column.example!r}: distances need numbers"
    counts = np.bincount(column.values[np.isfinite(column.values)].astype(np.int64))
    encoded = "--encode one-hot or " if worth_encoding(counts) else ""
    return _one("text", column, text, f"{encoded}{_out(column)}")


def near_leak(column: FeatureCandidate, y: Int64, method: Method) -> Finding | None:
    """Values whose order tells the label."""
    if not nearly_tells(column.values, y):
        return None
    text = "its order alone all but tells the label; was it made from the label?"
    return _one("near leak", column, text, _out(column))


OF_ONE = (commas, nested, spelled, broken, over_lines, like_ids, together, words, near_leak)
"""Checks of one column, of which the first that finds something speaks."""


def gaps(columns: list[FeatureCandidate], method: Method) -> Finding | None:
    """Numbers that are missing or infinite, where training refuses that."""
    absent = dict[str, int]()
    for column in columns:
        parsed = column.spellings and not column.refused and method.encode == "none"
        with np.errstate(over="ignore", invalid="ignore"):
            there = np.isfinite(column.values.astype(np.float32))
        if (parsed or not column.is_text) and not there.all():
            absent[column.name] = int((~there).sum())
    if not absent or method.impute != "none":
        return None
    values_are = amount(sum(absent.values()), "value is", "values are")
    text = f"{values_are} missing or infinite in {listed(absent, SHOWN)}: training refuses that"
    remedy = "--impute median or --impute drop"
    return Finding(kind="gaps", columns=[*absent], text=text, option=remedy)


def coarse(columns: list[FeatureCandidate], method: Method) -> Finding | None:
    """Numbers that single precision takes for each other."""
    lossy = [column for column in _numeric(columns) if is_coarse_in_float32(column.values)]
    if not lossy:
        return None
    values = lossy[0].values[np.isfinite(lossy[0].values)]
    low, high = values.min(), values.max()
    largest = max(abs(low), abs(high))
    lose = "loses" if len(lossy) == 1 else "lose"
    remedy = "multiply it before"
    if largest >= np.finfo(np.float32).tiny:
        remedy = f"subtract a constant before, such as {constant_near(values)}"
    text = (
        f"{listed((c.name for c in lossy), SHOWN)} {lose} digits: features are of single "
        f"precision, and {lossy[0].name!r} lies between {low:.10g} and {high:.10g}, where it "
        f"has steps of {np.spacing(np.float32(largest)):.3g}; {remedy}"
    )
    return Finding(kind=COARSE, columns=[c.name for c in lossy], text=text)


def squeezed(columns: list[FeatureCandidate], method: Method) -> Finding | None:
    """Numbers that a few far ones make all but equal, once scaled."""
    standard = _numeric(columns) if method.scale in ("auto", "standard") else []
    far = {c.name: value for c in standard if (value := squeezing(c.values)) is not None}
    if not far:
        return None
    text = (
        f"{listed(far, SHOWN)}: few values lie so far from the others, such as "
        f"{next(iter(far.values())):.6g}, that standard scaling makes these all but equal; "
        "leave a cell empty where that stands for a gap"
    )
    return Finding(kind="squeezed", columns=[*far], text=text)


def scales(columns: list[FeatureCandidate], method: Method) -> Finding | None:
    """Columns whose scales differ so that few decide what is near."""
    numeric = _numeric(columns)
    if not numeric or method.scale not in ("none", "auto"):
        return None
    wide = spreads(np.column_stack([column.values[:SPREAD_ROWS] for column in numeric]))
    if not wide.apart:
        return None
    names = [numeric[wide.narrow].name, numeric[wide.wide].name]
    text = f"columns are on very different scales: {wide.described([c.name for c in numeric])}"
    text += " (--scale auto standardizes them)" if method.scale == "auto" else ""
    option = "--scale standard" if method.scale == "none" else None
    return Finding(kind="scales", columns=names, text=text, option=option)


OF_ALL = (gaps, coarse, squeezed, scales)
"""Checks of all columns together."""


def _numeric(columns: list[FeatureCandidate]) -> list[FeatureCandidate]:
    return [c for c in columns if not c.is_text and not is_place(c.name)]


def _one(kind: str, column: FeatureCandidate, text: str, option: str) -> Finding:
    name = column.name
    return Finding(kind=kind, columns=[name], text=f"{name!r}: {text}", option=option)


def _out(column: FeatureCandidate) -> str:
    return f"--exclude {quote(column.name)}"
