"""Pages and plots from the results there are."""

from __future__ import annotations

from pathlib import Path

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


def pages(work: Path, docs: Path) -> None:
    """Write every page whose study has results."""
    docs.mkdir(parents=True, exist_ok=True)
    found = {name: list(Results(work, name).rows.values()) for name in KERNELS}
    if found["plateau"]:
        pages_synthetic.plateau(found["plateau"], docs)
    if len(found["square"]) == square.CASES:
        pages_synthetic.square(found["square"], docs)
    if found["rates"]:
        pages_rates.errors(found["rates"], docs)
        pages_rates.ranges(found["rates"], docs)
        pages_coverage.coverage(found["rates"], found["coverage"], docs)
    if found["accuracy"]:
        pages_accuracy.accuracy(found["accuracy"], docs)
    if found["rare"]:
        pages_rare.rare(found["rare"], found["rare-many"], docs)
    if found["gao-ours"]:
        pages_gao.tables(found["gao"], found["gao-ours"], docs)
    if found["multiclass"]:
        pages_multiclass.errors(found["multiclass"], docs)
    if found["certificates"]:
        pages_certificates.certificates(found["certificates"], docs)
    if found["acquire"]:
        pages_acquire.acquire(found["acquire"], docs)
    if found["partial"]:
        pages_partial.partial(found["partial"], docs)
    if found["weighed"]:
        pages_weighed.weighed(found["weighed"], docs)
    if found["review"]:
        pages_review.review(found["review"], docs)
    if found["groups"]:
        pages_groups.groups(found["groups"], docs)
    if found["annotators"]:
        pages_annotators.annotators(found["annotators"], docs)
    if found["metric"]:
        pages_metric.metric(found["metric"], docs)
    if found["cleaning"]:
        pages_cleaning.cleaning(found["cleaning"], docs)
    if found["suspects"]:
        pages_suspects.suspects(found["suspects"], docs)
    if found["uneven"]:
        pages_uneven.uneven(found["uneven"], docs)
    if found["verdicts"]:
        pages_verdicts.verdicts(found["verdicts"], docs)
    goals.page_write(found, docs)
    for page in sorted(docs.iterdir()):
        print(page)
