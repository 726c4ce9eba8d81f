"""What is wrong, or may be, with the columns and rows of a table, before anything is learned."""

from __future__ import annotations

import math
from hashlib import blake2b

import numpy as np

from pipeline.arrays import Bools, Float64, Int64

Values = Float64
FEWEST_ROWS = 40
"""Rows below which nothing is said of ids and leaks."""
FEWEST_OF_CLASS = 5
FEWEST_TOGETHER = 100
"""Rows that have the value of another, and values, of a column that may say what belongs together.
"""
MOST_RANKED = 10_000
"""Rows whose order by a column is compared with their labels."""
SUSPICIOUS_AUROC = 0.999
COARSE = 1e-3
"""Share of its spread by which the values of a column may be rounded."""
SQUEEZED = 30
"""Spreads of the middle half of a column in its standard deviation, from which few values decide
what standard scores are."""


def is_constant(values: Values) -> bool:
    """Whether a column, (row,) float64, has one value or none; a gap beside a value is a second."""
    missing = np.isnan(values)
    if missing.any():
        return bool(missing.all())
    return bool((values == values[0]).all())


def is_copy(values: Values, y: Int64) -> bool:
    """Whether a column tells the label and nothing else: one value for each class, another for each
    other. `y` are codes, (row,), -1 where missing."""
    classes = np.unique(y[y >= 0])
    known = y >= 0
    counts = np.bincount(y[known])
    if known.sum() < FEWEST_ROWS or len(classes) < 2 or counts[classes].min() < FEWEST_OF_CLASS:
        return False
    first = [values[y == label] for label in classes]
    if any(np.isnan(value[0]) or (value != value[0]).any() for value in first):
        return False
    return len({float(value[0]) for value in first}) == len(classes)


