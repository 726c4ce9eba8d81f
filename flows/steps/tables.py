"""A group of the results, in source order → a table beside them."""

from __future__ import annotations

from collections.abc import Sequence

from flows.engine.job import Job, Output
from flows.engine.results import LabelValue
from storage.arrays.schema import GROUPS
from storage.export import write_table
from storage.runs.run import Run

LABEL_ISSUES = "label_issues.parquet"


def export(
    job: Job, step: str, path: str, target: str, classes: Sequence[LabelValue], kind: str = ""
) -> None:
    """Write the file `target` of the group `path`, whose columns are those of its `kind` in the
    schema, by default that of the same name; `classes` are the labels in the order of their
    codes."""

    def write(run: Run) -> Output:
        columns = tuple(GROUPS[kind or path])
        write_table(run, path, run.location.path(target), columns, ids="pool", classes=classes)
        return Output([target])

    job.once(step, write)
