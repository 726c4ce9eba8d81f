"""A finished run → its page."""

from __future__ import annotations

from typing import Any

from flows import report as reports
from flows.page import figures, pictures, words
from flows.page.gather import block_recalls, picture, sample, scan
from flows.page.render import render
from flows.page.suspects import FEATURES, suspects
from flows.page.truth import Truth, reliability
from storage.convert import write_bytes
from storage.run import Run


def write_page(run: Run, target: str, test: Truth | None = None) -> dict[str, Any]:
    """Write the page of a finished training to `target`, a path or URL; the report it shows.

    Equal runs give equal bytes. Memory does not grow with the pool.

    Raises
    ------
    InputError
        the folder is not a finished run, or the test labels cannot be used.
    StorageError
        something of the run is missing or damaged, or the target cannot be written.
    """
    report = reports.load(run)
    checked = None if test is None else reliability(test, report)
    rows, x = sample(run)
    seen = scan(run, report, rows)
    found = suspects(run, report, seen)
    names = report["config"]["feature_names"]
    page = render(
        "report.html",
        report=report,
        name=run.location.url.rsplit("/", 1)[-1],
        verdict=words.verdict(report),
        rule=words.rule(report),
        facts=words.facts(report),
        estimates=words.estimates(report),
        steps=words.steps(report),
        parameters=words.parameters(report),
        rates=figures.rates([("", report)]),
        range=figures.honest_range(report),
        k_curve=figures.k_curve(report),
        histogram=figures.histogram(report, seen.votes),
        reliability=None if checked is None else figures.reliability(checked),
        checked=checked,
        recall=pictures.recall(block_recalls(run, report), report),
        pool=pictures.pool(picture(x, seen)),
        suspects=found,
        tied=seen.tied,
        feature_names=names[:FEATURES],
        n_features=len(names),
        n_files=len({suspect.file for suspect in found}),
    )
    write_bytes(target, page.encode())
    return report
