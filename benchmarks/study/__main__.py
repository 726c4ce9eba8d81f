"""Run the studies and write their pages.

    python -m benchmarks.study --data FOLDER [--only rates gao …] [--write-only]

FOLDER holds .npz files with X and clean y. Finished cases are kept in --results as JSON lines, so
a second run does only what is missing. Studies of sets that are absent are skipped, saying so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from benchmarks.study import (
    acquire,
    annotators_study,
    certificates,
    cleaning_study,
    cost,
    coverage,
    gao_tables,
    groups,
    metric_study,
    multiclass,
    partial,
    plateau,
    rare_study,
    rates_study,
    review,
    square,
    suspects_study,
    uneven,
    verdicts,
    weighed_study,
    write,
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of .npz files")
    parser.add_argument("--results", type=Path, default=Path("study-results"))
    parser.add_argument("--docs", type=Path, default=Path("docs/lab/studies"))
    parser.add_argument("--trials", type=int, default=6, help="noise seeds a setting and set")
    studies: dict[str, Callable[[argparse.Namespace], None]] = {
        "rates": lambda a: rates_study.run(a.data, a.results, a.trials),
        "rare": lambda a: rare_study.run(a.data, a.results),
        "rare-many": lambda a: rare_study.many(a.data, a.results),
        "plateau": lambda a: plateau.run(a.results),
        "square": lambda a: square.run(a.results),
        "coverage": lambda a: coverage.run(a.results),
        "gao": lambda a: gao_tables.run(a.data, a.results),
        "multiclass": lambda a: multiclass.run(a.data, a.results),
        "suspects": lambda a: suspects_study.run(a.data, a.results),
        "metric": lambda a: metric_study.run(a.data, a.results),
        "cleaning": lambda a: cleaning_study.run(a.data, a.results),
        "weighed": lambda a: weighed_study.run(a.data, a.results),
        "verdicts": lambda a: verdicts.run(a.data, a.results),
        "uneven": lambda a: uneven.run(a.data, a.results),
        "cost": lambda a: cost.run(a.results),
        "acquire": lambda a: acquire.run(a.data, a.results),
        "partial": lambda a: partial.run(a.data, a.results),
        "review": lambda a: review.run(a.data, a.results),
        "groups": lambda a: groups.run(a.results),
        "annotators": lambda a: annotators_study.run(a.data, a.results),
        "certificates": lambda a: certificates.run(a.results),
    }
    parser.add_argument("--only", nargs="*", choices=studies, default=list(studies))
    parser.add_argument("--write-only", action="store_true", help="pages from what there is")
    args = parser.parse_args()
    if not args.write_only:
        for name in args.only:
            studies[name](args)
    write.pages(args.results, args.docs)


if __name__ == "__main__":
    main()
