"""A finished run → its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from flows.report import content as reports
from flows.report import metric
from flows.report.findings import order_sentence, segment_sentences
from flows.report.kinds import CandidateReport, ClassReport, TrainReport
from flows.report.model import PoolReport, Training
from flows.report.page import annotators, candidates, classes, figures, groups, pictures, words
from flows.report.page.exhibits import columns, exhibits
from flows.report.page.files import files
from flows.report.page.gather import Scanned, block_recalls, picture, sample, scan
from flows.report.page.issues import data_issues
from flows.report.page.render import render
from flows.report.page.suspects import STRIP, suspects
from flows.report.page.truth import Truth, reliability
from flows.report.rows import Shown
from flows.report.varying import varying
from storage.export import write_bytes
from storage.runs.run import Run, below


def write_page(
    run: Run, target: str, test: Truth | None = None, shown: Shown | None = None
) -> PoolReport:
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
    report.refuse("truth", test)
    checked = None if test is None else reliability(test, report)
    template, shows = PAGES[type(report)]
    rows, x = sample(run)
    scanned = scan(run, report, rows)
    parts = shows(run, report, scanned)
    shown_columns = columns(report)
    measures = measured(run, report)
    issues = data_issues(run, report, shown_columns)
    listed = [*parts["suspects"], *issues["outliers"], *issues["duplicates"]]
    page = render(
        template,
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
        shown_columns=shown_columns,
        n_left_out=len(report.config.feature_names) - sum(len(one.places) for one in shown_columns),
        **issues,
        n_files=len({suspect.file for suspect in parts["suspects"]}),
        exhibits=None if shown is None else exhibits(shown, [one.row for one in listed]),
        strip_labels=STRIP,
        id_name=report.config.id_name,
        order=None if report.order is None else order_sentence(report.order),
        segments=segment_sentences(report),
        tried=metric.tried_sentence(report),
        columns=metric.bars(report),
        useless=metric.useless_sentence(report),
        notes=metric.notes(report),
        pool=pictures.pool(picture(x, scanned.sampled_quality)),
        **parts,
    )
    write_bytes(target, page.encode())
    return report


def of_two(run: Run, report: TrainReport, scanned: Scanned) -> dict[str, Any]:
    """What the page of two classes shows."""
    return {
        "verdict": words.verdict(report),
        "rule": words.rule(report),
        "facts": words.facts(report),
        "k_curve": figures.k_curve(report),
        "estimates": words.estimates(report),
        "varying": varying(report),
        "rates": figures.rates([("", report)]),
        "range": figures.honest_range(report),
        "histogram": figures.histogram(report, scanned.histogram),
        "suspects": suspects(run, report, scanned.suspects),
        **_of_labels(run, report),
    }


def of_classes(run: Run, report: ClassReport, scanned: Scanned) -> dict[str, Any]:
    """What the page of more classes shows."""
    listed = classes.suspects(run, report, scanned.suspects)
    pairs = Counter((one.verdict["given"], one.verdict["likely"]) for one in listed)
    return {
        "verdict": classes.verdict(report),
        "rule": classes.rule(report),
        "facts": classes.facts(report),
        "k_curve": figures.k_curve(report),
        "heat": classes.heat_map(run, report),
        "lines": classes.lines(report),
        "varying": varying(report),
        "confusions": [one.text() for one in report.confusions[: classes.CONFUSIONS]],
        "histogram": figures.qualities(scanned.histogram, report.n_label_issues),
        "suspects": listed,
        "pairs": pairs.most_common(),
        **_of_labels(run, report),
    }


def _of_labels(run: Run, report: Training) -> dict[str, Any]:
    """What the pages of single labels show of those who labeled, and what to do next."""
    next_steps = words.next_steps(run.location.name, report)
    return {"next": next_steps, **annotators.shown(report), **groups.shown(report)}


PAGES: dict[type[PoolReport], tuple[str, Callable[[Run, Any, Scanned], dict[str, Any]]]] = {
    TrainReport: ("report.html", of_two),
    ClassReport: ("classes.html", of_classes),
    CandidateReport: ("candidates.html", candidates.shown),
}
"""Template of each kind, and what it shows besides what all do."""
