"""The tables of a run, as its page names and links them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from storage.files.location import Location
from storage.runs.run import Run

TABLES = {
    "label_issues.parquet": "quality and verdict of every given label",
    "data_issues.parquet": "outliers, duplicates and the value of every row",
    "unlabeled.parquet": "scores of the rows without a label",
    "report.json": "this report, for programs",
}


class File(NamedTuple):
    """A file of the run."""

    name: str
    what: str
    link: str | None
    """From the page; None where the page may be read without the run beside it."""


def files(run: Run, target: str) -> list[File]:
    """The files of a run that people open; linked from a page in the run's folder or above it."""
    page = Location.of(target)
    where = None
    if page.is_local and run.location.is_local:
        folder, home = Path(page.url).resolve().parent, Path(run.location.url).resolve()
        where = home.relative_to(folder) if home.is_relative_to(folder) else None
    return [
        File(name, what, None if where is None else quote((where / name).as_posix()))
        for name, what in TABLES.items()
        if run.location.exists(name)
    ]
