"""A finished run → its page."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from flows.report import content as reports
from flows.report import metric
from flows.report.content import AnyTraining, confused
from flows.report.findings import order_sentence, segment_sentences
from flows.report.model import CandidateReport, ClassReport, Training, TrainReport
from flows.report.page import annotators, candidates, classes, figures, groups, pictures, words
from flows.report.page.exhibits import exhibits
from flows.report.page.files import files
from flows.report.page.gather import block_recalls, picture, sample, scan
from flows.report.page.issues import data_issues
from flows.report.page.render import render
from flows.report.page.suspects import FEATURES, STRIP, suspects
from flows.report.page.truth import Truth, reliability
from flows.report.rows import Shown
from flows.report.varying import varying
from storage.errors import InputError
from storage.export import write_bytes
from storage.runs.run import Run, below
from storage.sources.request import Coding

Rows = npt.NDArray[np.int64]
Features = npt.NDArray[np.float32]


PAGES: dict[type[AnyTraining], str] = {
    TrainReport: "report.html",
    ClassReport: "classes.html",
    CandidateReport: "candidates.html",
}


def write_page(
    run: Run, target: str, test: Truth | None = None, shown: Shown | None = None
) -> AnyTraining:
    """Write the page of a finished training to `target`, a path or URL; the report it shows.

    Equal runs give equal bytes. Memory does not grow with the pool.

    Raises
    ------
    InputError
        the folder is not a finished run, or the test labels or what is to be shown of rows cannot
        be used.
    StorageError
        something of the run is missing or damaged, or the target cannot be written.
    """
    from flows.report.review import measured
    from flows.report.unlabeled import unlabeled

    run.config()
    report = reports.load_any(run)
    run.check(below("labels", "samples"))
    if isinstance(report, CandidateReport) and test is not None:
        raise InputError("--scores and --truth are for posteriors, which candidate sets have not")
    checked = None
    if test is not None and not isinstance(report, CandidateReport):
        checked = reliability(test, report)
    rows, x = sample(run)
    if isinstance(report, TrainReport):
        parts = of_two(run, report, rows, x)
    elif isinstance(report, ClassReport):
        parts = of_classes(run, report, rows, x)
    else:
        parts = of_candidates(run, report, rows, x)
    names, places = report.config.feature_names, metric.telling(report, FEATURES)
    measures = measured(run, report)
    issues = data_issues(run, report, places)
    listed = [*parts["suspects"], *issues["outliers"], *issues["duplicates"]]
    page = render(
        PAGES[type(report)],
        report=report,
        name=run.location.name.rsplit("/", 1)[-1],
        steps=words.steps(report),
        parameters=words.parameters(report),
        reliability=None if checked is None else figures.reliability(checked),
        checked=checked,
        answers=[] if measures is None else measures.sentences(),
        unlabeled=unlabeled(run),
        files=files(run, target),
        recall=pictures.recall(block_recalls(run, report), report),
        next=words.next_steps(run.location.name, report),
        feature_names=[names[at] for at in places],
        **issues,
        exhibits=None if shown is None else exhibits(shown, [one.row for one in listed]),
        written=Coding.of_json(report.config.coding).written,
        strip_labels=STRIP,
        id_name=report.config.id_name,
        n_features=len(names),
        **(_labelers(report) if isinstance(report, Training) else {"whose": None, "several": None}),
        order=None if report.order is None else order_sentence(report.order),
        segments=segment_sentences(report),
        tried=metric.tried_sentence(report),
        columns=metric.bars(report),
        useless=metric.useless_sentence(report),
        notes=metric.notes(report),
        **parts,
    )
    write_bytes(target, page.encode())
    return report


def of_two(run: Run, report: TrainReport, rows: Rows, x: Features) -> dict[str, Any]:
    """What the page of two classes shows."""
    scanned = scan(run, report, rows)
    listed = suspects(run, report, scanned)
    return {
        "verdict": words.verdict(report),
        "rule": words.rule(report),
        "facts": words.facts(report),
        "k_curve": figures.k_curve(report),
        "estimates": words.estimates(report),
        "varying": varying(report),
        "rates": figures.rates([("", report)]),
        "range": figures.honest_range(report),
        "histogram": figures.histogram(report, scanned.votes),
        "pool": pictures.pool(picture(x, scanned.sampled_quality)),
        "suspects": listed,
        "n_files": len({suspect.file for suspect in listed}),
    }


def of_classes(run: Run, report: ClassReport, rows: Rows, x: Features) -> dict[str, Any]:
    """What the page of more classes shows."""
    scanned = classes.scan(run, report, rows)
    listed = classes.suspects(run, report, scanned)
    pairs = Counter((suspect.given, suspect.likely) for suspect in listed)
    return {
        "verdict": classes.verdict(report),
        "rule": classes.rule(report),
        "facts": classes.facts(report),
        "k_curve": figures.k_curve(report),
        "heat": classes.heat_map(run, report),
        "lines": classes.lines(report),
        "varying": varying(report),
        "confusions": [confused(one) for one in report.confusions[: classes.CONFUSIONS]],
        "histogram": figures.qualities(scanned.histogram, scanned.issues),
        "pool": pictures.pool(picture(x, scanned.sampled_quality)),
        "suspects": listed,
        "pairs": pairs.most_common(),
        "n_files": len({suspect.file for suspect in listed}),
    }


def of_candidates(run: Run, report: CandidateReport, rows: Rows, x: Features) -> dict[str, Any]:
    """What the page of candidate sets shows."""
    scanned = classes.scan(run, report, rows)
    drawn = pictures.pool(picture(x, scanned.sampled_quality))
    return {**candidates.shown(run, report, scanned), "pool": drawn}


def _labelers(report: Training) -> dict[str, Any]:
    """What the page shows of those who labeled."""
    return {**annotators.shown(report), **groups.shown(report)}
