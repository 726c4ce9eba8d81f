"""Pages and plots from the results there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.study import (
    goals,
    pages_accuracy,
    pages_acquire,
    pages_annotators,
    pages_certificates,
    pages_cleaning,
    pages_coverage,
    pages_gao,
    pages_groups,
    pages_metric,
    pages_multiclass,
    pages_partial,
    pages_rare,
    pages_rates,
    pages_review,
    pages_suspects,
    pages_synthetic,
    pages_uneven,
    pages_verdicts,
    pages_weighed,
    square,
)
from benchmarks.study.results import KERNELS, Results

PAGES: dict[str, Callable[[list[dict[str, Any]], Path], None]] = {
    "plateau": pages_synthetic.plateau,
    "accuracy": pages_accuracy.accuracy,
    "multiclass": pages_multiclass.errors,
    "certificates": pages_certificates.certificates,
    "acquire": pages_acquire.acquire,
    "partial": pages_partial.partial,
    "weighed": pages_weighed.weighed,
    "review": pages_review.review,
    "groups": pages_groups.groups,
    "annotators": pages_annotators.annotators,
    "metric": pages_metric.metric,
    "cleaning": pages_cleaning.cleaning,
    "suspects": pages_suspects.suspects,
    "uneven": pages_uneven.uneven,
    "verdicts": pages_verdicts.verdicts,
}
"""By study what writes its page, where that takes the results of this study alone."""


def pages(work: Path, docs: Path) -> None:
    """Write every page whose study has results."""
    docs.mkdir(parents=True, exist_ok=True)
    found = {name: list(Results(work, name).rows.values()) for name in KERNELS}
    if len(found["square"]) == square.CASES:
        pages_synthetic.square(found["square"], docs)
    if found["rates"]:
        pages_rates.errors(found["rates"], docs)
        pages_rates.ranges(found["rates"], docs)
        pages_coverage.coverage(found["rates"], found["coverage"], docs)
    if found["rare"]:
        pages_rare.rare(found["rare"], found["rare-many"], docs)
    if found["gao-ours"]:
        pages_gao.tables(found["gao"], found["gao-ours"], docs)
    for name, write in PAGES.items():
        if found[name]:
            write(found[name], docs)
    goals.page_write(found, docs)
    for page in sorted(docs.iterdir()):
        print(page)
