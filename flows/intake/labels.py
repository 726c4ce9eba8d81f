"""Single labels: options that need them, and values that are no classes."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from unicodedata import normalize

from flows.engine.results import LabelValue
from flows.intake.health import SHOWN, Finding, Health
from flows.options.params import TrainParams
from pipeline.decision.votes import FEWEST_NEIGHBORS
from pipeline.noise.rates import FEWEST_ROWS
from storage.errors import InputError, amount, listed, shown
from storage.sources.values.labels import folded

QUANTITY = "quantity"
TOO_FEW = "few labels"
NOTHING = "no features"
NO_CLASSES = (QUANTITY, TOO_FEW, NOTHING, "labels")
"""Kinds of findings by which there is nothing to train on."""
FEW = 20
"""Labels that are classes, whatever they look like."""
FEWEST_OF_EACH = 3
FEWEST_IN_ALL = FEWEST_NEIGHBORS + 1
DIVIDES = "|;,/&"
"""What may divide candidates in text."""
WEIGHT, POSTERIOR = "sample_weight", "posterior_"
"""The column, and how columns begin, that `clean` adds."""


def quantity(name: str, counts: Mapping[LabelValue, int]) -> list[Finding]:
    """Labels that are a quantity or an id rather than classes: numbers that are not whole, whole
    ones that fill a range which does not count from 0 or 1, and values that hardly occur twice."""
    n, numbers = len(counts), [value for value in counts if not isinstance(value, str)]
    if n <= FEW:
        return []
    low, high = (min(numbers), max(numbers)) if numbers else (0, 0)
    count, span = len(numbers), int(high - low) + 1
    rows = sum(counts.values())
    missed = math.exp(-rows / span) if span <= rows else 0.0  # of classes as common as each other
    codes = 0 <= low <= 1.0 + 9.0 * missed and count >= 0.9 * (1.0 - missed) * span
    fractions = any(isinstance(value, float) for value in numbers)
    dense = count > FEW and 3 * count >= span and not codes
    rare = rows < FEWEST_OF_EACH * n and not codes
    if not (fractions or dense or rare):
        return []
    what = f"{n:,} different values"
    if count == n:
        ends = [f"{end:.4g}" if isinstance(end, float) else f"{end}" for end in (low, high)]
        what = f"{n:,} different numbers from {' to '.join(ends)}"
    text = f"label {name!r} has {what}: is that a class?"
    return [Finding(kind=QUANTITY, columns=[name], text=text, option="another --label-column")]


def refused(name: str, counts: Mapping[LabelValue, int], error: InputError) -> list[Finding]:
    """Labels that training refuses, as a quantity where they are numbers."""
    text = f"{error}: are these the labels?"
    other = Finding(kind="labels", columns=[], text=text, option="another --label-column")
    numbers = not any(isinstance(value, str) for value in counts)
    return (quantity(name, counts) if numbers else []) or [other]


def refuse_quantity(health: Health) -> None:
    """`InputError` where labels are no classes; where they are too many to count, whatever they
    are."""
    for finding in health.findings:
        if finding.kind == QUANTITY:
            if_so = ", or --preflight warn if it is" if health.label_counts else ""
            raise InputError(f"{finding.text} Give another --label-column{if_so}")


def alike(name: str, counts: Mapping[LabelValue, int]) -> list[Finding]:
    """Labels that differ by case, spaces or accents alone."""
    if not (texts := spelled_alike(counts)):
        return []
    joins = "--join-labels" if len({*map(_alike, counts)}) > 1 else None
    text = f"label {name!r}: {texts}"
    return [Finding(kind="alike labels", columns=[name], text=text, option=joins)]


def spelled_alike(values: Iterable[LabelValue]) -> str:
    """That texts differ by case, spaces or accents alone, and which; empty where none do."""
    same: dict[str, list[str]] = defaultdict(list)
    for value in values:
        if isinstance(value, str):
            same[folded(value)].append(value)
    several = [_written(texts) for texts in same.values() if len(texts) > 1]
    more = f", and {len(several) - SHOWN:,} more" if len(several) > SHOWN else ""
    listed = f"{', '.join(several[:SHOWN])}{more}"
    return f"{listed} differ by case, spaces or accents" if several else ""


def _written(texts: list[str]) -> str:
    """Texts in a sentence; those that look the same by the codes of their characters."""
    look_same = len({normalize("NFC", text) for text in texts}) < len(texts)
    return " and ".join(map(ascii if look_same else repr, texts))


def too_few(
    name: str, counts: Mapping[LabelValue, int], n_missing: int, reads_rates: bool
) -> list[Finding]:
    """Labels of all rows that no training learns from: of one class, or a class of a single row, or
    too few, if only for rates that are read off them."""
    rows: Counter[LabelValue] = Counter()
    for value, n in counts.items():
        rows[_alike(value)] += n
    alone = [value for value in counts if rows[_alike(value)] == 1]
    if len(counts) < 2:
        what = f"only one class, {listed(counts)}" if counts else "no value"
        text = f"label {name!r} has {what}: two classes are needed to learn from"
        if n_missing:
            missing = amount(n_missing, "label is", "labels are")
            text += f"; {missing} missing: if that means the other class, fill it in"
    elif alone:
        text = f"label {name!r}: {listed(alone)} in a single row: correct, merge or drop it"
    elif rows.total() < FEWEST_IN_ALL:
        text = f"{rows.total()} rows are too few: at least {FEWEST_IN_ALL} are needed"
    elif rows.total() < FEWEST_ROWS:
        text = f"{rows.total()} rows are too few for crossfit, which needs {FEWEST_ROWS}"
        if len(rows) == 2:
            advice = Finding(kind="few rows", columns=[], text=text, option="--noise minmax")
            return [advice] if reads_rates else []
    else:
        return []
    return [Finding(kind=TOO_FEW, columns=[name], text=text)]


def _alike(value: LabelValue) -> LabelValue:
    return folded(value) if isinstance(value, str) else value


def joins(name: str, counts: Mapping[LabelValue, int]) -> list[Finding]:
    """Labels that are others, joined: candidates, one of which is right."""
    known = {str(value): None for value in counts}
    for mark in DIVIDES:
        joined = [value for value in known if mark in value]
        parts = {part.strip() for value in joined for part in value.split(mark)}
        if joined and parts <= {*known}:
            text = f"label {name!r}: {shown(joined[0])} joins others: is one of them right?"
            option = f"--candidates '{mark}'"
            return [Finding(kind="joins", columns=[name], text=text, option=option)]
    if known and all(value[:1] == "[" and value[-1:] == "]" for value in known):
        text = f"label {name!r}: {shown(next(iter(known)))} is a list that became text"
        text += ": keep it in Parquet, or write cat|dog and give --candidates '|'"
        return [Finding(kind="joins", columns=[name], text=text)]
    return []


def cleaned(counts: Mapping[LabelValue, int], names: Collection[str]) -> list[str]:
    """The columns that `clean` adds to a table with these labels."""
    chances = {f"{POSTERIOR}{value}" for value in counts}
    whole = len(chances) > 1 and chances <= {*names}
    return [name for name in names if name == WEIGHT or (whole and name.startswith(POSTERIOR))]


def refuse_for_candidates(params: TrainParams) -> None:
    """`InputError` where a parameter is for single labels, and labels are candidate sets."""
    names = (
        *("by", "together", "annotations", "corrections", "compare_with", "publish_review"),
        *("rule", "noise", "objective", "p0", "model_probabilities", "join_labels"),
        *(("metric",) if params.metric != "as-scaled" else ()),
    )
    for given in params.given(*names):
        raise InputError(
            f"{given} is for single labels, and these are candidate sets; leave it out"
        )