def nearly_tells(values: Values, y: Int64) -> bool:
    """Whether the order of a column all but separates two classes (AUROC above
    `SUSPICIOUS_AUROC`), measured on at most `MOST_RANKED` rows."""
    step = -(-len(values) // MOST_RANKED)
    values, y = values[::step], y[::step]
    known = (y >= 0) & ~np.isnan(values)
    values, y = values[known], y[known]
    counts = np.bincount(y, minlength=2)
    if len(y) < FEWEST_ROWS or len(counts) != 2 or counts.min() < FEWEST_OF_CLASS:
        return False
    area = auroc(values, y)
    return bool(max(area, 1 - area) > SUSPICIOUS_AUROC)


def shares_labels(values: Values, y: Int64) -> bool:
    """Whether rows of one value, whole numbers or codes of text, hardly ever have different labels,
    and those of the next value have as often as by chance: a column that may say which rows belong
    together."""
    known = (y >= 0) & ~np.isnan(values)
    values, y = values[known], y[known]
    if len(y) < FEWEST_ROWS or (values != np.rint(values)).any():
        return False
    order = np.argsort(values, kind="stable")
    together, differ = np.diff(values[order]) == 0, np.diff(y[order]) != 0
    if min(together.sum(), (~together).sum()) < FEWEST_TOGETHER:
        return False
    share = np.bincount(y) / len(y)
    chance = 1.0 - share @ share
    within, beyond = differ[together].mean(), differ[~together].mean()
    return bool(within < 0.1 * chance and beyond > 0.8 * chance)


def auroc(values: Values, y: Int64) -> float:
    """Chance that a row of class 1 has a larger value than one of class 0, ties counted half."""
    _, place = np.unique(values, return_inverse=True)
    zero, one = (np.bincount(place[y == label], minlength=place.max() + 1) for label in (0, 1))
    below = np.cumsum(zero) - zero
    return float((one * (below + zero / 2)).sum() / (zero.sum() * one.sum()))


def is_row_number(values: Values) -> bool:
    """Whether a column counts the rows, from 0 or 1, one by one."""
    if len(values) < FEWEST_ROWS or values[0] not in (0.0, 1.0):
        return False
    return np.array_equal(values, values[0] + np.arange(len(values)))


def is_like_ids(values: Values) -> bool:
    """Whether a column has whole numbers (or codes of text) of which no two are equal."""
    if len(values) < FEWEST_ROWS or np.isnan(values).any() or (values != np.rint(values)).any():
        return False
    if np.abs(values).max() > 2.0**64:  # no integers, though all numbers as large are whole
        return False
    return len(np.unique(values)) == len(values)


def constant_near(values: Values) -> str:
    """A short number amid finite values, by which they have as many digits as their spread has."""
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    spread = max(high - low, float(np.spacing(abs(middle))))
    near = round(middle, -math.floor(math.log10(spread)))
    return f"{near:.0f}" if spread >= 10 else repr(near)


def is_coarse_in_float32(values: Values) -> bool:
    """Whether single precision rounds many values of a column by more than `COARSE` of the distance
    between its 5 % and 95 % quantiles: they lie far from 0, and near each other."""
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.abs(values - values.astype(np.float32))
    lost = lost[np.isfinite(lost)]
    if not lost.any():
        return False
    with np.errstate(invalid="ignore"):  # infinity less infinity
        low, high = np.nanquantile(values, (0.05, 0.95))
    return bool(np.median(lost) > COARSE * (high - low))


def squeezing(values: Values) -> float | None:
    """The value of a column that lies farthest from its middle, where so few lie so far that the
    others all but become one by standard scaling; None where they do not."""
    known = values[np.isfinite(values)]
    if len(known) < FEWEST_ROWS:
        return None
    low, middle, high = np.quantile(known, (0.25, 0.5, 0.75))
    with np.errstate(over="ignore", invalid="ignore"):
        if not 0 < SQUEEZED * (high - low) < known.std():
            return None
        return float(known[np.abs(known - middle).argmax()])


def equal_columns(columns: list[tuple[Values, bytes]]) -> dict[int, int]:
    """Places of columns that equal an earlier one, gaps included, and which; a column is its
    numbers and, where these are codes, a digest of what they stand for."""
    first_place: dict[tuple[bytes, bytes], int] = {}
    equal = {}
    for place, (values, coded) in enumerate(columns):
        content = np.ascontiguousarray(values + 0.0)  # of -0.0 and 0.0 one
        digest = blake2b(content.tobytes(), digest_size=16).digest()
        first = first_place.setdefault((digest, coded), place)
        if first != place:
            equal[place] = first
    return equal


def contradictions(columns: list[Values], y: Int64) -> tuple[int, int, Bools]:
    """(groups, rows) of rows that are exact copies of each other and have different labels, and
    (row,) which are copies of an earlier one, whatever their labels."""
    if not columns:
        return 0, 0, np.zeros(len(y), bool)
    with np.errstate(over="ignore"):  # what is too large for features is refused elsewhere
        table = np.column_stack([np.asarray(values, np.float32) for values in columns]) + 0.0
    key = np.frombuffer(
        b"".join(blake2b(row.tobytes(), digest_size=8).digest() for row in table), np.int64
    )
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    again = np.ones(len(y), bool)
    again[first] = False
    known = y >= 0
    low, high = np.full(group.max() + 1, np.iinfo(np.int64).max), np.full(group.max() + 1, -1)
    np.minimum.at(low, group[known], y[known])
    np.maximum.at(high, group[known], y[known])
    mixed = (high >= 0) & (low < high)
    return int(mixed.sum()), int(mixed[group].sum()), again


def oversampled(again: Bools, y: Int64) -> tuple[int, float, float] | None:
    """The class most of whose rows copy earlier ones, with their share, and that among all others,
    where it is a tenth of that at most."""
    rows = np.bincount(y[y >= 0])
    if not again.any() or len(rows) < 2:
        return None
    copied = np.bincount(y[again & (y >= 0)], minlength=len(rows))
    top = int(np.argmax(copied / np.maximum(rows, 1)))
    share = float(copied[top] / rows[top])
    other = float((copied.sum() - copied[top]) / (rows.sum() - rows[top]))
    return (top, share, other) if share >= 0.5 and other <= 0.1 * share else None
