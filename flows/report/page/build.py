"""A finished run → its page, which names and links the tables of the run; a comparison as one."""

from pathlib import Path
from urllib.parse import quote

from flows.report import content as reports
from flows.report import metric
from flows.report.compare import NUMBERS, SHOWN, Comparison, Incomparable, shared
from flows.report.findings import order_sentence, segment_sentences
from flows.report.kinds import CandidateReport, ClassReport, TrainReport
from flows.report.model import PoolReport
from flows.report.page import pictures
from flows.report.page.classes import ClassesPage
from flows.report.page.gather import block_recalls, sample, scan
from flows.report.page.kind import KindPage
from flows.report.page.render import on_axis, parameters, percent, render
from flows.report.page.sets import SetsPage
from flows.report.page.suspects import STRIP, data_issues, exhibits, shown_columns
from flows.report.page.two import TwoPage
from flows.report.rows import Shown
from pipeline.diagnostics.reliability import Reliability
from storage.export import write_bytes
from storage.files.location import Location
from storage.runs.run import Run, below

TABLES = {
    "label_issues.parquet": "quality and verdict of every given label",
    "data_issues.parquet": "outliers, duplicates and the value of every row",
    "unlabeled.parquet": "scores of the rows without a label",
    "report.json": "this report, for programs",
}


def files(run: Run, target: str) -> list[dict[str, str | None]]:
    """Name, what it holds and link of the files of a run that people open; linked from a page in
    the run's folder or above it, as others may be read without the run beside them."""
    page = Location.of(target)
    where = None
    if page.is_local and run.location.is_local:
        folder, home = Path(page.url).resolve().parent, Path(run.location.url).resolve()
        where = home.relative_to(folder) if home.is_relative_to(folder) else None
    return [
        {
            "name": name,
            "what": what,
            "link": None if where is None else quote(bytes(where / name)),
        }
        for name, what in TABLES.items()
        if run.location.exists(name)
    ]


def write_page(
    run: Run, target: str, checked: Reliability | None = None, shown: Shown | None = None
) -> None:
    """Write the page of a finished training to `target`, a path or URL.

    Equal runs give equal bytes. Memory does not grow with the pool.

    checked : of the posteriors of rows whose labels are known

    Raises `InputError` where the folder is not a finished run, or what is to be shown of rows
    cannot be used; `StorageError` where something of the run is missing or damaged, or the target
    cannot be written.
    """
    from flows.report.review import measured

    run.config()
    report = reports.load_any(run)
    run.check(below("labels", "samples"))
    two = len(report.label_values) == 2
    right = f"truly {on_axis(report.label_values[1])}" if two else "predicted rightly"
    page = PAGES[type(report)]
    rows, x = sample(run)
    tally = page.tally(report)
    quality = scan(run, tally, rows)
    parts = page.shown(run, report, tally)
    own_columns = shown_columns(report)
    measures = measured(run, report)
    issues = data_issues(run, report, own_columns)
    others = [one["row"] for one in (*issues["outliers"], *issues["duplicates"])]
    listed = [*(suspect.row for suspect in parts["suspects"]), *others]
    rendered = render(
        page.template,
        report=report,
        name=run.location.name.rsplit("/", 1)[-1],
        parameters=parameters(report),
        reliability=None if checked is None else pictures.reliability(checked, right),
        checked=checked,
        answers=[] if measures is None else measures.sentences(),
        unlabeled=reports.unlabeled(run),
        files=files(run, target),
        recall=pictures.recall(block_recalls(run, report), report),
        shown_columns=own_columns,
        n_left_out=len(report.config.feature_names) - sum(len(one.places) for one in own_columns),
        **issues,
        n_files=len({suspect.file for suspect in parts["suspects"]}),
        exhibits=None if shown is None else exhibits(shown, listed),
        strip_labels=STRIP,
        id_name=report.config.id_name,
        order=None if report.order is None else order_sentence(report.order),
        segments=segment_sentences(report),
        tried=metric.tried_sentence(report),
        columns=metric.bars(report),
        useless=metric.useless_sentence(report),
        notes=metric.notes(report),
        pool=pictures.pool(x, quality),
        **parts,
    )
    write_bytes(target, rendered.encode())


PAGES: dict[type[PoolReport], KindPage] = {
    TrainReport: TwoPage(),
    ClassReport: ClassesPage(),
    CandidateReport: SetsPage(),
}


def write_comparison(comparison: Comparison, runs: tuple[str, str], target: str) -> None:
    """Write a comparison of two runs to `target`, a path or URL, as one self-contained page.

    Raises `InputError` where one of the runs is not there any more; `StorageError` where the target
    cannot be written.
    """
    sides = [reports.load(Run.of(folder)) for folder in runs]
    of_kind = PAGES.get(shared(*sides), KindPage())
    labels = comparison.label_values or (0, 1)
    page = render(
        "compare.html",
        comparison=comparison,
        names=[f.rsplit("/", 1)[-1] for f in (comparison.before, comparison.after)],
        verdict=verdict(comparison),
        label_values=sides[1].label_values,
        number_names=NUMBERS,
        most=SHOWN,
        facts=[(name.format(*labels), field) for name, field in of_kind.changed],
        rates=of_kind.rates(list(zip(("before", "after"), sides, strict=True))),
    )
    write_bytes(target, page.encode())


def verdict(comparison: Comparison) -> str:
    """The whole comparison in one plain sentence."""
    verdicts = {c.verdict for c in comparison.rates.values()}
    if "drifted" in verdicts:
        changes = [
            f"{rate} {'rose' if c.change > 0 else 'fell'} from {percent(c.before)} to "
            f"{percent(c.after)}"
            for rate, c in comparison.rates.items()
            if c.verdict == "drifted"
        ]
        begin = f"The noise has drifted: {' and '.join(changes)}"
        if comparison.features is not None:
            begin = (
                f"T{comparison.features[1:]}, and the rates with them, which need not be "
                f"the noise: {' and '.join(changes)}"
            )
    else:
        begin = "Whether the noise has drifted cannot be told from these two trainings"
        if verdicts == {"within error"}:
            begin = "No noise rate is known to have changed"
        begin += f"; {comparison.features}" if comparison.features is not None else ""
    rows = comparison.rows
    if isinstance(rows, Incomparable):
        return f"{begin}; the rows are not comparable one by one."
    return (
        f"{begin}; {rows.flipped:,} of {rows.n_rows:,} verdicts on single rows flipped "
        f"({percent(rows.share)})."
    )
