"""Reviewing: a finished training's suspect labels on a page, where people answer."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from flows.engine.cluster import check_reachable
from flows.engine.guard import refuse_while_imported
from flows.engine.progress.reporter import Reporter
from flows.options.params import ReviewParams, as_keywords
from flows.orchestration.run_folders import latest
from flows.report.review import LOG, share_wrong
from flows.review.prepare import prepared
from flows.review.serving import Page, PageRows, exhibit_of
from flows.scorings.scored import Trained
from flows.steps.graph.lookup import pick, places
from storage.answers import Answer, AnswersFile, Asked, Origin
from storage.arrays.groups import read_group
from storage.errors import KnnoiseError
from storage.export import check_target, export_answers
from storage.labelstudio import TASKS, read_tasks, write_tasks
from storage.runs.pool import Pool
from storage.runs.run import Run
from storage.sources.joins import labels_to_import

TASK_COLUMNS = 100
"""Columns of a row that a task has; a table of more cannot be read."""

if TYPE_CHECKING:
    from flows.report.rows import Shown
    from flows.review.desk import Desk


@as_keywords(ReviewParams, name="review")
def run_review(params: ReviewParams) -> dict[str, Any]:
    """Let people check a finished training's suspect labels on a page of this host.

    Returns:
        what the answers measure, once the page is closed

    Raises:
        storage.errors.KnnoiseError: InputError, StorageError or ClusterError, each with a message
            for people.
    """
    refuse_while_imported()
    check_reachable(params)
    if params.export_to is not None:
        check_target(params.export_to, other=TASKS)
    trained = Trained.of(latest(params.run))
    reporter = Reporter(quiet=params.quiet)
    file = open_answers(trained, params.answers)
    if params.import_from is not None:
        n = take(file, params.import_from)
        return {"answers": str(file.path), "imported": n, "measured": None}
    if params.export_to is not None and not params.export_to.lower().endswith(TASKS):
        n = export_answers(file, params.export_to)
        return {"answers": str(file.path), "exported": n, "measured": None}
    run = prepared(trained, params, reporter)
    desk = desk_of(trained, run, file, params.budget)
    if params.export_to is not None:
        n = _export_tasks(trained, desk, params, params.export_to)
        return {"answers": str(file.path), "tasks": n, "measured": None}
    _serve(trained, desk, params)
    return {"answers": str(file.path), "measured": desk.measured().as_json()}


def open_answers(trained: Trained, path: str | None) -> AnswersFile:
    """The answers on a training's rows, by default those kept with the run.

    Raises `InputError` where they are on other rows, or not on this host, and `StorageError` where
    they are damaged.
    """
    run, report = trained.run, trained.report
    name = run.location.name.rsplit("/", 1)[-1]
    n_rows = report.n_source_rows
    origin = Origin.of_config(run.config(), tuple(report.label_values), n_rows, name)
    return AnswersFile.open(path or run.location.path(LOG), origin)


def take(file: AnswersFile, path: str, why: str = "imported", overrule: bool = True) -> int:
    """Keep the labels of a table as answers, but those that are known, nor any of a row that has
    one unless they may overrule it; how many were new."""
    origin = file.answers.origin
    assert origin is not None
    now, n = datetime.now(UTC).isoformat(timespec="milliseconds"), 0
    read = read_tasks if path.lower().endswith(TASKS) else labels_to_import
    for row, reviewer, label in read(path, origin):
        labels = file.answers.of_row(row).labels
        if reviewer in labels and labels[reviewer] == label:
            continue
        if row in file.answers and not overrule:
            continue
        rows = (Asked(row, None, why, False),)
        n += file.add(Answer(uuid.uuid4().hex, rows, label, reviewer, now))
    return n


def desk_of(trained: Trained, run: Run, file: AnswersFile, budget: int) -> Desk:
    """The list of a review and its answers."""
    from flows.review.desk import Desk

    queue = read_group(run.store, "review")
    expected = share_wrong(trained.report)
    return Desk(queue, file, list(trained.report.label_values), budget, expected)


def _serve(trained: Trained, desk: Desk, params: ReviewParams) -> None:
    """Serve the page until it is interrupted."""
    rows, shown = _rows(trained, desk, params)
    with Page(rows, desk, params) as page:
        page.show(shown)
        page.wait()


def _rows(
    trained: Trained, desk: Desk, params: ReviewParams
) -> tuple[PageRows, npt.NDArray[np.int64]]:
    """The rows of a list and their neighbors, and their numbers."""
    wanted = np.concatenate([desk.queue["row"], desk.queue["neighbor"].ravel()])
    report = trained.report
    names = list(report.config.feature_names)
    wanted = wanted[wanted >= 0]
    n_rows, place = report.n_source_rows, None
    if n_rows > report.n_rows:
        place = places(Pool(trained.run, "pool", report.n_rows, report.n_features), wanted)
    shown = None if params.show or params.image_shape else _source_of(trained, n_rows)
    rows = PageRows(
        trained.run, names, n_rows, report.label_name, report.config.id_name, shown, place
    )
    return rows, wanted


def _export_tasks(trained: Trained, desk: Desk, params: ReviewParams, target: str) -> int:
    """Write the questions that are open as tasks of Label Studio; how many."""
    from flows.review.desk import Filters

    rows, numbers = _rows(trained, desk, params)
    exhibit, pool = exhibit_of(rows, params), trained.run.group("pool")
    if exhibit.shown is not None:
        exhibit.shown.read(numbers)
    names = [None if label is None else str(label) for label in (*desk.labels, None)]
    tasks = []
    for card in desk.next(desk.left(), "tasks", Filters()):
        row = card["row"]
        content = exhibit.of([row], with_features=True)[row]
        values = content.pop("cells", None) or content.pop("features")
        columns = zip(exhibit.columns or rows.feature_names, values, strict=False)
        task = {
            **content,
            "row": row,
            "given": names[card["given"]],
            "likely": names[card["likely"]],
            "wrong": card["wrong"],
            "columns": dict(list(columns)[:TASK_COLUMNS]),
            "nearest": {
                f"row {one['row']:,}": f"{names[one['label']]}, at {one['distance']:g}"
                for one in card["neighbors"]
            },
        }
        if "image" in content and exhibit.shown is not None:
            task["image"] = exhibit.shown.address(row)
        if pool is not None and "id" in pool:
            at = row if rows.place is None else rows.place[row]
            task["row_id"] = str(pick(trained.run, "pool", "id", np.array([at]))[0])
        tasks.append(task)
    origin = desk.file.answers.origin
    assert origin is not None
    write_tasks(target, tasks, desk.labels, origin)
    return len(tasks)


def _source_of(trained: Trained, n_rows: int) -> Shown | None:
    """The table that was trained on, to be shown as it stands, if it is there and the same."""
    from flows.report.rows import Shown

    config = trained.report.config
    if config.health is None:
        return None
    try:
        source = trained.stored(config.health.source, lambda as_then: as_then)
        return Shown(config.health.source, None, n_rows, None, source.dialect)
    except KnnoiseError:  # gone, changed, elsewhere, or no table
        return None


def review_text(result: dict[str, Any]) -> str:
    """What a person reads at the end."""
    if "imported" in result:
        return f"{result['imported']:,} labels taken over into {result['answers']}\n"
    if "tasks" in result:
        return f"{result['tasks']:,} tasks written, their labeling configuration beside them\n"
    if "exported" in result:
        return f"{result['exported']:,} answers written\n"
    measured = result["measured"]
    return "\n".join(
        [
            *measured["sentences"],
            f"{measured['n_labels']:,} labels known; train with them: "
            f"knnoise train ... --corrections {result['answers']}",
            "",
        ]
    )
