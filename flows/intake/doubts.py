"""What may be as it should be in a source, and may be not."""

from __future__ import annotations

from shlex import quote

import numpy as np

from flows.intake.glance import FeatureCandidate
from flows.intake.health import COARSE, Finding, named
from flows.options.params import Method
from pipeline.arrays import Int64
from pipeline.blocks.scaling import SPREAD_ROWS, spreads
from pipeline.diagnostics.health import is_coarse_in_float32, is_like_ids, nearly_tells
from storage.errors import amount
from storage.sources.request import is_place
from storage.sources.values.texts import parse_options


def doubtful(columns: list[FeatureCandidate], y: Int64, method: Method) -> list[Finding]:
    """What may be as it should be, by column."""
    doubts = []
    for column in columns:
        name, values = column.name, column.values
        if column.has_commas and not column.spellings:
            text = f"numbers with a decimal comma, such as {column.example!r}"
            doubts.append(_one("decimal", name, text, "--decimal ,"))
        elif column.spellings and (method.encode == "none" or "boolean" not in column.spellings):
            doubts.append(_spelled(column))
        elif is_like_ids(values) and (column.is_text or np.ptp(values) >= len(values) - 1):
            what = (
                "texts, no two of them equal" if column.is_text else "whole numbers, no two equal"
            )
            either = f"--id-column {quote(name)} or --exclude {quote(name)}"
            doubts.append(_one("id-like", name, f"{what}: it looks like an id", either))
        elif column.is_text and method.encode == "none":
            text = f"text, such as {column.example!r}: distances need numbers"
            doubts.append(_one("text", name, text, f"--encode one-hot or --exclude {quote(name)}"))
        elif nearly_tells(values, y):
            text = "its order alone all but tells the label; was it made from the label?"
            doubts.append(_one("near leak", name, text, f"--exclude {quote(name)}"))
    gaps = [c.name for c in columns if not c.is_text and not np.isfinite(c.values).all()]
    if gaps and method.impute == "none":
        missing = sum(int((~np.isfinite(c.values)).sum()) for c in columns if c.name in gaps)
        absent = amount(missing, "value is", "values are")
        text = f"{absent} missing or infinite in {named(gaps)}: training refuses that"
        remedy = "--impute median or --impute drop"
        doubts.append(Finding(kind="gaps", columns=gaps, text=text, option=remedy))
    numeric = [c for c in columns if not c.is_text and not is_place(c.name)]
    coarse = [c for c in numeric if is_coarse_in_float32(c.values)]
    if coarse:
        values = coarse[0].values[np.isfinite(coarse[0].values)]
        low, high = values.min(), values.max()
        step = np.spacing(np.float32(max(abs(low), abs(high))))
        text = (
            f"{named([c.name for c in coarse])} lose digits: features are of single precision, and "
            f"{coarse[0].name!r} lies between {low:.10g} and {high:.10g}, where it has steps of "
            f"{step:.3g}; subtract a constant before, such as {low:.10g}"
        )
        doubts.append(Finding(kind=COARSE, columns=[c.name for c in coarse], text=text))
    if numeric and method.scale in ("none", "auto"):
        wide = spreads(np.column_stack([column.values[:SPREAD_ROWS] for column in numeric]))
        if wide.apart:
            names = [numeric[wide.narrow].name, numeric[wide.wide].name]
            text = (
                f"columns are on very different scales: {wide.described([c.name for c in numeric])}"
            )
            if method.scale == "auto":
                text += " (--scale auto standardizes them)"
            option = "--scale standard" if method.scale == "none" else None
            doubts.append(Finding(kind="scales", columns=names, text=text, option=option))
    return doubts


def _spelled(column: FeatureCandidate) -> Finding:
    """Text that is to be parsed, or cannot be as asked."""
    name, example = column.name, column.example
    if column.refused:
        text = f"{example!r} is not to be read as --parse says: training refuses it"
        return _one("parse", name, text, f"--exclude {quote(name)}")
    text = f"text that can be read as numbers, such as {example!r}"
    comma = " or --decimal ," if column.has_commas else ""
    return _one("parse", name, text, parse_options(name, list(column.spellings)) + comma)


def _one(kind: str, name: str, text: str, option: str) -> Finding:
    return Finding(kind=kind, columns=[name], text=f"{name!r}: {text}", option=option)
