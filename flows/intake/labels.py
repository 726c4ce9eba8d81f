"""Single labels: what goes with them only, and what no classes are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from flows.engine.results import LabelValue
from flows.intake.health import SHOWN, Finding, Health
from flows.options.params import TrainParams
from storage.errors import InputError
from storage.sources.values.labels import folded

QUANTITY = "quantity"
NO_CLASSES = (QUANTITY, "labels")
"""Kinds of findings by which there is nothing to train on."""
FEW = 20
"""Labels that are classes, whatever they look like."""
FEWEST_OF_EACH = 3


def quantity(name: str, counts: Mapping[LabelValue, int]) -> list[Finding]:
    """Labels that are a quantity or an id rather than classes: numbers that are not whole, whole
    ones that fill a range which does not count from 0 or 1, and values that hardly occur twice."""
    n, numbers = len(counts), [value for value in counts if not isinstance(value, str)]
    if n <= FEW:
        return []
    low, high = (min(numbers), max(numbers)) if numbers else (0, 0)
    count, span = len(numbers), int(high - low) + 1
    codes = low in (0, 1) and count >= 0.9 * span
    fractions = any(isinstance(value, float) for value in numbers)
    dense = count > FEW and 3 * count >= span and not codes
    rare = sum(counts.values()) < FEWEST_OF_EACH * n and not codes
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
    same: dict[str, list[str]] = defaultdict(list)
    for value in counts:
        if isinstance(value, str):
            same[folded(value)].append(value)
    several = [" and ".join(map(repr, texts)) for texts in same.values() if len(texts) > 1]
    if not several:
        return []
    more = f", and {len(several) - SHOWN:,} more" if len(several) > SHOWN else ""
    text = f"label {name!r}: {', '.join(several[:SHOWN])}{more} differ by case, spaces or accents"
    return [Finding(kind="alike labels", columns=[name], text=text, option="--join-labels")]


def refuse_for_candidates(params: TrainParams) -> None:
    """`InputError` where a parameter is for single labels, and labels are candidate sets."""
    names = (
        *("by", "annotations", "corrections", "compare_with", "publish_review", "rule", "noise"),
        *("objective", "p0", "model_probabilities", "join_labels"),
        *(("metric",) if params.metric != "as-scaled" else ()),
    )
    for given in params.given(*names):
        raise InputError(
            f"{given} is for single labels, and these are candidate sets; leave it out"
        )
