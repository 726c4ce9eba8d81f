"""The review list of a scheduled training: published for people, who may be waited for."""

from __future__ import annotations

from contextvars import copy_context
from threading import Event, Timer
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flows.engine.progress import Reporter
from flows.engine.tasks import flow_run_context
from flows.options.params import Compute, ReviewParams, TrainParams
from flows.report.review import FOLDER, LOG
from flows.review import keep, open_answers
from flows.review.prepare import prepared
from flows.review.tables import with_ids
from flows.scorings.scored import Trained
from flows.steps.graph.lookup import CORRECTIONS, source_rows
from storage.answers import AnswersFile
from storage.arrays.groups import read_array, read_group
from storage.errors import amount
from storage.export import write_columns
from storage.runs.run import Run
from storage.sources.ids import StoredIds

if TYPE_CHECKING:
    from storage.arrays.groups import Arrays

LIST = f"{FOLDER}/list.csv"
GRACE = 3600
"""Seconds that a pause lasts beyond its end, so that it never times out."""
SHOWN = 50
"""Rows of the artifact."""


def published(folder: Run, params: TrainParams, reporter: Reporter) -> str | None:
    """Publish the rows of a finished training that are most worth checking; the answers to train
    with again, None where nobody is waited for or nobody answered."""
    trained = Trained.of(folder.location.url)
    compute = params.model_dump(include=set(Compute.model_fields))
    request = ReviewParams.of(folder.location.url, budget=params.publish_review, **compute)
    queue = read_group(prepared(trained, request, reporter).store, "review")
    rows = _rows(queue, request.budget, [str(value) for value in trained.report.label_values])
    columns = {name: pa.array(of) for name, of in rows.items()}
    ids = StoredIds.of(folder.group("pool"))
    write_columns(folder.location.path(LIST), with_ids(columns, ids))
    reporter.say(f"{amount(request.budget, 'label')} to check: {folder.location.path(LIST)}")
    if flow_run_context() is not None:
        _tell(folder, rows, request.budget)
    if params.review_wait is None:
        return None
    _pause(params.review_wait, reporter)
    file = open_answers(folder, trained.report.label_values, trained.report.n_source_rows)
    n = sum(one.label is not None for one in file.answers.rows())
    reporter.say(f"{amount(n, 'label was', 'labels were')} checked")
    if n and params.corrections is not None:  # one file of corrections is read: those of before too
        _take_along(file, trained)
    return folder.location.path(LOG) if n else None


def _take_along(file: AnswersFile, trained: Trained) -> None:
    """Keep the labels that the training was corrected with, but those of rows answered since."""
    used = trained.run.group(CORRECTIONS)
    rows = source_rows(trained.run, read_array(used, "row")).tolist()
    known, who = trained.report.label_values, str(used.attrs["file"])
    given = zip(rows, read_array(used, "y").tolist(), strict=True)
    keep(file, [(row, who, known[code]) for row, code in given if row not in file.answers])


def _rows(queue: Arrays, n: int, labels: list[str]) -> dict[str, list[object]]:
    """The first rows of a list, most useful first; `label` is for whoever fills it in."""
    first = slice(0, n)
    return {
        "row": queue["row"][first].tolist(),
        "label": [None] * len(queue["row"][first]),
        "given_label": [labels[code] for code in queue["given_label"][first].tolist()],
        "likely_label": [labels[code] for code in queue["likely_label"][first].tolist()],
        "label_quality": np.round(queue["label_quality"][first], 4).tolist(),
    }


def _tell(folder: Run, rows: dict[str, list[object]], budget: int) -> None:
    """The list, as an artifact of the flow run."""
    from prefect.artifacts import create_markdown_artifact, create_table_artifact

    shown = {name: of[:SHOWN] for name, of in rows.items() if name != "label"}
    create_table_artifact(shown, "knnoise-review-list", "labels most worth checking")
    review = f"knnoise review --run {folder.location.name}"
    create_markdown_artifact(
        f"Answer with `{review} --budget {budget}`, or fill in the column `label` of "
        f"{folder.location.name}/{LIST} and take it in with `{review} --import-from FILE`. Then "
        "resume this flow run, if it is paused.\n",
        "knnoise-review",
        "how to check them",
    )


def _pause(seconds: float, reporter: Reporter) -> None:
    """Until somebody resumes the flow run; after some seconds this process does."""
    from prefect.flow_runs import pause_flow_run, resume_flow_run

    context = flow_run_context()
    assert context is not None
    assert context.flow_run is not None
    run, over = context.flow_run.id, Event()

    def resume() -> None:
        over.set()
        resume_flow_run(run)  # a pause that times out would end the flow run as failed

    reporter.say(f"paused until it is resumed, {seconds:,.0f} s at most")
    timer = Timer(seconds, copy_context().run, (resume,))
    timer.start()
    try:
        pause_flow_run(timeout=round(seconds) + GRACE, poll_interval=1, key="review")
    finally:
        timer.cancel()
    if over.is_set():
        reporter.say("nobody resumed it: going on")
