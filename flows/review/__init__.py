"""Reviewing: a finished training's suspect labels on a page, where people answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from flows.engine.progress import Reporter
from flows.options.params import ReviewParams
from flows.orchestration.prefect_flow import computes
from flows.orchestration.run_folders import latest
from flows.report.review import LOG, share_wrong
from flows.review.desk import Desk, Filters
from flows.review.labelstudio import TASKS, read_tasks, write_tasks
from flows.review.prepare import prepared
from flows.review.source import Exhibit, SourceTable, exhibit_of
from flows.review.tables import export_answers, labels_to_import
from flows.scorings.scored import Trained
from flows.steps.graph.lookup import ids_of, pick, places
from pipeline.arrays import Int64
from storage.answers import Answer, AnswersFile, Asked, Origin
from storage.arrays.groups import read_group
from storage.errors import InputError, amount, listed, shown
from storage.export import check_target
from storage.runs.run import Run
from storage.sources.ids import StoredIds
from storage.sources.values.labels import Label

SHOWN = 5
"""Rows that a text names."""
TASK_COLUMNS = 100
"""Columns of a row that a task has; a table of more cannot be read."""


@computes(ReviewParams, name="review")
def run_review(params: ReviewParams) -> dict[str, Any]:
    """Let people check a finished training's suspect labels on a page of this host.

    Returns:
        what the answers measure, once the page is closed
    """
    if params.export_to is not None:
        if params.import_from is not None:
            raise InputError("--export-to and --import-from: give one of them")
        check_target(params.export_to, other=TASKS, inputs=[params.answers])
    if params.port and (params.export_to or params.import_from) is not None:
        raise InputError("--port is for the page: leave it out")
    trained = Trained.of(latest(params.run))
    if params.export_to is not None:
        trained.check_apart(params.export_to)
    reporter = Reporter(quiet=params.quiet)
    report = trained.report
    file = open_answers(trained.run, report.label_values, report.n_source_rows, params.answers)
    if params.export_to is None and not os.access(file.path, os.W_OK):
        raise InputError(f"{file.path}: read-only, and answers are kept in it; give --answers FILE")
    ids = StoredIds.of(trained.run.group("pool"))
    if params.import_from is not None:
        n, other = take(file, params.import_from, ids=ids, trained=trained)
        return {"answers": str(file.path), "imported": n, "changed_rows": other, "measured": None}
    if params.export_to is not None and not params.export_to.lower().endswith(TASKS):
        n = export_answers(file, params.export_to, ids)
        return {"answers": str(file.path), "exported": n, "measured": None}
    run = prepared(trained, params, reporter)
    desk = desk_of(trained, run, file, params.budget)
    exhibit, rows = _exhibit(trained, desk, params, reporter)
    if params.export_to is not None:
        n = _export_tasks(trained, desk, exhibit, rows, params.export_to)
        return {"answers": str(file.path), "tasks": n, "measured": None}
    from flows.review.server import Page

    with Page(exhibit, desk, params) as page:
        exhibit.read(rows)
        page.wait()
    return {"answers": str(file.path), "measured": desk.measured().as_json()}


def open_answers(
    run: Run, labels: Iterable[Label], n_rows: int, path: str | None = None
) -> AnswersFile:
    """The answers on a run's rows, by default those kept with it.

    Raises `InputError` where they are on other rows, or not on this host, and `StorageError` where
    they are damaged.
    """
    name = run.location.name.rsplit("/", 1)[-1]
    origin = Origin.of_config(run.config(), tuple(labels), n_rows, name)
    return AnswersFile.open(path or run.location.path(LOG), origin)


def take(
    file: AnswersFile,
    path: str,
    why: str = "imported",
    overrule: bool = True,
    ids: StoredIds | None = None,
    trained: Trained | None = None,
) -> tuple[int, list[int]]:
    """Keep the labels of a table as answers, but those that are known; how many were new, and the
    rows where the same person had given another label, in the table or before.

    ids : those of the rows, by which lines are matched that have them
    trained : knows the labels that the rows have; none where labels are bought

    Raises `InputError` where they may not `overrule`, and a row has another label by others.
    """
    origin = file.answers.origin
    assert origin is not None
    revoked: list[int] = []
    if path.lower().endswith(TASKS):
        labels_read = read_tasks(path, origin)
    else:
        matched = None if ids is None else ids.to_match()
        rows, revoked = labels_to_import(path, origin, matched)
        labels_read = [*rows]
    new: dict[tuple[int, str], Label | None] = {}
    by_row: dict[int, dict[str, Label | None]] = {}
    changed: set[int] = set()
    for row, reviewer, label in labels_read:
        labels = by_row.setdefault(row, file.answers.of_row(row).labels)
        if reviewer in labels and labels[reviewer] == label:
            continue
        for who, other in () if overrule else labels.items():
            if who != reviewer and other not in (None, label):
                raise InputError(
                    f"{path}: row {row:,} is {shown(label)} here and {shown(other)} by "
                    f"{shown(who)}; keep one, or change that by a line with {shown(who)} as its "
                    "`reviewer`"
                )
        if labels.get(reviewer) is not None:
            changed.add(row)
        labels[reviewer] = new[row, reviewer] = label
    had = {} if trained is None else _given_labels(trained, [row for row, _ in new])
    n = keep(file, [(row, who, label) for (row, who), label in new.items()], why, had)
    return n, sorted(changed | ({*revoked} & {row for row, _ in new}))


def _given_labels(trained: Trained, rows: list[int]) -> dict[int, Label]:
    """The labels that rows of the source have in a training, but those that were left out of it."""
    pool, labels = trained.pool(), trained.report.label_values
    place = places(pool, np.array(rows, np.int64))
    codes = pick(trained.run, pool.path, "y", np.array([*place.values()], np.int64))
    return {row: labels[code] for row, code in zip(place, codes.tolist(), strict=True)}


def keep(
    file: AnswersFile,
    labels: list[tuple[int, str, Label | None]],
    why: str = "imported",
    had: Mapping[int, Label] = MappingProxyType({}),
) -> int:
    """Keep labels that were given elsewhere, of row and reviewer; how many are new.

    had : the labels that rows had before, of those where it is known
    """
    return file.add(
        *(
            Answer.now([Asked(row, had.get(row), why, False)], label, reviewer)
            for row, reviewer, label in labels
        )
    )


def desk_of(trained: Trained, run: Run, file: AnswersFile, budget: int) -> Desk:
    """The list of a review and its answers."""
    queue = read_group(run.store, "review")
    expected = share_wrong(trained.report)
    return Desk(queue, file, list(trained.report.label_values), budget, expected)


def _exhibit(
    trained: Trained, desk: Desk, params: ReviewParams, reporter: Reporter
) -> tuple[Exhibit, Int64]:
    """What is shown of the rows of a list and their neighbors, and their numbers."""
    wanted = np.concatenate([desk.queue["row"], desk.queue["neighbor"].ravel()])
    wanted = wanted[wanted >= 0]
    n_rows = trained.report.n_source_rows
    place = places(trained.pool(), wanted) if n_rows > trained.report.n_rows else None
    source = None if params.show or params.image_shape else SourceTable.of(trained, wanted)
    if source is not None and source.trouble:
        reporter.say(source.trouble)
    return exhibit_of(trained.run, n_rows, params, source, place), wanted


def _export_tasks(trained: Trained, desk: Desk, exhibit: Exhibit, rows: Int64, target: str) -> int:
    """Write the questions that are open as tasks of Label Studio; how many."""
    exhibit.read(rows)
    names = [None if label is None else str(label) for label in (*desk.labels, None)]
    tasks = []
    for card in desk.next(desk.left(), "tasks", Filters()):
        row = card["row"]
        content = exhibit.of([row], with_features=True)[row]
        values = content.pop("cells", None) or content.pop("features", ())
        columns = zip(exhibit.columns or exhibit.names, values, strict=False)
        if values:
            content["columns"] = dict(list(columns)[:TASK_COLUMNS])
        task = {
            **content,
            "row": row,
            "given": names[card["given"]],
            "likely": names[card["likely"]],
            "wrong": card["wrong"],
            "nearest": {
                f"row {one['row']:,}": f"{names[one['label']]}, at {one['distance']:g}"
                for one in card["neighbors"]
            },
        }
        if exhibit.shown is not None and "image" in exhibit.shown.of(row):
            task["image"] = exhibit.shown.address(row)
        (own,) = ids_of(trained.run, np.array([exhibit.features.at(row)]))
        if own is not None:
            task["row_id"] = own
        tasks.append(task)
    origin = desk.file.answers.origin
    assert origin is not None
    write_tasks(target, tasks, desk.labels, origin)
    return len(tasks)


def review_text(result: dict[str, Any]) -> str:
    """What a person reads at the end."""
    if "imported" in result:
        rows, text = result["changed_rows"], ""
        if rows:
            which = f"row{'s' if len(rows) > 1 else ''} {listed(rows, SHOWN)}"
            text = f"{len(rows):,} of them in place of another by the same person ({which}): "
            text += "if the table is older than that answer, give it again\n"
        return f"{amount(result['imported'], 'label')} taken over into {result['answers']}\n{text}"
    if "tasks" in result:
        return f"{amount(result['tasks'], 'task')} written, with a labeling configuration\n"
    if "exported" in result:
        return f"{amount(result['exported'], 'answer')} written\n"
    measured = result["measured"]
    known = f"{amount(measured['n_labels'], 'label')} known"
    if measured["n_labels"]:
        known += f"; train with them: knnoise train ... --corrections {result['answers']}"
    return "\n".join([*measured["sentences"], known, ""])
